//! The bounded table of neighbours.
//!
//! ```text
//!            lookup                 answer              lookup after 30 s,
//!  (none) -----------> Incomplete ----------> Reachable ----------------> Probe (still used; asked
//!                          | asked 3 times,       ^       nothing arrives   | directly, then all
//!                          v silence              | answer                  | are asked)
//!                        Failed                   +-------------------------+--> Failed
//! ```
//! Only our own lookups may push another entry out, and only one that nobody used for a while: a
//! flood of claims from the network finds the table full and changes nothing.

use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::MacAddr;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as MapEntry;

use crate::hash::{HashKey, KeyedState};
use crate::link::LinkId;

/// Most neighbours in all; Linux's `gc_thresh3`.
const ENTRIES_MAX: usize = 1024;
/// Claims that we did not ask for are learnt only while the table is emptier than this.
const UNASKED_MAX: usize = ENTRIES_MAX / 2;
/// How long an answer is believed without a question; Linux's base reachable time.
const REACHABLE: Duration = Duration::from_secs(30);
/// Time between questions to one neighbour.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// Questions before giving up.
const ASK_TRIES: u8 = 3;
/// How long a failure is remembered.
const FAILED: Duration = Duration::from_secs(1);
/// An entry looked up within this time is in use and is not pushed out.
const IN_USE: Duration = Duration::from_secs(60);
/// A confirmed address is not moved to another station for this long; Linux's `locktime`.
const LOCKED: Duration = Duration::from_secs(1);

const _: () = assert!(UNASKED_MAX < ENTRIES_MAX);

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its station.
    Ready(MacAddr),
    /// It was asked.
    Pending,
    /// It does not answer.
    Failed,
}

/// A question to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where.
    pub link: LinkId,
    /// Whose station is wanted.
    pub target: Ipv4Addr,
    /// The station to ask; `None`: all.
    pub to: Option<MacAddr>,
}

/// How an address was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// In a reply.
    Reply,
    /// In a request for an address of ours: whoever asks will be answered, and talked to.
    RequestToUs,
    /// In a request for another address.
    Overheard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Incomplete {
        tries: u8,
        next: Instant,
    },
    Reachable {
        mac: MacAddr,
        since: Instant,
    },
    Probe {
        mac: MacAddr,
        tries: u8,
        next: Instant,
    },
    Failed {
        until: Instant,
    },
}

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    state: State,
    used: Instant,
}

/// All neighbours of a host.
pub struct Neighbours {
    table: HashMap<(LinkId, Ipv4Addr), Neighbour, KeyedState>,
    /// No timer expires before this.
    deadline: Instant,
    /// Changes whenever a station known before may be wrong now.
    epoch: u32,
    /// Somebody answered, was given up or may be asked again since [`Neighbours::take_changed`].
    changed: bool,
}

impl Neighbours {
    /// Nobody known.
    pub fn new(key: HashKey) -> Self {
        Neighbours {
            table: HashMap::with_hasher(KeyedState::new(key)),
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

    /// The station of `address`, and a question to be sent first, if any.
    pub fn lookup(
        &mut self,
        now: Instant,
        link: LinkId,
        address: Ipv4Addr,
    ) -> (Answer, Option<Ask>) {
        let ask = |to| Ask {
            link,
            target: address,
            to,
        };
        if let Some(entry) = self.table.get_mut(&(link, address)) {
            entry.used = now;
            let (answer, to) = match entry.state {
                //= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.1
                //# An implementation of the Address Resolution Protocol (ARP) [LINK:2] MUST provide
                //# a mechanism to flush out-of-date cache entries.
                State::Reachable { mac, since } if now < since + REACHABLE => {
                    return (Answer::Ready(mac), None);
                }
                State::Probe { mac, .. } => return (Answer::Ready(mac), None),
                //= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.1
                //# A mechanism to prevent ARP flooding (repeatedly sending an ARP Request for the
                //# same IP address, at a high rate) MUST be included.
                State::Incomplete { .. } => return (Answer::Pending, None),
                State::Failed { until } if now < until => return (Answer::Failed, None),
                State::Reachable { mac, .. } => {
                    entry.state = probe(mac, now);
                    (Answer::Ready(mac), Some(mac))
                }
                State::Failed { .. } => {
                    entry.state = incomplete(now);
                    (Answer::Pending, None)
                }
            };
            self.deadline = self.deadline.min(now + ASK_INTERVAL);
            return (answer, Some(ask(to)));
        }
        if self.table.len() >= ENTRIES_MAX && !self.make_room(now) {
            return (Answer::Failed, None);
        }
        let state = incomplete(now);
        let entry = Neighbour { state, used: now };
        self.table.insert((link, address), entry);
        self.deadline = self.deadline.min(now + ASK_INTERVAL);
        (Answer::Pending, Some(ask(None)))
    }

    /// Nothing seems to arrive at `address` (RFC 1122 section 2.3.2.1, way 4: advice from a higher
    /// layer): it is asked whether it is still where it was. Returns the question, unless one is
    /// under way.
    pub fn suspect(&mut self, now: Instant, link: LinkId, address: Ipv4Addr) -> Option<Ask> {
        let entry = self.table.get_mut(&(link, address))?;
        let State::Reachable { mac, .. } = entry.state else {
            return None;
        };
        entry.state = probe(mac, now);
        self.deadline = self.deadline.min(now + ASK_INTERVAL);
        Some(Ask {
            link,
            target: address,
            to: Some(mac),
        })
    }

    /// Pushes out an entry that nobody used for a while.
    fn make_room(&mut self, now: Instant) -> bool {
        let idle = |n: &Neighbour| match n.state {
            State::Failed { .. } => true,
            State::Incomplete { .. } => false,
            State::Reachable { .. } | State::Probe { .. } => now >= n.used + IN_USE,
        };
        let oldest = self.table.iter().filter(|(_, n)| idle(n));
        let Some(key) = oldest.min_by_key(|(_, n)| n.used).map(|(k, _)| *k) else {
            return false;
        };
        self.table.remove(&key);
        true
    }

    /// Somebody claims that `address` is at `mac`; whether the claim was believed.
    pub fn claimed(
        &mut self,
        now: Instant,
        link: LinkId,
        (address, mac): (Ipv4Addr, MacAddr),
        claim: Claim,
    ) -> bool {
        let room = self.table.len() < UNASKED_MAX;
        let reachable = State::Reachable { mac, since: now };
        match self.table.entry((link, address)) {
            MapEntry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                let (believed, before) = match entry.state {
                    State::Incomplete { .. } => (!planted!(ArpReplyIgnored), None),
                    State::Probe { mac: old, .. } => {
                        (claim == Claim::Reply || old != mac, Some(old))
                    }
                    State::Failed { .. } => (claim != Claim::Reply, None),
                    State::Reachable { mac: old, since } => {
                        let moved = old != mac && now >= since + LOCKED;
                        (moved && claim != Claim::Reply, Some(old))
                    }
                };
                if believed {
                    entry.state = reachable;
                    self.changed = true;
                    if before.is_some_and(|old| old != mac) {
                        self.epoch = self.epoch.wrapping_add(1);
                    }
                }
                believed
            }
            MapEntry::Vacant(entry) if room && claim == Claim::RequestToUs => {
                entry.insert(Neighbour {
                    state: reachable,
                    used: now,
                });
                true
            }
            MapEntry::Vacant(_) => false,
        }
    }

    /// When [`Neighbours::poll`] has something to do; `None`: nothing is waited for.
    pub fn next_timeout(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR_FUTURE).then_some(self.deadline)
    }

    /// Expired timers: questions to repeat go into `asks`, neighbours to give up into `failed`.
    pub fn poll(
        &mut self,
        now: Instant,
        asks: &mut Vec<Ask>,
        failed: &mut Vec<(LinkId, Ipv4Addr)>,
    ) {
        if now < self.deadline {
            return;
        }
        let mut deadline = Instant::FAR_FUTURE;
        for ((link, address), entry) in &mut self.table {
            let (tries, next, known) = match &mut entry.state {
                State::Incomplete { tries, next } => (tries, next, false),
                State::Probe { tries, next, .. } => (tries, next, true),
                State::Failed { until } => {
                    // Whoever waits for it may ask again then.
                    self.changed |= now >= *until;
                    if now < *until {
                        deadline = deadline.min(*until);
                    }
                    continue;
                }
                State::Reachable { .. } => continue,
            };
            if now < *next {
                deadline = deadline.min(*next);
            } else if *tries >= ASK_TRIES {
                let until = now + FAILED;
                entry.state = State::Failed { until };
                deadline = deadline.min(until);
                failed.push((*link, *address));
                if known {
                    self.epoch = self.epoch.wrapping_add(1);
                }
                self.changed = true;
            } else {
                *tries += 1;
                *next = now + ASK_INTERVAL;
                deadline = deadline.min(*next);
                // Not at its old station: perhaps at another.
                asks.push(Ask {
                    link: *link,
                    target: *address,
                    to: None,
                });
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

fn incomplete(now: Instant) -> State {
    State::Incomplete {
        tries: 1,
        next: now + ASK_INTERVAL,
    }
}

fn probe(mac: MacAddr, now: Instant) -> State {
    State::Probe {
        mac,
        tries: 1,
        next: now + ASK_INTERVAL,
    }
}
