//! Whether others want the cores.
//!
//! Who looks for news offers the core to others between looks. Where more want to run than there
//! are cores that is given away for a whole slice, some milliseconds, while a sleeper is run at
//! once when its news come, for it has waited: looking is worth nothing then. (With three programs
//! that only count beside it, PostgreSQL answered pgbench 164 times a second instead of 11,000.)
//! So a long absence ends all looking in the process for a while, for longer the sooner it happens
//! again. News that came meanwhile are no sign that looking pays.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// An absence so long was that of a program with work for its whole slice (measured: 2.5 to 10 ms
/// at 250 ticks a second), not of a partner that answers. At 250 microseconds the workers of nginx
/// took each other for a crowd.
pub(crate) const AWAY: Duration = Duration::from_millis(1);
/// How long nobody looks after the first absence, in milliseconds.
const PAUSE: u64 = 20;
/// How often that doubles at most: to 1.3 seconds.
const DOUBLINGS: u32 = 6;

/// What the threads of a process have learned.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Nobody looks before; in milliseconds of a clock. 0: it never happened.
    until: AtomicU64,
    doublings: AtomicU32,
}

/// The one of this process.
pub(crate) static CROWD: Crowd = Crowd::new();

impl Crowd {
    pub(crate) const fn new() -> Crowd {
        Crowd {
            until: AtomicU64::new(0),
            doublings: AtomicU32::new(0),
        }
    }

    /// Whether the cores were wanted a short while ago.
    pub(crate) fn is_there(&self) -> bool {
        let until = self.until.load(Relaxed);
        until != 0 && now() < until
    }

    /// Somebody had the core for longer than [`AWAY`].
    pub(crate) fn came(&self) {
        self.came_at(now());
    }

    fn came_at(&self, now: u64) {
        let until = self.until.load(Relaxed);
        let doublings = self.doublings.load(Relaxed);
        if now < until {
            return;
        }
        let pause = PAUSE << doublings.min(DOUBLINGS);
        let again = until != 0 && now - until < 4 * pause;
        let doublings = if again {
            (doublings + 1).min(DOUBLINGS)
        } else {
            0
        };
        self.doublings.store(doublings, Relaxed);
        self.until.store(now + (PAUSE << doublings), Relaxed);
    }
}

/// Milliseconds; the cheap clock of the kernel's tick.
fn now() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_while_they_stay_and_starts_anew_once_they_were_gone() {
        let crowd = Crowd::new();
        assert!(!crowd.is_there());
        let mut pauses = Vec::new();
        let mut time = 1_000_000;
        for _ in 0..9 {
            crowd.came_at(time);
            let until = crowd.until.load(Relaxed);
            pauses.push(until - time);
            // Another thread was away too.
            crowd.came_at(time + 1);
            assert_eq!(crowd.until.load(Relaxed), until);
            time = until + 5;
        }
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1280, 1280, 1280]);
        crowd.came_at(time + 10_000);
        assert_eq!(crowd.until.load(Relaxed) - (time + 10_000), 20);
    }
}
