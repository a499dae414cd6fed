//! Which parts of a datagram have come: a bit for every 8 bytes, since that is what fragments are
//! cut in.
//!
//! RFC 815 keeps a list of holes, and lists are what FragmentSmack (CVE-2018-5391) made long: with
//! the smallest fragments in random order each insertion walked thousands of them. Here a fragment
//! costs one look at each word of 512 bytes that it covers, whatever came before, and a datagram of
//! any number of fragments costs 2 KiB.
//!
//! ```text
//!   covered  1 1 1 1 1 1 0 0 0 0 1 1 1 0     bytes that came
//!   starts   1 0 0 1 0 0 0 0 0 0 1 0 0 0     where fragments began: 0..3, 3..6, 10..13
//! ```
//! The second row tells an exact duplicate from an overlap.

/// Bytes in the unit of fragment offsets.
pub(super) const UNIT: u32 = 8;
/// Units in the longest datagram.
const UNITS: u32 = 65_536 / UNIT;
const WORDS: usize = UNITS as usize / 64;

/// How a fragment lies to those that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Nothing of it has come yet.
    New,
    /// Exactly this part has come already, as one fragment.
    Duplicate,
    /// Some of its bytes have come already, in a fragment with other edges.
    Overlap,
}

/// The parts of a datagram that have come.
#[derive(Clone)]
pub(super) struct Coverage {
    covered: [u64; WORDS],
    starts: [u64; WORDS],
    units: u32,
}

impl Coverage {
    pub(super) const fn new() -> Self {
        Coverage {
            covered: [0; WORDS],
            starts: [0; WORDS],
            units: 0,
        }
    }

    /// Number of units that have come.
    pub(super) fn units(&self) -> u32 {
        self.units
    }

    /// How the units `from..to` lie to what has come.
    pub(super) fn fit(&self, from: u32, to: u32) -> Fit {
        match count(&self.covered, from, to) {
            0 => Fit::New,
            all if all == to - from => {
                let one_start = bit(&self.starts, from) && count(&self.starts, from, to) == 1;
                let ends_here = !bit(&self.covered, to) || bit(&self.starts, to);
                match one_start && ends_here {
                    true => Fit::Duplicate,
                    false => Fit::Overlap,
                }
            }
            _ => Fit::Overlap,
        }
    }

    /// The units `from..to`, none of which had come, have come as one fragment.
    pub(super) fn add(&mut self, from: u32, to: u32) {
        for (index, mask) in words(from, to) {
            if let Some(word) = self.covered.get_mut(index) {
                *word |= mask;
            }
        }
        if let Some(word) = self.starts.get_mut(from as usize / 64) {
            *word |= 1 << (from % 64);
        }
        self.units += to - from;
    }
}

/// The words that the bits `from..to` lie in, each with those of its bits.
fn words(from: u32, to: u32) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = (from.min(UNITS), to.min(UNITS));
    (from / 64..to.div_ceil(64)).map(move |index| {
        let first = from.saturating_sub(index * 64);
        let behind = (to - index * 64).min(64);
        (index as usize, below(behind) & !below(first))
    })
}

/// The lowest `n` bits, `n` at most 64.
fn below(n: u32) -> u64 {
    match n {
        64.. => u64::MAX,
        n => (1 << n) - 1,
    }
}

fn count(bits: &[u64; WORDS], from: u32, to: u32) -> u32 {
    let masked = |(index, mask): (usize, u64)| bits.get(index).map_or(0, |w| w & mask);
    words(from, to).map(|w| masked(w).count_ones()).sum()
}

fn bit(bits: &[u64; WORDS], at: u32) -> bool {
    bits.get(at as usize / 64)
        .is_some_and(|w| w >> (at % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_base::Rng;
    use std::vec::Vec;

    #[test]
    fn edges_and_words() {
        let mut coverage = Coverage::new();
        assert_eq!(coverage.fit(0, UNITS), Fit::New);
        coverage.add(60, 130);
        assert_eq!(coverage.units(), 70);
        for (from, to, fit) in [
            (60, 130, Fit::Duplicate),
            (0, 60, Fit::New),
            (130, UNITS, Fit::New),
            (59, 61, Fit::Overlap),
            (60, 129, Fit::Overlap),
            (61, 130, Fit::Overlap),
            (129, 131, Fit::Overlap),
            (0, UNITS, Fit::Overlap),
        ] {
            assert_eq!(coverage.fit(from, to), fit, "{from}..{to}");
        }
        coverage.add(130, 140);
        assert_eq!(coverage.fit(60, 130), Fit::Duplicate);
        assert_eq!(coverage.fit(130, 140), Fit::Duplicate);
        assert_eq!(
            coverage.fit(60, 140),
            Fit::Overlap,
            "two fragments, not one"
        );
        coverage.add(UNITS - 1, UNITS);
        assert_eq!(coverage.fit(UNITS - 1, UNITS), Fit::Duplicate);
    }

    #[test]
    fn as_a_list_of_fragments() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut coverage = Coverage::new();
            let mut list: Vec<(u32, u32)> = Vec::new();
            let most = 1 + rng.below(u64::from(UNITS) - 1) as u32;
            for _ in 0..60 {
                let from = rng.below(u64::from(most)) as u32;
                let to = from + 1 + rng.below(u64::from(UNITS - from).min(150)) as u32;
                let repeat = rng.below(4) == 0 && !list.is_empty();
                let (from, to) = match repeat {
                    true => list[rng.below(list.len() as u64) as usize],
                    false => (from, to),
                };
                let fit = if list.contains(&(from, to)) {
                    Fit::Duplicate
                } else if list.iter().any(|&(a, b)| a < to && from < b) {
                    Fit::Overlap
                } else {
                    Fit::New
                };
                assert_eq!(coverage.fit(from, to), fit, "seed {seed}: {from}..{to}");
                if fit == Fit::New {
                    coverage.add(from, to);
                    list.push((from, to));
                }
            }
            let units: u32 = list.iter().map(|(a, b)| b - a).sum();
            assert_eq!(coverage.units(), units, "seed {seed}");
        }
    }
}
