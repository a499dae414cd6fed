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

    /// Asks for the cache lines of `len` bytes at `offset`, to be written soon: see
    /// [`expect_write`].
    #[inline]
    pub(crate) fn expect_write(&self, offset: u32, len: u32) {
        let end = offset.saturating_add(len).min(self.len);
        for line in (offset..end).step_by(64) {
            expect_write(self.base.as_ptr().wrapping_add(line as usize));
        }
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

    /// Where they lie, for languages that read memory which may change under their eyes. Good while
    /// this view exists. Rust code reads with [`View::read_at`].
    pub fn as_ptr(&self) -> *const u8 {
        self.at.as_ptr()
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

/// Asks for the cache line at `at`, to be written soon.
///
/// A line that the other process has read last must come back before a store to it is done. Stores
/// wait for that in order, and everything that orders memory (a lock, a fence) waits for them:
/// small writes would pay the way between two cores one by one. Asked for early, the lines come
/// side by side. A hint about an address and nothing more: it cannot fault.
#[inline]
pub(crate) fn expect_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch changes nothing and never faults, whatever the address; processors without
    // it take it for a no-op.
    unsafe {
        core::arch::asm!(
            "prefetchw [{0}]",
            in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Copies `n` bytes out of memory that somebody else may be writing at the same time.
///
/// On x86-64 the copy consists of instructions the compiler cannot look into, so whatever the other
/// side does, the result is some bytes, not undefined behaviour. Elsewhere (and under Miri, where
/// nobody else writes) it is a plain copy.
///
/// `rep movsb` is the fastest for what another core has written last (1 KiB and more: 28 to 32 GB/s
/// against 23 with 16 bytes at a time, Zen 5), but takes 19 to 27 ns to begin with; a short copy
/// of 16 bytes at a time takes 3 to 14.
///
/// # Safety
/// `n` bytes are readable at `from` and writable at `to`, and the two do not overlap.
#[inline]
unsafe fn copy_untrusted(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise is all either way needs; the direction flag is clear by the
    // calling convention.
    unsafe {
        if n < opaque::SHORT {
            return opaque::copy_short(from, to, n);
        }
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

/// Short copies, each move an instruction pair that the compiler cannot look into.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod opaque {
    use core::arch::asm;

    /// From here on `rep movsb` is as fast or faster.
    pub(super) const SHORT: usize = 1024;

    /// Copies `n` bytes: whole pieces from the front, then one piece that ends with the last byte
    /// and may overlap those before.
    ///
    /// # Safety
    /// As `copy_untrusted`.
    #[inline]
    pub(super) unsafe fn copy_short(from: *const u8, to: *mut u8, n: usize) {
        let mut at = 0;
        // SAFETY: every move begins at `at` or at `n` less its length, and ends at `n` at most: a
        // loop goes on only while its piece fits, and a last piece is moved only when `n` is not
        // smaller than it.
        unsafe {
            while n - at >= 64 {
                move64(from.add(at), to.add(at));
                at += 64;
            }
            while n - at >= 16 {
                move16(from.add(at), to.add(at));
                at += 16;
            }
            match n {
                _ if at == n => {}
                16.. => move16(from.add(n - 16), to.add(n - 16)),
                8.. => {
                    move8(from, to);
                    move8(from.add(n - 8), to.add(n - 8));
                }
                4.. => {
                    move4(from, to);
                    move4(from.add(n - 4), to.add(n - 4));
                }
                _ => (0..n).for_each(|i| move1(from.add(i), to.add(i))),
            }
        }
    }

    /// # Safety
    /// 64 bytes are readable at `from` and writable at `to`.
    #[inline(always)]
    unsafe fn move64(from: *const u8, to: *mut u8) {
        // SAFETY: unaligned moves of 64 bytes, which the caller promises.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) from,
                to = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// One move of a size: the register class and the instruction differ, nothing else.
    macro_rules! one_move {
        ($name:ident, $class:ident, $moved:literal, $into:literal, $out:literal) => {
            /// # Safety
            #[doc = concat!($moved, " readable at `from` and writable at `to`.")]
            #[inline(always)]
            unsafe fn $name(from: *const u8, to: *mut u8) {
                // SAFETY: one unaligned move there and back, within what the caller promises.
                unsafe {
                    asm!(
                        $into,
                        $out,
                        from = in(reg) from,
                        to = in(reg) to,
                        x = out($class) _,
                        options(nostack, preserves_flags)
                    );
                }
            }
        };
    }

    one_move!(
        move16,
        xmm_reg,
        "16 bytes are",
        "movups {x}, [{from}]",
        "movups [{to}], {x}"
    );
    one_move!(
        move8,
        reg,
        "8 bytes are",
        "mov {x}, [{from}]",
        "mov [{to}], {x}"
    );
    one_move!(
        move4,
        reg,
        "4 bytes are",
        "mov {x:e}, [{from}]",
        "mov [{to}], {x:e}"
    );
    one_move!(
        move1,
        reg_byte,
        "1 byte is",
        "mov {x}, [{from}]",
        "mov [{to}], {x}"
    );
}

#[cfg(test)]
mod tests {
    use super::copy_untrusted;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Every length around the borders, from and to odd addresses: all bytes, and none beyond.
    #[test]
    fn copies_of_any_length_are_exact() {
        let source: Vec<u8> = (0..2100u32).map(|i| (i * 7 + i / 256) as u8 | 1).collect();
        let lengths = (0..200).chain(990..1100).chain([2048, 2080]);
        for (turn, n) in lengths.enumerate() {
            let (skip, lead) = (turn % 17, turn % 13);
            let mut out = vec![0; lead + n + 16];
            // SAFETY: `skip + n` is at most 2096 of 2100; `lead + n` is within `out`.
            unsafe { copy_untrusted(source.as_ptr().add(skip), out.as_mut_ptr().add(lead), n) };
            let (before, rest) = out.split_at(lead);
            let (copied, after) = rest.split_at(n);
            assert_eq!(copied, &source[skip..skip + n], "{n} bytes");
            assert!(before.iter().chain(after).all(|&b| b == 0), "{n} bytes");
        }
    }
}
