//! The sending half of a synchronised connection: SND.*, loss recovery, and what to send next.
//!
//! ```text
//!    snd.una          snd.nxt    snd.max              una + wnd     queue.end
//!  -----|---------------|----------|----------------------|------------|
//!       |  in flight    | to be sent again | new, in window| new, beyond|
//! ```
//! `max` is the RFC's SND.NXT; `nxt` falls back to `una` after a time-out and catches up from there
//! (the variables of 4.4BSD). It shares no field with the receiving half.

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::Pool;

mod timers;

use super::congestion::{ABC_LIMIT_MERGED, AckSample, Algorithm, Congestion, RecoveryKind};
use super::error::TcpError;
use super::notice::{Acked, Notice};
use super::rtt::{RttConfig, RttEstimator, TimedSegment};
use super::sack::{NextSeg, Scoreboard};
use super::send_queue::SendQueue;
use super::seq::SeqNum;
use super::window::{Nagle, SendAnswer, SendQuestion, WindowScale};

/// Duplicate acknowledgements that mean loss.
const DUP_THRESH: u32 = 3;

/// Our FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    /// The application may still write.
    Open,
    /// It may not; the FIN follows the last byte queued.
    Queued,
    /// It was sent at least once.
    Sent,
}

/// What the one send timer is running for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendTimer {
    /// Nothing.
    Off,
    /// RFC 6298.
    Retransmit(Instant),
    /// RFC 9293 section 3.8.6.1: the window is zero.
    Persist(Instant),
    /// RFC 9293 section 3.8.6.2.1: the window is silly.
    Override(Instant),
}

/// Why a segment leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Bytes from `nxt` on.
    Next,
    /// The first unacknowledged bytes again: fast retransmission or time-out.
    Head,
    /// A hole the scoreboard knows.
    Hole,
    /// The last bytes again (RFC 6675 rule 4).
    Rescue,
    /// One byte beyond a closed window.
    Probe,
}

/// A segment to be sent: `len` bytes from `seq` and perhaps a FIN behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seq: SeqNum,
    pub(super) len: u32,
    pub(super) fin: bool,
    pub(super) why: Why,
}

/// SND.* of RFC 9293 section 3.3.1 and its neighbours.
#[derive(Debug)]
pub(super) struct Send {
    /// SND.UNA: oldest unacknowledged.
    pub(super) una: SeqNum,
    /// Next to be sent; below `max` after a time-out.
    pub(super) nxt: SeqNum,
    /// SND.NXT: behind the highest ever sent.
    pub(super) max: SeqNum,
    /// SND.WND, scaled.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    //# The window size MUST be treated as an unsigned number, or else large window sizes will
    //# appear like negative windows and TCP will not work (MUST-1).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    //# It is RECOMMENDED that implementations will reserve 32-bit fields for the send and receive
    //# window sizes in the connection record and do all window computations with 32 bits (REC-1).
    pub(super) wnd: u32,
    /// SND.WL1 and SND.WL2: seq and ack of the last window update.
    pub(super) wl1: SeqNum,
    pub(super) wl2: SeqNum,
    /// MAX.SND.WND (RFC 5961): the largest window the peer ever offered.
    pub(super) max_wnd: u32,
    /// SND.UP: end of urgent data.
    pub(super) up: Option<SeqNum>,
    /// Unacknowledged and unsent bytes.
    pub(super) queue: SendQueue,
    pub(super) fin: Fin,
    /// Shift of the windows the peer advertises.
    pub(super) scale: WindowScale,
    /// Payload of a full-sized segment, options of ordinary segments already taken off.
    pub(super) mss: u32,
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.4
    //# A TCP implementation SHOULD implement the Nagle algorithm to coalesce short segments
    //# (SHLD-7).
    pub(super) nagle: Nagle,
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.2
    //# A TCP endpoint MUST implement the basic congestion control algorithms slow start,
    //# congestion avoidance, and exponential backoff of RTO to avoid creating congestion collapse
    //# conditions (MUST-19).
    pub(super) congestion: Congestion,
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.1
    //# The RTO MUST be computed according to the algorithm in [10], including Karn's algorithm
    //# for taking RTT samples (MUST-18).
    pub(super) rtt: RttEstimator,
    timed: TimedSegment,
    /// Both sides agreed on SACK.
    pub(super) sack: bool,
    pub(super) scoreboard: Scoreboard,
    dup_acks: u32,
    /// In fast recovery: `max` when it began.
    pub(super) recovery: Option<SeqNum>,
    /// `max` at the last time-out: duplicate acknowledgements below it mean nothing (RFC 6582).
    after_timeout: Option<SeqNum>,
    /// Send the head of the queue now, whatever the windows say.
    resend_head: bool,
    /// Send a window probe now.
    probe: bool,
    /// The override timer expired.
    overridden: bool,
    /// End of the last small segment (Minshall).
    small_end: Option<SeqNum>,
    /// The congestion window, not the peer's, was what held sending back.
    cwnd_limited: bool,
    /// Time-outs in a row without progress, or window probes in a row without answer.
    pub(super) retries: u32,
    /// Window probes since the window closed.
    probes: u32,
    pub(super) timer: SendTimer,
    pub(super) last_sent: Instant,
    /// Last time the peer acknowledged something new, or outstanding data began.
    pub(super) last_progress: Instant,
    /// What an ICMP error said since.
    pub(super) soft_error: Option<TcpError>,
    /// Send buffer in bytes, and how far it may grow with the path.
    pub(super) buffer: u32,
    /// See `buffer`.
    pub(super) buffer_max: u32,
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
    pub(super) acknowledged: u64,
    /// Bytes known to have arrived, acknowledged or SACKed.
    delivered: u64,
}

impl Send {
    /// The half after the handshake: our SYN was `iss` and is acknowledged.
    pub(super) fn new(iss: SeqNum, mss: u32, sums: bool, rtt: RttEstimator) -> Self {
        let first = iss + 1;
        let mut congestion = Congestion::new(mss, Algorithm::default());
        congestion.set_abc_limit(ABC_LIMIT_MERGED);
        Send {
            una: first,
            nxt: first,
            max: first,
            wnd: 0,
            wl1: SeqNum(0),
            wl2: first,
            max_wnd: 0,
            up: None,
            queue: SendQueue::new(first, sums),
            fin: Fin::Open,
            scale: WindowScale::new(0),
            mss,
            nagle: Nagle::default(),
            congestion,
            rtt,
            timed: TimedSegment::new(),
            sack: false,
            scoreboard: Scoreboard::new(),
            dup_acks: 0,
            recovery: None,
            after_timeout: None,
            resend_head: false,
            probe: false,
            overridden: false,
            small_end: None,
            cwnd_limited: false,
            retries: 0,
            probes: 0,
            timer: SendTimer::Off,
            last_sent: Instant::ZERO,
            last_progress: Instant::ZERO,
            soft_error: None,
            buffer: 0,
            buffer_max: 0,
            retransmissions: 0,
            timeouts: 0,
            recoveries: 0,
            acknowledged: 0,
            delivered: 0,
        }
    }

    /// Default estimator.
    pub(super) fn estimator() -> RttEstimator {
        RttEstimator::new(RttConfig::DEFAULT)
    }

    /// Sequence number behind everything we will send: the FIN's, if there is one.
    fn end(&self) -> SeqNum {
        let fin = u32::from(self.fin != Fin::Open);
        self.queue.end() + fin
    }

    /// Whether anything sent is unacknowledged.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.una != self.max
    }

    /// Bytes sent, not acknowledged and not SACKed: RFC 5681's FlightSize.
    #[inline]
    pub(super) fn flight(&self) -> u32 {
        (self.nxt - self.una).saturating_sub(self.scoreboard.sacked_bytes())
    }

    /// Bytes queued and never sent.
    #[inline]
    pub(super) fn unsent(&self) -> u32 {
        let from = self.max.min(self.queue.end());
        self.queue.end() - from
    }

    /// The send buffer as it is now. One congestion window is on its way and must be kept until it
    /// is acknowledged; another waits behind it, so that acknowledgements find something to send.
    #[inline]
    pub(super) fn buffer_now(&self) -> u32 {
        let grown = self.congestion.cwnd().saturating_mul(2);
        self.buffer.max(grown.min(self.buffer_max))
    }

    /// Room in the send buffer.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.buffer_now().saturating_sub(self.queue.len())
    }

    /// Whether nothing but new data in order is to be sent: the straight-line path may be taken.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.recovery.is_none()
            && self.nxt == self.max
            && self.fin == Fin::Open
            && self.up.is_none()
            && !self.resend_head
            && !self.probe
            && !self.overridden
            && self.scoreboard.is_empty()
    }

    /// RFC 9293 section 3.10.7.4, fifth check, at the sender.
    #[inline]
    pub(super) fn on_ack(&mut self, pool: &mut Pool, n: &Notice, now: Instant) -> Acked {
        let duplicate = self.is_duplicate(n);
        let advanced = n.ack.after(self.una);
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
        //# As long as the receiving TCP peer continues to send acknowledgments in
        //# response to the probe segments, the sending TCP peer MUST allow the
        //# connection to stay open (MUST-37).
        if advanced || self.wnd == 0 || n.window.0 == 0 {
            self.retries = 0;
        }
        let mut acked = Acked::default();
        let mut sample = AckSample::at(now);
        sample.flight_before = self.flight();
        sample.cwnd_limited = self.cwnd_limited;
        let mut delivered = 0;
        if advanced {
            let bytes = n.ack - self.una;
            delivered = bytes;
            if self.sack {
                let done = self.scoreboard.advance(n.ack);
                delivered = bytes.saturating_sub(done.already_sacked);
                if done.reneged {
                    self.scoreboard.clear();
                }
                if self.recovery.is_some() && done.reneged {
                    // still recovering, but from the beginning: nothing is known to have arrived
                    self.scoreboard.begin_recovery(n.ack);
                }
            }
            acked = self.advance(pool, n, &mut sample);
        }
        if self.sack && !n.sack.is_empty() {
            delivered += self.update_scoreboard(n);
        }
        self.delivered += u64::from(delivered);
        sample.delivered = delivered;
        sample.total_delivered = self.delivered;
        self.update_window(n);
        self.react(&mut sample, duplicate, advanced);
        if advanced {
            self.restart_timer(now);
        } else {
            self.adjust_timer(now);
        }
        acked
    }

    /// A "duplicate acknowledgment" as RFC 5681 section 2 defines it: (a) to (e).
    fn is_duplicate(&self, n: &Notice) -> bool {
        // the answer to a window probe looks the same and means no loss
        let probing = matches!(self.timer, SendTimer::Persist(_));
        n.ack == self.una && self.outstanding() && !probing && !n.has_text && n.window.0 == self.wnd
    }

    /// `ack` is new: lets go of what it covers.
    #[inline]
    fn advance(&mut self, pool: &mut Pool, n: &Notice, sample: &mut AckSample) -> Acked {
        let now = sample.now;
        let fin = self.fin == Fin::Sent && n.ack.after(self.queue.end());
        let bytes = (n.ack - self.una) - u32::from(fin);
        self.queue.acknowledge(pool, n.ack);
        self.una = n.ack;
        if self.nxt.before(self.una) {
            self.nxt = self.una;
        }
        if self.up.is_some_and(|up| up.before_eq(self.una)) {
            self.up = None;
        }
        self.acknowledged += u64::from(bytes);
        self.last_progress = now;
        self.soft_error = None;
        self.resend_head = false;
        sample.acked = bytes;
        if let Some(rtt) = self.timed.on_ack(self.una, now) {
            sample.rtt = Some(rtt);
            self.rtt.on_sample(rtt);
        } else if let Some(age) = n.echo_age.filter(|_| self.rtt.back_off_count() > 0) {
            self.rtt.on_sample(self.age_of_answer(n, age, now));
        }
        self.rtt.reset_back_off();
        Acked { bytes, fin }
    }

    /// The round trip that an answer after time-outs shows. `age`: of the time stamp it echoes.
    ///
    /// Only a time stamp tells which copy was answered. But when it is answers that were lost, the
    /// one that comes through echoes the first copy, however many time-outs ago: taken for a round
    /// trip, that would drive the time-out up to its limit. Such an answer reports the copy it
    /// answers as a duplicate (RFC 2883): then it answers the last one. Without that report the
    /// age is believed, within reason.
    fn age_of_answer(&self, n: &Notice, age: Duration, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.last_sent);
        let first = n.sack.as_slice().first();
        let duplicate = first.is_some_and(|&(_, right)| SeqNum(right).before_eq(n.ack));
        let most = if duplicate {
            since
        } else {
            since.max(self.rtt.base_rto().saturating_mul(2))
        };
        age.min(most)
    }

    fn update_scoreboard(&mut self, n: &Notice) -> u32 {
        let mut blocks = [(SeqNum(0), SeqNum(0)); gannet_wire::tcp::MAX_SACK_BLOCKS];
        let given = n.sack.as_slice();
        for (to, &(left, right)) in blocks.iter_mut().zip(given) {
            *to = (SeqNum(left), SeqNum(right));
        }
        let blocks = blocks.get(..given.len()).unwrap_or(&[]);
        self.scoreboard
            .update(self.una, self.max, blocks)
            .newly_sacked
    }

    /// RFC 9293 section 3.10.7.4: window updates in order.
    #[inline]
    fn update_window(&mut self, n: &Notice) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be
        //# updated.  If (SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and
        //# SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND, set SND.WL1 <-
        //# SEG.SEQ, and set SND.WL2 <- SEG.ACK.
        let newer = self.wl1.before(n.seq) || (self.wl1 == n.seq && self.wl2.before_eq(n.ack));
        if newer && n.ack.after_eq(self.una) {
            self.wnd = n.window.0;
            self.max_wnd = self.max_wnd.max(n.window.0);
            self.wl1 = n.seq;
            self.wl2 = n.ack;
            if self.wnd > 0 {
                self.probes = 0;
            }
        }
    }

    /// A segment in order that tells this half nothing but how far the peer has got: the window it
    /// repeats is its latest. (Left alone, SND.WL1 would one day be 2^31 behind.)
    #[inline]
    pub(super) fn no_news(&mut self, seq: SeqNum, ack: SeqNum) {
        self.wl1 = seq;
        self.wl2 = ack;
    }

    /// The connection is over: lets go of everything queued.
    pub(super) fn stop(&mut self, pool: &mut Pool) {
        self.queue.clear(pool);
        self.max = self.end();
        (self.una, self.nxt) = (self.max, self.max);
        self.up = None;
        self.scoreboard.clear();
        self.recovery = None;
        self.resend_head = false;
        self.probe = false;
        self.timer = SendTimer::Off;
    }

    /// Congestion control and loss detection.
    fn react(&mut self, sample: &mut AckSample, duplicate: bool, advanced: bool) {
        if let Some(point) = self.recovery {
            if self.una.after_eq(point) {
                self.leave_recovery();
                // what ends a recovery has nothing to say about growth
                sample.cwnd_limited = false;
            } else if !self.sack {
                self.react_without_sack(sample.acked, duplicate, advanced);
            }
        } else {
            self.detect_loss(duplicate, advanced);
        }
        sample.flight = match self.recovery {
            Some(_) if self.sack => self.pipe(),
            _ => self.flight(),
        };
        self.congestion.on_ack(sample);
    }

    fn detect_loss(&mut self, duplicate: bool, advanced: bool) {
        if advanced {
            self.dup_acks = 0;
        } else if duplicate {
            self.dup_acks = self.dup_acks.saturating_add(1);
        }
        if self
            .after_timeout
            .is_some_and(|edge| self.una.after_eq(edge))
        {
            self.after_timeout = None;
        }
        let lost = self.dup_acks >= DUP_THRESH
            || (self.sack && self.scoreboard.is_lost(self.una, self.una, self.mss));
        if lost && self.after_timeout.is_none() && self.outstanding() {
            self.enter_recovery();
        }
    }

    fn enter_recovery(&mut self) {
        self.recovery = Some(self.max);
        self.recoveries += 1;
        self.timed.on_retransmit();
        let flight = self.max - self.una;
        if self.sack {
            self.congestion.enter_recovery(flight, RecoveryKind::Sack);
            self.scoreboard.begin_recovery(self.una);
        } else {
            self.congestion
                .enter_recovery(flight, RecoveryKind::DuplicateAcks);
        }
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
        //# The TCP sender SHOULD use the "fast retransmit" algorithm to detect
        //# and repair loss, based on incoming duplicate ACKs.
        self.resend_head = true;
    }

    fn react_without_sack(&mut self, acked: u32, dup: bool, advanced: bool) {
        if advanced {
            self.congestion.on_partial_ack(acked);
            self.resend_head = true;
        } else if dup {
            self.congestion.on_duplicate_ack();
        }
    }

    fn leave_recovery(&mut self) {
        self.recovery = None;
        self.dup_acks = 0;
        self.resend_head = false;
        self.scoreboard.end_recovery();
        let flight = self.flight();
        self.congestion.exit_recovery(flight);
    }

    fn pipe(&self) -> u32 {
        self.scoreboard.pipe(self.una, self.max, self.mss)
    }

    /// What to send next; `None`: nothing now. `limit`: most payload bytes one emission can carry
    /// (a super-segment's worth).
    pub(super) fn next(&mut self, limit: u32) -> Option<Plan> {
        let limit = limit.max(self.mss);
        if self.resend_head {
            let len = (self.queue.end() - self.una.min(self.queue.end())).min(self.mss);
            return Some(self.plan(self.una, len, Why::Head));
        }
        if self.recovery.is_some() && self.sack {
            return self.next_in_recovery();
        }
        if self.probe {
            let len = u32::from(self.nxt.before(self.queue.end()));
            return Some(self.plan(self.nxt, len, Why::Probe));
        }
        self.next_in_order(limit)
    }

    fn plan(&self, seq: SeqNum, len: u32, why: Why) -> Plan {
        let fin = self.fin != Fin::Open && seq + len == self.queue.end();
        Plan { seq, len, fin, why }
    }

    /// RFC 6675 section 5 step (C).
    fn next_in_recovery(&mut self) -> Option<Plan> {
        let pipe = self.pipe();
        let room = self.congestion.cwnd().saturating_sub(pipe);
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5
        //# (C) If cwnd - pipe >= 1 SMSS, the sender SHOULD transmit one or more
        //# segments as follows:
        if room < self.mss {
            return None;
        }
        let window = self.window_room();
        let new_data = self.unsent() > 0 && window > 0;
        let (seq, len, why) = match self
            .scoreboard
            .next_seg(self.una, self.max, self.mss, new_data)?
        {
            NextSeg::Lost(seq, len) | NextSeg::NotYetLost(seq, len) => (seq, len, Why::Hole),
            NextSeg::NewData => (self.nxt, self.unsent().min(window), Why::Next),
            NextSeg::Rescue(seq, len) => (seq, len, Why::Rescue),
        };
        let data = self.queue.end() - seq.min(self.queue.end());
        Some(self.plan(seq, len.min(data).min(self.mss), why))
    }

    /// Bytes the peer's window takes from `nxt` on.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
    //# However, a sending TCP peer MUST be robust against window shrinking, which may cause the
    //# "usable window" (see Section 3.8.6.2.1) to become negative (MUST-34).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
    //# If this happens, the sender SHOULD NOT send new data (SHLD-15), but SHOULD retransmit
    //# normally the old unacknowledged data between SND.UNA and SND.UNA+SND.WND (SHLD-16).
    fn window_room(&self) -> u32 {
        (self.una + self.wnd).since(self.nxt).max(0) as u32
    }

    /// Data from `nxt` on, new or (after a time-out) again; then the FIN.
    #[inline]
    fn next_in_order(&mut self, limit: u32) -> Option<Plan> {
        if self.nxt.before(self.max) {
            self.skip_sacked();
        }
        let queued = self.queue.end() - self.nxt.min(self.queue.end());
        if queued == 0 {
            let due = self.fin != Fin::Open && self.nxt.before(self.end());
            return due.then(|| self.plan(self.nxt, 0, Why::Next));
        }
        let window = self.window_room();
        let extra = self.congestion.limited_transmit(self.dup_acks);
        let cwnd = self.congestion.cwnd().saturating_add(extra);
        let by_congestion = cwnd.saturating_sub(self.flight());
        self.cwnd_limited = by_congestion < window.min(queued);
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
            SendAnswer::Wait | SendAnswer::WaitForWindow => None,
        }
    }

    /// Sending again after a time-out: jumps over what the peer has reported since.
    fn skip_sacked(&mut self) {
        let nxt = self.nxt;
        let hit = self
            .scoreboard
            .ranges()
            .find(|r| r.0.before_eq(nxt) && nxt.before(r.1));
        if let Some((_, end)) = hit {
            self.nxt = end;
        }
    }

    /// `plan` has left, with `len` of its bytes.
    #[inline]
    pub(super) fn on_sent(&mut self, plan: &Plan, len: u32, now: Instant) {
        let fin = plan.fin && len == plan.len;
        let end = plan.seq + len + u32::from(fin);
        if fin {
            self.fin = Fin::Sent;
        }
        let again = plan.seq.before(self.max);
        if again {
            self.retransmissions += 1;
            self.timed.on_retransmit();
        }
        match plan.why {
            Why::Probe => self.probe = false,
            Why::Hole => self.scoreboard.on_retransmit(self.una, end),
            Why::Rescue => self.scoreboard.on_rescue(self.recovery.unwrap_or(self.max)),
            Why::Head => {
                self.resend_head = false;
                self.scoreboard.on_retransmit(self.una, end);
                self.nxt = self.nxt.max(end);
            }
            Why::Next => {
                self.overridden = false;
                self.nxt = end;
                if !len.is_multiple_of(self.mss) {
                    self.small_end = Some(end);
                }
            }
        }
        if self.recovery.is_some() {
            self.congestion.on_recovery_send(len);
        }
        if end.after(self.max) {
            if !self.outstanding() {
                self.last_progress = now;
            }
            if !again {
                self.timed.on_send(end, now);
            }
            self.max = end;
        }
        self.last_sent = now;
        self.start_timer(now);
    }

    /// Less than a full segment waits for the acknowledgement of a small one (Nagle), for which the
    /// timer runs, and the buffer is far from full: there is nothing to do.
    #[inline]
    pub(super) fn gathers(&self) -> bool {
        self.gathers_with(0)
    }

    /// The same with `more` bytes behind what is queued.
    #[inline]
    pub(super) fn gathers_with(&self, more: u32) -> bool {
        (self.queue.end() - self.nxt).saturating_add(more) < self.mss
            && self.nagle.holds(self.una, self.nxt, self.small_end)
            && matches!(self.timer, SendTimer::Retransmit(_))
            && self.room() > self.buffer_now() / 2
    }

    /// Data is about to be sent by the application: restarts after an idle time.
    #[inline]
    pub(super) fn before_write(&mut self, now: Instant) {
        if !self.outstanding() && self.last_sent != Instant::ZERO {
            let idle = now.saturating_duration_since(self.last_sent);
            self.congestion.on_idle(idle, self.rtt.rto());
        }
        self.before_queueing(now);
    }

    /// Something is about to be queued: the time without progress counts from here when nothing
    /// waited for an acknowledgement before.
    #[inline]
    pub(super) fn before_queueing(&mut self, now: Instant) {
        if self.una == self.end() {
            self.last_progress = now;
        }
    }

    /// The path's MTU changed: a new size for full segments; what is in flight is sent again if it
    /// was too large.
    pub(super) fn set_mss(&mut self, mss: u32) {
        let smaller = mss < self.mss;
        self.mss = mss;
        self.congestion.set_smss(mss);
        if smaller && self.outstanding() && self.recovery.is_none() {
            self.nxt = self.una;
            self.resend_head = true;
        }
    }
}
