//! Congestion controls on one slow place, in virtual time: is it filled, how long is its queue, is
//! it shared, are its marks heard.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_link::{Checksum, Medium};

use crate::config::{Config, CongestionControl, EcnMode};
use crate::tcp::{ListenerId, TcpId, TcpInfo};
use crate::testing::{B, Bottleneck, Faults, Pair, WireConfig, WireDriver};

/// Flows from one host to the other that never run out of data.
pub(super) struct Flows {
    pub(super) pair: Pair<WireDriver>,
    pub(super) ids: Vec<TcpId>,
    servers: Vec<TcpId>,
    listener: ListenerId,
    rate: u64,
}

impl Flows {
    fn new(control: CongestionControl, ecn: EcnMode, one_way: Duration, slow: Bottleneck) -> Self {
        Self::with(one_way, slow, Faults::default(), |config| {
            config.tcp.congestion = control;
            config.tcp.ecn = ecn;
        })
    }

    pub(super) fn with(
        one_way: Duration,
        slow: Bottleneck,
        faults: Faults,
        configure: impl Fn(&mut Config),
    ) -> Self {
        let wire = WireConfig {
            medium: Medium::Ip,
            checksum: Checksum::Partial,
            delay: one_way,
            bottleneck: Some(slow),
            faults,
            blocks: (16 * 1024, 4096),
            ..WireConfig::default()
        };
        let mut pair = Pair::wire_with(7, &wire, configure);
        pair.settle(); // the wire learns what time it is
        let listener = pair.b.tcp_listen(SocketAddr::new(B, 80), 8).expect("free");
        Flows {
            pair,
            ids: Vec::new(),
            servers: Vec::new(),
            listener,
            rate: slow.rate,
        }
    }

    pub(super) fn start(&mut self) {
        let at = SocketAddr::new(B, 80);
        let id = self.pair.a.tcp_connect(self.pair.now, None, at);
        self.ids.push(id.expect("a route"));
    }

    /// Lets `duration` pass; bytes acknowledged in it, by flow.
    pub(super) fn run(&mut self, duration: Duration) -> Vec<u64> {
        self.run_and(duration, |_| {})
    }

    /// The same; `look` is called at every event.
    pub(super) fn run_and(&mut self, duration: Duration, mut look: impl FnMut(&Self)) -> Vec<u64> {
        let acknowledged = |flows: &Self| -> Vec<u64> {
            let infos = flows.ids.iter().map(|&id| flows.info(id));
            infos.map(|info| info.bytes_acknowledged).collect()
        };
        let before = acknowledged(self);
        let end = self.pair.now + duration;
        let data = std::vec![5; 64 * 1024];
        let mut sink = std::vec![0; 256 * 1024];
        while self.pair.now < end {
            for &id in &self.ids {
                let _ = self.pair.a.tcp_send(self.pair.now, id, &data);
            }
            self.servers.extend(self.pair.b.tcp_accept(self.listener));
            for &id in &self.servers {
                while self
                    .pair
                    .b
                    .tcp_recv(self.pair.now, id, &mut sink)
                    .is_ok_and(|n| n > 0)
                {}
            }
            look(self);
            if !self.pair.step() {
                break;
            }
        }
        let after = acknowledged(self);
        after.iter().zip(before).map(|(a, b)| a - b).collect()
    }

    pub(super) fn info(&self, id: TcpId) -> TcpInfo {
        self.pair.a.tcp_info(id).expect("open")
    }

    /// Share of the rate that `bytes` in `duration` are.
    pub(super) fn share(&self, bytes: u64, duration: Duration) -> f64 {
        bytes as f64 / (self.rate as f64 * duration.as_secs_f64())
    }

    fn marked(&self) -> u64 {
        let endpoint = self.pair.a.link(self.pair.link_a).expect("a link");
        endpoint.driver.marked()
    }
}

pub(super) const MS: fn(u64) -> Duration = Duration::from_millis;

/// 100 Mbit/s; a queue of so many bytes, no marks.
fn fast(queue: u64) -> Bottleneck {
    Bottleneck {
        rate: 12_500_000,
        queue,
        mark_above: u64::MAX / 1_000_000_000,
    }
}

/// RFC 9438: after the first losses the path of 100 Mbit/s and 40 ms stays full.
#[test]
fn cubic_fills_a_long_path() {
    let mut f = Flows::new(
        CongestionControl::Cubic,
        EcnMode::Off,
        MS(20),
        fast(500_000),
    );
    f.start();
    f.run(MS(4000));
    let bytes = f.run(MS(8000))[0];
    let info = f.info(f.ids[0]);
    let share = f.share(bytes, MS(8000));
    assert!(share > 0.9, "{share} {info:#?}");
    assert_eq!(info.timeouts, 0);
}

/// RFC 9406: round trips grow when the window is twice what the path holds, 1 MB; five rounds of a
/// quarter each more than triple it, and slow start ends, before path and queue, 4.5 MB, are full.
#[test]
fn hystart_leaves_slow_start_before_anything_is_lost() {
    let slow = fast(4_000_000);
    let mut f = Flows::new(CongestionControl::Cubic, EcnMode::Off, MS(20), slow);
    f.start();
    let bytes = f.run(MS(1500))[0];
    let info = f.info(f.ids[0]);
    assert!(info.slow_start_threshold < 4_500_000, "{info:#?}");
    assert_eq!(info.retransmissions, 0, "{info:#?}");
    let share = f.share(bytes, MS(1500));
    assert!(share > 0.6, "{share}");
}

/// RFC 3168: agreed end to end, marks are heard once per window, and nothing needs to be lost.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.2
//= type=test
//# A TCP endpoint SHOULD implement ECN as described in RFC 3168 (SHLD-8).
#[test]
fn marks_slow_down_as_losses_do() {
    let slow = Bottleneck {
        rate: 1_250_000,
        queue: 200_000,
        mark_above: 30_000,
    };
    for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
        let mut f = Flows::new(control, EcnMode::Active, MS(10), slow);
        f.start();
        f.run(MS(2000));
        let bytes = f.run(MS(4000))[0];
        let info = f.info(f.ids[0]);
        assert!(info.ecn && f.pair.b.tcp_info(f.servers[0]).expect("open").ecn);
        assert!(f.marked() > 0);
        assert_eq!(info.retransmissions, 0, "{control} {info:#?}");
        let share = f.share(bytes, MS(4000));
        assert!(share > 0.85, "{control} {share} {info:#?}");
        assert!(info.slow_start_threshold < 100_000, "{control} {info:#?}");
    }
    // nobody asked: nothing is marked
    let mut f = Flows::new(CongestionControl::Cubic, EcnMode::Passive, MS(10), slow);
    f.start();
    f.run(MS(1000));
    assert_eq!((f.marked(), f.info(f.ids[0]).ecn), (0, false));
}

/// RFC 8257: the queue stays near the threshold of the marks, and the link full.
#[test]
fn dctcp_keeps_the_queue_near_the_threshold() {
    let slow = Bottleneck {
        rate: 125_000_000,
        queue: 1_000_000,
        mark_above: 30_000,
    };
    let mut f = Flows::new(
        CongestionControl::Dctcp,
        EcnMode::Passive,
        Duration::from_micros(50),
        slow,
    );
    f.start();
    f.run(MS(200));
    let bytes = f.run(MS(500))[0];
    let info = f.info(f.ids[0]);
    let share = f.share(bytes, MS(500));
    assert!(info.ecn && share > 0.9, "{share} {info:#?}");
    assert_eq!(info.retransmissions, 0, "{info:#?}");
    // 30 kB wait 240 us; twice that at most
    let rtt = info.rtt.expect("measured");
    assert!(rtt < Duration::from_micros(100 + 2 * 240), "{info:#?}");
}

/// Two flows of one kind, the second later: each gets its part.
#[test]
fn two_flows_share() {
    let marking = Bottleneck {
        mark_above: 50_000,
        ..fast(250_000)
    };
    for (control, slow) in [
        (CongestionControl::Cubic, fast(250_000)),
        (CongestionControl::NewReno, fast(250_000)),
        (CongestionControl::Dctcp, marking),
    ] {
        let mut f = Flows::new(control, EcnMode::Passive, MS(10), slow);
        f.start();
        f.run(MS(1000));
        f.start();
        f.run(MS(8000));
        let bytes = f.run(MS(15_000));
        let shares: Vec<f64> = bytes.iter().map(|&b| f.share(b, MS(15_000))).collect();
        assert!(shares.iter().sum::<f64>() > 0.9, "{control} {shares:?}");
        assert!(shares.iter().all(|&s| s > 0.3), "{control} {shares:?}");
    }
}
