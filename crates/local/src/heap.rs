//! Memory for a library inside of a foreign program: none of the program's heap is touched,
//! whose locks an interrupted thread may hold, and no lock is taken here, so that a signal handler
//! may come at any instruction and allocate too.
//!
//! ```text
//! sizes 16, 32, 64 ... 64 KiB, each with a list of free blocks:
//! head: | tag, 21 bits | address / 16, 43 bits | -> block -> block -> ...
//! larger ones are the kernel's mappings
//! ```
//! A list is a stack that is changed by one compare-and-swap (Treiber, IBM RJ 5118). The tag counts
//! what was taken out: a thread that read the head before another took that block, and gave it
//! back, finds another tag. Blocks are never given back to the kernel, so a late look at one always
//! finds memory, and what it finds is thrown away when the swap fails.

#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const SMALLEST: usize = 16;
const CLASSES: usize = 13;
const LARGEST: usize = SMALLEST << (CLASSES - 1);
/// Bytes that are asked of the kernel at once.
const CHUNK: usize = 128 << 10;
const ADDRESS_BITS: u32 = 43;
const PAGE: usize = 4096;

const _: () = assert!(LARGEST == 64 << 10 && CHUNK >= 2 * LARGEST);

/// An allocator without locks.
#[derive(Debug)]
pub struct Heap {
    free: [AtomicU64; CLASSES],
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Heap {
    /// Nothing is asked of the kernel before the first allocation.
    pub const fn new() -> Heap {
        Heap {
            free: [const { AtomicU64::new(0) }; CLASSES],
        }
    }

    /// Which list a size is on; none for what the kernel maps by itself.
    fn class(layout: Layout) -> Option<usize> {
        let size = layout.size().max(layout.align()).max(SMALLEST);
        let class = size.next_power_of_two().ilog2() - SMALLEST.ilog2();
        Some(class as usize).filter(|class| *class < CLASSES)
    }

    fn pop(list: &AtomicU64) -> Option<*mut u8> {
        let mut head = list.load(Acquire);
        loop {
            let block = address(head)?;
            // SAFETY: a block of this list, or one that was: memory in either case, aligned.
            let next = unsafe { AtomicU64::from_ptr(block.cast()) }.load(Relaxed);
            match list.compare_exchange_weak(head, follow(head, next), AcqRel, Acquire) {
                Ok(_) => return Some(block),
                Err(now) => head = now,
            }
        }
    }

    /// Puts blocks in that are linked already: the first, and the last, whose link is set here.
    fn push(list: &AtomicU64, first: *mut u8, last: *mut u8) {
        let mut head = list.load(Relaxed);
        loop {
            let next = address(head).map_or(0, |block| block.addr() as u64);
            // SAFETY: a free block that is in no list yet, aligned.
            unsafe { AtomicU64::from_ptr(last.cast()) }.store(next, Relaxed);
            let new = follow(head, first.addr() as u64);
            match list.compare_exchange_weak(head, new, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Asks the kernel for more blocks of a size, gives one of them and keeps the others.
    fn refill(list: &AtomicU64, size: usize) -> *mut u8 {
        let chunk = map(CHUNK);
        if chunk.is_null() {
            return chunk;
        }
        let count = CHUNK / size;
        // SAFETY: within the chunk.
        let block = |n: usize| unsafe { chunk.add(n * size) };
        for n in 1..count - 1 {
            // SAFETY: a block that nothing else knows of, aligned.
            let link = unsafe { AtomicU64::from_ptr(block(n).cast()) };
            link.store(block(n + 1).addr() as u64, Relaxed);
        }
        Self::push(list, block(1), block(count - 1));
        chunk
    }
}

/// The address in a head.
fn address(head: u64) -> Option<*mut u8> {
    let address = (head & ((1 << ADDRESS_BITS) - 1)) * SMALLEST as u64;
    (address != 0).then_some(address as *mut u8)
}

/// The head after `head`, with another block.
fn follow(head: u64, block: u64) -> u64 {
    let tag = (head >> ADDRESS_BITS).wrapping_add(1);
    (tag << ADDRESS_BITS) | (block / SMALLEST as u64)
}

fn map(len: usize) -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, nowhere in particular.
    let mapped = unsafe { rustix::mm::mmap_anonymous(null_mut(), len, access, MapFlags::PRIVATE) };
    mapped.map_or(null_mut(), <*mut _>::cast)
}

// SAFETY: a block is in one list or with one owner; blocks are as large and as aligned as their
// class, which is no smaller than the layout.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Self::class(layout).and_then(|class| Some((class, self.free.get(class)?))) {
            Some((class, list)) => {
                Self::pop(list).unwrap_or_else(|| Self::refill(list, SMALLEST << class))
            }
            None if layout.align() <= PAGE => map(layout.size().next_multiple_of(PAGE)),
            None => null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match Self::class(layout).and_then(|class| self.free.get(class)) {
            Some(list) => Self::push(list, block, block),
            None => {
                let len = layout.size().next_multiple_of(PAGE);
                // SAFETY: mapped by `alloc` with this length, and the caller's no more.
                let _ = unsafe { rustix::mm::munmap(block.cast(), len) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn blocks_are_aligned_apart_and_used_again() {
        let heap = Heap::new();
        for (size, align) in [
            (1, 1),
            (16, 16),
            (17, 8),
            (100, 64),
            (4096, 4096),
            (70_000, 16),
        ] {
            let layout = layout(size, align);
            // SAFETY: blocks are written within their size and given back once.
            unsafe {
                let (one, other) = (heap.alloc(layout), heap.alloc(layout));
                assert!(!one.is_null() && !other.is_null());
                assert!(one.addr().is_multiple_of(align) && other.addr().is_multiple_of(align));
                assert!(one.addr().abs_diff(other.addr()) >= size);
                one.write_bytes(1, size);
                other.write_bytes(2, size);
                assert_eq!((one.read(), other.read()), (1, 2));
                heap.dealloc(other, layout);
                if size <= LARGEST {
                    assert_eq!(heap.alloc(layout), other);
                    heap.dealloc(other, layout);
                }
                heap.dealloc(one, layout);
            }
        }
        // SAFETY: refused.
        assert!(unsafe { heap.alloc(layout(1 << 20, 8192)) }.is_null());
    }

    #[test]
    fn no_block_is_given_to_two() {
        const THREADS: u8 = 4;
        let heap = Heap::new();
        let begin = Barrier::new(THREADS.into());
        let work = |mark: u8| {
            begin.wait();
            let mut held: Vec<(*mut u8, Layout)> = Vec::new();
            for n in 0..20_000_usize {
                let layout = layout(1 + n * 37 % 200, 8);
                // SAFETY: written within its size.
                unsafe {
                    let block = heap.alloc(layout);
                    block.write_bytes(mark, layout.size());
                    held.push((block, layout));
                }
                if n % 3 == 0 {
                    let (block, layout) = held.swap_remove(n % held.len());
                    // SAFETY: a block of this thread's, given back once.
                    unsafe {
                        let whole = std::slice::from_raw_parts(block, layout.size());
                        assert!(whole.iter().all(|byte| *byte == mark));
                        heap.dealloc(block, layout);
                    }
                }
                if held.len() > 500 {
                    for (block, layout) in held.drain(..) {
                        // SAFETY: as above.
                        unsafe {
                            let whole = std::slice::from_raw_parts(block, layout.size());
                            assert!(whole.iter().all(|byte| *byte == mark));
                            heap.dealloc(block, layout);
                        }
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for mark in 1..=THREADS {
                scope.spawn(move || work(mark));
            }
        });
    }
}
