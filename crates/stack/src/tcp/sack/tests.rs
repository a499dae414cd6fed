//! RFC 2018, 2883; robustness T6.
extern crate std;
use super::*;
use gannet_base::Rng;
use std::vec::Vec;

const S: fn(u32) -> SeqNum = SeqNum;

type List = &'static [(u32, u32)];

/// What is believed of these blocks with 100 to 1000 outstanding.
fn sort(list: &[(u32, u32)]) -> Blocks {
    Blocks::sort(&list.iter().copied().collect(), S(100), (S(100), S(1000)))
}

fn held(blocks: &Blocks) -> Vec<(u32, u32)> {
    blocks.held().iter().map(|&(a, b)| (a.0, b.0)).collect()
}

#[test]
fn blocks_come_out_in_order() {
    let list = [(500, 510), (300, 310), (900, 1000), (200, 210)];
    let sorted = [(200, 210), (300, 310), (500, 510), (900, 1000)];
    assert_eq!(held(&sort(&list)), sorted);
}

#[test]
fn robustness_t6_invalid_blocks_are_ignored() {
    let rows = [
        (210, 200),                 // reversed
        (200, 200),                 // empty
        (100, 200),                 // the octet that is still asked for
        (50, 150),                  // straddles una
        (990, 1001),                // beyond max
        (2000, 2010),               // never sent
        (200, 0x8000_0000 + 300),   // wraps
        (0x5000_0000, 0xa000_0000), // each step "after" the last, all around the circle
        (u32::MAX, 0),              // far below
    ];
    for (start, end) in rows {
        // not first, so that none counts as a duplicate report
        let out = sort(&[(500, 510), (start, end)]);
        assert_eq!((out.held().len(), out.invalid), (1, 1), "{start}..{end}");
    }
}

#[test]
fn rfc_2883_duplicate_reports() {
    type Report = Option<(u32, u32)>;
    let rows: &[(List, Report, List)] = &[
        (&[(50, 60)], Some((50, 60)), &[]),   // below the acknowledgement
        (&[(90, 100)], Some((90, 100)), &[]), // just below
        (&[(50, 60), (200, 210)], Some((50, 60)), &[(200, 210)]),
        (
            &[(200, 210), (190, 300)],
            Some((200, 210)),
            &[(190, 300), (200, 210)],
        ),
        (
            &[(200, 210), (200, 210)],
            Some((200, 210)),
            &[(200, 210), (200, 210)],
        ),
        (&[(200, 210), (205, 300)], None, &[(200, 210), (205, 300)]), // overlaps it only
        (&[(200, 210), (50, 60)], None, &[(200, 210)]), // only the first block can be one
        (&[(60, 50)], None, &[]),
        (&[(200, 210), (190, 1001)], None, &[(200, 210)]), // an invalid second proves nothing
        (&[(0x9000_0000, 0x9000_0010)], None, &[]),        // further below than any window
    ];
    for (list, dsack, expected) in rows {
        let out = sort(list);
        assert_eq!(out.dsack, dsack.map(|(a, b)| (S(a), S(b))), "{list:?}");
        assert_eq!(held(&out), *expected, "{list:?}");
    }
}

/// An acknowledgement that a newer one has overtaken: what it holds behind a hole is by now
/// acknowledged, which is not the same as having come twice.
//= https://www.rfc-editor.org/rfc/rfc2883#section-5
//= type=test
//# An implementation MUST NOT compare the sequence space in the SACK block to the TCP state
//# variable snd.una (which carries the total cumulative ACK), as this may result in the wrong
//# conclusion if ACK packets are reordered.
#[test]
fn an_overtaken_acknowledgement_reports_no_duplicate() {
    let late = |list: &[(u32, u32)]| {
        let list = list.iter().copied().collect();
        Blocks::sort(&list, S(60), (S(100), S(1000)))
    };
    let out = late(&[(80, 100)]);
    assert_eq!((out.dsack, held(&out)), (None, Vec::new()));
    let out = late(&[(80, 90), (200, 210)]);
    assert_eq!((out.dsack, held(&out)), (None, [(200, 210)].to_vec()));
    // below its own number it is a report as ever
    assert_eq!(late(&[(50, 60)]).dsack, Some((S(50), S(60))));
}

#[test]
fn hostile_blocks_at_random() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let una = S(rng.next_u32());
        let max = una + rng.below(5000) as u32;
        let mut near = || match rng.below(4) {
            0 => rng.next_u32(),
            _ => (una + rng.below(6000) as u32 - 500).0,
        };
        let list: SackBlocks = (0..4).map(|_| (near(), near())).collect();
        let out = Blocks::sort(&list, una, (una, max));
        let mut last = 0;
        for &(left, right) in out.held() {
            assert!(una.before(left) && left.before(right) && right.before_eq(max));
            assert!(last <= left - una, "in order");
            last = left - una;
        }
    }
}
