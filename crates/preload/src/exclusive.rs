//! Sleeping in `accept` where several processes share the listener: for each connection one of
//! them is woken, as the kernel's `accept` does it (`EPOLLEXCLUSIVE`). A `poll` would wake them
//! all, and a thousand that find nothing take longer than the one that serves.
//!
//! The set is there for the time of one sleep only. Children that other threads make meanwhile give
//! their copies back.

use crate::errno::{self, Outcome};
use crate::{border, open, real};
use gannet_local::sandbox;
use libc::{c_int, epoll_event, pollfd};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Instant;

/// Sets that sleepers of this process have now; 0 where there is none.
static SETS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// A set, as long as its sleeper sleeps.
struct Set {
    fd: OwnedFd,
    place: &'static AtomicI32,
}

impl Set {
    /// One that hears of each of `fds` alone. `None` where that cannot be.
    fn new(fds: &[pollfd]) -> Option<Set> {
        // SAFETY: no pointers.
        let fd = unsafe { real::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: just made. The program must not meet it under a low number.
        let fd = open::high_up(unsafe { OwnedFd::from_raw_fd(fd) });
        let number = fd.as_raw_fd();
        let is_taken = |place: &&AtomicI32| {
            let taken = place.compare_exchange(0, number, AcqRel, Relaxed);
            taken.is_ok()
        };
        let place = SETS.iter().find(is_taken)?;
        let set = Set { fd, place };
        let mut listening = fds.iter().filter(|entry| entry.fd >= 0);
        listening.all(|entry| set.add(entry.fd)).then_some(set)
    }

    fn add(&self, fd: c_int) -> bool {
        let mut event = epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32,
            u64: 0,
        };
        let (set, what) = (self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD);
        // SAFETY: a place of our own.
        unsafe { real::epoll_ctl(set, what, fd, &raw mut event) == 0 }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        self.place.store(0, Relaxed);
    }
}

/// Sleeps until one of `fds` can be read. `None` where that is to be done in another way.
///
/// # Errors
/// `EAGAIN` when none can until `deadline`; `EINTR`.
pub(crate) fn sleep(fds: &[pollfd], deadline: Option<Instant>) -> Option<Outcome<()>> {
    if border::gives_up_sleep() {
        return Some(Err(border::WOULD_SLEEP));
    }
    if sandbox::is_on() {
        return None;
    }
    let set = Set::new(fds)?;
    let mut event = epoll_event { events: 0, u64: 0 };
    let number = set.fd.as_raw_fd();
    // SAFETY: a place of our own.
    let told = unsafe {
        real::epoll_pwait(
            number,
            &raw mut event,
            1,
            milliseconds(deadline),
            std::ptr::null(),
        )
    };
    Some(match errno::of(told) {
        Ok(0) => Err(libc::EAGAIN),
        other => other.map(drop),
    })
}

/// As `epoll_wait` has them: no sooner.
fn milliseconds(deadline: Option<Instant>) -> c_int {
    let Some(deadline) = deadline else { return -1 };
    let left = deadline.saturating_duration_since(Instant::now());
    c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
}

/// In the child of a fork: what sleeps is not here.
pub(crate) fn after_fork() {
    for place in &SETS {
        let fd = place.swap(0, AcqRel);
        if fd != 0 {
            // SAFETY: a copy of a set that no thread of this process uses.
            unsafe { real::close(fd) };
        }
    }
}
