//! SACK blocks and retransmissions change what became of a range.

use gannet_base::Instant;

use super::super::seq::SeqNum;
use super::{Again, CUTS, Delivery, FORGOTTEN_FOR_EACH, Fate, MAX_RECORDS, MOVES, Record};
use super::{Sent, SeqRange};

impl Sent {
    /// The blocks of another acknowledgement come, while `segments` full-sized ones are in flight.
    ///
    /// An honest peer's blocks begin and end where segments do, so so many cuts are enough; one
    /// that reports every other octet must not make us keep a record for each (CVE-2019-11478),
    /// and make room in the middle of thousands for every block.
    pub fn expect_blocks(&mut self, segments: u32) {
        let (least, most) = CUTS;
        let some = segments.saturating_mul(4).saturating_add(u32::from(least));
        self.cuts = u16::try_from(some).unwrap_or(most).min(most);
        self.moved = 0;
    }

    /// Whether the records at `index` and behind may make room for a block.
    fn may_cut(&mut self, index: usize) -> bool {
        let len = self.records.len();
        let most = if self.cuts == 0 { CUTS.1 } else { self.cuts };
        if len + 2 > usize::from(most) || self.moved > MOVES {
            return false;
        }
        // the shorter side moves, for each end of the block
        let moves = 2 * index.min(len.saturating_sub(index));
        let moves = u16::try_from(moves).unwrap_or(u16::MAX);
        self.moved = self.moved.saturating_add(moves);
        true
    }

    /// The peer holds `block`, a part of what is outstanding. Blocks of one acknowledgement come in
    /// ascending order (RFC 8985 section 6.2, step 3).
    pub fn sack(&mut self, block: SeqRange, delivery: &mut Delivery) {
        let (left, right) = block;
        let before = delivery.bytes();
        let at = self.index_of(left);
        let Some(&record) = self.records.get(at) else {
            return;
        };
        let within = right.before(record.end);
        if record.fate.has(Fate::SACKED) && (within || right == record.end) {
            return; // known, as most blocks are
        }
        if record.start == left && within && self.grow(at, right, delivery) {
            // the run before it has grown
        } else if self.needs_cut(at, block) && !self.may_cut(at) {
            self.ignored = self.ignored.saturating_add(1);
        } else {
            self.mark(at, block, delivery);
        }
        let bytes = delivery.bytes() - before;
        self.rate.on_delivered(bytes, delivery.now());
    }

    /// Whether a block, whose first octet lies in the record at `at`, begins or ends within one.
    fn needs_cut(&self, at: usize, (left, right): SeqRange) -> bool {
        self.begins_within(at, left) || self.begins_within(self.index_of(right), right)
    }

    /// The run that ends where the record at `at` begins grows to `right`, within that record.
    fn grow(&mut self, at: usize, right: SeqNum, delivery: &mut Delivery) -> bool {
        let Some(before) = at.checked_sub(1) else {
            return false;
        };
        match self.records.get_mut(before) {
            Some(run) if run.fate.has(Fate::SACKED) => run.end = right,
            _ => return false,
        }
        if let Some(record) = self.records.get_mut(at) {
            let piece = Record {
                end: right,
                ..*record
            };
            record.start = right;
            self.count(&piece, delivery);
        }
        true
    }

    /// `piece` becomes SACKed.
    fn count(&mut self, piece: &Record, delivery: &mut Delivery) {
        self.sacked += piece.len();
        if piece.fate.has(Fate::LOST) {
            self.lost -= piece.len();
        }
        delivery.selective(piece);
    }

    /// Marks `block`, whose first octet lies in the record at `at`, and melts what then touches.
    fn mark(&mut self, at: usize, (left, right): SeqRange, delivery: &mut Delivery) {
        let mut first = at;
        if self.begins_within(first, left) {
            self.cut(first, left);
            first += 1;
        }
        let mut last = first;
        while let Some(&record) = self.records.get(last).filter(|r| r.start.before(right)) {
            if !record.fate.has(Fate::SACKED) {
                if right.before(record.end) {
                    self.cut(last, right);
                }
                let piece = Record {
                    end: record.end.min(right),
                    ..record
                };
                self.count(&piece, delivery);
                if let Some(r) = self.records.get_mut(last) {
                    r.fate = r.fate.with(Fate::SACKED).without(Fate::LOST);
                }
                self.runs += 1;
            }
            last += 1;
        }
        self.melt(first.saturating_sub(1), last + 1);
    }

    /// Whether an un-SACKed record at `index` begins before `seq` and ends behind it.
    fn begins_within(&self, index: usize, seq: SeqNum) -> bool {
        let record = self.records.get(index);
        record.is_some_and(|r| !r.fate.has(Fate::SACKED) && r.start.before(seq))
    }

    /// SACKed neighbours among the records from `from` to `to` become one.
    fn melt(&mut self, from: usize, to: usize) {
        let mut to = to.min(self.records.len());
        let mut at = from;
        while at + 1 < to {
            let sacked = |r: Option<&Record>| r.is_some_and(|r| r.fate.has(Fate::SACKED));
            let mut end = at;
            while end < to && sacked(self.records.get(end)) {
                end += 1;
            }
            if end > at + 1 {
                let until = self.records.get(end - 1).map(|r| r.end);
                if let (Some(first), Some(until)) = (self.records.get_mut(at), until) {
                    first.end = until;
                }
                self.records.drain(at + 1..end);
                self.runs -= (end - at - 1) as u32;
                to -= end - at - 1;
            }
            at += 1;
        }
    }

    /// The octets from `start` to `end` leave again at `now`; `flight`: octets in flight, these
    /// included. What is SACKed of them stays so.
    //= https://www.rfc-editor.org/rfc/rfc6675#section-5
    //# (C.2) If any of the data octets sent in (C.1) are below HighData, HighRxt MUST be set to the
    //# highest sequence number of the retransmitted segment unless NextSeg () rule (4) was invoked
    //# for this retransmission.
    pub fn on_retransmit(&mut self, start: SeqNum, end: SeqNum, now: Instant, flight: u32) {
        if flight <= end - start {
            self.rate.begin(now); // nothing else is on its way: the time until now says nothing
        }
        let stamp = self.rate.stamp(now, flight);
        let mut at = self.index_of(start);
        if self.begins_within(at, start) {
            self.cut(at, start);
            at += 1;
        }
        let first = at;
        while let Some(&record) = self.records.get(at).filter(|r| r.start.before(end)) {
            if !record.fate.has(Fate::SACKED) {
                if end.before(record.end) {
                    self.cut(at, end);
                }
                if let Some(r) = self.records.get_mut(at) {
                    if r.fate.has(Fate::LOST) {
                        self.lost -= r.len();
                    }
                    r.fate = r.fate.with(Fate::RESENT).without(Fate::LOST);
                    (r.sent_at, r.stamp) = (now, stamp);
                }
            }
            at += 1;
        }
        self.join_resent(first, at, now);
        self.remember(start, end, now);
    }

    /// What left again at `now` among the records from `from` to `to`, and touches, becomes one.
    fn join_resent(&mut self, from: usize, to: usize, now: Instant) {
        let same = |r: &Record| r.in_flight() && r.sent_at == now && r.fate.has(Fate::RESENT);
        let mut at = to.min(self.records.len());
        while at > from + 1 {
            at -= 1;
            let (Some(&a), Some(&b)) = (self.records.get(at - 1), self.records.get(at)) else {
                return;
            };
            if same(&a) && same(&b) {
                if let Some(r) = self.records.get_mut(at - 1) {
                    r.end = b.end;
                }
                self.records.remove(at);
            }
        }
    }

    fn remember(&mut self, start: SeqNum, end: SeqNum, at: Instant) {
        // what does not fit is left to the retransmission timer
        let room = self.again.len() < MAX_RECORDS;
        match self.again.back_mut() {
            Some(last) if last.at == at && last.end == start => last.end = end,
            _ if room => self.again.push_back(Again { start, end, at }),
            _ => {}
        }
    }

    /// The peer asks for what it had reported: what it asks for is lost, and nothing it reported is
    /// believed any more (RFC 2018 section 8); whether that was forgotten, too. Where it would cost
    /// more than the acknowledgements since the last time: not, and it shows when it is asked for.
    pub fn forget_sacked(&mut self, una: SeqNum) -> bool {
        let all = usize::from(self.progress) * FORGOTTEN_FOR_EACH >= self.records.len();
        let count = if all { self.records.len() } else { 1 };
        let mut first = true;
        for r in self.records.iter_mut().take(count) {
            if r.fate.has(Fate::SACKED) {
                // its times are those of its first piece, which says little
                r.fate = r.fate.without(Fate::SACKED).with(Fate::RESENT);
                self.sacked -= r.len();
                self.runs -= 1;
                if first {
                    r.fate = r.fate.with(Fate::LOST);
                    self.lost += r.len();
                }
            }
            first = false;
        }
        self.next_lost = una;
        if all {
            self.progress = 0;
            self.requeue();
        }
        all
    }
}
