//! The arenas of other programs that this process has mapped.

use crate::arena::{Arena, HostId};
use crate::network::Network;
use crate::room::with_room;
use crate::service;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Arenas that stay mapped although no stream needs them: a client that comes back is met at once.
const KEPT: usize = 4;
/// Most arenas of other programs that are mapped at a time: each has an open stream.
pub(crate) const MAPPED_MAX: usize = 1024;
/// How long a call that does not block waits for the own carrier to say where a program's memory
/// is. It says so at once, unless it or the other program's carrier is stopped.
pub(crate) const SOON: Duration = Duration::from_millis(4);
/// After an answer that did not come so soon, how long no call waits again before it accepts.
const SLOW: Duration = Duration::from_secs(1);

/// What this process has mapped, by program.
#[derive(Debug)]
pub struct Peers {
    own: Arc<Arena>,
    network: Network,
    /// Of a program its carrier, of a carrier its program; 0 for none.
    partner: HostId,
    /// No carrier is asked: what is not known stays so.
    asks: bool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    all: Vec<(HostId, Weak<Arena>)>,
    recent: VecDeque<Arc<Arena>>,
    kept: Option<Arc<Arena>>,
    /// The carrier was slow: until when accepting calls do not wait for it.
    slow: Option<Instant>,
}

impl Peers {
    /// Knows the own arena only.
    pub fn new(own: Arc<Arena>, network: Network) -> Peers {
        Peers {
            own,
            network,
            partner: 0,
            asks: true,
            known: Mutex::default(),
        }
    }

    /// The same, of a program with its carrier, or of a carrier with its program.
    #[must_use]
    pub fn with_partner(self, partner: HostId) -> Peers {
        Peers { partner, ..self }
    }

    /// The same, of a carrier: it waits for no other, and knows what was put in alone.
    #[must_use]
    pub fn asking_none(self) -> Peers {
        Peers {
            asks: false,
            ..self
        }
    }

    /// Whether a carrier can be asked for what is not known.
    pub(crate) fn asks(&self) -> bool {
        self.asks
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
        // The first ones: there is room.
        let _ = self.add(arena);
    }

    /// The same, and says whether there was room. When another thread was faster its own counts.
    ///
    /// # Errors
    /// `NOBUFS`.
    pub(crate) fn add(&self, arena: Arc<Arena>) -> Result<Arc<Arena>, Errno> {
        self.known().add(arena)
    }

    /// The arena of `host`; asks the own carrier for it when it is not mapped yet, and waits for
    /// the answer some seconds.
    ///
    /// # Errors
    /// What the carrier says, or `CONNREFUSED` when there is none; `NOBUFS` when too many are
    /// mapped.
    pub fn get(&self, host: HostId) -> Result<Arc<Arena>, Errno> {
        self.get_within(host, service::PATIENCE)
    }

    /// As [`Peers::get`], for calls that do not block: the carrier has [`SOON`] to answer.
    ///
    /// # Errors
    /// `AGAIN` when it does not; else as there.
    pub(crate) fn get_soon(&self, host: HostId) -> Result<Arc<Arena>, Errno> {
        self.get_within(host, SOON)
    }

    /// As [`Peers::get_soon`], for calls that can leave the wait to the carrier: once it was slow
    /// they do not wait for it at all for a while, so that a program whose carrier is mute costs
    /// the calls that accept next to nothing.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn get_at_once(&self, host: HostId) -> Result<Arc<Arena>, Errno> {
        if let Some(arena) = self.find(host) {
            return Ok(arena);
        }
        let patience = match self.known().is_slow() {
            true => Duration::ZERO,
            false => SOON,
        };
        let found = self.get_within(host, patience);
        if !patience.is_zero() && found.as_ref().err() == Some(&Errno::AGAIN) {
            self.known().slow = Some(Instant::now() + SLOW);
        }
        found
    }

    fn get_within(&self, host: HostId, patience: Duration) -> Result<Arc<Arena>, Errno> {
        if let Some(arena) = self.find(host) {
            return Ok(arena);
        }
        if !self.asks {
            return Err(Errno::NOENT);
        }
        if patience.is_zero() {
            return Err(Errno::AGAIN);
        }
        let ask = || service::ask_for_arena(&self.network, self.own.host(), host, patience);
        let file = match ask() {
            Err(Errno::MFILE) => with_room(ask)?,
            other => other,
        }?;
        self.take_in(host, file)
    }

    /// The arena of `host`, if it is mapped.
    fn find(&self, host: HostId) -> Option<Arc<Arena>> {
        if host == self.own.host() {
            return Some(self.own.clone());
        }
        self.known().find(host)
    }

    /// Maps the memory of program `host`, which a carrier has handed out, unless it is mapped.
    ///
    /// # Errors
    /// `PROTO` when it is another program's, `NOBUFS` when too many are mapped; what `mmap` says.
    pub(crate) fn take_in(&self, host: HostId, file: impl AsFd) -> Result<Arc<Arena>, Errno> {
        if let Some(arena) = self.find(host) {
            return Ok(arena);
        }
        let arena = Arc::new(Arena::open(file, false)?);
        match arena.host() == host {
            true => self.add(arena),
            false => Err(Errno::PROTO),
        }
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

impl Known {
    fn find(&self, host: HostId) -> Option<Arc<Arena>> {
        let found = self.all.iter().find(|(h, _)| *h == host);
        found.and_then(|(_, weak)| weak.upgrade())
    }

    /// Adds an arena, or gives the one that another thread has added meanwhile.
    fn add(&mut self, arena: Arc<Arena>) -> Result<Arc<Arena>, Errno> {
        if let Some(before) = self.find(arena.host()) {
            return Ok(before);
        }
        self.prune();
        if self.all.len() >= MAPPED_MAX {
            // Those that no stream needs go first.
            self.recent.clear();
            self.prune();
        }
        if self.all.len() >= MAPPED_MAX {
            return Err(Errno::NOBUFS);
        }
        self.all.push((arena.host(), Arc::downgrade(&arena)));
        self.remember(arena.clone());
        Ok(arena)
    }

    fn prune(&mut self) {
        self.all.retain(|(_, weak)| weak.strong_count() > 0);
    }

    fn is_slow(&self) -> bool {
        self.slow.is_some_and(|until| Instant::now() < until)
    }

    fn remember(&mut self, arena: Arc<Arena>) {
        self.recent.push_back(arena);
        if self.recent.len() > KEPT {
            self.recent.pop_front();
        }
    }
}
