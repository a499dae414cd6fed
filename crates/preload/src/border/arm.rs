//! Raising the border.

use super::{gate, signals, sites, thread};
use libc::{c_char, c_int, c_void};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

pub(super) const ARCH_SET_GS: usize = 0x1001;
const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const PR_SYS_DISPATCH_ON: usize = 1;

/// x87, SSE, AVX, AVX-512. (AMX is left out: 8 KiB, and nothing here touches it.)
const PARTS: u64 = 0xe7;

/// Code that was not changed is to trap.
static TRAPS: AtomicBool = AtomicBool::new(false);
static RAISED: AtomicBool = AtomicBool::new(false);

/// Whether system calls arrive here.
pub(crate) fn is_raised() -> bool {
    RAISED.load(Relaxed)
}

/// Why the border is not raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The user does not want it.
    Unwanted,
    /// The processor cannot save its vectors in one instruction.
    Processor,
    /// Threads run already, whose calls would find nothing of ours.
    Threads,
    /// The kernel does not do it.
    Kernel(Errno),
}

/// Raises it for this process, which has one thread. Called once, before the program's `main`.
pub(crate) fn raise() -> Result<(), Obstacle> {
    let how = std::env::var_os("GANNET_INTERCEPT");
    if how.as_ref().is_some_and(|how| how == "symbols") {
        return Err(Obstacle::Unwanted);
    }
    if !std::arch::is_x86_feature_detected!("xsavec") {
        return Err(Obstacle::Processor);
    }
    // SAFETY: the processor has XSAVE, and the kernel lets programs use it.
    let parts = unsafe { std::arch::x86_64::_xgetbv(0) } & PARTS;
    gate::VECTOR_PARTS.store(parts as u32, Relaxed);
    if threads() != Some(1) {
        return Err(Obstacle::Threads);
    }
    let own = thread::take().map_err(Obstacle::Kernel)?;
    let words = [
        libc::SYS_arch_prctl as usize,
        ARCH_SET_GS,
        own.address(),
        0,
        0,
        0,
        0,
    ];
    // SAFETY: nothing else uses the GS register.
    answer(unsafe { gate::kernel(&words) }).map_err(Obstacle::Kernel)?;
    signals::begin().map_err(Obstacle::Kernel)?;
    let others = sites::change_all();
    RAISED.store(true, Relaxed);
    if others || how.is_some_and(|how| how == "traps") {
        set_traps();
    }
    Ok(())
}

/// Calls from code that was not changed trap from now on, in this thread and those it makes. Where
/// the kernel has nothing of the kind (before Linux 5.11), what was changed is what there is.
pub(super) fn set_traps() {
    TRAPS.store(true, Relaxed);
    let _ = arm_thread();
}

/// Calls of this thread arrive here from now on, if any trap at all.
pub(super) fn arm_thread() -> Result<(), Errno> {
    if !TRAPS.load(Relaxed) {
        return Ok(());
    }
    let (from, len) = sites::let_through();
    let words = [
        libc::SYS_prctl as usize,
        PR_SET_SYSCALL_USER_DISPATCH,
        PR_SYS_DISPATCH_ON,
        from,
        len,
        0,
        0,
    ];
    // SAFETY: no selector: every call from elsewhere raises the signal, whose handler stands.
    answer(unsafe { gate::kernel(&words) })
}

fn answer(outcome: isize) -> Result<(), Errno> {
    match outcome {
        0.. => Ok(()),
        error => Err(Errno::from_raw_os_error(-(error as i32))),
    }
}

/// How many threads this process has.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// This library's code in memory.
pub(super) fn own_code() -> (usize, usize) {
    let found = find_own();
    (found.from, found.to)
}

/// This library's file, as ld.so was told of it.
pub(crate) fn own_file() -> Option<&'static CStr> {
    let name = find_own().name;
    // SAFETY: ld.so's string, which lives as long as the library is loaded.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

fn find_own() -> Code {
    let mut found = Code {
        inside: raise as *const () as usize,
        from: 0,
        to: 0,
        name: std::ptr::null(),
    };
    // SAFETY: `visit` is made for it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

struct Code {
    inside: usize,
    from: usize,
    to: usize,
    name: *const c_char,
}

unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    code: *mut c_void,
) -> c_int {
    // SAFETY: as `dl_iterate_phdr` promises; the other is `own_code`'s.
    let (info, code) = unsafe { (&*info, &mut *code.cast::<Code>()) };
    for n in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: so many are there.
        let header = unsafe { &*info.dlpi_phdr.add(n) };
        let from = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let to = from.saturating_add(header.p_memsz as usize);
        let executable = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
        if executable && (from..to).contains(&code.inside) {
            (code.from, code.to) = (from, to);
            code.name = info.dlpi_name;
            return 1;
        }
    }
    0
}
