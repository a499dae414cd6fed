//! Signal masks, as far as the border depends on them, and SIGSYS: it brings the calls, so it is
//! never blocked, and the program's no more. What the program wants of it is kept, and done for
//! those that a filter (seccomp) sends.

use super::actions::{self, Action, MASK_LEN, SA_RESTORER, SIGSYS_BIT};
use super::deferred::Context;
use super::deliver::{RESTART, RESTART_ALWAYS};
use super::gate::{self, Words};
use super::{dispatch, thread, tls};
use crate::place;
use libc::{c_int, c_void, siginfo_t};
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// Installs the handler by which calls arrive, and takes SIGSYS out of the mask.
pub(super) fn begin() -> Result<(), Errno> {
    let action = Action {
        handler: tls::on_sigsys as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | SA_RESTORER,
        restorer: gate::signal_return(),
        // Other handlers come when this one is done.
        mask: actions::all_blocked(),
    };
    let mut before = Action::default();
    actions::set(libc::SIGSYS, &raw const action, &raw mut before)?;
    actions::keep(libc::SIGSYS, &before);
    actions::adopt();
    let unblocked = SIGSYS_BIT;
    let how = libc::SIG_UNBLOCK as usize;
    let place = (&raw const unblocked).addr();
    let words = [
        libc::SYS_rt_sigprocmask as usize,
        how,
        place,
        0,
        MASK_LEN,
        0,
        0,
    ];
    // SAFETY: a mask of our own.
    let _ = unsafe { gate::kernel(&words) };
    Ok(())
}

/// `rt_sigprocmask`.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn mask(words: &Words) -> isize {
    let [n, how, set, old, len, ..] = *words;
    // (Where nothing is set the kernel says what is wrong, or what the mask is.)
    // SAFETY: any bytes are a mask.
    let wanted = unsafe { place::read(set as *const u64) };
    let Some(wanted) = wanted.ok().filter(|_| len == MASK_LEN) else {
        return dispatch::native(n);
    };
    let changed = wanted & !SIGSYS_BIT;
    // SAFETY: passed on, but for the mask, which is ours.
    let outcome =
        unsafe { gate::kernel_unless_kept(&[n, how, (&raw const changed).addr(), old, len, 0, 0]) };
    std::hint::black_box(changed);
    match -outcome as c_int {
        // While signals wait the mask is not the program's: their handlers first.
        RESTART => -(RESTART_ALWAYS as isize),
        _ => outcome,
    }
}

/// Whether a mask for the time of a wait would keep SIGSYS away from a handler that runs then.
///
/// # Safety
/// As [`place::read`].
pub(super) unsafe fn blocks_ours(mask: usize) -> bool {
    // SAFETY: any bytes are a mask.
    let mask = unsafe { place::read(mask as *const u64) };
    mask.is_ok_and(|mask| mask & SIGSYS_BIT != 0)
}

/// A wait with such a mask, `at` the place of the mask among the words: with another one.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn wait(words: &Words, at: usize) -> isize {
    let mut changed = *words;
    let mut mask = 0u64;
    if let Some(place) = changed.get_mut(at) {
        // SAFETY: the caller's mask, which was there a moment ago.
        mask = unsafe { place::read(*place as *const u64) }.unwrap_or(0) & !SIGSYS_BIT;
        *place = (&raw const mask).addr();
    }
    let thread = thread::current();
    thread.sleep_mask.store(mask, Relaxed);
    thread.has_sleep_mask.store(1, Relaxed);
    // SAFETY: passed on.
    let outcome = unsafe { gate::kernel_unless_kept(&changed) };
    thread.has_sleep_mask.store(0, Relaxed);
    std::hint::black_box(mask);
    match -outcome as c_int {
        RESTART => -(libc::EINTR as isize),
        _ => outcome,
    }
}

/// A SIGSYS that is none of ours: a filter's, or a `kill`.
pub(super) fn foreign(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let wanted = actions::begin(signal);
    if wanted.handler == libc::SIG_IGN {
        return;
    }
    if wanted.is_handler() {
        // SAFETY: the kernel's.
        let before = unsafe { (*context.cast::<Context>()).mask };
        actions::set_mask(before | wanted.blocks(signal));
        // SAFETY: the program said that this is its handler; without SA_SIGINFO it ignores the
        // further arguments.
        return unsafe { tls::call_handler(signal, info, context, wanted.handler) };
    }
    let action = Action {
        flags: SA_RESTORER,
        ..Action::default()
    };
    let _ = actions::set(libc::SIGSYS, &raw const action, std::ptr::null_mut());
    let [pid, tid] = [rustix::process::getpid(), rustix::thread::gettid()]
        .map(|id| id.as_raw_nonzero().get() as usize);
    let words = [
        libc::SYS_tgkill as usize,
        pid,
        tid,
        signal as usize,
        0,
        0,
        0,
    ];
    // SAFETY: no pointers. Ends the process once the handler has returned.
    let _ = unsafe { gate::kernel(&words) };
}
