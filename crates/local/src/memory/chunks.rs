//! Which rings are mapped together, and where. The first slots, which every program uses, in small
//! chunks; the others in larger ones, so that 100,000 streams are some thousand mappings.

use crate::layout::Geometry;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// Slots in small chunks.
const FIRST: u32 = 256;
/// Bytes of a small chunk, if a ring is not larger.
const SMALL: usize = 2 << 20;
/// Rings of a larger chunk, at least; it has four times as many as a small one.
const MANY: u32 = 16;

/// See the module. The table is memory of its own: the program's allocator may be in use by the
/// code that this process was interrupted in.
#[derive(Debug)]
pub(super) struct Chunks {
    table: NonNull<AtomicPtr<u8>>,
    geometry: Geometry,
    small_shift: u32,
    large_shift: u32,
}

impl Chunks {
    pub(super) fn new(geometry: Geometry) -> Result<Chunks, Errno> {
        let small = ((SMALL / geometry.ring_len()) as u32).clamp(1, FIRST);
        let large = (small * 4).max(MANY);
        let mut chunks = Chunks {
            table: NonNull::dangling(),
            geometry,
            small_shift: small.trailing_zeros(),
            large_shift: large.trailing_zeros(),
        };
        let null = std::ptr::null_mut();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory.
        let table =
            unsafe { rustix::mm::mmap_anonymous(null, chunks.bytes(), access, MapFlags::PRIVATE) }?;
        chunks.table = NonNull::new(table.cast()).ok_or(Errno::NOMEM)?;
        Ok(chunks)
    }

    fn count(&self) -> usize {
        self.number(self.geometry.slots - 1) + 1
    }

    fn bytes(&self) -> usize {
        self.count() * size_of::<AtomicPtr<u8>>()
    }

    /// Which chunk slot `n` is in.
    #[inline]
    fn number(&self, n: u32) -> usize {
        let number = match n < FIRST {
            true => n >> self.small_shift,
            false => (FIRST >> self.small_shift) + ((n - FIRST) >> self.large_shift),
        };
        number as usize
    }

    /// First slot of the chunk that `n` is in.
    #[inline]
    fn first(&self, n: u32) -> u32 {
        match n < FIRST {
            true => n >> self.small_shift << self.small_shift,
            false => FIRST + ((n - FIRST) >> self.large_shift << self.large_shift),
        }
    }

    #[inline]
    fn entry(&self, n: u32) -> &AtomicPtr<u8> {
        // SAFETY: of the table's entries; callers have numbers of slots.
        unsafe { self.table.add(self.number(n)).as_ref() }
    }

    /// Where it stands which memory the chunk of slot `n` has, and where in it the ring begins.
    #[inline]
    pub(super) fn place(&self, n: u32) -> (&AtomicPtr<u8>, usize) {
        let at = (n - self.first(n)) as usize * self.geometry.ring_len();
        (self.entry(n), at)
    }

    /// First slot and length in bytes of the chunk that `n` is in.
    pub(super) fn around(&self, n: u32) -> (u32, usize) {
        let first = self.first(n);
        let shift = match n < FIRST {
            true => self.small_shift,
            false => self.large_shift,
        };
        let slots = (1 << shift).min(self.geometry.slots - first);
        (first, slots as usize * self.geometry.ring_len())
    }

    /// The chunk of slot `n` is at `first`, unless another thread has mapped it already: then where
    /// that has it.
    pub(super) fn keep(&self, n: u32, first: NonNull<u8>) -> Option<NonNull<u8>> {
        let null = std::ptr::null_mut();
        let kept = self
            .entry(n)
            .compare_exchange(null, first.as_ptr(), AcqRel, Acquire);
        kept.err().and_then(NonNull::new)
    }

    /// Takes all out: first slot, memory, length.
    pub(super) fn drain(&mut self, mut each: impl FnMut(u32, *mut u8, usize)) {
        let mut n = 0;
        while n < self.geometry.slots {
            let (first, len) = self.around(n);
            let memory = self.entry(n).swap(std::ptr::null_mut(), AcqRel);
            if !memory.is_null() {
                each(first, memory, len);
            }
            n += (len / self.geometry.ring_len()) as u32;
        }
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // SAFETY: made in `new`, given back only here.
        let _ = unsafe { rustix::mm::munmap(self.table.as_ptr().cast(), self.bytes()) };
    }
}
