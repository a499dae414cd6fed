//! CUBIC (RFC 9438, and RFC 8312 before it): the window is a cubic function of the time since the
//! last loss, so that it comes back fast to where the loss was, stays there long, and then looks
//! for more. Where Reno would be faster, on short paths, it does as Reno.
//!
//! ```text
//!   W_cubic(t) = C (t - K)^3 + W_max        K = cbrt((W_max - cwnd_epoch) / C)
//!
//!          W_max ........________________/
//!                   ___--  concave        convex
//!     cwnd_epoch  /              K
//! ```
//! In whole numbers: bytes, milliseconds.

use core::time::Duration;

use gannet_base::Instant;

use super::MAX_CWND;
use super::hystart::HyStart;

/// beta_cubic = 0.7 (section 4.6).
const BETA: (u32, u32) = (7, 10);
/// alpha_cubic = 3 (1 - beta) / (1 + beta) = 9 / 17 (section 4.3).
const ALPHA: (u64, u64) = (9, 17);
/// Farthest from the inflection point that is told apart, ms: 17 minutes. Beyond it the window has
/// long been bounded by 1.5 cwnd.
const FAR: u64 = 1 << 20;

/// Where the curve lies; what an undo brings back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Curve {
    /// When the current stage of congestion avoidance began.
    epoch: Option<Instant>,
    /// W_max, bytes.
    w_max: u32,
    /// cwnd_prior: the window before the last reduction.
    cwnd_prior: u32,
    /// W_est, the window of Reno in this place.
    w_est: u32,
    /// K, ms.
    k: u32,
}

/// What CUBIC remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cubic {
    curve: Curve,
    before: Curve,
    /// The last acknowledgement in congestion avoidance.
    last: Instant,
    /// Growth of the window and of W_est too small for a byte yet.
    part: u64,
    part_est: u64,
    /// The last reduction was a time-out's.
    timed_out: bool,
    pub(super) hystart: HyStart,
}

impl Cubic {
    /// Congestion avoidance: the window after `acked` bytes more.
    pub(super) fn avoid(
        &mut self,
        cwnd: u32,
        smss: u32,
        acked: u32,
        now: Instant,
        srtt: Duration,
    ) -> u32 {
        let epoch = match self.curve.epoch {
            Some(epoch) => epoch,
            None => self.begin(cwnd, smss, now),
        };
        self.last = now;
        let acked = u64::from(acked.min(cwnd));
        self.grow_estimate(cwnd, smss, acked);
        let t = now.saturating_duration_since(epoch);
        // section 4.3: the Reno-friendly region
        if self.w_cubic(t, smss) < self.curve.w_est {
            self.part = 0;
            return cwnd.max(self.curve.w_est).min(MAX_CWND);
        }
        // sections 4.4 and 4.5: towards where the curve is a round trip from now
        let most = cwnd.saturating_add(cwnd / 2);
        let target = self.w_cubic(t + srtt, smss).clamp(cwnd, most);
        self.part += u64::from(target - cwnd) * acked;
        let grow = self.part / u64::from(cwnd);
        self.part %= u64::from(cwnd);
        cwnd.saturating_add(grow as u32).min(MAX_CWND)
    }

    /// Section 4.2: K, and the curve from here on.
    fn begin(&mut self, cwnd: u32, smss: u32, now: Instant) -> Instant {
        let curve = &mut self.curve;
        // section 4.8: after a time-out, and where no loss is known, from the bottom of the curve
        if self.timed_out || cwnd >= curve.w_max {
            curve.w_max = cwnd;
            curve.k = 0;
        } else {
            curve.k = time_to(curve.w_max - cwnd, smss);
        }
        curve.w_est = cwnd;
        curve.epoch = Some(now);
        self.timed_out = false;
        (self.part, self.part_est) = (0, 0);
        now
    }

    /// Section 4.3: what Reno would have, with the same average loss. Alpha is 1 once the window
    /// of before is reached.
    fn grow_estimate(&mut self, cwnd: u32, smss: u32, acked: u64) {
        let (up, down) = if self.curve.w_est < self.curve.cwnd_prior {
            ALPHA
        } else {
            (1, 1)
        };
        self.part_est += acked * u64::from(smss) * up / down;
        let grow = self.part_est / u64::from(cwnd);
        self.part_est %= u64::from(cwnd);
        self.curve.w_est = self.curve.w_est.saturating_add(grow as u32).min(MAX_CWND);
    }

    /// W_cubic(t) in bytes.
    fn w_cubic(&self, t: Duration, smss: u32) -> u32 {
        let t = u64::try_from(t.as_millis()).unwrap_or(u64::MAX);
        let k = u64::from(self.curve.k);
        let away = t.abs_diff(k).min(FAR);
        // C = 0.4 segments per s^3; the order keeps all of it within 64 bits
        let cube = away * away * away;
        let bytes = cube / 1_000_000 * (4 * u64::from(smss)) / 10_000;
        let bytes = u32::try_from(bytes).unwrap_or(MAX_CWND).min(MAX_CWND);
        if t < k {
            self.curve.w_max.saturating_sub(bytes)
        } else {
            self.curve.w_max.saturating_add(bytes)
        }
    }

    /// Section 4.6 and 4.7: a loss, or a mark, while `flight` bytes were outstanding; ssthresh.
    pub(super) fn after_loss(&mut self, flight: u32, cwnd: u32, smss: u32) -> u32 {
        self.before = self.curve;
        let fast_convergence = cwnd < self.curve.w_max;
        self.curve.cwnd_prior = cwnd;
        self.curve.w_max = if fast_convergence {
            (u64::from(cwnd) * 17 / 20) as u32 // (1 + beta) / 2: leaves room to the newcomer
        } else {
            cwnd
        };
        self.curve.epoch = None;
        let reduced = u64::from(flight) * u64::from(BETA.0) / u64::from(BETA.1);
        (reduced as u32).max(smss.saturating_mul(2)).min(MAX_CWND)
    }

    /// Section 4.8: the reduction was a time-out's.
    pub(super) fn on_rto(&mut self) {
        self.timed_out = true;
        self.curve.epoch = None;
    }

    /// Section 4.9: nothing had been lost.
    pub(super) fn undo(&mut self) {
        self.curve = self.before;
        self.timed_out = false;
        (self.part, self.part_est) = (0, 0);
    }

    /// Section 5.8: while the application, not the window, limits what is sent, the curve stands
    /// still.
    pub(super) fn pause(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.curve.epoch {
            *epoch += now.saturating_duration_since(self.last);
            self.last = now;
        }
    }

    /// The window was taken back after an idle time: a new stage follows slow start.
    pub(super) fn restart(&mut self) {
        self.curve.epoch = None;
    }
}

/// K in milliseconds for `bytes` up to W_max: cbrt(bytes / smss / 0.4) s.
fn time_to(bytes: u32, smss: u32) -> u32 {
    let cubed = u128::from(bytes) * 2_500_000_000 / u128::from(smss.max(1));
    cube_root(u64::try_from(cubed).unwrap_or(u64::MAX))
}

/// The largest number whose cube is not above `n`: bit by bit from the highest.
fn cube_root(mut n: u64) -> u32 {
    let mut root = 0u64;
    let mut shift = 63;
    loop {
        root *= 2;
        let bit = 3 * root * (root + 1) + 1;
        if n >> shift >= bit {
            n -= bit << shift;
            root += 1;
        }
        if shift == 0 {
            return root as u32;
        }
        shift -= 3;
    }
}

#[cfg(test)]
mod tests;
