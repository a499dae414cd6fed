//! What one acknowledgement delivered: RFC 8985 section 6.2 steps 2 and 3, the round trip of
//! RFC 6298, the record a rate sample is taken from.

use core::time::Duration;

use gannet_base::Instant;

use super::super::congestion::RateSample;
use super::super::rack::Latest;
use super::super::seq::SeqNum;
use super::{Fate, Record, Sent, age, sent_after};

/// Filled by [`Sent::acknowledge`] and [`Sent::sack`].
#[derive(Clone, Debug)]
pub struct Delivery {
    now: Instant,
    min_rtt: Duration,
    /// When the segment left that the acknowledgement answers, in milliseconds, by its time stamp.
    echo_ms: Option<u64>,
    /// RACK.fack.
    fack: SeqNum,
    bytes: u32,
    reordered: bool,
    /// Octets of originals, and where the highest of them ends.
    original: Option<SeqNum>,
    /// The oldest original acknowledged cumulatively left then.
    first: Option<Instant>,
    /// Something acknowledged cumulatively had been sent again.
    ambiguous: bool,
    /// RACK.segment's candidate, and whether it was an original.
    rack: Option<(Instant, SeqNum, bool)>,
    newest: Option<Record>,
}

impl Delivery {
    /// Of an acknowledgement that arrives at `now`. `fack`: highest sequence delivered before;
    /// `echo_ms`: when the segment left that it answers, by the time stamp it echoes.
    #[inline]
    #[must_use]
    pub fn new(now: Instant, min_rtt: Duration, echo_ms: Option<u64>, fack: SeqNum) -> Self {
        Delivery {
            now,
            min_rtt,
            echo_ms,
            fack,
            bytes: 0,
            reordered: false,
            original: None,
            first: None,
            ambiguous: false,
            rack: None,
            newest: None,
        }
    }

    /// Octets newly delivered.
    #[inline]
    #[must_use]
    //= https://www.rfc-editor.org/rfc/rfc6937#section-2
    //# Furthermore, for any TCP (with or without SACK), the sum of DeliveredData must agree with
    //# the forward progress over the same time interval.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// The highest sequence delivered.
    #[must_use]
    pub fn fack(&self) -> SeqNum {
        self.fack
    }

    /// Whether an original was delivered after what was sent behind it.
    #[must_use]
    pub fn reordered(&self) -> bool {
        self.reordered
    }

    /// Where the highest newly delivered original ends.
    #[must_use]
    pub fn original(&self) -> Option<SeqNum> {
        self.original
    }

    /// RACK.segment, if this acknowledgement tells.
    #[inline]
    #[must_use]
    pub fn rack(&self) -> Option<Latest> {
        self.rack.map(|(at, end, original)| Latest {
            at,
            end,
            rtt: age(self.now, at),
            resent: !original,
        })
    }

    /// The round trip of the most recently sent original: no acknowledgement was delayed for it.
    #[inline]
    #[must_use]
    pub fn latest_rtt(&self) -> Option<Duration> {
        match self.rack {
            Some((at, _, true)) => Some(age(self.now, at)),
            _ => None,
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc6298#section-3
    //# TCP MUST use Karn's algorithm [KP87] for taking RTT samples.  That
    //# is, RTT samples MUST NOT be made using segments that were
    //# retransmitted (and thus for which it is ambiguous whether the reply
    //# was for the first instance of the packet or a later instance).
    /// The round trip for RFC 6298: of the oldest octets acknowledged, the delay of the
    /// acknowledgement included. What was sent behind a retransmission has waited for that.
    #[inline]
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        match self.first {
            Some(first) if !self.ambiguous => Some(age(self.now, first)),
            _ => None,
        }
    }

    /// `piece` is acknowledged and was not SACKed before.
    #[inline]
    pub(super) fn cumulative(&mut self, piece: &Record) {
        if piece.fate.has(Fate::RESENT) {
            self.ambiguous = true;
        } else if self.first.is_none() {
            self.first = Some(piece.sent_at);
        }
        // the echo belongs to what was acknowledged in order (RFC 7323 section 4.3); of a SACKed
        // segment it says nothing
        let old = self
            .echo_ms
            .is_some_and(|ms| ms < piece.sent_at.as_millis());
        self.deliver(piece, old);
    }

    /// `piece` is newly SACKed.
    pub(super) fn selective(&mut self, piece: &Record) {
        self.deliver(piece, false);
    }

    #[inline]
    fn deliver(&mut self, piece: &Record, old: bool) {
        self.bytes += piece.len();
        let resent = piece.fate.has(Fate::RESENT);
        if !resent {
            self.original = Some(self.original.map_or(piece.end, |o| o.max(piece.end)));
        }
        // step 3: an original below what was delivered before has been overtaken
        if piece.end.after(self.fack) {
            self.fack = piece.end;
        } else if piece.end.before(self.fack) && !resent {
            self.reordered = true;
        }
        let order = (piece.sent_at, piece.end);
        if self
            .newest
            .is_none_or(|n| sent_after(order, (n.sent_at, n.end)))
        {
            self.newest = Some(*piece);
        }
        // step 2: not by a retransmission that may not be what arrived
        if resent && (old || age(self.now, piece.sent_at) < self.min_rtt) {
            return;
        }
        if self
            .rack
            .is_none_or(|(at, end, _)| sent_after(order, (at, end)))
        {
            self.rack = Some((piece.sent_at, piece.end, !resent));
        }
    }
}

impl Sent {
    /// The rate sample of `delivery`, after everything it delivered was marked. None when less than
    /// a round trip has passed since the newest of it was sent again: it is the original that was
    /// answered (draft-ietf-ccwg-bbr-06 section 4.1.2.3).
    pub fn rate_sample(&mut self, delivery: &Delivery) -> Option<RateSample> {
        let newest = delivery.newest.as_ref()?;
        let starved = newest.fate.has(Fate::STARVED);
        let sent = (newest.sent_at, newest.stamp);
        let sample = self.rate.sample(sent, delivery.now, starved)?;
        let early = newest.fate.has(Fate::RESENT) && sample.interval < delivery.min_rtt;
        (!early).then_some(sample)
    }
}
