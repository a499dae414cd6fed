//! Signal actions and masks, as far as the border depends on them: SIGSYS brings the calls, so it
//! is never blocked nor anyone else's; handlers return by our `rt_sigreturn`, since the C library's
//! would itself be a call that arrives here. What the program wants of SIGSYS is kept, and done
//! for those that a filter (seccomp) sends.

use super::gate::{self, Words};
use super::tls;
use libc::{c_int, c_void, siginfo_t};
use rustix::io::Errno;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

/// As the kernel has it, not the C library.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;
const SIGSYS_BIT: u64 = 1 << (libc::SIGSYS - 1);
/// Bytes of a signal mask, as the kernel counts them.
const MASK_LEN: usize = 8;

/// What the program wants of SIGSYS.
static WANTED: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Installs the handler by which calls arrive, and takes SIGSYS out of the mask.
pub(super) fn begin() -> Result<(), Errno> {
    let action = Action {
        handler: tls::on_sigsys as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | SA_RESTORER,
        restorer: gate::signal_return as *const () as usize,
        mask: 0,
    };
    let mut before = Action::default();
    set(libc::SIGSYS, &raw const action, &raw mut before)?;
    keep(before);
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

fn set(signal: c_int, new: *const Action, old: *mut Action) -> Result<(), Errno> {
    let n = libc::SYS_rt_sigaction as usize;
    let words = [n, signal as usize, new.addr(), old.addr(), MASK_LEN, 0, 0];
    // SAFETY: actions of our own.
    match unsafe { gate::kernel(&words) } {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(-(error as i32))),
    }
}

fn keep(action: Action) {
    let Action {
        handler,
        flags,
        restorer,
        mask,
    } = action;
    for (place, value) in WANTED
        .iter()
        .zip([handler, flags as usize, restorer, mask as usize])
    {
        place.store(value, Release);
    }
}

fn kept() -> Action {
    let [handler, flags, restorer, mask] = WANTED.each_ref().map(|word| word.load(Acquire));
    Action {
        handler,
        flags: flags as u64,
        restorer,
        mask: mask as u64,
    }
}

/// `rt_sigaction`.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn action(words: &Words) -> isize {
    let [n, signal, new, old, len, ..] = *words;
    let (new, old) = (new as *const Action, old as *mut Action);
    if len != MASK_LEN || new.addr() < 4096 && !new.is_null() || old.addr() < 4096 && !old.is_null()
    {
        // SAFETY: the kernel says what is wrong.
        return unsafe { gate::kernel(words) };
    }
    if signal == libc::SIGSYS as usize {
        let before = kept();
        // SAFETY: the caller's places.
        unsafe {
            if !new.is_null() {
                keep(new.read_unaligned());
            }
            if !old.is_null() {
                old.write_unaligned(before);
            }
        }
        return 0;
    }
    let before = tls::handler(signal);
    // SAFETY: the caller's place, if the kernel has written there.
    let show = |outcome: isize| unsafe {
        if let Some(old) = old.as_mut().filter(|_| outcome == 0) {
            old.handler = tls::shown(old.handler, before);
        }
        outcome
    };
    if new.is_null() {
        // SAFETY: passed on.
        return show(unsafe { gate::kernel(words) });
    }
    // SAFETY: the caller's place.
    let mut changed = unsafe { new.read_unaligned() };
    changed.mask &= !SIGSYS_BIT;
    changed.handler = tls::set_handler(signal, changed.handler);
    if changed.flags & SA_RESTORER != 0 {
        changed.restorer = gate::signal_return as *const () as usize;
    }
    let place = (&raw const changed).addr();
    // SAFETY: passed on, but for the action, which is ours.
    show(unsafe { gate::kernel(&[n, signal, place, old.addr(), len, 0, 0]) })
}

/// `rt_sigprocmask`.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn mask(words: &Words) -> isize {
    let [n, how, set, old, len, ..] = *words;
    if set < 4096 || len != MASK_LEN || how == libc::SIG_UNBLOCK as usize {
        // SAFETY: passed on.
        return unsafe { gate::kernel(words) };
    }
    // SAFETY: the caller's mask.
    let changed = unsafe { (set as *const u64).read_unaligned() } & !SIGSYS_BIT;
    // SAFETY: passed on, but for the mask, which is ours.
    unsafe { gate::kernel(&[n, how, (&raw const changed).addr(), old, len, 0, 0]) }
}

/// Whether a mask for the time of a wait would keep SIGSYS away from a handler that runs then.
///
/// # Safety
/// `mask` is null, or a mask.
pub(super) unsafe fn blocks_ours(mask: usize) -> bool {
    // SAFETY: as the caller says.
    mask >= 4096 && unsafe { (mask as *const u64).read_unaligned() } & SIGSYS_BIT != 0
}

/// A wait with such a mask, `at` the place of the mask among the words: with another one.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn wait(words: &Words, at: usize) -> isize {
    let mut changed = *words;
    let mut mask = 0u64;
    if let Some(place) = changed.get_mut(at) {
        // SAFETY: the caller's mask.
        mask = unsafe { (*place as *const u64).read_unaligned() } & !SIGSYS_BIT;
        *place = (&raw const mask).addr();
    }
    // SAFETY: passed on.
    let outcome = unsafe { gate::kernel(&changed) };
    std::hint::black_box(mask);
    outcome
}

/// A SIGSYS that is none of ours: a filter's, or a `kill`.
pub(super) fn foreign(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let wanted = kept();
    if wanted.handler == libc::SIG_IGN {
        return;
    }
    if wanted.handler != libc::SIG_DFL {
        // SAFETY: the program said that this is its handler; without SA_SIGINFO it ignores the
        // further arguments.
        return unsafe { tls::call_handler(signal, info, context, wanted.handler) };
    }
    let action = Action {
        flags: SA_RESTORER,
        ..Action::default()
    };
    let _ = set(libc::SIGSYS, &raw const action, std::ptr::null_mut());
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
