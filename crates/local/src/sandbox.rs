//! Processes that gave up most system calls (seccomp), as servers do before they talk to
//! strangers. What is left to them is `read`, `write` and `poll`, with which streams can do as
//! well; before that, nobody needs to be so frugal.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

static ON: AtomicBool = AtomicBool::new(false);

/// This process has a filter of system calls from now on.
pub fn enter() {
    ON.store(true, Relaxed);
}

/// Whether it has.
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Whether `fd` has something to read, or hung up, now.
pub(crate) fn has_something(fd: BorrowedFd<'_>) -> bool {
    let mut entry = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut entry, Some(&now)).is_ok_and(|n| n > 0)
}
