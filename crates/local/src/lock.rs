//! A lock in shared memory that outlives its holder.
//!
//! The word holds the number of the thread that has it, and the top bit when somebody sleeps for
//! it. What it guards (one end of a ring) is consistent after every single store, so that a holder
//! who dies inside leaves nothing half done: whoever finds it dead takes the lock over. Should its
//! number have become another thread's within those milliseconds, the lock is taken over when that
//! one ends.

use crate::sandbox;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::thread::futex;
use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

const SLEEPERS: u32 = 1 << 31;
/// Looks before going to sleep.
const LOOKS: u32 = 200;
/// How long to sleep before looking whether the holder still lives.
const SUSPICION: Duration = Duration::from_millis(20);

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The number of this thread.
pub fn thread() -> u32 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        }
        thread.get()
    })
}

/// To be called in the child of a fork: the thread has another number now.
pub fn after_fork() {
    // At once: a process may give up asking.
    THREAD.with(|own| own.set(0));
    let _ = thread();
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a AtomicU32);

/// Takes the lock. `DEADLK` when this thread has it: a signal has interrupted it inside, and a wait
/// would be for ever.
pub(crate) fn hold(word: &AtomicU32) -> Result<Held<'_>, Errno> {
    match word.compare_exchange(0, thread(), Acquire, Relaxed) {
        Ok(_) => {}
        Err(seen) if seen & !SLEEPERS == thread() => return Err(Errno::DEADLK),
        Err(_) => wait_for(word),
    }
    Ok(Held(word))
}

#[cold]
fn wait_for(word: &AtomicU32) {
    let mine = thread();
    let mut slept = 0;
    loop {
        for _ in 0..LOOKS {
            // Who slept cannot know whether others still do.
            if word
                .compare_exchange(0, mine | slept, Acquire, Relaxed)
                .is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        let seen = word.fetch_or(SLEEPERS, AcqRel);
        slept = SLEEPERS;
        if seen == 0 {
            // It became free meanwhile: the bit alone holds nothing.
            if word
                .compare_exchange(SLEEPERS, mine | slept, Acquire, Relaxed)
                .is_ok()
            {
                return;
            }
            continue;
        }
        let holder = seen & !SLEEPERS;
        if holder == 0 {
            let taken = word.compare_exchange(SLEEPERS, mine | slept, Acquire, Relaxed);
            if taken.is_ok() {
                return;
            }
            continue;
        }
        let timed_out = sleep(word, holder | SLEEPERS);
        if timed_out && is_dead(holder) {
            let taken = word.compare_exchange(holder | SLEEPERS, mine | slept, Acquire, Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }
}

fn sleep(word: &AtomicU32, expected: u32) -> bool {
    let timeout = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: SUSPICION.subsec_nanos().into(),
    };
    futex::wait(word, futex::Flags::empty(), expected, Some(&timeout)) == Err(Errno::TIMEDOUT)
}

fn is_dead(thread: u32) -> bool {
    if sandbox::is_on() {
        // May not ask.
        return false;
    }
    let Some(pid) = Pid::from_raw(thread as i32) else {
        return true;
    };
    test_kill_process(pid) == Err(Errno::SRCH) || is_unburied(thread)
}

/// A killed process keeps its number until its parent asks for its end, which may be never.
fn is_unburied(thread: u32) -> bool {
    let path = format!("/proc/{thread}/stat");
    let mut text = [0u8; 512];
    let state = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::read(file, &mut text[..]))
        .ok()
        .and_then(|n| state_in(text.get(..n)?));
    matches!(state, Some(b'Z' | b'X' | b'x'))
}

/// The letter behind the name, which may hold anything.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Release) & SLEEPERS != 0 {
            let _ = futex::wake(self.0, futex::Flags::empty(), 1);
        }
    }
}

#[cfg(test)]
mod tests;
