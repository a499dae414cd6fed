//! The states of draft-ietf-ccwg-bbr section 5.3, and what leads from one to the next.

use core::time::Duration;

use gannet_base::{Instant, Rng};

use super::bounds::beta;
use super::{Ack, Bbr, NONE};

/// Rounds without a quarter more bandwidth after which the pipe is full.
const FULL_BW_ROUNDS: u8 = 3;
/// `BBR.StartupFullLossCnt`: acknowledgements with losses, in one round, that end Startup.
const STARTUP_FULL_LOSS_CNT: u8 = 6;
/// Rounds after which Drain ends in any case: the queue is another's.
const DRAIN_ROUNDS: u64 = 3;
/// `BBR.ProbeRTTInterval`, `BBR.ProbeRTTDuration`.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `BBRPickProbeWait`: 2 to 3 s from one probe to the next.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_WAIT_SPREAD_MS: u64 = 1000;
/// `BBRIsRenoCoexistenceProbeTime`: at most so many rounds, what Reno needs at 25 Mbit/s and 30 ms.
const RENO_ROUNDS_MAX: u32 = 63;

/// Where the sender is; the four of ProbeBW among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// A factor in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gain(u64);

impl Gain {
    pub(super) fn percent(self) -> u64 {
        self.0
    }

    pub(super) fn of(self, rate: u64) -> u64 {
        rate.saturating_mul(self.0) / 100
    }
}

impl State {
    /// `BBR.pacing_gain` (section 5.1.1): `StartupPacingGain` is 4 ln 2, `DrainPacingGain` 0.35.
    pub(super) fn pacing_gain(self) -> Gain {
        Gain(match self {
            State::Startup => 277,
            State::Drain => 35,
            State::Down => 90,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
            State::Up => 125,
        })
    }

    /// `BBR.cwnd_gain` in percent: `DefaultCwndGain` is 2, `ProbeRTTCwndGain` 0.5.
    pub(super) fn cwnd_gain(self) -> u64 {
        match self {
            State::Up => 225,
            State::ProbeRtt => 50,
            _ => 200,
        }
    }

    /// `BBRIsInAProbeBWState`.
    pub(super) fn in_probe_bw(self) -> bool {
        matches!(
            self,
            State::Down | State::Cruise | State::Refill | State::Up
        )
    }

    /// `BBRIsProbingBW`: losses are what it looks for.
    pub(super) fn probes_bw(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// Whether the bandwidth still grows: the full pipe estimator (section 5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    pub(super) bw: u64,
    count: u8,
    /// `BBR.full_bw_now`.
    pub(super) now: bool,
    /// `BBR.full_bw_reached`.
    pub(super) reached: bool,
}

impl FullPipe {
    /// `BBRCheckFullBWReached`.
    pub(super) fn check(&mut self, ack: &Ack, round_start: bool) {
        if self.now || ack.app_limited {
            return;
        }
        if ack.bw >= self.bw.saturating_add(self.bw / 4) {
            self.reset();
            self.bw = ack.bw;
            return;
        }
        if round_start {
            self.count += 1;
            self.now = self.count >= FULL_BW_ROUNDS;
            self.reached |= self.now;
        }
    }

    /// `BBRResetFullBW`.
    pub(super) fn reset(&mut self) {
        (self.bw, self.count, self.now) = (0, 0, false);
    }
}

/// Which acknowledgements arrive (`BBR.ack_phase`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The cycle of ProbeBW (section 5.3.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycle {
    stamp: Instant,
    /// `BBR.bw_probe_wait`.
    wait: Duration,
    rounds_since_probe: u32,
    /// `BBR.bw_probe_up_rounds`, `_up_acks` (bytes) and `BBR.probe_up_cnt`: segments acknowledged
    /// per segment of growth.
    up_rounds: u8,
    up_acks: u32,
    up_count: u32,
    /// `BBR.bw_probe_samples`: what is acknowledged may have been sent while probing.
    samples: bool,
    ack_phase: AckPhase,
    /// The round in which Drain began.
    drain_round: u64,
}

impl Cycle {
    pub(super) fn count_round(&mut self) {
        self.rounds_since_probe = self.rounds_since_probe.saturating_add(1);
    }
}

/// ProbeRTT (section 5.3.4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeRtt {
    min_delay: Option<Duration>,
    min_stamp: Instant,
    expired: bool,
    done_stamp: Option<Instant>,
    round_done: bool,
}

impl Bbr {
    /// `BBRCheckStartupDone`, `BBRCheckStartupHighLoss`, `BBREnterDrain`.
    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        if self.state != State::Startup {
            return;
        }
        let lossy = self.bounds.is_loss_round_start()
            && self.bounds.loss_events >= STARTUP_FULL_LOSS_CNT
            && self.bounds.is_inflight_too_high(ack, self.smss);
        if !self.full.reached && (lossy || self.bounds.is_marked()) {
            self.full.reached = true;
            let held = self.bdp(self.model.max_bw(), 100);
            self.bounds.limits.inflight_longterm = held.max(self.bounds.inflight_latest);
        }
        if self.full.reached {
            self.state = State::Drain;
            self.cycle.drain_round = self.model.round_count();
        }
    }

    /// `BBRCheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let late = self.model.round_count() > self.cycle.drain_round + DRAIN_ROUNDS;
        if late || ack.inflight <= self.inflight(self.bw()) {
            self.start_down(ack);
        }
    }

    /// `BBRUpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle_phase(&mut self, ack: &Ack) {
        if !self.full.reached {
            return;
        }
        self.adapt_long_term(ack);
        match self.state {
            State::Down if self.is_time_to_probe(ack.now) => self.start_refill(ack),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(ack),
            State::Refill if self.model.round_start() => {
                self.cycle.samples = true;
                self.start_up(ack);
            }
            State::Up => self.go_down_in_time(ack),
            _ => {}
        }
    }

    /// `BBRIsTimeToProbeBW`: after some seconds, or as often as Reno would have come back.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno = (self.target_inflight() / self.smss).min(RENO_ROUNDS_MAX);
        now > self.cycle.stamp + self.cycle.wait || self.cycle.rounds_since_probe >= reno.max(1)
    }

    /// `BBRIsTimeToCruise`: no queue of ours is left, and there is room for others.
    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        ack.inflight <= self.bounds.with_headroom(self.smss)
            && ack.inflight <= self.inflight(self.model.max_bw())
    }

    /// `BBRIsTimeToGoDown`: trying more brings no more.
    fn go_down_in_time(&mut self, ack: &Ack) {
        if ack.cwnd_limited && self.cwnd >= self.bounds.limits.inflight_longterm {
            // it is our own bound that holds the bandwidth back
            self.full.reset();
            self.full.bw = ack.bw;
        } else if self.full.now {
            self.start_down(ack);
        }
    }

    /// `BBRStartProbeBW_DOWN`.
    fn start_down(&mut self, ack: &Ack) {
        self.bounds.reset_signals();
        self.cycle.up_count = u32::MAX;
        self.pick_probe_wait(ack.now);
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.model.start_round(ack.total_delivered);
        self.state = State::Down;
    }

    /// `BBRPickProbeWait`: flows that share a path do not probe at the same time.
    fn pick_probe_wait(&mut self, now: Instant) {
        let mut rng = Rng::new(now.as_nanos() ^ self.pacing_rate.rotate_left(32));
        self.cycle.rounds_since_probe = rng.below(2) as u32;
        self.cycle.wait = PROBE_WAIT + Duration::from_millis(rng.below(PROBE_WAIT_SPREAD_MS));
        self.cycle.stamp = now;
    }

    /// `BBRStartProbeBW_REFILL`: a round trip at the full rate before more is tried, so that what
    /// is lost then is lost because it is too much.
    fn start_refill(&mut self, ack: &Ack) {
        self.bounds.reset_short_term();
        self.cycle.up_rounds = 0;
        self.cycle.up_acks = 0;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.model.start_round(ack.total_delivered);
        self.state = State::Refill;
    }

    /// `BBRStartProbeBW_UP`.
    fn start_up(&mut self, ack: &Ack) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.model.start_round(ack.total_delivered);
        self.full.reset();
        self.full.bw = ack.bw;
        self.state = State::Up;
        self.raise_slope();
    }

    /// `BBRRaiseInflightLongtermSlope`: each round the bound grows by twice as much.
    fn raise_slope(&mut self) {
        let growth = u64::from(self.smss) << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_count = (u64::from(self.cwnd) / growth).max(1) as u32;
    }

    /// `BBRAdaptLongTermModel`.
    fn adapt_long_term(&mut self, ack: &Ack) {
        if self.model.round_start() {
            match self.cycle.ack_phase {
                AckPhase::ProbeStarting => self.cycle.ack_phase = AckPhase::ProbeFeedback,
                AckPhase::ProbeStopping => {
                    self.cycle.samples = false;
                    self.cycle.ack_phase = AckPhase::Init;
                    if self.state.in_probe_bw() && !ack.app_limited {
                        self.model.advance_max_bw_filter();
                    }
                }
                _ => {}
            }
        }
        if self.bounds.is_inflight_too_high(ack, self.smss) {
            if self.cycle.samples {
                self.on_inflight_too_high(ack);
            }
        } else if self.bounds.limits.inflight_longterm != NONE {
            let longterm = &mut self.bounds.limits.inflight_longterm;
            *longterm = ack.tx_in_flight.max(*longterm);
            if self.state == State::Up {
                self.probe_longterm_upward(ack);
            }
        }
    }

    /// `BBRHandleInflightTooHigh`.
    fn on_inflight_too_high(&mut self, ack: &Ack) {
        self.cycle.samples = false;
        if !ack.app_limited {
            let least = beta(self.target_inflight());
            self.bounds.limits.inflight_longterm = ack.tx_in_flight.max(least);
        }
        if self.state == State::Up {
            self.start_down(ack);
        }
    }

    /// `BBRProbeInflightLongtermUpward`.
    fn probe_longterm_upward(&mut self, ack: &Ack) {
        let longterm = &mut self.bounds.limits.inflight_longterm;
        if !ack.cwnd_limited || self.cwnd < *longterm {
            return;
        }
        self.cycle.up_acks = self.cycle.up_acks.saturating_add(ack.newly_acked);
        // whole segments: between them the window reaches the bound, as `go_down_in_time` asks
        let step = self.cycle.up_count.saturating_mul(self.smss).max(1);
        let growth = self.cycle.up_acks / step;
        self.cycle.up_acks %= step;
        *longterm = longterm.saturating_add(growth.saturating_mul(self.smss));
        if self.model.round_start() {
            self.raise_slope();
        }
    }

    /// `BBRUpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        let probe = &mut self.probe_rtt;
        let due = ack.now > probe.min_stamp + PROBE_RTT_INTERVAL;
        probe.expired = due && probe.min_delay.is_some();
        if let Some(rtt) = ack.rtt
            && (due || probe.min_delay.is_none_or(|least| rtt < least))
        {
            probe.min_delay = Some(rtt);
            probe.min_stamp = ack.now;
        }
        if let Some(rtt) = probe.min_delay {
            self.model.update_min_rtt(rtt, probe.min_stamp, ack.now);
        }
    }

    /// `BBRCheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack) {
        if self.state != State::ProbeRtt && self.probe_rtt.expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.prior_cwnd = self.cwnd;
            self.probe_rtt.done_stamp = None;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.model.start_round(ack.total_delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if ack.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `BBRHandleProbeRTT`: 200 ms, and at least a round trip, with next to nothing in flight.
    fn handle_probe_rtt(&mut self, ack: &Ack) {
        if self.probe_rtt.done_stamp.is_some() {
            self.probe_rtt.round_done |= self.model.round_start();
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(ack.now);
            }
            return;
        }
        let low = self.bdp(self.bw(), self.state.cwnd_gain());
        if ack.inflight <= low.max(self.min_pipe()) {
            self.probe_rtt.done_stamp = Some(ack.now + PROBE_RTT_DURATION);
            self.probe_rtt.round_done = false;
            self.model.start_round(ack.total_delivered);
        }
    }

    /// `BBRCheckProbeRTTDone`, `BBRExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.done_stamp.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt.min_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.bounds.reset_short_term();
        if !self.full.reached {
            self.state = State::Startup;
            return;
        }
        // through Down, without the drain: nothing of ours waits anywhere
        self.bounds.reset_signals();
        self.pick_probe_wait(now);
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.state = State::Cruise;
    }
}
