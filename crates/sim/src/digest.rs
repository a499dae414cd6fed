//! One number that says whether two runs were the same: a running 64-bit hash of every event.
//!
//! Not for security: nobody forges a simulation. Each word is mixed by a multiplication and a
//! rotation; a final mix spreads what the last words did over all bits.

/// A running hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

/// An odd number without pattern (the golden ratio's fraction).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Digest {
    /// Of nothing.
    pub const fn new() -> Self {
        Digest(0x6a09_e667_f3bc_c908)
    }

    /// Adds one number.
    #[inline]
    pub fn number(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(FACTOR);
    }

    /// Adds bytes and their count.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        // four lanes, so that one multiplication need not wait for the one before
        let [mut a, mut b, mut c, mut d] = [self.0, FACTOR, !self.0, 1];
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            if let ([p, q, r, s], _) = block.as_chunks::<8>() {
                a = (a.rotate_left(29) ^ u64::from_le_bytes(*p)).wrapping_mul(FACTOR);
                b = (b.rotate_left(29) ^ u64::from_le_bytes(*q)).wrapping_mul(FACTOR);
                c = (c.rotate_left(29) ^ u64::from_le_bytes(*r)).wrapping_mul(FACTOR);
                d = (d.rotate_left(29) ^ u64::from_le_bytes(*s)).wrapping_mul(FACTOR);
            }
        }
        for lane in [a, b, c, d] {
            self.number(lane);
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let bytes = rest.iter().rev();
            self.number(bytes.fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    /// The hash of everything so far.
    pub const fn value(self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut digest = Digest::new();
        digest.bytes(bytes);
        digest.value()
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let mut bytes: Vec<u8> = (0..100).collect();
        let plain = of(&bytes);
        assert_eq!(plain, of(&bytes));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_ne!(plain, of(&bytes), "byte {at}");
            bytes[at] ^= 1;
        }
        assert_ne!(of(&[0; 40]), of(&[0; 41]));
        assert_ne!(of(&[]), of(&[0]));
    }
}
