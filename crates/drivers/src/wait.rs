//! Waiting: spin for a bounded while, then sleep on descriptors.
//!
//! A sleeper costs its waker a system call and pays one itself plus the scheduler, some
//! microseconds; a spinner sees news after one cache-line transfer. So the wait starts by spinning,
//! for about as long as a sleep would cost, and the window follows what happens: as long as news
//! tends to come within it, it stays; when sleeps turn out long, it shrinks to nothing, so that a
//! process that wakes a thousand times a second does not also spin a thousand times. (The rule is
//! that of the kernel's halt polling for virtual machines.)
//!
//! The first part of the window only pauses the core; the rest also yields it, so that a peer on
//! the same core gets to run. Where others take it for long nobody spins at all:
//! [`gannet_base::crowd`].
//!
//! ```text
//! loop {
//!     if work() { spinner.news(); continue }
//!     if spinner.spin() { continue }
//!     if driver.arm() { spinner.sleep(&[wake, control, ...], timeout)?; }
//!     driver.disarm(); channel.drain_wake();
//! }
//! ```

use gannet_base::crowd::{AWAY, Crowd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How to wait: default, unit, cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// Longest spin before a sleep. Default 50 us, costs as much of a core per wait. 0: never spin.
    pub spin_max: Duration,
    /// How much of it pauses without yielding the core. Default 5 us.
    pub pause: Duration,
    /// Looks between two readings of the clock. Default 16; a reading costs about 20 ns.
    pub looks_per_reading: u32,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        WaitPolicy {
            spin_max: Duration::from_micros(50),
            pause: Duration::from_micros(5),
            looks_per_reading: 16,
        }
    }
}

/// A sleep shorter than this many windows would have been better spent spinning. More than one,
/// because going to sleep and waking up take their own time on top of what was waited for.
const SHORT_SLEEP: u32 = 4;

/// What all spinners of this process have learned together.
static CROWD: Crowd = Crowd::new();

/// Milliseconds; the cheap clock of the kernel's tick.
fn ticks() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Where one waiter stands.
#[derive(Clone, Debug)]
pub struct Spinner {
    policy: WaitPolicy,
    /// The window now: `spin_max` at most.
    window: Duration,
    since: Option<Instant>,
    looks: u32,
    crowd: &'static Crowd,
}

impl Spinner {
    /// A waiter that starts with the whole window.
    pub fn new(policy: WaitPolicy) -> Self {
        Spinner {
            policy,
            window: policy.spin_max,
            since: None,
            looks: 0,
            crowd: &CROWD,
        }
    }

    /// A waiter that starts with the window another one has arrived at, or the longest if that is
    /// shorter.
    pub fn with_window(policy: WaitPolicy, window: Duration) -> Self {
        Spinner {
            window: window.min(policy.spin_max),
            ..Self::new(policy)
        }
    }

    /// There was work: the next wait starts anew.
    #[inline]
    pub fn news(&mut self) {
        self.since = None;
        self.looks = 0;
    }

    /// There was none: pauses a moment and says whether to look again (`true`) or to sleep.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if self.looks > 0 {
            self.looks -= 1;
            std::hint::spin_loop();
            return true;
        }
        self.spin_on()
    }

    /// Once in a while: reads the clock.
    fn spin_on(&mut self) -> bool {
        self.looks = self.policy.looks_per_reading;
        let begins = self.since.is_none();
        if self.window.is_zero() || (begins && self.crowd.is_there(ticks)) {
            return false;
        }
        let now = Instant::now();
        let spent = now - *self.since.get_or_insert(now);
        if spent >= self.window {
            return false;
        }
        if spent >= self.policy.pause {
            self.looks = 0;
            std::thread::yield_now();
            if now.elapsed() >= AWAY {
                self.crowd.came(ticks());
                return false;
            }
        }
        true
    }

    /// Sleeps until one of `fds` is readable or `timeout` has passed (`None`: for ever); whether
    /// one is. The window then follows how long it took.
    ///
    /// # Errors
    /// As `poll`; an interruption by a signal counts as waking up with nothing readable.
    pub fn sleep(&mut self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
        let start = Instant::now();
        let ready = sleep(fds, timeout)?;
        self.slept(start.elapsed());
        Ok(ready)
    }

    /// As the end of [`Spinner::sleep`], for callers that sleep by other means (epoll).
    pub fn slept(&mut self, elapsed: Duration) {
        let WaitPolicy { spin_max, .. } = self.policy;
        if elapsed < SHORT_SLEEP * spin_max {
            let wider = (self.window * 2).max(spin_max / 8);
            self.window = wider.min(spin_max);
        } else {
            let narrower = self.window / 2;
            self.window = if narrower < spin_max / 16 {
                Duration::ZERO
            } else {
                narrower
            };
        }
        self.news();
    }

    /// The window now.
    pub fn window(&self) -> Duration {
        self.window
    }
}

impl Default for Spinner {
    fn default() -> Self {
        Self::new(WaitPolicy::default())
    }
}

/// Most descriptors [`sleep`] watches.
pub const FDS_MAX: usize = 16;

/// Sleeps until one of the first [`FDS_MAX`] of `fds` is readable or `timeout` has passed; whether
/// one is.
///
/// # Errors
/// As `poll`; an interruption by a signal counts as waking up with nothing readable.
pub fn sleep(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
    let Some(&first) = fds.first() else {
        std::thread::sleep(timeout.unwrap_or(Duration::MAX));
        return Ok(false);
    };
    let count = fds.len().min(FDS_MAX);
    let mut polled: [PollFd<'_>; FDS_MAX] = std::array::from_fn(|at| {
        PollFd::from_borrowed_fd(fds.get(at).copied().unwrap_or(first), PollFlags::IN)
    });
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    match poll(polled.get_mut(..count).unwrap_or(&mut []), timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;

    #[test]
    fn spinning_ends() {
        static OWN: Crowd = Crowd::new();
        // However busy the machine is.
        let mut spinner = Spinner {
            crowd: &OWN,
            ..Spinner::default()
        };
        let mut looks = 0u64;
        while spinner.spin() {
            looks += 1;
        }
        assert!(looks > 0);
        let none = WaitPolicy {
            spin_max: Duration::ZERO,
            ..WaitPolicy::default()
        };
        assert!(!Spinner::new(none).spin());
    }

    #[test]
    fn nobody_spins_where_others_want_the_cores() {
        static OWN: Crowd = Crowd::new();
        let mut spinner = Spinner {
            crowd: &OWN,
            ..Spinner::default()
        };
        OWN.came(ticks());
        assert!(!spinner.spin() && !spinner.window().is_zero());
    }

    #[test]
    fn the_window_follows_what_happens() {
        let mut spinner = Spinner::default();
        let full = spinner.window();
        for _ in 0..6 {
            spinner.slept(Duration::from_millis(5));
        }
        assert_eq!(spinner.window(), Duration::ZERO, "long sleeps: no spinning");
        assert!(!spinner.spin());
        for _ in 0..6 {
            spinner.slept(Duration::from_micros(3));
        }
        assert_eq!(spinner.window(), full, "short sleeps: all of it");
    }

    #[test]
    fn sleep_sees_a_descriptor() {
        let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let fds = [fd.as_fd()];
        assert!(!sleep(&fds, Some(Duration::ZERO)).unwrap());
        rustix::io::write(&fd, &1u64.to_ne_bytes()).unwrap();
        assert!(sleep(&fds, None).unwrap());
        assert!(!sleep(&[], Some(Duration::from_micros(1))).unwrap());
    }
}
