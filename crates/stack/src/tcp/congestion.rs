//! Congestion control in bytes (RFC 5681, 6928, 3465, 6582, 6937, 3042). No clock, no sequence
//! numbers: the caller knows what was acknowledged, lost and in flight, this file answers "how
//! much may be in flight" with [`Congestion::cwnd`].
//!
//! ```text
//!            on_ack                         enter_recovery
//!   Open ------------> Open    Open -----------------------> Recovery
//!   Recovery: with SACK   on_ack, on_recovery_send   (PRR, RFC 6937)
//!             without     on_duplicate_ack, on_partial_ack    (NewReno, RFC 6582)
//!   Recovery -- exit_recovery --> Open     any -- on_rto --> Open, slow start from one segment
//! ```
//!
//! Only bytes count, never acknowledgements, so dividing acknowledgements gains a peer nothing;
//! the caller never passes more bytes than were in flight, so acknowledging early does neither.
//! A new control is a variant of [`CongestionControl`] and of `Control` here; no `dyn`.
//!
//! | file | job |
//! |---|---|
//! | `newreno.rs` | RFC 5681: a segment per round trip, half on loss |
//! | `cubic.rs` | RFC 9438: by the time since the last loss |
//! | `hystart.rs` | RFC 9406: leaving slow start before a queue overflows |
//! | `dctcp.rs` | RFC 8257: shrinks by as much as was marked |
//! | `bbr.rs` | draft-ietf-ccwg-bbr: by a model of the path |
//! | `pacing.rs` | leaving at a rate instead of in bursts |
//! | `prr.rs` | RFC 6937: how the window shrinks while a recovery runs |
//! | `validated.rs` | RFC 7661: windows that nobody uses |
//! | `sample.rs` | what one acknowledgement showed |
//!
//! The caller, on every acknowledgement and in this order: [`Congestion::enter_recovery`] or
//! [`Congestion::exit_recovery`] when this one begins or ends a recovery; then
//! [`Congestion::on_ack`], once, in every phase; without SACK also
//! [`Congestion::on_duplicate_ack`] or [`Congestion::on_partial_ack`].

use core::time::Duration;

mod bbr;
mod cubic;
mod dctcp;
mod hystart;
mod newreno;
mod pacing;
mod prr;
mod sample;
mod validated;

use super::socket::ControlState;
use crate::config::CongestionControl;
use alloc::boxed::Box;
use bbr::Bbr;
use cubic::Cubic;
use dctcp::Dctcp;
use gannet_base::Instant;
use newreno::NewReno;
pub use pacing::Pacer;
use prr::Prr;
pub use sample::{AckSample, Lost, RateSample};
use validated::Unused;

/// How the window grows and how far it falls: what each control remembers.
#[derive(Clone, Debug)]
enum Control {
    NewReno(NewReno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Bbr(Box<Bbr>),
}

impl Control {
    fn new(control: CongestionControl, cwnd: u32, smss: u32, initial: u8) -> Self {
        match control {
            CongestionControl::Cubic => Control::Cubic(Cubic::default()),
            CongestionControl::NewReno => Control::NewReno(NewReno::default()),
            CongestionControl::Dctcp => Control::Dctcp(Dctcp::default()),
            CongestionControl::Bbr => Control::Bbr(Box::new(Bbr::new(cwnd, smss, initial))),
        }
    }

    fn name(&self) -> CongestionControl {
        match self {
            Control::Cubic(_) => CongestionControl::Cubic,
            Control::NewReno(_) => CongestionControl::NewReno,
            Control::Dctcp(_) => CongestionControl::Dctcp,
            Control::Bbr(_) => CongestionControl::Bbr,
        }
    }
}

/// Which acknowledgements drive a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Selective acknowledgements: RFC 6675 with proportional rate reduction (RFC 6937).
    Sack,
    /// Duplicate acknowledgements only: RFC 6582.
    DuplicateAcks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    NewRenoRecovery,
    PrrRecovery(Prr),
    /// The window is the model's, recovery or not.
    ModelRecovery,
}

/// Largest window that RFC 7323 can express; the congestion window stays below it.
pub const MAX_CWND: u32 = 65_535 << 14;
/// RFC 3465 section 2.2: growth per acknowledgement in slow start, in segments.
pub const ABC_LIMIT: u32 = 2;
/// The same towards receivers that merge acknowledgements, as all do by now: an interface, or a
/// stack like this one, hands up dozens of segments as one and answers them with one
/// acknowledgement. With L=2 the window would then grow by two segments where it should grow by
/// dozens, and slow start would take many round trips instead of a few. RFC 9406 section 4.2
/// recommends 8 for senders that do not pace. A receiver that acknowledges every other segment is
/// not answered with longer bursts: growth never exceeds the bytes acknowledged.
pub const ABC_LIMIT_MERGED: u32 = 8;

/// Congestion state of one sender.
#[derive(Clone, Debug)]
pub struct Congestion {
    control: Control,
    phase: Phase,
    /// SMSS: payload bytes of a full-sized segment.
    smss: u32,
    cwnd: u32,
    ssthresh: u32,
    /// L of RFC 3465, in segments.
    abc_limit: u8,
    /// IW of RFC 6928, in segments.
    initial: u8,
    /// The last time-out has not yet been followed by an acknowledgement of new data.
    timed_out: bool,
    /// Between a time-out and the window reaching ssthresh again, L is 1.
    slow_start_after_rto: bool,
    /// Smoothed round trip in nanoseconds; 0 before the first.
    srtt_ns: u64,
    /// `cwnd` and `ssthresh` before the last reduction, for [`Congestion::undo`].
    prior: Option<(u32, u32)>,
    unused: Unused,
}

impl Congestion {
    /// A fresh connection that sends segments of at most `smss` bytes.
    #[must_use]
    pub fn new(smss: u32, control: CongestionControl) -> Self {
        let smss = smss.max(1);
        let cwnd = initial_window(smss, INITIAL_WINDOW);
        Self {
            control: Control::new(control, cwnd, smss, INITIAL_WINDOW),
            phase: Phase::Open,
            smss,
            cwnd,
            //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
            //# The initial value of ssthresh SHOULD be set arbitrarily high (e.g.,
            //# to the size of the largest possible advertised window), but ssthresh
            //# MUST be reduced in response to congestion.
            ssthresh: u32::MAX,
            abc_limit: ABC_LIMIT as u8,
            initial: INITIAL_WINDOW,
            timed_out: false,
            slow_start_after_rto: false,
            srtt_ns: 0,
            prior: None,
            unused: Unused::default(),
        }
    }

    /// Begins, and begins again after idle times, with a window of so many segments, at least one.
    /// Before anything was sent.
    pub fn set_initial_window(&mut self, segments: u8) {
        self.initial = segments.max(1);
        self.cwnd = self.initial_window();
        let name = self.control.name();
        self.control = Control::new(name, self.cwnd, self.smss, self.initial);
    }

    fn initial_window(&self) -> u32 {
        initial_window(self.smss, self.initial)
    }

    /// Another control takes over, with the window as it is; whether it is another.
    pub fn set_control(&mut self, control: CongestionControl) -> bool {
        let other = self.control.name() != control;
        if other {
            // a model knows no threshold; a control that follows one starts from where it was
            self.ssthresh = match (&self.control, control) {
                (_, CongestionControl::Bbr) => u32::MAX,
                (Control::Bbr(bbr), _) if !bbr.in_startup() => self.cwnd,
                _ => self.ssthresh,
            };
            self.control = Control::new(control, self.cwnd, self.smss, self.initial);
        }
        other
    }

    /// What the control says of itself.
    #[must_use]
    pub fn state(&self) -> ControlState {
        match &self.control {
            Control::NewReno(_) | Control::Cubic(_) => ControlState::Window,
            Control::Dctcp(dctcp) => dctcp.state(),
            Control::Bbr(bbr) => bbr.state(),
        }
    }

    /// Bytes that may be in flight.
    #[inline]
    #[must_use]
    pub fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Slow start threshold in bytes; `u32::MAX` before the first loss.
    #[must_use]
    pub fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// Whether the window grows exponentially.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        match &self.control {
            Control::Bbr(bbr) => bbr.in_startup(),
            _ => self.cwnd < self.ssthresh,
        }
    }

    /// Whether a fast recovery is under way.
    #[must_use]
    pub fn in_recovery(&self) -> bool {
        self.phase != Phase::Open
    }

    /// SMSS in bytes.
    #[must_use]
    pub fn smss(&self) -> u32 {
        self.smss
    }

    /// Sets L, the growth per acknowledgement in slow start, in segments (default 2; at least 1).
    /// RFC 3465 forbids more than 2. It predates receivers that merge 45 segments into one
    /// acknowledgement; RFC 9406 section 4.2 uses 8 without pacing. More means longer bursts.
    pub fn set_abc_limit(&mut self, segments: u32) {
        self.abc_limit = segments.clamp(1, 255) as u8;
    }

    /// The path's segment size changed. A smaller one scales the window (same number of segments,
    /// no burst); a larger one leaves it.
    pub fn set_smss(&mut self, smss: u32) {
        let smss = smss.max(1);
        if smss < self.smss {
            let scaled = u64::from(self.cwnd) * u64::from(smss) / u64::from(self.smss);
            self.cwnd = (scaled as u32).max(smss);
        }
        self.smss = smss;
        self.cwnd = self.cwnd.max(smss);
    }

    /// Our SYN or SYN-ACK had to be retransmitted.
    //= https://www.rfc-editor.org/rfc/rfc6928#section-2
    //# If the SYN or SYN/ACK is lost, the initial window used by a sender after a correctly
    //# transmitted SYN MUST be one segment consisting of MSS bytes.
    pub fn on_syn_lost(&mut self) {
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# Further, if the SYN or SYN/ACK is lost, the initial window used by a
        //# sender after a correctly transmitted SYN MUST be one segment
        //# consisting of at most SMSS bytes.
        self.cwnd = self.smss;
    }

    /// An acknowledgement, of something new or not, in any phase; also the one that began a
    /// recovery. Grows the window where that was earned: [`AckSample::cwnd_limited`]. In SACK
    /// recovery sets it so that `cwnd - flight` is what may be sent now (PRR).
    pub fn on_ack(&mut self, sample: &AckSample) {
        if sample.acked > 0 {
            self.timed_out = false;
        }
        if let Some(rtt) = sample.rtt {
            self.smooth(rtt);
        }
        self.watch_slow_start(sample);
        if let Control::Dctcp(dctcp) = &mut self.control {
            dctcp.on_ack(sample);
        }
        if let Control::Bbr(bbr) = &mut self.control {
            self.cwnd = bbr.on_ack(sample, self.cwnd, self.smss);
            return;
        }
        match self.phase {
            //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
            //# The sending TCP SHOULD NOT increase the congestion window in response to the
            //# receipt of an ECN-Echo ACK packet.
            Phase::Open if sample.ece => {}
            Phase::Open => self.grow(sample),
            Phase::NewRenoRecovery | Phase::ModelRecovery => {}
            Phase::PrrRecovery(ref mut prr) => {
                let cwnd = prr.on_ack(sample, self.ssthresh, self.smss);
                self.cwnd = cwnd.clamp(self.smss, MAX_CWND);
            }
        }
    }

    /// Segments are lost, at `now`, with `delivered` bytes delivered since the connection began.
    /// Said after the recovery has begun, and before [`Congestion::on_ack`].
    pub fn on_lost(&mut self, lost: &Lost, delivered: u64, now: Instant) {
        if let Control::Bbr(bbr) = &mut self.control {
            bbr.on_lost(lost, (self.cwnd, delivered), now);
        }
    }

    /// The peer saw a router's mark: once per window of data, outside recovery, while `flight`
    /// bytes are outstanding.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-5
    //# Upon the receipt by an ECN-Capable transport of a single CE packet, the congestion control
    //# algorithms followed at the end-systems MUST be essentially the same as the congestion
    //# control response to a *single* dropped packet.
    pub fn on_ecn(&mut self, flight: u32) {
        //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
        //# The indication of congestion should be treated just as a congestion loss in non-ECN-
        //# Capable TCP.
        self.prior = None;
        if let Control::Bbr(bbr) = &mut self.control {
            return bbr.on_mark();
        }
        self.ssthresh = match &self.control {
            Control::Dctcp(dctcp) => dctcp.after_mark(self.cwnd, self.smss),
            _ => self.after_loss(flight),
        };
        self.cwnd = self.ssthresh.min(self.cwnd).max(self.smss);
    }

    /// Bytes per second at which segments leave; `None`: as fast as the window allows.
    #[inline]
    #[must_use]
    pub fn pacing_rate(&self) -> Option<u64> {
        if let Control::Bbr(bbr) = &self.control {
            return Some(bbr.pacing_rate());
        }
        // as Linux: in slow start the window of the next round trip, twice this one's; later a
        // little more than the window, so that it and not the rate decides
        let percent = if self.cwnd < self.ssthresh / 2 {
            200
        } else {
            120
        };
        let rate = u128::from(self.cwnd) * 1_000_000_000 * percent / 100;
        let rate = rate.checked_div(self.srtt_ns.into())?;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// The handshake's round trip, before any other is known.
    pub fn seed_rtt(&mut self, rtt: Duration) {
        if self.srtt_ns == 0 {
            self.srtt_ns = nanos(rtt);
        }
        if let Control::Bbr(bbr) = &mut self.control {
            bbr.seed(rtt, self.cwnd);
        }
    }

    /// The control wants to see how little the path holds: what is delivered now shows less than
    /// it can.
    #[must_use]
    pub fn wants_low_flight(&self) -> bool {
        matches!(&self.control, Control::Bbr(bbr) if bbr.in_probe_rtt())
    }

    /// RFC 6298 section 2's average; for pacing and for CUBIC's look ahead.
    fn smooth(&mut self, rtt: Duration) {
        let rtt = nanos(rtt);
        self.srtt_ns = match self.srtt_ns {
            0 => rtt,
            before => before - before / 8 + rtt / 8,
        };
    }

    /// HyStart++ (RFC 9406): the first slow start ends before it has filled every queue.
    fn watch_slow_start(&mut self, sample: &AckSample) {
        // only the first: later ones know a threshold (section 4.3)
        if let (Phase::Open, u32::MAX, Control::Cubic(cubic)) =
            (self.phase, self.ssthresh, &mut self.control)
            && cubic.hystart.on_ack(sample)
        {
            self.ssthresh = self.cwnd;
        }
    }

    /// `newly_acked` bytes left the flight outside recovery. `cwnd_limited`: the window, not the
    /// application or the peer, was what held the sender back; otherwise growth would be unearned.
    fn grow(&mut self, sample: &AckSample) {
        let newly_acked = sample.acked;
        if newly_acked == 0 {
            return;
        }
        //= https://www.rfc-editor.org/rfc/rfc7661#section-4.4
        //# A sender that is not cwnd-limited MUST NOT increase the cwnd when ACK packets are
        //# received in this phase (i.e., needs to avoid growing the cwnd when it has not recently
        //# sent using the current size of cwnd).
        if !sample.cwnd_limited {
            let flight = sample.flight_before;
            if self.unused.lasts(self.cwnd, flight, sample.now) {
                self.shrink_unused();
            }
            if let Control::Cubic(cubic) = &mut self.control {
                cubic.pause(sample.now);
            }
            return;
        }
        let left = if self.in_slow_start() {
            self.slow_start(newly_acked)
        } else {
            newly_acked
        };
        if left > 0 && !self.in_slow_start() {
            self.slow_start_after_rto = false;
            let (cwnd, smss) = (self.cwnd, self.smss);
            self.cwnd = match &mut self.control {
                Control::NewReno(reno) | Control::Dctcp(Dctcp { reno, .. }) => {
                    reno.avoid(cwnd, smss, left)
                }
                Control::Cubic(cubic) => {
                    let srtt = Duration::from_nanos(self.srtt_ns);
                    cubic.avoid(cwnd, smss, left, sample.now, srtt)
                }
                Control::Bbr(_) => cwnd,
            };
        }
    }

    /// The window was twice as large as needed for five minutes.
    fn shrink_unused(&mut self) {
        //= https://www.rfc-editor.org/rfc/rfc7661#section-4.4.3
        //# If the sender exits the non-validated phase after this period, it MUST update the
        //# ssthresh:
        // ssthresh = max(ssthresh, 3*cwnd/4)
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        //= https://www.rfc-editor.org/rfc/rfc7661#section-4.4.3
        //# The sender MUST then update cwnd to be not greater than:
        // cwnd = max((1/2)*cwnd, IW)
        let least = self.initial_window().min(self.cwnd);
        self.cwnd = (self.cwnd / 2).max(least);
    }

    /// Grows exponentially up to ssthresh; returns the bytes that remain for avoidance.
    fn slow_start(&mut self, newly_acked: u32) -> u32 {
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# During slow start, a TCP increments cwnd by at most SMSS bytes for
        //# each ACK received that cumulatively acknowledges new data.
        // RFC 3465 section 2.2 relaxes this to L*SMSS by bytes, and to L=1 after a time-out.
        let limit = match &self.control {
            _ if self.slow_start_after_rto => 1,
            // (more than L=2 is RFC 9406's, for senders that look out for the path's end)
            Control::Cubic(_) => u32::from(self.abc_limit),
            _ => u32::from(self.abc_limit).min(ABC_LIMIT),
        };
        let mut grow = newly_acked.min(limit.saturating_mul(self.smss));
        if let Control::Cubic(cubic) = &self.control {
            grow /= cubic.hystart.divisor();
        }
        if planted!(SlowStartTriples) {
            grow = newly_acked.saturating_mul(3);
        }
        let room = self.ssthresh - self.cwnd;
        self.cwnd = self.cwnd.saturating_add(grow.min(room)).min(MAX_CWND);
        grow.saturating_sub(room)
    }

    /// Bytes that may be sent beyond the window on the first two duplicate acknowledgements
    /// (limited transmit, RFC 3042), so that small windows can still find the third.
    #[must_use]
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
    //# Further, the TCP sender MUST NOT change cwnd to reflect these two segments [RFC3042].
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
    //# When [RFC3042] is in use, additional data sent in limited transmit MUST NOT be included in
    //# this calculation.
    pub fn limited_transmit(&self, duplicate_acks: u32) -> u32 {
        match (self.phase, duplicate_acks) {
            (Phase::Open, 1 | 2) => duplicate_acks * self.smss,
            _ => 0,
        }
    }

    /// Loss was found while `flight` bytes were outstanding.
    pub fn enter_recovery(&mut self, flight: u32, kind: RecoveryKind) {
        self.prior = Some((self.cwnd, self.ssthresh));
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
        //# When the third duplicate ACK is received, a TCP MUST set ssthresh to no more than the
        //# value given in equation (4).
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.3
        //# That is, when the first loss in a window of data is detected, ssthresh MUST be set to no
        //# more than the value given by equation (4).
        self.ssthresh = self.after_loss(flight);
        if let Control::Bbr(bbr) = &mut self.control {
            self.phase = Phase::ModelRecovery;
            if kind == RecoveryKind::DuplicateAcks {
                bbr.on_mark(); // how much is lost nobody knows
            }
            return;
        }
        match kind {
            RecoveryKind::DuplicateAcks => {
                self.phase = Phase::NewRenoRecovery;
                // RFC 6582 section 3.2 step 2: three segments have left the network
                //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
                //# The lost segment starting at SND.UNA MUST be retransmitted and cwnd set to
                //# ssthresh plus 3*SMSS.
                self.cwnd = self.ssthresh.saturating_add(3 * self.smss).min(MAX_CWND);
            }
            RecoveryKind::Sack => self.phase = Phase::PrrRecovery(Prr::new(flight)),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.5
    //# A DCTCP sender MUST react to loss episodes in the same way as conventional TCP, including
    //# fast retransmit and fast recovery algorithms, as specified in [RFC5681].
    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.5
    //# For cases where the packet loss is inferred and not explicitly signaled by ECN, the cwnd and
    //# other state variables like ssthresh MUST be changed in the same way that a conventional TCP
    //# would have changed them.
    fn after_loss(&mut self, flight: u32) -> u32 {
        if planted!(WindowAfterLoss) {
            return self.cwnd;
        }
        match &mut self.control {
            Control::NewReno(reno) | Control::Dctcp(Dctcp { reno, .. }) => {
                reno.after_loss(flight, self.smss)
            }
            Control::Cubic(cubic) => cubic.after_loss(flight, self.cwnd, self.smss),
            Control::Bbr(bbr) => {
                bbr.before_loss(self.cwnd);
                u32::MAX
            }
        }
    }

    /// `bytes` were sent or retransmitted during SACK recovery.
    pub fn on_recovery_send(&mut self, bytes: u32) {
        if let Phase::PrrRecovery(prr) = &mut self.phase {
            prr.on_send(bytes);
        }
    }

    /// A further duplicate acknowledgement during NewReno recovery: a segment left the network.
    pub fn on_duplicate_ack(&mut self) {
        if self.phase == Phase::NewRenoRecovery {
            //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
            //# For each additional duplicate ACK received (after the third), cwnd MUST be
            //# incremented by SMSS.
            self.cwnd = self.cwnd.saturating_add(self.smss).min(MAX_CWND);
        }
    }

    /// A partial acknowledgement during NewReno recovery (RFC 6582 section 3.2 step 3).
    pub fn on_partial_ack(&mut self, newly_acked: u32) {
        self.timed_out = false;
        if self.phase == Phase::NewRenoRecovery {
            let deflated = self.cwnd.saturating_sub(newly_acked);
            let back = if newly_acked >= self.smss {
                self.smss
            } else {
                0
            };
            self.cwnd = deflated.saturating_add(back).max(self.smss);
        }
    }

    /// Everything up to the recovery point is acknowledged; `flight` bytes are still outstanding.
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
    //# When the next ACK arrives that acknowledges previously unacknowledged data, a TCP MUST set
    //# cwnd to ssthresh (the value set in step 2).
    //= https://www.rfc-editor.org/rfc/rfc5681#section-4.3
    //# Finally, after all loss in the given window of segments has been successfully retransmitted,
    //# cwnd MUST be set to no more than ssthresh and congestion avoidance MUST be used to further
    //# increase cwnd.
    pub fn exit_recovery(&mut self, flight: u32) {
        match self.phase {
            Phase::Open => return,
            Phase::ModelRecovery => self.restore_model(),
            Phase::PrrRecovery(_) => self.cwnd = self.ssthresh,
            // RFC 6582 section 3.2 step 3, full acknowledgement, choice (1): no burst
            Phase::NewRenoRecovery => {
                let bound = flight.max(self.smss).saturating_add(self.smss);
                self.cwnd = self.ssthresh.min(bound);
            }
        }
        self.cwnd = self.cwnd.clamp(self.smss, MAX_CWND);
        self.phase = Phase::Open;
        self.timed_out = false;
    }

    /// What the last time-out took for lost is repaired.
    pub fn exit_loss(&mut self) {
        self.restore_model();
    }

    /// A model's window does not suffer from a loss for longer than its repair takes.
    fn restore_model(&mut self) {
        if let Control::Bbr(bbr) = &mut self.control {
            self.cwnd = bbr.on_repaired(self.cwnd);
        }
    }

    /// The retransmission timer expired while `flight` bytes were outstanding.
    //= https://www.rfc-editor.org/rfc/rfc8961#section-4
    //# (3) Loss detected by the RTO mechanism MUST be taken as an indication of network congestion
    //# and the sending rate adapted using a standard mechanism (e.g., TCP collapses the congestion
    //# window to one packet [RFC5681]).
    pub fn on_rto(&mut self, flight: u32) {
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# On the other hand, when a TCP sender detects segment loss using the
        //# retransmission timer and the given segment has already been
        //# retransmitted by way of the retransmission timer at least once, the
        //# value of ssthresh is held constant.
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.3
        //# Loss in two successive windows of data, or the loss of a retransmission, should be taken
        //# as two indications of congestion and, therefore, cwnd (and ssthresh) MUST be lowered
        //# twice in this case.
        if !self.timed_out {
            self.prior = Some((self.cwnd, self.ssthresh));
            self.ssthresh = self.after_loss(flight);
        }
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# Furthermore, upon a timeout (as specified in [RFC2988]) cwnd MUST be
        //# set to no more than the loss window, LW, which equals 1 full-sized
        //# segment (regardless of the value of IW).
        //= https://www.rfc-editor.org/rfc/rfc8257#section-3.5
        //# Just as specified in [RFC5681], upon a timeout, the cwnd MUST be set to no more than the
        //# loss window (1 full-sized segment), regardless of previous cwnd reductions in a given
        //# window of data.
        if !planted!(WindowAfterTimeout) {
            self.cwnd = self.smss;
        }
        self.phase = Phase::Open;
        if let Control::Cubic(cubic) = &mut self.control {
            cubic.on_rto();
        }
        self.timed_out = true;
        self.slow_start_after_rto = true;
    }

    /// The last reduction was a mistake (time stamps or D-SACK prove that nothing was lost).
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
            self.phase = Phase::Open;
            self.timed_out = false;
            self.slow_start_after_rto = false;
            match &mut self.control {
                Control::Cubic(cubic) => cubic.undo(),
                Control::Bbr(bbr) => bbr.undo(),
                _ => {}
            }
        }
    }

    /// Data is about to be sent after `idle` without any, with nothing in flight.
    pub fn on_idle(&mut self, idle: Duration, rto: Duration, now: Instant) {
        // what leaves at a rate needs no smaller window
        if let Control::Bbr(bbr) = &mut self.control {
            return bbr.on_restart(now);
        }
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.1
        //# Therefore, a TCP SHOULD set cwnd to no more than RW before beginning
        //# transmission if the TCP has not sent data in an interval exceeding
        //# the retransmission timeout.
        if idle > rto && !self.in_recovery() {
            // what the path has carried is a hint of what it will carry (RFC 7661 section 4.4.3):
            // slow start back to it, no further
            if !self.in_slow_start() {
                self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
            }
            self.cwnd = self.cwnd.min(self.initial_window());
            if let Control::Cubic(cubic) = &mut self.control {
                cubic.restart();
            }
        }
    }
}

/// RFC 6928's number of segments.
pub const INITIAL_WINDOW: u8 = 10;

/// RFC 6928 section 2: `min (10*MSS, max (2*MSS, 14600))`, or the same with another number of
/// `segments` than 10, and of 1460 bytes each in the place of 14600.
#[must_use]
pub fn initial_window(smss: u32, segments: u8) -> u32 {
    if planted!(InitialWindow) {
        return smss.saturating_mul(100);
    }
    let segments = u32::from(segments.max(1));
    smss.saturating_mul(segments)
        .min(smss.saturating_mul(2).max(segments * 1460))
        .min(MAX_CWND)
}

/// A round trip in nanoseconds.
fn nanos(rtt: Duration) -> u64 {
    u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
