//! What each thread has at the border: a stack of the library's, and the words by which the entry
//! code and the library talk. The GS register leads there, which Linux leaves to programs and no
//! ABI uses: the program's thread-local storage may be another C library's, or none.
//!
//! ```text
//! guard page | stack ............ | Thread: words, then the saved vector registers
//!                                 ^ where the stack begins, 16-byte aligned
//! ```
//! Blocks are never given back to the kernel, only to later threads: a thread that ends is on its
//! way out of the last instructions that use its block when another one may find it free.

use super::deferred::Deferred;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::mem::offset_of;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// Bytes of a block. Only what is touched of it is memory.
const BLOCK: usize = 256 << 10;
/// Bytes at its end for [`Thread`]: words, the vector registers (2,696 bytes with AVX-512), and the
/// signals that wait.
const WORDS: usize = 16384;
/// Bytes at its beginning that are no memory: too deep a stack ends the program, not others' data.
const GUARD: usize = 4096;

/// What kind of child a clone makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Child {
    /// A thread: shares memory, lives on beside its parent.
    Thread = 0,
    /// A process with a copy of the memory.
    Fork = 1,
    /// A process in the same memory, whose parent waits until it ends or executes.
    Vfork = 2,
}

/// The words of a thread, at the end of its block. The entry code knows the offsets.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Where it lies itself.
    this: *mut Thread,
    /// Where its stack begins.
    stack: usize,
    /// Not 0 while the library works for this thread: its system calls are the kernel's.
    pub(super) inside: AtomicU32,
    /// Set by the library: the kernel shall do what was asked.
    pub(super) native: AtomicU32,
    /// The program's stack pointer while the library's stack is in use.
    user_stack: usize,
    /// The library's stack pointer during a clone.
    frame: usize,
    /// What a child goes on with, and where.
    child_registers: [usize; 7],
    child_back: usize,
    /// What kind of child this is, see [`Child`].
    pub(super) child: AtomicU32,
    /// What kind of child this thread makes.
    pub(super) child_made: AtomicU32,
    /// No thread has it.
    free: AtomicU32,
    /// The next block in the list of all.
    next: AtomicPtr<Thread>,
    /// For sites that stay as they are: where the program goes on, and the entry's way to the
    /// kernel.
    record: [AtomicUsize; 2],
    /// The first two arguments of a call that a function of `calls/` passes on.
    passing: [AtomicUsize; 2],
    /// The first two arguments of the call that the library answers for this thread.
    call: [AtomicUsize; 2],
    /// The C library's `fork` does what a fork needs besides.
    pub(super) prepared: AtomicU32,
    /// Where the library's thread-local storage is for this thread while the program has another C
    /// library or none (static programs); else 0. See `tls.rs`.
    pub(super) library_tls: AtomicUsize,
    /// The program's, while the library works for this thread.
    program_tls: AtomicUsize,
    /// What was made for this block.
    pub(super) own_tls: AtomicUsize,
    /// Calls by name that the library works for, one within another.
    pub(super) busy: AtomicU32,
    /// Signals that wait until the library is left: [`super::deferred`].
    pub(super) kept: AtomicU32,
    /// How the call goes on once their handlers have run.
    pub(super) restart: AtomicU32,
    /// A call by name has begun what it cannot leave to the border any more.
    pub(super) stays: AtomicU32,
    /// Which has looked for long enough already.
    pub(super) has_looked: AtomicU32,
    /// A call by name that can be made in parts; 2 when it leaves the rest to the border.
    pub(super) parts: AtomicU32,
    /// The first two arguments of such a rest.
    rest: [AtomicUsize; 2],
    /// The mask of a sleep, where the program gave one, and whether it did.
    pub(super) sleep_mask: AtomicU64,
    pub(super) has_sleep_mask: AtomicU32,
    /// The program's mask during a clone.
    pub(super) clone_mask: AtomicU64,
    pub(super) deferred: Deferred,
    vectors: Vectors,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Vectors([u8; 4096]);

const _: () = assert!(size_of::<Thread>() <= WORDS && WORDS.is_multiple_of(4096));

/// Offsets for the entry code.
pub(super) mod at {
    use super::{Thread, offset_of};
    pub(in super::super) const THIS: usize = offset_of!(Thread, this);
    pub(in super::super) const STACK: usize = offset_of!(Thread, stack);
    pub(in super::super) const INSIDE: usize = offset_of!(Thread, inside);
    pub(in super::super) const NATIVE: usize = offset_of!(Thread, native);
    pub(in super::super) const USER_STACK: usize = offset_of!(Thread, user_stack);
    pub(in super::super) const FRAME: usize = offset_of!(Thread, frame);
    pub(in super::super) const REGISTERS: usize = offset_of!(Thread, child_registers);
    pub(in super::super) const BACK: usize = offset_of!(Thread, child_back);
    pub(in super::super) const FREE: usize = offset_of!(Thread, free);
    pub(in super::super) const LIBRARY_TLS: usize = offset_of!(Thread, library_tls);
    pub(in super::super) const PROGRAM_TLS: usize = offset_of!(Thread, program_tls);
    pub(in super::super) const BUSY: usize = offset_of!(Thread, busy);
    pub(in super::super) const KEPT: usize = offset_of!(Thread, kept);
    pub(in super::super) const ENTRY: usize =
        offset_of!(Thread, deferred) + offset_of!(super::Deferred, entry);
    pub(in super::super) const VECTORS: usize = offset_of!(Thread, vectors);
}

static ALL: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// Every block there is, used or free.
pub(super) fn all() -> impl Iterator<Item = &'static Thread> {
    let mut at = ALL.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: blocks live for ever; `next` is set before a block is in the list.
        let thread = unsafe { at.as_ref()? };
        at = thread.next.load(Acquire);
        Some(thread)
    })
}

/// A block for a thread that is about to begin.
///
/// # Errors
/// What `mmap` says.
pub(super) fn take() -> Result<&'static Thread, Errno> {
    let free = all().find(|thread| thread.free.compare_exchange(1, 0, AcqRel, Relaxed).is_ok());
    let thread = match free {
        Some(thread) => thread,
        None => map()?,
    };
    thread.inside.store(0, Relaxed);
    thread.native.store(0, Relaxed);
    for word in [
        &thread.prepared,
        &thread.busy,
        &thread.kept,
        &thread.restart,
        &thread.stays,
        &thread.has_looked,
        &thread.parts,
        &thread.has_sleep_mask,
    ] {
        word.store(0, Relaxed);
    }
    thread.library_tls.store(0, Relaxed);
    thread.set_passing([usize::MAX; 2]);
    thread.set_rest([usize::MAX; 2]);
    Ok(thread)
}

fn map() -> Result<&'static Thread, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let how = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: new memory; the guard lies within it.
    let block = unsafe {
        let at = rustix::mm::mmap_anonymous(std::ptr::null_mut(), BLOCK, access, how)?;
        let _ = rustix::mm::mprotect(at, GUARD, MprotectFlags::empty());
        at.cast::<u8>()
    };
    // SAFETY: inside the block, page-aligned, zero, which is a value of it.
    let thread = unsafe { &mut *block.add(BLOCK - WORDS).cast::<Thread>() };
    thread.this = thread;
    thread.stack = std::ptr::from_mut(thread).addr();
    let mut first = ALL.load(Relaxed);
    loop {
        thread.next.store(first, Relaxed);
        match ALL.compare_exchange(first, thread, Release, Relaxed) {
            Ok(_) => return Ok(thread),
            Err(now) => first = now,
        }
    }
}

impl Thread {
    /// Gives it to a later thread.
    pub(super) fn release(&self) {
        self.free.store(1, Release);
    }

    /// A function of `calls/` has looked at a call with these arguments, and passes it on.
    pub(super) fn set_passing(&self, arguments: [usize; 2]) {
        for (place, word) in self.passing.iter().zip(arguments) {
            place.store(word, Relaxed);
        }
    }

    /// The rest of a call by name is to be made, with these arguments.
    pub(super) fn set_rest(&self, arguments: [usize; 2]) {
        for (place, word) in self.rest.iter().zip(arguments) {
            place.store(word, Relaxed);
        }
    }

    /// Whether the call that the library answers is such a rest.
    pub(super) fn is_rest(&self) -> bool {
        self.is_call(self.rest.each_ref().map(|word| word.load(Relaxed)))
    }

    /// The library begins to answer a call with these arguments.
    pub(super) fn set_call(&self, arguments: [usize; 2]) {
        for (place, word) in self.call.iter().zip(arguments) {
            place.store(word, Relaxed);
        }
    }

    /// Whether it answers this one: not another that it makes on the way.
    pub(super) fn is_call(&self, arguments: [usize; 2]) -> bool {
        self.call.each_ref().map(|word| word.load(Relaxed)) == arguments
    }

    /// Whether this is that call. It is asked once.
    pub(super) fn is_passing(&self, arguments: [usize; 2]) -> bool {
        let same = self.passing.each_ref().map(|word| word.load(Relaxed)) == arguments;
        if same {
            self.set_passing([usize::MAX; 2]);
        }
        same
    }

    /// Where the call from an unchanged site goes on, and how it gets to the kernel.
    pub(super) fn set_record(&self, record: [usize; 2]) {
        for (place, word) in self.record.iter().zip(record) {
            place.store(word, Relaxed);
        }
    }

    pub(super) fn record_address(&self) -> usize {
        self.record.as_ptr().addr()
    }

    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// In the child of a fork: the other threads are its parent's.
pub(super) fn only(own: &Thread) {
    for thread in all().filter(|thread| !std::ptr::eq(*thread, own)) {
        thread.release();
    }
}

/// Whether this process has one thread.
pub(super) fn is_alone() -> bool {
    all()
        .filter(|thread| thread.free.load(Acquire) == 0)
        .count()
        == 1
}

/// The block of this thread. Only where every thread has one: while the border stands.
pub(super) fn current() -> &'static Thread {
    let this: *const Thread;
    // SAFETY: the GS register leads to the block of this thread, whose first word is its address.
    unsafe {
        std::arch::asm!(
            "mov {}, gs:[{this}]",
            out(reg) this,
            this = const at::THIS,
            options(nostack, readonly, preserves_flags)
        );
        &*this
    }
}
