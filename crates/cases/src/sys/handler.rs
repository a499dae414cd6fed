//! A signal handler that allocates, let in only while the program waits: as PostgreSQL's postmaster
//! did for decades. It is right as long as the wait itself does not touch the program's heap.

use crate::far;
use libc::{c_int, itimerval, timeval};
use std::ptr::{null, null_mut};

/// Rounds of waiting.
const ROUNDS: usize = 10_000;
/// Microseconds between two signals.
const EVERY: libc::suseconds_t = 100;

fn use_heap(n: usize) {
    // SAFETY: blocks of our own, written within their size, given back once.
    unsafe {
        let blocks: [*mut libc::c_void; 8] = std::array::from_fn(|i| libc::malloc(24 + i * 40 + n));
        for (i, block) in blocks.into_iter().enumerate() {
            if !block.is_null() {
                libc::memset(block, 0x5a, 24 + i * 40 + n);
            }
            libc::free(block);
        }
    }
}

extern "C" fn on_alarm(_: c_int) {
    use_heap(5);
}

pub(super) fn every(micros: libc::suseconds_t) {
    let time = timeval {
        tv_sec: 0,
        tv_usec: micros,
    };
    let timer = itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: a timer of our own.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) };
}

/// Waits for a descriptor many times, by `select` and by `poll`, with the handler let in meanwhile
/// and the heap in use in between; how often something was found.
pub(crate) fn wait_while_handlers_allocate(fd: i32) -> usize {
    far::here(fd);
    let mut found = 0;
    // SAFETY: places of our own; the handler is a function of this program's.
    unsafe {
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut alarm, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const alarm, null_mut());
        libc::signal(libc::SIGALRM, on_alarm as *const () as libc::sighandler_t);
        every(EVERY);
        for n in 0..ROUNDS {
            use_heap(n % 100);
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(fd, &raw mut set);
            let mut entry = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            let mut soon = timeval {
                tv_sec: 0,
                tv_usec: 0,
            };
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const alarm, null_mut());
            let got = match n % 2 {
                0 => libc::select(fd + 1, &raw mut set, null_mut(), null_mut(), &raw mut soon),
                _ => libc::poll(&raw mut entry, 1, 0),
            };
            libc::sigprocmask(libc::SIG_BLOCK, &raw const alarm, null_mut());
            found += usize::from(got > 0);
        }
        every(0);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const alarm, null_mut());
        libc::sigaction(libc::SIGALRM, null(), null_mut());
    }
    found
}
