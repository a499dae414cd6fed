//! A byte map as a twin: what each byte is, and which fragments came, in plain lists.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use gannet_base::Rng;

use super::direct::Desk;
use crate::counters::DropReason::{self, *};

/// A datagram as a map of bytes and a list of fragments.
#[derive(Default)]
struct Naive {
    bytes: BTreeMap<u32, u8>,
    pieces: Vec<(u32, u32, bool)>,
    spoilt: bool,
}

impl Naive {
    fn give(
        &mut self,
        is_ipv6: bool,
        (offset, more): (u32, bool),
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, DropReason> {
        let end = offset + bytes.len() as u32;
        if bytes.is_empty() {
            return Err(FragmentEmpty);
        }
        if more && !bytes.len().is_multiple_of(8) {
            return Err(FragmentLength);
        }
        if (offset == 0 && more && bytes.len() < 8) || (1..8).contains(&offset) {
            return Err(FragmentTiny);
        }
        if self.spoilt {
            return Err(FragmentOverlap);
        }
        let fault = self.fault((offset, end, more), bytes);
        match fault {
            Some(FragmentDuplicate) => return Err(FragmentDuplicate),
            Some(reason) => {
                *self = Naive {
                    spoilt: is_ipv6,
                    ..Naive::default()
                };
                return Err(reason);
            }
            None => {}
        }
        self.pieces.push((offset, end, more));
        self.bytes.extend((offset..).zip(bytes.iter().copied()));
        let last = self.pieces.iter().find(|(_, _, more)| !more);
        let Some((_, total, _)) = last.filter(|l| l.1 as usize == self.bytes.len()) else {
            return Ok(None);
        };
        let whole = (0..*total).map(|i| self.bytes[&i]).collect();
        *self = Naive::default();
        Ok(Some(whole))
    }

    fn fault(&self, (from, to, more): (u32, u32, bool), bytes: &[u8]) -> Option<DropReason> {
        // In units of 8 bytes, as the edges of fragments are.
        let units = |a: u32, b: u32| (a / 8, b.div_ceil(8));
        let edges = units(from, to);
        let meets = |p: &&(u32, u32, bool)| {
            let (a, b) = units(p.0, p.1);
            a < edges.1 && edges.0 < b
        };
        if let Some(&(a, b, last)) = self.pieces.iter().find(meets) {
            if units(a, b) != edges {
                return Some(FragmentOverlap);
            }
            let same = (a, b, last) == (from, to, more)
                && (from..to).zip(bytes).all(|(i, b)| self.bytes[&i] == *b);
            return Some(if same {
                FragmentDuplicate
            } else {
                FragmentConflict
            });
        }
        let end = self.pieces.iter().find(|p| !p.2).map(|p| p.1);
        let reach = self.pieces.iter().map(|p| p.1).max().unwrap_or(0);
        let agrees = match end {
            Some(end) => more && to <= end,
            None => more || reach <= to,
        };
        (!agrees).then_some(FragmentConflict)
    }
}

#[test]
fn as_a_byte_map() {
    let mut wholes = 0;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let mut desk = Desk::new((2048, 64), 1 << 20);
        let is_ipv6 = rng.chance(500_000);
        let key = desk.key(rng.next_u32(), is_ipv6);
        let mut naive = Naive::default();
        let len = 1 + rng.below(if seed % 4 == 0 { 10_000 } else { 400 }) as usize;
        let mut all = vec![0; len];
        rng.fill(&mut all);
        let mut plan = cut(&mut rng, len);
        spoil(&mut rng, &mut plan, len);
        for (from, to, more) in plan {
            let mut bytes = all.get(from..to).unwrap_or(&[]).to_vec();
            if rng.chance(3_000) && !bytes.is_empty() {
                bytes[0] ^= 1;
            }
            let place = (from as u32, more);
            let expected = naive.give(is_ipv6, place, &bytes);
            let got = desk.give(&key, place, &bytes);
            assert_eq!(got, expected, "seed {seed}: {from}..{to} more {more}");
            wholes += u32::from(matches!(got, Ok(Some(_))));
        }
    }
    assert!(wholes > 200, "{wholes} complete datagrams");
}

/// Fragments of a datagram of `len` bytes.
fn cut(rng: &mut Rng, len: usize) -> Vec<(usize, usize, bool)> {
    let mut plan = vec![];
    let mut at = 0;
    while at < len {
        let to = len.min(at + 8 * (1 + rng.below(40) as usize));
        plan.push((at, to, to < len));
        at = to;
    }
    plan
}

/// Shuffles them, doubles some, adds some with other edges.
fn spoil(rng: &mut Rng, plan: &mut Vec<(usize, usize, bool)>, len: usize) {
    for piece in plan.clone() {
        if rng.chance(200_000) {
            plan.push(piece);
        }
        if rng.chance(15_000) {
            let from = rng.below(len as u64) as usize / 8 * 8;
            let to = len.min(from + rng.below(200) as usize);
            plan.push((from, to, rng.chance(500_000)));
        }
    }
    for i in (1..plan.len()).rev() {
        plan.swap(i, rng.below(i as u64 + 1) as usize);
    }
}
