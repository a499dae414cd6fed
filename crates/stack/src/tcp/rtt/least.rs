//! The shortest of the recent round trips: two windows, of which the older is forgotten.

use core::time::Duration;

use gannet_base::Instant;

/// Length of a window: a path that has become longer is believed after twice that.
const WINDOW: Duration = Duration::from_secs(300);

//= https://www.rfc-editor.org/rfc/rfc8985#section-6.2
//# The sender SHOULD
//# track a windowed min-filtered estimate of recent RTT measurements
//# that can adapt when migrating to significantly longer paths rather
//# than tracking a simple global minimum of all RTT measurements.
/// Minimum over a sliding time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    /// Of the window before, and of this one.
    pub(super) before: Duration,
    pub(super) now: Duration,
    pub(super) until: Instant,
}

impl Least {
    pub(super) const fn new() -> Self {
        Least {
            before: Duration::MAX,
            now: Duration::MAX,
            until: Instant::ZERO,
        }
    }

    #[inline]
    pub(super) fn see(&mut self, rtt: Duration, now: Instant) {
        if now >= self.until {
            self.turn(now);
        }
        self.lower(rtt);
    }

    fn turn(&mut self, now: Instant) {
        (self.before, self.now) = (self.now, Duration::MAX);
        self.until = now + WINDOW;
    }

    #[inline]
    pub(super) fn lower(&mut self, rtt: Duration) {
        if rtt < self.now && !rtt.is_zero() {
            self.now = rtt;
        }
    }

    #[inline]
    pub(super) fn get(&self) -> Option<Duration> {
        let least = self.before.min(self.now);
        (least < Duration::MAX).then_some(least)
    }
}
