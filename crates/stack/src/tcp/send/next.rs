//! What to send next, a list of cases; what follows when it has left.

use gannet_base::Instant;

use super::size::{Ask, Asked};
use super::undo::Forward;
use super::{Fin, Plan, Send, Why};
use crate::tcp::seq::SeqNum;
use crate::tcp::window::{SendAnswer, SendQuestion};

impl Send {
    /// What to send next; `None`: nothing now. `limit`: most payload bytes one emission can carry
    /// (a super-segment's worth).
    #[inline]
    pub(in crate::tcp) fn next(&mut self, limit: u32, now: Instant) -> Option<Plan> {
        let limit = limit.max(self.mss);
        self.window_limited = false;
        let plan = match self.pacer.is_some() {
            true => self.next_paced(limit, now),
            false => self.choose(limit),
        };
        if plan.is_none() {
            self.note_pause(self.window_limited, now);
        }
        plan
    }

    /// What to send next as far as windows and timers are concerned.
    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# NextSeg () MUST return the sequence number range of the next segment that is to be
    //# transmitted, per the following rules:
    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# (1) If there exists a smallest unSACKed sequence number 'S2' that meets the following three
    //# criteria for determining loss, the sequence range of one segment of up to SMSS octets
    //# starting with S2 MUST be returned.
    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# (2) If no sequence number 'S2' per rule (1) exists but there exists available unsent data
    //# and the receiver's advertised window allows, the sequence range of one segment of up to SMSS
    //# octets of previously unsent data starting with sequence number HighData+1 MUST be returned.
    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# (5) If the conditions for each of (1), (2), (3), and (4) are not met, then NextSeg () MUST
    //# indicate failure, and no segment is returned.
    pub(super) fn choose(&mut self, limit: u32) -> Option<Plan> {
        if self.resend_head {
            return Some(self.head());
        }
        if self.sent.lost() > 0 && !matches!(self.forward, Forward::Tries(_)) {
            return self.next_lost();
        }
        if self.tail.due {
            return Some(self.tail_probe());
        }
        if self.ask != Ask::Nothing {
            match self.asked() {
                Asked::Send(plan) => return Some(plan),
                Asked::Wait => return None,
                Asked::Go => {}
            }
        }
        self.next_in_order(limit)
    }

    /// The first segment that is not acknowledged, again. What was sent after it joins it as far as
    /// one segment takes it; what was never sent only as far as the window does.
    fn head(&self) -> Plan {
        let queued = self.queue.end() - self.una.min(self.queue.end());
        let offered = (self.una + self.wnd).max(self.max) - self.una;
        self.plan(
            self.una,
            queued.min(self.mss).min(offered.max(1)),
            Why::Head,
        )
    }

    pub(super) fn plan(&self, seq: SeqNum, len: u32, why: Why) -> Plan {
        let forgotten = why != Why::Next && planted!(FinForgotten);
        let fin = self.fin != Fin::Open && seq + len == self.queue.end() && !forgotten;
        Plan { seq, len, fin, why }
    }

    /// What is lost, as far as the congestion window allows.
    fn next_lost(&mut self) -> Option<Plan> {
        let room = self.congestion.cwnd().saturating_sub(self.flight());
        self.cwnd_limited = true;
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5
        //# (C) If cwnd - pipe >= 1 SMSS, the sender SHOULD transmit one or more
        //# segments as follows:
        if room < self.mss {
            return None;
        }
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5
        //# (C.1) The scoreboard MUST be queried via NextSeg () for the sequence number range of the
        //# next segment to transmit (if any), and the given segment sent.
        let (seq, len) = self.sent.next_lost()?;
        let data = self.queue.end() - seq.min(self.queue.end());
        Some(self.plan(seq, len.min(data).min(self.mss), Why::Hole))
    }

    /// Bytes the peer's window takes from `nxt` on.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
    //# However, a sending TCP peer MUST be robust against window shrinking, which may cause the
    //# "usable window" (see Section 3.8.6.2.1) to become negative (MUST-34).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
    //# If this happens, the sender SHOULD NOT send new data (SHLD-15), but SHOULD retransmit
    //# normally the old unacknowledged data between SND.UNA and SND.UNA+SND.WND (SHLD-16).
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
    //# Implementations MUST ensure that they handle a shrinking window, as specified in Section
    //# 4.2.2.16 of [RFC1122].
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
    //# 3) The initial transmission MUST be within the window announced by the most recent <ACK>.
    pub(super) fn window_room(&self) -> u32 {
        ((self.una + self.wnd).since(self.nxt).max(0) as u32)
            .saturating_add(u32::from(planted!(SendsBeyondWindow)))
    }

    /// Data from `nxt` on, new or (after a time-out) again; then the FIN.
    #[inline]
    fn next_in_order(&mut self, limit: u32) -> Option<Plan> {
        if self.nxt.before(self.max) {
            self.skip_sacked();
        }
        let queued = self.queue.end() - self.nxt.min(self.queue.end());
        if queued == 0 {
            self.note_starvation();
            let due = self.fin != Fin::Open && self.nxt.before(self.end());
            return due.then(|| self.plan(self.nxt, 0, Why::Next));
        }
        let window = self.window_room();
        // RFC 3042; with SACK what is reported has left the flight by itself
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
        //# Note that a sender using SACK [RFC2018] MUST NOT send new data unless the incoming
        //# duplicate acknowledgment contains new SACK information.
        let extra = match self.sack {
            true => 0,
            false => self.congestion.limited_transmit(self.dup_acks),
        };
        let cwnd = self.congestion.cwnd().saturating_add(extra);
        let flight = match self.forward {
            // without SACK nobody knows what of the rest is still on its way (RFC 5682)
            Forward::Tries(point) if !self.sack => self.nxt - point,
            _ => self.flight(),
        };
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3
        //# In some situations, it may be beneficial for a TCP sender to be more conservative than
        //# the algorithms allow; however, a TCP MUST NOT be more aggressive than the following
        //# algorithms allow (that is, MUST NOT send data when the value of cwnd computed by the
        //# following algorithms would not allow the data to be sent).
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# The slow start and congestion avoidance algorithms MUST be used by a TCP sender to
        //# control the amount of outstanding data being injected into the network.
        let by_congestion = cwnd.saturating_sub(flight);
        // (a window that the application fills exactly is used, though nothing more waits for it)
        self.cwnd_limited = by_congestion <= window.min(queued);
        let question = SendQuestion {
            queued,
            usable: window.min(by_congestion),
            mss: self.mss,
            max_snd_wnd: self.max_wnd,
            nagle_holds: self.nagle.holds(self.una, self.nxt, self.small_end)
                && self.fin == Fin::Open,
            pushed: true,
            override_timeout: self.overridden,
        };
        match question.answer() {
            SendAnswer::Send(n) => {
                let whole = limit - limit % self.mss;
                Some(self.plan(self.nxt, n.min(whole), Why::Next))
            }
            SendAnswer::Wait | SendAnswer::WaitForWindow => {
                self.window_limited = window < by_congestion.min(queued);
                None
            }
        }
    }

    /// The application has nothing more: the path could perhaps carry more than it is given. (Not
    /// while the rate would keep it back: the application may yet write in time.)
    #[inline]
    pub(super) fn note_starvation(&mut self) {
        let flight = self.flight();
        let kept_back = self.pacer.as_ref().is_some_and(|p| !p.is_due());
        if flight < self.congestion.cwnd() && !kept_back {
            self.sent.starve(flight);
        }
    }

    /// Sending again what is behind `nxt`: jumps over what the peer has reported.
    fn skip_sacked(&mut self) {
        if let Some(end) = self.sent.sacked_until(self.nxt) {
            self.nxt = end;
        }
    }

    /// `plan` has left, with `len` of its bytes.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self, plan: &Plan, len: u32, now: Instant) {
        let fin = plan.fin && len == plan.len;
        let end = plan.seq + len + u32::from(fin);
        if fin {
            self.fin = Fin::Sent;
        }
        match plan.why {
            Why::Next => {
                self.overridden = false;
                self.nxt = end;
                if !len.is_multiple_of(self.mss) {
                    self.small_end = Some(end);
                }
            }
            Why::Size => {
                self.nxt = end;
                self.on_size_probe((plan.seq, end), len);
            }
            Why::Probe => self.window_probed(),
            Why::Hole => {}
            Why::Tail => self.nxt = self.nxt.max(end),
            Why::Head => {
                self.resend_head = false;
                self.nxt = self.nxt.max(end);
            }
        }
        let again = plan.seq.before(self.max);
        if again {
            self.on_sent_again(plan, end.min(self.max), now);
        }
        if end.after(self.max) {
            self.on_sent_anew(end, now);
        }
        if plan.why == Why::Tail {
            self.on_tail_probe(again);
        }
        if self.recovery.is_some() {
            self.congestion.on_recovery_send(len);
        }
        if self.pacer.is_some() {
            self.note_paced(len, now);
        }
        self.last_sent = now;
        self.start_timer(now);
    }

    #[inline]
    fn on_sent_anew(&mut self, end: SeqNum, now: Instant) {
        if !self.outstanding() {
            self.last_progress = now;
        }
        self.sent.push(self.max, end, now, self.flight());
        self.max = end;
    }

    fn on_sent_again(&mut self, plan: &Plan, end: SeqNum, now: Instant) {
        self.retransmissions += 1;
        let len = end - plan.seq;
        if plan.why != Why::Tail {
            self.count_resent((plan.seq, end), now.as_millis());
        }
        let flight = self.flight().saturating_add(len);
        self.sent.on_retransmit(plan.seq, end, now, flight);
        if plan.why == Why::Hole && plan.seq == self.una {
            // the answer to this is awaited from now on
            self.arm_retransmission(now);
        }
    }

    /// Less than a full segment waits for the acknowledgement of a small one (Nagle), for which the
    /// timer runs, and the buffer is far from full: there is nothing to do.
    #[inline]
    pub(in crate::tcp) fn gathers(&self) -> bool {
        self.gathers_with(0)
    }

    /// The same with `more` bytes behind what is queued.
    #[inline]
    pub(in crate::tcp) fn gathers_with(&self, more: u32) -> bool {
        (self.queue.end() - self.nxt).saturating_add(more) < self.mss
            && self.nagle.holds(self.una, self.nxt, self.small_end)
            && self.waits_for_answer()
            && self.room() > self.buffer_now() / 2
    }
}
