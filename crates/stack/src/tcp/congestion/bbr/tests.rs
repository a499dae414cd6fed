use std::vec::Vec;

use super::*;
use crate::config::CongestionControl;
use crate::tcp::congestion::{Congestion, RateSample, RecoveryKind};

const SMSS: u32 = 1000;
/// Bytes per second; with a round trip of 40 ms the path holds 200 kB.
const BW: u64 = 5_000_000;
const BDP: u32 = 200_000;
const RTT: Duration = Duration::from_millis(40);

/// A sender and what it is told.
struct Sender {
    bbr: Bbr,
    now: Instant,
    delivered: u64,
    cwnd: u32,
    /// Of the samples to come.
    bw: u64,
    rtt: Duration,
    inflight: u32,
    lost: u32,
    /// Bytes lost in the round trip before, where that is over.
    lost_before: u32,
    app_limited: bool,
    cwnd_limited: bool,
}

impl Sender {
    fn new() -> Self {
        Sender {
            bbr: Bbr::new(10 * SMSS, SMSS, 10),
            now: Instant::ZERO + Duration::from_secs(100),
            delivered: 0,
            cwnd: 10 * SMSS,
            bw: BW,
            rtt: RTT,
            inflight: BDP,
            lost: 0,
            lost_before: 0,
            app_limited: false,
            cwnd_limited: false,
        }
    }

    /// One acknowledgement that begins a round trip; the state after it.
    fn round(&mut self) -> State {
        self.now += RTT;
        let prior_delivered = self.delivered;
        self.ack(prior_delivered)
    }

    /// One within the round.
    fn more(&mut self) -> State {
        self.now += Duration::from_micros(400); // what the samples deliver takes at `BW`
        self.ack(0)
    }

    fn ack(&mut self, prior_delivered: u64) -> State {
        let bytes = self.bw * 40 / 1000;
        self.delivered += bytes;
        if self.lost > 0 {
            self.lose();
        }
        let sample = AckSample {
            delivered: 2 * SMSS,
            lost: self.lost,
            flight: self.inflight,
            flight_before: self.inflight,
            rtt: Some(self.rtt),
            cwnd_limited: self.cwnd_limited,
            total_delivered: self.delivered,
            rate: Some(RateSample {
                delivered: bytes,
                interval: RTT,
                prior_delivered,
                tx_in_flight: self.inflight,
                lost: u64::from(self.lost.max(self.lost_before)),
                app_limited: self.app_limited,
            }),
            ..AckSample::at(self.now)
        };
        self.cwnd = self.bbr.on_ack(&sample, self.cwnd, SMSS);
        self.bbr.state
    }

    /// A segment is found lost, and that so much is since it was sent.
    fn lose(&mut self) {
        if !self.bbr.repairing {
            self.bbr.before_loss(self.cwnd);
        }
        let lost = Lost {
            ranges: 1,
            len: SMSS,
            tx_in_flight: self.inflight,
            since: self.lost,
            delivered: 0,
            app_limited: self.app_limited,
        };
        self.bbr
            .on_lost(&lost, (self.cwnd, self.delivered), self.now);
    }

    /// Rounds until the state is `state`, at most so many.
    fn until(&mut self, state: State, most: usize) -> usize {
        (1..=most)
            .find(|_| self.round() == state)
            .unwrap_or_else(|| panic!("{state:?} does not come: {:?}", self.bbr))
    }

    /// Whether the rate is so many percent of the samples', less the margin.
    fn paces_at(&self, percent: u64) -> bool {
        let rate = self.bw * percent * 99 / 10_000;
        self.bbr.pacing_rate().abs_diff(rate) < 1000
    }

    /// With a pipe known to be full, in Cruise.
    fn cruising() -> Self {
        let mut s = Sender::new();
        s.until(State::Cruise, 10);
        for _ in 0..200 {
            s.more();
        }
        for _ in 0..3 {
            s.round(); // nothing of Drain is left
        }
        s
    }
}

#[test]
fn section_5_1_1_gains() {
    for (state, pacing, cwnd) in [
        (State::Startup, 277, 200),
        (State::Drain, 50, 200),
        (State::Down, 90, 200),
        (State::Cruise, 100, 200),
        (State::Refill, 100, 200),
        (State::Up, 125, 225),
        (State::ProbeRtt, 100, 50),
    ] {
        assert_eq!(state.pacing_gain().percent(), pacing, "{state:?}");
        assert_eq!(state.cwnd_gain(), cwnd, "{state:?}");
    }
}

#[test]
fn section_5_6_2_the_first_rate_is_the_window_in_the_handshakes_round_trip() {
    let mut bbr = Bbr::new(10_000, SMSS, 10);
    assert_eq!(bbr.pacing_rate(), 27_700_000, "in a millisecond");
    bbr.seed(Duration::from_millis(100), 10_000);
    assert_eq!(bbr.pacing_rate(), 277_000);
}

#[test]
fn section_5_3_1_startup_lasts_while_the_bandwidth_grows_by_a_quarter() {
    let mut s = Sender::new();
    s.bw = 100_000;
    for _ in 0..15 {
        s.bw = s.bw * 5 / 4;
        assert_eq!(s.round(), State::Startup);
        assert!(s.bbr.pacing_rate() > s.bw * 2);
    }
    s.bw = s.bw * 6 / 5;
    assert_eq!(s.round(), State::Startup);
    assert_eq!(
        s.more(),
        State::Startup,
        "within a round nothing is counted"
    );
    assert_eq!(s.round(), State::Startup);
    s.inflight = 3 * BDP; // else Drain is over at once
    assert_eq!(s.round(), State::Drain, "three rounds");
    assert!(s.paces_at(50));
}

#[test]
fn section_5_3_1_2_what_the_application_limits_says_nothing_about_the_pipe() {
    let mut s = Sender::new();
    s.round();
    s.app_limited = true;
    for _ in 0..10 {
        assert_eq!(s.round(), State::Startup);
    }
}

#[test]
fn section_5_3_1_3_much_loss_ends_startup() {
    // acknowledgements with losses, bytes lost in each: over?
    for (events, lost, over) in [(6, 40_000, true), (5, 40_000, false), (6, 7000, false)] {
        let mut s = Sender::new();
        s.round();
        s.lost = lost;
        s.bw = BW * 2; // still growing
        for _ in 1..events {
            s.more();
            s.bw = s.bw * 5 / 4;
        }
        assert_eq!(s.round() != State::Startup, over, "{events} {lost}");
        assert_eq!(s.bbr.bounds.limits.inflight_longterm != NONE, over);
    }
}

#[test]
fn section_5_3_1_3_only_while_losses_are_repaired() {
    for over in [true, false] {
        let mut s = Sender::new();
        s.round();
        (s.lost, s.bw) = (30_000, BW * 2);
        for _ in 0..6 {
            s.more();
        }
        s.lost = 0;
        if !over {
            s.bbr.on_repaired(s.cwnd);
        }
        s.bw = BW * 3; // still growing
        s.lost_before = 30_000;
        assert_eq!(s.round() != State::Startup, over);
    }
}

#[test]
fn section_5_3_1_2_one_sample_of_each_round_counts() {
    let mut s = Sender::new();
    s.round();
    s.round();
    s.bw = BW * 2;
    s.more(); // a burst: no new mark to measure the growth by
    s.bw = BW;
    s.inflight = 3 * BDP;
    s.round();
    assert_eq!(s.round(), State::Drain);
}

#[test]
fn section_5_3_2_drain_ends_when_the_queue_is_gone_or_after_some_rounds() {
    let mut s = Sender::new();
    s.inflight = 3 * BDP;
    s.until(State::Drain, 6);
    s.inflight = BDP;
    assert_eq!(s.more(), State::Cruise, "through Down, if nothing waits");
    let mut s = Sender::new();
    s.inflight = 3 * BDP;
    s.until(State::Drain, 6);
    assert_eq!(s.until(State::Down, 10), 4, "it is not our queue");
}

#[test]
fn section_5_3_3_the_cycle() {
    let mut s = Sender::cruising();
    // 63 rounds, or 2 to 3 s: at 40 ms 50 to 63
    let rounds = s.until(State::Refill, 70);
    assert!((45..=64).contains(&rounds), "{rounds}");
    assert_eq!(s.more(), State::Refill, "a whole round");
    assert_eq!(s.round(), State::Up);
    assert!(s.paces_at(125));
    // as long as it brings something
    for _ in 0..5 {
        s.bw = s.bw * 5 / 4;
        assert_eq!(s.round(), State::Up);
    }
    s.inflight = 5 * BDP;
    assert_eq!(s.until(State::Down, 10), 3);
    assert!(s.paces_at(90));
    s.inflight = BDP;
    assert_eq!(s.round(), State::Cruise);
}

/// Cruising, after a probe that lost too much.
fn burnt() -> Sender {
    let mut s = Sender::cruising();
    s.until(State::Up, 160);
    s.lost = BDP / 20;
    s.more();
    s.lost = 0;
    assert_eq!(s.bbr.bounds.limits.inflight_longterm, BDP - SMSS);
    s.inflight = BDP / 2;
    s.until(State::Cruise, 3);
    s
}

#[test]
fn section_5_3_3_6_the_probe_after_one_that_lost_too_much_stops_where_that_did() {
    let mut s = burnt();
    s.until(State::Up, 160);
    assert_eq!(s.more(), State::Up, "less than that is in flight");
    s.inflight = BDP - SMSS;
    assert_eq!(s.more(), State::Down);
    // nothing more is lost: the next one follows at once, and stays
    s.inflight = BDP / 2;
    assert_eq!(s.until(State::Refill, 3), 1);
    assert_eq!(s.round(), State::Up);
    s.inflight = BDP + SMSS;
    assert_eq!(s.more(), State::Up);
    assert_eq!(s.bbr.bounds.limits.inflight_longterm, BDP + SMSS, "safe");
}

#[test]
fn section_5_3_3_6_a_careful_probe_that_loses_too_much_waits_as_any() {
    let mut s = burnt();
    s.until(State::Up, 160);
    s.inflight = BDP - SMSS;
    assert_eq!(s.more(), State::Down);
    s.lost = BDP / 10;
    s.more();
    (s.lost, s.inflight) = (0, BDP / 2);
    assert_eq!(s.round(), State::Cruise);
    assert!(s.until(State::Refill, 160) > 40);
}

#[test]
fn section_5_5_3_the_bandwidth_of_two_cycles_counts() {
    let mut s = Sender::cruising();
    // (little enough for ProbeRTT to end)
    (s.bw, s.inflight) = (BW / 2, BDP / 4);
    for _ in 0..40 {
        s.round();
    }
    assert_eq!(s.bbr.model.max_bw(), BW, "of the cycle before");
    for _ in 0..200 {
        s.round();
    }
    assert_eq!(s.bbr.model.max_bw(), BW / 2);
}

#[test]
fn section_5_5_10_loss_while_probing_bounds_what_is_in_flight() {
    for (lost, bounded) in [(BDP / 50 + 3 * SMSS, false), (BDP / 50 + 4 * SMSS, true)] {
        let mut s = Sender::cruising();
        s.until(State::Up, 160);
        s.lost = lost;
        let state = s.more();
        assert_eq!(state != State::Up, bounded, "{lost}");
        let longterm = s.bbr.bounds.limits.inflight_longterm;
        assert_eq!(longterm == BDP - SMSS, bounded, "{lost} {longterm}");
    }
    // not below 0.7 of the target, whatever was in flight
    let mut s = Sender::cruising();
    s.until(State::Up, 160);
    (s.lost, s.inflight) = (4 * SMSS, 10 * SMSS);
    s.more();
    assert_eq!(s.bbr.bounds.limits.inflight_longterm, BDP / 10 * 7);
}

#[test]
fn section_5_5_10_2_the_part_of_an_emission_that_went_well() {
    // 100 kB in flight may lose 2 kB, and 3 kB by chance
    for (tx_in_flight, len, since, inflight) in [
        (100_000, 1000, 5000, None),
        (100_000, 1000, 6000, Some(99_000)),
        // of ten segments, the first half
        (100_000, 10_000, 10_000, Some(90_000 + 4897)),
        (100_000, 10_000, 14_800, Some(90_000)),
        // of ten in flight one
        (10_000, 1000, 1000, Some(9000 + 642)),
        (0, 1000, 1000, None), // it left before anybody asked
    ] {
        let lost = Lost {
            len,
            tx_in_flight,
            since,
            ..Lost::default()
        };
        assert_eq!(inflight_at_loss(&lost, SMSS), inflight, "{lost:?}");
    }
}

#[test]
fn section_5_5_10_the_bound_grows_faster_with_each_round() {
    let mut s = Sender::cruising();
    s.bbr.bounds.limits.inflight_longterm = BDP;
    s.until(State::Up, 160);
    s.cwnd_limited = true;
    let mut before = s.bbr.bounds.limits.inflight_longterm;
    let mut steps = Vec::new();
    for _ in 0..4 {
        for _ in 0..100 {
            s.more();
        }
        s.round();
        let now = s.bbr.bounds.limits.inflight_longterm;
        steps.push(now - before);
        before = now;
    }
    assert_eq!(s.bbr.state, State::Up, "held back by our own bound");
    assert!(steps.windows(2).all(|w| w[1] > w[0] * 3 / 2), "{steps:?}");
}

#[test]
fn section_5_5_11_losses_lower_the_short_term_bounds_by_three_tenths_at_most() {
    // percent of the bandwidth delivered: what the bound is then
    for (delivered, bound) in [(97, 100), (90, 90), (70, 70), (50, 70)] {
        let mut s = Sender::cruising();
        s.bw = BW * delivered / 100;
        s.round();
        s.lost = SMSS;
        s.more();
        s.round();
        let limits = s.bbr.bounds.limits;
        assert_eq!(limits.bw_shortterm, BW * bound / 100, "{delivered}");
        s.lost = 0;
        s.until(State::Refill, 80);
        assert_eq!(s.bbr.bounds.limits.bw_shortterm, u64::MAX, "forgotten");
    }
}

#[test]
fn section_5_3_4_probe_rtt() {
    let mut s = Sender::cruising();
    s.rtt = RTT + Duration::from_millis(1); // a queue: never as short again
    let before = s.cwnd;
    let rounds = s.until(State::ProbeRtt, 130);
    assert!((115..=126).contains(&rounds), "5 s: {rounds}");
    assert_eq!(s.cwnd, BDP / 2);
    s.inflight = BDP / 2;
    assert_eq!(
        s.until(State::Cruise, 20),
        7,
        "more than 200 ms from the next acknowledgement on"
    );
    assert!(s.cwnd >= before.min(2 * BDP), "{} {before}", s.cwnd);
}

#[test]
fn section_5_3_4_4_what_was_sent_in_probe_rtt_lowers_no_bound() {
    for (rounds, lowered) in [(1, false), (2, false), (4, true)] {
        let mut s = Sender::cruising();
        s.rtt = RTT + Duration::from_millis(1);
        s.until(State::ProbeRtt, 130);
        (s.inflight, s.bw) = (BDP / 2, BW / 2);
        s.until(State::Cruise, 20);
        s.lost = SMSS;
        for _ in 0..rounds {
            s.round();
        }
        let bound = s.bbr.bounds.limits.bw_shortterm;
        assert_eq!(bound < BW, lowered, "{rounds} {bound}");
    }
}

#[test]
fn section_5_4_1_no_probe_rtt_after_idleness() {
    let mut s = Sender::cruising();
    s.now += Duration::from_secs(60);
    s.bbr.on_restart(s.now);
    assert_ne!(s.round(), State::ProbeRtt);
}

#[test]
fn section_5_6_4_the_window_is_twice_what_the_path_holds_and_never_less_than_four_segments() {
    let mut s = Sender::cruising();
    for _ in 0..1000 {
        s.more();
    }
    assert!((2 * BDP..=3 * BDP).contains(&s.cwnd), "{}", s.cwnd);
    s.cwnd = SMSS; // a time-out
    s.more();
    assert_eq!(s.cwnd, 4 * SMSS);
}

#[test]
fn an_undo_brings_the_bounds_back() {
    let mut s = Sender::cruising();
    s.bbr.before_loss(s.cwnd);
    let before = s.bbr.bounds.limits;
    (s.lost, s.bw) = (SMSS, BW / 2);
    s.more();
    s.round();
    s.round();
    assert_ne!(s.bbr.bounds.limits, before);
    s.bbr.undo();
    assert_eq!(s.bbr.bounds.limits, before);
}

#[test]
fn section_5_5_11_2_an_undo_leads_back_to_startup() {
    let mut s = Sender::new();
    s.round();
    (s.lost, s.inflight) = (20_000, 3 * BDP);
    for _ in 0..6 {
        s.more();
    }
    s.bw = BW * 2;
    assert_eq!(s.round(), State::Drain);
    s.bbr.undo();
    s.lost = 0;
    assert_eq!(s.bbr.state, State::Startup);
    assert_eq!(s.bbr.bounds.limits, Limits::NONE);
    assert_eq!(s.more(), State::Startup);
    assert!(s.paces_at(277));
}

#[test]
fn section_5_5_11_2_an_undo_begins_the_probe_again() {
    let mut s = Sender::cruising();
    s.until(State::Up, 160);
    s.lost = BDP / 20;
    s.more();
    s.lost = 0;
    s.bbr.undo();
    assert_eq!(s.bbr.state, State::Refill);
    assert_eq!(s.bbr.bounds.limits, Limits::NONE);
    // the next loss has ended nothing
    s.until(State::Cruise, 10);
    s.bbr.before_loss(s.cwnd);
    s.bbr.undo();
    assert_eq!(s.bbr.state, State::Cruise);
}

#[test]
fn section_5_6_4_4_a_repair_gives_the_window_back() {
    let mut s = Sender::cruising();
    for _ in 0..1000 {
        s.more();
    }
    let before = s.cwnd;
    s.bbr.before_loss(s.cwnd);
    s.cwnd = SMSS; // a time-out
    s.more();
    assert_eq!(s.cwnd, 4 * SMSS);
    // another while that is repaired: the window is still that of before both
    s.bbr.before_loss(s.cwnd);
    s.cwnd = s.bbr.on_repaired(s.cwnd);
    assert_eq!(s.cwnd, before);
}

#[test]
fn without_sack_any_loss_is_too_much() {
    let mut c = Congestion::new(SMSS, CongestionControl::Bbr);
    for (kind, over) in [
        (RecoveryKind::Sack, false),
        (RecoveryKind::DuplicateAcks, true),
    ] {
        c.enter_recovery(BDP, kind);
        let now = Instant::ZERO + RTT;
        c.on_ack(&AckSample {
            delivered: SMSS,
            total_delivered: 10_000,
            rate: Some(RateSample {
                delivered: 10_000,
                interval: RTT,
                prior_delivered: 0,
                tx_in_flight: 10_000,
                lost: 0,
                app_limited: false,
            }),
            ..AckSample::at(now)
        });
        assert_eq!(c.in_slow_start(), !over, "{kind:?}");
        c.exit_recovery(0);
    }
}

#[test]
fn rfc_3168_marks_lower_the_bounds_to_what_is_delivered() {
    // percent of the bandwidth delivered; a loss would leave the bound alone
    let mut s = Sender::cruising();
    s.bw = BW * 98 / 100;
    s.round();
    s.bbr.on_mark();
    s.more();
    s.round();
    assert_eq!(s.bbr.bounds.limits.bw_shortterm, BW * 98 / 100);
}

#[test]
fn rfc_3168_a_mark_ends_startup_and_probing() {
    let mut s = Sender::new();
    s.round();
    s.bbr.on_mark();
    assert_ne!(s.more(), State::Startup);
    let mut s = Sender::cruising();
    s.until(State::Up, 160);
    s.bbr.on_mark();
    assert_ne!(s.more(), State::Up);
    assert_eq!(s.bbr.bounds.limits.inflight_longterm, BDP);
}
