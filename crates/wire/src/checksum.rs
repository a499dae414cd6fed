//! The Internet checksum (RFC 1071): the one's-complement sum of 16-bit words.
//!
//! Why it can be fast: one's-complement addition is associative, commutative, and indifferent to
//! byte
//! order, and 32-bit words added in 64-bit lanes give a sum that folds to the same 16 bits. So:
//!
//! ```text
//! lane[0..16] = 0                      sums that do not wait for each other: vector registers
//! for each 64 bytes: lane[i] += word32[i]        carries collect in the upper half of a lane
//! total = lane[0] +' lane[1] +' ..     (+' = add with end-around carry), then 64 -> 32 -> 16
//! ```
//!
//! (Several independent sums with the carries folded once: Chang et al., "High-performance TCP/IP
//! and UDP/IP networking in DEC OSF/1 for Alpha AXP", 1993.) The alternative, 64-bit words with an
//! add-with-carry each, measured a quarter slower here, since it stays out of the vector registers.
//! Words are read in the machine's own order; only the folded result is swapped. What is left after
//! the blocks goes through general registers, so that a header of 20 bytes does not pay for lanes.

use crate::IpProtocol;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A partial one's-complement sum. Sums of neighbouring ranges combine, so a range is summed once
/// and kept.
///
/// Internally the 64-bit one's-complement sum of the bytes read in native order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Self(0)
    }

    /// A sum whose `fold` is `word`: the way back from a stored 16-bit partial sum.
    pub const fn from_folded(word: u16) -> Self {
        Self(word.to_be() as u64)
    }

    /// Adds bytes that begin at an even offset of the summed message. An odd length is padded with
    /// a zero byte, so
    /// only the last range may be odd; otherwise use [`Sum::combine`].
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add_native(sum(bytes).0);
    }

    /// Adds one 16-bit word given in host order.
    pub const fn add_u16(&mut self, word: u16) {
        self.add_native(word.to_be() as u64);
    }

    /// Adds one 32-bit word given in host order.
    pub const fn add_u32(&mut self, word: u32) {
        self.add_native(word.to_be() as u64);
    }

    /// The sum of this range followed by `other`. `other_starts_at_odd_offset`: whether the first
    /// byte of `other` is
    /// the second byte of a 16-bit word of the message, in which case its bytes trade places (RFC
    /// 1071 section 2 (B)).
    #[must_use]
    pub const fn combine(self, other: Sum, other_starts_at_odd_offset: bool) -> Sum {
        let mut total = self;
        total.add_native(if other_starts_at_odd_offset {
            fold_native(other.0).swap_bytes() as u64
        } else {
            other.0
        });
        total
    }

    /// The 16-bit sum in host order, not complemented: what a driver with checksum offload wants in
    /// the header.
    //= https://www.rfc-editor.org/rfc/rfc1071#section-1
    //# On a 2's complement machine, the 1's complement sum must be computed by means of an "end
    //# around carry", i.e., any overflows from the most significant bits are added into the least
    //# significant bits.
    //= https://www.rfc-editor.org/rfc/rfc1071#section-1
    //# Each 16-bit addition may produce new end-around carries that must be added.
    pub const fn fold(self) -> u16 {
        u16::from_be(fold_native(self.0))
    }

    /// The 16-bit checksum in host order (the complement of the sum), ready for a header field. A
    /// message that
    /// contains its correct checksum finishes as 0.
    pub const fn finish(self) -> u16 {
        !self.fold()
    }

    const fn add_native(&mut self, word: u64) {
        let (sum, carry) = self.0.overflowing_add(word);
        // Cannot overflow again: with a carry the sum is at most 2^64 - 2.
        self.0 = sum.wrapping_add(carry as u64);
    }
}

/// The sum of bytes that begin at an even offset of the message.
#[inline]
pub fn sum(bytes: &[u8]) -> Sum {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut total = sum_rest(rest);
    if !blocks.is_empty() {
        total.add_native(sum_blocks(blocks));
    }
    total
}

/// Copies `src` to the start of `dst` and sums it while it is in the nearest cache. Copies (and
/// sums)
/// the shorter of the two lengths. The sum is that of the bytes stored, whatever `src` does.
pub fn copy_and_sum(src: &[u8], dst: &mut [u8]) -> Sum {
    let len = src.len().min(dst.len());
    let (src, _) = src.split_at(len);
    let (dst, _) = dst.split_at_mut(len);
    let mut total = Sum::new();
    for (from, to) in src.chunks(TILE).zip(dst.chunks_mut(TILE)) {
        to.copy_from_slice(from);
        total.add_native(sum(to).0);
    }
    total
}

/// The sum of the IPv4 pseudo header (RFC 9293 section 3.1, RFC 768): `len` is the length of
/// transport header and data.
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol, len: u16) -> Sum {
    let mut sum = Sum::new();
    sum.add_u32(src.to_bits());
    sum.add_u32(dst.to_bits());
    sum.add_u32(u32::from(protocol.0) + u32::from(len));
    sum
}

/// The sum of the IPv6 pseudo header (RFC 8200 section 8.1).
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: IpProtocol, len: u32) -> Sum {
    let mut sum = Sum::new();
    sum.add_bytes(&src.octets());
    sum.add_bytes(&dst.octets());
    sum.add_u32(len);
    sum.add_u32(u32::from(protocol.0));
    sum
}

/// The checksum after a 16-bit word of the message changed from `old` to `new` (RFC 1624 equation
/// 3:
/// HC' = ~(~HC + ~m + m')).
#[must_use]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = Sum::from_folded(!checksum);
    sum.add_u16(!old);
    sum.add_u16(new);
    sum.finish()
}

/// As [`update_u16`] for an aligned 32-bit word.
#[must_use]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let mut sum = Sum::from_folded(!checksum);
    sum.add_u32(!old);
    sum.add_u32(new);
    sum.finish()
}

const LANES: usize = 16;
const BLOCK: usize = LANES * 4;

/// What [`copy_and_sum`] copies at a time: far below the nearest cache's size, and even.
const TILE: usize = 2048;
const _: () = assert!(TILE.is_multiple_of(BLOCK));

/// The sum of whole blocks. A lane cannot overflow: that takes 2^32 blocks.
fn sum_blocks(blocks: &[[u8; BLOCK]]) -> u64 {
    let mut lanes = [0_u64; LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
    }
    // Folded to 33 bits each before they meet, so plain addition is enough.
    lanes
        .iter()
        .map(|lane| (lane >> 32) + (lane & 0xffff_ffff))
        .sum()
}

/// The sum of fewer bytes than a block, or of few enough that lanes do not pay.
#[inline]
fn sum_rest(bytes: &[u8]) -> Sum {
    let mut total = Sum::new();
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        total.add_native(u64::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        total.add_native(u64::from(u32::from_ne_bytes(*word)));
    }
    let (words, rest) = rest.as_chunks::<2>();
    for word in words {
        total.add_native(u64::from(u16::from_ne_bytes(*word)));
    }
    for byte in rest {
        total.add_native(u64::from(u16::from_ne_bytes([*byte, 0])));
    }
    total
}

/// 64 -> 32 -> 16 bits with end-around carries. Non-zero stays non-zero.
const fn fold_native(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[cfg(test)]
#[path = "tests/checksum.rs"]
mod tests;
