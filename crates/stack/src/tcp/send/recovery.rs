//! Loss: found by RACK (RFC 8985) where both sides agreed on SACK, by duplicate acknowledgements
//! (RFC 5681, 6582) where not. What follows from it.
//!
//! ```text
//!            lost                    una >= point
//!   open ------------> recovery ---------------------> open
//!    |                     |
//!    |      time-out       v       una >= point
//!    '----------------> loss ------------------------> open
//! ```

use gannet_base::Instant;

use super::ack::News;
use super::{DUP_THRESH, Send};
use crate::tcp::congestion::{AckSample, RecoveryKind};

impl Send {
    /// What an acknowledgement changes about losses.
    #[inline]
    pub(super) fn react(&mut self, news: &mut News, sample: &mut AckSample) {
        self.note_duplicates(news);
        self.note_tail(news);
        self.detect_spurious(news);
        if self.recovery.is_some_and(|point| self.una.after_eq(point))
            && !planted!(RecoveryNeverLeft)
        {
            //= https://www.rfc-editor.org/rfc/rfc6675#section-5
            //# (A) An incoming cumulative ACK for a sequence number greater than RecoveryPoint
            //# signals the end of loss recovery, and the loss recovery phase MUST be terminated.
            self.leave_recovery();
            // what ends a recovery has nothing to say about growth
            sample.cwnd_limited = false;
            sample.ends_recovery = true;
        }
        if self.loss.is_some_and(|point| self.una.after_eq(point)) {
            self.leave_loss();
        }
        //= https://www.rfc-editor.org/rfc/rfc8985#section-4
        //# The connection MUST use selective acknowledgment (SACK) options [RFC2018], and the
        //# sender MUST keep SACK scoreboard information on a per-connection basis ("SACK
        //# scoreboard" has the same meaning here as in [RFC6675], Section 3).
        if self.sack {
            //= https://www.rfc-editor.org/rfc/rfc6675#section-5
            //# Once a TCP is in the loss recovery phase, the following procedure MUST be used for
            //# each arriving ACK:
            //= https://www.rfc-editor.org/rfc/rfc6675#section-5
            //# (B) Upon receipt of an ACK that does not cover RecoveryPoint, the following actions
            //# MUST be taken:
            news.lost = self.detect_lost(news.now);
        } else {
            self.detect_without_sack(news);
        }
    }

    /// Nothing is lost, SACKed, probed or doubted.
    #[inline]
    pub(super) fn is_untroubled(&self) -> bool {
        self.recovery.is_none()
            && self.loss.is_none()
            && self.undo.is_none()
            && self.tail.end.is_none()
            && self.sent.is_in_order()
    }

    fn note_duplicates(&mut self, news: &mut News) {
        if news.advanced {
            //= https://www.rfc-editor.org/rfc/rfc6675#section-5
            //# If the incoming ACK is a cumulative acknowledgment, the TCP MUST reset DupAcks to
            //# zero.
            self.dup_acks = 0;
        } else if news.duplicate && (!self.sack || news.delivery.bytes() > 0) {
            //= https://www.rfc-editor.org/rfc/rfc6675#section-5
            //# If the incoming ACK is a duplicate acknowledgment per the definition in Section 2
            //# (regardless of its status as a cumulative acknowledgment), and the TCP is not
            //# currently in loss recovery, the TCP MUST increase DupAcks by one and take the
            //# following steps:
            self.dup_acks = self.dup_acks.saturating_add(1);
        }
        if let Some(dsack) = news.blocks.dsack {
            self.note_duplicate_arrival(dsack);
        }
    }

    /// RACK: what was sent before something that arrived, and has had the time to, is lost. The
    /// octets; when something is left in doubt the reordering timer will say when to look again.
    pub(super) fn detect_lost(&mut self, now: Instant) -> u32 {
        self.doubt = None;
        if self.sent.is_in_order() && self.recovery.is_none() && self.loss.is_none() {
            return 0;
        }
        //= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
        //# The reordering window SHOULD be set to zero if no reordering has
        //# been observed on the connection so far, and either (a) three
        //# segments have been SACKed since the last recovery or (b) the
        //# sender is already in fast or RTO recovery.
        let certain = self.recovery.is_some() || self.loss.is_some() || self.is_thrice_sacked();
        let Some(waiting) = self.rack.waiting(certain, &self.rtt, now) else {
            return 0;
        };
        let found = self.sent.detect(&waiting);
        self.doubt = found.wait.map(|wait| now + wait);
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5.1
        //# In addition, a new recovery phase (as described in Section 5) MUST NOT be initiated
        //# until HighACK is greater than or equal to the new value of RecoveryPoint.
        let begins = self.recovery.is_none() && self.loss.is_none() && self.sent.lost() > 0;
        //= https://www.rfc-editor.org/rfc/rfc4821#section-7.6.2
        //# In this case alone, the loss SHOULD NOT be interpreted as congestion signal.
        if begins && self.only_probe_lost(found.resent) {
            return 0;
        }
        if begins {
            self.enter_recovery(RecoveryKind::Sack);
        }
        if found.lost > 0 {
            let delivered = self.sent.rate().delivered();
            self.congestion.on_lost(&found.what, delivered, now);
        }
        found.lost
    }

    /// RFC 6675's IsLost for the oldest octet: DupThresh runs, or more than DupThresh - 1 segments'
    /// worth of octets, or DupThresh acknowledgements that reported something.
    fn is_thrice_sacked(&self) -> bool {
        let bytes = self.mss.saturating_mul(DUP_THRESH - 1);
        self.sent.runs() >= DUP_THRESH || self.sent.sacked() > bytes || self.dup_acks >= DUP_THRESH
    }

    /// RFC 5681 section 3.2, RFC 6582.
    fn detect_without_sack(&mut self, news: &News) {
        if self.recovery.is_some() {
            if news.advanced {
                self.congestion.on_partial_ack(news.delivery.bytes());
                self.resend_head = true;
            } else if news.duplicate {
                self.congestion.on_duplicate_ack();
            }
        } else if self.dup_acks >= DUP_THRESH && self.loss.is_none() && self.outstanding() {
            self.enter_recovery(RecoveryKind::DuplicateAcks);
            //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
            //# The TCP sender SHOULD use the "fast retransmit" algorithm to detect
            //# and repair loss, based on incoming duplicate ACKs.
            self.resend_head = true;
        }
    }

    fn enter_recovery(&mut self, kind: RecoveryKind) {
        self.recovery = Some(self.max);
        self.recoveries += 1;
        self.tail.reset();
        self.begin_undo(false);
        let flight = self.max - self.una;
        //= https://www.rfc-editor.org/rfc/rfc2018#section-5.1
        //# However, the congestion control algorithms present in the de facto standard TCP
        //# implementations MUST be preserved [Stevens94].
        self.congestion.enter_recovery(flight, kind);
        self.ecn.on_reduction(self.max);
    }

    fn leave_recovery(&mut self) {
        self.recovery = None;
        self.dup_acks = 0;
        self.resend_head = false;
        self.rack.on_recovered();
        self.end_undo();
        let flight = self.flight();
        self.congestion.exit_recovery(flight);
    }

    fn leave_loss(&mut self) {
        self.loss = None;
        self.rack.on_recovered();
        self.end_undo();
        self.congestion.exit_loss();
    }

    /// The retransmission timer has expired.
    //= https://www.rfc-editor.org/rfc/rfc6298#section-5
    //# (5.4) Retransmit the earliest segment that has not been acknowledged
    //# by the TCP receiver.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.retries += 1;
        self.timeouts += 1;
        self.muddle_size();
        self.begin_forward_recovery();
        let flight = self.max - self.una;
        self.congestion.on_rto(flight);
        self.ecn.on_reduction(self.max);
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.5) The host MUST set RTO <- RTO * 2 ("back off the timer").
        self.rtt.back_off();
        self.timed = self.max;
        self.begin_undo(true);
        if self.sack {
            let time = self.rack.time_of_timeout(&self.rtt);
            let lost = self.sent.on_timeout(self.mss, time, now);
            let delivered = self.sent.rate().delivered();
            self.congestion.on_lost(&lost, delivered, now);
        } else {
            self.nxt = self.una;
        }
        self.tail.reset();
        self.recovery = None;
        self.doubt = None;
        self.dup_acks = 0;
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5.1
        //# If an RTO occurs during loss recovery as specified in this document, RecoveryPoint MUST
        //# be set to HighData.
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5.1
        //# Further, the new value of RecoveryPoint MUST be preserved and the loss recovery
        //# algorithm outlined in this document MUST be terminated.
        //= https://www.rfc-editor.org/rfc/rfc2018#section-5
        //# The data sender MUST retransmit the segment at the left edge of the window after a
        //# retransmit timeout, whether or not the SACKed bit is on for that segment.
        self.loss = Some(self.max);
        self.resend_head = true;
        self.arm_retransmission(now);
    }

    /// The reordering timer has expired.
    pub(super) fn on_doubt(&mut self, now: Instant) {
        let flight = self.flight();
        let mut sample = AckSample::at(now);
        sample.flight_before = flight;
        sample.lost = self.detect_lost(now);
        sample.total_delivered = self.sent.rate().delivered();
        sample.flight = self.flight();
        if sample.lost > 0 {
            self.tell_control(&mut sample);
        }
        self.rearm(now);
    }
}
