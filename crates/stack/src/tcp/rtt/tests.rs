//! RFC 6298, section by section.
use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn estimator() -> RttEstimator {
    RttEstimator::new(&RttConfig::DEFAULT)
}

//= https://www.rfc-editor.org/rfc/rfc8961#section-4
//= type=test
//# In the absence of any knowledge about the latency of a path, the initial RTO MUST be
//# conservatively set to no less than 1 second.
#[test]
fn section_2_1_one_second_before_the_first_sample() {
    assert_eq!(estimator().rto(), MS(1000));
    assert_eq!(estimator().srtt(), None);
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-2
//= type=test
//# (2.2) When the first RTT measurement R is made, the host MUST set
#[test]
fn section_2_2_first_sample() {
    let mut e = estimator();
    e.on_sample(MS(400));
    assert_eq!(e.srtt(), Some(MS(400)));
    assert_eq!(e.rttvar(), Some(MS(200)));
    assert_eq!(e.rto(), MS(400 + 4 * 200));
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-2
//= type=test
//# (2.3) When a subsequent RTT measurement R' is made, a host MUST set
//= https://www.rfc-editor.org/rfc/rfc6298#section-2
//= type=test
//# That is, updating RTTVAR and SRTT MUST be computed in the above order.
//= https://www.rfc-editor.org/rfc/rfc6298#section-2
//= type=test
//# After the computation, a host MUST update RTO <- SRTT + max (G, K*RTTVAR)
#[test]
fn section_2_3_further_samples() {
    let mut e = estimator();
    e.on_sample(MS(400));
    e.on_sample(MS(800));
    // RTTVAR = 3/4 * 200 + 1/4 * |400 - 800| = 250; SRTT = 7/8 * 400 + 1/8 * 800 = 450
    assert_eq!(e.rttvar(), Some(MS(250)));
    assert_eq!(e.srtt(), Some(MS(450)));
    assert_eq!(e.rto(), MS(450 + 1000));
    assert_eq!((e.min_rtt(), e.latest()), (Some(MS(400)), Some(MS(800))));
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-4
//= type=test
//# However, if the K*RTTVAR term in the RTO calculation equals zero, the variance term MUST be
//# rounded to G seconds (i.e., use the equation given in step 2.3).
#[test]
fn section_2_4_floor_of_the_variance_and_2_5_ceiling() {
    let mut e = estimator();
    for _ in 0..1000 {
        e.on_sample(MS(10));
    }
    assert_eq!(e.rto(), MS(210), "SRTT + minimum");
    e.on_sample(Duration::MAX);
    assert_eq!(e.rto(), MS(120_000));
    const COARSE: RttConfig = RttConfig {
        min_rto: Duration::from_millis(1),
        granularity: Duration::from_millis(500),
        ..RttConfig::DEFAULT
    };
    let mut coarse = RttEstimator::new(&COARSE);
    for _ in 0..1000 {
        coarse.on_sample(MS(10));
    }
    assert_eq!(coarse.rto(), MS(510), "max(G, 4 * RTTVAR)");
}

#[test]
fn section_5_5_back_off_doubles_and_a_sample_ends_it() {
    let mut e = estimator();
    e.on_sample(MS(400)); // RTO 1200
    for expected in [2400, 4800, 9600, 19_200, 38_400, 76_800, 120_000, 120_000] {
        e.back_off();
        assert_eq!(e.rto(), MS(expected));
    }
    for _ in 0..300 {
        e.back_off(); // must not overflow
    }
    assert_eq!(e.rto(), MS(120_000));
    e.reset_back_off();
    assert_eq!(e.rto(), MS(1200));
}

#[test]
fn section_5_many_time_outs_make_the_old_estimate_bogus() {
    for (time_outs, srtt) in [(3, 400 + (4000 - 400) / 8), (4, 4000)] {
        let mut e = estimator();
        e.on_sample(MS(400));
        for _ in 0..time_outs {
            e.back_off();
        }
        e.on_sample(MS(4000));
        assert_eq!(e.srtt(), Some(MS(srtt)), "after {time_outs}");
        assert_eq!(e.back_off_count(), 0);
    }
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-5
//= type=test
//# (5.7) If the timer expires awaiting the ACK of a SYN segment and the TCP implementation is using
//# an RTO less than 3 seconds, the RTO MUST be re-initialized to 3 seconds when data transmission
//# begins (i.e., after the three-way handshake completes).
#[test]
fn section_5_7_three_seconds_after_a_lost_syn() {
    let mut e = estimator();
    e.back_off();
    e.back_off();
    e.on_established(true);
    assert_eq!(e.rto(), MS(3000));
    e.on_sample(MS(100));
    assert_eq!(e.rto(), MS(100 + 200), "until the first sample");
    let mut e = estimator();
    e.on_established(false);
    assert_eq!(e.rto(), MS(1000));
}

#[test]
fn rfc_7323_appendix_g_weights() {
    assert_eq!(expected_samples(0, 1460), 1);
    assert_eq!(expected_samples(2921, 1460), 2);
    assert_eq!(
        expected_samples(u32::MAX, 0),
        u32::MAX,
        "no division by zero"
    );
    // 100 samples of a round trip weigh about as much as one unweighted sample
    let (mut many, mut one) = (estimator(), estimator());
    many.on_sample(MS(100));
    one.on_sample(MS(100));
    for _ in 0..100 {
        many.on_weighted_sample(MS(200), 100);
    }
    one.on_sample(MS(200));
    let (a, b) = (
        many.srtt().unwrap().as_micros(),
        one.srtt().unwrap().as_micros(),
    );
    assert!(a.abs_diff(b) < 1000, "{a} against {b}");
}

#[test]
fn the_least_of_the_last_minutes() {
    let at = |s: u64| Instant::from_millis(s * 1000);
    let mut e = estimator();
    e.on_sample(Duration::ZERO);
    assert_eq!(e.min_rtt(), None, "no clock was read between");
    // seconds, round trip, least
    let rows = [
        (1, 20, 20),
        (2, 30, 20),
        (200, 10, 10),
        (302, 50, 10), // the next window
        (600, 40, 10),
        (603, 60, 40), // the one with 10 is forgotten
        (904, 70, 60),
    ];
    for (s, rtt, least) in rows {
        e.on_least(MS(rtt), at(s));
        assert_eq!(e.min_rtt(), Some(MS(least)), "at {s} s");
    }
}
