//! Signals that arrive while the library works for a thread wait until it is left.
//!
//! ```text
//! outside: the program's handler, at once, with the frame that the kernel made
//! inside:  kept with its siginfo; all further signals are blocked, so that the kernel queues them;
//!          a sleep that was about to begin does not begin, one that has begun ends
//! leaving: frames for the handlers are made as the kernel makes them: `deliver.rs`
//! ```
//! Several are kept only where the kernel delivered them at once: the handler of the last one then
//! began first. What the kernel makes the library do, faults, is done at once: the instruction
//! would only fault again. Faults at places that the program named are no signals for it: the call
//! answers `EFAULT` ([`guarded`]).

use super::actions::{self, Action, MASK_LEN};
use super::thread::{self, Thread, at};
use super::{deliver, gate, sites, tls};
use gannet_local::guarded;
use libc::{c_int, c_void, siginfo_t};
use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::Relaxed;

/// What a program does to itself.
pub(super) const FAULTS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// Signals that can be kept. Further ones that the kernel delivered at once go back to it.
pub(super) const ROOM: usize = 32;

/// The kernel's `ucontext`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Context {
    pub(super) flags: u64,
    pub(super) link: u64,
    /// The alternate stack: where, flags, length.
    pub(super) stack: [u64; 3],
    /// As `REG_R8` and its followers number them.
    pub(super) registers: [u64; 23],
    pub(super) vectors: u64,
    pub(super) reserved: [u64; 8],
    pub(super) mask: u64,
}

const _: () = assert!(size_of::<Context>() == 304);

/// What the kernel says in the saved vectors of itself: `_fpx_sw_bytes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct VectorsAbout {
    pub(super) magic: u32,
    /// Bytes, with the second magic number at the end.
    pub(super) len: u32,
    /// Which parts.
    pub(super) parts: u64,
    /// Bytes without it.
    pub(super) state_len: u32,
    pub(super) padding: [u32; 7],
}

/// Where it lies among them.
pub(super) const VECTORS_ABOUT: usize = 464;

/// A signal that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) signal: c_int,
    pub(super) action: Action,
    pub(super) info: [u64; 16],
    /// The mask to be restored after its handler.
    pub(super) mask: u64,
    /// The mask that held when it was delivered.
    pub(super) under: u64,
}

/// A thread's signals that wait; its `kept` says how many. Only the thread itself uses it.
#[derive(Debug)]
pub(super) struct Deferred {
    pub(super) signals: UnsafeCell<[Kept; ROOM]>,
    /// What the kernel said of the thread with the one that was kept last.
    pub(super) context: UnsafeCell<Context>,
    pub(super) about: UnsafeCell<VectorsAbout>,
    /// How the handler that runs first begins.
    pub(super) entry: UnsafeCell<Context>,
}

/// The handler of every signal that the program handles: see the module.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn on_signal(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    naked_asm!(
        "cmp dword ptr gs:[{inside}], 0",
        "jne {within}",
        "cmp dword ptr gs:[{busy}], 0",
        "jne {within}",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {outside}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        // The program's handler finds the stack as the kernel left it.
        "jmp rax",
        "2:",
        "ret",
        inside = const at::INSIDE,
        busy = const at::BUSY,
        within = sym within,
        outside = sym outside,
    )
}

/// Outside of the library: the program's handler, 0 if there is none any more.
extern "C" fn outside(signal: c_int, info: *mut siginfo_t, context: &mut Context) -> usize {
    if comes_back(signal, info, context) {
        return 0;
    }
    put_right(&mut context.registers);
    let action = actions::begin(signal);
    match action.is_handler() {
        true => action.handler,
        false => {
            do_default(signal, info, &action);
            0
        }
    }
}

/// A fault at a place that the program named: the call answers `EFAULT`.
/// (One that a process sent may find the thread at the same instructions, and is no fault.)
fn comes_back(signal: c_int, info: *const siginfo_t, context: &mut Context) -> bool {
    let at = &mut context.registers[libc::REG_RIP as usize];
    // SAFETY: the kernel's.
    if !actions::MEMORY_FAULTS.contains(&signal) || unsafe { (*info).si_code } <= 0 {
        return false;
    }
    let out = guarded::way_out(*at as usize);
    if let Some(out) = out {
        *at = out as u64;
    }
    out.is_some()
}

/// A fault for which the program has no handler: it comes again, to the kernel's default.
#[cold]
fn do_default(signal: c_int, info: *const siginfo_t, action: &Action) {
    if !actions::MEMORY_FAULTS.contains(&signal) || action.handler != libc::SIG_DFL {
        return;
    }
    let default = Action {
        flags: actions::SA_RESTORER,
        ..Action::default()
    };
    if actions::set(signal, &raw const default, std::ptr::null_mut()).is_err() {
        // A filter does not let it: the fault would come for ever.
        let words = [
            libc::SYS_exit_group as usize,
            128 + signal as usize,
            0,
            0,
            0,
            0,
            0,
        ];
        // SAFETY: no pointers.
        let _ = unsafe { gate::kernel(&words) };
    }
    give_back(signal, info);
}

/// An interrupted thread that is on its way out of the library, or behind a call in a stub, goes
/// on in the program: what looks at the stack from a handler knows the program's code only.
pub(super) fn put_right(registers: &mut [u64; 23]) {
    let [rax, rcx, rip, flags] =
        [libc::REG_RAX, libc::REG_RCX, libc::REG_RIP, libc::REG_EFL].map(|n| n as usize);
    if deliver::is_leaving(registers[rip] as usize) {
        // SAFETY: rcx leads to the record of the site there.
        registers[rip] = unsafe { *(registers[rcx] as *const u64) };
    }
    let at = registers[rip] as usize;
    if let Some((back, now)) = sites::in_program(at, registers[rax], registers[flags]) {
        registers[rip] = back as u64;
        registers[flags] = now;
    }
}

/// Inside of the library.
extern "C" fn within(signal: c_int, info: *mut siginfo_t, context: &mut Context) {
    if FAULTS.contains(&signal) {
        return at_once(signal, info, context);
    }
    let thread = thread::current();
    actions::set_mask(actions::all_blocked());
    keep(thread, signal, info, context);
    context.mask = actions::all_blocked();
    let rip = &mut context.registers[libc::REG_RIP as usize];
    if let Some(out) = gate::instead_of_sleep(*rip as usize) {
        *rip = out as u64;
    }
}

fn keep(thread: &Thread, signal: c_int, info: *const siginfo_t, context: &Context) {
    let n = thread.kept.load(Relaxed) as usize;
    if n >= ROOM {
        return give_back(signal, info);
    }
    let action = actions::begin(signal);
    if !action.is_handler() {
        return;
    }
    let sleep_mask = match thread.has_sleep_mask.load(Relaxed) {
        0 => context.mask,
        _ => thread.sleep_mask.load(Relaxed),
    };
    // One that the sleep held back came when it was over.
    let under = match sleep_mask & 1 << (signal - 1) {
        0 => sleep_mask,
        _ => context.mask,
    };
    let deferred = &thread.deferred;
    // SAFETY: this thread's own, and no handler that would keep a signal runs now: all are blocked.
    // The kernel's siginfo has 128 bytes; its vectors, where there are any, say what they are.
    unsafe {
        let kept = Kept {
            signal,
            action,
            info: info.cast::<[u64; 16]>().read(),
            mask: context.mask,
            under,
        };
        if let Some(place) = (*deferred.signals.get()).get_mut(n) {
            *place = kept;
        }
        deferred.context.get().write(*context);
        if context.vectors != 0 {
            let about = (context.vectors as usize + VECTORS_ABOUT) as *const VectorsAbout;
            deferred.about.get().write(about.read());
        }
    }
    thread.kept.store(n as u32 + 1, Relaxed);
}

/// The kernel keeps it: it is blocked as long as a handler runs.
fn give_back(signal: c_int, info: *const siginfo_t) {
    let [pid, tid] = [rustix::process::getpid(), rustix::thread::gettid()]
        .map(|id| id.as_raw_nonzero().get() as usize);
    let n = libc::SYS_rt_tgsigqueueinfo as usize;
    let words = [n, pid, tid, signal as usize, info.addr(), 0, MASK_LEN];
    // SAFETY: the kernel's own siginfo.
    let _ = unsafe { gate::kernel(&words) };
}

/// A fault inside of the library: at a place that the program named, or the program's handler runs
/// in the middle of it, and may leave it for good.
fn at_once(signal: c_int, info: *mut siginfo_t, context: &mut Context) {
    if comes_back(signal, info, context) {
        return;
    }
    let action = actions::begin(signal);
    if !action.is_handler() {
        return do_default(signal, info, &action);
    }
    let thread = thread::current();
    let busy = thread.busy.swap(0, Relaxed);
    // SAFETY: the program said that this is its handler; without SA_SIGINFO it ignores the further
    // arguments.
    unsafe {
        tls::call_handler(
            signal,
            info,
            std::ptr::from_mut(context).cast(),
            action.handler,
        )
    };
    thread.busy.store(busy, Relaxed);
}

/// The mask that the program has set, whether signals wait or not. Only while no more can come.
pub(super) fn mask_of_program(thread: &Thread) -> u64 {
    let count = thread.kept.load(Relaxed) as usize;
    // SAFETY: this thread's own.
    let signals = unsafe { &*thread.deferred.signals.get() };
    match count.checked_sub(1).and_then(|last| signals.get(last)) {
        Some(last) => last.mask,
        None => thread.clone_mask.load(Relaxed),
    }
}

/// Whether a call goes on after the handlers of the signals that wait, if any do.
pub(super) fn restarts(thread: &Thread, may_restart: bool) -> bool {
    let count = thread.kept.load(Relaxed) as usize;
    // SAFETY: this thread's own; no more are kept as long as some are.
    let last = count
        .checked_sub(1)
        .and_then(|n| unsafe { (*thread.deferred.signals.get()).get(n) });
    last.is_none_or(|last| may_restart && last.action.has(libc::SA_RESTART))
}
