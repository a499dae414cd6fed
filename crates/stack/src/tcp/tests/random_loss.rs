//! Random loss and no reordering at all: every recovery is for something that was lost, and none is
//! taken back. Whoever undoes a true loss keeps more than his share of the path.

use core::net::SocketAddr;
use core::time::Duration;

use gannet_base::Rng;
use gannet_link::{Checksum, Medium};

use crate::config::CongestionControl;
use crate::tcp::TcpInfo;
use crate::testing::{B, Bottleneck, Faults, Pair, WireConfig};

const MS: fn(u64) -> Duration = Duration::from_millis;
/// 20 Mbit/s.
const RATE: u64 = 2_500_000;

/// A path that loses at random.
#[derive(Clone, Copy, Debug)]
struct Path {
    control: CongestionControl,
    trip_ms: u64,
    /// In a million packets.
    loss: u32,
    /// Acknowledgements are lost, too.
    acks: bool,
    /// The hosts look at their links so late at most: what arrived comes in batches.
    late_us: u64,
}

impl Path {
    fn wire(&self) -> WireConfig {
        WireConfig {
            medium: Medium::Ip,
            checksum: Checksum::Software,
            delay: MS(self.trip_ms) / 2,
            bottleneck: Some(Bottleneck {
                rate: RATE,
                queue: (RATE * self.trip_ms / 1000).max(30_000),
                mark_above: u64::MAX / 1_000_000_000,
            }),
            faults: Faults {
                loss: self.loss,
                one_way: !self.acks,
                ..Faults::default()
            },
            blocks: (16 * 1024, 1024),
            ..WireConfig::default()
        }
    }

    /// A stream for so long; what the sender says of it.
    fn stream(&self, seed: u64, time: Duration) -> TcpInfo {
        let mut pair = Pair::wire_with(seed, &self.wire(), |c| c.tcp.congestion = self.control);
        let mut rng = Rng::new(seed);
        let at = SocketAddr::new(B, 80);
        pair.settle();
        let listener = pair.b.tcp_listen(at, 1).expect("free");
        let id = pair.a.tcp_connect(pair.now, None, at).expect("a route");
        let mut server = None;
        pair.run_until(|p| {
            server = p.b.tcp_accept(listener);
            server.is_some()
        });
        let server = server.expect("accepted");
        let data = std::vec![5; 64 * 1024];
        let mut sink = std::vec![0; 64 * 1024];
        let end = pair.now + time;
        while pair.now < end {
            let _ = pair.a.tcp_send(pair.now, id, &data);
            while pair.b.tcp_recv(pair.now, server, &mut sink).is_ok() {}
            pair.settle();
            let next = pair.next_event().expect("something is under way");
            pair.now = pair.now.max(next) + Duration::from_micros(rng.below(self.late_us + 1));
        }
        pair.a.tcp_info(id).expect("open")
    }
}

/// On the way there alone: whatever is taken back was wrong.
#[test]
fn true_losses_are_not_undone() {
    for path in paths(false) {
        let info = path.stream(7, MS(10_000));
        assert!(info.fast_recoveries > 5, "{path:?} {info:#?}");
        assert_eq!(info.spurious_recoveries, 0, "{path:?} {info:#?}");
        assert!(!info.reordering_seen, "{path:?} {info:#?}");
    }
}

/// And on the way back: when all answers to a flight are lost a time-out is needless, and nothing
/// else ever is.
#[test]
fn lost_answers_make_needless_time_outs_alone() {
    for path in paths(true) {
        let info = path.stream(7, MS(10_000));
        assert!(info.fast_recoveries > 5, "{path:?} {info:#?}");
        assert!(
            info.spurious_recoveries <= info.timeouts,
            "{path:?} {info:#?}"
        );
        assert!(!info.reordering_seen, "{path:?} {info:#?}");
    }
}

/// Short and long, hardly lossy and very, looked at in time and late.
fn paths(acks: bool) -> impl Iterator<Item = Path> {
    let controls = [CongestionControl::NewReno, CongestionControl::Cubic];
    let rows = [
        (2, 50_000, 0),
        (2, 150_000, 0),
        (20, 10_000, 0),
        (20, 50_000, 0),
        (20, 50_000, 1000),
        (100, 10_000, 5000),
        (100, 50_000, 0),
    ];
    let all = controls.into_iter().flat_map(move |c| rows.map(|r| (c, r)));
    all.map(move |(control, (trip_ms, loss, late_us))| Path {
        control,
        trip_ms,
        loss,
        acks,
        late_us,
    })
}
