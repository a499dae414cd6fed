//! RACK (RFC 8985 section 6): which transmission is known to have arrived last, and how long others
//! may still be on their way. What was sent stands in `sent.rs`; nothing here knows a segment.
//!
//! With no reordering seen this is RFC 6675: three segments SACKed mean loss at once. With some
//! seen only time means loss.

use core::time::Duration;

use gannet_base::Instant;

use super::rtt::RttEstimator;
use super::sent::{Delivery, Waiting, sent_after};
use super::seq::SeqNum;

/// Loss recoveries during which a widened reordering window is kept.
const PERSIST: u8 = 16;

/// Per-connection variables of RFC 8985 section 5.3.
#[derive(Clone, Debug)]
pub struct Rack {
    /// RACK.xmit_ts, RACK.end_seq, RACK.rtt; nothing delivered yet: `None`.
    latest: Option<Latest>,
    fack: SeqNum,
    reordering_seen: bool,
    dsack_round: Option<SeqNum>,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
}

/// RACK.segment: of what is delivered, what was sent last.
#[derive(Clone, Copy, Debug)]
pub struct Latest {
    /// RACK.xmit_ts.
    pub at: Instant,
    /// RACK.end_seq.
    pub end: SeqNum,
    /// RACK.rtt.
    pub rtt: Duration,
    /// It had been sent before.
    pub resent: bool,
}

impl Rack {
    /// Nothing delivered, no reordering seen; `first` will be the first sequence number.
    #[must_use]
    pub fn new(first: SeqNum) -> Self {
        Rack {
            latest: None,
            fack: first,
            reordering_seen: false,
            dsack_round: None,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
        }
    }

    /// The highest sequence delivered.
    #[inline]
    #[must_use]
    pub fn fack(&self) -> SeqNum {
        self.fack
    }

    /// Whether originals have overtaken each other on this connection.
    #[must_use]
    pub fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }

    /// Steps 2 and 3.
    #[inline]
    pub fn on_delivery(&mut self, delivery: &Delivery) {
        self.fack = delivery.fack();
        self.reordering_seen |= delivery.reordered();
        let Some(new) = delivery.rack() else {
            return;
        };
        match &mut self.latest {
            Some(old) if !sent_after((new.at, new.end), (old.at, old.end)) => old.rtt = new.rtt,
            latest => *latest = Some(new),
        }
    }

    /// The same for the straight line: everything below `una`, which left last at `at`, arrived.
    #[inline]
    pub fn on_delivery_in_order(&mut self, una: SeqNum, at: Instant, rtt: Duration) {
        self.fack = una;
        self.latest = Some(Latest {
            at,
            end: una,
            rtt,
            resent: false,
        });
    }

    /// The peer reports a duplicate: a retransmission may have been needless.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
    //# The RACK reordering window SHOULD adaptively increase (using the
    //# algorithm in "Step 4: Update RACK reordering window" below) if
    //# the sender receives a Duplicate Selective Acknowledgment (DSACK)
    //# option [RFC2883].
    pub fn on_dsack(&mut self, una: SeqNum, max: SeqNum) {
        if self.dsack_round.is_some_and(|round| una.before(round)) {
            return;
        }
        self.dsack_round = Some(max);
        self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
        self.reo_wnd_persist = PERSIST;
    }

    /// A fast recovery turned out needless: its original came late. Section 6.2 step 3 cannot see
    /// that, because the original had been sent again by then; nothing else can have happened.
    pub fn on_needless(&mut self) {
        self.reordering_seen = true;
    }

    /// A fast recovery or the recovery after a time-out is over.
    pub fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
    //# The reordering window SHOULD be set to zero if no reordering has
    //# been observed on the connection so far, and either (a) three
    //# segments have been SACKed since the last recovery or (b) the
    //# sender is already in fast or RTO recovery.
    /// `certain`: (a) or (b).
    #[must_use]
    pub fn reo_wnd(&self, certain: bool, rtt: &RttEstimator) -> Duration {
        if certain && !self.reordering_seen {
            return Duration::ZERO;
        }
        //= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
        //# Otherwise, the
        //# reordering window SHOULD start from a small fraction of the
        //# round-trip time or zero if no round-trip time estimate is
        //# available.
        //= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
        //# The RACK reordering window MUST be bounded, and this bound SHOULD
        //# be SRTT.
        let part = rtt.min_rtt().unwrap_or_default() / 4;
        let wide = part.saturating_mul(u32::from(self.reo_wnd_mult));
        wide.min(rtt.srtt().unwrap_or_default())
    }

    /// What loss detection compares with; nothing before something was delivered.
    #[must_use]
    pub fn waiting(&self, certain: bool, rtt: &RttEstimator, now: Instant) -> Option<Waiting> {
        let latest = self.latest?;
        Some(Waiting {
            rack: latest,
            time: latest.rtt.saturating_add(self.reo_wnd(certain, rtt)),
            now,
        })
    }

    /// How long ago what is lost at a time-out must have left, the first segment apart
    /// (section 6.3).
    #[must_use]
    pub fn time_of_timeout(&self, rtt: &RttEstimator) -> Duration {
        let known = self.latest.map(|latest| latest.rtt).or(rtt.srtt());
        known.map_or(Duration::ZERO, |trip| {
            trip.saturating_add(self.reo_wnd(true, rtt))
        })
    }
}

#[cfg(test)]
mod tests;
