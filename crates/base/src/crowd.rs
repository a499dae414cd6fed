//! Whether others want the cores.
//!
//! Who looks for news offers the core to others between looks. Where more want to run than there
//! are cores that is given away for a whole slice, some milliseconds, while a sleeper is run at
//! once when its news come, for it has waited: looking is worth nothing then. (With three programs
//! that only count beside it, PostgreSQL answered pgbench 164 times a second instead of 11,000.)
//! So a long absence ends all looking in the process for a while, for longer the sooner it happens
//! again. News that came meanwhile are no sign that looking pays.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::time::Duration;

/// An absence so long was that of a program with work for its whole slice (measured: 2.5 to 10 ms
/// at 250 ticks a second), not of a partner that answers. At 250 microseconds the workers of nginx
/// took each other for a crowd.
pub const AWAY: Duration = Duration::from_millis(1);
/// How long nobody looks after the first absence, in milliseconds.
const PAUSE: u64 = 20;
/// How often that doubles at most: to 1.3 seconds.
const DOUBLINGS: u32 = 6;

/// What the threads of a process have learned. Times are milliseconds of any clock that only goes
/// forward.
#[derive(Debug, Default)]
pub struct Crowd {
    /// Nobody looks before. 0: it never happened.
    until: AtomicU64,
    doublings: AtomicU32,
}

impl Crowd {
    /// Nobody was away yet.
    pub const fn new() -> Crowd {
        Crowd {
            until: AtomicU64::new(0),
            doublings: AtomicU32::new(0),
        }
    }

    /// Whether the cores were wanted a short while ago. The clock is read only if they ever were.
    pub fn is_there(&self, now: impl FnOnce() -> u64) -> bool {
        let until = self.until.load(Relaxed);
        until != 0 && now() < until
    }

    /// Somebody had the core for [`AWAY`] or longer.
    pub fn came(&self, now: u64) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_while_they_stay_and_starts_anew_once_they_were_gone() {
        let crowd = Crowd::new();
        assert!(!crowd.is_there(|| 5));
        let mut time = 1_000_000;
        for pause in [20, 40, 80, 160, 320, 640, 1280, 1280, 1280] {
            crowd.came(time);
            // Another thread was away too, which changes nothing.
            crowd.came(time + 1);
            assert!(crowd.is_there(|| time + pause - 1), "{pause}");
            assert!(!crowd.is_there(|| time + pause), "{pause}");
            time += pause + 5;
        }
        time += 10_000;
        crowd.came(time);
        assert!(crowd.is_there(|| time + 19) && !crowd.is_there(|| time + 20));
    }
}
