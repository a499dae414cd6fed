//! RFC 9438 section by section, and against the formula in floating point.
use super::*;
use gannet_base::Rng;

const MSS: u32 = 1000;
const RTT: Duration = Duration::from_millis(40);

fn at(ms: u64) -> Instant {
    Instant::from_millis(1000 + ms)
}

/// A loss at `cwnd`, and the window that follows it.
fn lost(cwnd: u32) -> (Cubic, u32) {
    let mut cubic = Cubic::default();
    let ssthresh = cubic.after_loss(cwnd, cwnd, MSS);
    (cubic, ssthresh)
}

#[test]
fn cube_roots() {
    for n in [0, 1, 7, 8, 26, 27, 63, 64, 999_999_999, u64::MAX] {
        let root = u128::from(cube_root(n));
        assert!(
            root.pow(3) <= u128::from(n) && (root + 1).pow(3) > u128::from(n),
            "{n}"
        );
    }
    let mut rng = Rng::new(9438);
    for _ in 0..10_000 {
        let n = rng.next_u64() >> rng.below(64);
        let root = u128::from(cube_root(n));
        assert!(
            root.pow(3) <= u128::from(n) && (root + 1).pow(3) > u128::from(n),
            "{n}"
        );
    }
}

/// W_cubic(t) and K in floating point.
fn naive(w_max: f64, start: f64, t: f64) -> f64 {
    let k = ((w_max - start).max(0.0) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn section_4_2_the_curve_is_the_formula() {
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let smss = 100 + rng.below(9000) as u32;
        let cwnd = smss * (10 + rng.below(20_000) as u32);
        let mut cubic = Cubic::default();
        let start = cubic.after_loss(cwnd, cwnd, smss);
        cubic.begin(start, smss, at(0));
        for ms in [0, 10, 100, 1000, 5000, 20_000, 60_000] {
            let seconds = ms as f64 / 1000.0;
            let unit = f64::from(smss);
            let exact = naive(f64::from(cwnd) / unit, f64::from(start) / unit, seconds);
            let exact = (exact * unit).clamp(0.0, f64::from(MAX_CWND));
            let got = f64::from(cubic.w_cubic(Duration::from_millis(ms), smss));
            // one millisecond of K is worth C * 3 (t-K)^2 / 1000 segments
            let k = f64::from(cubic.curve.k) / 1000.0;
            let step = 1.2 * (seconds - k).abs().max(0.1).powi(2) * 0.002 * unit + unit / 10.0;
            assert!(
                (got - exact).abs() <= step,
                "{cwnd} {smss} {ms}: {got} {exact}"
            );
        }
    }
}

/// Acknowledges a window each round trip for `rounds`.
fn rounds(cubic: &mut Cubic, mut cwnd: u32, from: u64, rounds: u64) -> u32 {
    for round in 0..rounds {
        let mut left = cwnd;
        let window = cwnd;
        while left > 0 {
            let part = left.min(2 * MSS);
            left -= part;
            let done = u64::from(window - left) * 40 / u64::from(window);
            cwnd = cubic.avoid(cwnd, MSS, part, at(from + round * 40 + done), RTT);
        }
    }
    cwnd
}

#[test]
fn sections_4_4_and_4_5_concave_then_convex() {
    let (mut cubic, start) = lost(1_000_000);
    assert_eq!(start, 700_000);
    // K = cbrt(300 / 0.4) = 9.086 s
    let mut cwnd = rounds(&mut cubic, start, 0, 1);
    assert_eq!(cubic.curve.k, 9085);
    let mut sizes = std::vec::Vec::new();
    for step in 0..18u64 {
        cwnd = rounds(&mut cubic, cwnd, 40 + step * 1000, 25);
        sizes.push(cwnd);
    }
    let growth: std::vec::Vec<u32> = sizes.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(
        growth[..7].windows(2).all(|g| g[0] > g[1]),
        "concave: {growth:?}"
    );
    assert!(
        growth[10..].windows(2).all(|g| g[0] < g[1]),
        "convex: {growth:?}"
    );
    assert!(
        (990_000..=1_010_000).contains(&sizes[8]),
        "the plateau: {sizes:?}"
    );
}

#[test]
fn section_4_3_on_a_short_path_it_is_as_fast_as_reno() {
    let (mut cubic, start) = lost(20_000);
    let rtt = Duration::from_millis(1);
    let mut cwnd = start;
    // 100 round trips of 1 ms: the cubic function has hardly moved
    for now in 0..100 {
        let window = cwnd;
        for _ in 0..window / MSS {
            cwnd = cubic.avoid(cwnd, MSS, MSS, at(now), rtt);
        }
    }
    // 9/17 of a segment per round trip up to the old window, then one
    let to_prior = 6 * 17 / 9;
    let expected = 20_000 + (100 - to_prior) * MSS;
    assert!(cwnd.abs_diff(expected) < 6 * MSS, "{cwnd} {expected}");
}

#[test]
fn section_4_6_and_4_7_reduction_and_fast_convergence() {
    let (mut cubic, _) = lost(100_000);
    assert_eq!(
        (cubic.curve.w_max, cubic.curve.cwnd_prior),
        (100_000, 100_000)
    );
    assert_eq!(cubic.after_loss(80_000, 80_000, MSS), 56_000);
    assert_eq!(cubic.curve.w_max, 68_000, "less than before: makes room");
    assert_eq!(cubic.after_loss(90_000, 90_000, MSS), 63_000);
    assert_eq!(cubic.curve.w_max, 90_000);
    assert_eq!(
        cubic.after_loss(0, 90_000, MSS),
        2 * MSS,
        "never below two segments"
    );
}

#[test]
fn section_4_8_after_a_time_out_the_curve_begins_at_its_bottom() {
    let (mut cubic, ssthresh) = lost(100_000);
    cubic.on_rto();
    cubic.avoid(ssthresh, MSS, MSS, at(0), RTT);
    assert_eq!((cubic.curve.k, cubic.curve.w_max), (0, 70_000));
}

#[test]
fn section_4_9_undo_brings_the_curve_back() {
    let (mut cubic, start) = lost(100_000);
    let cwnd = rounds(&mut cubic, start, 0, 30);
    let before = cubic.curve;
    cubic.after_loss(cwnd, cwnd, MSS);
    assert_ne!(cubic.curve, before);
    cubic.undo();
    assert_eq!(cubic.curve, before);
}

#[test]
fn section_5_8_the_curve_stands_still_while_the_application_is_slow() {
    let (mut cubic, start) = lost(1_000_000);
    let (mut busy, mut lazy) = (cubic, cubic);
    let cwnd = rounds(&mut cubic, start, 0, 25);
    lazy.avoid(start, MSS, MSS, at(0), RTT);
    for ms in 1..=5000 {
        lazy.pause(at(ms));
    }
    let _ = busy.avoid(start, MSS, MSS, at(0), RTT);
    let rested = rounds(&mut lazy, start, 5000, 25);
    assert!(rested.abs_diff(cwnd) < 3 * MSS, "{rested} {cwnd}");
    // whereas time without a pause counts, but never more than half a window per round trip
    let jumped = busy.avoid(start, MSS, start, at(60_000), RTT);
    assert_eq!(jumped, start + start / 2);
}

#[test]
fn dividing_acknowledgements_gains_nothing() {
    let (whole, start) = lost(1_000_000);
    let (mut whole, mut divided) = (whole, whole);
    let (mut a, mut b) = (start, start);
    for ms in 0..500 {
        a = whole.avoid(a, MSS, MSS, at(ms * 10), RTT);
        for _ in 0..1000 {
            b = divided.avoid(b, MSS, 1, at(ms * 10), RTT);
        }
    }
    assert!(a.abs_diff(b) < MSS, "{a} {b}");
}
