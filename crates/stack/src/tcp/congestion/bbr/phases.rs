//! The states of draft-ietf-ccwg-bbr-06 section 5.3, and what leads from one to the next.

use core::time::Duration;

use gannet_base::{Instant, Rng};

use super::bounds::beta;
use super::{Ack, Bbr, NONE};

/// Rounds without a quarter more bandwidth after which the pipe is full.
const FULL_BW_ROUNDS: u8 = 3;
/// `BBRStartupFullLossCnt`: ranges lost in one round that end Startup.
const STARTUP_FULL_LOSS_CNT: u32 = 6;
/// Rounds after which Drain ends in any case: the queue is another's.
const DRAIN_ROUNDS: u64 = 3;
/// `BBR.ProbeRTTInterval`, `BBR.ProbeRTTDuration`.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `PickProbeWait`: 2 to 3 s from one probe to the next.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_WAIT_SPREAD_MS: u64 = 1000;
/// `IsRenoCoexistenceProbeTime`: at most so many rounds, what Reno needs at 25 Mbit/s and 30 ms.
const RENO_ROUNDS_MAX: u32 = 63;

/// Rounds after Drain and ProbeRTT until what arrives shows a round trip at the full rate.
const ECHO_ROUNDS: u64 = 2;

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
    /// `BBR.pacing_gain` (section 5.1.1): `StartupPacingGain` is 4 ln 2, `DrainPacingGain` 0.5.
    pub(super) fn pacing_gain(self) -> Gain {
        Gain(match self {
            State::Startup => 277,
            State::Drain => 50,
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

    /// `IsInAProbeBWState`.
    pub(super) fn in_probe_bw(self) -> bool {
        matches!(
            self,
            State::Down | State::Cruise | State::Refill | State::Up
        )
    }

    /// `IsProbingBW`: losses are what it looks for.
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
    /// `CheckFullBWReached`.
    pub(super) fn check(&mut self, ack: &Ack, round_start: bool) {
        if self.now || !round_start || ack.app_limited {
            return;
        }
        if ack.bw >= self.bw.saturating_add(self.bw / 4) {
            self.reset();
            self.bw = ack.bw;
            return;
        }
        self.count += 1;
        self.now = self.count >= FULL_BW_ROUNDS;
        self.reached |= self.now;
    }

    /// `ResetFullBW`.
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
    /// `BBR.prev_probe_too_high`, `BBR.prev_probe_precautionary`: the last probe lost too much, or
    /// stopped where that had begun.
    too_high: bool,
    precautionary: bool,
    ack_phase: AckPhase,
    /// The round in which Drain began.
    drain_round: u64,
    /// The round in which Drain or ProbeRTT ended; 0: long ago.
    slow_end: u64,
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
    /// `CheckStartupDone`, `CheckStartupHighLoss`, `EnterDrain`.
    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        if self.state != State::Startup {
            return;
        }
        let lossy = self.bounds.is_loss_round_start()
            && self.repairing
            && self.bounds.lost_ranges >= STARTUP_FULL_LOSS_CNT
            && self.bounds.is_inflight_too_high(ack, self.smss);
        if !self.full.reached && (lossy || self.bounds.is_marked()) {
            self.undo_state = Some(State::Startup);
            self.full.reached = true;
            let held = self.bdp(self.model.max_bw(), 100);
            self.bounds.limits.inflight_longterm = held.max(self.bounds.inflight_latest);
        }
        if self.full.reached {
            self.state = State::Drain;
            self.cycle.drain_round = self.model.round_count();
        }
    }

    /// `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let late = self.model.round_count() > self.cycle.drain_round + DRAIN_ROUNDS;
        if late || ack.inflight <= self.inflight(self.bw()) {
            self.cycle.slow_end = self.model.round_count();
            self.start_down(ack.now);
        }
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle_phase(&mut self, ack: &Ack) {
        if !self.full.reached {
            return;
        }
        if self.adapt_long_term(ack) {
            return;
        }
        match self.state {
            State::Down if self.is_time_to_probe(ack.now) => self.start_refill(),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(),
            State::Refill if self.model.round_start() => {
                self.cycle.samples = true;
                self.start_up(ack);
            }
            State::Up => self.go_down_in_time(ack),
            _ => {}
        }
    }

    /// `IsTimeToProbeBW`: after some seconds, or as often as Reno would have come back.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno = (self.target_inflight() / self.smss).min(RENO_ROUNDS_MAX);
        now > self.cycle.stamp + self.cycle.wait || self.cycle.rounds_since_probe >= reno.max(1)
    }

    /// `IsTimeToCruise`: no queue of ours is left, and there is room for others.
    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        ack.inflight <= self.bounds.with_headroom(self.smss)
            && ack.inflight <= self.inflight(self.model.max_bw())
    }

    fn go_down_in_time(&mut self, ack: &Ack) {
        if self.is_time_to_go_down(ack) {
            self.cycle.too_high = false; // not yet
            self.start_down(ack.now);
        }
    }

    /// `IsTimeToGoDown`: trying more brings no more, or is as much as was too much before.
    fn is_time_to_go_down(&mut self, ack: &Ack) -> bool {
        let longterm = self.bounds.limits.inflight_longterm;
        // (a window's last segment may not fit; what this acknowledges was in flight)
        let reached = ack.inflight_before.saturating_add(self.smss) > longterm;
        if self.cycle.too_high && longterm != NONE && reached {
            self.cycle.precautionary = true;
            return true;
        }
        if ack.cwnd_limited && self.cwnd >= longterm {
            // it is our own bound that holds the bandwidth back
            self.full.reset();
            self.full.bw = ack.bw;
            return false;
        }
        self.full.now
    }

    /// `StartProbeBW_DOWN`.
    fn start_down(&mut self, now: Instant) {
        self.bounds.reset_signals();
        self.cycle.up_count = u32::MAX;
        self.pick_probe_wait(now);
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.model.start_round();
        self.state = State::Down;
    }

    /// `PickProbeWait`: flows that share a path do not probe at the same time.
    fn pick_probe_wait(&mut self, now: Instant) {
        let mut rng = Rng::new(now.as_nanos() ^ self.pacing_rate.rotate_left(32));
        self.cycle.rounds_since_probe = rng.below(2) as u32;
        self.cycle.wait = PROBE_WAIT + Duration::from_millis(rng.below(PROBE_WAIT_SPREAD_MS));
        self.cycle.stamp = now;
    }

    /// `StartProbeBW_REFILL`: a round trip at the full rate before more is tried, so that what
    /// is lost then is lost because it is too much.
    fn start_refill(&mut self) {
        self.bounds.reset_short_term();
        self.cycle.up_rounds = 0;
        self.cycle.up_acks = 0;
        self.cycle.precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.model.start_round();
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, ack: &Ack) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.model.start_round();
        self.full.reset();
        self.full.bw = ack.bw;
        self.state = State::Up;
        self.raise_slope();
    }

    /// `RaiseInflightLongtermSlope`: each round the bound grows by twice as much.
    fn raise_slope(&mut self) {
        let growth = u64::from(self.smss) << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_count = (u64::from(self.cwnd) / growth).max(1) as u32;
    }

    /// `AdaptLongTermModel`: whether it led to another state.
    fn adapt_long_term(&mut self, ack: &Ack) -> bool {
        let again = match self.cycle.ack_phase {
            AckPhase::ProbeStarting if self.model.round_start() => {
                self.cycle.ack_phase = AckPhase::ProbeFeedback;
                false
            }
            AckPhase::ProbeStopping if self.model.round_start() => self.on_last_feedback(ack),
            _ => false,
        };
        if again {
            return true;
        }
        if self.bounds.is_marked() && self.cycle.samples {
            self.on_inflight_too_high(ack.tx_in_flight, ack.app_limited, ack.now);
        } else if self.bounds.is_inflight_too_high(ack, self.smss) {
            // segment by segment they have been dealt with
        } else if self.bounds.limits.inflight_longterm != NONE {
            let longterm = &mut self.bounds.limits.inflight_longterm;
            *longterm = ack.tx_in_flight.max(*longterm);
            if self.state == State::Up {
                self.probe_longterm_upward(ack);
            }
        }
        false
    }

    /// A round trip after a probe all has been heard about it; whether the next one begins at once,
    /// because this one stopped short and nothing went wrong.
    fn on_last_feedback(&mut self, ack: &Ack) -> bool {
        self.cycle.samples = false;
        self.cycle.ack_phase = AckPhase::Init;
        let cycling = self.state.in_probe_bw();
        if cycling && !ack.app_limited {
            self.model.advance_max_bw_filter();
        }
        let again = cycling && self.cycle.precautionary && !self.cycle.too_high;
        if again {
            self.start_refill();
        }
        again
    }

    /// Whether what is heard of may have been sent while probing.
    pub(super) fn probes_now(&self) -> bool {
        self.cycle.samples
    }

    /// `HandleInflightTooHigh`: so much in flight, and too much was lost.
    pub(super) fn on_inflight_too_high(&mut self, inflight: u32, app_limited: bool, now: Instant) {
        self.cycle.too_high = true;
        self.cycle.samples = false;
        if !app_limited {
            let least = beta(self.target_inflight());
            self.bounds.limits.inflight_longterm = inflight.max(least);
        }
        if self.state == State::Up {
            self.undo_state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// The state that a loss ended, which was none.
    pub(super) fn return_to(&mut self, state: Option<State>) {
        match state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }

    /// `ProbeInflightLongtermUpward`.
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

    /// `UpdateMinRTT`.
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

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack) {
        if self.state != State::ProbeRtt && self.probe_rtt.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt.done_stamp = None;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.model.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if ack.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`: 200 ms, and at least a round trip, with next to nothing in flight.
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
            self.model.start_round();
        }
    }

    /// Whether what arrives still shows how little was sent in Drain or ProbeRTT: for a round trip
    /// it is that itself, for another what was delivered while it was on its way. A loss in these
    /// would make the bounds as low as those were, until the next probe, against what the draft
    /// wants of ProbeRTT's end (section 5.3.4.4).
    pub(super) fn is_slowness_echoing(&mut self) -> bool {
        let end = self.cycle.slow_end;
        if end == 0 {
            return false;
        }
        if self.model.round_count() < end + ECHO_ROUNDS {
            return true;
        }
        self.cycle.slow_end = 0;
        self.bounds.reset_signals();
        true
    }

    /// `CheckProbeRTTDone`, `ExitProbeRTT`.
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
        self.cycle.slow_end = self.model.round_count();
        // through Down, without the drain: nothing of ours waits anywhere
        self.start_down(now);
        self.state = State::Cruise;
    }
}
