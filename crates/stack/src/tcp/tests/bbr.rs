//! BBR on one slow place, in virtual time.

use core::time::Duration;
use std::vec::Vec;

use super::bottleneck::{Flows, MS};
use crate::config::CongestionControl;
use crate::testing::{Bottleneck, Faults};

/// 50 Mbit/s and 40 ms hold so many bytes.
const BDP: u64 = 250_000;

fn flows(queue: u64, loss: u32) -> Flows {
    let slow = Bottleneck {
        rate: 6_250_000,
        queue,
        mark_above: u64::MAX / 1_000_000_000,
    };
    let faults = Faults {
        loss,
        ..Faults::default()
    };
    Flows::with(MS(20), slow, faults, |config| {
        config.tcp.congestion = CongestionControl::Bbr;
    })
}

/// What loss-based controls take for a full path is none. (The draft's short-term bounds take
/// their part: each round trip loses something.)
#[test]
fn one_percent_lost_at_random_costs_little() {
    let mut f = flows(BDP, 10_000);
    f.start();
    f.run(MS(2000));
    let bytes = f.run(MS(12_000))[0];
    let share = f.share(bytes, MS(12_000));
    let info = f.info(f.ids[0]);
    assert!(share > 0.8, "{share} {info:#?}");
    assert_eq!(info.timeouts, 0);
}

/// A queue of ten times the path stays nearly empty, and the path full.
#[test]
fn the_queue_stays_short_and_the_path_full() {
    let mut f = flows(10 * BDP, 0);
    f.start();
    f.run(MS(3000));
    let (mut most, mut sum, mut looks) = (0, 0, 0);
    let duration = MS(12_000);
    let bytes = f.run_and(duration, |f| {
        let flight = u64::from(f.info(f.ids[0]).in_flight);
        most = flight.max(most);
        sum += flight;
        looks += 1;
    })[0];
    let share = f.share(bytes, duration);
    let info = f.info(f.ids[0]);
    assert!(share > 0.9, "{share} {info:#?}");
    assert!(most <= BDP * 5 / 2, "{most} {info:#?}");
    assert!(sum / looks <= BDP * 5 / 4, "{} {info:#?}", sum / looks);
    assert_eq!(info.retransmissions, 0, "{info:#?}");
}

/// Every five seconds next to nothing is in flight, for a fifth of a second.
#[test]
fn probe_rtt_empties_the_path_now_and_then() {
    let mut f = flows(2 * BDP, 0);
    f.start();
    f.run(MS(2000));
    let mut low: Vec<Duration> = Vec::new();
    let start = f.pair.now;
    f.run_and(MS(12_000), |f| {
        if u64::from(f.info(f.ids[0]).in_flight) <= BDP * 5 / 9 {
            low.push(f.pair.now.saturating_duration_since(start));
        }
    });
    let apart = |pair: &[Duration]| pair[1] - pair[0] > MS(1000);
    let times = 1 + low.windows(2).filter(|pair| apart(pair)).count();
    assert!(!low.is_empty() && (1..=3).contains(&times), "{low:?}");
}

/// Two flows, the second later: each gets its part, in the course of some cycles (nothing is lost:
/// only their probes bring them together).
#[test]
fn two_flows_share() {
    let mut f = flows(2 * BDP, 0);
    f.start();
    f.run(MS(2000));
    f.start();
    f.run(MS(35_000));
    let bytes = f.run(MS(20_000));
    let shares: Vec<f64> = bytes.iter().map(|&b| f.share(b, MS(20_000))).collect();
    assert!(shares.iter().sum::<f64>() > 0.9, "{shares:?}");
    assert!(shares.iter().all(|&s| s > 0.3), "{shares:?}");
}

/// A short queue overflows, losses bound what is in flight, and little is lost from then on.
#[test]
fn a_short_queue_is_respected() {
    let mut f = flows(BDP / 5, 0);
    f.start();
    f.run(MS(4000));
    let before = f.info(f.ids[0]).retransmissions;
    let bytes = f.run(MS(10_000))[0];
    let info = f.info(f.ids[0]);
    let again = (info.retransmissions - before) * 1448;
    let share = f.share(bytes, MS(10_000));
    assert!(share > 0.8, "{share} {info:#?}");
    assert!(again < bytes / 50, "{again} of {bytes} {info:#?}");
    assert_eq!(info.timeouts, 0);
}

/// Losses at random, fewer than `LossThresh`, leave most of a path with a queue of one
/// bandwidth-delay product, however long it is. (Without any, headers, the pacing margin and
/// ProbeRTT leave 0.94.)
#[test]
fn random_losses_cost_little_on_long_paths() {
    // one way; bytes per second; lost per million; share
    for (one_way, rate, loss, least) in [
        (10, 12_500_000, 1000, 0.86),
        (10, 12_500_000, 10_000, 0.83),
        (50, 6_250_000, 1000, 0.86),
        (50, 6_250_000, 10_000, 0.83),
    ] {
        let slow = Bottleneck {
            rate,
            queue: rate * 2 * one_way / 1000,
            mark_above: u64::MAX / 1_000_000_000,
        };
        let faults = Faults {
            loss,
            one_way: true,
            ..Faults::default()
        };
        let mut f = Flows::with(MS(one_way), slow, faults, |config| {
            config.tcp.congestion = CongestionControl::Bbr;
            config.tcp.receive_buffer = 4 << 20; // what holds Startup back is not looked at here
        });
        f.start();
        f.run(MS(3000));
        let bytes = f.run(MS(12_000))[0];
        let share = f.share(bytes, MS(12_000));
        let info = f.info(f.ids[0]);
        assert!(share > least, "{one_way} {loss} {share} {info:#?}");
        assert_eq!(info.timeouts, 0);
    }
}
