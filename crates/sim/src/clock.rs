//! What a host believes the time to be: the world's time, plus where its clock began, plus the
//! jumps it made.

use core::time::Duration;

use gannet_base::Instant;

/// A host's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Added to the world's time, nanoseconds.
    ahead: u64,
}

impl Clock {
    /// A clock that shows `start` when the world begins.
    pub fn new(start: Instant) -> Self {
        Clock {
            ahead: start.as_nanos(),
        }
    }

    /// What it shows.
    pub fn read(self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_add(self.ahead))
    }

    /// The world's time at which it shows `time`; the beginning, if that was before.
    pub fn when(self, time: Instant) -> Instant {
        if time == Instant::FAR_FUTURE {
            return time;
        }
        Instant::from_nanos(time.as_nanos().saturating_sub(self.ahead))
    }

    /// Jumps forward.
    pub fn forward(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_add(by.as_nanos() as u64);
    }

    /// Jumps back, at most to where the world began.
    pub fn back(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_sub(by.as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_reads_backwards() {
        let mut clock = Clock::new(Instant::from_millis(5000));
        let now = Instant::from_millis(100);
        assert_eq!(clock.read(now), Instant::from_millis(5100));
        assert_eq!(clock.when(Instant::from_millis(5100)), now);
        clock.forward(Duration::from_secs(2));
        clock.back(Duration::from_secs(1));
        assert_eq!(clock.read(now), Instant::from_millis(6100));
        assert_eq!(clock.when(Instant::from_millis(1)), Instant::ZERO);
        assert_eq!(clock.when(Instant::FAR_FUTURE), Instant::FAR_FUTURE);
    }
}
