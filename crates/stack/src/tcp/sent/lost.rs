//! What is taken for lost: RFC 8985 section 6.2 step 5, section 6.3, and the way back.

use alloc::vec::Vec;
use core::time::Duration;

use gannet_base::Instant;

use super::super::congestion::Lost;
use super::super::rack::Latest;
use super::super::seq::SeqNum;
use super::{Again, Fate, Sent, SeqRange, age, sent_after};

/// What loss detection compares with.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// RACK.segment: the most recently sent of all that were delivered.
    pub rack: Latest,
    /// RACK.rtt + RACK.reo_wnd.
    pub time: Duration,
    /// Now.
    pub now: Instant,
}

/// What detection found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Octets newly taken for lost.
    pub lost: u32,
    /// Of these, octets that had been sent again.
    pub resent: u32,
    /// What of it concerns a model of the path.
    pub what: Lost,
    /// When to look again, from now.
    pub wait: Option<Duration>,
}

enum Verdict {
    Lost,
    Wait(Duration),
    Later,
}

impl Waiting {
    fn judge(&self, sent_at: Instant, end: SeqNum, resent: bool) -> Verdict {
        // an original is never later than a retransmission of the same instant
        let tie = self.rack.at == sent_at && resent && !self.rack.resent;
        if tie || !sent_after((self.rack.at, self.rack.end), (sent_at, end)) {
            return Verdict::Later;
        }
        match self.time.saturating_sub(age(self.now, sent_at)) {
            Duration::ZERO => Verdict::Lost,
            wait => Verdict::Wait(wait),
        }
    }
}

impl Sent {
    /// RACK_detect_loss. The wait it gives ends when the first of what is in doubt is lost.
    pub fn detect(&mut self, w: &Waiting) -> Found {
        let mut found = Found::default();
        self.detect_originals(w, &mut found);
        self.detect_resent(w, &mut found);
        found
    }

    fn detect_originals(&mut self, w: &Waiting, found: &mut Found) {
        const SETTLED: Fate = Fate::SACKED.with(Fate::LOST).with(Fate::RESENT);
        let mut at = self.index_of(self.scan);
        while let Some(&r) = self.records.get(at) {
            if !r.fate.has(SETTLED) {
                match w.judge(r.sent_at, r.end, false) {
                    Verdict::Lost => found.lost += self.lose(at, &mut found.what),
                    Verdict::Wait(wait) => {
                        found.wait = Some(wait);
                        break;
                    }
                    Verdict::Later => break,
                }
            }
            self.scan = r.end;
            at += 1;
        }
    }

    fn detect_resent(&mut self, w: &Waiting, found: &mut Found) {
        while let Some(&front) = self.again.front() {
            let mut at = self.index_of(front.start);
            let mut rest = None;
            while let Some(&r) = self.records.get(at).filter(|r| r.start.before(front.end)) {
                if r.in_flight() && r.fate.has(Fate::RESENT) && r.sent_at == front.at {
                    match w.judge(r.sent_at, r.end, true) {
                        Verdict::Lost => {
                            let bytes = self.lose(at, &mut found.what);
                            found.lost += bytes;
                            found.resent += bytes;
                        }
                        Verdict::Wait(wait) => rest = Some((r.start, Some(wait))),
                        Verdict::Later => rest = Some((r.start, None)),
                    }
                    if rest.is_some() {
                        break;
                    }
                }
                at += 1;
            }
            let Some((start, wait)) = rest else {
                self.again.pop_front();
                continue;
            };
            if let Some(front) = self.again.front_mut() {
                front.start = front.start.max(start);
            }
            found.wait = [found.wait, wait].into_iter().flatten().min();
            return;
        }
    }

    /// The record at `index` is taken for lost; its octets.
    fn lose(&mut self, index: usize, what: &mut Lost) -> u32 {
        let before = index.checked_sub(1).and_then(|at| self.records.get(at));
        let touches = before.is_some_and(|r| r.fate.has(Fate::LOST));
        let Some(r) = self.records.get_mut(index) else {
            return 0;
        };
        r.fate = r.fate.with(Fate::LOST);
        let len = r.len();
        self.lost += len;
        self.next_lost = self.next_lost.min(r.start);
        self.rate.on_lost(len);
        let since = self.rate.lost_since(&r.stamp);
        what.ranges += u32::from(!touches);
        if since > what.since {
            (what.len, what.since) = (len, since);
            what.tx_in_flight = r.stamp.flight;
            what.delivered = self.rate.delivered_since(&r.stamp);
            what.app_limited = r.fate.has(Fate::STARVED);
        }
        len
    }

    /// The first octets that are lost, and how many. Whoever sends them again says so with
    /// [`Sent::on_retransmit`].
    pub fn next_lost(&mut self) -> Option<(SeqNum, u32)> {
        if self.lost == 0 {
            return None;
        }
        let mut at = self.index_of(self.next_lost);
        while let Some(r) = self.records.get(at) {
            if r.fate.has(Fate::LOST) {
                self.next_lost = r.start;
                return Some((r.start, r.len()));
            }
            self.next_lost = r.end;
            at += 1;
        }
        None
    }

    /// Octets taken for lost and not sent again, of those in `range`.
    #[must_use]
    pub fn lost_within(&self, range: SeqRange) -> u32 {
        let behind = self.records.iter().skip(self.index_of(range.0));
        let within = behind.take_while(|r| r.start.before(range.1));
        let lost = within.filter(|r| r.fate.has(Fate::LOST));
        lost.map(|r| r.end.min(range.1) - r.start.max(range.0))
            .sum()
    }

    /// RACK_mark_losses_on_RTO: the first `smss` octets, and whatever left at least `time` ago.
    pub fn on_timeout(&mut self, smss: u32, time: Duration, now: Instant) -> Lost {
        let first = self.records.front().copied();
        if let Some(r) = first.filter(|r| r.in_flight() && r.len() > smss) {
            self.cut(0, r.start + smss);
        }
        self.lose_if(|index, sent_at| index == 0 || age(now, sent_at) >= time)
    }

    /// Everything in flight is lost: it was too large for the path.
    pub fn lose_all(&mut self) {
        self.lose_if(|_, _| true);
    }

    fn lose_if(&mut self, is_lost: impl Fn(usize, Instant) -> bool) -> Lost {
        let mut what = Lost::default();
        for index in 0..self.records.len() {
            let record = self.records.get(index);
            let due = record.is_some_and(|r| r.in_flight() && is_lost(index, r.sent_at));
            if due {
                self.lose(index, &mut what);
            }
        }
        what
    }

    /// Nothing was lost after all: what has not been sent again is in flight.
    pub fn forgive(&mut self) {
        for r in &mut self.records {
            r.fate = r.fate.without(Fate::LOST);
        }
        self.lost = 0;
        self.requeue();
    }

    /// Begins detection anew, after marks were taken back.
    pub(super) fn requeue(&mut self) {
        if let Some(first) = self.records.front() {
            self.scan = first.start;
            if self.lost == 0 {
                self.next_lost = first.start;
            }
        }
        let flying = |r: &&super::Record| r.in_flight() && r.fate.has(Fate::RESENT);
        let mut again: Vec<Again> = self.records.iter().filter(flying).map(Again::of).collect();
        again.sort_by_key(|a| a.at); // stable: then by sequence
        self.again = again.into();
    }
}

impl Again {
    fn of(record: &super::Record) -> Again {
        Again {
            start: record.start,
            end: record.end,
            at: record.sent_at,
        }
    }
}
