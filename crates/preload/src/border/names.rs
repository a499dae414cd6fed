//! Calls that come by a name of the C library's, which save no registers and have no stack of their
//! own: the library is marked as inside all the same, so that signals wait.
//!
//! Such a call does not sleep. Before it would, it is given up, and the C library's own function is
//! called instead: that one comes back by the border, and sleeps there as in the kernel. So the C
//! library sees to cancellation, and the border to calls that are made again after a handler.

use super::gate::{self, Words};
use super::thread::{self, Thread};
use super::{RESTART, deferred, deliver};
use crate::errno::Outcome;
use crate::object;
use crate::place;
use crate::real;
use libc::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// A call by name would have to sleep: never seen by a program.
pub(crate) const WOULD_SLEEP: c_int = 514;

/// The library works for a call by name as long as this is there.
#[derive(Debug)]
pub(crate) struct Busy(Option<&'static Thread>);

/// Signals wait from here on.
#[inline]
pub(crate) fn enter() -> Busy {
    Busy(begin_by_name())
}

impl Drop for Busy {
    #[inline]
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            end(thread);
        }
    }
}

/// As [`enter`], until [`leave`]. `None` where there is no border, or the call came by it.
#[inline]
pub(crate) fn begin_by_name() -> Option<&'static Thread> {
    let thread = super::is_raised().then(thread::current)?;
    if thread.inside.load(Relaxed) != 0 {
        return None;
    }
    let busy = thread.busy.load(Relaxed);
    thread.busy.store(busy + 1, Relaxed);
    if busy == 0 {
        thread.stays.store(0, Relaxed);
    }
    Some(thread)
}

/// The end of what [`begin_by_name`] began, perhaps in a child that was forked in between.
pub(crate) fn leave() {
    let thread = super::is_raised().then(thread::current);
    if let Some(thread) = thread.filter(|thread| thread.inside.load(Relaxed) == 0) {
        end(thread);
    }
}

#[inline]
fn end(thread: &Thread) {
    let busy = thread.busy.load(Relaxed).saturating_sub(1);
    thread.busy.store(busy, Relaxed);
    // A signal that comes now is delivered at once: what is kept, was kept before.
    if busy == 0 && thread.kept.load(Relaxed) != 0 {
        // SAFETY: outside of the library; handlers run as if they came here.
        unsafe { deliver::here() };
    }
}

/// Whether a call by name at descriptor `fd` is the C library's at once. (Should another thread
/// make it ours meanwhile the border sees that.)
#[inline(always)]
pub(crate) fn is_foreign(fd: c_int) -> bool {
    let is_inside = || super::is_raised() && thread::current().inside.load(Relaxed) != 0;
    !object::is_ours(fd) && !is_inside()
}

/// Answers a call by name at descriptor `fd`. `None`: the C library's function is to be called, for
/// a descriptor that is not ours or to sleep.
#[inline]
pub(crate) fn by_name<T>(
    fd: c_int,
    work: impl FnOnce() -> Option<Outcome<T>>,
) -> Option<Outcome<T>> {
    match object::is_ours(fd) {
        true => answer(work),
        false => None,
    }
}

/// As [`by_name`] for a call that no handler restarts.
#[inline]
pub(crate) fn wait_by_name<T>(
    fd: c_int,
    work: impl FnOnce() -> Option<Outcome<T>>,
) -> Option<Outcome<T>> {
    match object::is_ours(fd) {
        true => wait(work),
        false => None,
    }
}

/// As [`by_name`] where the first argument does not say whether the call is ours.
pub(crate) fn answer<T>(work: impl FnOnce() -> Option<Outcome<T>>) -> Option<Outcome<T>> {
    attempt((false, true), work).0
}

/// As [`answer`] for a call that no handler restarts.
pub(crate) fn wait<T>(work: impl FnOnce() -> Option<Outcome<T>>) -> Option<Outcome<T>> {
    attempt((false, false), work).0
}

/// As [`by_name`] for a call that can be made in parts: whether it has to go on at the border with
/// what is left.
#[inline]
pub(crate) fn in_parts(
    fd: c_int,
    work: impl FnOnce() -> Option<Outcome<usize>>,
) -> (Option<Outcome<usize>>, bool) {
    match object::is_ours(fd) {
        true => attempt((true, true), work),
        false => (None, false),
    }
}

fn attempt<T>(
    (has_parts, may_restart): (bool, bool),
    work: impl FnOnce() -> Option<Outcome<T>>,
) -> (Option<Outcome<T>>, bool) {
    if !super::is_raised() || thread::current().inside.load(Relaxed) != 0 {
        return (work(), false);
    }
    // A thread that was cancelled before does not get to the call.
    real::test_cancel();
    let thread = thread::current();
    let _busy = enter();
    thread.parts.store(u32::from(has_parts), Relaxed);
    let outcome = work();
    let is_left = thread.parts.swap(0, Relaxed) == LEFT;
    match outcome {
        // A signal came while it looked: as if it had slept.
        Some(Err(WOULD_SLEEP)) if !deferred::restarts(thread, may_restart) => {
            (Some(Err(libc::EINTR)), false)
        }
        Some(Err(WOULD_SLEEP)) => {
            thread.has_looked.store(1, Relaxed);
            (None, false)
        }
        // After its beginning a call is not made again.
        Some(Err(RESTART)) => (Some(Err(libc::EINTR)), false),
        outcome => {
            thread.has_looked.store(u32::from(is_left), Relaxed);
            (outcome, is_left)
        }
    }
}

/// The first part of a call is left as it is, for the rest to be done at the border.
const LEFT: u32 = 2;

/// A call by name has done a part, and would have to sleep for the rest. True if it is to say how
/// much is done, and the rest is another call at the border; else it sleeps where it is.
pub(crate) fn leaves_rest() -> bool {
    if !super::is_raised() {
        return false;
    }
    let thread = thread::current();
    let leaves = is_to_sleep_elsewhere(thread) && thread.parts.load(Relaxed) != 0;
    match leaves {
        true => thread.parts.store(LEFT, Relaxed),
        false => thread.stays.store(1, Relaxed),
    }
    leaves
}

/// The C library's function is about to be called with these first arguments, for such a rest.
pub(crate) fn begin_rest(arguments: [usize; 2]) {
    thread::current().set_rest(arguments);
}

/// It has returned.
pub(crate) fn end_rest() {
    thread::current().set_rest([usize::MAX; 2]);
}

/// Whether the call at the border is such a rest: what goes wrong then is for the next call.
pub(crate) fn is_rest() -> bool {
    super::is_raised() && {
        let thread = thread::current();
        thread.inside.load(Relaxed) != 0 && thread.is_rest()
    }
}

/// What a call by name has begun cannot be left to the border: it sleeps where it is.
pub(crate) fn stay_here() {
    if super::is_raised() {
        thread::current().stays.store(1, Relaxed);
    }
}

/// Whether a call has spent the time for looking before a sleep already: by its name.
pub(crate) fn has_looked() -> bool {
    super::is_raised() && {
        let thread = thread::current();
        thread.inside.load(Relaxed) != 0 && thread.has_looked.swap(0, Relaxed) != 0
    }
}

/// Whether a call by name is given up where it would sleep.
pub(crate) fn gives_up_sleep() -> bool {
    super::is_raised() && is_to_sleep_elsewhere(thread::current())
}

fn is_to_sleep_elsewhere(thread: &Thread) -> bool {
    thread.inside.load(Relaxed) == 0
        && thread.busy.load(Relaxed) != 0
        && thread.stays.load(Relaxed) == 0
}

/// A system call that may sleep, and that the kernel makes again after handlers with `SA_RESTART`.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn sleeping_call(words: &Words) -> isize {
    if !super::is_raised() {
        // SAFETY: as the caller says.
        return unsafe { gate::kernel(words) };
    }
    if is_to_sleep_elsewhere(thread::current()) {
        return -(WOULD_SLEEP as isize);
    }
    // SAFETY: as the caller says.
    unsafe { gate::kernel_unless_kept(words) }
}

/// A system call that waits for readiness, which no handler restarts. `sleeps` says whether it may
/// sleep, `mask_at` which word is the program's mask for the time of the sleep, or null; or 0.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn waiting_call(words: &Words, sleeps: bool, mask_at: usize) -> isize {
    let mask = words.get(mask_at).map_or(0, |mask| *mask);
    // SAFETY: any bytes are a mask. (Of a place where none is the kernel says so.)
    let given = (mask_at > 0 && mask != 0).then(|| unsafe { place::read(mask as *const u64) });
    let given = given.and_then(Result::ok);
    let has_mask = given.is_some();
    if !super::is_raised() || !sleeps && !has_mask {
        // SAFETY: as the caller says.
        return unsafe { gate::kernel(words) };
    }
    let thread = thread::current();
    if sleeps && is_to_sleep_elsewhere(thread) {
        return -(WOULD_SLEEP as isize);
    }
    if let Some(mask) = given {
        thread.sleep_mask.store(mask, Relaxed);
        thread.has_sleep_mask.store(1, Relaxed);
    }
    // SAFETY: as the caller says.
    let outcome = unsafe { gate::kernel_unless_kept(words) };
    thread.has_sleep_mask.store(0, Relaxed);
    match -outcome as c_int {
        RESTART if sleeps => -(libc::EINTR as isize),
        RESTART => {
            // All signals are blocked, and stay so: what waits is delivered after the call.
            let mut words = *words;
            if let Some(mask) = words.get_mut(mask_at) {
                *mask = 0;
            }
            // SAFETY: as the caller says.
            unsafe { gate::kernel(&words) }
        }
        _ => outcome,
    }
}
