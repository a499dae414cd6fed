//! Memory, and the two ways to look at it.
//!
//! *Own* memory is written by this process alone: plain slices are sound, as long as two of them
//! never overlap mutably; [`crate::Pool`] sees to that. *Peer* memory may change under our eyes at
//! any time: no reference to it is ever made, bytes are copied out by code the compiler cannot
//! reason about (so that a hostile writer can make the bytes wrong, but not the program).

#![allow(unsafe_code)]

use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use alloc::sync::Arc;
use core::alloc::Layout as AllocLayout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

/// Memory that holds rings and blocks.
///
/// # Safety
/// `base` is aligned to 4,096 bytes, and `base .. base + len` is one allocation, readable (and
/// writable, if it is to be used as own memory) until the value is dropped, initialised, and not
/// unmapped or shrunk by anybody meanwhile (shared files must be sealed against shrinking).
/// `claim` keeps its word.
pub unsafe trait Memory: Send + Sync {
    /// First byte.
    fn base(&self) -> NonNull<u8>;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Claims the right to write, for [`OwnBlocks`]: `true` at most once, and only when the memory
    /// is
    /// writable here and by no other process.
    fn claim(&self) -> bool;
}

/// Zeroed memory from the heap: for endpoints that no other process sees, and for tests.
///
/// Asked for with a small alignment and aligned here: the allocator then takes fresh pages from the
/// system as they are, instead of writing zeros into every one of them.
pub struct HeapMemory {
    raw: NonNull<u8>,
    base: NonNull<u8>,
    len: usize,
    claimed: AtomicBool,
}

/// What [`Memory::base`] promises.
const ALIGN: usize = 4096;

impl HeapMemory {
    /// `len` zero bytes, aligned to 4,096. Aborts as any allocation does when there is no memory.
    ///
    /// # Panics
    /// When `len` is 0 or above `isize::MAX - 8192`: a mistake in this program, never input.
    pub fn new(len: usize) -> Self {
        assert!(len > 0, "memory of no bytes");
        let layout = Self::layout(len);
        // SAFETY: the layout has a non-zero size, asserted above.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(raw) = NonNull::new(raw) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the allocation has `ALIGN` bytes more than `len`, and the step is below `ALIGN`.
        let base = unsafe { raw.add(raw.align_offset(ALIGN)) };
        HeapMemory {
            raw,
            base,
            len,
            claimed: AtomicBool::new(false),
        }
    }

    fn layout(len: usize) -> AllocLayout {
        AllocLayout::from_size_align(len + ALIGN, 16).expect("a sane length")
    }
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout and freed only here.
        unsafe { dealloc(self.raw.as_ptr(), Self::layout(self.len)) }
    }
}

// SAFETY: the pointer is to an allocation of its own, not tied to a thread; access through it is
// governed by the types below.
unsafe impl Send for HeapMemory {}
// SAFETY: as above; `&HeapMemory` gives only the address.
unsafe impl Sync for HeapMemory {}

// SAFETY: aligned and allocated in `new`, zeroed, freed in `drop` only.
unsafe impl Memory for HeapMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}

/// Whose segment a [`Range`] lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// This process's segment of the link.
    Own,
    /// The segment of the process at the other end of the channel.
    Peer,
}

/// A stretch of bytes within one block of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte, counted from the start of the segment's first block.
    pub offset: u32,
    /// Number of bytes.
    pub len: u32,
    /// Whose segment.
    pub space: Space,
}

impl Range {
    /// No bytes, in the own segment; a filler for fixed arrays.
    pub const EMPTY: Range = Range {
        offset: 0,
        len: 0,
        space: Space::Own,
    };

    /// The first `n` bytes, at most all.
    pub fn front(self, n: u32) -> Range {
        Range {
            len: self.len.min(n),
            ..self
        }
    }

    /// Without the first `n` bytes; empty when there are not that many. An emptied range keeps its
    /// place, so that it still names its block: one past the end may be another's.
    pub fn skip(self, n: u32) -> Range {
        if n >= self.len {
            return Range { len: 0, ..self };
        }
        Range {
            offset: self.offset.wrapping_add(n),
            len: self.len - n,
            ..self
        }
    }

    /// First offset behind the range.
    pub fn end(self) -> u32 {
        self.offset.wrapping_add(self.len)
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}+{}]", self.space, self.offset, self.len)
    }
}

/// The blocks of the memory that this process alone writes.
pub struct OwnBlocks {
    memory: Arc<dyn Memory>,
    base: NonNull<u8>,
    len: u32,
}

// SAFETY: the blocks are reached through `&self`/`&mut self` like a `Vec<u8>`; `Memory` is Send.
unsafe impl Send for OwnBlocks {}

impl OwnBlocks {
    /// The `len` bytes at `offset` of `memory`, which nobody else has claimed; `None` when somebody
    /// has, or the bytes are not within it.
    pub fn new(memory: Arc<dyn Memory>, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > memory.len() || len >= 1 << 31 || !memory.claim() {
            return None;
        }
        // SAFETY: `offset` is within the allocation, checked above.
        let base = unsafe { memory.base().add(offset) };
        Some(OwnBlocks {
            memory,
            base,
            len: len as u32,
        })
    }

    /// Bytes in all blocks.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes from `offset`, or `None` when they are not all within the segment.
    pub(crate) fn bytes(&self, offset: u32, len: u32) -> Option<&[u8]> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: within the segment, checked above; initialised (`Memory`); this process is the
        // only writer (`claim`) and writes only through `&mut self` or an owned block, which the
        // pool keeps apart from what it hands here.
        Some(unsafe {
            core::slice::from_raw_parts(self.base.as_ptr().add(offset as usize), len as usize)
        })
    }

    /// The same, to be written.
    pub(crate) fn bytes_mut(&mut self, offset: u32, len: u32) -> Option<&mut [u8]> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: as in `bytes`, and exclusive because of `&mut self`.
        Some(unsafe {
            core::slice::from_raw_parts_mut(self.base.as_ptr().add(offset as usize), len as usize)
        })
    }

    /// The address of `len` bytes at `offset` with a share in the memory, for a block that leaves
    /// the pool.
    pub(crate) fn detach(&self, offset: u32, len: u32) -> Option<DetachedBytes> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: within the segment, checked above.
        let at = unsafe { self.base.add(offset as usize) };
        Some(DetachedBytes {
            _memory: self.memory.clone(),
            at,
            len: len as usize,
        })
    }

    /// A reader of `range` that needs neither this value nor a lock.
    pub(crate) fn view(&self, range: Range) -> Option<View> {
        let DetachedBytes { _memory, at, len } = self.detach(range.offset, range.len)?;
        Some(View {
            memory: _memory,
            at,
            len,
        })
    }
}

/// Bytes of the own segment that the pool has let go of: their one holder may read and write them.
pub(crate) struct DetachedBytes {
    _memory: Arc<dyn Memory>,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the one holder of these bytes may be in any thread.
unsafe impl Send for DetachedBytes {}
// SAFETY: `&DetachedBytes` only reads.
unsafe impl Sync for DetachedBytes {}

impl DetachedBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: within the segment (checked in `detach`), alive through `_memory`, and the pool
        // gives no reference to a block while it is detached.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, exclusive through `&mut self`.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

/// The blocks of the memory that another process writes.
pub struct PeerBlocks {
    memory: Arc<dyn Memory>,
    base: NonNull<u8>,
    len: u32,
}

// SAFETY: only an address and a length; bytes are copied out, never referred to.
unsafe impl Send for PeerBlocks {}
// SAFETY: as above.
unsafe impl Sync for PeerBlocks {}

impl PeerBlocks {
    /// The `len` bytes at `offset` of `memory`, or `None` when they are not within it.
    pub fn new(memory: Arc<dyn Memory>, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > memory.len() || len >= 1 << 31 {
            return None;
        }
        // SAFETY: `offset` is within the allocation, checked above.
        let base = unsafe { memory.base().add(offset) };
        Some(PeerBlocks {
            memory,
            base,
            len: len as u32,
        })
    }

    /// Bytes in all blocks.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the first bytes of `range` into `out`; how many: the shorter of both, 0 when the
    /// range
    /// is not within the segment.
    pub fn read(&self, range: Range, out: &mut [u8]) -> usize {
        let Some(end) = range.offset.checked_add(range.len) else {
            return 0;
        };
        if end > self.len {
            return 0;
        }
        let n = out.len().min(range.len as usize);
        // SAFETY: `n` bytes from `offset` are within the segment, checked above; `out` holds `n`.
        unsafe {
            copy_untrusted(
                self.base.as_ptr().add(range.offset as usize),
                out.as_mut_ptr(),
                n,
            )
        };
        n
    }

    /// A reader of `range` that needs neither this value nor a lock.
    pub fn view(&self, range: Range) -> Option<View> {
        if range.offset.checked_add(range.len)? > self.len {
            return None;
        }
        // SAFETY: within the segment, checked above.
        let at = unsafe { self.base.add(range.offset as usize) };
        Some(View {
            memory: self.memory.clone(),
            at,
            len: range.len as usize,
        })
    }
}

/// Received bytes where they lie, to be copied out piece by piece.
///
/// Another process may be able to change them meanwhile, so there is no way to a `&[u8]`.
pub struct View {
    memory: Arc<dyn Memory>,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: only an address and a length; bytes are copied out, never referred to.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes from position `from` on into `out`; returns how many, 0 past the end.
    pub fn read_at(&self, from: usize, out: &mut [u8]) -> usize {
        debug_assert!(!self.memory.is_empty());
        let n = out.len().min(self.len.saturating_sub(from));
        if n > 0 {
            // SAFETY: `from + n <= len`, which was checked to be within the memory.
            unsafe { copy_untrusted(self.at.as_ptr().add(from), out.as_mut_ptr(), n) };
        }
        n
    }
}

/// Copies `n` bytes out of memory that somebody else may be writing at the same time.
///
/// On x86-64 the copy is an instruction the compiler cannot look into, so whatever the other side
/// does, the result is some bytes, not undefined behaviour. Elsewhere (and under Miri, where nobody
/// else writes) it is a plain copy.
///
/// # Safety
/// `n` bytes are readable at `from` and writable at `to`, and the two do not overlap.
unsafe fn copy_untrusted(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise is all the instruction needs; the direction flag is clear by the
    // calling convention.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") n => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, n);
    }
}
