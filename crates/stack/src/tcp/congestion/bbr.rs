//! BBR (draft-ietf-ccwg-bbr-06, "BBRv3"; names as there): a model of the path instead of losses.
//! The delivery rate and the shortest round trip say how much the path holds; data leaves at that
//! rate, and never much more than that is in flight.
//!
//! ```text
//!   Startup --pipe full--> Drain --queue gone--> ProbeBW: Down -> Cruise -> Refill -> Up
//!      ^                                                   ^                          |
//!      |                                                   '--------------------------'
//!      '-- not yet full --- ProbeRTT <---- 5 s without a round trip as short, from any ----
//! ```
//!
//! | file | job |
//! |---|---|
//! | `model.rs` | what the path can: round trips counted, `max_bw`, `min_rtt`, `extra_acked` |
//! | `bounds.rs` | what losses say: `bw_shortterm`, `inflight_shortterm`, `inflight_longterm` |
//! | `phases.rs` | the states, and what leads from one to the next |
//!
//! Differences:
//! * of what one acknowledgement shows to be lost, only the segment is judged since whose sending
//!   most was lost;
//! * short flights lose too much by chance (see `bounds.rs`): a round trip that delivered 97 % of a
//!   short-term bound does not lower it, none raises it, and three segments more than `LossThresh`
//!   may be lost;
//! * losses are a part of what a round trip delivered, where that is more than was in flight;
//! * the round trips that still show how little was sent in Drain and ProbeRTT lower no bound;
//! * what an undo brings back is that of before the recovery, not of before its last round trip;
//! * `extra_acked` is the most of five to ten round trips, in halves, and of nothing from before an
//!   idle time;
//! * a router's mark (RFC 3168), to which the draft leaves the answer open, counts as too much loss
//!   while more is tried, and otherwise lowers the short-term bounds to what was delivered.

use core::time::Duration;

use gannet_base::Instant;

mod bounds;
mod model;
mod phases;

use super::pacing::quantum;
use super::{AckSample, Lost, MAX_CWND, initial_window};
use crate::tcp::socket::ControlState;
use bounds::{Bounds, Limits, inflight_at_loss};
use model::Model;
use phases::{Cycle, FullPipe, ProbeRtt, State};

/// `BBR.PacingMarginPercent`: how much less than the model says, so that no queue builds up.
const PACING_MARGIN_PERCENT: u64 = 1;
/// `BBR.MinPipeCwnd` in segments: what keeps a path with delayed acknowledgements busy.
const MIN_PIPE_CWND: u32 = 4;
/// No bound.
const NONE: u32 = u32::MAX;

/// What one acknowledgement says to the model.
#[derive(Clone, Copy, Debug)]
struct Ack {
    now: Instant,
    /// `RS.delivery_rate`, bytes per second.
    bw: u64,
    /// `RS.delivered`.
    delivered: u32,
    prior_delivered: u64,
    tx_in_flight: u32,
    /// `RS.lost`.
    lost: u64,
    app_limited: bool,
    /// `RS.newly_acked`.
    newly_acked: u32,
    /// `C.delivered`.
    total_delivered: u64,
    /// `C.inflight`, and before this acknowledgement.
    inflight: u32,
    inflight_before: u32,
    rtt: Option<Duration>,
    cwnd_limited: bool,
}

impl Ack {
    /// `None`: it says nothing about the rate.
    fn of(sample: &AckSample) -> Option<Self> {
        let rate = sample.rate?;
        Some(Ack {
            now: sample.now,
            bw: rate.bytes_per_second(),
            delivered: u32::try_from(rate.delivered).unwrap_or(u32::MAX),
            prior_delivered: rate.prior_delivered,
            tx_in_flight: rate.tx_in_flight,
            lost: rate.lost,
            app_limited: rate.app_limited,
            newly_acked: sample.delivered,
            total_delivered: sample.total_delivered,
            inflight: sample.flight,
            inflight_before: sample.flight_before,
            rtt: sample.rtt,
            cwnd_limited: sample.cwnd_limited,
        })
    }
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    state: State,
    model: Model,
    bounds: Bounds,
    full: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    /// Sending began again after idleness: the round trips of before were not of a busy path.
    idle_restart: bool,
    /// Bytes per second.
    pacing_rate: u64,
    /// `C.cwnd` and SMSS as they were when this acknowledgement came.
    cwnd: u32,
    smss: u32,
    /// Initial window in segments.
    initial: u8,
    /// `BBR.prior_cwnd`: before ProbeRTT, or a recovery.
    prior_cwnd: u32,
    /// Losses are being repaired.
    repairing: bool,
    /// The bounds before the last loss, should it turn out that nothing was lost, and the state
    /// that it ended (`BBR.undo_state`).
    undo: Limits,
    undo_state: Option<State>,
}

impl Bbr {
    /// `Init`.
    pub(super) fn new(cwnd: u32, smss: u32, initial: u8) -> Self {
        let mut bbr = Bbr {
            state: State::Startup,
            model: Model::default(),
            bounds: Bounds::default(),
            full: FullPipe::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            pacing_rate: 0,
            cwnd,
            smss,
            initial,
            prior_cwnd: 0,
            repairing: false,
            undo: Limits::NONE,
            undo_state: None,
        };
        // `InitPacingRate`, before a round trip is known
        bbr.seed(Duration::from_millis(1), cwnd);
        bbr
    }

    /// `InitPacingRate`: the first window in the round trip of the handshake.
    pub(super) fn seed(&mut self, rtt: Duration, cwnd: u32) {
        if self.model.max_bw() == 0 {
            let nanos = rtt.as_nanos().max(1);
            let nominal = u128::from(cwnd) * 1_000_000_000 / nanos;
            let nominal = u64::try_from(nominal).unwrap_or(u64::MAX);
            self.pacing_rate = self.state.pacing_gain().of(nominal);
        }
    }

    /// Bytes per second.
    pub(super) fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// Whether the pipe is still being filled for the first time.
    pub(super) fn in_startup(&self) -> bool {
        self.state == State::Startup
    }

    /// Whether little is in flight on purpose, to see the shortest round trip.
    pub(super) fn in_probe_rtt(&self) -> bool {
        self.state == State::ProbeRtt
    }

    /// `UpdateOnACK`: the window after an acknowledgement.
    pub(super) fn on_ack(&mut self, sample: &AckSample, cwnd: u32, smss: u32) -> u32 {
        (self.cwnd, self.smss) = (cwnd, smss);
        let Some(ack) = Ack::of(sample) else {
            return cwnd;
        };
        if self.model.min_rtt().is_none()
            && let Some(rtt) = ack.rtt
        {
            self.seed(rtt, cwnd);
        }
        self.update_model_and_state(&ack);
        self.set_pacing_rate(self.state.pacing_gain().percent());
        self.set_cwnd(&ack);
        self.cwnd
    }

    /// `UpdateModelAndState`.
    fn update_model_and_state(&mut self, ack: &Ack) {
        self.bounds.update_latest(ack);
        if self.model.update_round(ack) {
            self.cycle.count_round();
        }
        self.model.update_max_bw(ack);
        self.update_congestion_signals();
        let bw = self.bw();
        self.model
            .update_aggregation(ack, bw, self.cwnd, self.full.reached);
        self.full.check(ack, self.model.round_start());
        self.check_startup_done(ack);
        self.check_drain_done(ack);
        self.update_cycle_phase(ack);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        self.bounds.advance_latest(ack);
    }

    /// `UpdateCongestionSignals` and `AdaptLowerBoundsFromCongestion`: once in a round trip.
    fn update_congestion_signals(&mut self) {
        if self.is_slowness_echoing() {
            return;
        }
        if self.bounds.is_loss_round_start() && !self.state.probes_bw() {
            let (max_bw, cwnd) = (self.model.max_bw(), self.cwnd);
            self.bounds.adapt_short_term(max_bw, cwnd);
        }
    }

    pub(super) fn state(&self) -> ControlState {
        ControlState::Bbr {
            bandwidth: self.bw(),
            min_rtt: self.model.min_rtt(),
            pacing_gain: self.state.pacing_gain().percent() as u32,
            window_gain: self.state.cwnd_gain() as u32,
        }
    }

    /// `BBR.bw`: what the model allows now (`BoundBWForModel`).
    fn bw(&self) -> u64 {
        self.model.max_bw().min(self.bounds.limits.bw_shortterm)
    }

    /// `BDPMultiple`, the gain in percent.
    fn bdp(&self, bw: u64, percent: u64) -> u32 {
        let Some(rtt) = self.model.min_rtt() else {
            return initial_window(self.smss, self.initial);
        };
        let bytes = u128::from(bw) * rtt.as_nanos() * u128::from(percent) / 100_000_000_000;
        u32::try_from(bytes).unwrap_or(MAX_CWND).min(MAX_CWND)
    }

    fn min_pipe(&self) -> u32 {
        self.smss.saturating_mul(MIN_PIPE_CWND)
    }

    /// `QuantizationBudget`: room for what is being collected into emissions at both ends.
    fn with_budget(&self, inflight: u32) -> u32 {
        let offload = quantum(self.pacing_rate, self.smss).saturating_mul(3);
        let inflight = inflight.max(offload).max(self.min_pipe());
        match self.state {
            State::Up => inflight.saturating_add(2 * self.smss),
            _ => inflight,
        }
    }

    /// `Inflight(1.0)`.
    fn inflight(&self, bw: u64) -> u32 {
        self.with_budget(self.bdp(bw, 100))
    }

    /// `TargetInflight`.
    fn target_inflight(&self) -> u32 {
        self.bdp(self.bw(), 100).min(self.cwnd)
    }

    /// `SetPacingRateWithGain`: while the pipe is not known to be full, only upwards.
    fn set_pacing_rate(&mut self, percent: u64) {
        let rate = u128::from(self.bw()) * u128::from(percent * (100 - PACING_MARGIN_PERCENT));
        let rate = u64::try_from(rate / 10_000).unwrap_or(u64::MAX);
        if rate > 0 && (self.full.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// `SetCwnd`.
    fn set_cwnd(&mut self, ack: &Ack) {
        let held = self.bdp(self.bw(), self.state.cwnd_gain());
        let most = self.with_budget(held.saturating_add(self.model.extra_acked()));
        let grown = self.cwnd.saturating_add(ack.newly_acked);
        if self.full.reached {
            self.cwnd = grown.min(most);
        } else if self.cwnd < most || ack.total_delivered < self.initial_bytes() {
            self.cwnd = grown;
        }
        let cap = self.cwnd_cap().max(self.min_pipe());
        self.cwnd = self.cwnd.max(self.min_pipe()).min(cap).min(MAX_CWND);
    }

    fn initial_bytes(&self) -> u64 {
        u64::from(initial_window(self.smss, self.initial))
    }

    /// `BoundCwndForProbeRTT` and `BoundCwndForModel`.
    fn cwnd_cap(&self) -> u32 {
        let longterm = match self.state {
            State::Startup | State::Drain => NONE,
            State::Down | State::Refill | State::Up => self.bounds.limits.inflight_longterm,
            State::Cruise => self.bounds.with_headroom(self.smss),
            State::ProbeRtt => {
                let headroom = self.bounds.with_headroom(self.smss);
                headroom.min(self.bdp(self.bw(), self.state.cwnd_gain()))
            }
        };
        longterm.min(self.bounds.limits.inflight_shortterm)
    }

    /// `SaveStateUponLoss`: a recovery begins, or a time-out has come.
    pub(super) fn before_loss(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
        self.save_cwnd();
        self.repairing = true;
        self.undo = self.bounds.limits;
        self.undo_state = None;
        self.bounds.note_loss(self.model.delivered(), 0);
    }

    /// `HandleLostPacket`. `cwnd` and `C.delivered` as they are now.
    pub(super) fn on_lost(&mut self, lost: &Lost, (cwnd, delivered): (u32, u64), now: Instant) {
        self.cwnd = cwnd;
        self.model.set_delivered(delivered);
        self.bounds.note_loss(delivered, lost.ranges);
        if let Some(inflight) = inflight_at_loss(lost, self.smss)
            && self.probes_now()
        {
            self.on_inflight_too_high(inflight, lost.app_limited, now);
        }
    }

    /// What was lost is repaired: the window to go on with, until the next acknowledgement bounds
    /// it.
    pub(super) fn on_repaired(&mut self, cwnd: u32) -> u32 {
        self.repairing = false;
        self.cwnd = cwnd.max(self.prior_cwnd);
        self.cwnd
    }

    /// `SaveCwnd`.
    fn save_cwnd(&mut self) {
        let spoilt = self.repairing || self.state == State::ProbeRtt;
        let least = if spoilt { self.prior_cwnd } else { 0 };
        self.prior_cwnd = self.cwnd.max(least);
    }

    /// `HandleSpuriousLossDetection`: nothing had been lost.
    pub(super) fn undo(&mut self) {
        self.repairing = false;
        self.bounds.forgive(self.undo);
        self.full.reset();
        let state = self.undo_state.take();
        self.return_to(state);
    }

    /// The peer saw a router's mark (RFC 3168): as much as too much loss. Without SACK, something
    /// is lost.
    pub(super) fn on_mark(&mut self) {
        self.bounds.note_mark(self.model.delivered());
    }

    /// `HandleRestartFromIdle`: data is about to leave, with nothing in flight.
    pub(super) fn on_restart(&mut self, now: Instant) {
        self.idle_restart = true;
        self.model.restart_aggregation(now);
        if self.state.in_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
}

#[cfg(test)]
mod tests;
