//! The arenas of other programs that this process has mapped.

use crate::arena::{Arena, HostId};
use crate::network::Network;
use crate::{sandbox, service};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Arenas that stay mapped although no stream needs them: a client that comes back is met at once.
const KEPT: usize = 4;

/// What this process has mapped, by program.
#[derive(Debug)]
pub struct Peers {
    own: Arc<Arena>,
    network: Network,
    /// Of a program its carrier, of a carrier its program; 0 for none.
    partner: HostId,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    all: Vec<(HostId, Weak<Arena>)>,
    recent: VecDeque<Arc<Arena>>,
    kept: Option<Arc<Arena>>,
}

impl Peers {
    /// Knows the own arena only.
    pub fn new(own: Arc<Arena>, network: Network) -> Peers {
        Peers {
            own,
            network,
            partner: 0,
            known: Mutex::default(),
        }
    }

    /// The same, of a program with its carrier, or of a carrier with its program.
    #[must_use]
    pub fn with_partner(self, partner: HostId) -> Peers {
        Peers { partner, ..self }
    }

    /// Whether a stream that the program `host` opened may come from `ip`. A program and its
    /// carrier say to each other what the other end is; loopback addresses are common to all.
    pub(crate) fn may_come_from(&self, ip: IpAddr, host: HostId) -> bool {
        let is_ours = host == self.own.host() || host == self.partner && host != 0;
        let is_one = !ip.is_unspecified() && !ip.is_multicast();
        is_ours || is_one && (ip.is_loopback() || self.network.has_claimed(ip, host))
    }

    /// The own program's arena.
    pub fn own(&self) -> &Arc<Arena> {
        &self.own
    }

    /// The network all this happens in.
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an arena in whose memory is at hand already.
    pub fn insert(&self, arena: Arc<Arena>) {
        let mut known = self.known();
        known.all.retain(|(_, weak)| weak.strong_count() > 0);
        known.all.push((arena.host(), Arc::downgrade(&arena)));
        known.remember(arena);
    }

    /// The arena of `host`; asks the own carrier for it when it is not mapped yet.
    ///
    /// # Errors
    /// What the carrier says, or `CONNREFUSED` when there is none.
    pub fn get(&self, host: HostId) -> Result<Arc<Arena>, Errno> {
        if host == self.own.host() {
            return Ok(self.own.clone());
        }
        let mut known = self.known();
        let found = known.all.iter().find(|(h, _)| *h == host);
        if let Some(arena) = found.and_then(|(_, weak)| weak.upgrade()) {
            return Ok(arena);
        }
        drop(known);
        let ask = || service::ask_for_arena(&self.network, self.own.host(), host);
        let file = match ask() {
            Err(Errno::MFILE) => with_room(ask),
            other => other,
        }?;
        let arena = Arc::new(Arena::open(file, false)?);
        if arena.host() != host {
            return Err(Errno::PROTO);
        }
        known = self.known();
        known.all.retain(|(_, weak)| weak.strong_count() > 0);
        known.all.push((host, Arc::downgrade(&arena)));
        known.remember(arena.clone());
        Ok(arena)
    }

    /// As [`Peers::get`], and it stays mapped: who is going to meet `host` need not ask then, and
    /// neither need its children.
    ///
    /// # Errors
    /// As there.
    pub fn keep(&self, host: HostId) -> Result<(), Errno> {
        let arena = self.get(host)?;
        self.known().kept = Some(arena);
        Ok(())
    }

    /// Around a fork: nobody else is inside while this is held.
    pub fn quiesce(&self) -> impl Drop + '_ {
        Quiet(self.known())
    }
}

struct Quiet<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, Known>);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {}
}

/// Descriptors that meeting another program takes for a moment.
const FOR_A_MOMENT: u64 = 4;

/// Asks although the program has as many descriptors as it may: it does not know of this one, and
/// must not lose a connection by it. The limit that can be raised at will is raised meanwhile.
fn with_room<T>(ask: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let limit = getrlimit(Resource::Nofile);
    let (Some(current), false) = (limit.current, sandbox::is_on()) else {
        return Err(Errno::MFILE);
    };
    let more = current.saturating_add(FOR_A_MOMENT);
    let current = limit.maximum.map_or(more, |most| most.min(more));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(current),
            ..limit
        },
    )?;
    let asked = ask();
    let _ = setrlimit(Resource::Nofile, limit);
    asked
}

impl Known {
    fn remember(&mut self, arena: Arc<Arena>) {
        self.recent.push_back(arena);
        if self.recent.len() > KEPT {
            self.recent.pop_front();
        }
    }
}
