//! Two kinds of thread-local storage in one process: the library is glibc's code, and a static
//! program has a C library of its own, or none. Both find theirs by the FS register, so that it is
//! changed on the way in and out (`gate.rs`), and around handlers of signals.
//!
//! The first thread has the storage with which the loader began. Each further one gets its own from
//! ld.so, as `pthread_create` gets it; a child the one of the thread that has made it.
//!
//! Handlers of the program run on the program's storage: those of signals wait until the library is
//! left (`deferred.rs`), and those of faults within it find it changed back by [`call_handler`].

use super::thread::{self, Child, Thread, at};
use super::trap;
use libc::{c_int, c_void, siginfo_t};
use rustix::io::Errno;
use std::arch::{asm, naked_asm};
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Words at the beginning of the storage of a thread, which the ABI of x86-64 and glibc fix.
mod word {
    /// The address of itself.
    pub(super) const THIS: usize = 0;
    pub(super) const ALSO_THIS: usize = 2;
    /// Not 0: locks are needed.
    pub(super) const THREADS: usize = 3;
    pub(super) const STACK_GUARD: usize = 5;
    pub(super) const POINTER_GUARD: usize = 6;
}

/// Bytes of a thread's storage in which its number is looked for.
const DESCRIPTOR: usize = 2048;

/// ld.so's functions, the storage of the first thread, and where in it the number of the thread is.
static ALLOCATE: AtomicUsize = AtomicUsize::new(0);
static FREE: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicUsize = AtomicUsize::new(0);
static NUMBER_AT: AtomicUsize = AtomicUsize::new(0);

/// The FS register.
pub(super) fn current() -> usize {
    let fs: usize;
    // SAFETY: the kernel lets programs read it: asked before a program is loaded (`is_possible`).
    unsafe { asm!("rdfsbase {}", out(reg) fs, options(nostack, nomem, preserves_flags)) };
    fs
}

/// Whether the kernel lets programs change the FS register (Linux 5.9 and a processor of 2012).
pub(super) fn is_possible() -> bool {
    const FSGSBASE: libc::c_ulong = 2;
    // SAFETY: no pointers.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// Finds what is needed to give threads their storage. Called by the loader's one thread.
pub(super) fn begin_hosting() -> Result<(), &'static str> {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: a name that ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if found.is_null() {
            return Err("the C library has no function that makes thread-local storage");
        }
        Ok(found.addr())
    };
    ALLOCATE.store(find(c"_dl_allocate_tls")?, Relaxed);
    FREE.store(find(c"_dl_deallocate_tls")?, Relaxed);
    let own = current();
    FIRST.store(own, Relaxed);
    let here = places_of_number(own);
    let there = in_a_thread().ok_or("no thread can be made")?;
    let both = here.iter().zip(there).position(|(a, b)| *a && b);
    let at = both.ok_or("the C library's threads have no numbers")?;
    NUMBER_AT.store(at * size_of::<u32>(), Relaxed);
    let thread = thread::current();
    thread.own_tls.store(own, Relaxed);
    thread.library_tls.store(own, Release);
    Ok(())
}

type Places = [bool; DESCRIPTOR / size_of::<u32>()];

/// Where in the storage at `own` the number of this thread stands.
fn places_of_number(own: usize) -> Places {
    let number = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let mut found = [false; DESCRIPTOR / size_of::<u32>()];
    for (n, place) in found.iter_mut().enumerate() {
        // SAFETY: glibc's descriptor of a thread has more bytes than are looked at.
        *place = unsafe { (own as *const u32).add(n).read() } == number;
    }
    found
}

/// The same in a thread of the C library's own. It also makes the C library take its locks from now
/// on: it does without them while it has made no thread.
fn in_a_thread() -> Option<Places> {
    extern "C" fn look(places: *mut c_void) -> *mut c_void {
        // SAFETY: `in_a_thread`'s, which waits.
        unsafe { places.cast::<Places>().write(places_of_number(current())) };
        null_mut()
    }
    let mut places: Places = [false; DESCRIPTOR / size_of::<u32>()];
    // SAFETY: the thread has ended when `places` goes.
    unsafe {
        let mut thread = std::mem::zeroed();
        let place = (&raw mut places).cast();
        let made = libc::pthread_create(&raw mut thread, std::ptr::null(), look, place);
        (made == 0 && libc::pthread_join(thread, null_mut()) == 0).then_some(places)
    }
}

/// Before a clone, in the parent: what the child will have. Nothing where the program has the
/// library's C library.
pub(super) fn prepare(kind: Child, block: &Thread) -> Result<(), Errno> {
    let own = thread::current().library_tls.load(Relaxed);
    if own == 0 {
        return Ok(());
    }
    let tls = match kind {
        Child::Thread => make(block, own)?,
        Child::Fork | Child::Vfork => own,
    };
    block.library_tls.store(tls, Relaxed);
    Ok(())
}

/// New storage for a block, in place of what an earlier thread has left.
fn make(block: &Thread, own: usize) -> Result<usize, Errno> {
    let before = block.own_tls.swap(0, Relaxed);
    type Free = unsafe extern "C" fn(*mut c_void, bool);
    type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: ld.so's functions have these signatures; what is freed was allocated below, for a
    // thread that has ended. The copied words exist in both.
    unsafe {
        if before != 0 && before != FIRST.load(Relaxed) {
            let free: Free = std::mem::transmute(FREE.load(Relaxed));
            free(before as *mut c_void, true);
        }
        let allocate: Allocate = std::mem::transmute(ALLOCATE.load(Relaxed));
        let new = allocate(null_mut()).cast::<usize>();
        if new.is_null() {
            return Err(Errno::NOMEM);
        }
        new.add(word::THIS).write(new.addr());
        new.add(word::ALSO_THIS).write(new.addr());
        new.add(word::THREADS).cast::<c_int>().write(1);
        for n in [word::STACK_GUARD, word::POINTER_GUARD] {
            new.add(n).write((own as *const usize).add(n).read());
        }
        block.own_tls.store(new.addr(), Relaxed);
        Ok(new.addr())
    }
}

/// In a new thread or process: the C library's locks name threads by their numbers.
pub(super) fn begin(own: &Thread) {
    let tls = own.library_tls.load(Relaxed);
    if tls == 0 {
        return;
    }
    let number = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // SAFETY: this thread's storage, whose descriptor has its number there.
    unsafe { ((tls + NUMBER_AT.load(Relaxed)) as *mut u32).write(number) };
}

/// In the child of a fork: the storage of the thread that it is the copy of becomes its own, before
/// that one's block is given to later threads.
pub(super) fn inherit(own: &Thread) {
    let tls = own.library_tls.load(Relaxed);
    let is_parent = |thread: &&Thread| thread.own_tls.load(Relaxed) == tls;
    if tls != 0
        && let Some(parent) = thread::all().find(is_parent)
    {
        parent
            .own_tls
            .store(own.own_tls.swap(tls, Relaxed), Relaxed);
    }
}

/// Calls a handler of the program's on the program's storage.
///
/// # Safety
/// The fourth argument is the program's handler, the others are the kernel's for it.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn call_handler(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    handler: usize,
) {
    naked_asm!(
        "cmp qword ptr gs:[{library_tls}], 0",
        "je 2f",
        "rdfsbase rax",
        "cmp rax, gs:[{library_tls}]",
        "jne 2f",
        "push rax",
        "mov rax, gs:[{program_tls}]",
        "wrfsbase rax",
        "call rcx",
        "pop rax",
        "wrfsbase rax",
        "ret",
        "2:",
        "jmp rcx",
        library_tls = const at::LIBRARY_TLS,
        program_tls = const at::PROGRAM_TLS,
    )
}

/// The handler of SIGSYS, which is the library's.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn on_sigsys() {
    naked_asm!(
        "cmp qword ptr gs:[{library_tls}], 0",
        "je 2f",
        "rdfsbase rax",
        "cmp rax, gs:[{library_tls}]",
        "je 2f",
        "push rax",
        "mov gs:[{program_tls}], rax",
        "mov rax, gs:[{library_tls}]",
        "wrfsbase rax",
        "call {trap}",
        "pop rax",
        "wrfsbase rax",
        "ret",
        "2:",
        "jmp {trap}",
        library_tls = const at::LIBRARY_TLS,
        program_tls = const at::PROGRAM_TLS,
        trap = sym trap::on_sigsys,
    )
}
