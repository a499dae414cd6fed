//! What was sent and when, and what became of it: the scoreboard of RFC 2018 and 6675, the
//! per-segment variables of RFC 8985 and the delivery counters of rate samples in one list.
//!
//! ```text
//!   una                                                                  max
//!    |  [ resent ][ SACKed ][ lost ][ lost ][ SACKed ][ in flight ][ in flight ]
//!                                     ^ next_lost      ^ scan
//! ```
//!
//! Records follow each other without gaps from `snd.una` to `snd.max`. One record is one
//! transmission, of a super-segment too, and what leaves at the same instant is one record: times
//! and counters are equal, and sequence numbers break ties (RFC 8985 section 6.2). It is cut where
//! a SACK block or an acknowledgement ends within it. SACKed neighbours melt into one.
//!
//! Why it is cheap. Without loss a record is pushed behind and popped in front. A SACK block costs
//! a binary search, and moves records only where one must be cut or melts. RACK asks for everything
//! that was sent before some time: originals were sent in the order of their numbers, so a mark
//! (`scan`) moves once over each of them; retransmissions stand in a queue of their own in the
//! order of time, and what of it is out of date is noticed when its turn comes.

use alloc::collections::VecDeque;
use core::time::Duration;

use gannet_base::Instant;

use super::congestion::AckSample;
use super::seq::SeqNum;

mod delivery;
mod lost;
mod marks;
mod rate;

pub use delivery::Delivery;
pub use lost::Waiting;
pub use rate::Rate;

/// Records beyond which what is sent is added to the last one, and blocks that would cut more are
/// ignored: 160 KiB at the most, for a peer that acknowledges every other byte.
pub const MAX_RECORDS: usize = 4096;
/// Records that SACK blocks may cut whatever is in flight, and at the most.
const CUTS: (u16, u16) = (512, MAX_RECORDS as u16 + 1024);
/// Records that move aside for the cuts of one acknowledgement; then what it says in addition is
/// ignored. An honest peer says it again, and its news is near the end, where little moves.
const MOVES: u16 = 1024;
/// Records for which one acknowledgement of progress must have come before all that is SACKED is
/// forgotten, and everything looked at anew. Until then only what the peer asks for is.
const FORGOTTEN_FOR_EACH: usize = 8;
/// Room that a connection keeps when all is acknowledged.
const KEPT: usize = 32;

/// Half-open range of sequence numbers: the first octet and the one after the last.
pub type SeqRange = (SeqNum, SeqNum);

/// What became of a record; a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate(u8);

impl Fate {
    /// Sent once, nothing heard.
    const FRESH: Fate = Fate(0);
    /// The peer holds it.
    const SACKED: Fate = Fate(1);
    /// Taken for lost and not yet sent again.
    const LOST: Fate = Fate(2);
    /// Sent more than once.
    const RESENT: Fate = Fate(4);
    /// The application had nothing more to send when it left.
    const STARVED: Fate = Fate(8);

    #[inline]
    const fn has(self, bits: Fate) -> bool {
        self.0 & bits.0 != 0
    }

    #[inline]
    const fn with(self, bits: Fate) -> Fate {
        Fate(self.0 | bits.0)
    }

    #[inline]
    const fn without(self, bits: Fate) -> Fate {
        Fate(self.0 & !bits.0)
    }
}

/// The latest transmission of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    start: SeqNum,
    end: SeqNum,
    /// RFC 8985's Segment.xmit_ts.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-4
    //# For each data segment sent, the sender MUST store its most recent
    //# transmission time with a timestamp whose granularity is finer
    //# than 1/4 of the minimum RTT of the connection.
    sent_at: Instant,
    /// What the rate sample needs: see [`Rate`].
    stamp: rate::Stamp,
    fate: Fate,
}

impl Record {
    #[inline]
    fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Whether it may still be on its way.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# This routine traverses the sequence space from HighACK to HighData and MUST set the "pipe"
    //# variable to an estimate of the number of octets that are currently in transit between the
    //# TCP sender and the TCP receiver.
    fn in_flight(&self) -> bool {
        !self.fate.has(Fate::SACKED.with(Fate::LOST))
    }
}

/// RFC 8985's RACK_sent_after.
#[inline]
pub(super) fn sent_after(a: (Instant, SeqNum), b: (Instant, SeqNum)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && a.1.after(b.1))
}

/// A retransmission, in the order of time.
#[derive(Clone, Copy, Debug)]
struct Again {
    start: SeqNum,
    end: SeqNum,
    at: Instant,
}

/// Everything between `snd.una` and `snd.max`.
#[derive(Debug, Default)]
pub struct Sent {
    records: VecDeque<Record>,
    again: VecDeque<Again>,
    /// Octets SACKed, and in how many runs.
    sacked: u32,
    runs: u32,
    /// Octets taken for lost and not sent again.
    lost: u32,
    /// Originals below are SACKed, lost or sent again.
    scan: SeqNum,
    /// Nothing below is lost.
    next_lost: SeqNum,
    /// Blocks ignored for want of room.
    ignored: u32,
    /// Records up to which blocks may cut; 0: as far as any may.
    cuts: u16,
    /// Records that moved aside for the blocks of this acknowledgement.
    moved: u16,
    /// Acknowledgements of something new since all that was SACKed was forgotten.
    progress: u16,
    rate: Rate,
}

impl Sent {
    /// Nothing sent: `first` will be the first. Allocates nothing.
    #[must_use]
    pub fn new(first: SeqNum) -> Self {
        Sent {
            scan: first,
            next_lost: first,
            ..Sent::default()
        }
    }

    /// Nothing sent that is not acknowledged: as it was once all was, with what had been counted.
    #[must_use]
    pub(super) fn resumed(first: SeqNum, rate: Rate, ignored: u32) -> Self {
        Sent {
            ignored,
            rate,
            ..Sent::new(first)
        }
    }

    /// Octets SACKed above `snd.una`.
    #[inline]
    #[must_use]
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Runs of SACKed octets.
    #[inline]
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Octets taken for lost and not sent again.
    #[inline]
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Whether nothing is SACKed and nothing lost: all that is outstanding is in flight.
    #[inline]
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.sacked | self.lost == 0
    }

    /// Blocks ignored for want of room since the connection began.
    #[must_use]
    pub fn ignored(&self) -> u32 {
        self.ignored
    }

    /// Counters of delivery.
    #[inline]
    #[must_use]
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Whether anybody asks for rate samples; they cost a little with every record. At first: yes.
    pub fn measure_rate(&mut self, on: bool) {
        self.rate.measure(on);
    }

    /// The application had nothing more to send while `flight` octets were on their way, fewer
    /// than the congestion window allows.
    #[inline]
    pub fn starve(&mut self, flight: u32) {
        self.rate.starve(flight);
    }

    /// New data from `start` (`snd.max`) to `end` leaves at `now`; `flight`: octets in flight,
    /// these included.
    #[inline]
    pub fn push(&mut self, start: SeqNum, end: SeqNum, now: Instant, flight: u32) {
        let mut now = now;
        if let Some(last) = self.records.back_mut() {
            // (a clock that was set back: the order of sending is what counts)
            now = now.max(last.sent_at);
            let open = !last
                .fate
                .has(Fate::SACKED.with(Fate::LOST).with(Fate::RESENT));
            if open && last.sent_at == now {
                last.end = end;
                last.stamp.flight = flight;
                return;
            }
        } else {
            self.rate.begin(now);
            (self.scan, self.next_lost) = (start, start);
        }
        self.append(start, end, now, flight);
    }

    #[inline]
    fn append(&mut self, start: SeqNum, end: SeqNum, now: Instant, flight: u32) {
        let full = self.records.len() >= MAX_RECORDS;
        let stamp = self.rate.stamp(now, flight);
        if let Some(last) = self.records.back_mut().filter(|l| full && l.in_flight()) {
            // the later time: nothing is taken for lost too early
            (last.end, last.sent_at, last.stamp) = (end, now, stamp);
            return;
        }
        let fate = match self.rate.is_starved() {
            true => Fate::STARVED,
            false => Fate::FRESH,
        };
        self.records.push_back(Record {
            start,
            end,
            sent_at: now,
            stamp,
            fate,
        });
    }

    /// Everything below `una` is acknowledged; `delivery` is told what that delivers.
    #[inline]
    pub fn acknowledge(&mut self, una: SeqNum, delivery: &mut Delivery) {
        while let Some(front) = self.records.front_mut() {
            if !front.start.before(una) {
                break;
            }
            let whole = front.end.before_eq(una);
            let gone = if whole { front.end } else { una } - front.start;
            let piece = Record {
                end: front.start + gone,
                ..*front
            };
            front.start += gone;
            if piece.fate.has(Fate::SACKED) {
                self.sacked -= gone;
                self.runs -= u32::from(whole);
            } else {
                if piece.fate.has(Fate::LOST) && !planted!(LostMiscounted) {
                    self.lost -= gone;
                }
                delivery.cumulative(&piece);
            }
            if !whole {
                break;
            }
            self.records.pop_front();
        }
        self.progress = self.progress.saturating_add(1);
        self.rate.on_delivered(delivery.bytes(), delivery.now());
        // never so far behind that they would seem to be ahead
        self.scan = self.scan.max(una);
        self.next_lost = self.next_lost.max(una);
        if self.records.is_empty() {
            self.settle();
        }
    }

    /// The same for the straight line, where nothing is SACKed or lost: what was acknowledged left
    /// first, and last, then; `None` when some of it had left before.
    #[inline]
    pub fn acknowledge_in_order(
        &mut self,
        una: SeqNum,
        bytes: u32,
        sample: &mut AckSample,
    ) -> Option<(Instant, Instant)> {
        let mut first = None;
        let mut resent = false;
        let mut last = None;
        while let Some(front) = self.records.front_mut() {
            if !front.start.before(una) {
                break;
            }
            first = first.or(Some(front.sent_at));
            resent |= front.fate.has(Fate::RESENT);
            last = Some((front.sent_at, front.stamp, front.fate));
            if una.before(front.end) {
                front.start = una;
                break;
            }
            self.records.pop_front();
        }
        self.rate.on_delivered(bytes, sample.now);
        self.scan = self.scan.max(una);
        self.next_lost = self.next_lost.max(una);
        if self.records.is_empty() {
            self.settle();
        }
        let (sent_at, stamp, fate) = last?;
        let starved = fate.has(Fate::STARVED);
        sample.rate = self.rate.sample((sent_at, stamp), sample.now, starved);
        first.filter(|_| !resent).map(|first| (first, sent_at))
    }

    /// All is acknowledged: an idle connection keeps next to nothing.
    fn settle(&mut self) {
        self.again.clear();
        if self.records.capacity() > KEPT {
            self.records = VecDeque::new();
        }
        if self.again.capacity() > KEPT {
            self.again = VecDeque::new();
        }
    }

    /// Whether the peer once reported as received what it now asks for: it threw data away.
    #[inline]
    #[must_use]
    pub fn reneged(&self) -> bool {
        self.sacked > 0
            && self
                .records
                .front()
                .is_some_and(|r| r.fate.has(Fate::SACKED))
    }

    /// When the oldest outstanding octets last left.
    #[must_use]
    pub fn oldest(&self) -> Option<Instant> {
        self.records.front().map(|r| r.sent_at)
    }

    /// Whether the octet at `seq` has left more than once.
    #[must_use]
    pub fn was_resent(&self, seq: SeqNum) -> bool {
        let record = self.records.get(self.index_of(seq));
        record.is_some_and(|r| r.fate.has(Fate::RESENT))
    }

    /// Where the record ends that `seq` is SACKed in.
    #[must_use]
    pub fn sacked_until(&self, seq: SeqNum) -> Option<SeqNum> {
        let at = self.index_of(seq);
        let record = self.records.get(at)?;
        (record.fate.has(Fate::SACKED) && record.start.before_eq(seq)).then_some(record.end)
    }

    /// The connection is over.
    pub fn clear(&mut self) {
        self.records = VecDeque::new();
        self.again = VecDeque::new();
        (self.sacked, self.runs, self.lost) = (0, 0, 0);
    }

    /// Index of the first record that ends behind `seq`.
    #[inline]
    fn index_of(&self, seq: SeqNum) -> usize {
        let Some(first) = self.records.front().map(|r| r.start) else {
            return 0;
        };
        if seq.before_eq(first) {
            return 0;
        }
        let offset = seq - first;
        self.records.partition_point(|r| r.end - first <= offset)
    }

    /// Cuts the record at `index` so that a record begins at `seq`.
    fn cut(&mut self, index: usize, seq: SeqNum) {
        let Some(record) = self.records.get_mut(index) else {
            return;
        };
        let behind = Record {
            start: seq,
            ..*record
        };
        record.end = seq;
        self.runs += u32::from(!planted!(RunsMiscounted) && behind.fate.has(Fate::SACKED));
        self.records.insert(index + 1, behind);
    }

    /// Panics when the structure is inconsistent. For tests, after every change.
    pub fn invariants(&self, una: SeqNum, max: SeqNum) {
        let (mut at, mut before) = (una, Fate::FRESH);
        let (mut sacked, mut runs, mut lost) = (0, 0, 0);
        // (most are originals; those are judged together, because there are many, and this is asked
        // after every event of a simulation)
        let (mut latest, mut in_order, mut contiguous, mut scanned) =
            (Instant::ZERO, true, true, true);
        let (first, second) = self.records.as_slices();
        for r in first.iter().chain(second) {
            contiguous &= r.start == at && r.start.before(r.end);
            at = r.end;
            if r.fate.has(Fate::SACKED) {
                sacked += r.len();
                runs += 1;
                assert!(!r.fate.has(Fate::LOST) && !before.has(Fate::SACKED));
            } else if r.fate.has(Fate::LOST) {
                lost += r.len();
                assert!(self.next_lost.before_eq(r.start), "a lost one is forgotten");
            } else if !r.fate.has(Fate::RESENT) {
                in_order &= latest <= r.sent_at;
                latest = r.sent_at;
                scanned &= self.scan.before_eq(r.start);
            }
            before = r.fate;
        }
        assert!(contiguous, "no gaps: {:?}", self.records);
        assert!(in_order, "originals in the order of time");
        assert!(scanned, "an original is forgotten");
        assert_eq!(at, max, "all that was sent");
        assert_eq!((sacked, runs, lost), (self.sacked, self.runs, self.lost));
    }
}

/// Time between two instants, as far as it is known.
fn age(now: Instant, then: Instant) -> Duration {
    now.saturating_duration_since(then)
}

#[cfg(test)]
mod tests;
