//! What one acknowledgement showed, as far as congestion control cares.

use core::time::Duration;

use gannet_base::Instant;

/// One acknowledgement, after loss detection has seen it. Bytes throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSample {
    /// When it arrived.
    pub now: Instant,
    /// Newly acknowledged cumulatively: SND.UNA moved this far.
    pub acked: u32,
    /// Newly delivered: newly acknowledged and not SACKed before, plus newly SACKed.
    pub delivered: u32,
    /// Newly taken for lost.
    pub lost: u32,
    /// In flight (RFC 6675's pipe) before this acknowledgement.
    pub flight_before: u32,
    /// In flight after it.
    pub flight: u32,
    /// Round trip that it shows (never of a retransmission: Karn).
    pub rtt: Option<Duration>,
    /// The congestion window, not the application or the peer, was what held sending back.
    pub cwnd_limited: bool,
    /// It ended a recovery.
    pub ends_recovery: bool,
    /// The peer saw congestion: ECE, where ECN was negotiated (RFC 3168).
    pub ece: bool,
    /// Delivery rate, where it is known.
    pub rate: Option<RateSample>,
    /// Delivered since the connection began, this acknowledgement included.
    pub total_delivered: u64,
}

impl AckSample {
    /// Nothing happened at `now`: a start for those who fill in what did.
    #[must_use]
    pub const fn at(now: Instant) -> Self {
        AckSample {
            now,
            acked: 0,
            delivered: 0,
            lost: 0,
            flight_before: 0,
            flight: 0,
            rtt: None,
            cwnd_limited: false,
            ends_recovery: false,
            ece: false,
            rate: None,
            total_delivered: 0,
        }
    }
}

/// How fast the path delivered between the sending of a segment and its acknowledgement
/// (draft-ietf-ccwg-bbr, "Delivery Rate Samples", same names).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered in `interval`.
    pub delivered: u64,
    /// The longer of the sending and the acknowledging interval; never zero.
    pub interval: Duration,
    /// Total delivered when the newest acknowledged segment left.
    pub prior_delivered: u64,
    /// In flight when that segment left, itself included.
    pub tx_in_flight: u32,
    /// Bytes taken for lost between its sending and its acknowledgement.
    pub lost: u64,
    /// The application had left the pipe unfilled when it left: the rate is a lower bound.
    pub app_limited: bool,
}

/// What was found lost at once, as far as a model of the path cares (draft-ietf-ccwg-bbr section
/// 5.5.10.2). All but `ranges` is of the segment since whose sending most was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Ranges of sequence numbers that do not touch.
    pub ranges: u32,
    /// Its bytes.
    pub len: u32,
    /// In flight when it left, itself included (P.tx_in_flight); 0: not known.
    pub tx_in_flight: u32,
    /// Bytes lost since then, itself included (C.lost - P.lost).
    pub since: u32,
    /// Bytes delivered since then (C.delivered - P.delivered).
    pub delivered: u32,
    /// The application had left the pipe unfilled when it left.
    pub app_limited: bool,
}

impl RateSample {
    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        let nanos = self.interval.as_nanos().max(1);
        let rate = u128::from(self.delivered) * 1_000_000_000 / nanos;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}
