//! The neighbours of IPv6: a bounded table with RFC 4861's states (section 7.3.2). Pure: decides
//! what to ask and what to believe; `ip/v6/discovery.rs` sends and receives.
//!
//! ```text
//!           lookup                advertised, solicited        30 s
//!  (none) ----------> Incomplete ----------------------> Reachable ----> Stale
//!                      | asked 3 times, silence           ^   solicited    | lookup
//!                      v                                  |                v
//!                    Failed <--------------------------- Probe <-------- Delay
//!                            asked 3 times, silence             5 s
//! ```
//! Beside ARP's table (`cache.rs`), not in it: there an unasked claim is refused, here it makes an
//! entry stale and the next packet checks it.

use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::MacAddr;
use hashbrown::HashMap;

use super::cache::Answer;
use crate::hash::{HashKey, KeyedState};
use crate::link::LinkId;

/// Most neighbours in all; Linux's `gc_thresh3`.
const ENTRIES_MAX: usize = 1024;
/// Solicitations from strangers are learnt only while the table is emptier than this.
const UNASKED_MAX: usize = ENTRIES_MAX / 2;
/// RFC 4861 section 10: MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT.
const SOLICITATIONS: u8 = 3;
/// RFC 4861 section 10: DELAY_FIRST_PROBE_TIME.
const DELAY: Duration = Duration::from_secs(5);
/// How long a failure is remembered.
const FAILED: Duration = Duration::from_secs(1);
/// An entry looked up within this time is in use and is not pushed out.
const IN_USE: Duration = Duration::from_secs(60);

const _: () = assert!(UNASKED_MAX < ENTRIES_MAX);

/// RetransTimer and ReachableTime (RFC 4861 section 6.3.2), as routers may set them.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Between solicitations.
    pub retrans: Duration,
    /// How long a neighbour counts as reachable after it was heard.
    pub reachable: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            retrans: Duration::from_secs(1),
            reachable: Duration::from_secs(30),
        }
    }
}

/// A solicitation to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicit {
    /// Where.
    pub link: LinkId,
    /// Whose station is wanted.
    pub target: Ipv6Addr,
    /// The station to ask; `None`: the solicited-node group.
    pub to: Option<MacAddr>,
}

/// What an advertisement says (RFC 4861 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The target's station, when it is told.
    pub mac: Option<MacAddr>,
    /// R
    pub router: bool,
    /// S
    pub solicited: bool,
    /// O
    pub overriding: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Incomplete { tries: u8, next: Instant },
    Reachable { until: Instant },
    Stale,
    Delay { until: Instant },
    Probe { tries: u8, next: Instant },
    Failed { until: Instant },
}

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    state: State,
    /// Zero while incomplete or failed.
    mac: MacAddr,
    router: bool,
    used: Instant,
}

/// All IPv6 neighbours of a host.
pub struct Discovery {
    table: HashMap<(LinkId, Ipv6Addr), Neighbour, KeyedState>,
    /// RetransTimer and ReachableTime.
    pub times: Times,
    /// No timer expires before this.
    deadline: Instant,
    epoch: u32,
    changed: bool,
}

impl Discovery {
    /// Nobody known.
    pub fn new(key: HashKey) -> Self {
        Discovery {
            table: HashMap::with_hasher(KeyedState::new(key)),
            times: Times::default(),
            deadline: Instant::FAR_FUTURE,
            epoch: 0,
            changed: false,
        }
    }

    /// Number of entries, at most 1,024.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nobody is known.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Changes whenever a station looked up before may be wrong now.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether anybody answered, was given up or may be asked again since the last call.
    pub fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Whether it is known, or not known not, that `address` answers: routers are chosen by it.
    pub fn seems_reachable(&self, link: LinkId, address: Ipv6Addr) -> bool {
        let entry = self.table.get(&(link, address));
        entry.is_none_or(|n| {
            !matches!(
                n.state,
                State::Failed { .. } | State::Incomplete { tries: 2.., .. }
            )
        })
    }

    /// The station of `address`, and a solicitation to be sent first, if any.
    pub fn lookup(
        &mut self,
        now: Instant,
        link: LinkId,
        address: Ipv6Addr,
    ) -> (Answer, Option<Solicit>) {
        let Some(entry) = self.table.get_mut(&(link, address)) else {
            if self.table.len() >= ENTRIES_MAX && !self.make_room(now) {
                return (Answer::Failed, None);
            }
            return self.ask_all(now, link, address);
        };
        entry.used = now;
        let ready = Answer::Ready(entry.mac);
        match entry.state {
            State::Incomplete { .. } => (Answer::Pending, None),
            State::Failed { until } if now < until => (Answer::Failed, None),
            State::Failed { .. } => self.ask_all(now, link, address),
            State::Reachable { until } if now < until => (ready, None),
            //= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
            //# The first time a node sends a packet to a neighbor whose entry is
            //# STALE, the sender changes the state to DELAY and sets a timer to
            //# expire in DELAY_FIRST_PROBE_TIME seconds.
            State::Reachable { .. } | State::Stale => {
                let until = now + DELAY;
                entry.state = State::Delay { until };
                self.deadline = self.deadline.min(until);
                (ready, None)
            }
            State::Delay { .. } | State::Probe { .. } => (ready, None),
        }
    }

    fn ask_all(
        &mut self,
        now: Instant,
        link: LinkId,
        target: Ipv6Addr,
    ) -> (Answer, Option<Solicit>) {
        let next = now + self.times.retrans;
        let state = State::Incomplete { tries: 1, next };
        self.deadline = self.deadline.min(next);
        let entry = Neighbour {
            state,
            mac: MacAddr::ZERO,
            router: false,
            used: now,
        };
        self.table.insert((link, target), entry);
        let to = None;
        (Answer::Pending, Some(Solicit { link, target, to }))
    }

    /// Nothing seems to arrive at `address`: it is asked whether it is still where it was. Returns
    /// the question, unless one is under way.
    pub fn suspect(&mut self, now: Instant, link: LinkId, target: Ipv6Addr) -> Option<Solicit> {
        let next = now + self.times.retrans;
        let entry = self.table.get_mut(&(link, target))?;
        match entry.state {
            State::Reachable { .. } | State::Stale | State::Delay { .. } => {}
            _ => return None,
        }
        entry.state = State::Probe { tries: 1, next };
        self.deadline = self.deadline.min(next);
        let to = Some(entry.mac);
        Some(Solicit { link, target, to })
    }

    /// Pushes out an entry that nobody used for a while.
    fn make_room(&mut self, now: Instant) -> bool {
        let idle = |n: &Neighbour| match n.state {
            State::Failed { .. } => true,
            State::Incomplete { .. } => false,
            _ => now >= n.used + IN_USE,
        };
        let oldest = self.table.iter().filter(|(_, n)| idle(n));
        let Some(key) = oldest.min_by_key(|(_, n)| n.used).map(|(k, _)| *k) else {
            return false;
        };
        self.table.remove(&key);
        true
    }

    /// A solicitation, or a message of a router, told the sender's station: an entry becomes stale
    /// unless it says so already. Whether it is known now.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.3
    //# If an entry already exists, and the cached link-layer address differs from the one in the
    //# received Source Link-Layer option, the cached address should be replaced by the received
    //# address, and the entry's reachability state MUST be set to STALE.
    pub fn heard_from(
        &mut self,
        now: Instant,
        link: LinkId,
        (source, mac): (Ipv6Addr, MacAddr),
        is_router: bool,
    ) -> bool {
        let room = self.table.len() < UNASKED_MAX;
        let Some(entry) = self.table.get_mut(&(link, source)) else {
            // strangers never push anybody out
            if room {
                let entry = Neighbour {
                    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
                    //# If a Neighbor Cache entry is created for the router, its reachability state
                    //# MUST be set to STALE as specified in Section 7.3.3.
                    state: State::Stale,
                    mac,
                    router: is_router,
                    used: now,
                };
                self.table.insert((link, source), entry);
            }
            return room;
        };
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.3
        //# If a Neighbor Cache entry already exists, its IsRouter flag MUST NOT be modified.
        entry.router |= is_router;
        let waited = matches!(entry.state, State::Incomplete { .. } | State::Failed { .. });
        if entry.mac != mac {
            entry.mac = mac;
            //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
            //# If a cache entry already exists and is updated with a different link-layer address,
            //# the reachability state MUST also be set to STALE.
            entry.state = State::Stale;
            self.changed |= waited;
            if !waited {
                self.epoch = self.epoch.wrapping_add(1);
            }
        }
        true
    }

    /// A neighbour advertisement (RFC 4861 section 7.2.5); whether packets may wait for what it
    /// told.
    pub fn advertised(
        &mut self,
        now: Instant,
        link: LinkId,
        target: Ipv6Addr,
        told: &Advertised,
    ) -> bool {
        let until = now + self.times.reachable;
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
        //# If no entry exists, the advertisement SHOULD be silently discarded.
        let Some(entry) = self.table.get_mut(&(link, target)) else {
            return false;
        };
        let reached = State::Reachable { until };
        if matches!(entry.state, State::Incomplete { .. } | State::Failed { .. }) {
            let Some(mac) = told.mac else {
                return false;
            };
            entry.mac = mac;
            //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
            //# - If the Solicited flag is set, the state of the entry MUST be set to REACHABLE.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.1
            //# Receipt of other Neighbor Discovery messages, such as Router Advertisements and
            //# Neighbor Advertisement with the Solicited flag set to zero, MUST NOT be treated as a
            //# reachability confirmation.
            entry.state = if told.solicited {
                reached
            } else {
                State::Stale
            };
            //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
            //# - The IsRouter flag in the cache entry MUST be set based on the Router flag in the
            //# received advertisement.
            entry.router = told.router;
            self.changed = true;
            return true;
        }
        let differs = told.mac.is_some_and(|mac| mac != entry.mac);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
        //# Otherwise, the received advertisement should be ignored and MUST NOT update the cache.
        if differs && !told.overriding {
            //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
            //# If the state of the entry is REACHABLE, set it to STALE, but do not update the entry
            //# in any other way.
            if let State::Reachable { .. } = entry.state {
                entry.state = State::Stale;
            }
            return false;
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
        //# If the Override flag is set, or the supplied link-layer address is the same as that in
        //# the cache, or no Target Link-Layer Address option was supplied, the received
        //# advertisement MUST update the Neighbor Cache entry as follows:
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
        //# - The link-layer address in the Target Link-Layer Address option MUST be inserted in the
        //# cache (if one is supplied and differs from the already recorded address).
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
        //# If the Solicited flag is zero and the link-layer address was updated with a different
        //# address, the state MUST be set to STALE.
        if let Some(mac) = told.mac.filter(|_| differs) {
            entry.mac = mac;
            entry.state = State::Stale;
            self.epoch = self.epoch.wrapping_add(1);
        }
        if told.solicited {
            entry.state = reached;
            self.changed = true;
        }
        entry.router = told.router;
        false
    }

    /// A router advertised itself: if it is known it is known to be one.
    pub fn mark_router(&mut self, link: LinkId, address: Ipv6Addr) {
        if let Some(entry) = self.table.get_mut(&(link, address)) {
            entry.router = true;
        }
    }

    /// Whether a neighbour is known, and known to be a host only.
    pub fn is_no_router(&self, link: LinkId, address: Ipv6Addr) -> bool {
        let entry = self.table.get(&(link, address));
        entry.is_some_and(|n| !n.router && n.mac != MacAddr::ZERO)
    }

    /// When [`Discovery::poll`] has something to do; `None`: nothing is waited for.
    pub fn next_timeout(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR_FUTURE).then_some(self.deadline)
    }

    /// Expired timers: questions to repeat go into `asks`, neighbours to give up into `failed`.
    pub fn poll(
        &mut self,
        now: Instant,
        asks: &mut Vec<Solicit>,
        failed: &mut Vec<(LinkId, Ipv6Addr)>,
    ) {
        if now < self.deadline {
            return;
        }
        let retrans = self.times.retrans;
        let mut deadline = Instant::FAR_FUTURE;
        for ((link, address), entry) in &mut self.table {
            let was = entry.state;
            match expire(entry, now, retrans) {
                Expired::Nothing => {}
                Expired::Ask(to) => asks.push(Solicit {
                    link: *link,
                    target: *address,
                    to,
                }),
                Expired::GaveUp => {
                    failed.push((*link, *address));
                    if !matches!(was, State::Incomplete { .. }) {
                        self.epoch = self.epoch.wrapping_add(1);
                    }
                    self.changed = true;
                }
            }
            match entry.state {
                // Whoever waits for it may ask again then.
                State::Failed { until } if now >= until => self.changed = true,
                State::Incomplete { next: at, .. }
                | State::Probe { next: at, .. }
                | State::Delay { until: at }
                | State::Failed { until: at } => deadline = deadline.min(at),
                State::Reachable { .. } | State::Stale => {}
            }
        }
        self.deadline = deadline;
        self.table
            .retain(|_, n| !matches!(n.state, State::Failed { until } if now >= until));
    }

    /// The link is gone, and its neighbours with it.
    pub fn forget(&mut self, link: LinkId) {
        self.table.retain(|(l, _), _| *l != link);
        self.epoch = self.epoch.wrapping_add(1);
    }
}

enum Expired {
    Nothing,
    Ask(Option<MacAddr>),
    GaveUp,
}

/// What an entry's timer, if it has expired, makes of it.
fn expire(entry: &mut Neighbour, now: Instant, retrans: Duration) -> Expired {
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
    //# Retransmissions MUST be rate-limited to at most one solicitation per neighbor every
    //# RetransTimer milliseconds.
    let next_try = now + retrans;
    let give_up = State::Failed {
        until: now + FAILED,
    };
    let (state, then) = match entry.state {
        State::Incomplete { tries, next } if now >= next => match tries < SOLICITATIONS {
            true => {
                let (tries, next) = (tries + 1, next_try);
                (State::Incomplete { tries, next }, Expired::Ask(None))
            }
            false => (give_up, Expired::GaveUp),
        },
        State::Delay { until } if now >= until => {
            let (tries, next) = (1, next_try);
            (State::Probe { tries, next }, Expired::Ask(Some(entry.mac)))
        }
        State::Probe { tries, next } if now >= next => match tries < SOLICITATIONS {
            true => {
                let (tries, next) = (tries + 1, next_try);
                (State::Probe { tries, next }, Expired::Ask(Some(entry.mac)))
            }
            false => (give_up, Expired::GaveUp),
        },
        _ => return Expired::Nothing,
    };
    entry.state = state;
    if let State::Failed { .. } = state {
        entry.mac = MacAddr::ZERO;
    }
    then
}
