//! Reassembly: a table, hostile arrivals (robustness T8), and a naive twin.
extern crate std;
use super::*;
use gannet_base::Rng;
use std::vec;
use std::vec::Vec;

const S: fn(u32) -> SeqNum = SeqNum;

/// Octets; `split`: whether they may be cut in two; `owed`: must be handed back, never dropped.
#[derive(Debug, PartialEq)]
struct Bytes {
    data: Vec<u8>,
    split: bool,
    owed: bool,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        assert!(!self.owed || std::thread::panicking(), "memory lost");
    }
}

impl Piece for Bytes {
    fn len(&self) -> u32 {
        self.data.len() as u32
    }

    fn trim_front(&mut self, n: u32) {
        self.data.drain(..(n as usize).min(self.data.len()));
    }

    fn trim_back(&mut self, n: u32) {
        self.data
            .truncate(self.data.len().saturating_sub(n as usize));
    }

    fn cost(&self) -> u32 {
        100
    }
}

impl<F: FnMut(Bytes)> Memory<Bytes> for F {
    fn release(&mut self, piece: Bytes) {
        self(piece);
    }

    fn split_off(&mut self, piece: &mut Bytes, at: u32) -> Option<Bytes> {
        let (split, owed) = (piece.split, piece.owed);
        split.then(|| Bytes {
            data: piece.data.split_off(at as usize),
            split,
            owed,
        })
    }
}

fn piece(text: &str, split: bool) -> Bytes {
    Bytes {
        data: text.as_bytes().to_vec(),
        split,
        owed: false,
    }
}

/// Inserts texts at sequence numbers in order; gives what then comes out from 0, as text.
fn run(arrivals: &[(u32, &str)], split: bool) -> (Vec<Inserted>, Vec<u8>) {
    let mut q = Assembler::new(Limits::DEFAULT);
    let mut outcomes = Vec::new();
    for &(seq, text) in arrivals {
        outcomes.push(q.insert(S(0), 1000, S(seq), piece(text, split), &mut |_| {}));
        q.invariants(S(0));
    }
    let mut out = Vec::new();
    while let Some(p) = q.pop_in_order(S(out.len() as u32)) {
        out.extend(&p.data);
        q.invariants(S(out.len() as u32));
    }
    (outcomes, out)
}

#[test]
fn arrivals_of_every_kind() {
    type Arrivals = &'static [(u32, &'static str)];
    let rows: &[(Arrivals, bool, &str)] = &[
        (&[(0, "abc")], false, "abc"),
        (&[(3, "def"), (0, "abc")], false, "abcdef"),
        (&[(6, "g"), (3, "def")], false, ""),
        (&[(3, "DEF"), (0, "abcdef")], false, "abcDEF"), // the first copy wins
        (&[(3, "DEF"), (3, "xyz"), (0, "abc")], false, "abcDEF"),
        (&[(3, "DEF"), (4, "xygh"), (0, "abc")], false, "abcDEFgh"),
        (&[(2, "C"), (0, "abcde")], true, "abCde"), // bridged by splitting
        (&[(2, "C"), (0, "abcde")], false, "abC"),  // or cut
        (
            &[(2, "C"), (4, "E"), (6, "G"), (0, "abcdefgh")],
            true,
            "abCdEfGh",
        ),
        (&[(0, "")], false, ""),
        (&[(u32::MAX - 1, "xxab")], false, "ab"), // begins before rcv.nxt
        (&[(u32::MAX - 9, "old")], false, ""),
    ];
    for (arrivals, split, delivered) in rows {
        let (_, out) = run(arrivals, *split);
        assert_eq!(core::str::from_utf8(&out), Ok(*delivered), "{arrivals:?}");
    }
}

#[test]
fn duplicates_are_reported_for_dsack() {
    let last = |arrivals: &[(u32, &str)]| run(arrivals, true).0.pop().unwrap();
    assert_eq!(last(&[(0, "abc")]).duplicate, None);
    assert_eq!(
        last(&[(5, "abc"), (5, "abc")]).duplicate,
        Some((S(5), S(8)))
    );
    assert_eq!(last(&[(5, "abc"), (5, "abc")]).new_bytes, 0);
    assert_eq!(
        last(&[(5, "abc"), (6, "bcd")]).duplicate,
        Some((S(6), S(8)))
    );
    assert_eq!(
        last(&[(5, "abc"), (3, "12345")]).duplicate,
        Some((S(5), S(8)))
    );
    // wholly and partly below rcv.nxt
    assert_eq!(
        last(&[(u32::MAX, "a")]).duplicate,
        Some((S(u32::MAX), S(0)))
    );
    assert_eq!(
        last(&[(u32::MAX, "ab")]).duplicate,
        Some((S(u32::MAX), S(0)))
    );
    // only the first contiguous range
    assert_eq!(
        last(&[(2, "c"), (5, "f"), (0, "abcdefg")]).duplicate,
        Some((S(2), S(3)))
    );
}

#[test]
fn the_window_cuts() {
    let mut q = Assembler::new(Limits::DEFAULT);
    let mut released = 0;
    let mut release = |_| released += 1;
    let out = q.insert(S(10), 5, S(12), piece("abcdef", false), &mut release);
    assert_eq!((out.new_bytes, out.beyond_window), (3, 3));
    let out = q.insert(S(10), 5, S(15), piece("xyz", false), &mut release);
    assert_eq!((out.new_bytes, out.beyond_window), (0, 3));
    let out = q.insert(S(10), 0, S(10), piece("x", false), &mut release);
    assert_eq!((out.new_bytes, out.beyond_window), (0, 1));
    q.invariants(S(10));
    assert_eq!(released, 2);
}

#[test]
fn a_full_queue_keeps_what_is_nearest() {
    let mut q = Assembler::new(Limits {
        pieces: 3,
        cost: 1000,
    });
    let mut released = Vec::new();
    for seq in [30, 20, 40] {
        q.insert(S(0), 100, S(seq), piece("ab", false), &mut |p| {
            released.push(p)
        });
    }
    let out = q.insert(S(0), 100, S(50), piece("ab", false), &mut |p| {
        released.push(p)
    });
    assert_eq!((out.new_bytes, out.refused_bytes), (0, 2));
    let out = q.insert(S(0), 100, S(0), piece("ab", false), &mut |p| {
        released.push(p)
    });
    assert_eq!((out.new_bytes, out.evicted_bytes), (2, 2));
    q.invariants(S(0));
    assert_eq!(released.len(), 2);
    assert_eq!(
        q.ranges().collect::<Vec<_>>(),
        [(S(0), S(2)), (S(20), S(22)), (S(30), S(32))]
    );

    // memory: each costs 100
    let mut q = Assembler::new(Limits {
        pieces: 100,
        cost: 250,
    });
    for seq in [30, 20, 40] {
        q.insert(S(0), 100, S(seq), piece("ab", false), &mut |_| {});
        q.invariants(S(0));
    }
    assert_eq!((q.pieces(), q.cost()), (2, 200));
    // a limit below one piece still lets the connection move
    q.set_cost_limit(1);
    q.insert(S(0), 100, S(0), piece("ab", false), &mut |_| {});
    assert_eq!(q.pop_in_order(S(0)).map(|p| p.len()), Some(2));
}

#[test]
fn robustness_t8_random_one_byte_segments_over_the_whole_window() {
    let mut q = Assembler::new(Limits::DEFAULT);
    let mut rng = Rng::new(3);
    let mut kept = 0_i64;
    for _ in 0..20_000 {
        let seq = rng.below(60_000) as u32 + 1;
        kept += 1;
        q.insert(S(0), 65_535, S(seq), piece("x", false), &mut |_| kept -= 1);
        assert!(q.pieces() <= 1024);
    }
    q.invariants(S(0));
    assert_eq!(kept, q.pieces() as i64, "every piece not kept came back");
    q.clear(&mut |_| kept -= 1);
    assert_eq!((kept, q.buffered_bytes(), q.cost()), (0, 0, 0));
    q.invariants(S(0));
}

#[test]
fn ranges_are_found_around_an_octet() {
    let mut q = Assembler::new(Limits::DEFAULT);
    for seq in [10, 12, 20] {
        q.insert(S(0), 100, S(seq), piece("ab", false), &mut |_| {});
    }
    let rows = [
        (9, None),
        (10, Some((S(10), S(14)))),
        (13, Some((S(10), S(14)))),
        (14, None),
        (21, Some((S(20), S(22)))),
        (22, None),
    ];
    for (seq, range) in rows {
        assert_eq!(q.range_containing(S(seq)), range, "{seq}");
    }
}

#[test]
fn a_bypassed_queue_delivers_no_octet_twice() {
    let mut q = Assembler::new(Limits::DEFAULT);
    q.insert(S(0), 100, S(5), piece("fghij", false), &mut |_| {});
    q.insert(S(0), 100, S(20), piece("uv", false), &mut |_| {});
    assert_eq!(q.pop_in_order(S(8)), Some(piece("ij", false)));
    assert_eq!(q.pop_in_order(S(50)), Some(piece("", false)));
    assert!(q.is_empty());
}

/// The naive twin: one cell per octet of the stream.
struct Twin {
    cells: Vec<Option<u8>>,
}

impl Twin {
    /// First copy wins; returns new octets.
    fn insert(&mut self, from: i64, data: &[u8], nxt: usize, window: usize) -> u32 {
        let mut new = 0;
        for (i, &byte) in data.iter().enumerate() {
            let at = from + i as i64;
            if at >= nxt as i64 && at < (nxt + window) as i64 && self.cells[at as usize].is_none() {
                self.cells[at as usize] = Some(byte);
                new += 1;
            }
        }
        new
    }

    fn runs(&self, nxt: usize) -> Vec<(u32, u32)> {
        let mut out: Vec<(u32, u32)> = Vec::new();
        for (at, cell) in self.cells.iter().enumerate().skip(nxt) {
            match (cell, out.last_mut()) {
                (None, _) => {}
                (Some(_), Some(last)) if last.1 as usize == at => last.1 += 1,
                (Some(_), _) => out.push((at as u32, at as u32 + 1)),
            }
        }
        out
    }
}

#[test]
fn random_comparison_with_one_cell_per_octet() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let base = S(rng.next_u32()); // any place on the circle, wraps included
        let mut q = Assembler::new(Limits {
            pieces: 10_000,
            cost: u32::MAX,
        });
        let mut twin = Twin {
            cells: vec![None; 6000],
        };
        let (mut nxt, window) = (0_usize, 300_usize);
        for step in 0..800 {
            let from = nxt as i64 + rng.below(380) as i64 - 40;
            let len = if rng.chance(500_000) {
                1 + rng.below(3)
            } else {
                rng.below(60)
            };
            // contents differ each time: an inconsistent retransmission must not show
            let mut data = vec![0; len as usize];
            rng.fill(&mut data);
            let new = twin.insert(from, &data, nxt, window);
            let seq = base + from as u32;
            let p = Bytes {
                data,
                split: true,
                owed: true,
            };
            let mut release = |mut p: Bytes| p.owed = false;
            let out = q.insert(base + nxt as u32, window as u32, seq, p, &mut release);
            q.invariants(base + nxt as u32);
            assert_eq!(out.new_bytes, new, "seed {seed} step {step}");
            assert_eq!(out.refused_bytes, 0);
            let runs: Vec<(u32, u32)> = q.ranges().map(|r| (r.0 - base, r.1 - base)).collect();
            assert_eq!(runs, twin.runs(nxt), "seed {seed} step {step}");
            while let Some(mut p) = q.pop_in_order(base + nxt as u32) {
                p.owed = false;
                for &byte in &p.data {
                    assert_eq!(twin.cells[nxt], Some(byte), "seed {seed} step {step}");
                    nxt += 1;
                }
            }
            assert_eq!(twin.cells[nxt], None, "seed {seed} step {step}");
            if nxt > 5500 {
                break;
            }
        }
        q.clear(&mut |mut p: Bytes| p.owed = false);
        assert!(
            nxt > 1000,
            "seed {seed}: the test must get somewhere ({nxt})"
        );
    }
}
