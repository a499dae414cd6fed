//! RFC 5681, 6928, 3465, 6582, 6937, 3042.
use super::*;
use gannet_base::{Instant, Rng};

const MSS: u32 = 1000;
const NOW: Instant = Instant::from_nanos(0);

impl Congestion {
    /// `acked` bytes are acknowledged in order.
    fn acked(&mut self, acked: u32, cwnd_limited: bool) {
        self.on_ack(&AckSample {
            acked,
            delivered: acked,
            cwnd_limited,
            ..AckSample::at(NOW)
        });
    }

    /// `delivered` bytes are reported in a SACK recovery that leaves `flight` in the network.
    fn sacked(&mut self, delivered: u32, flight: u32) {
        self.on_ack(&AckSample {
            delivered,
            flight,
            ..AckSample::at(NOW)
        });
    }
}

fn fresh() -> Congestion {
    Congestion::new(MSS, CongestionControl::NewReno)
}

/// In congestion avoidance with the given window.
fn avoiding(cwnd: u32) -> Congestion {
    let mut c = fresh();
    c.cwnd = cwnd;
    c.ssthresh = cwnd;
    c
}

#[test]
fn rfc_6928_section_2_initial_window() {
    let rows = [
        (536, 5360),
        (1460, 14_600),
        (1461, 14_600),
        (4000, 14_600),
        (8960, 17_920), // two segments
        (65_495, 130_990),
        (0, 10), // a nonsensical MSS still moves
    ];
    for (smss, window) in rows {
        assert_eq!(
            Congestion::new(smss, CongestionControl::NewReno).cwnd(),
            window,
            "MSS {smss}"
        );
    }
}

//= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
//= type=test
//# Further, if the SYN or SYN/ACK is lost, the initial window used by a sender after a correctly
//# transmitted SYN MUST be one segment consisting of at most SMSS bytes.
//= https://www.rfc-editor.org/rfc/rfc6928#section-2
//= type=test
//# If the SYN or SYN/ACK is lost, the initial window used by a sender after a correctly transmitted
//# SYN MUST be one segment consisting of MSS bytes.
#[test]
fn rfc_5681_section_3_1_a_lost_syn_leaves_one_segment() {
    let mut c = fresh();
    c.on_syn_lost();
    assert_eq!(c.cwnd(), MSS);
    assert!(c.in_slow_start());
}

#[test]
fn rfc_3465_slow_start_counts_bytes_up_to_two_segments() {
    // newly acknowledged, growth
    for (acked, growth) in [
        (1, 1),
        (999, 999),
        (1000, 1000),
        (2000, 2000),
        (64_000, 2000),
    ] {
        let mut c = fresh();
        c.acked(acked, true);
        assert_eq!(c.cwnd(), 10_000 + growth, "{acked}");
    }
    // RFC 9406 section 4.2 raises L, for HyStart++ alone
    for (control, growth) in [
        (CongestionControl::NewReno, 2000),
        (CongestionControl::Dctcp, 2000),
        (CongestionControl::Cubic, 8000),
    ] {
        let mut c = Congestion::new(MSS, control);
        c.set_abc_limit(8);
        c.acked(64_000, true);
        assert_eq!(c.cwnd(), 10_000 + growth, "{control}");
    }
}

#[test]
fn robustness_dividing_acknowledgements_gains_nothing() {
    let (mut whole, mut divided) = (avoiding(20_000), avoiding(20_000));
    let (mut slow_whole, mut slow_divided) = (fresh(), fresh());
    for _ in 0..50 {
        whole.acked(1000, true);
        slow_whole.acked(1000, true);
        for _ in 0..1000 {
            divided.acked(1, true);
            slow_divided.acked(1, true);
        }
    }
    assert_eq!(whole.cwnd(), divided.cwnd());
    assert_eq!(slow_whole.cwnd(), slow_divided.cwnd());
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut c = fresh();
    c.acked(5000, false);
    assert_eq!(c.cwnd(), 10_000);
}

//= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
//= type=test
//# Note that during congestion avoidance, cwnd MUST NOT be increased by more than SMSS bytes per
//# RTT.
#[test]
fn section_3_1_avoidance_adds_a_segment_per_window() {
    let mut c = avoiding(20_000);
    for _ in 0..19 {
        c.acked(1000, true);
    }
    assert_eq!(c.cwnd(), 20_000);
    c.acked(1000, true);
    assert_eq!(c.cwnd(), 21_000);
    c.acked(1 << 30, true);
    assert_eq!(
        c.cwnd(),
        22_000,
        "never more than one segment per acknowledgement"
    );
}

#[test]
fn slow_start_stops_at_the_threshold_and_hands_the_rest_to_avoidance() {
    let mut c = avoiding(20_000);
    c.cwnd = 19_500;
    c.acked(2000, true);
    assert_eq!(c.cwnd(), 20_000);
    for _ in 0..19 {
        c.acked(1000, true); // 1500 left over + 19 * 1000 >= 20,000
    }
    assert_eq!(c.cwnd(), 21_000);
}

//= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
//= type=test
//# When a TCP sender detects segment loss using the retransmission timer and the given segment has
//# not yet been resent by way of the retransmission timer, the value of ssthresh MUST be set to no
//# more than the value given in equation (4):
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
//= type=test
//# Furthermore, upon a timeout (as specified in [RFC2988]) cwnd MUST be set to no more than the
//# loss window, LW, which equals 1 full-sized segment (regardless of the value of IW).
//= https://www.rfc-editor.org/rfc/rfc8961#section-4
//= type=test
//# (3) Loss detected by the RTO mechanism MUST be taken as an indication of network congestion and
//# the sending rate adapted using a standard mechanism (e.g., TCP collapses the congestion window
//# to one packet [RFC5681]).
//= https://www.rfc-editor.org/rfc/rfc8257#section-3.5
//= type=test
//# Just as specified in [RFC5681], upon a timeout, the cwnd MUST be set to no more than the loss
//# window (1 full-sized segment), regardless of previous cwnd reductions in a given window of data.
#[test]
fn section_3_1_time_out() {
    let mut c = avoiding(20_000);
    c.on_rto(18_000);
    assert_eq!((c.cwnd(), c.ssthresh()), (MSS, 9000));
    c.on_rto(1000);
    assert_eq!(
        (c.cwnd(), c.ssthresh()),
        (MSS, 9000),
        "the same segment again: held constant"
    );
    c.acked(64_000, true);
    assert_eq!(c.cwnd(), 2 * MSS, "L is 1 after a time-out");
    c.on_rto(2000);
    assert_eq!(c.ssthresh(), 2 * MSS, "never below two segments");
}

//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# When the third duplicate ACK is received, a TCP MUST set ssthresh to no more than the value
//# given in equation (4).
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# The lost segment starting at SND.UNA MUST be retransmitted and cwnd set to ssthresh plus 3*SMSS.
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# For each additional duplicate ACK received (after the third), cwnd MUST be incremented by SMSS.
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# When the next ACK arrives that acknowledges previously unacknowledged data, a TCP MUST set cwnd
//# to ssthresh (the value set in step 2).
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
//= type=test
//# The initial value of ssthresh SHOULD be set arbitrarily high (e.g., to the size of the largest
//# possible advertised window), but ssthresh MUST be reduced in response to congestion.
#[test]
fn rfc_6582_newreno_recovery() {
    let mut c = avoiding(20_000);
    assert_eq!((c.limited_transmit(1), c.limited_transmit(2)), (1000, 2000)); // RFC 3042
    assert_eq!((c.limited_transmit(0), c.limited_transmit(3)), (0, 0));
    c.enter_recovery(20_000, RecoveryKind::DuplicateAcks);
    assert_eq!((c.cwnd(), c.ssthresh()), (13_000, 10_000));
    assert_eq!(c.limited_transmit(2), 0);
    c.on_duplicate_ack();
    assert_eq!(c.cwnd(), 14_000);
    c.on_partial_ack(3000);
    assert_eq!(c.cwnd(), 14_000 - 3000 + 1000);
    c.on_partial_ack(999);
    assert_eq!(
        c.cwnd(),
        12_000 - 999,
        "less than a segment: nothing added back"
    );
    c.on_partial_ack(1 << 30);
    assert_eq!(c.cwnd(), 1000, "never to zero");
    let mut short = c.clone();
    c.exit_recovery(50_000);
    assert_eq!(c.cwnd(), 10_000);
    short.exit_recovery(2000);
    assert_eq!(short.cwnd(), 3000, "no burst after recovery");
    assert!(!c.in_recovery());
}

/// RFC 6937 section 4's first example in shape: one loss in a window of 20, an ACK per segment.
//= https://www.rfc-editor.org/rfc/rfc5681#section-4.3
//= type=test
//# Second, until all lost segments in the window of data in question are repaired, the number of
//# segments transmitted in each RTT MUST be no more than half the number of outstanding segments
//# when the loss was detected.
#[test]
fn rfc_6937_one_loss_sends_one_segment_for_every_two_delivered() {
    let mut c = avoiding(20_000);
    c.enter_recovery(20_000, RecoveryKind::Sack);
    let mut pipe = 20_000 - 3 * MSS - MSS; // three SACKed, one lost
    c.sacked(3 * MSS, pipe);
    let mut sent = 0;
    for _ in 0..16 {
        let budget = c.cwnd().saturating_sub(pipe) / MSS * MSS;
        c.on_recovery_send(budget);
        pipe = pipe + budget - MSS;
        sent += budget;
        c.sacked(MSS, pipe);
        assert!(c.cwnd() - pipe <= 2 * MSS, "no burst");
    }
    assert!(
        (9_000..=10_000).contains(&sent),
        "about half of what was delivered: {sent}"
    );
    c.exit_recovery(pipe);
    assert_eq!(c.cwnd(), 10_000);
}

#[test]
fn rfc_6937_the_first_retransmission_always_leaves_and_heavy_loss_slow_starts() {
    let mut c = avoiding(20_000);
    c.enter_recovery(20_000, RecoveryKind::Sack);
    c.sacked(0, 19_000);
    assert_eq!(c.cwnd() - 19_000, MSS);
    // most of the window lost: pipe below ssthresh, so the reduction bound lets it grow again: by
    // what was delivered, and by a segment more while the recovery makes progress (RFC 9937)
    let mut c = avoiding(20_000);
    c.enter_recovery(20_000, RecoveryKind::Sack);
    c.sacked(3 * MSS, 0);
    assert_eq!(c.cwnd(), 3 * MSS);
    c.on_recovery_send(3 * MSS);
    for (acked, lost, more) in [(0, 0, MSS), (MSS, MSS, MSS), (MSS, 0, 2 * MSS)] {
        let mut c = c.clone();
        c.on_ack(&AckSample {
            acked,
            lost,
            delivered: MSS,
            flight: 3 * MSS,
            ..AckSample::at(NOW)
        });
        assert_eq!(c.cwnd() - 3 * MSS, more, "{acked} {lost}");
    }
}

#[test]
fn rfc_5681_section_4_1_restart_after_idle() {
    let (short, long) = (Duration::from_millis(100), Duration::from_millis(300));
    let rto = Duration::from_millis(200);
    let mut c = avoiding(50_000);
    c.on_idle(short, rto, Instant::ZERO);
    assert_eq!(c.cwnd(), 50_000);
    c.on_idle(long, rto, Instant::ZERO);
    assert_eq!(c.cwnd(), 10_000);
    let mut small = avoiding(2000);
    small.on_idle(long, rto, Instant::ZERO);
    assert_eq!(small.cwnd(), 2000, "RW = min(IW, cwnd)");
}

/// A window that is not used neither grows nor shrinks; after five minutes it is halved, again and
/// again down to the initial window, and grows back exponentially to three quarters of what it was.
#[test]
fn rfc_7661_section_4_4_a_window_that_nobody_uses() {
    //= https://www.rfc-editor.org/rfc/rfc7661#section-4.4
    //= type=test
    //# A sender that is not cwnd-limited MUST NOT increase the cwnd when ACK packets are received
    //# in this phase (i.e., needs to avoid growing the cwnd when it has not recently sent using
    //# the current size of cwnd).
    //= https://www.rfc-editor.org/rfc/rfc7661#section-4.4.3
    //= type=test
    //# The sender MUST then update cwnd to be not greater than:
    for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
        let mut c = avoiding(50_000);
        c.set_control(control);
        let ack = |c: &mut Congestion, second: u64, flight: u32, cwnd_limited: bool| {
            c.on_ack(&AckSample {
                acked: MSS,
                delivered: MSS,
                flight_before: flight,
                cwnd_limited,
                ..AckSample::at(NOW + Duration::from_secs(second))
            });
            c.cwnd()
        };
        for second in 0..300 {
            assert_eq!(ack(&mut c, second, 20_000, false), 50_000, "{second}");
        }
        assert_eq!(ack(&mut c, 300, 20_000, false), 25_000);
        assert_eq!(c.ssthresh(), 50_000);
        // what is used by half is as it should be
        for second in 301..2000 {
            assert_eq!(ack(&mut c, second, 12_500, false), 25_000, "{second}");
        }
        assert_eq!(ack(&mut c, 2000, 12_500, true), 26_000, "slow start");
        for second in 2001..5000 {
            ack(&mut c, second, 2000, false);
        }
        assert_eq!(c.cwnd(), initial_window(MSS, INITIAL_WINDOW));
    }
}

/// What was lost of a small flight says nothing about a large window that was not used.
#[test]
fn rfc_7661_section_4_4_1_a_loss_in_an_unused_window() {
    for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
        let mut c = avoiding(50_000);
        c.set_control(control);
        c.enter_recovery(10_000, RecoveryKind::Sack);
        c.exit_recovery(0);
        assert!(c.cwnd() <= 7_000, "{control:?}: {}", c.cwnd());
    }
}

#[test]
fn a_smaller_segment_size_scales_the_window_once() {
    let mut c = avoiding(20_000);
    c.set_smss(500);
    assert_eq!(c.cwnd(), 10_000);
    for _ in 0..10_000 {
        c.set_smss(500); // robustness C5: repeating it changes nothing
    }
    assert_eq!(c.cwnd(), 10_000);
    c.set_smss(9000);
    assert_eq!(c.cwnd(), 10_000);
    c.set_smss(60_000);
    assert_eq!(c.cwnd(), 60_000, "one segment always fits");
}

#[test]
fn undo_restores_what_a_mistaken_time_out_took() {
    let mut c = avoiding(20_000);
    c.on_rto(20_000);
    c.undo();
    assert_eq!((c.cwnd(), c.ssthresh()), (20_000, 20_000));
    c.undo(); // nothing left to undo
    assert_eq!(c.cwnd(), 20_000);
}

#[test]
fn random_calls_keep_the_window_within_bounds() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut c = Congestion::new(1 + rng.below(70_000) as u32, CongestionControl::NewReno);
        for step in 0..2000 {
            let n = (rng.next_u32() >> rng.below(32)) & 0x3fff_ffff;
            match rng.below(12) {
                0..=4 => c.acked(n, rng.chance(800_000)),
                5 => c.enter_recovery(n, RecoveryKind::Sack),
                6 => c.enter_recovery(n, RecoveryKind::DuplicateAcks),
                7 => c.sacked(n, rng.next_u32() & 0x3fff_ffff),
                8 => c.on_partial_ack(n),
                9 => c.exit_recovery(n),
                10 => c.on_rto(n),
                _ => {
                    c.on_recovery_send(n);
                    c.on_duplicate_ack();
                    c.set_smss(1 + n % 65_535);
                }
            }
            let floor = if c.in_recovery() { 1 } else { c.smss() };
            assert!(
                (floor..=MAX_CWND).contains(&c.cwnd()),
                "seed {seed} step {step}: {}",
                c.cwnd()
            );
        }
    }
}
