//! Sending at a rate, in virtual time.

use std::vec::Vec;

use gannet_base::Instant;

use super::bottleneck::{Flows, MS};
use crate::config::{CongestionControl, Pacing};
use crate::testing::{Bottleneck, Faults};

/// 50 Mbit/s, and a queue of so many bytes.
fn slow(queue: u64) -> Bottleneck {
    Bottleneck {
        rate: 6_250_000,
        queue,
        mark_above: u64::MAX / 1_000_000_000,
    }
}

fn flow(control: CongestionControl, pacing: Pacing, queue: u64) -> Flows {
    let mut flows = Flows::with(MS(20), slow(queue), Faults::default(), |config| {
        config.tcp.congestion = control;
        config.tcp.pacing = pacing;
    });
    flows.start();
    flows
}

/// The most bytes that left within a millisecond while `f` ran for so many.
fn largest_burst(f: &mut Flows, ms: u64) -> u64 {
    let mut sent: Vec<(Instant, u64)> = Vec::new();
    let mut most = 0;
    f.run_and(MS(ms), |f| {
        let info = f.info(f.ids[0]);
        let total = info.bytes_acknowledged + u64::from(info.in_flight);
        sent.push((f.pair.now, total));
        // what had left a millisecond ago
        let from = sent.partition_point(|&(at, _)| at + MS(1) <= f.pair.now);
        let before = sent.get(from.saturating_sub(1)).map_or(total, |s| s.1);
        most = most.max(total - before);
        sent.drain(..from.saturating_sub(1));
    });
    most
}

/// The rate is at most twice the path's, in steady state 1.2 times, and a millisecond of it leaves
/// at a time. The timer's ticks may bring two of them together.
#[test]
fn cubic_does_not_send_bursts_when_it_is_paced() {
    for control in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let mut paced = flow(control, Pacing::On, 250_000);
        paced.run(MS(4000));
        let burst = largest_burst(&mut paced, 2000);
        let info = paced.info(paced.ids[0]);
        let rate = info.pacing_rate.expect("paced");
        assert!((6_000_000..13_000_000).contains(&rate), "{info:#?}");
        assert!(burst <= 2 * rate / 1000 + 1500, "{control} {burst} {rate}");
    }
}

/// The first windows do not arrive as bursts: a queue shorter than the first of them holds them.
#[test]
fn slow_start_is_spread_over_the_round_trip() {
    let lost = |pacing| {
        let mut f = flow(CongestionControl::Cubic, pacing, 8_000);
        f.run(MS(200));
        let info = f.info(f.ids[0]);
        assert!(info.bytes_acknowledged > 14_480, "{info:#?}");
        info.retransmissions
    };
    let (off, on) = (lost(Pacing::Off), lost(Pacing::On));
    assert!(off > 0 && on == 0, "{on} of {off}");
}

/// Pacing costs nothing of the rate.
#[test]
fn a_paced_path_is_full() {
    for control in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let mut f = flow(control, Pacing::On, 250_000);
        f.run(MS(4000));
        let bytes = f.run(MS(4000))[0];
        let share = f.share(bytes, MS(4000));
        assert!(share > 0.9, "{control} {share} {:#?}", f.info(f.ids[0]));
    }
}
