//! Tail loss probes (RFC 8985 section 7): when no acknowledgement comes for two round trips, one
//! more segment asks for one, so that RACK finds what a time-out would have to.

use core::time::Duration;

use gannet_base::Instant;

use super::ack::News;
use super::{Plan, Send, Why};
use crate::tcp::congestion::RecoveryKind;
use crate::tcp::seq::SeqNum;

/// TLP.max_ack_delay: how long a peer may wait before it acknowledges a lone segment. As Linux.
const MAX_ACK_DELAY: Duration = Duration::from_millis(200);
/// Least time before a probe: what passes while a process waits for its turn is no loss.
const LEAST: Duration = Duration::from_millis(10);

/// TLP.end_seq and its company.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// Where the probe ended: TLP.end_seq.
    pub(super) end: Option<SeqNum>,
    /// The probe was a retransmission: TLP.is_retrans.
    pub(super) retransmitted: bool,
    /// A round trip was measured since the last probe.
    measured: bool,
    /// Send one now.
    pub(super) due: bool,
}

impl Tail {
    pub(super) const fn new() -> Self {
        Tail {
            end: None,
            retransmitted: false,
            measured: true,
            due: false,
        }
    }

    /// Connection, fast recovery or recovery after a time-out begins.
    pub(super) fn reset(&mut self) {
        self.end = None;
        self.retransmitted = false;
        self.due = false;
    }

    #[inline]
    pub(super) fn on_round_trip(&mut self) {
        self.measured = true;
    }
}

impl Send {
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.2
    //# The sender SHOULD start or
    //# restart a loss probe PTO timer after transmitting new data (that was
    //# not itself a loss probe) or upon receiving an ACK that cumulatively
    //# acknowledges new data unless it is already in fast recovery, RTO
    //# recovery, or segments have been SACKed (i.e., RACK.segs_sacked is not
    //# zero).
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
    //# When the PTO timer expires, the sender MUST check whether both of the
    //# following conditions are met before sending a loss probe:
    /// Whether a probe may follow. (What it depends on does not change before it is due.)
    #[inline]
    pub(super) fn may_probe_tail(&self) -> bool {
        self.sack
            && self.lossy
            && self.recovery.is_none()
            && self.loss.is_none()
            && self.tail.end.is_none()
            && self.tail.measured
            && self.sent.is_in_order()
    }

    /// When a probe is due: TLP_calc_PTO, and when the time-out would be.
    #[inline]
    pub(super) fn probe_at(&self, now: Instant, rto_at: Instant) -> Instant {
        let Some(srtt) = self.rtt.srtt() else {
            //= https://www.rfc-editor.org/rfc/rfc8985#section-7.2
            //# Second, when there is no SRTT estimate available, the PTO SHOULD be 1
            //# second.
            return rto_at.min(now + Duration::from_secs(1));
        };
        let mut pto = srtt.saturating_mul(2).max(LEAST);
        if self.max - self.una <= self.mss {
            pto = pto.saturating_add(MAX_ACK_DELAY);
        }
        rto_at.min(now + pto)
    }

    /// The probe: what was never sent, else the last segment again.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
    //# If both conditions are met, then the sender SHOULD transmit a
    //# previously unsent data segment, if one exists and the receive window
    //# allows, and increment the FlightSize accordingly.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
    //# If such an unsent segment is not available, then the sender SHOULD
    //# retransmit the highest-sequence segment sent so far and set
    //# TLP.is_retrans to true.
    pub(super) fn tail_probe(&self) -> Plan {
        let fresh = self.unsent().min(self.window_room()).min(self.mss);
        if fresh > 0 && self.nxt == self.max {
            return self.plan(self.max, fresh, Why::Tail);
        }
        let end = self.max.min(self.queue.end());
        let len = (end - self.una.min(end)).min(self.mss);
        let seq = SeqNum(end.0.wrapping_sub(len));
        self.plan(seq, len, Why::Tail)
    }

    /// The probe has left.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
    //# The sender MUST follow the RACK transmission procedures in the "Upon Transmitting a Data
    //# Segment" section upon sending either a retransmission or a new data loss probe.
    pub(super) fn on_tail_probe(&mut self, again: bool) {
        self.tail.due = false;
        self.tail.end = Some(self.max);
        self.tail.retransmitted = again;
        self.tail.measured = false;
        self.tail_probes += 1;
    }

    /// TLP_process_ack.
    pub(super) fn note_tail(&mut self, news: &News) {
        let Some(end) = self.tail.end.filter(|&end| self.una.after_eq(end)) else {
            return;
        };
        let duplicate = news.blocks.dsack.is_some_and(|dsack| dsack.1 == end);
        let idle = !self.outstanding() && !news.advanced && !news.n.has_text;
        let bare = (news.duplicate || idle) && news.n.sack.is_empty();
        if !self.tail.retransmitted || duplicate {
            self.tail.end = None;
        } else if self.una.after(end) {
            self.tail.end = None;
            self.on_loss_that_was_repaired();
        } else if bare {
            self.tail.end = None;
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.4.2
    //# The sender then
    //# SHOULD invoke a congestion control response equivalent to a fast
    //# recovery.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.4.2
    //# If the TLP sender does not receive such an indication, then it MUST assume that the original
    //# data segment, the TLP retransmission, or a corresponding ACK was lost for congestion control
    //# purposes.
    fn on_loss_that_was_repaired(&mut self) {
        let flight = self.max - self.una;
        if self.recovery.is_none() {
            self.congestion.enter_recovery(flight, RecoveryKind::Sack);
            self.congestion.exit_recovery(flight);
        }
    }
}
