//! The bytes of a verified transfer: a function of their position, so that the receiver needs no
//! copy of them.
//!
//! Byte `p` is byte `p % 8` of splitmix64(`p / 8`) (Steele, Lea, Flood: "Fast splittable
//! pseudorandom number generators", 2014). A byte that is lost, doubled, moved or changed shows at
//! once, whatever the sizes of reads and writes are.

/// Fills `bytes` with the pattern from `position` on.
pub fn fill(position: u64, bytes: &mut [u8]) {
    let mut position = position;
    let mut rest = bytes;
    while !rest.is_empty() {
        let word = word(position / 8).to_le_bytes();
        let from = (position % 8) as usize;
        let source = word.get(from..).unwrap_or(&[]);
        let count = source.len().min(rest.len());
        let (now, later) = rest.split_at_mut(count);
        for (target, source) in now.iter_mut().zip(source) {
            *target = *source;
        }
        position = position.wrapping_add(count as u64);
        rest = later;
    }
}

/// Compares `bytes` with the pattern from `position` on: the position of the first wrong byte, if
/// there is one.
pub fn first_difference(position: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = [0u8; 1024];
    let mut start = position;
    for chunk in bytes.chunks(expected.len()) {
        let expected = expected.get_mut(..chunk.len())?;
        fill(start, expected);
        if let Some(at) = chunk.iter().zip(expected.iter()).position(|(a, b)| a != b) {
            return Some(start.wrapping_add(at as u64));
        }
        start = start.wrapping_add(chunk.len() as u64);
    }
    None
}

fn word(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A running FNV-1a hash of a whole transfer, compared between the two sides at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Takes the next bytes of the transfer.
    pub fn update(&mut self, bytes: &[u8]) {
        let hash = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.0 = hash;
    }

    /// The hash of everything so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_bytes() {
        let mut whole = vec![0; 4099];
        fill(5, &mut whole);
        for cut in [0, 1, 7, 8, 9, 1023, 1024, 1025, 4098, 4099] {
            let mut parts = vec![0; whole.len()];
            let (head, tail) = parts.split_at_mut(cut);
            fill(5, head);
            fill(5 + cut as u64, tail);
            assert_eq!(parts, whole, "cut at {cut}");
        }
        assert_eq!(first_difference(5, &whole), None);
    }

    #[test]
    fn every_kind_of_damage_shows() {
        let mut bytes = vec![0; 3000];
        fill(0, &mut bytes);
        for at in [0, 1, 1023, 1024, 2999] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(first_difference(0, &damaged), Some(at as u64));
        }
        // One byte lost, one doubled.
        let mut lost = bytes.clone();
        lost.remove(100);
        assert!(first_difference(0, &lost).is_some_and(|at| at >= 100));
        let mut doubled = bytes.clone();
        doubled.insert(100, bytes[100]);
        assert!(first_difference(0, &doubled).is_some_and(|at| at > 100));
    }

    #[test]
    fn the_hash_depends_on_order_only() {
        let mut whole = Hash::default();
        whole.update(b"abcdef");
        let mut parts = Hash::default();
        parts.update(b"abc");
        parts.update(b"def");
        assert_eq!(whole, parts);
        let mut other = Hash::default();
        other.update(b"abcdfe");
        assert_ne!(whole.value(), other.value());
    }

    #[test]
    fn first_words_are_splitmix64() {
        // The reference sequence for seed 0.
        assert_eq!(word(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(word(1), 0x6e78_9e6a_a1b9_65f4);
    }
}
