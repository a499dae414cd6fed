//! How long to look before sleeping.
//!
//! A sleep and a wake-up cost both sides several microseconds, and tens of them across cores; a
//! look costs nothing while the core has nothing else to do. So a wait looks for a while first, as
//! long as looking pays: a score says how often news came within the while. Where it hardly ever
//! does (the other end has no core to run on while this one looks, or has nothing to say for long)
//! only every so many waits look, to find out whether that has changed.
//!
//! Between looks the core is offered to others: the one that is waited for may need it. Without
//! that, two programs that the scheduler had put on one core answered each other at half the rate.
//! Where others take it for long nobody looks at all: `gannet_base::crowd`.

use gannet_base::crowd::{AWAY, Crowd};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Looks between two readings of the clock.
const LOOKS: u32 = 16;
/// The score when every look pays.
const BEST: u32 = 256;
/// Below this score only one wait in [`PROBE`] looks.
const WORTHWHILE: u32 = BEST / 8;
const PROBE: u32 = 32;

/// What all waiters of this process have learned together.
static CROWD: Crowd = Crowd::new();

/// Milliseconds; the cheap clock of the kernel's tick.
fn ticks() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// What one waiter has learned; may be shared by threads.
#[derive(Debug)]
pub struct Spin {
    longest: Duration,
    score: AtomicU32,
    waits: AtomicU32,
    crowd: &'static Crowd,
    /// An absence so long was a crowd's.
    away: Duration,
}

/// What a wait saw that looked.
enum Saw {
    News,
    Nothing,
    /// Others had the core for long.
    Crowd,
}

impl Spin {
    /// At most `longest`; zero never looks twice.
    pub fn new(longest: Duration) -> Spin {
        Spin {
            longest,
            score: AtomicU32::new(BEST / 2),
            waits: AtomicU32::new(0),
            crowd: &CROWD,
            away: AWAY,
        }
    }

    /// Looks until `look` says yes, or for as long as it is worth. True when it said yes.
    pub fn until(&self, look: impl FnMut() -> bool) -> bool {
        if !self.is_worth_it() {
            return false;
        }
        self.look_for(look)
    }

    /// Looks, after [`Spin::is_worth_it`] said so. True when `look` said yes.
    pub fn look_for(&self, mut look: impl FnMut() -> bool) -> bool {
        let score = self.score.load(Relaxed);
        let saw = self.look(&mut look);
        let score = match saw {
            Saw::News => score + (BEST - score.min(BEST)) / 8,
            Saw::Nothing | Saw::Crowd => score - score / 8,
        };
        self.score.store(score, Relaxed);
        if matches!(saw, Saw::Crowd) {
            self.crowd.came(ticks());
            return look();
        }
        matches!(saw, Saw::News)
    }

    /// Whether this wait should look at all; to be asked once a wait.
    pub fn is_worth_it(&self) -> bool {
        let turn = self.waits.fetch_add(1, Relaxed);
        let worth = self.score.load(Relaxed) >= WORTHWHILE || turn.is_multiple_of(PROBE);
        worth && !self.longest.is_zero() && !self.crowd.is_there(ticks)
    }

    fn look(&self, look: &mut impl FnMut() -> bool) -> Saw {
        let start = Instant::now();
        let mut last = start;
        loop {
            for _ in 0..LOOKS {
                if look() {
                    return Saw::News;
                }
                std::hint::spin_loop();
            }
            if !crate::sandbox::is_on() {
                rustix::thread::sched_yield();
            }
            let now = Instant::now();
            if now - last >= self.away {
                return Saw::Crowd;
            }
            if now - start >= self.longest {
                return if look() { Saw::News } else { Saw::Nothing };
            }
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_that_never_pays_is_given_up_and_tried_again_now_and_then() {
        static OWN: Crowd = Crowd::new();
        let mut spin = Spin::new(Duration::from_micros(1));
        // However busy the machine is.
        (spin.crowd, spin.away) = (&OWN, Duration::MAX);
        let mut looked = 0;
        for _ in 0..1000 {
            let mut any = false;
            spin.until(|| {
                any = true;
                false
            });
            looked += u32::from(any);
        }
        assert!((30..100).contains(&looked), "{looked} of 1000 waits looked");
        let mut found = 0;
        for _ in 0..1000 {
            found += u32::from(spin.until(|| true));
        }
        assert!(found > 900, "{found} of 1000 waits looked once it paid");
    }

    #[test]
    fn nobody_looks_where_others_take_the_core_for_long() {
        static OWN: Crowd = Crowd::new();
        let mut spin = Spin::new(Duration::from_millis(100));
        spin.crowd = &OWN;
        let mut looks = 0;
        let found = spin.until(|| {
            looks += 1;
            if looks == 1 {
                std::thread::sleep(2 * AWAY);
            }
            looks > LOOKS
        });
        assert!(found, "news that came meanwhile are news");
        assert!(OWN.is_there(ticks));
        assert!(!spin.is_worth_it());
    }
}
