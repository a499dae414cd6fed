//! The sender's scoreboard of selectively acknowledged data (RFC 2018, 2883, 6675).
//!
//! Sorted, disjoint, non-touching ranges strictly above `snd.una`:
//!
//! ```text
//!   una          high_rxt              loss edge                         nxt
//!    |  hole 1      |     [range] hole 2 [range]  hole 3 [range][...]     |
//!    |<-- resent -->|<-- lost, to resend -->|<---- not (yet) lost ------->|
//! ```
//!
//! Why it is cheap. RFC 6675 states `IsLost` and `SetPipe` per octet. Both need only sums:
//! * `IsLost` is monotone: below some edge all un-SACKed octets are lost, above it none. The edge
//!   follows from at most DupThresh ranges counted from the right, so it is O(1).
//! * `pipe` = un-SACKed octets above the edge + un-SACKed octets below `high_rxt`. The first comes
//!   from the same ranges; for the second the SACKed octets below `high_rxt` are kept as a
//!   running sum that every change updates.
//!
//! Finding a place is a binary search; inserting moves at most half of [`MAX_RANGES`] pairs, and
//! nothing at the end, where new ranges usually appear. A thousand tiny holes cost no more than
//! the capacity: what does not fit is ignored (it will be retransmitted needlessly) and counted.

use alloc::collections::VecDeque;

use super::seq::SeqNum;

/// Most ranges remembered.
pub const MAX_RANGES: usize = 256;
/// RFC 5681: duplicate acknowledgements that mean loss.
pub const DUP_THRESH: usize = 3;
/// D-SACK blocks further below `snd.una` than any window reaches are nonsense.
const MAX_WINDOW: u32 = 65_535 << 14;

/// Half-open range of sequence numbers: the first octet and the one after the last.
pub type SeqRange = (SeqNum, SeqNum);

/// What an acknowledgement's SACK option taught us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackOutcome {
    /// Octets not known as received before.
    pub newly_sacked: u32,
    /// The peer reports having received this range twice (RFC 2883).
    pub dsack: Option<SeqRange>,
    /// Blocks ignored: reversed, empty, not above `snd.una`, beyond `snd.nxt`.
    pub invalid: u32,
    /// Valid blocks ignored because the scoreboard is full.
    pub overflow: u32,
}

/// What a cumulative acknowledgement removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advanced {
    /// Octets that had been SACKed before and are now acknowledged. Delivered by this ACK =
    /// octets acknowledged - this + [`SackOutcome::newly_sacked`].
    pub already_sacked: u32,
    /// The octet at `snd.una` had been SACKed: the receiver threw data away. The caller clears
    /// the scoreboard and retransmits from `snd.una`.
    pub reneged: bool,
}

/// Which rule of RFC 6675 `NextSeg` chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextSeg {
    /// Rule 1: a hole known as lost.
    Lost(SeqNum, u32),
    /// Rule 2: send new data from `snd.nxt`.
    NewData,
    /// Rule 3: a hole not yet known as lost.
    NotYetLost(SeqNum, u32),
    /// Rule 4: the rescue retransmission of the last un-SACKed octets.
    Rescue(SeqNum, u32),
}

/// The sender's knowledge of what arrived out of order.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    ranges: VecDeque<SeqRange>,
    /// Sum of the lengths of `ranges`.
    sacked: u32,
    /// First octet not retransmitted in this recovery (HighRxt + 1); `None` outside recovery.
    high_rxt: Option<SeqNum>,
    /// SACKed octets below `high_rxt`.
    sacked_below_rxt: u32,
    /// RescueRxt.
    rescue_rxt: Option<SeqNum>,
}

impl Scoreboard {
    /// Nothing SACKed. Allocates nothing until the first block arrives.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ranges: VecDeque::new(),
            sacked: 0,
            high_rxt: None,
            sacked_below_rxt: 0,
            rescue_rxt: None,
        }
    }

    /// Whether nothing is SACKed.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Octets SACKed above `snd.una`.
    #[must_use]
    pub fn sacked_bytes(&self) -> u32 {
        self.sacked
    }

    /// One past the highest SACKed octet.
    #[must_use]
    pub fn high_sacked(&self) -> Option<SeqNum> {
        self.ranges.back().map(|r| r.1)
    }

    /// The SACKed ranges in order.
    pub fn ranges(&self) -> impl Iterator<Item = SeqRange> + '_ {
        self.ranges.iter().copied()
    }

    /// Forgets what was SACKed and every mark of recovery.
    pub fn clear(&mut self) {
        //= https://www.rfc-editor.org/rfc/rfc2018#section-5
        //# After a retransmit timeout the data sender SHOULD turn off all of the
        //# SACKed bits, since the timeout might indicate that the data receiver
        //# has reneged.
        self.ranges.clear();
        self.sacked = 0;
        self.end_recovery();
    }

    /// Takes in the SACK blocks of an acceptable acknowledgement. `una`, `nxt`: the send window
    /// after the acknowledgement itself was applied with [`advance`](Self::advance).
    pub fn update(&mut self, una: SeqNum, nxt: SeqNum, blocks: &[SeqRange]) -> SackOutcome {
        let mut outcome = SackOutcome::default();
        for (i, &block) in blocks.iter().enumerate() {
            let second = if i == 0 { blocks.get(1).copied() } else { None };
            if i == 0 && is_dsack(block, second, una, nxt) {
                outcome.dsack = Some(block);
                if block.0.before_eq(una) {
                    continue; // nothing in it that is not acknowledged already
                }
            }
            if !in_window(block, una, nxt) {
                outcome.invalid += 1;
                continue;
            }
            match self.add(una, block) {
                Some(new) => outcome.newly_sacked += new,
                None => outcome.overflow += 1,
            }
        }
        outcome
    }

    /// Index of the first range that ends at or after `seq`: the first it could touch.
    fn first_touching(&self, una: SeqNum, seq: SeqNum) -> usize {
        self.ranges.partition_point(|r| r.1 - una < seq - una)
    }

    /// Merges a valid block; returns its new octets, `None` when there is no room for it.
    fn add(&mut self, una: SeqNum, (start, end): SeqRange) -> Option<u32> {
        let first = self.first_touching(una, start);
        let mut merged = (start, end);
        let mut covered = 0;
        let mut covered_below = 0;
        let mut last = first;
        while let Some(&r) = self.ranges.get(last).filter(|r| r.0.before_eq(end)) {
            merged = (merged.0.min(r.0), merged.1.max(r.1));
            covered += r.1 - r.0;
            covered_below += self.below_rxt(r);
            last += 1;
        }
        if last == first {
            if self.ranges.len() >= MAX_RANGES {
                return None;
            }
            self.ranges.insert(first, merged);
        } else {
            if let Some(slot) = self.ranges.get_mut(first) {
                *slot = merged;
            }
            self.ranges.drain(first + 1..last);
        }
        let new = (merged.1 - merged.0) - covered;
        self.sacked += new;
        self.sacked_below_rxt += self.below_rxt(merged) - covered_below;
        Some(new)
    }

    /// Octets of `range` below `high_rxt`.
    fn below_rxt(&self, (start, end): SeqRange) -> u32 {
        match self.high_rxt {
            Some(mark) if start.before(mark) => end.min(mark) - start,
            _ => 0,
        }
    }

    /// `snd.una` moved to `una`: forgets everything below.
    pub fn advance(&mut self, una: SeqNum) -> Advanced {
        let mut out = Advanced::default();
        while let Some(&(start, end)) = self.ranges.front() {
            if una.before(start) {
                break;
            }
            let gone = (start, end.min(una));
            self.sacked -= gone.1 - gone.0;
            self.sacked_below_rxt -= self.below_rxt(gone);
            out.already_sacked += gone.1 - gone.0;
            if una.before(end) {
                // an honest receiver would have acknowledged to `end`
                out.reneged = true;
                if let Some(front) = self.ranges.front_mut() {
                    front.0 = una;
                }
                break;
            }
            self.ranges.pop_front();
        }
        if let Some(mark) = self.high_rxt {
            self.high_rxt = Some(mark.max(una));
        }
        out
    }

    /// Whether a loss recovery is under way.
    pub fn in_recovery(&self) -> bool {
        self.high_rxt.is_some()
    }

    /// Loss recovery begins: nothing has been retransmitted yet.
    pub fn begin_recovery(&mut self, una: SeqNum) {
        self.high_rxt = Some(una);
        self.sacked_below_rxt = 0;
        self.rescue_rxt = None;
    }

    /// Loss recovery is over.
    pub fn end_recovery(&mut self) {
        self.high_rxt = None;
        self.sacked_below_rxt = 0;
        self.rescue_rxt = None;
    }

    /// Octets up to `end` (a hole that [`next_seg`](Self::next_seg) gave, or a part of it) were
    /// retransmitted.
    pub fn on_retransmit(&mut self, una: SeqNum, end: SeqNum) {
        let Some(mark) = self.high_rxt.filter(|m| m.before(end)) else {
            return;
        };
        let mut i = self.first_touching(una, mark);
        while let Some(&(start, stop)) = self.ranges.get(i).filter(|r| r.0.before(end)) {
            self.sacked_below_rxt += stop.min(end) - start.max(mark).min(stop);
            i += 1;
        }
        self.high_rxt = Some(end);
    }

    /// The rescue retransmission was sent; `recovery_point`: `snd.nxt` when recovery began.
    pub fn on_rescue(&mut self, recovery_point: SeqNum) {
        self.rescue_rxt = Some(recovery_point);
    }

    /// Un-SACKed octets before this one are lost (RFC 6675 `IsLost`), and SACKed octets from it on.
    fn loss_edge(&self, una: SeqNum, smss: u32) -> (SeqNum, u32) {
        let mut above = 0;
        for (count, r) in self.ranges.iter().rev().enumerate() {
            above += r.1 - r.0;
            let enough = smss.saturating_mul(DUP_THRESH as u32 - 1);
            if count + 1 >= DUP_THRESH || above > enough {
                return (r.0, above);
            }
        }
        (una, self.sacked)
    }

    /// RFC 6675 `IsLost` for an un-SACKed octet: DupThresh separate ranges, or more than
    /// (DupThresh - 1) * SMSS octets, have been SACKed above it.
    #[must_use]
    pub fn is_lost(&self, una: SeqNum, seq: SeqNum, smss: u32) -> bool {
        seq.before(self.loss_edge(una, smss).0)
    }

    /// RFC 6675 `SetPipe`: estimate of the octets in the network between `una` and `nxt`.
    #[must_use]
    pub fn pipe(&self, una: SeqNum, nxt: SeqNum, smss: u32) -> u32 {
        let (edge, sacked_above) = self.loss_edge(una, smss);
        let not_lost = (nxt.max(edge) - edge).saturating_sub(sacked_above);
        let resent = self
            .high_rxt
            .map_or(0, |mark| (mark - una) - self.sacked_below_rxt);
        not_lost.saturating_add(resent)
    }

    /// RFC 6675 `NextSeg` rules 1 to 4. A returned hole may be longer than a segment; the caller
    /// sends a prefix of it and reports that with [`on_retransmit`](Self::on_retransmit) (rule 4:
    /// [`on_rescue`](Self::on_rescue)). `new_data`: unsent data exists and the peer's window takes
    /// it.
    #[must_use]
    pub fn next_seg(&self, una: SeqNum, nxt: SeqNum, smss: u32, new_data: bool) -> Option<NextSeg> {
        let hole = self.next_hole(una);
        if let Some((start, len)) = hole.filter(|h| self.is_lost(una, h.0, smss)) {
            return Some(NextSeg::Lost(start, len));
        }
        if new_data {
            return Some(NextSeg::NewData);
        }
        if let Some((start, len)) = hole {
            return Some(NextSeg::NotYetLost(start, len));
        }
        self.rescue(una, nxt, smss)
    }

    /// The first un-SACKed octets from `high_rxt` on and below the highest SACKed octet.
    fn next_hole(&self, una: SeqNum) -> Option<(SeqNum, u32)> {
        let from = self.high_rxt.unwrap_or(una).max(una);
        let i = self.first_touching(una, from);
        let &(start, end) = self.ranges.get(i)?;
        if from.before(start) {
            return Some((from, start - from));
        }
        // `from` lies in (or at the end of) this range: the hole is behind it
        let &(next, _) = self.ranges.get(i + 1)?;
        Some((end, next - end))
    }

    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# If the conditions for (1), (2), and (3) fail, but there exists
    //# outstanding unSACKed data, we provide the opportunity for a single
    //# "rescue" retransmission per entry into loss recovery.
    /// Rule 4, which spares a time-out: at most one segment, with the highest un-SACKed octet.
    fn rescue(&self, una: SeqNum, nxt: SeqNum, smss: u32) -> Option<NextSeg> {
        if self.high_rxt.is_none() || self.rescue_rxt.is_some_and(|r| una.before_eq(r)) {
            return None;
        }
        // the last hole: behind the highest range, or (when that ends at nxt) before it
        let mut hole_end = nxt;
        let mut hole_start = una;
        for &(start, end) in self.ranges.iter().rev() {
            if end != hole_end {
                hole_start = end;
                break;
            }
            hole_end = start;
        }
        let len = (hole_end - hole_start).min(smss);
        (len > 0).then(|| NextSeg::Rescue(hole_end - len, len))
    }

    /// Panics when the structure is inconsistent. For tests, after every change.
    pub fn invariants(&self, una: SeqNum, nxt: SeqNum) {
        let mut at = una;
        let mut sum = 0;
        let mut below = 0;
        for &(start, end) in &self.ranges {
            assert!(at.before(start) && in_window((start, end), una, nxt));
            at = end;
            sum += end - start;
            below += self.below_rxt((start, end));
        }
        assert_eq!(sum, self.sacked);
        assert_eq!(below, self.sacked_below_rxt);
        assert!(self.ranges.len() <= MAX_RANGES);
    }
}

/// Whether a block is a non-empty part of `(una, nxt]`. Distances from `una`, not pairwise
/// comparisons: each of three numbers can be "before" the next all around the circle. A block
/// that starts at `una` would mean that the receiver holds the very octet it still asks for.
fn in_window((start, end): SeqRange, una: SeqNum, nxt: SeqNum) -> bool {
    start != una && start - una < end - una && end - una <= nxt - una
}

/// RFC 2883 section 4: the first block is a duplicate report if the cumulative acknowledgement
/// covers it, or if the second block contains it.
fn is_dsack(first: SeqRange, second: Option<SeqRange>, una: SeqNum, nxt: SeqNum) -> bool {
    let (start, end) = first;
    let below = una - start;
    let acknowledged = start != end && below <= MAX_WINDOW && end - start <= below;
    let contained = second.is_some_and(|outer| {
        in_window(outer, una, nxt)
            && in_window(first, una, nxt)
            && outer.0.before_eq(start)
            && end.before_eq(outer.1)
    });
    acknowledged || contained
}

#[cfg(test)]
mod tests;
