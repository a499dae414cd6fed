//! Pacing: data leaves at a rate rather than as fast as the window opens, so that no queue has to
//! hold a window's worth at once.
//!
//! ```text
//!   sent      [quantum]      [quantum]      [quantum]
//!   next      ------->|      ------->|      ------->|       quantum / rate apart
//!   timer     . . . . | . . . . . . .| . . . . . . .|       a tick of 1 ms at worst late
//! ```
//! What a late timer kept back is made up for, [`LATE`] of it; what the window or the application
//! kept back is not: time that passed unused gives no right to a burst.

use core::time::Duration;

use gannet_base::Instant;

/// What one emission takes of the rate, and the most it takes: draft-ietf-ccwg-bbr's
/// `send_quantum`.
const QUANTUM_TIME_NS: u64 = 1_000_000;
const QUANTUM_MAX: u64 = 64 * 1024;
/// The least, in segments: fewer would keep delayed acknowledgements waiting.
const QUANTUM_MIN: u32 = 2;
/// Lateness of the timer that is made up for: a tick, and as much for whoever polls.
const LATE: Duration = Duration::from_millis(2);

/// Bytes per emission at `rate` bytes per second: about a millisecond's, whole segments.
#[must_use]
pub(super) fn quantum(rate: u64, smss: u32) -> u32 {
    let least = smss.saturating_mul(QUANTUM_MIN);
    let due = u128::from(rate) * u128::from(QUANTUM_TIME_NS) / 1_000_000_000;
    let due = u32::try_from(due.min(u128::from(QUANTUM_MAX))).unwrap_or(u32::MAX);
    (due - due % smss.max(1)).max(least)
}

/// Releases one sender's data. Time is told by the caller.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Bytes per second; none: not known yet, everything passes.
    rate: Option<u64>,
    quantum: u32,
    /// Nothing leaves before.
    next: Instant,
    /// When to look again; [`Instant::FAR_FUTURE`] when nothing is kept back.
    wait: Instant,
    /// Kept back by the rate, since when nothing else kept it back.
    held: bool,
    /// Whether something might have left at the last look.
    due: bool,
    rounds: Rounds,
}

/// Whether the window was full at some time in this round trip or the last. (A paced sender fills
/// it only now and then, so that the last acknowledgement's view is chance.)
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// Delivered when the round ends.
    end: u64,
    full: [bool; 2],
    /// Most bytes in flight.
    peak: [u32; 2],
}

impl Pacer {
    /// Nothing is kept back until [`Pacer::set_rate`].
    #[must_use]
    pub fn new() -> Self {
        Pacer {
            rate: None,
            quantum: u32::MAX,
            next: Instant::ZERO,
            wait: Instant::FAR_FUTURE,
            held: false,
            due: true,
            rounds: Rounds::default(),
        }
    }

    /// Bytes per second from here on.
    pub fn set_rate(&mut self, rate: Option<u64>, smss: u32) {
        let rate = rate.map(|r| r.max(1));
        if rate != self.rate {
            self.quantum = rate.map_or(u32::MAX, |r| quantum(r, smss));
            self.rate = rate;
        }
    }

    /// Bytes per second.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Most bytes of one emission.
    #[must_use]
    pub fn quantum(&self) -> u32 {
        self.quantum
    }

    /// When to look again.
    #[inline]
    #[must_use]
    pub fn wait(&self) -> Instant {
        self.wait
    }

    /// Notes whether data may leave now, for [`Pacer::is_due`].
    pub fn look(&mut self, now: Instant) {
        self.due = self.next <= now;
    }

    /// Whether data might have left at the last look.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Whether data may leave now; if not, [`Pacer::wait`] says when.
    pub fn admits(&mut self, now: Instant) -> bool {
        let due = self.next <= now;
        self.wait = if due {
            Instant::FAR_FUTURE
        } else {
            self.held = true;
            self.next
        };
        due
    }

    /// Something else than the rate keeps back what there is, or there is nothing.
    pub fn rest(&mut self) {
        self.wait = Instant::FAR_FUTURE;
        self.held = false;
    }

    /// The timer has called.
    pub fn expired(&mut self, now: Instant) {
        if self.wait <= now {
            self.wait = Instant::FAR_FUTURE;
        }
    }

    /// `len` bytes have left; `flight` are on their way now.
    pub fn on_sent(&mut self, len: u32, flight: u32, now: Instant) {
        let [peak, _] = &mut self.rounds.peak;
        *peak = flight.max(*peak);
        let Some(rate) = self.rate else {
            return;
        };
        let late = now.saturating_duration_since(self.next);
        let from = match self.held {
            _ if self.next > now => self.next,
            true => self.next + late.saturating_sub(LATE),
            false => now,
        };
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(rate);
        self.next = from + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// The window is full, or not.
    pub fn note_window(&mut self, is_full: bool) {
        let [full, _] = &mut self.rounds.full;
        *full |= is_full;
    }

    /// What `delivered` in all, with `flight` on their way, ends: perhaps a round trip. Whether the
    /// window was what held sending back: it was full, or, in slow start, where the rate is to be
    /// twice what one window gives, half of it was used.
    pub fn was_limited(&mut self, delivered: u64, flight: u32, slow_start: Option<u32>) -> bool {
        let Rounds { end, full, peak } = &mut self.rounds;
        let [now, before] = *peak;
        let used = now.max(before);
        let limited = full.iter().any(|&f| f) || slow_start.is_some_and(|cwnd| cwnd / 2 < used);
        if delivered >= *end {
            *end = delivered + u64::from(flight);
            *full = [false, full[0]];
            *peak = [flight, now];
        }
        limited
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::ZERO + Duration::from_millis(1000 + ms);

    /// 1.5 MB/s: a quantum of two segments leaves every 2 ms.
    fn pacer() -> Pacer {
        let mut pacer = Pacer::new();
        assert!(pacer.admits(MS(0)), "no rate is known yet");
        pacer.set_rate(Some(1_500_000), 1500);
        assert_eq!(pacer.quantum(), 3000);
        pacer
    }

    #[test]
    fn quanta() {
        for (rate, bytes) in [
            (0, 3000),
            (3_000_000, 3000),
            (6_250_000, 6000), // 50 Mbit/s: a millisecond's is 6250
            (65_000_000, 64_500),
            (1_250_000_000, 64_500), // at most 64 KiB, whole segments
            (u64::MAX, 64_500),
        ] {
            assert_eq!(quantum(rate, 1500), bytes, "{rate}");
        }
    }

    #[test]
    fn a_quantum_at_a_time() {
        let mut p = pacer();
        for n in 0..5 {
            assert!(p.admits(MS(2 * n)), "{n}");
            p.on_sent(3000, 0, MS(2 * n));
            assert!(!p.admits(MS(2 * n)));
            assert!(!p.admits(MS(2 * n + 1)));
            assert_eq!(p.wait(), MS(2 * n + 2));
        }
    }

    #[test]
    fn a_late_timer_costs_nothing_unless_it_is_very_late() {
        let mut p = pacer();
        p.on_sent(3000, 0, MS(0));
        assert!(!p.admits(MS(1)));
        assert!(p.admits(MS(3)), "a millisecond late");
        p.on_sent(3000, 0, MS(3));
        assert!(!p.admits(MS(3)));
        assert_eq!(p.wait(), MS(4), "as if it had not been");
        assert!(p.admits(MS(100)));
        p.on_sent(3000, 0, MS(100));
        assert!(p.admits(MS(100)), "2 ms of it are made up for");
        p.on_sent(3000, 0, MS(100));
        assert!(!p.admits(MS(100)));
    }

    #[test]
    fn unused_time_gives_no_right_to_a_burst() {
        let mut p = pacer();
        p.on_sent(3000, 0, MS(0));
        assert!(!p.admits(MS(0)));
        p.rest(); // the window is closed
        assert_eq!(p.wait(), Instant::FAR_FUTURE);
        assert!(p.admits(MS(50)));
        p.on_sent(3000, 0, MS(50));
        assert!(!p.admits(MS(50)));
    }

    #[test]
    fn the_timer_calls_once() {
        let mut p = pacer();
        p.on_sent(3000, 0, MS(0));
        assert!(!p.admits(MS(0)));
        p.expired(MS(1));
        assert_eq!(p.wait(), MS(2), "not yet");
        p.expired(MS(2));
        assert_eq!(p.wait(), Instant::FAR_FUTURE);
    }

    #[test]
    fn a_window_that_was_full_counts_for_two_round_trips() {
        let mut p = pacer();
        p.was_limited(0, 10_000, None);
        p.note_window(true);
        assert!(p.was_limited(5_000, 8_000, None));
        assert!(p.was_limited(10_000, 8_000, None), "the round ends");
        assert!(p.was_limited(18_000, 8_000, None), "the next one");
        assert!(!p.was_limited(19_000, 8_000, None));
        // slow start: more than half of it was used
        assert!(p.was_limited(19_000, 8_000, Some(15_000)));
        assert!(!p.was_limited(19_000, 8_000, Some(16_000)));
    }
}
