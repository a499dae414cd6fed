//! [`Pool::invariants`] again and again, at the cost of what changed since the last time.
//!
//! An audit remembers every word of the bookkeeping that it looked at, and which blocks the list of
//! free ones names. The pool knows nothing of it: what changed is found by comparing all words with
//! the remembered ones, so no change can escape. What is the same as it was when it was found sound
//! is sound still:
//!
//! ```text
//!   a number that left the list of free blocks, or came to it  -> named at most once?
//!   such a block, and one whose counts changed                 -> named exactly when it has no
//!                                                               references? fewer in flight?
//! ```
//!
//! By induction the list names every block without references, once, and no other: what
//! `invariants` asserts, and a little more.

use alloc::vec::Vec;

use super::{Pool, in_flight, references};

/// Words compared at once.
const CHUNK: usize = 64;

/// What a pool looked like when it was found sound.
#[derive(Debug, Default)]
pub struct Audit {
    blocks: Vec<u64>,
    free: Vec<u32>,
    /// Which blocks `free` names.
    named: Vec<bool>,
}

impl Audit {
    /// Of a pool that was not looked at yet.
    pub const fn new() -> Self {
        Audit {
            blocks: Vec::new(),
            free: Vec::new(),
            named: Vec::new(),
        }
    }

    /// Asserts what must always hold of `pool`, which is the same at every call.
    ///
    /// # Panics
    /// When the bookkeeping contradicts itself.
    pub fn check(&mut self, pool: &Pool) {
        if self.blocks.len() != pool.blocks.len() {
            self.begin(pool);
        }
        let same = self.same_numbers(pool);
        let left = self.free.get(same..).unwrap_or_default();
        let came = pool.free.get(same..).unwrap_or_default();
        for &id in left {
            self.named[id as usize] = false;
        }
        for &id in came {
            let named = core::mem::replace(&mut self.named[id as usize], true);
            assert!(!named, "a block is free twice");
        }
        for &id in left.iter().chain(came) {
            is_sound(pool.blocks[id as usize], self.named[id as usize]);
        }
        self.free.truncate(same);
        self.free.extend_from_slice(came);
        self.check_counts(pool);
    }

    /// Everything is looked at for the first time.
    fn begin(&mut self, pool: &Pool) {
        pool.invariants();
        self.blocks.clone_from(&pool.blocks);
        self.free.clone_from(&pool.free);
        self.named = pool.blocks.iter().map(|&b| references(b) == 0).collect();
    }

    /// How many numbers at the beginning of the list of free blocks are those that were there.
    fn same_numbers(&self, pool: &Pool) -> usize {
        let mut same = 0;
        for (was, is) in self.free.chunks(CHUNK).zip(pool.free.chunks(CHUNK)) {
            if was != is {
                let pairs = was.iter().zip(is);
                return same + pairs.take_while(|(was, is)| was == is).count();
            }
            same += was.len();
        }
        same
    }

    fn check_counts(&mut self, pool: &Pool) {
        let chunks = self.blocks.chunks_mut(CHUNK);
        let named = self.named.chunks(CHUNK);
        for ((was, is), named) in chunks.zip(pool.blocks.chunks(CHUNK)).zip(named) {
            if was == is {
                continue;
            }
            for ((was, is), named) in was.iter_mut().zip(is).zip(named) {
                if was != is {
                    is_sound(*is, *named);
                    *was = *is;
                }
            }
        }
    }
}

fn is_sound(block: u64, named: bool) {
    assert_eq!(
        named,
        references(block) == 0,
        "free list and reference counts disagree"
    );
    assert!(in_flight(block) <= references(block));
}

// (not under Miri: nothing here is unsafe, and a panic with its backtrace takes it a minute)
#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::pool::tests::pool;
    use gannet_base::Rng;

    /// Random use of a pool, with a mistake at the end.
    fn used(rng: &mut Rng, audit: &mut Audit) -> Pool {
        let mut pool = pool(200, 0);
        let mut taken = Vec::new();
        for _ in 0..rng.below(300) {
            for _ in 0..rng.below(8) {
                let first = taken.first().map(|(range, _)| *range);
                let (range, sent) = match rng.below(3) {
                    0 => (pool.alloc().map(|block| pool.range(block, 0, 1)), false),
                    1 => (first.filter(|range| pool.retain(*range)), false),
                    _ => (first.filter(|range| pool.pin(*range)), true),
                };
                taken.extend(range.map(|range| (range, sent)));
                if !taken.is_empty() && rng.below(5) < 2 {
                    let at = rng.below(taken.len() as u64) as usize;
                    match taken.swap_remove(at) {
                        (range, true) => pool.completed(range.offset),
                        (range, false) => pool.release(range),
                    }
                }
            }
            audit.check(&pool);
            pool.invariants();
        }
        pool
    }

    #[test]
    fn finds_what_the_whole_check_finds() {
        const SEED: u64 = 21;
        let mut rng = Rng::new(SEED);
        let mut found = 0;
        let rounds = 300;
        for round in 0..rounds {
            let mut audit = Audit::new();
            let mut pool = used(&mut rng, &mut audit);
            for _ in 0..1 + rng.below(2) {
                let (id, other) = (rng.below(200) as usize, rng.below(200) as u32);
                let places = pool.free.len().max(1) as u64;
                let place = rng.below(places) as usize;
                match rng.below(6) {
                    0 => pool.blocks[id] ^= 1,
                    1 => pool.blocks[id] ^= 1 << 32,
                    2 => pool.free.push(other),
                    3 => drop(pool.free.pop()),
                    4 if place < pool.free.len() => pool.free[place] = other,
                    _ => drop(pool.alloc()),
                }
            }
            let fails = |check: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(check)).is_err();
            let whole = fails(&mut || pool.invariants());
            let part = fails(&mut || audit.check(&pool));
            // (that the list names the right blocks, and not only as many, the whole check leaves
            // out)
            assert!(part || !whole, "seed {SEED}, round {round}");
            found += u32::from(part);
        }
        assert!(found > rounds / 3, "{found} of {rounds}");
    }
}
