//! The six examples of RFC 2883 section 4: what a receiver reports, and what a sender makes of it.

use std::vec::Vec;

use super::peer::{ACK, Peer, RST, seg, with_sack};
use crate::tcp::sack::Blocks;
use crate::tcp::seq::SeqNum;

type Range = (u32, u32);

/// A segment that arrives, the first octet and the one behind the last, and the acknowledgement
/// sent: its number and its blocks.
type Step = (Range, u32, &'static [Range]);

struct Example {
    name: &'static str,
    /// Everything below was received and acknowledged.
    from: u32,
    steps: &'static [Step],
    /// The duplicate that the last acknowledgement reports, and what a sender learns from it of
    /// octets above.
    dsack: Range,
    held: &'static [Range],
}

const EXAMPLES: [Example; 6] = [
    Example {
        name: "1: a duplicate segment",
        from: 3000,
        steps: &[
            ((3000, 3500), 3500, &[]),
            ((3500, 4000), 4000, &[]),
            ((3000, 3500), 4000, &[(3000, 3500)]),
        ],
        dsack: (3000, 3500),
        held: &[],
    },
    Example {
        name: "2: an out-of-order segment and a duplicate",
        from: 3000,
        steps: &[
            ((3000, 3500), 3500, &[]),
            ((3500, 4000), 4000, &[]),
            ((4500, 5000), 4000, &[(4500, 5000)]),
            ((3000, 3500), 4000, &[(3000, 3500), (4500, 5000)]),
        ],
        dsack: (3000, 3500),
        held: &[(4500, 5000)],
    },
    Example {
        name: "3: a duplicate of an out-of-order segment",
        from: 3500,
        steps: &[
            ((3500, 4000), 4000, &[]),
            ((4500, 5000), 4000, &[(4500, 5000)]),
            ((5000, 5500), 4000, &[(4500, 5500)]),
            ((5000, 5500), 4000, &[(5000, 5500), (4500, 5500)]),
        ],
        dsack: (5000, 5500),
        held: &[(4500, 5500), (5000, 5500)],
    },
    Example {
        name: "4: a single duplicate subsegment",
        from: 500,
        steps: &[
            ((500, 1000), 1000, &[]),
            ((2000, 2500), 1000, &[(2000, 2500)]),
            ((1000, 1500), 1500, &[(2000, 2500)]),
            ((1000, 2000), 2500, &[(1000, 1500)]),
        ],
        dsack: (1000, 1500),
        held: &[],
    },
    Example {
        name: "5: two duplicate subsegments below the acknowledgement",
        from: 500,
        steps: &[
            ((500, 1000), 1000, &[]),
            ((3000, 3500), 1000, &[(3000, 3500)]),
            ((1000, 1500), 1500, &[(3000, 3500)]),
            ((2000, 2500), 1500, &[(2000, 2500), (3000, 3500)]),
            ((1000, 2500), 2500, &[(1000, 1500), (3000, 3500)]),
        ],
        dsack: (1000, 1500),
        held: &[(3000, 3500)],
    },
    Example {
        name: "6: two duplicate subsegments above the acknowledgement",
        from: 500,
        steps: &[
            ((500, 1000), 1000, &[]),
            ((3500, 4000), 1000, &[(3500, 4000)]),
            ((1500, 2000), 1000, &[(1500, 2000), (3500, 4000)]),
            ((2000, 2500), 1000, &[(1500, 2500), (3500, 4000)]),
            (
                (1500, 3000),
                1000,
                &[(1500, 2500), (1500, 3000), (3500, 4000)],
            ),
        ],
        dsack: (1500, 2500),
        held: &[(1500, 2500), (1500, 3000), (3500, 4000)],
    },
];

/// In example 6 the RFC lists 1500-2000 and 2000-2500 as two blocks, though they touch and
/// RFC 2018 section 3 has a block be what is contiguous: it is one here, and so the first duplicate
/// is all of it.
#[test]
fn rfc_2883_section_4_what_a_receiver_reports() {
    for example in &EXAMPLES {
        reports(example.name, example.from, example.steps);
    }
}

/// A receiver that has got everything below `from` answers `steps` as they say.
fn reports(name: &str, from: u32, steps: &[Step]) {
    let mut p = Peer::active(with_sack());
    let base = from - 1;
    for &((start, end), ack, blocks) in steps {
        let text: Vec<u8> = (start..end).map(|n| n as u8).collect();
        let mut out = p.send(&seg(ACK, start - base, 1).text(&text));
        if out.is_empty() {
            out = p.pass_ms(500).into_iter().map(|(_, s)| s).collect();
        }
        let last = out.last().expect(name);
        let reported = last.options.sack;
        let reported = reported.as_slice().iter();
        let reported: Vec<Range> = reported.map(|&(l, r)| (l + base, r + base)).collect();
        assert_eq!((last.ack + base, &reported[..]), (ack, blocks), "{name}");
    }
}

#[test]
fn rfc_2883_section_4_what_a_sender_learns() {
    for example in &EXAMPLES {
        let (_, ack, blocks) = *example.steps.last().expect("steps");
        let given = blocks.iter().copied().collect();
        let sorted = Blocks::sort(&given, SeqNum(ack), (SeqNum(ack), SeqNum(6000)));
        let (start, end) = example.dsack;
        assert_eq!(
            sorted.dsack,
            Some((SeqNum(start), SeqNum(end))),
            "{}",
            example.name
        );
        let held: Vec<Range> = sorted.held().iter().map(|&(l, r)| (l.0, r.0)).collect();
        assert_eq!(held, example.held, "{}", example.name);
        // what came before reported nothing twice
        for &(_, ack, blocks) in &example.steps[..example.steps.len() - 1] {
            let given = blocks.iter().copied().collect();
            let sorted = Blocks::sort(&given, SeqNum(ack), (SeqNum(ack), SeqNum(6000)));
            assert_eq!(sorted.dsack, None, "{}", example.name);
        }
    }
}

/// What arrives next in order and covers octets that were held above RCV.NXT.
const IN_ORDER: [(&str, &[Step]); 4] = [
    (
        "one island",
        &[
            ((1500, 2000), 1000, &[(1500, 2000)]),
            ((1000, 2000), 2000, &[(1500, 2000)]),
        ],
    ),
    (
        "part of an island",
        &[
            ((1500, 2500), 1000, &[(1500, 2500)]),
            ((1000, 2000), 2500, &[(1500, 2000)]),
        ],
    ),
    (
        "two islands: the first, and one behind them",
        &[
            ((1500, 1600), 1000, &[(1500, 1600)]),
            ((1700, 1800), 1000, &[(1700, 1800), (1500, 1600)]),
            (
                (2500, 2600),
                1000,
                &[(2500, 2600), (1700, 1800), (1500, 1600)],
            ),
            ((1000, 2000), 2000, &[(1500, 1600), (2500, 2600)]),
        ],
    ),
    (
        "octets before RCV.NXT are the first duplicate",
        &[
            ((1000, 1200), 1200, &[]),
            ((1500, 2000), 1200, &[(1500, 2000)]),
            ((1000, 2000), 2000, &[(1000, 1200)]),
        ],
    ),
];

/// RFC 2883 section 4: the duplicate is what the last packet brought again, wherever it lies.
#[test]
fn rfc_2883_section_4_duplicates_of_islands_in_an_in_order_segment() {
    for (name, steps) in IN_ORDER {
        reports(name, 1000, steps);
    }
}

/// RFC 9293 SHLD-31, RFC 2018 section 8: everything of an out-of-order segment that was not there
/// before is held, before islands, between them and behind them.
#[test]
fn rfc_2018_section_8_what_lies_behind_an_island_is_held() {
    let mut p = Peer::active(with_sack());
    let text: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let mut arrive = |from: usize, to: usize| {
        let out = p.send(&seg(ACK, from as u32 + 1, 1).text(&text[from..to]));
        let last = out.last().expect("answered at once");
        let blocks = last.options.sack;
        let blocks = blocks.as_slice().iter();
        let blocks: Vec<Range> = blocks.map(|&(l, r)| (l - 1, r - 1)).collect();
        (last.ack - 1, blocks)
    };
    assert_eq!(arrive(1000, 1100), (0, Vec::from([(1000, 1100)])));
    assert_eq!(
        arrive(1300, 1400),
        (0, Vec::from([(1300, 1400), (1000, 1100)]))
    );
    // over both islands: the first duplicate, then what is one run now
    assert_eq!(
        arrive(500, 1900),
        (0, Vec::from([(1000, 1100), (500, 1900)]))
    );
    assert_eq!(arrive(0, 500), (1900, Vec::new()), "and it is all there");
    assert_eq!(p.read(), &text[..1900]);
    p.close();
    p.send(&seg(RST, 1901, 2));
    p.assert_memory_is_back();
}
