//! The sending half of a synchronised connection: SND.*, loss recovery, and what to send next.
//!
//! ```text
//!    snd.una          snd.nxt    snd.max              una + wnd     queue.end
//!  -----|---------------|----------|----------------------|------------|
//!       |  in flight    | to be sent again | new, in window| new, beyond|
//! ```
//! `max` is the RFC's SND.NXT. Without SACK `nxt` falls back to `una` after a time-out and catches
//! up from there (the variables of 4.4BSD); with SACK what is lost is known piece by piece
//! (`sent.rs`). It shares no field with the receiving half.

use alloc::boxed::Box;

use gannet_base::Instant;
use gannet_link::{Checksum, Pool};

mod ack;
mod busy;
mod dormant;
mod next;
mod paced;
mod recovery;
mod size;
mod tail;
mod timers;
mod undo;

use super::congestion::{ABC_LIMIT_MERGED, Congestion, Pacer};
use super::ecn::EcnSender;
use super::error::TcpError;
use super::rack::Rack;
use super::rtt::RttEstimator;
use super::send_queue::SendQueue;
use super::sent::Sent;
use super::seq::SeqNum;
use super::socket::LossState;
use super::window::{Nagle, WindowScale};
use crate::config::CongestionControl;
pub use busy::{Busy, BusyTimes};
pub(super) use dormant::RestingSend;
pub(super) use size::SizeAnswer;
use size::{Ask, SizeProbe};
use tail::Tail;
use undo::{Forward, Undo};

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
    /// RFC 8985 section 7.2: a probe of the tail.
    Tail(Instant),
    /// RFC 8985 section 6.2: what may only be late will be lost.
    Reorder(Instant),
}

/// Why a segment leaves.
// (the first two: new data)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Bytes from `nxt` on.
    Next,
    /// The same, more than an ordinary segment takes, in one: a probe of the path's MTU.
    Size,
    /// The first unacknowledged bytes again: fast retransmission or time-out.
    Head,
    /// What is known as lost.
    Hole,
    /// A probe of the tail (RFC 8985 section 7.3).
    Tail,
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
    /// The next round trip is measured when this is acknowledged.
    timed: SeqNum,
    /// Both sides agreed on SACK.
    pub(super) sack: bool,
    /// Both sides agreed on time stamps.
    pub(super) timestamps: bool,
    /// The link may lose segments: all but memory.
    lossy: bool,
    pub(super) sent: Sent,
    pub(super) rack: Rack,
    dup_acks: u32,
    /// In fast recovery: `max` when it began.
    pub(super) recovery: Option<SeqNum>,
    /// After a time-out: `max` then. Duplicate acknowledgements below it mean nothing (RFC 6582).
    loss: Option<SeqNum>,
    undo: Option<Undo>,
    forward: Forward,
    tail: Tail,
    /// When what may only be late will be lost.
    doubt: Option<Instant>,
    /// Send the head of the queue now, whatever the windows say.
    resend_head: bool,
    /// What leaves beside what the queues say.
    ask: Ask,
    /// A probe of the path's MTU.
    size: Option<SizeProbe>,
    /// The override timer expired.
    overridden: bool,
    /// End of the last small segment (Minshall).
    small_end: Option<SeqNum>,
    /// The congestion window, not the peer's, was what held sending back.
    cwnd_limited: bool,
    /// Sends at a rate.
    pacer: Option<Box<Pacer>>,
    /// Time-outs in a row without progress, or window probes in a row without answer.
    pub(super) retries: u32,
    /// Window probes since the window closed.
    probes: u32,
    pub(super) timer: SendTimer,
    /// When the retransmission timer expires, whichever runs instead.
    rto_at: Instant,
    pub(super) last_sent: Instant,
    /// Marks answered (RFC 3168).
    pub(super) ecn: EcnSender,
    /// Last time the peer acknowledged something new, or outstanding data began.
    pub(super) last_progress: Instant,
    /// What an ICMP error said since.
    pub(super) soft_error: Option<TcpError>,
    /// Send buffer in bytes, and how far it may grow with the path.
    pub(super) buffer: u32,
    /// See `buffer`.
    pub(super) buffer_max: u32,
    /// See [`Send::buffer_now`].
    fitted: u32,
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
    pub(super) acknowledged: u64,
    /// Recoveries and time-outs that turned out needless.
    pub(super) undone: u64,
    pub(super) tail_probes: u64,
    /// Times the peer threw away what it had reported.
    pub(super) reneged: u64,
    pub(super) busy: Busy,
    /// The peer's window was what the last question for something to send met.
    window_limited: bool,
}

impl Send {
    /// The half after the handshake: our SYN was `iss` and is acknowledged. `link`: who makes
    /// checksums there; nobody does where nothing gets lost.
    pub(super) fn new(iss: SeqNum, mss: u32, link: Checksum, rtt: RttEstimator) -> Self {
        let first = iss + 1;
        let mut congestion = Congestion::new(mss, CongestionControl::default());
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
            queue: SendQueue::new(first, link == Checksum::Software),
            fin: Fin::Open,
            scale: WindowScale::new(0),
            mss,
            nagle: Nagle::default(),
            congestion,
            rtt,
            timed: first,
            sack: false,
            timestamps: false,
            lossy: link != Checksum::None,
            sent: Sent::new(first),
            rack: Rack::new(first),
            dup_acks: 0,
            recovery: None,
            loss: None,
            undo: None,
            forward: Forward::Off,
            tail: Tail::new(),
            doubt: None,
            resend_head: false,
            ask: Ask::Nothing,
            size: None,
            overridden: false,
            small_end: None,
            cwnd_limited: false,
            pacer: None,
            retries: 0,
            probes: 0,
            timer: SendTimer::Off,
            rto_at: Instant::FAR_FUTURE,
            last_sent: Instant::ZERO,
            ecn: EcnSender::default(),
            last_progress: Instant::ZERO,
            soft_error: None,
            buffer: 0,
            buffer_max: 0,
            fitted: 0,
            retransmissions: 0,
            timeouts: 0,
            recoveries: 0,
            acknowledged: 0,
            undone: 0,
            tail_probes: 0,
            reneged: 0,
            busy: Busy::default(),
            window_limited: false,
        }
    }

    /// Queues what was written before the connection was open, of which the peer, who opened it,
    /// acknowledges what lies before `ack`.
    pub(super) fn take_early(&mut self, pool: &mut Pool, queue: SendQueue, ack: SeqNum) {
        let acknowledged = ack - self.una;
        self.queue = queue;
        self.queue.acknowledge(pool, ack);
        self.acknowledged = u64::from(acknowledged);
        self.skip_to(ack);
    }

    /// Everything before `first` is done with; nothing was sent yet.
    fn skip_to(&mut self, first: SeqNum) {
        (self.una, self.nxt, self.max) = (first, first, first);
        (self.wl2, self.timed) = (first, first);
        self.sent = Sent::new(first);
        self.rack = Rack::new(first);
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

    /// Bytes that may be on their way: sent, not acknowledged, not SACKed, not lost (RFC 6675's
    /// pipe).
    #[inline]
    pub(super) fn flight(&self) -> u32 {
        let settled = self.sent.sacked().saturating_add(self.sent.lost());
        (self.nxt - self.una).saturating_sub(settled)
    }

    /// Whether a loss is suspected, or being repaired.
    pub(super) fn loss_state(&self) -> LossState {
        let timed_out = self.loss.is_some_and(|end| self.una.before(end));
        match self.recovery {
            _ if timed_out => LossState::Loss,
            Some(_) => LossState::Recovery,
            None if self.dup_acks > 0 || self.sent.sacked() > 0 => LossState::Disorder,
            None => LossState::Open,
        }
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
        self.fitted
    }

    /// The congestion window, or what the application wants, is another.
    #[inline]
    pub(super) fn fit_buffer(&mut self) {
        let grown = self.congestion.cwnd().saturating_mul(2);
        self.fitted = self.buffer.max(grown.min(self.buffer_max));
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
            && self.ask <= Ask::Size
            && !self.overridden
            && !self.tail.due
            && self.sent.is_in_order()
    }

    /// The connection is over: lets go of everything queued.
    pub(super) fn stop(&mut self, pool: &mut Pool) {
        self.queue.clear(pool);
        self.max = self.end();
        (self.una, self.nxt) = (self.max, self.max);
        self.up = None;
        self.sent.clear();
        self.recovery = None;
        self.loss = None;
        self.resend_head = false;
        (self.ask, self.size) = (Ask::Nothing, None);
        self.tail.due = false;
        self.timer = SendTimer::Off;
        self.pacer = None;
    }

    /// Data is about to be sent by the application: restarts after an idle time.
    #[inline]
    pub(super) fn before_write(&mut self, now: Instant) {
        if !self.outstanding() && self.last_sent != Instant::ZERO {
            let idle = now.saturating_duration_since(self.last_sent);
            self.congestion.on_idle(idle, self.rtt.rto(), now);
            self.set_pace();
        }
        if self.pacer.is_some() {
            self.before_paced_write(now);
        }
        self.before_queueing(now);
    }

    /// Something is about to be queued: the time without progress counts from here when nothing
    /// waited for an acknowledgement before.
    #[inline]
    pub(super) fn before_queueing(&mut self, now: Instant) {
        if self.una == self.end() {
            self.last_progress = now;
            self.begin_busy(now);
        }
    }

    /// Full segments become smaller from now on; what is under way may arrive.
    pub(super) fn lower_mss(&mut self, mss: u32) {
        if mss < self.mss {
            self.mss = mss;
            self.congestion.set_smss(mss);
            self.forget_size();
        }
    }

    /// The path's MTU changed: a new size for full segments; what is in flight is sent again if it
    /// was too large.
    pub(super) fn set_mss(&mut self, mss: u32) {
        let smaller = mss < self.mss;
        self.mss = mss;
        self.congestion.set_smss(mss);
        if !smaller || !self.outstanding() {
            return;
        }
        self.forget_size();
        if self.sack {
            // as after a time-out, but this was no congestion
            self.sent.lose_all();
            self.recovery = None;
            self.loss = Some(self.max);
            self.resend_head = true;
        } else if self.recovery.is_none() {
            self.nxt = self.una;
            self.resend_head = true;
        }
    }
}
