//! How long to look before sleeping.
//!
//! A sleep and a wake-up cost both sides several microseconds, and tens of them across cores; a
//! look costs nothing while the core has nothing else to do. So a wait looks for a while first, as
//! long as such looking has paid: the window grows when news came within it (or would have, had it
//! been longer), and shrinks to nothing when sleeps turn out long. Between looks the core is
//! offered to others, so that programs that outnumber the cores do not wait for each other's looks.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Looks between two offers of the core.
const LOOKS: u32 = 32;

/// The window of one waiter; may be shared by threads.
#[derive(Debug)]
pub struct Spin {
    /// Microseconds.
    window: AtomicU32,
    longest: u32,
}

impl Spin {
    /// At most `longest`; zero never looks twice.
    pub fn new(longest: Duration) -> Spin {
        let longest = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
        Spin {
            window: AtomicU32::new(longest),
            longest,
        }
    }

    /// Looks until `look` says yes, or the window is over. True when it said yes.
    pub fn until(&self, mut look: impl FnMut() -> bool) -> bool {
        let window = Duration::from_micros(self.window.load(Relaxed).into());
        if window.is_zero() {
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if look() {
                    return true;
                }
                std::hint::spin_loop();
            }
            rustix::thread::sched_yield();
            if start.elapsed() >= window {
                return look();
            }
        }
    }

    /// After a sleep of this length: should there be looking the next time?
    pub fn slept(&self, length: Duration) {
        let window = self.window.load(Relaxed);
        let microseconds = u32::try_from(length.as_micros()).unwrap_or(u32::MAX);
        let next = match microseconds <= self.longest.saturating_mul(4) {
            true => window
                .saturating_mul(2)
                .clamp(self.longest / 8, self.longest),
            false => window / 2,
        };
        self.window.store(next, Relaxed);
    }
}
