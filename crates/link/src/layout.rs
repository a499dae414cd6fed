//! Where the rings and the blocks lie in one process's memory.
//!
//! ```text
//! 0      128       256        384      512     4096
//! | head | received| completed| asleep | closed|  send slots | completions | (pad) | blocks ...
//! ```
//! One control word per pair of cache lines, so that a write to one never disturbs a reader of
//! another (adjacent-line prefetch pulls two).

use crate::slot::SLOT_BYTES;

/// Bytes in a cache line pair: control words are this far apart.
pub const LINE: usize = 128;
/// Offset of "how many of your slots I have taken".
pub const RECEIVED: usize = LINE;
/// Offset of "how many of your completions I have taken".
pub const COMPLETED: usize = 2 * LINE;
/// Offset of "wake me: I am asleep".
pub const ASLEEP: usize = 3 * LINE;
/// Offset of "I have said goodbye".
pub const CLOSED: usize = 4 * LINE;
/// Offset of the send slots.
pub const SLOTS: usize = 4096;

const _: () = assert!(
    CLOSED + LINE <= SLOTS,
    "control words end before the slots begin"
);

/// Sizes of the rings and of the segment in one process's memory. All are powers of two but the
/// number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entries of the send ring, 2 to 65,536.
    pub slots: u32,
    /// Entries of the completion ring, 2 to 1,048,576.
    pub completions: u32,
    /// Bytes in a block, 2 KiB to 1 MiB.
    pub block_bytes: u32,
    /// Number of blocks; the segment stays below 2 GiB.
    pub blocks: u32,
    /// Alignment of the first block in bytes: a page, or a huge page.
    pub align: u32,
}

impl Layout {
    /// 512 slots, 8,192 completions, 4,096 blocks of 16 KiB: 64 MiB that is touched only when used.
    pub const CHANNEL: Layout = Layout {
        slots: 512,
        completions: 8192,
        block_bytes: 16 * 1024,
        blocks: 4096,
        align: 4096,
    };

    /// Whether every figure is within its bounds; figures from a peer must pass this first.
    pub const fn is_valid(&self) -> bool {
        let Layout {
            slots,
            completions,
            block_bytes,
            blocks,
            align,
        } = *self;
        slots.is_power_of_two()
            && 2 <= slots
            && slots <= 1 << 16
            && completions.is_power_of_two()
            && 2 <= completions
            && completions <= 1 << 20
            && block_bytes.is_power_of_two()
            && 2048 <= block_bytes
            && block_bytes <= 1 << 20
            && 1 <= blocks
            && (blocks as u64 * block_bytes as u64) < 1 << 31
            && align.is_power_of_two()
            && 4096 <= align
            && align <= 1 << 30
    }

    /// Offset of the completion ring in bytes.
    pub const fn completions_at(&self) -> usize {
        SLOTS + self.slots as usize * SLOT_BYTES
    }

    /// Offset of the first block in bytes.
    pub const fn blocks_at(&self) -> usize {
        let end = self.completions_at() + self.completions as usize * 8;
        end.next_multiple_of(self.align as usize)
    }

    /// Bytes in all blocks.
    pub const fn segment_bytes(&self) -> usize {
        self.blocks as usize * self.block_bytes as usize
    }

    /// Bytes of memory needed in all.
    pub const fn bytes(&self) -> usize {
        (self.blocks_at() + self.segment_bytes()).next_multiple_of(self.align as usize)
    }
}

const _: () = assert!(Layout::CHANNEL.is_valid());
