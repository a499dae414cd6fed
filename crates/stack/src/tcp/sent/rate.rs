//! Delivery rate (draft-ietf-ccwg-bbr section 4.1, same names where there are some): how fast the
//! path delivered between the sending of a segment and its acknowledgement. Each record carries the
//! counters as they stood when it left.

use core::time::Duration;

use gannet_base::Instant;

use super::super::congestion::RateSample;

/// What a record remembers: counters modulo 2^32, times as distances in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    /// P.delivered.
    delivered: u32,
    /// P.lost.
    lost: u32,
    /// P.tx_in_flight.
    pub(super) flight: u32,
    /// P.sent_time - P.first_sent_time.
    since_first: u32,
    /// P.sent_time - P.delivered_time.
    since_delivered: u32,
}

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// C.delivered and C.lost.
    delivered: u64,
    lost: u64,
    /// C.delivered_time.
    delivered_at: Instant,
    /// C.first_sent_time.
    first_sent: Instant,
    /// C.app_limited: what leaves until so much is delivered shows less than the path can; 0: off.
    starved_until: u64,
}

/// In place of `first_sent`: nobody asks for samples, records are not stamped.
const UNWANTED: Instant = Instant::FAR_FUTURE;

impl Rate {
    /// Octets delivered since the connection began.
    #[inline]
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Octets taken for lost since the connection began.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The first flight, or the first after idleness, begins.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        self.delivered_at = now;
        if self.first_sent != UNWANTED {
            self.first_sent = now;
        }
    }

    #[inline]
    pub(super) fn stamp(&mut self, now: Instant, flight: u32) -> Stamp {
        if self.first_sent == UNWANTED {
            return Stamp::default();
        }
        if self.first_sent == Instant::ZERO {
            self.first_sent = now;
        }
        Stamp {
            delivered: self.delivered as u32,
            lost: self.lost as u32,
            flight,
            since_first: micros(now, self.first_sent),
            since_delivered: micros(now, self.delivered_at),
        }
    }

    /// Whether samples are asked for.
    #[inline]
    pub(in crate::tcp) fn is_measured(&self) -> bool {
        self.first_sent != UNWANTED
    }

    /// Whether samples are asked for. What left before has none.
    pub(super) fn measure(&mut self, on: bool) {
        match (on, self.first_sent == UNWANTED) {
            (true, true) => self.first_sent = Instant::ZERO,
            (false, false) => self.first_sent = UNWANTED,
            _ => {}
        }
    }

    #[inline]
    pub(super) fn starve(&mut self, flight: u32) {
        self.starved_until = (self.delivered + u64::from(flight)).max(1);
    }

    #[inline]
    pub(super) fn is_starved(&self) -> bool {
        self.starved_until != 0
    }

    #[inline]
    pub(super) fn on_delivered(&mut self, bytes: u32, now: Instant) {
        if bytes > 0 {
            self.delivered += u64::from(bytes);
            self.delivered_at = now;
            if self.delivered > self.starved_until {
                self.starved_until = 0;
            }
        }
    }

    pub(super) fn on_lost(&mut self, bytes: u32) {
        self.lost += u64::from(bytes);
    }

    /// C.delivered - P.delivered.
    pub(super) fn delivered_since(&self, stamp: &Stamp) -> u32 {
        (self.delivered as u32).wrapping_sub(stamp.delivered)
    }

    /// C.lost - P.lost.
    pub(super) fn lost_since(&self, stamp: &Stamp) -> u32 {
        (self.lost as u32).wrapping_sub(stamp.lost)
    }

    /// The sample of an acknowledgement whose most recently sent record left then, with that stamp.
    /// (Of what was sent once it takes no less than a round trip: the acknowledging interval begins
    /// before the record left.)
    #[inline]
    pub(super) fn sample(
        &mut self,
        (sent_at, stamp): (Instant, Stamp),
        now: Instant,
        starved: bool,
    ) -> Option<RateSample> {
        if stamp.flight == 0 {
            return None; // not stamped: what leaves is in flight itself
        }
        self.first_sent = sent_at;
        let acknowledging = now.as_nanos().saturating_sub(sent_at.as_nanos())
            + u64::from(stamp.since_delivered) * 1000;
        let nanos = acknowledging.max(u64::from(stamp.since_first) * 1000);
        let delivered = u64::from(self.delivered_since(&stamp));
        if nanos == 0 {
            return None;
        }
        Some(RateSample {
            delivered,
            interval: Duration::from_nanos(nanos),
            prior_delivered: self.delivered.saturating_sub(delivered),
            tx_in_flight: stamp.flight,
            lost: u64::from(self.lost_since(&stamp)),
            app_limited: starved,
        })
    }
}

/// Microseconds from `then` to `now`, at most about an hour.
#[inline]
fn micros(now: Instant, then: Instant) -> u32 {
    let nanos = now.as_nanos().saturating_sub(then.as_nanos());
    u32::try_from(nanos / 1000).unwrap_or(u32::MAX)
}
