//! DCTCP (RFC 8257), for networks whose switches mark early: the window shrinks by as much as was
//! marked, so that queues stay short and links stay full. Grows, and answers losses, as Reno.

use super::AckSample;
use super::newreno::NewReno;
use crate::tcp::socket::ControlState;

/// One, as a fraction.
const ONE: u64 = 1 << 20;
/// g = 1/16 (RFC 8257 section 4.2).
const G: u64 = 16;

/// The variables of RFC 8257 section 3.3, same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dctcp {
    pub(super) reno: NewReno,
    /// DCTCP.Alpha, in `ONE`s.
    alpha: u64,
    /// DCTCP.WindowEnd, counted in bytes delivered rather than in sequence numbers.
    window_end: u64,
    bytes_acked: u64,
    bytes_marked: u64,
}

impl Default for Dctcp {
    fn default() -> Self {
        Dctcp {
            reno: NewReno::default(),
            //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
            //# The current estimate is stored in a new TCP state variable, DCTCP.Alpha, which is
            //# initialized to 1 and SHOULD be updated as follows:
            alpha: ONE,
            window_end: 0,
            bytes_acked: 0,
            bytes_marked: 0,
        }
    }
}

impl Dctcp {
    pub(super) fn state(&self) -> ControlState {
        let bytes = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        ControlState::Dctcp {
            alpha: bytes(self.alpha * 1024 / ONE),
            acknowledged: bytes(self.bytes_acked),
            marked: bytes(self.bytes_marked),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
    //# The congestion estimator on the sender MUST process acceptable ACKs as follows:
    /// An acknowledgement: how much of what it covers was marked.
    pub(super) fn on_ack(&mut self, sample: &AckSample) {
        let acked = u64::from(sample.acked);
        self.bytes_acked += acked;
        if sample.ece {
            self.bytes_marked += acked;
        }
        if sample.total_delivered <= self.window_end || self.bytes_acked == 0 {
            return;
        }
        let m = self.bytes_marked * ONE / self.bytes_acked;
        self.alpha = self.alpha - self.alpha / G + m / G;
        self.window_end = sample.total_delivered + u64::from(sample.flight);
        (self.bytes_acked, self.bytes_marked) = (0, 0);
    }

    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
    //# Rather than always halving the congestion window as described in [RFC3168], the sender
    //# SHOULD update cwnd as follows:
    /// Marks: the window that is left, `cwnd * (1 - Alpha / 2)`.
    pub(super) fn after_mark(&self, cwnd: u32, smss: u32) -> u32 {
        let cut = u64::from(cwnd) * self.alpha.min(ONE) / (2 * ONE);
        cwnd.saturating_sub(cut as u32).max(smss.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_base::Instant;

    /// A window of ten segments, `marked` of them, is acknowledged.
    fn window(d: &mut Dctcp, from: u64, marked: u64) -> u64 {
        for n in 1..=10 {
            d.on_ack(&AckSample {
                acked: 1000,
                delivered: 1000,
                flight: 10_000,
                ece: n <= marked,
                total_delivered: from + n * 1000,
                ..AckSample::at(Instant::ZERO)
            });
        }
        from + 10_000
    }

    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
    //= type=test
    //# The congestion estimator on the sender MUST process acceptable ACKs as follows:
    #[test]
    fn section_3_3_alpha_follows_the_share_of_marks() {
        for share in [0, 1, 5, 10] {
            let mut d = Dctcp::default();
            let mut at = window(&mut d, 0, 0);
            let first = d.alpha as f64 / ONE as f64;
            assert!((0.9..1.0).contains(&first), "begins at 1: {first}");
            let mut alpha = first;
            for round in 0..200 {
                at = window(&mut d, at, share);
                alpha = alpha * 15.0 / 16.0 + share as f64 / 10.0 / 16.0;
                let got = d.alpha as f64 / ONE as f64;
                assert!((got - alpha).abs() < 0.1, "{share} {round}: {got} {alpha}");
            }
            let got = d.alpha as f64 / ONE as f64;
            assert!((got - share as f64 / 10.0).abs() < 0.01, "{share}: {got}");
            let left = f64::from(d.after_mark(100_000, 1000));
            let expected = 100_000.0 * (1.0 - share as f64 / 20.0);
            assert!((left - expected).abs() < 1000.0, "{share}: {left}");
        }
        assert_eq!(
            Dctcp::default().after_mark(2500, 1000),
            2000,
            "two segments at least"
        );
    }
}
