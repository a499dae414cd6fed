//! Sequence numbers without the wrap, and ranges of them.

/// The offset of `number` from `start`, as near to `near` as possible; `None` when that is before
/// the start.
pub fn unwrap(number: u32, start: u32, near: u64) -> Option<u64> {
    let low = number.wrapping_sub(start);
    let ahead = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(ahead))
}

/// A set of numbers, as ranges in order that do not touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds `from..to`.
    pub fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        // (nearly always it goes on where the last one ends)
        if let Some((start, end)) = self.0.last_mut()
            && *start <= from
            && from <= *end
        {
            *end = to.max(*end);
            return;
        }
        let first = self.0.partition_point(|(_, end)| *end < from);
        let last = self.0.partition_point(|(start, _)| *start <= to);
        let touched = self.0.get(first..last).unwrap_or_default();
        let start = touched.first().map_or(from, |(start, _)| from.min(*start));
        let end = touched.last().map_or(to, |(_, end)| to.max(*end));
        self.0.splice(first..last.max(first), [(start, end)]);
    }

    /// Whether all of `from..to` is in it.
    pub fn holds(&self, from: u64, to: u64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end < to);
        self.0
            .get(at)
            .is_some_and(|(start, end)| *start <= from && to <= *end)
    }

    /// How many of `from..to` are not in it.
    pub fn missing(&self, from: u64, to: u64) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let touched = self
            .0
            .iter()
            .skip(first)
            .take_while(|(start, _)| *start < to);
        let held: u64 = touched
            .map(|(start, end)| to.min(*end) - from.max(*start))
            .sum();
        to.saturating_sub(from) - held
    }

    /// The first number, from `from` on, that is not in it.
    pub fn end_of(&self, from: u64) -> u64 {
        let at = self.0.partition_point(|(_, end)| *end < from);
        let range = self.0.get(at).filter(|(start, _)| *start <= from);
        range.map_or(from, |(_, end)| *end)
    }
}

/// A set of time stamps. They come in order, but for few and for the passing of 2^32: each half of
/// the circle is a list in order.
#[derive(Clone, Debug, Default)]
pub struct Stamps([Vec<u32>; 2]);

impl Stamps {
    /// Adds one.
    pub fn insert(&mut self, stamp: u32) {
        let list = &mut self.0[(stamp >> 31) as usize];
        match list.last() {
            Some(last) if *last == stamp => {}
            Some(last) if *last > stamp => {
                if let Err(place) = list.binary_search(&stamp) {
                    list.insert(place, stamp);
                }
            }
            _ => list.push(stamp),
        }
    }

    /// Whether it is in it.
    pub fn contains(&self, stamp: u32) -> bool {
        let list = &self.0[(stamp >> 31) as usize];
        list.last() == Some(&stamp) || list.binary_search(&stamp).is_ok()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn stamps_are_as_a_naive_set_says() {
        let mut rng = Rng::new(4);
        let (mut stamps, mut naive) = (Stamps::default(), BTreeSet::new());
        assert!(stamps.is_empty());
        for n in 0..2000_u32 {
            // over 2^31 and 2^32, and now and then back
            let stamp = n
                .wrapping_mul(0x0040_0000)
                .wrapping_sub(rng.below(3) as u32);
            stamps.insert(stamp);
            naive.insert(stamp);
            for asked in [stamp, stamp.wrapping_add(1), rng.next_u64() as u32] {
                assert_eq!(stamps.contains(asked), naive.contains(&asked));
            }
            assert!(!stamps.is_empty());
        }
    }

    #[test]
    fn unwraps_near_the_reference() {
        assert_eq!(unwrap(5, 0xffff_fff0, 0), Some(21));
        assert_eq!(unwrap(0xffff_ffef, 0xffff_fff0, 0), None);
        assert_eq!(unwrap(1, 2, 1 << 32), Some((1 << 32) - 1));
        assert_eq!(unwrap(1, 0, (1 << 33) - 5), Some((1 << 33) + 1));
    }

    #[test]
    fn ranges_are_as_a_naive_set_says() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let (mut ranges, mut naive) = (Ranges::default(), [false; 64]);
            for _ in 0..12 {
                let from = rng.below(60);
                let to = from + rng.below(10).min(64 - from);
                ranges.add(from, to);
                naive[from as usize..to as usize].fill(true);
                let (a, b) = (rng.below(32), 33 + rng.below(31));
                let all = naive[a as usize..b as usize].iter().all(|set| *set);
                assert_eq!(ranges.holds(a, b), all, "{ranges:?} {a}..{b}");
                let missing = naive[a as usize..b as usize].iter().filter(|set| !**set);
                assert_eq!(ranges.missing(a, b), missing.count() as u64, "{ranges:?}");
                let end = naive[a as usize..].iter().position(|set| !set);
                assert_eq!(ranges.end_of(a), a + end.unwrap_or(64) as u64, "{ranges:?}");
            }
        }
    }
}
