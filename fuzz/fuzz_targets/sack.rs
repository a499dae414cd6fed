//! Selective acknowledgement, both halves of it: octets arrive in any order and any pieces at a
//! receiver that is short of memory, which reports to a sender; a stranger reports too. Claims:
//! the queue holds what a bitmap says; no truthful block is called invalid; and the sender knows
//! what it was told, octet by octet.
#![no_main]

use core::ops::Range;
use core::time::Duration;

use gannet_base::Instant;
use gannet_stack::tcp::assembler::{Assembler, Limits, Memory, Piece};
use gannet_stack::tcp::rack::Rack;
use gannet_stack::tcp::rtt::{RttConfig, RttEstimator};
use gannet_stack::tcp::sack::Blocks;
use gannet_stack::tcp::sack_blocks::SackGenerator;
use gannet_stack::tcp::sent::{Delivery, Sent};
use gannet_stack::tcp::seq::SeqNum;
use gannet_wire::tcp::SackBlocks;
use libfuzzer_sys::fuzz_target;

/// Octets that a life sends at most.
const MOST: usize = 3000;

/// A part of the stream, which knows where it belongs.
struct Part(Range<u32>);

impl Piece for Part {
    fn len(&self) -> u32 {
        self.0.end - self.0.start
    }

    fn trim_front(&mut self, n: u32) {
        self.0.start += n.min(self.len());
    }

    fn trim_back(&mut self, n: u32) {
        self.0.end -= n.min(self.len());
    }

    fn cost(&self) -> u32 {
        256
    }
}

/// Parts have no memory that could be lost.
struct Free;

impl Memory<Part> for Free {
    fn release(&mut self, _: Part) {}

    fn split_off(&mut self, part: &mut Part, at: u32) -> Option<Part> {
        let middle = part.0.start + at;
        let tail = middle..part.0.end;
        part.0.end = middle;
        Some(Part(tail))
    }
}

struct Life {
    first: SeqNum,
    now: Instant,
    /// The sender.
    sent: Sent,
    rack: Rack,
    rtt: RttEstimator,
    una: usize,
    /// What the sender was told, one entry for each octet sent.
    told: Vec<bool>,
    /// The receiver.
    queue: Assembler<Part>,
    reports: SackGenerator,
    /// It threw away what a report that is still to be sent may speak of.
    forgetful: bool,
    next: usize,
    held: [bool; MOST],
}

impl Life {
    fn new(first: u32, pieces: u8) -> Self {
        let first = SeqNum(first);
        Life {
            first,
            now: Instant::from_millis(1000),
            sent: Sent::new(first),
            rack: Rack::new(first),
            rtt: RttEstimator::new(&RttConfig::DEFAULT),
            una: 0,
            told: Vec::new(),
            queue: Assembler::new(Limits {
                pieces: 2 + usize::from(pieces),
                cost: 16 << 10,
            }),
            reports: SackGenerator::new(),
            forgetful: false,
            next: 0,
            held: [false; MOST],
        }
    }

    fn seq(&self, n: usize) -> SeqNum {
        self.first + n as u32
    }

    fn place(&self, seq: SeqNum) -> usize {
        (seq - self.first) as usize
    }

    fn push(&mut self, len: usize) {
        let from = self.told.len();
        let to = (from + len).min(MOST);
        if from < to {
            self.sent.push(
                self.seq(from),
                self.seq(to),
                self.now,
                (to - self.una) as u32,
            );
            self.told.resize(to, false);
        }
    }

    /// Octets of what was sent arrive.
    fn arrive(&mut self, start: usize, len: usize, window: usize) {
        let end = (start + len).min(self.told.len());
        if start >= end {
            return;
        }
        let (next, before) = (self.next, self.queue.buffered_bytes());
        let within = start.max(next)..end.min(next + window).max(start.max(next));
        let new = self.held[within].iter().filter(|held| !**held).count() as u32;
        let piece = Part(start as u32..end as u32);
        let at = (self.seq(next), self.seq(start));
        let done = self
            .queue
            .insert(at.0, window as u32, at.1, piece, &mut Free);
        assert!(done.new_bytes <= new);
        assert!(
            done.refused_bytes >= new - done.new_bytes,
            "lost from the books"
        );
        self.forgetful |= done.evicted_bytes > 0;
        let now = self.queue.buffered_bytes();
        assert_eq!(now + done.evicted_bytes, before + done.new_bytes);
        if let Some(duplicate) = done.duplicate {
            assert!(at.1.before_eq(duplicate.0) && duplicate.1.before_eq(self.seq(end)));
            self.reports.on_duplicate(duplicate);
        } else {
            self.reports.on_arrival(at.1);
        }
        self.take_over(start.max(next)..end);
    }

    /// What is in the queue now was there before or is part of what arrived.
    fn take_over(&mut self, arrived: Range<usize>) {
        let mut held = [false; MOST];
        for (from, to) in self.queue.ranges() {
            held[self.place(from)..self.place(to)].fill(true);
        }
        for (n, is) in held.iter().enumerate() {
            assert!(
                !is || self.held[n] || arrived.contains(&n),
                "octet {n} from nowhere"
            );
        }
        self.held = held;
        while let Some(piece) = self.queue.pop_in_order(self.seq(self.next)) {
            assert_eq!(piece.0.start as usize, self.next, "out of place");
            self.held[self.next..piece.0.end as usize].fill(false);
            self.next = piece.0.end as usize;
        }
        self.queue.invariants(self.seq(self.next));
    }

    fn answer(&mut self, limit: usize) {
        let blocks = self.reports.blocks(&self.queue, limit);
        for &(from, to) in blocks.as_slice() {
            let range = self.place(from)..self.place(to);
            assert!(range.start < range.end && range.end <= self.told.len());
        }
        let given = blocks.as_slice().iter().map(|&(from, to)| (from.0, to.0));
        let invalid = self.hear(self.next, &given.collect());
        let doubted = invalid > 0 && !self.forgetful;
        assert!(!doubted, "the truth was not believed: {blocks:?}");
        self.forgetful = false;
    }

    /// The sender takes an acknowledgement; the count of blocks it calls invalid.
    fn hear(&mut self, ack: usize, given: &SackBlocks) -> u32 {
        let fack = self.rack.fack();
        let mut news = Delivery::new(self.now, Duration::from_millis(1), None, fack);
        let una = self.una.max(ack);
        let new = self.told[self.una..una]
            .iter()
            .filter(|told| !**told)
            .count();
        self.una = una;
        self.sent.acknowledge(self.seq(una), &mut news);
        assert_eq!(news.bytes() as usize, new);
        let max = self.seq(self.told.len());
        let blocks = Blocks::sort(given, self.seq(una), (self.seq(una), max));
        self.sent.expect_blocks(1);
        for &block in blocks.held() {
            let range = self.place(block.0)..self.place(block.1);
            assert!(una < range.start && range.end <= self.told.len());
            self.sent.sack(block, &mut news);
            self.told[range].fill(true);
        }
        if self.sent.reneged() {
            let all = self.sent.forget_sacked(self.seq(una));
            let asked_for = self.told[una..].iter_mut().take_while(|told| **told);
            asked_for.for_each(|told| *told = false);
            if all {
                self.told.fill(false);
            }
        }
        self.rack.on_delivery(&news);
        blocks.invalid
    }

    /// Blocks that nobody sent for a reason: they may say anything.
    fn forged(&mut self, bytes: &[u8]) {
        let edge = |bytes: [u8; 2]| {
            let word = u16::from_be_bytes(bytes);
            let near = self.seq(usize::from(word) % (MOST + 8)).0;
            if word >= 0xe000 {
                near ^ 1 << (word & 31)
            } else {
                near
            }
        };
        let pairs = bytes.as_chunks::<4>().0;
        let blocks = pairs
            .iter()
            .map(|&[a, b, c, d]| (edge([a, b]), edge([c, d])));
        self.hear(self.una, &blocks.collect());
    }

    fn resend(&mut self, whole: bool) {
        let Some((start, len)) = self.sent.next_lost() else {
            return;
        };
        let len = if whole { len } else { len.div_ceil(2) };
        assert!(len > 0 && self.una <= self.place(start));
        self.sent.on_retransmit(start, start + len, self.now, len);
    }

    fn detect(&mut self) {
        if let Some(waiting) = self.rack.waiting(false, &self.rtt, self.now) {
            let found = self.sent.detect(&waiting);
            assert!(found.resent <= found.lost);
        }
    }

    fn check(&self) {
        let (una, max) = (self.seq(self.una), self.seq(self.told.len()));
        self.sent.invariants(una, max);
        let told = self.told[self.una..].iter().filter(|told| **told).count();
        assert_eq!(self.sent.sacked() as usize, told);
        assert!(self.sent.sacked() + self.sent.lost() <= max - una);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[a, b, c, d, pieces], mut rest)) = data.split_first_chunk() else {
        return;
    };
    let mut life = Life::new(u32::from_be_bytes([a, b, c, d]), pieces);
    while let Some((&[what, a, b, len], after)) = rest.split_first_chunk() {
        rest = after;
        let (wide, len) = (u16::from_be_bytes([a, b]), usize::from(len));
        let sent = life.told.len().max(1);
        match what % 16 {
            0..=2 => life.push(1 + len),
            3..=6 => life.arrive(usize::from(wide) % sent, 1 + len, MOST),
            7 => life.arrive(usize::from(wide) % sent, 1 + len, len * 4),
            8 | 9 => life.answer(usize::from(what >> 4) % 5),
            10 => {
                let (blocks, after) = rest.split_at(rest.len().min((1 + len % 4) * 4));
                rest = after;
                life.forged(blocks);
            }
            11 | 12 => life.now += Duration::from_micros(u64::from(wide)),
            13 => life.detect(),
            14 => life.resend(len & 1 == 0),
            _ if len < 16 => life.sent.lose_all(),
            _ if len < 128 => {
                let ago = Duration::from_millis(1);
                let _lost = life.sent.on_timeout(100, ago, life.now);
            }
            _ => life.sent.forgive(),
        }
        life.check();
    }
});
