//! The bytes that applications send: known at every offset of a stream without being kept.
//!
//! One table of random bytes, its length a prime: a stream begins at a place of its own and goes
//! round. Filling is a copy and checking a comparison; bytes moved by any distance but a multiple
//! of the length, and bytes of another stream, do not match.

use std::net::SocketAddr;
use std::sync::OnceLock;

use gannet_base::Rng;

use crate::digest::Digest;

/// Bytes until the table repeats: a prime just below 2^16.
const LENGTH: usize = 65_521;
/// Most bytes handled in one piece.
pub const PIECE: usize = 65_536;

/// One direction of one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    start: u64,
}

impl Pattern {
    /// The bytes that `from` sends to `to`, in the order the addresses are given here.
    pub fn of(from: SocketAddr, to: SocketAddr) -> Self {
        let mut digest = Digest::new();
        for address in [from, to] {
            match address.ip() {
                std::net::IpAddr::V4(ip) => digest.bytes(&ip.octets()),
                std::net::IpAddr::V6(ip) => digest.bytes(&ip.octets()),
            }
            digest.number(u64::from(address.port()));
        }
        Self::new(digest.value())
    }

    /// The bytes that belong to a number.
    pub fn new(key: u64) -> Self {
        Pattern {
            start: key % LENGTH as u64,
        }
    }

    /// Writes the bytes from `offset` on into `out`.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let mut at = offset;
        for piece in out.chunks_mut(PIECE) {
            piece.copy_from_slice(self.piece(at, piece.len()));
            at += piece.len() as u64;
        }
    }

    /// The first offset, from `offset` on, at which `bytes` are not the stream's.
    pub fn first_wrong(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut at = offset;
        for piece in bytes.chunks(PIECE) {
            let right = self.piece(at, piece.len());
            if piece != right {
                let same = piece.iter().zip(right).take_while(|(a, b)| a == b).count();
                return Some(at + same as u64);
            }
            at += piece.len() as u64;
        }
        None
    }

    /// `len` bytes, at most [`PIECE`].
    pub fn piece(self, offset: u64, len: usize) -> &'static [u8] {
        let from = (self.start.wrapping_add(offset) % LENGTH as u64) as usize;
        table().get(from..from + len).unwrap_or_default()
    }
}

fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = vec![0; LENGTH];
        Rng::new(0x6761_6e6e_6574).fill(&mut table);
        table.extend_from_within(..);
        let more: Vec<u8> = table.iter().take(PIECE).copied().collect();
        table.extend(more);
        table
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_and_shifts_are_noticed() {
        let pattern = Pattern::new(65_000);
        let mut whole = vec![0; 200_000];
        pattern.fill(0, &mut whole);
        let mut at = 0;
        for len in [1, 7, 1460, 65_535, 65_536, 66_000] {
            let mut piece = vec![0; len];
            pattern.fill(at as u64, &mut piece);
            assert_eq!(piece, whole[at..at + len]);
            assert_eq!(pattern.first_wrong(at as u64, &piece), None);
            assert!(pattern.first_wrong(at as u64 + 1, &piece).is_some());
            at += len;
        }
        whole[70_000] ^= 1;
        assert_eq!(pattern.first_wrong(0, &whole), Some(70_000));
        let other = Pattern::new(65_001);
        assert!(other.first_wrong(0, &whole[..1000]).is_some());
    }
}
