//! RFC 2018 section 4; RFC 2883 section 4.
extern crate std;
use super::super::assembler::{Limits, Memory};
use super::*;
use std::vec::Vec;

/// A piece that is only a length.
struct Span(u32);

impl Piece for Span {
    fn len(&self) -> u32 {
        self.0
    }

    fn trim_front(&mut self, n: u32) {
        self.0 = self.0.saturating_sub(n);
    }

    fn trim_back(&mut self, n: u32) {
        self.0 = self.0.saturating_sub(n);
    }

    fn cost(&self) -> u32 {
        0
    }
}

/// What a receiver at `rcv.nxt` 0 reports after each arrival `(start, end)`.
struct Receiver {
    queue: Assembler<Span>,
    generator: SackGenerator,
}

/// Pieces without memory.
struct Nothing;

impl Memory<Span> for Nothing {
    fn release(&mut self, _: Span) {}

    fn split_off(&mut self, _: &mut Span, _: u32) -> Option<Span> {
        None
    }
}

impl Receiver {
    fn new() -> Self {
        Self {
            queue: Assembler::new(Limits::DEFAULT),
            generator: SackGenerator::new(),
        }
    }

    fn arrive(&mut self, start: u32, end: u32, limit: usize) -> Vec<(u32, u32)> {
        let piece = Span(end.wrapping_sub(start));
        let seq = SeqNum(start);
        let out = self
            .queue
            .insert(SeqNum(0), 100_000, seq, piece, &mut Nothing);
        if out.new_bytes > 0 {
            self.generator.on_arrival(seq);
        }
        if let Some(duplicate) = out.duplicate {
            self.generator.on_duplicate(duplicate);
        }
        self.report(limit)
    }

    fn report(&mut self, limit: usize) -> Vec<(u32, u32)> {
        let blocks = self.generator.blocks(&self.queue, limit);
        blocks.as_slice().iter().map(|r| (r.0.0, r.1.0)).collect()
    }
}

//= https://www.rfc-editor.org/rfc/rfc2883#section-2
//= type=test
//# MUST specify the contiguous block of data containing the segment which triggered this ACK,
//# unless that segment advanced the Acknowledgment Number field in the header."
//= https://www.rfc-editor.org/rfc/rfc2018#section-8
//= type=test
//# The first SACK block MUST reflect the newest segment.
//= https://www.rfc-editor.org/rfc/rfc2018#section-4
//= type=test
//# The first SACK block (i.e., the one immediately following the kind and length fields in the
//# option) MUST specify the contiguous block of data containing the segment which triggered this
//# ACK, unless that segment advanced the Acknowledgment Number field in the header.
#[test]
fn section_4_the_triggering_block_comes_first_then_the_most_recent() {
    let mut r = Receiver::new();
    assert_eq!(r.arrive(100, 200, 3), [(100, 200)]);
    assert_eq!(r.arrive(300, 400, 3), [(300, 400), (100, 200)]);
    assert_eq!(r.arrive(500, 600, 3), [(500, 600), (300, 400), (100, 200)]);
    assert_eq!(r.arrive(700, 800, 3), [(700, 800), (500, 600), (300, 400)]);
    assert_eq!(r.arrive(200, 250, 3), [(100, 250), (700, 800), (500, 600)]);
    assert_eq!(
        r.arrive(250, 300, 4),
        [(100, 400), (700, 800), (500, 600)],
        "merged: once"
    );
    assert_eq!(
        r.report(4),
        [(100, 400), (700, 800), (500, 600)],
        "and again"
    );
    assert_eq!(r.report(0), []);
}

#[test]
fn section_4_as_many_distinct_blocks_as_possible() {
    let mut r = Receiver::new();
    for start in [100, 300] {
        r.arrive(start, start + 10, 4);
    }
    // more arrivals in one range than are remembered
    for i in 0..20 {
        let blocks = r.arrive(1000 + i * 10, 1010 + i * 10, 4);
        assert_eq!(blocks.len(), 3, "{blocks:?}");
        assert_eq!(blocks[0], (1000, 1010 + i * 10));
    }
}

#[test]
fn rfc_2883_section_4_duplicates() {
    let mut r = Receiver::new();
    // below the cumulative acknowledgement, with nothing queued
    assert_eq!(r.arrive(u32::MAX - 9, 0, 3), [(u32::MAX - 9, 0)]);
    assert!(!r.generator.has_dsack());
    assert_eq!(r.report(3), [], "reported once");
    // inside a larger queued block: that block is second
    r.arrive(100, 300, 3);
    r.arrive(500, 600, 3);
    assert_eq!(r.arrive(150, 200, 3), [(150, 200), (100, 300), (500, 600)]);
    // exactly a queued block: both are listed
    assert_eq!(r.arrive(500, 600, 3), [(500, 600), (500, 600), (100, 300)]);
    assert_eq!(r.report(3), [(500, 600), (100, 300)]);
}

//= https://www.rfc-editor.org/rfc/rfc2018#section-8
//= type=test
//# Except for the newest segment, all SACK blocks MUST NOT report any old data which is no longer
//# actually held by the receiver.
#[test]
fn delivered_ranges_are_forgotten() {
    let mut r = Receiver::new();
    r.arrive(100, 200, 3);
    r.arrive(300, 400, 3);
    assert_eq!(r.queue.pop_in_order(SeqNum(100)).map(|p| p.0), Some(100));
    assert_eq!(r.report(3), [(300, 400)]);
    r.queue.pop_in_order(SeqNum(300));
    assert_eq!(r.report(3), []);
    assert_eq!((blocks_that_fit(true), blocks_that_fit(false)), (3, 4));
}
