//! Changes to the bytes of a frame: flipped bits and congestion marks.

use gannet_base::Rng;
use gannet_link::Medium;
use gannet_wire::checksum::update_u16;

use super::place::{Place, Version, link_header_len};

/// Bytes in which the headers of IP and TCP lie.
const HEADERS: usize = 60;

/// Flips one bit behind the link header, every other time within the headers of IP and TCP;
/// `false` when there is none.
pub fn flip_bit(frame: &mut [u8], medium: Medium, rng: &mut Rng) -> bool {
    let Some(bytes) = frame.get_mut(link_header_len(medium)..) else {
        return false;
    };
    let most = match rng.below(2) {
        0 => bytes.len().min(HEADERS),
        _ => bytes.len(),
    };
    let bit = rng.below(most as u64 * 8);
    match bytes.get_mut((bit / 8) as usize) {
        Some(byte) => *byte ^= 1 << (bit % 8),
        None => return false,
    }
    true
}

/// Flips one bit of the transport header or payload and mends the checksum (RFC 1624). `false`
/// for what is not TCP or UDP.
pub fn flip_unseen(frame: &mut [u8], medium: Medium, rng: &mut Rng) -> bool {
    let Some(place) = Place::of(frame, medium) else {
        return false;
    };
    let Some(field) = place.checksum() else {
        return false;
    };
    let words = (place.end - place.transport) / 2;
    let mut at = place.transport + 2 * rng.below(words as u64) as usize;
    if at == field {
        at = place.transport; // the checksum itself is not what we spoil
    }
    let (Some(old), Some(sum)) = (word(frame, at), word(frame, field)) else {
        return false;
    };
    let new = old ^ 1 << rng.below(16);
    set_word(frame, at, new);
    if sum != 0 {
        set_word(frame, field, update_u16(sum, old, new));
    }
    true
}

/// Sets "congestion experienced" in the IP header of an ECN-capable sender's packet; `false` when
/// the sender is none.
///
/// RFC 3168 section 5: ECT(0) and ECT(1) become CE, not-ECT stays.
pub fn mark(frame: &mut [u8], medium: Medium) -> bool {
    let Some(place) = Place::of(frame, medium) else {
        return false;
    };
    let Some(old) = word(frame, place.network) else {
        return false;
    };
    let shift = match place.version {
        Version::V4 => 0,
        Version::V6 => 4,
    };
    if (old >> shift) & 3 == 0 {
        return false;
    }
    let new = old | 3 << shift;
    set_word(frame, place.network, new);
    if place.version == Version::V4
        && let Some(sum) = word(frame, place.network + 10)
    {
        set_word(frame, place.network + 10, update_u16(sum, old, new));
    }
    true
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let word: &[u8; 2] = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*word))
}

fn set_word(bytes: &mut [u8], at: usize, word: u16) {
    if let Some(to) = bytes.get_mut(at..at + 2) {
        to.copy_from_slice(&word.to_be_bytes());
    }
}
