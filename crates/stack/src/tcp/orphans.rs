//! Connections that nobody holds any more: orphans, which still deliver what was written, and those
//! in TIME-WAIT. Peers decide how long they last, so their numbers are bounded (a peer that never
//! reads, or never closes, would otherwise collect them; Linux: `tcp_max_orphans`,
//! `tcp_max_tw_buckets`).

use alloc::collections::VecDeque;

use gannet_base::Instant;
use gannet_link::Driver;

use super::connection::{Connection, State};
use super::counters::TcpEvent;
use super::engine::Tcp;
use super::output;
use super::socket::TcpId;
use crate::ip::Ip;

/// As what a connection is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kept {
    /// Somebody holds it, or it is over.
    #[default]
    No,
    /// Its application has let go.
    Orphan,
    /// TIME-WAIT, without halves.
    TimeWait,
}

/// How many there are.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    orphans: usize,
    time_waits: usize,
    /// In the order they entered TIME-WAIT; some may have left it since.
    oldest: VecDeque<TcpId>,
}

impl Orphans {
    fn count(&mut self, kept: Kept) -> Option<&mut usize> {
        match kept {
            Kept::No => None,
            Kept::Orphan => Some(&mut self.orphans),
            Kept::TimeWait => Some(&mut self.time_waits),
        }
    }

    /// A connection counted as `was` is counted as `is` from now on.
    pub(super) fn change(&mut self, was: Kept, is: Kept) {
        if let Some(count) = self.count(was) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.count(is) {
            *count += 1;
        }
    }

    /// Asserts what must always hold; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn invariants(&self, orphans: usize, time_waits: usize) {
        assert_eq!((self.orphans, self.time_waits), (orphans, time_waits));
    }
}

pub(super) fn kept(conn: &Connection) -> Kept {
    match &conn.state {
        State::TimeWait(_) => Kept::TimeWait,
        State::Open(_) | State::Dormant(_) if !conn.is_closed() => Kept::Orphan,
        _ => Kept::No,
    }
}

impl Tcp {
    /// A connection that nobody holds changed.
    pub(super) fn settle_orphan<D: Driver>(&mut self, ip: &mut Ip<D>, index: u32) {
        let (Some(id), Some(entry)) = (self.table.id(index), self.table.at_mut(index)) else {
            return;
        };
        let is = kept(&entry.conn);
        let was = core::mem::replace(&mut entry.kept, is);
        if was == is {
            return;
        }
        self.orphans.change(was, is);
        if is == Kept::TimeWait {
            self.orphans.oldest.push_back(id);
            self.recycle(ip);
        }
    }

    /// Forgets the oldest in TIME-WAIT while there are too many.
    fn recycle<D: Driver>(&mut self, ip: &mut Ip<D>) {
        while let Some(&oldest) = self.orphans.oldest.front() {
            let entry = self.table.get(oldest);
            let waits = entry.is_some_and(|e| e.kept == Kept::TimeWait);
            if waits && self.orphans.time_waits <= self.config.time_wait_max {
                return;
            }
            self.orphans.oldest.pop_front();
            if waits {
                self.counters.add(TcpEvent::TimeWaitRecycled);
                self.forget(ip, oldest.index);
            }
        }
    }

    /// One more may have become an orphan: if that is too many it is reset.
    pub(super) fn limit_orphans<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId) {
        let entry = self.table.get(id);
        let too_many = self.orphans.orphans > self.config.orphans_max;
        if too_many && entry.is_some_and(|e| e.kept == Kept::Orphan) {
            self.counters.add(TcpEvent::TooManyOrphans);
            self.with(ip, now, id.index, |conn, cx| {
                output::send_reset(conn, cx);
                conn.fail(cx.ip, None);
            });
        }
    }
}
