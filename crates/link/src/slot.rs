//! The 128-byte ring entry.
//!
//! ```text
//! 0                                        112  113  114   116   118    120    122   124   128
//! | headers, or a small message -> | <- ranges | inl| rng|flags| gso |start |offset| tag | seq  |
//! ```
//! Headers grow up from byte 0, payload ranges (offset, length: 8 bytes each) grow down from byte
//! 112: TCP/IP headers with timestamps leave room for seven ranges, an empty header for eight.
//! The last four bytes tell the consumer that the entry is complete (see [`crate::ring`]).
//!
//! All numbers are little-endian. Nothing here is trusted: [`crate::Frame`] is the checked form.

use crate::segment::Range;

/// Bytes in a slot: two cache lines.
pub const SLOT_BYTES: usize = 128;
/// 64-bit words in a slot.
pub const SLOT_WORDS: usize = SLOT_BYTES / 8;
/// Most bytes that travel within the slot.
pub const INLINE_MAX: usize = 112;
/// Most payload ranges in one slot.
pub const RANGES_MAX: usize = 8;
/// Headers and ranges together fill the bytes below this offset.
const META: usize = 112;

const _: () = assert!(
    INLINE_MAX <= META,
    "headers and ranges share the first bytes"
);

/// What [`Slot::flags`] can say.
pub mod flags {
    /// The transport checksum at `csum_start + csum_offset` holds only the pseudo-header's sum;
    /// whoever
    /// puts the frame on a wire completes it. On receive: the sender vouches for the bytes.
    pub const CSUM_PARTIAL: u16 = 1 << 0;
    /// The transport checksum was verified, or never computed because memory does not flip bits.
    pub const CSUM_VALID: u16 = 1 << 1;
    /// The inline bytes also lie in memory right before the first range. Own segment only.
    pub const CONTIGUOUS: u16 = 1 << 2;
    /// `gso_size` counts UDP datagrams' payloads rather than TCP segments'.
    pub const GSO_UDP: u16 = 1 << 3;
    /// Every flag there is.
    pub const ALL: u16 = CSUM_PARTIAL | CSUM_VALID | CONTIGUOUS | GSO_UDP;
}

/// One ring entry in private memory, not yet checked when it came from a ring.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Slot {
    bytes: [u8; SLOT_BYTES],
}

impl Slot {
    /// No headers, no payload.
    pub const fn new() -> Self {
        Slot {
            bytes: [0; SLOT_BYTES],
        }
    }

    /// Empties the slot; bytes that nothing counts any more may stay behind.
    pub fn clear(&mut self) {
        if let Some(meta) = self.bytes.get_mut(META..) {
            meta.fill(0);
        }
    }

    /// The 64-bit word `index`; 0 past the end.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        let at = index * 8;
        self.bytes
            .get(at..at + 8)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn set_word(&mut self, index: usize, word: u64) {
        let at = index * 8;
        if let Some(bytes) = self.bytes.get_mut(at..at + 8) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    #[inline]
    fn put_u16(&mut self, at: usize, value: u16) {
        let [a, b] = value.to_le_bytes();
        self.bytes[at] = a;
        self.bytes[at + 1] = b;
    }

    /// Number of inline bytes as claimed.
    #[inline]
    pub fn inline_len(&self) -> usize {
        usize::from(self.bytes[META])
    }

    /// The inline bytes; at most [`INLINE_MAX`], whatever is claimed.
    #[inline]
    pub fn inline(&self) -> &[u8] {
        &self.bytes[..self.inline_len().min(INLINE_MAX)]
    }

    /// Makes room for `len` inline bytes and returns them to be filled; `None` when there is no
    /// room
    /// beside the ranges already pushed.
    #[inline]
    pub fn inline_mut(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > INLINE_MAX || len + 8 * self.range_count() > META {
            return None;
        }
        self.bytes[META] = len as u8;
        self.bytes.get_mut(..len)
    }

    /// Number of payload ranges as claimed.
    #[inline]
    pub fn range_count(&self) -> usize {
        usize::from(self.bytes[META + 1])
    }

    /// How many more ranges [`Slot::push_range`] would take.
    pub fn ranges_left(&self) -> usize {
        let by_room = META.saturating_sub(self.inline_len()) / 8;
        by_room.min(RANGES_MAX).saturating_sub(self.range_count())
    }

    /// Offset and length of range `index` as claimed; zeros past the last that fits.
    #[inline]
    pub fn raw_range(&self, index: usize) -> (u32, u32) {
        if index >= RANGES_MAX {
            return (0, 0);
        }
        let word = self.word((META - 8 * (index + 1)) / 8);
        (word as u32, (word >> 32) as u32)
    }

    /// Appends a payload range; `false` when there is no room for it.
    #[inline]
    pub fn push_range(&mut self, range: Range) -> bool {
        let count = self.range_count();
        if count >= RANGES_MAX || self.inline_len() + 8 * (count + 1) > META {
            return false;
        }
        let word = u64::from(range.offset) | u64::from(range.len) << 32;
        self.set_word((META - 8 * (count + 1)) / 8, word);
        self.bytes[META + 1] = count as u8 + 1;
        true
    }

    /// See [`flags`].
    #[inline]
    pub fn flags(&self) -> u16 {
        self.u16_at(114)
    }

    /// See [`flags`].
    #[inline]
    pub fn set_flags(&mut self, flags: u16) {
        self.put_u16(114, flags);
    }

    /// Payload bytes per TCP segment (or datagram) when this is a super-segment; else 0.
    #[inline]
    pub fn gso_size(&self) -> u16 {
        self.u16_at(116)
    }

    /// See [`Slot::gso_size`].
    #[inline]
    pub fn set_gso_size(&mut self, bytes: u16) {
        self.put_u16(116, bytes);
    }

    /// Where the checksummed part starts and where, from there, its checksum field lies.
    #[inline]
    pub fn checksum_place(&self) -> (u16, u16) {
        (self.u16_at(118), self.u16_at(120))
    }

    /// See [`Slot::checksum_place`].
    #[inline]
    pub fn set_checksum_place(&mut self, start: u16, offset: u16) {
        self.put_u16(118, start);
        self.put_u16(120, offset);
    }

    /// The channel tag: whose flow this is, for endpoints that many share.
    #[inline]
    pub fn tag(&self) -> u16 {
        self.u16_at(122)
    }

    /// See [`Slot::tag`].
    #[inline]
    pub fn set_tag(&mut self, tag: u16) {
        self.put_u16(122, tag);
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Slot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slot")
            .field("inline", &self.inline_len())
            .field("ranges", &self.range_count())
            .field("flags", &self.flags())
            .field("gso_size", &self.gso_size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Space;

    fn range(offset: u32, len: u32) -> Range {
        Range {
            offset,
            len,
            space: Space::Own,
        }
    }

    #[test]
    fn headers_and_ranges_share_the_room() {
        for (inline, fits) in [(0, 8), (48, 8), (52, 7), (66, 5), (86, 3), (96, 2)] {
            let mut slot = Slot::new();
            slot.inline_mut(inline).unwrap().fill(7);
            assert_eq!(slot.ranges_left(), fits, "{inline} inline bytes");
            for i in 0..fits as u32 {
                assert!(slot.push_range(range(i * 100, i + 1)));
            }
            assert!(!slot.push_range(range(0, 1)), "{inline} inline bytes");
            assert!(slot.inline().iter().all(|&b| b == 7));
            for i in 0..fits {
                assert_eq!(slot.raw_range(i), (i as u32 * 100, i as u32 + 1));
            }
            assert!(slot.inline_mut(97).is_none());
        }
    }

    #[test]
    fn metadata_does_not_overlap() {
        let mut slot = Slot::new();
        slot.set_flags(0x0102);
        slot.set_gso_size(0x0304);
        slot.set_checksum_place(0x0506, 0x0708);
        slot.set_tag(0x090a);
        slot.inline_mut(3).unwrap().copy_from_slice(b"abc");
        assert!(slot.push_range(range(u32::MAX, 9)));
        assert_eq!(
            (
                slot.flags(),
                slot.gso_size(),
                slot.checksum_place(),
                slot.tag()
            ),
            (0x0102, 0x0304, (0x0506, 0x0708), 0x090a)
        );
        assert_eq!(
            (slot.inline(), slot.raw_range(0)),
            (&b"abc"[..], (u32::MAX, 9))
        );
    }
}
