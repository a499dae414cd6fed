//! Receive reassembly: pieces that arrived before the octets in front of them.
//!
//! Two sorted maps. `pieces` holds what arrived, with the memory it refers to; pieces never
//! overlap. `runs` holds the contiguous ranges they form, which is what SACK wants to know and
//! what decides whether an octet is there: with 1,000 one-octet pieces in a row there is one run.
//!
//! ```text
//!   rcv.nxt      [piece][piece]      [piece]
//!      |  hole   [--- run 0 --]      [run 1]
//! ```
//!
//! Rules: the first copy of an octet wins and later ones are thrown away, so a forged overlap
//! cannot replace what an application will read; every piece not kept goes back to its memory, so
//! that none is lost. Whatever one piece takes is logarithmic in
//! the number of pieces. Both maps are sorted by the place in the stream in 64 bits, which, other
//! than sequence numbers, never comes round again.
//!
//! When a limit is reached the piece furthest from `rcv.nxt` gives way, so the data that lets the
//! connection progress is always taken. This can discard SACKed data (reneging), which
//! RFC 2018 section 8 allows for want of memory.

use alloc::collections::BTreeMap;

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
}

/// The memory that pieces refer to.
pub trait Memory<T> {
    /// Takes back a piece that is not kept.
    fn release(&mut self, piece: T);

    /// Cuts `piece` at `at` (`0 < at < len`) and returns the tail, if the memory can be shared.
    /// `None` leaves it whole; what lies behind an octet we already have is then dropped.
    fn split_off(&mut self, piece: &mut T, at: u32) -> Option<T>;
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

/// A place in the stream.
type Place = u64;

#[derive(Debug)]
struct Entry<T> {
    end: Place,
    cost: u32,
    piece: T,
}

/// Out-of-order pieces above `rcv.nxt`.
#[derive(Debug)]
pub struct Assembler<T> {
    /// By where they start.
    pieces: BTreeMap<Place, Entry<T>>,
    /// Where contiguous ranges start, and where they end.
    runs: BTreeMap<Place, Place>,
    /// `rcv.nxt` when it was last told, and its place.
    nxt: SeqNum,
    at: Place,
    bytes: u32,
    cost: u32,
    limits: Limits,
}

/// Where the first octet of a stream stands: what comes before it has a place, too.
const ORIGIN: Place = 1 << 32;

impl<T: Piece> Assembler<T> {
    /// An empty queue. Allocates nothing until a piece arrives.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            pieces: BTreeMap::new(),
            runs: BTreeMap::new(),
            nxt: SeqNum(0),
            at: ORIGIN,
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
        let (&start, _) = self.runs.first_key_value()?;
        Some(self.seq(start))
    }

    /// Behind the last octet waiting.
    #[must_use]
    pub fn end(&self) -> Option<SeqNum> {
        let (_, &end) = self.runs.last_key_value()?;
        Some(self.seq(end))
    }

    /// The contiguous ranges waiting, in order.
    pub fn ranges(&self) -> impl Iterator<Item = SeqRange> + '_ {
        let runs = self.runs.iter();
        runs.map(|(&start, &end)| (self.seq(start), self.seq(end)))
    }

    /// The contiguous range around `seq`.
    #[must_use]
    pub fn range_containing(&self, seq: SeqNum) -> Option<SeqRange> {
        let (start, end) = self.run_around(self.place(seq))?;
        Some((self.seq(start), self.seq(end)))
    }

    /// The place of what lies within 2^31 octets of `rcv.nxt`.
    fn place(&self, seq: SeqNum) -> Place {
        self.at.wrapping_add_signed(seq.since(self.nxt).into())
    }

    fn seq(&self, place: Place) -> SeqNum {
        self.nxt + place.wrapping_sub(self.at) as u32
    }

    /// `rcv.nxt` is here now.
    fn advance(&mut self, rcv_nxt: SeqNum) {
        let start = match self.pieces.is_empty() {
            true => ORIGIN,
            false => self.place(rcv_nxt),
        };
        (self.nxt, self.at) = (rcv_nxt, start);
    }

    fn run_around(&self, place: Place) -> Option<(Place, Place)> {
        let (&start, &end) = self.runs.range(..=place).next_back()?;
        (end > place).then_some((start, end))
    }

    /// Queues the octets of `piece`, which start at `seq`, as far as they are new and lie in
    /// `[rcv_nxt, rcv_nxt + window)`. Afterwards call [`pop_in_order`](Self::pop_in_order) until
    /// it gives nothing. `memory` gets back every piece that is not kept.
    pub fn insert(
        &mut self,
        rcv_nxt: SeqNum,
        window: u32,
        seq: SeqNum,
        mut piece: T,
        memory: &mut impl Memory<T>,
    ) -> Inserted {
        let mut out = Inserted::default();
        self.advance(rcv_nxt);
        let start = clip_to_window(rcv_nxt, window, seq, &mut piece, &mut out);
        let mut rest = Some((self.place(start), piece));
        while let Some((mut start, mut piece)) = rest.take() {
            if let Some((_, to)) = self.run_around(start).filter(|_| !piece.is_empty()) {
                let known = ((to - start) as u32).min(piece.len());
                self.note_duplicate(&mut out, start, start + u64::from(known));
                if !planted!(OverlapTwice) {
                    piece.trim_front(known);
                }
                start += u64::from(known);
            }
            if piece.is_empty() {
                if !planted!(IslandLeaked) {
                    memory.release(piece);
                }
                break;
            }
            let end = start + u64::from(piece.len());
            if let Some((&from, &to)) = self.runs.range(start..end).next() {
                self.note_duplicate(&mut out, from, to.min(end));
                let fits = (from - start) as u32;
                match memory.split_off(&mut piece, fits) {
                    Some(tail) => rest = Some((from, tail)),
                    None => {
                        out.refused_bytes += self.unknown_octets(from, end);
                        piece.trim_back(piece.len() - fits);
                    }
                }
            }
            self.put(start, piece, &mut out, memory);
        }
        out
    }

    fn note_duplicate(&self, out: &mut Inserted, from: Place, to: Place) {
        if out.duplicate.is_none() {
            out.duplicate = Some((self.seq(from), self.seq(to)));
        }
    }

    /// Octets of `[from, end)` outside the runs; stops after a few runs, since the number only
    /// feeds a counter.
    fn unknown_octets(&self, from: Place, end: Place) -> u32 {
        let runs = self.runs.range(from..end).take(8);
        let known: u64 = runs.map(|(&left, &right)| right.min(end) - left).sum();
        (end - from).saturating_sub(known) as u32
    }

    /// Stores a piece whose octets are all new.
    fn put(&mut self, start: Place, piece: T, out: &mut Inserted, memory: &mut impl Memory<T>) {
        let (len, cost) = (piece.len(), piece.cost());
        if !self.make_room(start, cost, out, memory) {
            out.refused_bytes += len;
            memory.release(piece);
            return;
        }
        let end = start + u64::from(len);
        let entry = Entry { end, cost, piece };
        let overlapped = self.pieces.insert(start, entry);
        if let Some(entry) = overlapped.filter(|_| planted!(OverlapTwice)) {
            memory.release(entry.piece);
        }
        self.bytes += len;
        self.cost += cost;
        out.new_bytes += len;
        self.add_run(start, end);
    }

    /// Evicts pieces behind `start` until a piece of `cost` fits; `false` if it never will.
    fn make_room(
        &mut self,
        start: Place,
        cost: u32,
        out: &mut Inserted,
        memory: &mut impl Memory<T>,
    ) -> bool {
        let fits = |s: &Self| {
            s.pieces.len() < s.limits.pieces
                && s.cost.checked_add(cost).is_some_and(|c| c <= s.limits.cost)
        };
        while !fits(self) {
            let Some(last) = self.pieces.last_entry() else {
                // Alone in the queue it may exceed the memory limit: without this a limit
                // smaller than one piece would stop the connection for ever.
                return self.limits.pieces > 0;
            };
            if *last.key() <= start {
                return false;
            }
            let (from, last) = last.remove_entry();
            let len = (last.end - from) as u32;
            self.bytes -= len;
            self.cost -= last.cost;
            out.evicted_bytes += len;
            if let Some(mut run) = self.runs.last_entry() {
                if *run.key() < from {
                    *run.get_mut() = from;
                } else {
                    run.remove();
                }
            }
            memory.release(last.piece);
        }
        true
    }

    /// Adds new octets to the runs, joining neighbours they touch.
    fn add_run(&mut self, start: Place, mut end: Place) {
        if let Some(right) = self.runs.remove(&end) {
            end = right;
        }
        match self.runs.range_mut(..start).next_back() {
            Some((_, left)) if *left == start => *left = end,
            _ => drop(self.runs.insert(start, end)),
        }
    }

    /// The piece that starts at `rcv_nxt`, if it is there; the caller then advances `rcv_nxt` by
    /// its length. If `rcv_nxt` was advanced without this queue (do so only while it is empty),
    /// octets below it are cut off, and a piece that has none left comes out empty.
    pub fn pop_in_order(&mut self, rcv_nxt: SeqNum) -> Option<T> {
        self.advance(rcv_nxt);
        let first = self.pieces.first_entry()?;
        if *first.key() > self.at {
            return None;
        }
        let (start, mut first) = first.remove_entry();
        self.bytes -= (first.end - start) as u32;
        self.cost -= first.cost;
        if let Some((_, end)) = self.runs.pop_first()
            && end > first.end
        {
            self.runs.insert(first.end, end);
        }
        let stale = ((self.at - start) as u32).min(first.piece.len());
        if stale > 0 {
            first.piece.trim_front(stale);
        }
        Some(first.piece)
    }

    /// Empties the queue.
    pub fn clear(&mut self, memory: &mut impl Memory<T>) {
        for entry in core::mem::take(&mut self.pieces).into_values() {
            memory.release(entry.piece);
        }
        self.runs.clear();
        self.bytes = 0;
        self.cost = 0;
    }

    /// Panics when the structure is inconsistent. For tests, after every change.
    pub fn invariants(&self, rcv_nxt: SeqNum) {
        let mut at = self.place(rcv_nxt);
        let (mut bytes, mut cost) = (0, 0);
        let mut runs: BTreeMap<Place, Place> = BTreeMap::new();
        for (&start, e) in &self.pieces {
            assert!(at <= start && start < e.end);
            assert_eq!(e.end - start, u64::from(e.piece.len()));
            match runs.last_entry() {
                Some(mut run) if *run.get() == start => drop(run.insert(e.end)),
                _ => drop(runs.insert(start, e.end)),
            }
            at = e.end;
            bytes += e.piece.len();
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
