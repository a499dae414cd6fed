//! The groups of one link (RFC 3376 section 5, RFC 2236 section 6). The same for IPv6 (RFC 3810),
//! whose version 2 and 1 are the newest and the one before, so everything is written for any kind
//! of address.
//!
//! What changes is told at once and repeated, what is asked is answered after a random time, and
//! both are timers here: `change_at` for all groups, `general_at` for a general query, `answer_at`
//! for a query about one group.

use alloc::vec::Vec;
use core::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_wire::group_record::RecordKind;

/// Most groups of one link.
const GROUPS_MAX: usize = 256;
/// Time within which a change is repeated, by the newest version and by older ones.
const UNSOLICITED: Duration = Duration::from_secs(1);
const UNSOLICITED_OLD: Duration = Duration::from_secs(10);
/// What a querier is taken to have configured until it tells.
const ROBUSTNESS: u8 = 2;
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
const RESPONSE_INTERVAL: Duration = Duration::from_secs(10);

/// How old the oldest querier of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// IGMPv1: nothing is told about leaving.
    First,
    /// IGMPv2 (MLDv1): a message for each group.
    Second,
    /// IGMPv3 (MLDv2): records.
    Newest,
}

/// A query, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<A> {
    pub(crate) version: Version,
    /// `None`: all groups.
    pub(crate) group: Option<A>,
    pub(crate) within: Duration,
    /// What the querier told; 0 when it did not.
    pub(crate) robustness: u8,
    pub(crate) interval: Option<Duration>,
}

/// Something to tell about a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Say<A> {
    pub(crate) kind: RecordKind,
    pub(crate) group: A,
}

/// As many groups as one link may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug)]
struct Group<A> {
    address: A,
    /// How many sockets want it; 0: that it was left is still to be told.
    joined: u32,
    /// How often the last change is still to be told.
    changes: u8,
    answer_at: Option<Instant>,
}

/// The groups of one link.
#[derive(Debug)]
pub(crate) struct Membership<A> {
    groups: Vec<Group<A>>,
    change_at: Option<Instant>,
    general_at: Option<Instant>,
    robustness: u8,
    interval: Duration,
    /// Until when queriers of the first and of the second version count as present.
    first_until: Instant,
    second_until: Instant,
    version: Version,
    rng: Rng,
}

impl<A: Copy + Eq> Membership<A> {
    /// No groups.
    pub(crate) fn new(seed: u64) -> Self {
        Membership {
            groups: Vec::new(),
            change_at: None,
            general_at: None,
            robustness: ROBUSTNESS,
            interval: QUERY_INTERVAL,
            first_until: Instant::ZERO,
            second_until: Instant::ZERO,
            version: Version::Newest,
            rng: Rng::new(seed),
        }
    }

    /// The version that is spoken.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Whether anybody wants what is sent to the group.
    pub(crate) fn is_member(&self, group: A) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|g| g.address == group && g.joined > 0)
    }

    /// One socket more wants the group.
    pub(crate) fn join(&mut self, group: A) -> Result<(), Full> {
        let robustness = self.robustness;
        let full = self.groups.len() >= GROUPS_MAX;
        let known = self.groups.iter_mut().find(|g| g.address == group);
        match known {
            Some(known) if known.joined > 0 => {
                known.joined = known.joined.saturating_add(1);
                return Ok(());
            }
            Some(known) => (known.joined, known.changes) = (1, robustness),
            None if full => return Err(Full),
            None => self.groups.push(Group {
                address: group,
                joined: 1,
                changes: robustness,
                answer_at: None,
            }),
        }
        self.change_at = Some(Instant::ZERO);
        Ok(())
    }

    /// One socket less wants the group.
    pub(crate) fn leave(&mut self, group: A) {
        let robustness = self.robustness;
        let mut joined = self.groups.iter_mut().filter(|g| g.joined > 0);
        let Some(known) = joined.find(|g| g.address == group) else {
            return;
        };
        known.joined -= 1;
        if known.joined == 0 {
            (known.changes, known.answer_at) = (robustness, None);
            self.change_at = Some(Instant::ZERO);
        }
    }

    /// Who listens must know better now who tells: everything is told again.
    pub(crate) fn retell(&mut self) {
        let robustness = self.robustness;
        for group in self.groups.iter_mut().filter(|g| g.joined > 0) {
            group.changes = robustness;
            self.change_at = Some(Instant::ZERO);
        }
    }

    /// A router asks.
    pub(crate) fn asked(&mut self, now: Instant, asked: &Asked<A>) {
        if asked.robustness > 0 {
            self.robustness = asked.robustness;
        }
        if let Some(interval) = asked.interval {
            self.interval = interval;
        }
        let until = now + self.interval * u32::from(self.robustness) + RESPONSE_INTERVAL;
        match asked.version {
            Version::First => self.first_until = until,
            Version::Second => self.second_until = until,
            Version::Newest => {}
        }
        self.choose_version(now);
        //= https://www.rfc-editor.org/rfc/rfc3376#section-5.2
        //# When a system receives a Query, it does not respond immediately.
        match (asked.group, self.version) {
            (None, Version::Newest) => self.general(now, asked.within),
            (group, _) => {
                for index in 0..self.groups.len() {
                    let delay = self.random(asked.within);
                    let Some(known) = self.groups.get_mut(index).filter(|g| g.joined > 0) else {
                        continue;
                    };
                    let meant = group.is_none_or(|g| g == known.address);
                    let sooner = known.answer_at.is_none_or(|at| at > now + delay);
                    // A pending general answer that comes sooner covers it.
                    let covered = self.general_at.is_some_and(|at| at <= now + delay);
                    if meant && sooner && !covered {
                        known.answer_at = Some(now + delay);
                    }
                }
            }
        }
    }

    fn general(&mut self, now: Instant, within: Duration) {
        let at = now + self.random(within);
        if self.general_at.is_none_or(|pending| at < pending) {
            self.general_at = Some(at);
        }
    }

    /// Another host told that it is in the group: to routers of old versions that is enough.
    pub(crate) fn heard(&mut self, group: A) {
        if self.version == Version::Newest {
            return;
        }
        for known in self.groups.iter_mut().filter(|g| g.address == group) {
            known.answer_at = None;
        }
    }

    /// When [`Membership::poll`] has something to tell.
    pub(crate) fn due(&self) -> Option<Instant> {
        let answers = self.groups.iter().filter_map(|g| g.answer_at);
        answers.chain(self.change_at).chain(self.general_at).min()
    }

    /// Puts what is to be told by now into `says`.
    pub(crate) fn poll(&mut self, now: Instant, says: &mut Vec<Say<A>>) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        self.choose_version(now);
        if self.change_at.is_some_and(|at| at <= now) {
            self.tell_changes(now, says);
        }
        let general = self.general_at.take_if(|at| *at <= now).is_some();
        for group in self.groups.iter_mut().filter(|g| g.joined > 0) {
            let own = group.answer_at.is_some_and(|at| at <= now);
            if own || general {
                group.answer_at = None;
                says.push(Say {
                    kind: RecordKind::MODE_IS_EXCLUDE,
                    group: group.address,
                });
            }
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc3376#section-5.1
    //# To cover the possibility of the State-Change Report being missed by one or more multicast
    //# routers, it is retransmitted [Robustness Variable] - 1 more times, at intervals chosen at
    //# random from the range (0, [Unsolicited Report Interval]).
    fn tell_changes(&mut self, now: Instant, says: &mut Vec<Say<A>>) {
        let newest = self.version == Version::Newest;
        for group in self.groups.iter_mut().filter(|g| g.changes > 0) {
            let kind = match group.joined {
                0 => RecordKind::CHANGE_TO_INCLUDE,
                _ => RecordKind::CHANGE_TO_EXCLUDE,
            };
            // An old version's leave is told once.
            group.changes = match (newest, group.joined) {
                (false, 0) => 0,
                _ => group.changes - 1,
            };
            says.push(Say {
                kind,
                group: group.address,
            });
        }
        self.groups.retain(|g| g.joined > 0 || g.changes > 0);
        let more = self.groups.iter().any(|g| g.changes > 0);
        let within = if newest { UNSOLICITED } else { UNSOLICITED_OLD };
        self.change_at = more.then(|| now + self.random(within));
    }

    /// The version of the oldest querier that is present. When it changes, what was pending for the
    /// one before is forgotten.
    fn choose_version(&mut self, now: Instant) {
        let version = match () {
            () if now < self.first_until => Version::First,
            () if now < self.second_until => Version::Second,
            () => Version::Newest,
        };
        if version == self.version {
            return;
        }
        self.version = version;
        self.general_at = None;
        self.groups.retain(|g| g.joined > 0);
        for group in &mut self.groups {
            (group.changes, group.answer_at) = (0, None);
        }
        self.change_at = None;
    }

    #[cfg(test)]
    pub(super) fn groups_len(&self) -> usize {
        self.groups.len()
    }

    fn random(&mut self, below: Duration) -> Duration {
        let bound = u64::try_from(below.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.below(bound))
    }
}
