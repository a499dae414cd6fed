//! Spurious recoveries and time-outs: how they are noticed, and undone.
//!
//! * Eifel (RFC 3522): the first acknowledgement after a retransmission echoes a time stamp older
//!   than it: the original had arrived.
//! * F-RTO (RFC 5682), without time stamps: after a time-out new data is sent instead of old, and
//!   what is acknowledged then shows whether the flight before the time-out is still arriving.
//! * D-SACK (RFC 2883, 3708): everything that was sent again is reported as a duplicate.
//!
//! The answer is RFC 4015's: the congestion window of before, and a time-out that has learned.

use super::Send;
use super::ack::News;
use crate::tcp::sack::SeqRange;
use crate::tcp::seq::SeqNum;

/// What it takes to find that an episode of retransmission was needless.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// `una` when it began.
    start: SeqNum,
    /// Where the highest of what was sent again ends.
    end: SeqNum,
    /// When the oldest outstanding octet left again, in milliseconds (RetransmitTS of RFC 3522).
    resent_ms: Option<u64>,
    /// That octet had left once before it began: an answer to an earlier copy is one to the
    /// original.
    once: bool,
    /// A time-out began it, or came within.
    timeout: bool,
    /// Octets sent again and not reported as duplicates.
    needed: u32,
    /// Something was sent again.
    resent: bool,
    /// Something new was acknowledged since: what comes may answer an earlier retransmission than
    /// the last, and its time stamp says nothing any more.
    answered: bool,
    /// The episode is over; until this is acknowledged a report may still come.
    until: Option<SeqNum>,
}

/// Where the F-RTO algorithm stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forward {
    Off,
    /// Step 2: the acknowledgement of what the time-out sent again is awaited.
    Waits,
    /// Step 3: new data behind this was sent.
    Tries(SeqNum),
}

impl Send {
    //= https://www.rfc-editor.org/rfc/rfc3522#section-3.2
    //# The Eifel detection algorithm MUST NOT be reinitiated after loss recovery has already
    //# started.
    /// Something is taken for lost: from here on what is sent again is counted.
    ///
    /// The oldest outstanding octet may have been sent again already, and that copy be under way:
    /// by the recovery before, which ended below it, by this one before a time-out, or as a probe.
    /// What comes then may answer that copy, older than whatever is sent from now on, though the
    /// original was lost.
    //= https://www.rfc-editor.org/rfc/rfc4015#section-3.1
    //# If the Eifel response algorithm is used, the following steps MUST be taken by the TCP
    //# sender, but only upon initiation of a timeout-based loss recovery.
    //= https://www.rfc-editor.org/rfc/rfc3522#section-3.2
    //# If the Eifel detection algorithm is used, the following steps MUST be taken by a TCP sender,
    //# but only upon initiation of loss recovery, i.e., when either the timeout-based retransmit or
    //# the fast retransmit is sent.
    pub(super) fn begin_undo(&mut self, timeout: bool) {
        let una = self.una;
        let under_way = |u: &&mut Undo| u.until.is_none() && u.start == una;
        if let Some(undo) = self.undo.as_mut().filter(under_way) {
            undo.timeout |= timeout;
            return;
        }
        self.undo = Some(Undo {
            start: self.una,
            end: self.una,
            resent_ms: None,
            once: !(self.sent.was_resent(una) || timeout && self.is_recovering()),
            timeout,
            needed: 0,
            resent: false,
            answered: false,
            until: None,
        });
    }

    /// The episode is over; its duplicates may be reported for another round trip.
    pub(super) fn end_undo(&mut self) {
        self.forward = Forward::Off;
        if let Some(undo) = &mut self.undo {
            undo.until = Some(self.max);
        }
    }

    /// The octets of `range` were sent again at `now_ms`.
    pub(super) fn count_resent(&mut self, range: SeqRange, now_ms: u64) {
        if let Some(undo) = self.undo.as_mut().filter(|u| u.until.is_none()) {
            undo.resent = true;
            if undo.once && range.0 == undo.start {
                undo.resent_ms.get_or_insert(now_ms);
            }
            undo.needed = undo.needed.saturating_add(range.1 - range.0);
            undo.end = undo.end.max(range.1);
        }
    }

    /// The peer has received `dsack` twice.
    pub(super) fn note_duplicate_arrival(&mut self, dsack: SeqRange) {
        // a probe of the tail that was needless says nothing about what was taken for lost
        if self.tail.retransmitted && self.tail.end == Some(dsack.1) {
            return;
        }
        self.rack.on_dsack(self.una, self.max);
        if let Some(undo) = &mut self.undo
            && dsack.0.after_eq(undo.start)
            && dsack.1.before_eq(undo.end)
        {
            undo.needed = undo.needed.saturating_sub(dsack.1 - dsack.0);
        }
    }

    /// Whether this acknowledgement shows that nothing had been lost; then all is as before.
    pub(super) fn detect_spurious(&mut self, news: &News) {
        let reported = news.blocks.dsack.is_some() && self.is_all_duplicate();
        let needless = self.is_answer_to_original(news) || self.forward_recovery(news) || reported;
        //= https://www.rfc-editor.org/rfc/rfc4015#section-3.4
        //# In that case, the TCP sender MUST refrain from reversing congestion control state.
        // (when the acknowledgement also says that a router has marked)
        if needless && !news.n.ece {
            self.undo_all(news);
        }
        let over = self.undo.and_then(|u| u.until);
        if over.is_some_and(|until| self.una.after(until)) {
            self.undo = None;
        }
    }

    fn is_recovering(&self) -> bool {
        self.recovery.is_some() || self.loss.is_some()
    }

    fn is_all_duplicate(&self) -> bool {
        self.undo.is_some_and(|u| u.resent && u.needed == 0)
    }

    /// RFC 3522 section 3.2: the first acceptable acknowledgement after the retransmission echoes a
    /// time stamp from before it.
    fn is_answer_to_original(&mut self, news: &News) -> bool {
        let Some(undo) = self.undo.as_mut().filter(|_| news.advanced) else {
            return false;
        };
        let first = undo.resent_ms.filter(|_| !undo.answered);
        undo.answered |= undo.resent;
        let within = undo.until.is_none() && self.una.after(undo.start);
        //= https://www.rfc-editor.org/rfc/rfc3522#section-3.2
        //# (4) If the value of the Timestamp Echo Reply field of the acceptable ACK's Timestamps
        //# option is smaller than the value of RetransmitTS, then proceed to step (5),
        within
            && first
                .zip(news.echo_ms)
                .is_some_and(|(sent, echo)| echo < sent)
    }

    //= https://www.rfc-editor.org/rfc/rfc5682#section-3.1
    //# This algorithm SHOULD NOT be applied if the TCP sender is already in loss recovery when a
    //# retransmission timeout occurs.
    //= https://www.rfc-editor.org/rfc/rfc5682#section-3.1
    //# If the retransmission timer expires again during the execution of the SACK-enhanced F-RTO
    //# algorithm, the TCP sender MUST re-start the algorithm processing from step 1.
    /// Step 1 of F-RTO. With time stamps the first acknowledgement tells.
    //= https://www.rfc-editor.org/rfc/rfc5682#section-2.1
    //# A TCP sender implementing the basic F-RTO algorithm MUST take the following steps after the
    //# retransmission timer expires.
    //= https://www.rfc-editor.org/rfc/rfc5682#section-2.1
    //# If the retransmission timer expires again during the execution of the F-RTO algorithm, the
    //# TCP sender MUST re-start the algorithm processing from step 1.
    pub(super) fn begin_forward_recovery(&mut self) {
        let fresh = self.recovery.is_none() && self.loss.is_none();
        self.forward = match self.forward {
            Forward::Waits => Forward::Waits,
            _ if fresh && !self.timestamps => Forward::Waits,
            _ => Forward::Off,
        };
    }

    /// Steps 2 and 3 of F-RTO (RFC 5682 sections 2.1 and 3.1).
    //= https://www.rfc-editor.org/rfc/rfc5682#section-3.1
    //# If the sender applies the SACK-enhanced F-RTO algorithm, it MUST follow the steps below.
    fn forward_recovery(&mut self, news: &News) -> bool {
        match self.forward {
            Forward::Off => false,
            Forward::Waits if !news.advanced => false,
            Forward::Waits => {
                let covered = self.loss.is_none_or(|point| self.una.after_eq(point));
                let new_data = self.unsent() > 0 && self.max.before(self.una + news.n.window.0);
                self.forward = Forward::Off;
                if !covered && new_data {
                    self.forward = Forward::Tries(self.max);
                    self.nxt = self.max;
                }
                false
            }
            Forward::Tries(_) if !news.advanced && !news.duplicate => false,
            Forward::Tries(point) => {
                self.forward = Forward::Off;
                let beyond = self.rack.fack().after(point);
                let spurious = !beyond && news.delivery.original().is_some();
                if !spurious && !self.sack {
                    self.nxt = self.una;
                }
                spurious
            }
        }
    }

    /// RFC 4015: nothing was lost.
    fn undo_all(&mut self, news: &News) {
        self.undone += 1;
        if self.undo.is_some_and(|u| !u.timeout) {
            self.rack.on_needless();
        }
        self.congestion.undo();
        self.sent.forgive();
        self.recovery = None;
        self.loss = None;
        self.forward = Forward::Off;
        self.undo = None;
        self.dup_acks = 0;
        self.resend_head = false;
        self.nxt = self.max;
        // the round trip that was too long to be waited for
        let age = news.n.echo_age.filter(|_| news.advanced);
        if let Some(age) = age.filter(|&age| age > self.rtt.base_rto()) {
            self.rtt
                .on_sample(age.min(self.rtt.base_rto().saturating_mul(2)));
        }
    }
}
