//! A seeded generator (xoshiro256++, Blackman and Vigna 2019, public domain algorithm).
//!
//! For choices that need spread, not secrecy: port probing order, test data, simulated faults. What
//! an attacker must not guess (initial sequence numbers, hash keys) is keyed with SipHash instead.

/// A small fast generator whose whole state follows from one seed.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A generator for `seed`; every seed, zero included, gives a usable state.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Rng(core::array::from_fn(|_| split_mix(&mut state)))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let Rng([a, b, c, d]) = self;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number in `0..bound`; zero when `bound` is zero. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `per_million` times in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(bytes) {
                *to = from;
            }
        }
    }
}

/// SplitMix64: spreads one seed over a whole state (Steele, Lea and Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream() {
        let (mut a, mut b, mut c) = (Rng::new(0), Rng::new(0), Rng::new(1));
        let first: [u64; 8] = core::array::from_fn(|_| a.next_u64());
        assert_eq!(first, core::array::from_fn(|_| b.next_u64()));
        assert_ne!(first, core::array::from_fn(|_| c.next_u64()));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[rng.below(10) as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(rng.below(0), 0);
    }
}
