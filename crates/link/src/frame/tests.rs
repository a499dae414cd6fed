//! robustness.md S2: whatever a slot claims, a checked frame lies within its segment.

use super::*;
use gannet_base::Rng;
use std::vec::Vec;

const PEER: Bounds = Bounds {
    space: Space::Peer,
    segment_bytes: 64 * 1024,
    block_bytes: 16 * 1024,
};
const OWN: Bounds = Bounds {
    space: Space::Own,
    ..PEER
};

fn range(offset: u32, len: u32) -> Range {
    Range {
        offset,
        len,
        space: Space::Own,
    }
}

fn slot(inline: usize, ranges: &[(u32, u32)]) -> Slot {
    let mut slot = Slot::new();
    let bytes = slot.inline_mut(inline).unwrap();
    bytes.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
    for &(offset, len) in ranges {
        assert!(slot.push_range(range(offset, len)));
    }
    slot
}

fn check(slot: Slot, bounds: &Bounds) -> Result<Frame, SlotFault> {
    let mut frame = Frame::new();
    match frame.load(bounds, |to| {
        *to = slot;
        true
    }) {
        Received::Frame => Ok(frame),
        Received::Refused(fault) => Err(fault),
        Received::Empty => unreachable!(),
    }
}

#[test]
fn s2_range_bounds() {
    type Row = (&'static [(u32, u32)], Result<(), SlotFault>);
    let rows: [Row; 10] = [
        (&[(0, 1)], Ok(())),
        (&[(0, 16384)], Ok(())),
        (&[(49152, 16384)], Ok(())),
        (&[(0, 0)], Err(SlotFault::RangeEmpty)),
        (&[(0, 16385)], Err(SlotFault::RangeBounds)),
        (&[(16383, 2)], Err(SlotFault::RangeBounds)),
        (&[(65535, 2)], Err(SlotFault::RangeBounds)),
        (&[(65536, 1)], Err(SlotFault::RangeBounds)),
        (&[(u32::MAX, 1)], Err(SlotFault::RangeBounds)),
        (&[(1, u32::MAX)], Err(SlotFault::RangeBounds)),
    ];
    for (ranges, expected) in rows {
        assert_eq!(
            check(slot(20, ranges), &PEER).map(|_| ()),
            expected,
            "{ranges:?}"
        );
    }
}

#[test]
fn s5_flags_and_metadata() {
    let with = |f: u16, place: (u16, u16), gso: u16| {
        let mut s = slot(40, &[(64, 100)]);
        s.set_flags(f);
        s.set_checksum_place(place.0, place.1);
        s.set_gso_size(gso);
        s
    };
    assert_eq!(
        check(with(1 << 9, (0, 0), 0), &PEER).unwrap_err(),
        SlotFault::Flags
    );
    assert_eq!(
        check(with(flags::CONTIGUOUS, (0, 0), 0), &PEER).unwrap_err(),
        SlotFault::Flags
    );
    assert!(check(with(flags::CONTIGUOUS, (0, 0), 0), &OWN).is_ok());
    let partial = flags::CSUM_PARTIAL;
    assert!(check(with(partial, (20, 16), 0), &PEER).is_ok());
    for place in [(20, 19), (40, 0), (u16::MAX, u16::MAX)] {
        assert_eq!(
            check(with(partial, place, 0), &PEER).unwrap_err(),
            SlotFault::ChecksumPlace
        );
    }
    assert_eq!(
        check(with(0, (0, 0), 141), &PEER).unwrap_err(),
        SlotFault::Segmentation
    );
}

#[test]
fn contiguous_needs_headroom_in_the_same_block() {
    let mut s = slot(40, &[(16384 + 39, 10)]);
    s.set_flags(flags::CONTIGUOUS);
    assert_eq!(check(s, &OWN).unwrap_err(), SlotFault::RangeBounds);
}

#[test]
fn strip_within_inline_across_and_beyond() {
    let mut f = check(slot(54, &[(0, 100), (200, 50)]), &PEER).unwrap();
    assert!(f.strip(40));
    assert_eq!(
        (f.head(), f.len()),
        (
            &[40u8, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53][..],
            164
        )
    );
    assert!(f.strip(14 + 120));
    assert_eq!(
        f.ranges(),
        [
            Range {
                offset: 0,
                len: 0,
                space: Space::Peer
            },
            Range {
                offset: 220,
                len: 30,
                space: Space::Peer
            }
        ]
    );
    assert!(!f.strip(31));
    assert!(f.is_empty());
}

#[test]
fn strip_pulls_contiguous_payload_together() {
    let mut s = slot(96, &[(96, 1400)]);
    s.set_flags(flags::CONTIGUOUS);
    let mut f = check(s, &OWN).unwrap();
    assert!(f.strip(66));
    assert_eq!(
        (f.head().len(), f.ranges()),
        (
            0,
            &[Range {
                offset: 66,
                len: 1430,
                space: Space::Own
            }][..]
        )
    );
}

#[test]
fn truncate_drops_padding() {
    let mut f = check(slot(60, &[]), &PEER).unwrap();
    assert!(f.strip(14));
    f.truncate(28);
    assert_eq!(f.len(), 28);
    let mut f = check(slot(20, &[(0, 10), (16, 10)]), &PEER).unwrap();
    f.truncate(35);
    assert_eq!((f.len(), f.ranges()[1].len), (35, 5));
    f.truncate(5);
    assert_eq!(f.len(), 5);
}

/// Random words as slots: whatever passes the check stays within the segment through any strips.
#[test]
fn s2_random_slots_never_leave_the_segment() {
    let mut rng = Rng::new(42);
    let mut passed = 0;
    // The interpreter that looks for undefined behaviour takes a thousand times as long.
    let rounds = if cfg!(miri) { 500 } else { 50_000 };
    for round in 0..rounds {
        let mut s = Slot::new();
        (0..16).for_each(|i| s.set_word(i, rng.next_u64()));
        if round % 2 == 0 {
            s = slot(rng.below(97) as usize, &[]);
            for _ in 0..rng.below(3) {
                let _ = s.push_range(range(rng.below(70_000) as u32, rng.below(17_000) as u32));
            }
        }
        let Ok(mut f) = check(s, &PEER) else { continue };
        passed += 1;
        for _ in 0..4 {
            let before = f.len();
            let n = rng.below(200) as usize;
            assert_eq!(f.strip(n), n <= before);
            f.truncate(rng.below(40_000) as usize);
            let ends: Vec<u32> = f.ranges().iter().map(|r| r.end()).collect();
            assert!(
                ends.iter().all(|&e| e <= PEER.segment_bytes),
                "seed 42 round {round}"
            );
        }
    }
    assert!(
        passed > rounds / 50,
        "the test must reach the interesting part: {passed}"
    );
}

#[test]
fn payload_cut_short_within_the_inline_bytes_stays_inline() {
    let mut s = slot(64, &[(64, 9)]);
    s.set_flags(flags::CONTIGUOUS);
    let mut f = check(s, &OWN).unwrap();
    f.truncate(33);
    assert!(f.strip(28));
    assert_eq!((f.head(), f.ranges_len()), (&[28u8, 29, 30, 31, 32][..], 0));
}
