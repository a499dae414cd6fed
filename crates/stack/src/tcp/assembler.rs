//! Receive reassembly: pieces that arrived before the octets in front of them.
//!
//! Two sorted queues. `pieces` holds what arrived, with the memory it refers to; pieces never
//! overlap. `runs` holds the contiguous ranges they form, which is what SACK wants to know and
//! what decides whether an octet is there: with 1,000 one-octet pieces in a row there is one run.
//!
//! ```text
//!   rcv.nxt      [piece][piece]      [piece]
//!      |  hole   [--- run 0 --]      [run 1]
//! ```
//!
//! Rules: the first copy of an octet wins and later ones are thrown away, so a forged overlap
//! cannot replace what an application will read; every piece not kept goes back to the caller
//! through the `release` closure, so no memory is lost. A place is found by binary search in both
//! queues and made by moving at most half of [`Limits::pieces`] entries. (A balanced tree would
//! avoid the move but costs an allocation per piece; the move is bounded by the limit.)
//!
//! When a limit is reached the piece furthest from `rcv.nxt` gives way, so the data that lets the
//! connection progress is always taken. This can discard SACKed data (reneging), which
//! RFC 2018 section 8 allows for want of memory.

use alloc::collections::VecDeque;

use super::sack::SeqRange;
use super::seq::SeqNum;

/// Received octets in some memory, that can be made shorter.
pub trait Piece: Sized {
    /// Octets.
    fn len(&self) -> u32;

    /// Whether no octet is left.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the first `n` octets, all of them if there are fewer.
    fn trim_front(&mut self, n: u32);

    /// Removes the last `n` octets, all of them if there are fewer.
    fn trim_back(&mut self, n: u32);

    /// Bytes of memory held, overhead included. Must not change while the piece is queued.
    fn cost(&self) -> u32;

    /// Cuts at `at` (`0 < at < len`) and returns the tail, if the memory can be shared. `None`
    /// leaves `self` whole; what lies behind an octet we already have is then dropped.
    fn split_off(&mut self, at: u32) -> Option<Self> {
        let _ = at;
        None
    }
}

/// What a queue may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pieces.
    pub pieces: usize,
    /// Sum of [`Piece::cost`], bytes.
    pub cost: u32,
}

impl Limits {
    /// 1024 pieces, 16 MiB.
    pub const DEFAULT: Limits = Limits {
        pieces: 1024,
        cost: 16 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What [`Assembler::insert`] did with a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Octets kept that were not there before.
    pub new_bytes: u32,
    /// First contiguous range of octets that were there before (for D-SACK).
    pub duplicate: Option<SeqRange>,
    /// Octets that were new and in the window but not kept: a limit was reached, or they lay
    /// behind an overlap of a piece that cannot be split. The peer will send them again.
    pub refused_bytes: u32,
    /// Octets beyond the window, cut off.
    pub beyond_window: u32,
    /// Octets queued before that had to give way to nearer ones.
    pub evicted_bytes: u32,
}

#[derive(Debug)]
struct Entry<T> {
    start: SeqNum,
    end: SeqNum,
    cost: u32,
    piece: T,
}

/// Out-of-order pieces above `rcv.nxt`.
#[derive(Debug)]
pub struct Assembler<T> {
    pieces: VecDeque<Entry<T>>,
    runs: VecDeque<SeqRange>,
    bytes: u32,
    cost: u32,
    limits: Limits,
}

/// An emptied queue keeps at most this much capacity, so that 10,000 connections which once saw
/// loss do not hold memory for it.
const KEEP_CAPACITY: usize = 32;

impl<T: Piece> Assembler<T> {
    /// An empty queue. Allocates nothing until a piece arrives.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            pieces: VecDeque::new(),
            runs: VecDeque::new(),
            bytes: 0,
            cost: 0,
            limits,
        }
    }

    /// Whether nothing waits. In-order segments may bypass the queue only then.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Octets waiting.
    #[must_use]
    pub fn buffered_bytes(&self) -> u32 {
        self.bytes
    }

    /// Memory held by waiting pieces, bytes.
    #[must_use]
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Number of waiting pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Changes the memory limit (the receive buffer grew). Takes effect at the next insertion.
    pub fn set_cost_limit(&mut self, cost: u32) {
        self.limits.cost = cost;
    }

    /// The first octet waiting.
    pub fn start(&self) -> Option<SeqNum> {
        self.runs.front().map(|r| r.0)
    }

    /// Behind the last octet waiting.
    #[must_use]
    pub fn end(&self) -> Option<SeqNum> {
        self.runs.back().map(|r| r.1)
    }

    /// The contiguous ranges waiting, in order.
    pub fn ranges(&self) -> impl Iterator<Item = SeqRange> + '_ {
        self.runs.iter().copied()
    }

    /// The contiguous range around `seq`.
    #[must_use]
    pub fn range_containing(&self, seq: SeqNum) -> Option<SeqRange> {
        let i = self.runs.partition_point(|r| r.1.before_eq(seq));
        self.runs.get(i).copied().filter(|r| r.0.before_eq(seq))
    }

    /// Queues the octets of `piece`, which start at `seq`, as far as they are new and lie in
    /// `[rcv_nxt, rcv_nxt + window)`. Afterwards call [`pop_in_order`](Self::pop_in_order) until
    /// it gives nothing. `release` gets every piece that is not kept.
    pub fn insert(
        &mut self,
        rcv_nxt: SeqNum,
        window: u32,
        seq: SeqNum,
        mut piece: T,
        release: &mut impl FnMut(T),
    ) -> Inserted {
        let mut out = Inserted::default();
        let start = clip_to_window(rcv_nxt, window, seq, &mut piece, &mut out);
        let mut rest = Some((start, piece));
        while let Some((start, mut piece)) = rest.take() {
            // an octet of the first run that ends behind `start`
            let i = self.runs.partition_point(|r| r.1.before_eq(start));
            let mut start = start;
            let mut next = i;
            if let Some(&(from, to)) = self.runs.get(i)
                && from.before_eq(start)
                && !piece.is_empty()
            {
                let known = (to - start).min(piece.len());
                out.duplicate.get_or_insert((start, start + known));
                if !planted!(OverlapTwice) {
                    piece.trim_front(known);
                }
                start += known;
                next = i + 1;
            }
            if piece.is_empty() {
                if !planted!(IslandLeaked) {
                    release(piece);
                }
                break;
            }
            if let Some(&(from, to)) = self.runs.get(next)
                && from.before(start + piece.len())
            {
                let fits = from - start;
                let end = start + piece.len();
                out.duplicate.get_or_insert((from, to.min(end)));
                match piece.split_off(fits) {
                    Some(tail) => rest = Some((from, tail)),
                    None => {
                        out.refused_bytes += self.unknown_octets(next, from, end);
                        piece.trim_back(piece.len() - fits);
                    }
                }
            }
            self.place(start, piece, &mut out, release);
        }
        out
    }

    /// Octets of `[from, end)` outside the runs from index `i` on; stops after a few runs, since
    /// the number only feeds a counter.
    fn unknown_octets(&self, i: usize, from: SeqNum, end: SeqNum) -> u32 {
        let known: u32 = self
            .runs
            .iter()
            .skip(i)
            .take(8)
            .take_while(|r| r.0.before(end))
            .map(|r| r.1.min(end) - r.0)
            .sum();
        (end - from).saturating_sub(known)
    }

    /// Stores a piece whose octets are all new.
    fn place(&mut self, start: SeqNum, piece: T, out: &mut Inserted, release: &mut impl FnMut(T)) {
        let (end, cost) = (start + piece.len(), piece.cost());
        if !self.make_room(start, cost, out, release) {
            out.refused_bytes += piece.len();
            release(piece);
            return;
        }
        let at = self.pieces.partition_point(|e| e.start.before(start));
        self.pieces.insert(
            at,
            Entry {
                start,
                end,
                cost,
                piece,
            },
        );
        self.bytes += end - start;
        self.cost += cost;
        out.new_bytes += end - start;
        self.add_run(start, end);
    }

    /// Evicts pieces behind `start` until a piece of `cost` fits; `false` if it never will.
    fn make_room(
        &mut self,
        start: SeqNum,
        cost: u32,
        out: &mut Inserted,
        release: &mut impl FnMut(T),
    ) -> bool {
        let fits = |s: &Self| {
            s.pieces.len() < s.limits.pieces
                && s.cost.checked_add(cost).is_some_and(|c| c <= s.limits.cost)
        };
        while !fits(self) {
            match self.pieces.back() {
                Some(last) if start.before(last.start) => {}
                // Alone in the queue it may exceed the memory limit: without this a limit
                // smaller than one piece would stop the connection for ever.
                None => return self.limits.pieces > 0,
                Some(_) => return false,
            }
            if let Some(last) = self.pieces.pop_back() {
                self.bytes -= last.end - last.start;
                self.cost -= last.cost;
                out.evicted_bytes += last.end - last.start;
                match self.runs.back_mut() {
                    Some(run) if run.0.before(last.start) => run.1 = last.start,
                    _ => drop(self.runs.pop_back()),
                }
                release(last.piece);
            }
        }
        true
    }

    /// Adds new octets to the runs, joining neighbours they touch.
    fn add_run(&mut self, start: SeqNum, end: SeqNum) {
        let i = self.runs.partition_point(|r| r.1.before(start));
        let joins_left = self.runs.get(i).is_some_and(|r| r.1 == start);
        let right = if joins_left { i + 1 } else { i };
        let joins_right = self.runs.get(right).is_some_and(|r| r.0 == end);
        match (joins_left, joins_right) {
            (false, false) => self.runs.insert(i, (start, end)),
            (true, false) => self.runs[i].1 = end,
            (false, true) => self.runs[i].0 = start,
            (true, true) => {
                self.runs[i].1 = self.runs[i + 1].1;
                self.runs.remove(i + 1);
            }
        }
    }

    /// The piece that starts at `rcv_nxt`, if it is there; the caller then advances `rcv_nxt` by
    /// its length. If `rcv_nxt` was advanced without this queue, octets below it are cut off, and a
    /// piece that has none left comes out empty.
    pub fn pop_in_order(&mut self, rcv_nxt: SeqNum) -> Option<T> {
        if self.pieces.front()?.start.after(rcv_nxt) {
            return None;
        }
        let mut first = self.pieces.pop_front()?;
        self.bytes -= first.end - first.start;
        self.cost -= first.cost;
        match self.runs.front_mut() {
            Some(run) if run.1.after(first.end) => run.0 = first.end,
            _ => drop(self.runs.pop_front()),
        }
        if self.pieces.is_empty() {
            self.pieces.shrink_to(KEEP_CAPACITY);
            self.runs.shrink_to(KEEP_CAPACITY);
        }
        let stale = (rcv_nxt - first.start).min(first.piece.len());
        if stale > 0 {
            first.piece.trim_front(stale);
        }
        Some(first.piece)
    }

    /// Empties the queue.
    pub fn clear(&mut self, release: &mut impl FnMut(T)) {
        for entry in core::mem::take(&mut self.pieces) {
            release(entry.piece);
        }
        self.runs = VecDeque::new();
        self.bytes = 0;
        self.cost = 0;
    }

    /// Panics when the structure is inconsistent. For tests, after every change.
    pub fn invariants(&self, rcv_nxt: SeqNum) {
        let mut at = rcv_nxt;
        let (mut bytes, mut cost) = (0, 0);
        let mut runs: VecDeque<SeqRange> = VecDeque::new();
        for e in &self.pieces {
            assert!(at.before_eq(e.start) && e.start.before(e.end));
            assert_eq!(e.end - e.start, e.piece.len());
            match runs.back_mut() {
                Some(run) if run.1 == e.start => run.1 = e.end,
                _ => runs.push_back((e.start, e.end)),
            }
            at = e.end;
            bytes += e.end - e.start;
            cost += e.cost;
        }
        assert_eq!(runs, self.runs);
        assert_eq!((bytes, cost), (self.bytes, self.cost));
        assert!(self.pieces.len() <= self.limits.pieces);
        assert!(self.pieces.len() <= 1 || self.cost <= self.limits.cost);
    }
}

/// Cuts off what lies outside `[rcv_nxt, rcv_nxt + window)`; returns where the piece now starts.
fn clip_to_window<T: Piece>(
    rcv_nxt: SeqNum,
    window: u32,
    seq: SeqNum,
    piece: &mut T,
    out: &mut Inserted,
) -> SeqNum {
    let mut start = seq;
    if seq.before(rcv_nxt) {
        let old = (rcv_nxt - seq).min(piece.len());
        if old > 0 {
            out.duplicate = Some((seq, seq + old));
            piece.trim_front(old);
        }
        start = rcv_nxt;
    }
    let room = window.saturating_sub(start - rcv_nxt);
    if piece.len() > room {
        out.beyond_window = piece.len() - room;
        piece.trim_back(out.beyond_window);
    }
    start
}

#[cfg(test)]
mod tests;
