//! Which block of the own segment is free, referenced, in flight.
//!
//! A block counts its references: one per queue entry, frame or open arena that names bytes in it,
//! and one per transmission the driver has not completed. At zero it is free again. Free blocks are
//! handed out last-in first-out, so that the bytes are still in the cache and untouched memory
//! stays
//! untouched. All bookkeeping is private: no other process can influence it.

use crate::segment::{DetachedBytes, OwnBlocks, Range, Space, View};
use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

mod audit;

pub use audit::Audit;

/// A block of the own segment, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockId(u32);

/// References to one block beyond which no further one is given: the caller sees "full". (Fewer
/// than would reach the top bit of their half.)
const REFERENCES_MAX: u32 = u32::MAX / 2;

/// The counts of a block are one word, so that a transmission is one addition, and many blocks are
/// compared at once: the low half counts its references.
const REFERENCE: u64 = 1;
/// The high half counts those of them that are transmissions under way.
const IN_FLIGHT: u64 = 1 << 32;
/// The top bit: handed to the application as an [`OwnedBlock`].
const DETACHED: u64 = 1 << 63;

/// References of any kind; 0 = free.
const fn references(block: u64) -> u32 {
    block as u32
}

/// How many of them are transmissions under way.
const fn in_flight(block: u64) -> u32 {
    ((block & !DETACHED) >> 32) as u32
}

/// The blocks of one endpoint's own segment.
pub struct Pool {
    bytes: OwnBlocks,
    block_bytes: u32,
    /// Counts of each: see [`REFERENCE`].
    blocks: Vec<u64>,
    free: Vec<u32>,
    /// Kept back from [`Pool::alloc`] so that the driver can always receive.
    reserve: usize,
    abandoned: Arc<Abandoned>,
    bad_completions: u64,
}

/// Blocks whose [`OwnedBlock`] was dropped without being sent: one bit each, set from any thread.
struct Abandoned {
    any: AtomicU64,
    bits: Vec<AtomicU64>,
}

impl Pool {
    /// A pool over `bytes`, cut into blocks of `block_bytes` (a power of two), of which `reserve`
    /// are kept for receiving.
    pub fn new(bytes: OwnBlocks, block_bytes: u32, reserve: u32) -> Self {
        let count = bytes.len().checked_div(block_bytes).unwrap_or(0);
        let words = (count as usize).div_ceil(64);
        Pool {
            bytes,
            block_bytes,
            blocks: alloc::vec![0; count as usize],
            free: (0..count).rev().collect(),
            reserve: reserve.min(count / 2) as usize,
            abandoned: Arc::new(Abandoned {
                any: AtomicU64::new(0),
                bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            }),
            bad_completions: 0,
        }
    }

    /// Bytes in one block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Number of blocks in all.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Number of free blocks, reserve included.
    pub fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// Number of blocks that [`Pool::alloc`] would give.
    pub fn available(&self) -> usize {
        self.free.len().saturating_sub(self.reserve)
    }

    /// Completions that named a block not in flight: the peer's mistake or malice.
    pub fn bad_completions(&self) -> u64 {
        self.bad_completions
    }

    /// A block for data to be sent, with one reference; `None` when only the reserve is left.
    pub fn alloc(&mut self) -> Option<BlockId> {
        if self.free.len() <= self.reserve {
            self.collect_abandoned();
            if self.free.len() <= self.reserve {
                return None;
            }
        }
        self.take()
    }

    /// A block to receive into, with one reference; may use the reserve.
    pub fn alloc_for_receive(&mut self) -> Option<BlockId> {
        self.take()
    }

    fn take(&mut self) -> Option<BlockId> {
        let id = self.free.pop()?;
        let block = self.blocks.get_mut(id as usize)?;
        *block = REFERENCE;
        Some(BlockId(id))
    }

    /// The first `len` bytes of `block` as a range.
    pub fn range(&self, block: BlockId, at: u32, len: u32) -> Range {
        Range {
            offset: block.0 * self.block_bytes + at,
            len,
            space: Space::Own,
        }
    }

    /// The block that `range` lies in.
    pub fn block_of(&self, range: Range) -> BlockId {
        BlockId(range.offset.checked_div(self.block_bytes).unwrap_or(0))
    }

    fn block_mut(&mut self, range: Range) -> Option<&mut u64> {
        let index = range.offset.checked_div(self.block_bytes)? as usize;
        self.blocks.get_mut(index).filter(|b| references(**b) > 0)
    }

    /// References to `block`, transmissions under way included; 0 when it is free.
    #[inline]
    pub fn references(&self, block: BlockId) -> u32 {
        let block = self.blocks.get(block.0 as usize);
        block.map_or(0, |b| references(*b))
    }

    /// One more reference to the block of `range`; `false` when it is free or referenced too often.
    pub fn retain(&mut self, range: Range) -> bool {
        match self.block_mut(range) {
            Some(block) if references(*block) < REFERENCES_MAX => {
                *block += REFERENCE;
                true
            }
            _ => false,
        }
    }

    /// One reference less; the block is free at zero.
    #[inline]
    pub fn release(&mut self, range: Range) {
        let Some(block) = self.block_mut(range) else {
            debug_assert!(false, "release of a free block: {range:?}");
            return;
        };
        *block -= REFERENCE;
        if references(*block) == 0 {
            *block = 0;
            let id = range.offset / self.block_bytes;
            self.free.push(id);
        }
    }

    /// Marks `range` as being transmitted: one reference more, until [`Pool::completed`].
    #[inline]
    pub(crate) fn pin(&mut self, range: Range) -> bool {
        match self.block_mut(range) {
            Some(block) if references(*block) < REFERENCES_MAX => {
                *block += REFERENCE + IN_FLIGHT;
                true
            }
            _ => false,
        }
    }

    /// A transmission from the block that holds byte `offset` has ended. Counts, and ignores, an
    /// offset that is outside the segment or in a block that is not in flight.
    #[inline]
    pub fn completed(&mut self, offset: u32) {
        let range = Range {
            offset,
            len: 0,
            space: Space::Own,
        };
        match self.block_mut(range) {
            Some(block) if in_flight(*block) > 0 => {
                *block -= IN_FLIGHT;
                self.release(range);
            }
            _ => self.bad_completions = self.bad_completions.wrapping_add(1),
        }
    }

    /// Ends every transmission at once: the link is gone and nobody will complete them.
    pub fn complete_all(&mut self) {
        for id in 0..self.blocks.len() {
            let offset = id as u32 * self.block_bytes;
            while self.blocks.get(id).is_some_and(|b| in_flight(*b) > 0) {
                self.completed(offset);
            }
        }
    }

    /// The bytes of `range`, or `None` when it is not in the own segment, or was handed out.
    #[inline]
    pub fn bytes(&self, range: Range) -> Option<&[u8]> {
        let block = self
            .blocks
            .get(range.offset.checked_div(self.block_bytes)? as usize)?;
        if range.space != Space::Own || block & DETACHED != 0 || !self.within_block(range) {
            return None;
        }
        self.bytes.bytes(range.offset, range.len)
    }

    /// The same, to be written. The caller holds the only reference to these bytes of the block.
    #[inline]
    pub fn bytes_mut(&mut self, range: Range) -> Option<&mut [u8]> {
        let block = self
            .blocks
            .get(range.offset.checked_div(self.block_bytes)? as usize)?;
        if range.space != Space::Own || block & DETACHED != 0 || !self.within_block(range) {
            return None;
        }
        self.bytes.bytes_mut(range.offset, range.len)
    }

    fn within_block(&self, range: Range) -> bool {
        let at = range.offset & (self.block_bytes - 1);
        u64::from(at) + u64::from(range.len) <= u64::from(self.block_bytes)
    }

    /// A reader of `range` that outlives the borrow; the caller keeps a reference to the block.
    pub fn view(&self, range: Range) -> Option<View> {
        self.bytes(range)?;
        self.bytes.view(range)
    }

    /// Appends as much of `data` as the open block of `arena` (or a fresh one) holds, contiguously.
    ///
    /// The range has a reference of its own. Returns `None` without memory. Several small pieces so
    /// share one block, instead of pinning one each.
    pub fn append(&mut self, arena: &mut Arena, data: &[u8]) -> Option<Range> {
        let range = self.reserve_in(arena, data.len())?;
        self.expect_more(range);
        let len = range.len as usize;
        if let (Some(to), Some(from)) = (self.bytes_mut(range), data.get(..len)) {
            to.copy_from_slice(from);
        }
        Some(range)
    }

    /// After a small piece another one is likely: asks for the memory a little ahead of it.
    #[inline]
    pub fn expect_more(&self, piece: Range) {
        const SMALL: u32 = 2048;
        const AHEAD: u32 = 512;
        if piece.len <= SMALL {
            let line = piece.end().next_multiple_of(64);
            self.bytes.expect_write(line + AHEAD, piece.len);
        }
    }

    /// As [`Pool::append`], for bytes the caller fills in: up to `len` of them in one piece.
    pub fn reserve_in(&mut self, arena: &mut Arena, len: usize) -> Option<Range> {
        let full = arena.open.is_some_and(|_| arena.used >= self.block_bytes);
        if full {
            self.close(arena);
        }
        let block = match arena.open {
            Some(block) => block,
            None => {
                let block = self.alloc()?;
                *arena = Arena {
                    open: Some(block),
                    used: 0,
                };
                block
            }
        };
        let room = self.block_bytes - arena.used;
        let range = self.range(
            block,
            arena.used,
            room.min(len.min(u32::MAX as usize) as u32),
        );
        self.retain(range).then(|| {
            arena.used += range.len;
            range
        })
    }

    /// As [`Pool::reserve_in`], all `len` bytes in one piece or `None`; starts a fresh block when
    /// the
    /// open one has not enough left.
    pub fn reserve_whole(&mut self, arena: &mut Arena, len: usize) -> Option<Range> {
        let len = u32::try_from(len).ok().filter(|&l| l <= self.block_bytes)?;
        if arena.open.is_some() && self.block_bytes - arena.used < len {
            self.close(arena);
        }
        self.reserve_in(arena, len as usize)
    }

    /// Lets go of the arena's open block; ranges in it live on.
    pub fn close(&mut self, arena: &mut Arena) {
        if let Some(block) = arena.open.take() {
            self.release(self.range(block, 0, 0));
        }
        arena.used = 0;
    }

    /// Takes a block out of the pool for the application to fill: see [`OwnedBlock`].
    pub fn detach(&mut self) -> Option<OwnedBlock> {
        let id = self.alloc()?;
        let bytes = self
            .bytes
            .detach(id.0 * self.block_bytes, self.block_bytes)?;
        *self.blocks.get_mut(id.0 as usize)? |= DETACHED;
        Some(OwnedBlock {
            bytes: Some(bytes),
            id,
            home: self.abandoned.clone(),
        })
    }

    /// Takes a filled block back: the range of its first `len` bytes, with one reference. `None`
    /// (and the block goes free) when it is another pool's, or `len` is 0 or too large.
    pub fn attach(&mut self, mut block: OwnedBlock, len: usize) -> Option<Range> {
        if !Arc::ptr_eq(&block.home, &self.abandoned) || len == 0 {
            return None;
        }
        let len = u32::try_from(len).ok().filter(|&l| l <= self.block_bytes)?;
        block.bytes = None;
        *self.blocks.get_mut(block.id.0 as usize)? &= !DETACHED;
        Some(self.range(block.id, 0, len))
    }

    #[cold]
    fn collect_abandoned(&mut self) {
        let abandoned = self.abandoned.clone();
        if abandoned.any.swap(0, Ordering::Acquire) == 0 {
            return;
        }
        for (index, word) in abandoned.bits.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                let id = (index * 64) as u32 + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(block) = self.blocks.get_mut(id as usize) {
                    *block &= !DETACHED;
                }
                self.release(self.range(BlockId(id), 0, 0));
            }
        }
    }

    /// Asserts what must always hold; for tests.
    ///
    /// # Panics
    /// When the bookkeeping contradicts itself.
    pub fn invariants(&self) {
        let free = self.blocks.iter().filter(|b| references(**b) == 0).count();
        assert_eq!(
            free,
            self.free.len(),
            "free list and reference counts disagree"
        );
        assert!(self.blocks.iter().all(|&b| in_flight(b) <= references(b)));
        let mut ids = self.free.clone();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), self.free.len(), "a block is free twice");
    }
}

/// An open block that small pieces are appended to: see [`Pool::append`].
#[derive(Debug, Default)]
pub struct Arena {
    open: Option<BlockId>,
    used: u32,
}

impl Arena {
    /// No block yet.
    pub const fn new() -> Self {
        Arena {
            open: None,
            used: 0,
        }
    }
}

/// A whole block that the application fills in place, to be sent without a copy.
///
/// Dropped without being sent it finds its way back to the pool. Old bytes of earlier use are still
/// in it; they were this process's own.
pub struct OwnedBlock {
    bytes: Option<DetachedBytes>,
    id: BlockId,
    home: Arc<Abandoned>,
}

impl core::ops::Deref for OwnedBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], DetachedBytes::as_slice)
    }
}

impl core::ops::DerefMut for OwnedBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
            .as_mut()
            .map_or(&mut [], DetachedBytes::as_mut_slice)
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        if self.bytes.take().is_some() {
            let (word, bit) = (self.id.0 / 64, self.id.0 % 64);
            if let Some(word) = self.home.bits.get(word as usize) {
                word.fetch_or(1 << bit, Ordering::Release);
            }
            self.home.any.store(1, Ordering::Release);
        }
    }
}

impl fmt::Debug for OwnedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedBlock({} bytes)", self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
