//! RFC 2018, 2883, 6675; robustness T6.
extern crate std;
use super::*;
use gannet_base::Rng;
use std::vec;
use std::vec::Vec;

const S: fn(u32) -> SeqNum = SeqNum;
const MSS: u32 = 10;

type List = &'static [(u32, u32)];

fn blocks(list: &[(u32, u32)]) -> Vec<SeqRange> {
    list.iter().map(|&(a, b)| (S(a), S(b))).collect()
}

/// A scoreboard with `una` 100, `nxt` 1000 that has seen these blocks.
fn board(list: &[(u32, u32)]) -> Scoreboard {
    let mut b = Scoreboard::new();
    for chunk in blocks(list).chunks(1) {
        b.update(S(100), S(1000), chunk);
        b.invariants(S(100), S(1000));
    }
    b
}

#[test]
fn blocks_merge() {
    let rows: &[(List, List)] = &[
        (&[(200, 210)], &[(200, 210)]),
        (&[(200, 210), (200, 210)], &[(200, 210)]),
        (&[(200, 210), (210, 220)], &[(200, 220)]),
        (&[(210, 220), (200, 210)], &[(200, 220)]),
        (&[(200, 210), (220, 230), (205, 225)], &[(200, 230)]),
        (
            &[(200, 210), (220, 230), (240, 250), (150, 300)],
            &[(150, 300)],
        ),
        (
            &[(300, 310), (200, 210), (250, 260)],
            &[(200, 210), (250, 260), (300, 310)],
        ),
    ];
    for (arrivals, expected) in rows {
        let b = board(arrivals);
        assert_eq!(
            b.ranges().collect::<Vec<_>>(),
            blocks(expected),
            "{arrivals:?}"
        );
        assert_eq!(b.sacked_bytes(), expected.iter().map(|r| r.1 - r.0).sum());
        assert_eq!(b.high_sacked(), expected.last().map(|r| S(r.1)));
    }
}

#[test]
fn robustness_t6_invalid_blocks_are_ignored() {
    let rows = [
        (210, 200),                 // reversed
        (200, 200),                 // empty
        (100, 200),                 // the octet that is still asked for
        (50, 150),                  // straddles una
        (990, 1001),                // beyond nxt
        (2000, 2010),               // never sent
        (200, 0x8000_0000 + 300),   // wraps
        (0x5000_0000, 0xa000_0000), // each step "after" the last, all around the circle
        (u32::MAX, 0),              // far below
    ];
    for (start, end) in rows {
        let mut b = board(&[]);
        // not first, so that none counts as a duplicate report
        let out = b.update(S(100), S(1000), &blocks(&[(500, 510), (start, end)]));
        assert_eq!((out.newly_sacked, out.invalid), (10, 1), "{start}..{end}");
        assert_eq!(b.ranges().count(), 1);
        b.invariants(S(100), S(1000));
    }
}

#[test]
fn rfc_2883_duplicate_reports() {
    type Report = Option<(u32, u32)>;
    let rows: &[(List, Report, u32)] = &[
        (&[(50, 60)], Some((50, 60)), 0),   // below the acknowledgement
        (&[(90, 100)], Some((90, 100)), 0), // just below
        (&[(50, 60), (200, 210)], Some((50, 60)), 10), // and an ordinary block
        (&[(200, 210), (190, 300)], Some((200, 210)), 110), // inside the second
        (&[(200, 210), (200, 210)], Some((200, 210)), 10),
        (&[(200, 210), (205, 300)], None, 100), // overlaps it only
        (&[(200, 210), (50, 60)], None, 10),    // only the first block can be one
        (&[(60, 50)], None, 0),
        (&[(200, 210), (190, 1001)], None, 10), // an invalid second block proves nothing
        (&[(0x9000_0000, 0x9000_0010)], None, 0), // further below than any window
    ];
    for (list, dsack, newly) in rows {
        let mut b = Scoreboard::new();
        let out = b.update(S(100), S(1000), &blocks(list));
        assert_eq!(out.dsack, dsack.map(|(a, b)| (S(a), S(b))), "{list:?}");
        assert_eq!(out.newly_sacked, *newly, "{list:?}");
        b.invariants(S(100), S(1000));
    }
}

#[test]
fn advancing_and_reneging() {
    let mut b = board(&[(200, 210), (300, 310)]);
    assert_eq!(b.advance(S(150)), Advanced::default());
    assert_eq!(
        b.advance(S(210)),
        Advanced {
            already_sacked: 10,
            reneged: false
        }
    );
    b.invariants(S(210), S(1000));
    let mut c = b.clone();
    assert_eq!(
        c.advance(S(300)),
        Advanced {
            already_sacked: 0,
            reneged: true
        }
    );
    let mut c = b.clone();
    assert_eq!(
        c.advance(S(305)),
        Advanced {
            already_sacked: 5,
            reneged: true
        }
    );
    c.clear();
    c.invariants(S(305), S(1000));
    assert!(c.is_empty());
    assert_eq!(
        b.advance(S(1000)),
        Advanced {
            already_sacked: 10,
            reneged: false
        }
    );
    assert!(b.is_empty());
}

#[test]
fn rfc_6675_section_4_is_lost() {
    // three separate ranges above
    let b = board(&[(200, 205), (300, 305), (400, 405)]);
    assert!(b.is_lost(S(100), S(100), MSS) && b.is_lost(S(100), S(199), MSS));
    assert!(!b.is_lost(S(100), S(205), MSS), "two ranges, 10 octets");
    // more than (DupThresh - 1) * SMSS octets
    assert!(board(&[(200, 221)]).is_lost(S(100), S(150), MSS));
    assert!(!board(&[(200, 220)]).is_lost(S(100), S(150), MSS));
    assert!(!board(&[]).is_lost(S(100), S(100), MSS));
}

#[test]
fn rfc_6675_next_seg_rules_in_order() {
    let (una, nxt) = (S(100), S(1000));
    let mut b = board(&[(200, 210), (300, 310), (400, 410)]);
    b.begin_recovery(una);
    let next = |b: &Scoreboard, new| b.next_seg(una, nxt, MSS, new);
    assert_eq!(next(&b, true), Some(NextSeg::Lost(una, 100)));
    b.on_retransmit(una, S(110));
    assert_eq!(
        next(&b, true),
        Some(NextSeg::Lost(S(110), 90)),
        "the rest of the hole"
    );
    b.on_retransmit(una, S(200));
    assert_eq!(
        next(&b, true),
        Some(NextSeg::NewData),
        "rule 2: the next hole is not lost"
    );
    assert_eq!(
        next(&b, false),
        Some(NextSeg::NotYetLost(S(210), 90)),
        "rule 3"
    );
    b.on_retransmit(una, S(300));
    b.on_retransmit(una, S(400));
    b.invariants(una, nxt);
    assert_eq!(next(&b, false), Some(NextSeg::Rescue(S(990), 10)), "rule 4");
    b.on_rescue(nxt);
    assert_eq!(next(&b, false), None, "once per recovery");
    assert_eq!(next(&b, true), Some(NextSeg::NewData));
}

#[test]
fn rescue_takes_the_highest_octets_not_sacked() {
    let mut b = board(&[(300, 310), (500, 1000)]);
    b.begin_recovery(S(100));
    b.on_retransmit(S(100), S(300));
    b.on_retransmit(S(100), S(500));
    assert_eq!(
        b.next_seg(S(100), S(1000), MSS, false),
        Some(NextSeg::Rescue(S(490), 10))
    );
    // a hole shorter than a segment
    let mut b = board(&[(103, 1000)]);
    b.begin_recovery(S(100));
    b.on_retransmit(S(100), S(103));
    assert_eq!(
        b.next_seg(S(100), S(1000), MSS, false),
        Some(NextSeg::Rescue(S(100), 3))
    );
    // outside recovery there is none
    assert_eq!(board(&[]).next_seg(S(100), S(1000), MSS, false), None);
}

#[test]
fn a_thousand_tiny_holes_stay_bounded() {
    let mut b = Scoreboard::new();
    let (una, nxt) = (S(0), S(100_000));
    let mut overflow = 0;
    for i in 0..1000 {
        let out = b.update(una, nxt, &blocks(&[(10 + 4 * i, 12 + 4 * i)]));
        overflow += out.overflow;
        b.invariants(una, nxt);
    }
    assert_eq!(
        (b.ranges().count(), overflow),
        (MAX_RANGES, 1000 - MAX_RANGES as u32)
    );
    // full, it still takes what touches a known range, and gets room again
    assert_eq!(b.update(una, nxt, &blocks(&[(12, 14)])).newly_sacked, 2);
    assert_eq!(
        b.update(una, nxt, &blocks(&[(50_000, 50_010)]))
            .newly_sacked,
        10
    );
    assert_eq!(
        b.ranges().count(),
        MAX_RANGES,
        "two ranges became one, one came"
    );
}

/// The naive twin: RFC 6675 octet by octet.
struct Twin {
    sacked: Vec<bool>,
    high_rxt: usize,
}

impl Twin {
    fn is_lost(&self, una: usize, nxt: usize, seq: usize) -> bool {
        let (mut octets, mut ranges) = (0, 0);
        for at in seq.max(una) + 1..nxt {
            if self.sacked[at] {
                octets += 1;
                ranges += usize::from(!self.sacked[at - 1]);
            }
        }
        ranges >= DUP_THRESH || octets > (DUP_THRESH - 1) * MSS as usize
    }

    fn pipe(&self, una: usize, nxt: usize) -> u32 {
        let mut pipe = 0;
        for at in una..nxt {
            if !self.sacked[at] {
                pipe += u32::from(!self.is_lost(una, nxt, at));
                pipe += u32::from(at < self.high_rxt);
            }
        }
        pipe
    }

    fn next_hole(&self, una: usize, nxt: usize) -> Option<(usize, usize)> {
        let highest = (una..nxt).rev().find(|&at| self.sacked[at])?;
        let from = self.high_rxt.max(una);
        let start = (from..highest).find(|&at| !self.sacked[at])?;
        let end = (start..nxt).find(|&at| self.sacked[at])?;
        Some((start, end - start))
    }
}

#[test]
fn random_comparison_octet_by_octet() {
    const LEN: usize = 1200;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let base = S(rng.next_u32());
        let seq = |at: usize| base + at as u32;
        let (mut una, mut nxt) = (0_usize, 200_usize);
        let mut b = Scoreboard::new();
        let mut twin = Twin {
            sacked: vec![false; LEN],
            high_rxt: 0,
        };
        b.begin_recovery(seq(0));
        for step in 0..400 {
            let why = std::format!("seed {seed} step {step}");
            match rng.below(8) {
                0..=4 if una + 2 < nxt => {
                    let start = una + 1 + rng.below((nxt - una - 1) as u64) as usize;
                    let end = (start + 1 + rng.below(12) as usize).min(nxt);
                    let out = b.update(seq(una), seq(nxt), &[(seq(start), seq(end))]);
                    let cells = &mut twin.sacked[start..end];
                    let new = cells.iter().filter(|s| !**s).count();
                    cells.fill(true);
                    assert_eq!(out.newly_sacked as usize, new, "{why}");
                }
                5 => {
                    if let Some((start, len)) = twin.next_hole(una, nxt) {
                        let end = start + 1 + rng.below(len as u64) as usize;
                        b.on_retransmit(seq(una), seq(end));
                        twin.high_rxt = end;
                    }
                }
                6 if rng.chance(300_000) => {
                    // an honest receiver: past everything contiguous
                    let to = una + rng.below((nxt - una) as u64 + 1) as usize;
                    let to = (to..nxt).find(|&at| !twin.sacked[at]).unwrap_or(nxt);
                    let already = twin.sacked[una..to].iter().filter(|s| **s).count();
                    let out = b.advance(seq(to));
                    assert_eq!(out.already_sacked as usize, already, "{why}");
                    assert!(!out.reneged, "{why}");
                    una = to;
                    twin.high_rxt = twin.high_rxt.max(una);
                }
                _ => nxt = (nxt + rng.below(15) as usize).min(LEN),
            }
            b.invariants(seq(una), seq(nxt));
            assert_eq!(
                b.pipe(seq(una), seq(nxt), MSS),
                twin.pipe(una, nxt),
                "{why}"
            );
            for at in (una..nxt).filter(|&at| !twin.sacked[at]) {
                let lost = b.is_lost(seq(una), seq(at), MSS);
                assert_eq!(lost, twin.is_lost(una, nxt, at), "{why} octet {at}");
            }
            let hole = twin
                .next_hole(una, nxt)
                .map(|(s, len)| (seq(s), len as u32));
            assert_eq!(b.next_hole(seq(una)), hole, "{why}");
        }
    }
}

#[test]
fn hostile_blocks_at_random() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut una = S(rng.next_u32());
        let mut b = Scoreboard::new();
        for _ in 0..2000 {
            let nxt = una + rng.below(5000) as u32;
            // nxt never moves back below what was SACKed
            let nxt = b.high_sacked().map_or(nxt, |h| h.max(nxt));
            let mut near = || match rng.below(4) {
                0 => S(rng.next_u32()),
                _ => una + rng.below(6000) as u32 - 500,
            };
            let list: Vec<SeqRange> = (0..4).map(|_| (near(), near())).collect();
            b.update(una, nxt, &list);
            b.invariants(una, nxt);
            use NextSeg::{Lost, NewData, NotYetLost, Rescue};
            match b.next_seg(una, nxt, MSS, false) {
                Some(Lost(start, len) | NotYetLost(start, len) | Rescue(start, len)) => {
                    assert!(len > 0 && (start - una) + len <= nxt - una);
                    let apart = |r: SeqRange| r.1.before_eq(start) || (start + len).before_eq(r.0);
                    assert!(b.ranges().all(apart));
                }
                Some(NewData) => panic!("there is none"),
                None => {}
            }
            assert!(b.pipe(una, nxt, MSS) <= 2 * (nxt - una));
            match rng.below(20) {
                0 => b.begin_recovery(una),
                1 => b.end_recovery(),
                2..=5 => {
                    una += rng.below(u64::from(nxt - una) + 1) as u32;
                    if b.advance(una).reneged {
                        b.clear();
                    }
                }
                _ => {}
            }
            b.invariants(una, nxt);
        }
    }
}
