//! Who of a process's threads sleeps in the kernel for a socket, and takes its wake-ups away.
//!
//! A wake-up is a byte. Whoever takes it out of the socket may take it from another who was just
//! about to sleep, or whom it has not woken yet; the other end, which believes that it has woken
//! him, says nothing more. So there is one rule:
//!
//! * only who has the *lead* takes wake-ups out;
//! * who has it, looks once more before he sleeps, and nobody can have it meanwhile;
//! * who has it not, sleeps on the `turn` he saw before he looked, which moves on when the lead is
//!   given up while somebody does so; or, where he has to sleep in the kernel, not for long.
//!
//! What an epoll set has missed, since somebody else took the byte that woke it, it is told anew.

use crate::border;
use crate::errno::Outcome;
use crate::object::Object;
use crate::state::State;
use gannet_local::lock;
use rustix::thread::futex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Longest sleep of somebody who might miss what ends it.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The lead of a socket, until dropped.
#[derive(Debug)]
pub(crate) struct Lead<'a>(&'a Object);

impl<'a> Lead<'a> {
    /// Takes it, if nobody has it.
    pub(crate) fn take(object: &'a Object) -> Option<Lead<'a>> {
        let taken = object
            .leader
            .compare_exchange(0, lock::thread(), SeqCst, SeqCst);
        taken.ok().map(|_| Lead(object))
    }

    /// Does what only he may do who has it; not if another thread does, who will.
    pub(crate) fn with(object: &'a Object, work: impl FnOnce()) {
        let taken = Lead::take(object);
        if taken.is_some() || object.leader.load(SeqCst) == lock::thread() {
            work();
        }
    }

    /// Whether it is the lead of this one.
    pub(crate) fn is_of(&self, object: &Object) -> bool {
        std::ptr::eq(self.0, object)
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.leader.store(0, SeqCst);
        if self.0.followers.load(SeqCst) > 0 {
            stir(self.0);
        }
    }
}

/// To be read before looking whether a sleep is necessary.
pub(crate) fn turn(object: &Object) -> u32 {
    object.turn.load(SeqCst)
}

/// Those who follow look again.
pub(crate) fn stir(object: &Object) {
    object.turn.fetch_add(1, SeqCst);
    let _ = futex::wake(&object.turn, futex::Flags::PRIVATE, u32::MAX >> 1);
}

/// Sleeps until the lead is given up, or something was said to all; at most for some time. Only
/// after somebody else was found to have it.
///
/// # Errors
/// `EINTR`; `EAGAIN` after the time.
pub(crate) fn follow(object: &Object, turn: u32, most: Option<Duration>) -> Outcome<()> {
    object.followers.fetch_add(1, SeqCst);
    // Who gave it up before could not know of this one.
    let slept = match object.leader.load(SeqCst) {
        0 => Ok(()),
        _ => sleep(object, turn, most),
    };
    object.followers.fetch_sub(1, SeqCst);
    slept
}

fn sleep(object: &Object, turn: u32, most: Option<Duration>) -> Outcome<()> {
    let time = most.map(|most| rustix::time::Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: most.subsec_nanos().into(),
    });
    let time = time
        .as_ref()
        .map_or(0, |time| std::ptr::from_ref(time).addr());
    let (n, word) = (libc::SYS_futex as usize, object.turn.as_ptr().addr());
    let how = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let words = [n, word, how, turn as usize, time, 0, 0];
    // SAFETY: a word and a time that are there as long as the call.
    match -unsafe { border::sleeping_call(&words) } as libc::c_int {
        libc::ETIMEDOUT => Err(libc::EAGAIN),
        // It may have been woken, or the word has changed.
        error @ (libc::EINTR | border::RESTART | border::WOULD_SLEEP) => match most {
            Some(_) if error == border::RESTART => Err(libc::EINTR),
            _ => Err(error),
        },
        _ => Ok(()),
    }
}

/// A wake-up was taken out by one who is no epoll set: the sets of this process that may have
/// slept for it are woken anew.
pub(crate) fn tell_sets(state: &State, object: &Object) {
    if state.arena().own(object.slot()).watch() != 0 {
        crate::epoll::look_again(object, false);
    }
}
