//! A router that throws large packets away and tells nobody (RFC 4821, RFC 8899 section 4.3).

use core::net::SocketAddr;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_link::{Checksum, Medium};

use crate::config::{Config, MtuProbing};
use crate::tcp::{TcpEvent, TcpId, TcpOption};
use crate::testing::{B, Faults, Pair, WireConfig, WireDriver};

/// A connection over a wire of 1,500 bytes, and what B has read of it.
pub(super) struct Flow {
    pub(super) pair: Pair<WireDriver>,
    pub(super) from: TcpId,
    to: TcpId,
    sent: Vec<u8>,
    got: Vec<u8>,
}

impl Flow {
    /// Without probes of larger sizes.
    fn new(checksum: Checksum) -> Self {
        Self::with(checksum, |config| {
            config.tcp.mtu_probing = MtuProbing::Never
        })
    }

    pub(super) fn with(checksum: Checksum, change: impl Fn(&mut Config)) -> Self {
        let wire = WireConfig {
            medium: Medium::Ip,
            checksum,
            delay: Duration::from_millis(5),
            ..WireConfig::default()
        };
        let mut pair = Pair::wire_with(1, &wire, change);
        let at = SocketAddr::new(B, 80);
        let listener = pair.b.tcp_listen(at, 4).expect("free");
        let from = pair.a.tcp_connect(pair.now, None, at).expect("a route");
        pair.pass(Duration::from_millis(50));
        let to = pair.b.tcp_accept(listener).expect("a client");
        let (sent, got) = (vec![], vec![]);
        Flow {
            pair,
            from,
            to,
            sent,
            got,
        }
    }

    /// From now on packets of more than `longest` bytes vanish.
    pub(super) fn longest(&mut self, longest: usize) {
        self.faults(Faults {
            longest,
            ..Faults::default()
        });
    }

    pub(super) fn faults(&mut self, faults: Faults) {
        let link = self.pair.link_a;
        let endpoint = self.pair.a.link_mut(link).expect("there");
        endpoint.driver.set_faults(faults);
    }

    /// Writes `len` bytes and waits until B has read them; how long that took.
    pub(super) fn transfer(&mut self, len: usize) -> Duration {
        self.transfer_watched(len, |_| {})
    }

    /// The same; `watch` looks every millisecond.
    pub(super) fn transfer_watched(
        &mut self,
        len: usize,
        mut watch: impl FnMut(&mut Self),
    ) -> Duration {
        let start = self.pair.now;
        let more: Vec<u8> = (0..len).map(|i| (i / 3 + self.sent.len()) as u8).collect();
        let mut left = &more[..];
        self.sent.extend_from_slice(&more);
        let mut buffer = vec![0; 65_536];
        for _ in 0..60_000 {
            let now = self.pair.now;
            let n = self.pair.a.tcp_send(now, self.from, left).unwrap_or(0);
            left = &left[n..];
            self.pair.pass(Duration::from_millis(1));
            watch(self);
            let now = self.pair.now;
            while let Ok(n @ 1..) = self.pair.b.tcp_recv(now, self.to, &mut buffer) {
                self.got.extend_from_slice(&buffer[..n]);
            }
            if self.got.len() == self.sent.len() {
                break;
            }
        }
        assert!(self.got == self.sent, "{} bytes", self.got.len());
        self.pair.now.saturating_duration_since(start)
    }

    pub(super) fn mss(&self) -> u32 {
        self.pair.a.tcp_info(self.from).expect("open").send_mss
    }

    pub(super) fn found(&self) -> u64 {
        self.count(TcpEvent::BlackHole)
    }
}

impl Flow {
    pub(super) fn count(&self, event: TcpEvent) -> u64 {
        self.pair.a.tcp_counters().get(event)
    }
}

#[test]
fn a_silent_router_is_found_out_and_tried_again() {
    for checksum in [Checksum::Software, Checksum::Partial] {
        let mut flow = Flow::new(checksum);
        flow.transfer(100_000);
        assert_eq!((flow.mss(), flow.found()), (1448, 0));
        flow.longest(1400);
        let time = flow.transfer(300_000);
        assert_eq!((flow.mss(), flow.found()), (1012, 1));
        assert!(time < Duration::from_secs(5), "{time:?}");
        // Larger ones are tried after ten seconds, in vain; then the path is what it was before.
        flow.pair.pass(Duration::from_secs(11));
        flow.transfer(1);
        assert_eq!(flow.mss(), 1448);
        let time = flow.transfer(300_000);
        assert_eq!((flow.mss(), flow.found()), (1012, 2));
        assert!(time < Duration::from_secs(2), "one time-out: {time:?}");
        flow.longest(0);
        flow.pair.pass(Duration::from_secs(39));
        assert_eq!(flow.mss(), 1012, "not before 40 seconds");
        flow.pair.pass(Duration::from_secs(2));
        flow.transfer(300_000);
        assert_eq!((flow.mss(), flow.found()), (1448, 2));
        // What passed is trusted again: it takes three time-outs, and ten seconds.
        flow.longest(1400);
        flow.transfer(300_000);
        assert_eq!((flow.mss(), flow.found()), (1012, 3));
        flow.pair.pass(Duration::from_secs(11));
        flow.transfer(1);
        assert_eq!(flow.mss(), 1448);
    }
}

#[test]
fn narrower_still() {
    let mut flow = Flow::new(Checksum::Software);
    flow.longest(600);
    flow.transfer(50_000);
    assert_eq!((flow.mss(), flow.found()), (500, 2));
}

#[test]
fn short_segments_and_short_outages_prove_nothing() {
    let mut flow = Flow::new(Checksum::Software);
    // Nothing passes for as long as two time-outs take.
    flow.longest(1);
    let now = flow.pair.now;
    let sent = flow.pair.a.tcp_send(now, flow.from, &[7; 5000]);
    assert_eq!(sent, Ok(5000));
    flow.sent.extend_from_slice(&[7; 5000]);
    flow.pair.pass(Duration::from_millis(600));
    flow.longest(0);
    flow.transfer(10_000);
    assert_eq!((flow.mss(), flow.found()), (1448, 0));
    // Half a minute without small segments.
    flow.longest(1);
    let now = flow.pair.now;
    assert_eq!(flow.pair.a.tcp_send(now, flow.from, b"few"), Ok(3));
    flow.sent.extend_from_slice(b"few");
    flow.pair.pass(Duration::from_secs(30));
    flow.longest(0);
    flow.transfer(10_000);
    assert_eq!((flow.mss(), flow.found()), (1448, 0));
}

/// Small segments that the peer reports behind a large one that vanishes do not hide the hole for
/// long, however many they are.
#[test]
fn small_segments_that_pass_hide_nothing_for_long() {
    let mut flow = Flow::new(Checksum::Software);
    let (pair, from) = (&mut flow.pair, flow.from);
    pair.a.tcp_set_option(from, TcpOption::NoDelay(true));
    flow.transfer(20_000);
    flow.longest(1200);
    let write = |flow: &mut Flow, len: usize| {
        let text = vec![7; len];
        let now = flow.pair.now;
        assert_eq!(flow.pair.a.tcp_send(now, flow.from, &text), Ok(len));
        flow.sent.extend_from_slice(&text);
        flow.pair.pass(Duration::from_millis(1));
    };
    write(&mut flow, 1400);
    for _ in 0..4 {
        write(&mut flow, 800);
    }
    let taken = flow.transfer(1);
    assert!(taken < Duration::from_secs(60), "{taken:?}");
}

/// A segment need not be full to be too long for the path.
#[test]
fn a_middling_segment_may_be_too_long() {
    let mut flow = Flow::new(Checksum::Software);
    flow.longest(868);
    let taken = flow.transfer(836);
    assert!(taken < Duration::from_secs(5), "{taken:?}");
    assert_eq!((flow.mss(), flow.found()), (500, 1));
}

/// While nothing is acknowledged no larger segments are tried: after a long outage the time-outs
/// are further apart than the trials, which would hide that smaller ones are called for.
#[test]
fn nothing_larger_is_tried_while_the_path_is_silent() {
    let mut flow = Flow::new(Checksum::Software);
    flow.longest(1);
    let now = flow.pair.now;
    assert_eq!(flow.pair.a.tcp_send(now, flow.from, &[7; 3000]), Ok(3000));
    flow.sent.extend_from_slice(&[7; 3000]);
    flow.pair.pass(Duration::from_secs(1));
    flow.longest(700);
    flow.transfer(1);
    let mss = flow.mss();
    flow.longest(1);
    let now = flow.pair.now;
    assert_eq!(flow.pair.a.tcp_send(now, flow.from, &[7; 400]), Ok(400));
    flow.sent.extend_from_slice(&[7; 400]);
    for _ in 0..60 {
        flow.pair.pass(Duration::from_secs(1));
        assert_eq!(flow.mss(), mss);
    }
    flow.longest(700);
    flow.transfer(1);
    // now a trial is made, in vain: the size that was found is still the one that passes
    flow.pair.pass(Duration::from_secs(11));
    assert_eq!((mss, flow.mss()), (500, 1448));
    let found = flow.found();
    flow.transfer(5000);
    assert_eq!((flow.mss(), flow.found()), (500, found + 1));
}
