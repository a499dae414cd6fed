//! Round-trip time and retransmission time-out (RFC 6298, RFC 7323 section 4 and appendix G).
//!
//! Samples come from the record of what was sent and when (`sent.rs`): microseconds, where time
//! stamps count milliseconds. One for each round trip feeds the time-out, all feed the minimum.
//!
//! Deviation: section 2.4 wants a minimum of one second. We use 200 ms (`TcpConfig::min_rto`) as
//! Linux and others do (and as Linux does, as a floor on the variance term, so the time-out is at
//! least `SRTT + 200 ms`: a peer that delays acknowledgements by up to 200 ms causes no spurious
//! time-out). One second makes every lost tail cost 5 times more, while 4 * RTTVAR already covers
//! what the RFC feared.

use core::time::Duration;

use gannet_base::Instant;

use crate::config::TcpConfig;

mod dormant;
mod least;

pub(super) use dormant::RestingRtt;
use least::Least;

/// Limits of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttConfig {
    /// Time-out before the first sample. RFC 6298 (2.1): 1 s.
    pub initial_rto: Duration,
    /// Floor of the variance term, hence of the time-out.
    pub min_rto: Duration,
    /// Ceiling of the time-out, also while backing off; the same everywhere.
    pub max_rto: Duration,
    /// Clock granularity G.
    pub granularity: Duration,
}

impl RttConfig {
    /// The values used unless the host says otherwise: 1 s, 200 ms, 120 s, 1 ms.
    //= https://www.rfc-editor.org/rfc/rfc8961#section-4
    //# In the absence of any knowledge about the latency of a path, the initial RTO MUST be
    //# conservatively set to no less than 1 second.
    //= https://www.rfc-editor.org/rfc/rfc8961#section-4
    //# The maximum RTO MUST NOT be less than 60 seconds (as specified in [RFC6298]).
    pub const DEFAULT: RttConfig = RttConfig {
        initial_rto: Duration::from_secs(1),
        min_rto: Duration::from_millis(200),
        max_rto: Duration::from_secs(120),
        granularity: Duration::from_millis(1),
    };
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-2
//# (2.5) A maximum value MAY be placed on RTO provided it is at least 60
//# seconds.
const _: () = assert!(RttConfig::DEFAULT.max_rto.as_secs() >= 60);

impl RttConfig {
    /// As the host says, within bounds: a time-out that is nothing would never let an answer come.
    pub(super) fn of(config: &TcpConfig) -> RttConfig {
        const LEAST: Duration = Duration::from_millis(1);
        const MOST: Duration = Duration::from_secs(60);
        RttConfig {
            initial_rto: config.initial_rto.clamp(LEAST, MOST),
            min_rto: config.min_rto.clamp(LEAST, MOST),
            ..RttConfig::DEFAULT
        }
    }
}

impl Default for RttConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// After this many time-outs in a row SRTT and RTTVAR are taken for bogus (RFC 6298 section 5).
const DOUBT_AFTER: u8 = 4;
/// More doublings than any clamp needs, few enough never to overflow.
const MAX_BACK_OFF: u8 = 16;
/// RFC 6298 (5.7): the time-out after a retransmitted SYN.
const RTO_AFTER_SYN_LOSS: Duration = Duration::from_secs(3);

/// Estimates the round-trip time of one connection and derives its retransmission time-out.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// Floor of the variance term, in microseconds.
    floor: u32,
    /// SRTT and RTTVAR, absent before the first sample.
    smoothed: Option<Smoothed>,
    /// Time-out without back-off.
    base_rto: Duration,
    /// Time-outs since the last valid sample.
    back_off: u8,
    least: Least,
    latest: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    srtt: u64,
    rttvar: u64,
}

impl RttEstimator {
    /// An estimator without samples.
    #[must_use]
    pub fn new(config: &RttConfig) -> Self {
        //= https://www.rfc-editor.org/rfc/rfc6298#section-2
        //# (2.1) Until a round-trip time (RTT) measurement has been made for a
        //# segment sent between the sender and receiver, the sender SHOULD
        //# set RTO <- 1 second
        let base_rto = config.initial_rto.min(RttConfig::DEFAULT.max_rto);
        let floor = config.granularity.max(config.min_rto).as_micros();
        Self {
            floor: u32::try_from(floor).unwrap_or(u32::MAX),
            smoothed: None,
            base_rto,
            back_off: 0,
            least: Least::new(),
            latest: None,
        }
    }

    /// One sample per round trip (no time stamps, or the handshake).
    pub fn on_sample(&mut self, rtt: Duration) {
        self.on_weighted_sample(rtt, 1);
    }

    /// One of `expected_samples` samples in this round trip (see [`expected_samples`]).
    /// Ends any back-off: a valid sample proves that the path works at the measured speed.
    pub fn on_weighted_sample(&mut self, rtt: Duration, expected_samples: u32) {
        let r = nanos(rtt);
        let weight = u64::from(expected_samples.max(1));
        let doubted = self.back_off >= DOUBT_AFTER;
        let smoothed = match self.smoothed {
            // (2.3) alpha = 1/8, beta = 1/4, each divided by the samples per round trip
            //= https://www.rfc-editor.org/rfc/rfc6298#section-2
            //# The above SHOULD be computed using alpha=1/8 and beta=1/4 (as
            //# suggested in [JK88]).
            //= https://www.rfc-editor.org/rfc/rfc6298#section-2
            //# (2.3) When a subsequent RTT measurement R' is made, a host MUST set
            //= https://www.rfc-editor.org/rfc/rfc6298#section-2
            //# That is, updating RTTVAR and SRTT MUST be computed in the above order.
            Some(Smoothed { srtt, rttvar }) if !doubted => Smoothed {
                rttvar: toward(rttvar, srtt.abs_diff(r), weight.saturating_mul(4)),
                srtt: toward(srtt, r, weight.saturating_mul(8)),
            },
            // (2.2) the first measurement, or the first after the old ones became bogus
            //= https://www.rfc-editor.org/rfc/rfc6298#section-2
            //# (2.2) When the first RTT measurement R is made, the host MUST set
            _ => Smoothed {
                srtt: r,
                rttvar: r / 2,
            },
        };
        self.smoothed = Some(smoothed);
        self.base_rto = self.computed_rto(smoothed);
        if planted!(ShortTimeout) {
            self.base_rto /= 8;
        }
        self.back_off = 0;
        self.latest = Some(rtt);
        self.least.lower(rtt);
    }

    fn computed_rto(&self, Smoothed { srtt, rttvar }: Smoothed) -> Duration {
        let floor = u64::from(self.floor) * 1000;
        //= https://www.rfc-editor.org/rfc/rfc6298#section-2
        //# After the computation, a host MUST update RTO <- SRTT + max (G, K*RTTVAR)
        //= https://www.rfc-editor.org/rfc/rfc6298#section-4
        //# However, if the K*RTTVAR term in the RTO calculation equals zero, the variance term MUST
        //# be rounded to G seconds (i.e., use the equation given in step 2.3).
        let variance = rttvar.saturating_mul(4).max(floor);
        Duration::from_nanos(srtt.saturating_add(variance)).min(RttConfig::DEFAULT.max_rto)
    }

    /// The retransmission time-out now, back-off included.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.base_rto
            .saturating_mul(1 << self.back_off)
            .min(RttConfig::DEFAULT.max_rto)
    }

    /// The time-out without back-off: the interval used by idle restart and tail probes.
    #[must_use]
    pub fn base_rto(&self) -> Duration {
        self.base_rto
    }

    /// The retransmission timer expired.
    //= https://www.rfc-editor.org/rfc/rfc8961#section-4
    //# (4) Each time the RTO is used to detect a loss, the value of the RTO MUST be exponentially
    //# backed off such that the next firing requires a longer interval.
    pub fn back_off(&mut self) {
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.5) The host MUST set RTO <- RTO * 2 ("back off the timer").  The
        //# maximum value discussed in (2.5) above may be used to provide
        //# an upper bound to this doubling operation.
        self.back_off = (self.back_off + u8::from(!planted!(NoBackOff))).min(MAX_BACK_OFF);
    }

    /// New data was acknowledged although no sample could be taken from it.
    pub fn reset_back_off(&mut self) {
        self.back_off = 0;
    }

    /// Time-outs in a row.
    #[must_use]
    pub fn back_off_count(&self) -> u8 {
        self.back_off
    }

    /// The handshake is over; `syn_retransmitted`: our SYN (or SYN-ACK) timed out at least once.
    pub fn on_established(&mut self, syn_retransmitted: bool) {
        self.back_off = 0;
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.7) If the timer expires awaiting the ACK of a SYN segment and the
        //# TCP implementation is using an RTO less than 3 seconds, the RTO
        //# MUST be re-initialized to 3 seconds when data transmission
        //# begins (i.e., after the three-way handshake completes).
        if syn_retransmitted {
            self.base_rto = self.base_rto.max(RTO_AFTER_SYN_LOSS);
        }
    }

    /// Smoothed round-trip time; `None` before the first sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|s| Duration::from_nanos(s.srtt))
    }

    /// Round-trip time variation; `None` before the first sample.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|s| Duration::from_nanos(s.rttvar))
    }

    /// A round trip that was seen at `now`: for the shortest alone.
    #[inline]
    pub fn on_least(&mut self, rtt: Duration, now: Instant) {
        self.least.see(rtt, now);
    }

    /// The shortest round trip of the last five to ten minutes. (One of no time at all is none: no
    /// clock was read between.)
    #[inline]
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.least.get()
    }

    /// The last sample.
    #[must_use]
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }
}

/// RFC 7323 appendix G: `ceiling(FlightSize / (SMSS * 2))`, at least 1. With time stamps a window
/// gives that many samples per round trip, and the history must not shrink accordingly.
#[must_use]
pub fn expected_samples(flight: u32, smss: u32) -> u32 {
    flight.div_ceil(smss.saturating_mul(2).max(1)).max(1)
}

/// Moves `old` by 1/`divisor` of its distance to `target`.
fn toward(old: u64, target: u64, divisor: u64) -> u64 {
    if target >= old {
        old + (target - old) / divisor
    } else {
        old - (old - target) / divisor
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
