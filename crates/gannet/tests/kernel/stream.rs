//! Streams of pseudo-random bytes, written and read in random pieces, hashed on both sides.

use gannet_base::Rng;
use std::io::{ErrorKind, Read, Write};

/// The bytes repeat after so many, a prime: what is lost, repeated or moved does not fit.
const PERIOD: usize = 1_048_583;
/// Largest piece written or read at once.
const PIECE_MAX: usize = 256 << 10;

/// How much a long transfer carries: a gibibyte, or 64 MiB in code that is not optimised.
pub(crate) const LONG: u64 = if cfg!(debug_assertions) {
    64 << 20
} else {
    1 << 30
};

/// Digest and length of what went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) len: u64,
    pub(crate) sum: u64,
}

/// Hashes a stream in whatever pieces it comes: four chains of xor, multiply and rotate over words,
/// so that they run side by side.
struct Hasher {
    lanes: [u64; 4],
    held: Vec<u8>,
    len: u64,
}

impl Hasher {
    fn new() -> Self {
        Hasher {
            lanes: [1, 2, 3, 4],
            held: Vec::with_capacity(32),
            len: 0,
        }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if !self.held.is_empty() {
            let missing = (32 - self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.held.len() < 32 {
                return;
            }
            let held = std::mem::take(&mut self.held);
            self.words(&held);
        }
        let whole = bytes.len() / 32 * 32;
        self.words(&bytes[..whole]);
        self.held = bytes[whole..].to_vec();
    }

    fn words(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks_exact(32) {
            for (lane, word) in self.lanes.iter_mut().zip(chunk.chunks_exact(8)) {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                *lane = (*lane ^ word)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29);
            }
        }
    }

    fn digest(mut self) -> Digest {
        let len = self.len;
        let mut last = std::mem::take(&mut self.held);
        last.resize(32, 0);
        self.words(&last);
        let sum = self.lanes.iter().fold(len, |sum, lane| {
            (sum ^ lane)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(31)
        });
        Digest { len, sum }
    }
}

/// One period and the longest piece, so that a piece can be taken anywhere.
fn pattern(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; PERIOD];
    Rng::new(seed).fill(&mut bytes);
    bytes.extend_from_within(..PIECE_MAX);
    bytes
}

/// Sizes from 1 byte to [`PIECE_MAX`], as many between 1 and 2 as between 64 Ki and 128 Ki.
fn piece(rng: &mut Rng) -> usize {
    let bits = rng.below(18) as u32;
    ((1 << bits) + rng.below(1 << bits) as usize).min(PIECE_MAX)
}

/// Writes `len` bytes that follow from `seed`, in random pieces.
pub(crate) fn pour(out: &mut impl Write, len: u64, seed: u64) -> Digest {
    let (bytes, mut rng, mut hasher) = (pattern(seed), Rng::new(!seed), Hasher::new());
    let mut sent: u64 = 0;
    while sent < len {
        let at = (sent % PERIOD as u64) as usize;
        let most = piece(&mut rng).min(usize::try_from(len - sent).unwrap_or(usize::MAX));
        let n = match out.write(&bytes[at..at + most]) {
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("seed {seed}: writing at {sent} of {len}: {error}"),
        };
        hasher.add(&bytes[at..at + n]);
        sent += n as u64;
    }
    hasher.digest()
}

/// Reads, in random pieces, what [`pour`] with the same seed writes, to the end of the stream. Says
/// where the first wrong byte is.
pub(crate) fn drain(from: &mut impl Read, seed: u64) -> Digest {
    let limit = u64::MAX;
    drain_some(from, limit, seed)
}

/// As [`drain`], and stops after `limit` bytes.
pub(crate) fn drain_some(from: &mut impl Read, limit: u64, seed: u64) -> Digest {
    let (bytes, mut rng, mut hasher) = (pattern(seed), Rng::new(seed ^ 0x55), Hasher::new());
    let mut buffer = vec![0; PIECE_MAX];
    while hasher.len < limit {
        let left = usize::try_from(limit - hasher.len).unwrap_or(usize::MAX);
        let most = piece(&mut rng).min(left);
        let n = match from.read(&mut buffer[..most]) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("seed {seed}: reading at {}: {error}", hasher.len),
        };
        let at = (hasher.len % PERIOD as u64) as usize;
        if buffer[..n] != bytes[at..at + n] {
            let wrong = (0..n).find(|&i| buffer[i] != bytes[at + i]).unwrap();
            panic!("seed {seed}: wrong byte at {}", hasher.len + wrong as u64);
        }
        hasher.add(&buffer[..n]);
    }
    hasher.digest()
}

/// The digest does not depend on the pieces, and sees a byte that is wrong, moved or missing.
#[test]
fn the_digest_sees_every_byte() {
    let mut plain = Vec::new();
    let poured = pour(&mut plain, 3_000_000, 7);
    assert_eq!(drain(&mut plain.as_slice(), 7), poured);
    let whole = |bytes: &[u8]| {
        let mut hasher = Hasher::new();
        hasher.add(bytes);
        hasher.digest()
    };
    assert_eq!(whole(&plain), poured);
    for at in [0, 1, 31, 32, 999_999, 2_999_999] {
        let mut other = plain.clone();
        other[at] ^= 1;
        assert_ne!(whole(&other), poured, "byte {at}");
        other = plain.clone();
        other.remove(at);
        assert_ne!(whole(&other), poured, "without byte {at}");
    }
}
