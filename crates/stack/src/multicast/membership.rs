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
use gannet_wire::group_record::{GroupAddress, RecordKind};

/// Most groups of one link.
const GROUPS_MAX: usize = 256;
/// Most sources of one group that are told (Linux's `igmp_max_msf`).
pub(crate) const SOURCES_MAX: usize = 10;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Say<A> {
    pub(crate) kind: RecordKind,
    pub(crate) group: A,
    pub(crate) sources: Vec<A>,
}

impl<A: GroupAddress> Say<A> {
    /// Whether nobody wants the group any more.
    pub(crate) fn leaves(&self) -> bool {
        self.kind == RecordKind::CHANGE_TO_INCLUDE && self.sources.is_empty()
    }

    /// Bytes of its record.
    fn len(&self) -> usize {
        4 + A::LEN * (1 + self.sources.len())
    }

    /// The first of `says` whose records fit into `room` bytes, those bytes, and the rest.
    pub(crate) fn part(says: &[Self], room: usize) -> (&[Self], usize, &[Self]) {
        let (mut count, mut len) = (0, 0);
        for say in says {
            if len + say.len() > room && count > 0 {
                break;
            }
            (count, len) = (count + 1, len + say.len());
        }
        let (now, later) = says.split_at_checked(count).unwrap_or((says, &[]));
        (now, len, later)
    }
}

/// As many groups as one link may have, or sources of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug)]
struct Group<A> {
    address: A,
    /// How many sockets want it from every source.
    joined: u32,
    /// The sources that others want, and how many do. None, and nobody joined: that it was left is
    /// still to be told.
    sources: Vec<(A, u32)>,
    /// How often the last change is still to be told.
    changes: u8,
    answer_at: Option<Instant>,
}

impl<A: Copy> Group<A> {
    fn new(address: A) -> Self {
        Group {
            address,
            joined: 0,
            sources: Vec::new(),
            changes: 0,
            answer_at: None,
        }
    }

    fn is_wanted(&self) -> bool {
        self.joined > 0 || !self.sources.is_empty()
    }

    /// What is to be told of it. While somebody wants it from every source, single ones do not
    /// matter.
    fn say(&self, all: RecordKind, single: RecordKind) -> Say<A> {
        //= https://www.rfc-editor.org/rfc/rfc3376#section-3.2
        //# An implementation MUST NOT use an EXCLUDE interface record to represent a group when all
        //# sockets for this group are in INCLUDE state.
        //= https://www.rfc-editor.org/rfc/rfc3810#section-4.2
        //# An implementation MUST NOT use an EXCLUDE interface record for a multicast address if
        //# all sockets for this multicast address are in INCLUDE state.
        let (kind, sources) = match self.joined {
            0 => (single, self.sources.iter().map(|s| s.0).collect()),
            _ => (all, Vec::new()),
        };
        let group = self.address;
        Say {
            kind,
            group,
            sources,
        }
    }
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
        groups.any(|g| g.address == group && g.is_wanted())
    }

    /// One socket more wants the group, from every source.
    pub(crate) fn join(&mut self, group: A) -> Result<(), Full> {
        let known = self.known(group)?;
        known.joined = known.joined.saturating_add(1);
        if known.joined == 1 {
            self.changed(group);
        }
        Ok(())
    }

    /// One socket less wants the group.
    pub(crate) fn leave(&mut self, group: A) {
        let mut joined = self.groups.iter_mut().filter(|g| g.joined > 0);
        let Some(known) = joined.find(|g| g.address == group) else {
            return;
        };
        known.joined -= 1;
        if known.joined == 0 {
            self.changed(group);
        }
    }

    /// One socket more wants what `source` sends to the group.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-3.2
    //# If system resource limits are reached when an interface state source list is calculated, an
    //# error MUST be returned to the application which requested the operation.
    pub(crate) fn join_source(&mut self, group: A, source: A) -> Result<(), Full> {
        let known = self.known(group)?;
        if let Some((_, count)) = known.sources.iter_mut().find(|s| s.0 == source) {
            *count = count.saturating_add(1);
            return Ok(());
        }
        //= https://www.rfc-editor.org/rfc/rfc3810#section-4.2
        //# If system resource limits are reached when a per-interface state source list is
        //# calculated, an error MUST be returned to the application which requested the operation.
        //= https://www.rfc-editor.org/rfc/rfc3376#section-2
        //# When an operation causes the source list size limit to be exceeded, the service
        //# interface MUST return an error.
        if known.sources.len() >= SOURCES_MAX {
            return Err(Full);
        }
        known.sources.push((source, 1));
        if known.joined == 0 {
            self.changed(group);
        }
        Ok(())
    }

    /// One socket less wants it.
    pub(crate) fn leave_source(&mut self, group: A, source: A) {
        let Some(known) = self.groups.iter_mut().find(|g| g.address == group) else {
            return;
        };
        let Some(at) = known.sources.iter().position(|s| s.0 == source) else {
            return;
        };
        if let Some((_, count)) = known.sources.get_mut(at) {
            *count -= 1;
            if *count > 0 {
                return;
            }
        }
        known.sources.swap_remove(at);
        if known.joined == 0 {
            self.changed(group);
        }
    }

    /// The group, which may be new.
    fn known(&mut self, group: A) -> Result<&mut Group<A>, Full> {
        let at = self.groups.iter().position(|g| g.address == group);
        let full = self.groups.len() >= GROUPS_MAX;
        let at = match at {
            Some(at) => at,
            None if full => return Err(Full),
            None => {
                self.groups.push(Group::new(group));
                self.groups.len() - 1
            }
        };
        self.groups.get_mut(at).ok_or(Full)
    }

    /// Another filter is to be told.
    fn changed(&mut self, group: A) {
        let robustness = self.robustness;
        for known in self.groups.iter_mut().filter(|g| g.address == group) {
            known.changes = robustness;
            if !known.is_wanted() {
                known.answer_at = None;
            }
        }
        self.change_at = Some(Instant::ZERO);
    }

    /// Who listens must know better now who tells: everything is told again.
    pub(crate) fn retell(&mut self) {
        let robustness = self.robustness;
        for group in self.groups.iter_mut().filter(|g| g.is_wanted()) {
            group.changes = robustness;
            self.change_at = Some(Instant::ZERO);
        }
    }

    /// A router asks.
    pub(crate) fn asked(&mut self, now: Instant, asked: &Asked<A>) {
        //= https://www.rfc-editor.org/rfc/rfc2236#section-8.1
        //# The Robustness Variable MUST NOT be zero, and SHOULD NOT be one.
        if asked.robustness > 0 {
            self.robustness = asked.robustness;
        }
        if let Some(interval) = asked.interval {
            self.interval = interval;
        }
        //= https://www.rfc-editor.org/rfc/rfc2236#section-8.4
        //# This value MUST be ((the Robustness Variable) times (the Query Interval)) plus (one
        //# Query Response Interval).
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
                    let Some(known) = self.groups.get_mut(index).filter(|g| g.is_wanted()) else {
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

    //= https://www.rfc-editor.org/rfc/rfc3810#section-6.3
    //# Note that any such implementation MUST avoid the "ack-implosion" problem, i.e., MUST NOT
    //# send a Report immediately upon reception of a General Query.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-5.2
    //# Note that any such implementation MUST avoid the "ack-implosion" problem, i.e., MUST NOT
    //# send a Report immediately on reception of a General Query.
    fn general(&mut self, now: Instant, within: Duration) {
        let at = now + self.random(within);
        if self.general_at.is_none_or(|pending| at < pending) {
            self.general_at = Some(at);
        }
    }

    /// Another host told that it is in the group: to routers of old versions that is enough.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-5
    //# The host MUST allow its Membership Report to be suppressed by either a Version 1 Membership
    //# Report or a Version 2 Membership Report.
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
        for group in self.groups.iter_mut().filter(|g| g.is_wanted()) {
            let own = group.answer_at.is_some_and(|at| at <= now);
            if own || general {
                group.answer_at = None;
                let (all, single) = (RecordKind::MODE_IS_EXCLUDE, RecordKind::MODE_IS_INCLUDE);
                says.push(group.say(all, single));
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
            // An old version's leave is told once.
            group.changes = match (newest, group.is_wanted()) {
                (false, false) => 0,
                _ => group.changes - 1,
            };
            // (a list that has changed is told whole: TO_IN says all that ALLOW and BLOCK could)
            let (all, single) = (RecordKind::CHANGE_TO_EXCLUDE, RecordKind::CHANGE_TO_INCLUDE);
            says.push(group.say(all, single));
        }
        self.groups.retain(|g| g.is_wanted() || g.changes > 0);
        let more = self.groups.iter().any(|g| g.changes > 0);
        let within = if newest { UNSOLICITED } else { UNSOLICITED_OLD };
        self.change_at = more.then(|| now + self.random(within));
    }

    /// The version of the oldest querier that is present. When it changes, what was pending for the
    /// one before is forgotten.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-8.2.1
    //# In order to be compatible with MLDv1 routers, MLDv2 hosts MUST operate in version 1
    //# compatibility mode.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-8.2.1
    //# MLDv2 hosts MUST keep state per local interface regarding the compatibility mode of each
    //# attached link.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
    //# In order to be compatible with older version routers, IGMPv3 hosts MUST operate in version 1
    //# and version 2 compatibility modes.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
    //# IGMPv3 hosts MUST keep state per local interface regarding the compatibility mode of each
    //# attached network.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-4
    //# Therefore, a state variable MUST be kept for each interface, describing whether the
    //# multicast Querier on that interface is running IGMPv1 or IGMPv2.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-4
    //# This variable MUST be based upon whether or not an IGMPv1 query was heard in the last
    //# [Version 1 Router Present Timeout] seconds, and MUST NOT be based upon the type of the last
    //# Query heard.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-4
    //# This state variable MUST be used to decide what type of Membership Reports to send for
    //# unsolicited Membership Reports as well as Membership Reports in response to Queries.
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
        self.groups.retain(Group::is_wanted);
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
