//! Frames between the line and their arrival, by arrival and then by order of sending.
//!
//! Almost all arrive in the order in which they were sent: they wait in a queue. The others, held
//! back or sent after a much later one, lie in a sorted map beside it.

use std::collections::{BTreeMap, VecDeque};

use gannet_base::Instant;

use crate::buffer::Buffer;

/// When a frame arrives, and how many were sent before it.
type Key = (Instant, u64);

/// Frames under way.
#[derive(Clone, Debug, Default)]
pub struct Flying {
    in_order: VecDeque<(Key, Buffer)>,
    late: BTreeMap<Key, Buffer>,
    sent: u64,
}

impl Flying {
    /// One more, which arrives `at`; `late`: others that are sent later are to pass it.
    pub fn insert(&mut self, at: Instant, late: bool, frame: Buffer) {
        self.sent = self.sent.wrapping_add(1);
        let key = (at, self.sent);
        let last = self.in_order.back();
        if !late && last.is_none_or(|(last, _)| *last < key) {
            self.in_order.push_back((key, frame));
        } else {
            self.late.insert(key, frame);
        }
    }

    /// When the next one arrives.
    pub fn first_at(&self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    #[inline]
    fn first(&self) -> Option<Key> {
        let in_order = self.in_order.front().map(|(key, _)| *key);
        let Some((late, _)) = self.late.first_key_value() else {
            return in_order;
        };
        Some(in_order.map_or(*late, |key| key.min(*late)))
    }

    /// Takes the next one that has arrived at `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Buffer> {
        let first = self.first()?;
        if first.0 > now {
            return None;
        }
        match self.in_order.front().is_some_and(|(key, _)| *key == first) {
            true => self.in_order.pop_front().map(|(_, frame)| frame),
            false => self.late.pop_first().map(|(_, frame)| frame),
        }
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.late.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_base::Rng;

    #[test]
    fn as_a_naive_list_sorted_by_arrival() {
        const SEED: u64 = 11;
        let mut rng = Rng::new(SEED);
        for round in 0..100 {
            let (mut flying, mut naive) = (Flying::default(), Vec::new());
            for n in 0..200_u64 {
                let now = Instant::from_millis(n);
                let at = now + core::time::Duration::from_millis(rng.below(20));
                flying.insert(at, rng.below(4) == 0, n.to_be_bytes().as_slice().into());
                naive.push((at, n));
                assert_eq!(flying.first_at(), naive.iter().min().map(|(at, _)| *at));
                while let Some(frame) = flying.pop(now) {
                    let first = naive.iter().min().copied().expect("as many");
                    assert_eq!(*frame, first.1.to_be_bytes(), "seed {SEED}, round {round}");
                    naive.retain(|other| *other != first);
                }
                assert!(naive.iter().all(|(at, _)| *at > now));
                assert_eq!(flying.len(), naive.len());
                assert_eq!(flying.is_empty(), naive.is_empty());
            }
        }
    }
}
