//! A slot that was checked: the only form in which received bytes leave this crate.

use crate::driver::Received;
use crate::segment::{Range, Space};
use crate::slot::{INLINE_MAX, RANGES_MAX, Slot, flags};
use gannet_base::reasons;

reasons! {
    /// Why a slot was refused. Each is counted per link, so the one who sent it is named.
    pub enum SlotFault {
        /// More inline bytes than a slot has room for.
        InlineLength => "inline_length",
        /// More ranges than there is room for beside the inline bytes.
        RangeCount => "range_count",
        /// A range of no bytes.
        RangeEmpty => "range_empty",
        /// A range outside the segment, or across the edge of a block.
        RangeBounds => "range_bounds",
        /// More bytes in all than a frame can have, or none.
        FrameLength => "frame_length",
        /// An unknown flag, or one that this sender may not set.
        Flags => "flags",
        /// A checksum place outside the inline bytes.
        ChecksumPlace => "checksum_place",
        /// A segmentation size without payload to segment.
        Segmentation => "segmentation",
    }
}

/// Most bytes in one frame, headers included: one IP packet of 65,535 bytes behind a link header.
pub const FRAME_MAX: u32 = 65_535 + 18;

/// What is known of the transport checksum of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nothing: verify it.
    Unknown,
    /// The sender or the device vouches for the bytes; the field itself may hold anything.
    Valid,
}

/// The bounds a slot is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Whose segment the ranges are in.
    pub space: Space,
    /// Bytes in that segment.
    pub segment_bytes: u32,
    /// Bytes in one of its blocks, a power of two.
    pub block_bytes: u32,
}

/// A received frame: inline bytes plus payload ranges, every one within its segment.
///
/// The holder owes a release for each range: see [`crate::Endpoint::release`].
#[derive(Clone, Debug)]
pub struct Frame {
    slot: Slot,
    ranges: [Range; RANGES_MAX],
    count: usize,
    /// Inline bytes already consumed by [`Frame::strip`].
    start: usize,
}

impl Frame {
    /// An empty frame, to be filled by [`crate::Endpoint::receive`].
    pub const fn new() -> Self {
        Frame {
            slot: Slot::new(),
            ranges: [Range::EMPTY; RANGES_MAX],
            count: 0,
            start: 0,
        }
    }

    /// Fills the frame: `fetch` copies the next entry into the slot and says whether there was one;
    /// then the slot is checked against `bounds`. This is the only way a slot becomes a frame.
    #[inline]
    pub fn load(&mut self, bounds: &Bounds, fetch: impl FnOnce(&mut Slot) -> bool) -> Received {
        self.count = 0;
        self.start = 0;
        if !fetch(&mut self.slot) {
            self.slot.clear();
            return Received::Empty;
        }
        match self.check(bounds) {
            Ok(()) => Received::Frame,
            Err(fault) => Received::Refused(fault),
        }
    }

    /// Checks the slot against `bounds` and takes over its ranges.
    fn check(&mut self, bounds: &Bounds) -> Result<(), SlotFault> {
        self.count = 0;
        self.start = 0;
        let (inline, count) = (self.slot.inline_len(), self.slot.range_count());
        if inline > INLINE_MAX {
            return Err(SlotFault::InlineLength);
        }
        if count > RANGES_MAX || inline + 8 * count > 112 {
            return Err(SlotFault::RangeCount);
        }
        let mut total = inline as u64;
        for index in 0..count {
            let (offset, len) = self.slot.raw_range(index);
            check_range(offset, len, bounds)?;
            total += u64::from(len);
            self.ranges[index] = Range {
                offset,
                len,
                space: bounds.space,
            };
        }
        if total == 0 || total > u64::from(FRAME_MAX) {
            return Err(SlotFault::FrameLength);
        }
        self.check_metadata(bounds, total)?;
        self.count = count;
        Ok(())
    }

    fn check_metadata(&self, bounds: &Bounds, total: u64) -> Result<(), SlotFault> {
        let set = self.slot.flags();
        let foreign = bounds.space == Space::Peer && set & flags::CONTIGUOUS != 0;
        if set & !flags::ALL != 0 || foreign {
            return Err(SlotFault::Flags);
        }
        if set & flags::CONTIGUOUS != 0 && !self.has_headroom(bounds) {
            return Err(SlotFault::RangeBounds);
        }
        let (start, offset) = self.slot.checksum_place();
        let field_end = u32::from(start) + u32::from(offset) + 2;
        if set & flags::CSUM_PARTIAL != 0 && field_end > self.slot.inline_len() as u32 {
            return Err(SlotFault::ChecksumPlace);
        }
        if self.slot.gso_size() != 0 && u64::from(self.slot.gso_size()) > total {
            return Err(SlotFault::Segmentation);
        }
        Ok(())
    }

    /// Whether the inline bytes can lie before the first range in the same block.
    fn has_headroom(&self, bounds: &Bounds) -> bool {
        if self.slot.range_count() == 0 {
            return true;
        }
        let (offset, _) = self.slot.raw_range(0);
        (offset & (bounds.block_bytes - 1)) as usize >= self.slot.inline_len()
    }

    /// The inline bytes not yet stripped: headers, perhaps followed by the first payload bytes.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.slot.inline().get(self.start..).unwrap_or(&[])
    }

    /// The payload ranges behind the inline bytes.
    #[inline]
    pub fn ranges(&self) -> &[Range] {
        self.ranges.get(..self.count).unwrap_or(&[])
    }

    /// Bytes in all ranges.
    #[inline]
    pub fn ranges_len(&self) -> usize {
        self.ranges().iter().map(|r| r.len as usize).sum()
    }

    /// Bytes left in the frame, inline and in ranges.
    #[inline]
    pub fn len(&self) -> usize {
        self.head().len() + self.ranges_len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Payload bytes per segment when several were merged into this frame; else 0.
    #[inline]
    pub fn gso_size(&self) -> u16 {
        self.slot.gso_size()
    }

    /// Whether [`Frame::gso_size`] speaks of UDP datagrams.
    #[inline]
    pub fn is_gso_udp(&self) -> bool {
        self.slot.flags() & flags::GSO_UDP != 0
    }

    /// What is known of the transport checksum.
    #[inline]
    pub fn checksum(&self) -> RxChecksum {
        if self.slot.flags() & (flags::CSUM_PARTIAL | flags::CSUM_VALID) != 0 {
            RxChecksum::Valid
        } else {
            RxChecksum::Unknown
        }
    }

    /// The channel tag.
    #[inline]
    pub fn tag(&self) -> u16 {
        self.slot.tag()
    }

    /// Removes `n` bytes of header from the front.
    ///
    /// When the inline bytes were only a copy of what lies in memory, the rest of them is dropped
    /// and the first range starts that much earlier: the payload is then one piece.
    /// Returns `false` when the frame is shorter; it is then empty.
    #[inline]
    pub fn strip(&mut self, n: usize) -> bool {
        let inline = self.head().len();
        if n > inline {
            self.start = self.slot.inline_len();
            return self.skip_ranges(n - inline);
        }
        self.start += n;
        let rest = inline - n;
        if rest > 0 && self.count > 0 && self.slot.flags() & flags::CONTIGUOUS != 0 {
            let first = &mut self.ranges[0];
            first.offset -= rest as u32;
            first.len += rest as u32;
            self.start += rest;
        }
        true
    }

    /// Moves the start of the ranges forward by `n` bytes. Emptied ranges stay in the list, with no
    /// bytes, because their release is still owed.
    fn skip_ranges(&mut self, n: usize) -> bool {
        let mut left = n.min(u32::MAX as usize) as u32;
        for range in self.ranges.iter_mut().take(self.count) {
            let cut = left.min(range.len);
            *range = range.skip(cut);
            left -= cut;
        }
        left == 0
    }

    /// Keeps the first `n` bytes: what lies behind is link padding. Ranges may become empty.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        let inline = self.head().len();
        if n < inline {
            let keep = (self.start + n) as u8;
            let _ = self.slot.inline_mut(usize::from(keep));
            // The inline bytes that lie right before the first range in memory were among those
            // cut.
            self.slot.set_flags(self.slot.flags() & !flags::CONTIGUOUS);
        }
        let mut left = n.saturating_sub(inline).min(u32::MAX as usize) as u32;
        for range in self.ranges.iter_mut().take(self.count) {
            *range = range.front(left);
            left -= range.len;
        }
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

fn check_range(offset: u32, len: u32, bounds: &Bounds) -> Result<(), SlotFault> {
    if len == 0 {
        return Err(SlotFault::RangeEmpty);
    }
    let end = offset.checked_add(len).ok_or(SlotFault::RangeBounds)?;
    let mask = bounds.block_bytes.wrapping_sub(1);
    let same_block = (offset & !mask) == ((end - 1) & !mask);
    if end > bounds.segment_bytes || !same_block {
        return Err(SlotFault::RangeBounds);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
