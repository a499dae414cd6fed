//! How soon one may be sent again what was sent again before.
//!
//! Nothing is known of a retransmission before a round trip has passed: neither can it be
//! acknowledged, nor can SACK blocks show that what was sent after it arrived and it did not. So
//! within a round trip nothing is sent again twice, unless the time-out has expired in between
//! (RFC 6298), or it is the rescue of RFC 6675 section 4: one segment for each recovery, the last
//! of all that is not reported as received.

use core::time::Duration;
use std::collections::VecDeque;
use std::vec::Vec;

use gannet_base::Instant;

use crate::tcp::TcpInfo;

/// What one side has sent again.
pub(super) struct Resent {
    seed: u64,
    /// One way, never more than the path's.
    delay: Duration,
    /// Within the last round trip.
    recent: VecDeque<Again>,
    /// What the peer reported as received out of order, and when that can have arrived.
    reported: Vec<(u32, u32, Instant)>,
    /// Time-outs that had expired before the segments that are looked at now, at least.
    timeouts: u64,
    /// Recoveries entered when a rescue was last seen.
    rescued: u64,
}

struct Again {
    start: u32,
    end: u32,
    at: Instant,
    timeouts: u64,
}

impl Resent {
    pub(super) fn new(seed: u64, delay: Duration) -> Self {
        Resent {
            seed,
            delay,
            recent: VecDeque::new(),
            reported: Vec::new(),
            timeouts: 0,
            rescued: 0,
        }
    }

    /// The peer has sent a SACK block.
    pub(super) fn report(&mut self, start: u32, end: u32, at: Instant) {
        self.reported.push((start, end, at + self.delay));
    }

    /// The numbers from `start` to `end` were sent again at `at`, `max` being the first never sent.
    /// `info`: of the sender, at that time or later.
    pub(super) fn judge(
        &mut self,
        (start, end): (u32, u32),
        max: u32,
        at: Instant,
        info: &TcpInfo,
    ) {
        let round_trip = 2 * self.delay;
        let age = |again: &Again| at.saturating_duration_since(again.at);
        while self.recent.front().is_some_and(|a| age(a) >= round_trip) {
            self.recent.pop_front();
        }
        let mut earlier = self.recent.iter().filter(|a| {
            let same = a.start < end && start < a.end;
            same && info.timeouts == a.timeouts
        });
        if let Some(first) = earlier.next() {
            let rescue = info.fast_recoveries > self.rescued && self.is_last(end, max, at);
            assert!(
                rescue,
                "{start}..{end} of {max} at {at}: sent again {:?} ago, a round trip takes \
                 {round_trip:?}; seed {}",
                age(first),
                self.seed,
            );
            self.rescued = info.fast_recoveries;
        }
        self.recent.push_back(Again {
            start,
            end,
            at,
            timeouts: self.timeouts,
        });
    }

    /// Whether everything from `end` to `max` may be known as received.
    fn is_last(&self, end: u32, max: u32, at: Instant) -> bool {
        let mut known = end;
        while known < max {
            let further = self
                .reported
                .iter()
                .filter(|&&(start, end, arrived)| arrived <= at && start <= known && known < end);
            match further.map(|&(_, end, _)| end).max() {
                Some(end) => known = end,
                None => return false,
            }
        }
        true
    }

    /// All segments sent until now have been looked at.
    pub(super) fn judged(&mut self, info: &TcpInfo) {
        self.timeouts = info.timeouts;
    }
}
