//! A lock in shared memory that outlives its holder.
//!
//! The lower half of its word holds the number of the thread that has it, and a bit that says that
//! others sleep for it. The upper half says which use of which entry of the arena's process table
//! the thread belongs to: thread numbers come again, and mean another thread in another PID
//! namespace. What the lock guards (one end of a ring) is consistent after every single store, so
//! that a holder that dies inside leaves nothing half done: the next one takes the lock over.

use crate::arena::{Arena, pid_namespace};
use crate::sandbox;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::thread::futex;
use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

const SLEEPERS: u64 = 1 << 31;
/// Of the lower half: the thread.
const NUMBER: u64 = SLEEPERS - 1;
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

/// A lock in an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) word: &'a AtomicU64,
    /// The lower half of `word`, which the kernel compares before it lets a thread sleep.
    pub(crate) lower: &'a AtomicU32,
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(Lock<'a>);

const _: () = assert!(cfg!(target_endian = "little"), "the lower half comes first");

/// Takes the lock. `DEADLK` when this thread has it: a signal has interrupted it inside, and a wait
/// would be for ever.
pub(crate) fn hold(lock: Lock<'_>) -> Result<Held<'_>, Errno> {
    let mine = u64::from(lock.arena.seat()) << 32 | u64::from(thread());
    match lock.word.compare_exchange(0, mine, Acquire, Relaxed) {
        Ok(_) => {}
        Err(seen) if seen & !SLEEPERS == mine => return Err(Errno::DEADLK),
        Err(_) => wait_for(lock, mine),
    }
    Ok(Held(lock))
}

#[cold]
fn wait_for(Lock { arena, word, lower }: Lock<'_>, mine: u64) {
    let take = |from: u64, to: u64| word.compare_exchange(from, to, Acquire, Relaxed).is_ok();
    let mut slept = 0;
    loop {
        for _ in 0..LOOKS {
            // One that slept cannot know whether others still do.
            if take(0, mine | slept) {
                return;
            }
            std::hint::spin_loop();
        }
        let seen = word.fetch_or(SLEEPERS, AcqRel) | SLEEPERS;
        slept = SLEEPERS;
        if seen == SLEEPERS {
            // It became free meanwhile: the bit alone holds nothing.
            if take(SLEEPERS, mine | slept) {
                return;
            }
            continue;
        }
        let timed_out = sleep(lower, seen);
        if timed_out && is_dead(seen, arena) && take(seen, mine | slept) {
            return;
        }
    }
}

fn sleep(lower: &AtomicU32, expected: u64) -> bool {
    let timeout = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: SUSPICION.subsec_nanos().into(),
    };
    let flags = futex::Flags::empty();
    futex::wait(lower, flags, expected as u32, Some(&timeout)) == Err(Errno::TIMEDOUT)
}

/// Whether the holder that a word names can never let go.
fn is_dead(seen: u64, arena: &Arena) -> bool {
    let (seat, thread) = ((seen >> 32) as u32, (seen & NUMBER) as u32);
    if seat == 0 {
        // A process without an entry of its own: its thread's number is all there is.
        return is_gone(thread);
    }
    match arena.seated(seat) {
        None => true,
        // The carrier may be gone that would have given the entry back.
        Some(namespace) => is_gone(thread) && namespace == pid_namespace(),
    }
}

fn is_gone(thread: u32) -> bool {
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
        if self.0.word.swap(0, Release) & SLEEPERS != 0 {
            let _ = futex::wake(self.0.lower, futex::Flags::empty(), 1);
        }
    }
}

#[cfg(test)]
mod tests;
