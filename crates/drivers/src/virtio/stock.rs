//! Armed blocks, and where in them the next frame goes.
//!
//! ```text
//!            used
//!             v
//! [ frame frame......... ][ block ][ block ][ block ][ block ]
//!   current: small frames   the rest of the largest frame
//!   share it
//! ```
//! The blocks form one stretch, which a frame is received into from `used` on. Small frames follow
//! each other in the current block, each with a reference of its own; a large frame takes the
//! blocks it fills with it. Blocks that nothing came into stay armed: nothing is allocated per
//! packet, and a full-sized frame costs the blocks it needs, a small one its own bytes.

use super::sys::Target;
use gannet_link::slot::{INLINE_MAX, flags};
use gannet_link::{BlockId, Pool, Range, Slot};

/// Most blocks armed at once: a slot names eight ranges, and needs room for headers beside them.
pub(crate) const ARMED_MAX: usize = 6;
/// A current block with less room than this is let go: with it a frame would take one block more.
const ROOM_MIN: u32 = 2048;
/// Frames start at multiples of this, a cache line.
const ALIGN: u32 = 64;
/// Bytes in which 8 * ranges and the inline bytes of a slot have to fit.
const SLOT_ROOM: usize = 112;

const _: () = assert!(
    ROOM_MIN as usize > INLINE_MAX,
    "the inline bytes of a frame lie in its first block"
);

/// Blocks ready to be received into.
pub(crate) struct Stock {
    blocks: [Option<BlockId>; ARMED_MAX],
    /// How many blocks of `blocks` are kept armed: enough for the largest frame.
    wanted: usize,
    /// Bytes taken of the first block.
    used: u32,
}

impl Stock {
    /// A stock for frames of up to `frame_max` bytes.
    pub(crate) fn new(block_bytes: u32, frame_max: u32) -> Self {
        let rest = frame_max
            .saturating_sub(ROOM_MIN)
            .div_ceil(block_bytes.max(1)) as usize;
        Stock {
            blocks: [None; ARMED_MAX],
            wanted: (1 + rest).min(ARMED_MAX),
            used: 0,
        }
    }

    /// Arms what is missing and lists where the next frame goes. Unless a frame is taken in
    /// between, the next list begins with the same ranges.
    #[inline]
    pub(crate) fn arm(&mut self, pool: &mut Pool) -> Target {
        let mut ranges = [Range::EMPTY; ARMED_MAX];
        let mut count = 0;
        let mut at = self.used;
        let armed = self.blocks.iter_mut().take(self.wanted);
        for (entry, range) in armed.zip(ranges.iter_mut()) {
            if entry.is_none() {
                *entry = pool.alloc_for_receive();
            }
            let Some(block) = *entry else { break };
            *range = pool.range(block, at, pool.block_bytes() - at);
            at = 0;
            count += 1;
        }
        Target { ranges, count }
    }

    /// Whether `target` has room for the largest frame.
    pub(crate) fn is_full(&self, target: &Target) -> bool {
        target.count >= self.wanted
    }

    /// Takes a frame of `len` bytes out of the armed blocks, as [`Stock::arm`] listed them in
    /// `target`, and describes it in the empty `slot`; `false` when there were not that many bytes.
    #[inline]
    pub(crate) fn take(
        &mut self,
        pool: &mut Pool,
        target: &Target,
        len: usize,
        slot: &mut Slot,
    ) -> bool {
        let ranges = target.ranges.get(..target.count).unwrap_or(&[]);
        let spans = spans(ranges, len);
        let Some(spans) = spans else { return false };
        let inline = len.min(INLINE_MAX).min(SLOT_ROOM - 8 * spans);
        let Some(first) = ranges.first() else {
            return false;
        };
        let (Some(to), Some(from)) = (
            slot.inline_mut(inline),
            pool.bytes(first.front(inline as u32)),
        ) else {
            return false;
        };
        to.copy_from_slice(from);
        if len <= INLINE_MAX {
            return true; // the block is used again at once
        }
        let mut left = len as u32;
        let mut skip = inline as u32;
        for range in ranges.iter().take(spans) {
            let part = range.front(left);
            left -= part.len;
            slot.push_range(part.skip(skip));
            skip = 0;
        }
        slot.set_flags(flags::CONTIGUOUS);
        self.advance(pool, ranges, spans, len as u32);
        true
    }

    /// Copies a frame into the armed blocks and describes it in the empty `slot`; `false` when
    /// there was no room.
    #[inline]
    pub(crate) fn put(&mut self, pool: &mut Pool, bytes: &[u8], slot: &mut Slot) -> bool {
        if bytes.len() <= INLINE_MAX {
            let to = slot.inline_mut(bytes.len());
            return to.map(|to| to.copy_from_slice(bytes)).is_some();
        }
        let target = self.arm(pool);
        let mut rest = bytes;
        for range in target.ranges.iter().take(target.count) {
            let (now, later) = rest.split_at(rest.len().min(range.len as usize));
            if let Some(to) = pool.bytes_mut(range.front(now.len() as u32)) {
                to.copy_from_slice(now);
            }
            rest = later;
        }
        rest.is_empty() && self.take(pool, &target, bytes.len(), slot)
    }

    /// Passes the references of the blocks that the frame filled on to it; a last block with enough
    /// room left becomes the current one, shared.
    fn advance(&mut self, pool: &mut Pool, ranges: &[Range], spans: usize, len: u32) {
        let before: u32 = ranges.iter().take(spans - 1).map(|r| r.len).sum();
        let Some(last) = ranges.get(spans - 1) else {
            return;
        };
        let taken = (len - before).next_multiple_of(ALIGN);
        let shared = last.len >= taken + ROOM_MIN && pool.retain(*last);
        self.used = if shared {
            pool.block_bytes() - (last.len - taken)
        } else {
            0
        };
        let gone = if shared { spans - 1 } else { spans };
        self.blocks.rotate_left(gone);
        for entry in self.blocks.iter_mut().rev().take(gone) {
            *entry = None;
        }
    }
}

/// How many of `ranges` the first `len` bytes reach into; `None` when they are not enough, `0` for
/// a frame that the slot holds whole.
fn spans(ranges: &[Range], len: usize) -> Option<usize> {
    if len <= INLINE_MAX {
        return Some(0);
    }
    let mut sum = 0;
    for (index, range) in ranges.iter().enumerate() {
        sum += range.len as usize;
        if sum >= len {
            return Some(index + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_base::Rng;
    use gannet_link::frame::FRAME_MAX;
    use gannet_link::{HeapMemory, Memory, OwnBlocks, Space};
    use std::sync::Arc;

    const BLOCKS: u32 = 64;

    fn pool(block_bytes: u32) -> Pool {
        let bytes = (block_bytes * BLOCKS) as usize;
        let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(bytes));
        Pool::new(OwnBlocks::new(memory, 0, bytes).unwrap(), block_bytes, 0)
    }

    fn ranges_of(slot: &Slot) -> Vec<Range> {
        let ranges = (0..slot.range_count()).map(|index| slot.raw_range(index));
        let space = Space::Own;
        ranges
            .map(|(offset, len)| Range { offset, len, space })
            .collect()
    }

    /// Plays the kernel: bytes go into the ranges one after the other.
    fn fill(pool: &mut Pool, target: &Target, mut bytes: &[u8]) {
        for &range in target.ranges.iter().take(target.count) {
            let n = bytes.len().min(range.len as usize);
            pool.bytes_mut(range).unwrap()[..n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
        }
    }

    fn bytes_of(pool: &Pool, slot: &Slot) -> Vec<u8> {
        let ranges = ranges_of(slot);
        let rest = ranges
            .iter()
            .flat_map(|&range| pool.bytes(range).unwrap().to_vec());
        slot.inline().iter().copied().chain(rest).collect()
    }

    /// Frames of all sizes, held for a while and given back in any order, against plain copies
    /// of their bytes.
    #[test]
    fn frames_keep_their_bytes_until_released() {
        for (block_bytes, seed) in [(16 << 10, 1), (16 << 10, 2), (64 << 10, 3), (1 << 20, 4)] {
            let mut rng = Rng::new(seed);
            let mut pool = pool(block_bytes);
            let mut stock = Stock::new(block_bytes, FRAME_MAX);
            let mut held: Vec<(Slot, Vec<u8>)> = Vec::new();
            for step in 0..3000 {
                let most = [97, 1515, 9015, u64::from(FRAME_MAX) + 1][rng.below(4) as usize];
                let len = 1 + rng.below(most - 1) as usize;
                let mut bytes = vec![0; len];
                rng.fill(&mut bytes);
                let target = stock.arm(&mut pool);
                let case = format!("seed {seed}, step {step}, {len} bytes");
                let fits = target.bytes() >= len;
                assert!(fits || !stock.is_full(&target), "{case}");
                fill(&mut pool, &target, &bytes);
                let mut slot = Slot::new();
                let taken = stock.take(&mut pool, &target, len, &mut slot);
                assert_eq!(
                    taken,
                    fits || (len <= INLINE_MAX && target.count > 0),
                    "{case}"
                );
                if taken {
                    assert_eq!(bytes_of(&pool, &slot), bytes, "{case}");
                    held.push((slot, bytes));
                }
                while held.len() > 12 || (!taken && !held.is_empty()) {
                    let (slot, bytes) = held.swap_remove(rng.below(held.len() as u64) as usize);
                    assert_eq!(bytes_of(&pool, &slot), bytes, "{case}");
                    ranges_of(&slot)
                        .into_iter()
                        .for_each(|range| pool.release(range));
                }
                pool.invariants();
            }
            for (slot, _) in held {
                ranges_of(&slot)
                    .into_iter()
                    .for_each(|range| pool.release(range));
            }
            assert!(pool.free_blocks() + ARMED_MAX >= BLOCKS as usize);
        }
    }

    #[test]
    fn small_frames_share_a_block_and_the_smallest_take_nothing() {
        let mut pool = pool(16 << 10);
        let mut stock = Stock::new(16 << 10, FRAME_MAX);
        let mut slot = Slot::new();
        let target = stock.arm(&mut pool);
        let free = pool.free_blocks();
        for _ in 0..100 {
            slot.clear();
            let target = stock.arm(&mut pool);
            assert!(stock.take(&mut pool, &target, INLINE_MAX, &mut slot));
            assert_eq!((slot.range_count(), slot.flags()), (0, 0));
        }
        assert_eq!(pool.free_blocks(), free);
        assert_eq!(
            stock.arm(&mut pool).ranges,
            target.ranges,
            "the same place again"
        );
        for _ in 0..10 {
            slot.clear();
            let target = stock.arm(&mut pool);
            assert!(stock.take(&mut pool, &target, 1514, &mut slot));
            assert_eq!(slot.flags(), flags::CONTIGUOUS);
        }
        stock.arm(&mut pool);
        assert_eq!(
            free - pool.free_blocks(),
            1,
            "ten frames of 1,514 bytes filled one block"
        );
    }
}
