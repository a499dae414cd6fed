//! Settings of a host, and of a socket, that change what is sent.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use super::peer::{ACK, Peer, SYN, all_options, mss_only, seg, wire};
use crate::tcp::TcpOption;

/// When a host with these settings sends what nobody answers, in milliseconds.
fn attempts(initial: Duration) -> Vec<u128> {
    let mut p = Peer::with(&wire(), |config| config.tcp.initial_rto = initial);
    p.connect();
    let sent = p.pass(initial.clamp(Duration::from_millis(1), Duration::from_secs(60)) * 8);
    sent.iter().map(|(at, _)| at.as_millis()).collect()
}

#[test]
fn the_first_time_out() {
    assert_eq!(attempts(Duration::from_secs(1)), [1000, 3000, 7000]);
    assert_eq!(attempts(Duration::from_millis(100)), [100, 300, 700]);
    assert_eq!(attempts(Duration::from_secs(10)), [10_000, 30_000, 70_000]);
    // nonsense is bounded
    assert_eq!(attempts(Duration::ZERO), [1, 3, 7]);
    assert_eq!(attempts(Duration::MAX)[0], 60_000);
}

#[test]
fn the_least_time_out() {
    for (least, used) in [(200, 200), (20, 20), (0, 1), (700, 700), (u64::MAX, 60_000)] {
        let mut p = Peer::with(&wire(), |config| {
            config.tcp.min_rto = Duration::from_millis(least);
        });
        p.open(mss_only(1000));
        let rto = p.host.tcp_info(p.id()).expect("open").rto;
        assert_eq!(rto, Duration::from_millis(used), "no round trip at all");
        // at rest it is not forgotten
        p.pass(Duration::from_secs(60));
        p.write(b"unheard");
        let again = p.pass(Duration::from_millis(used) + Duration::from_millis(1));
        assert_eq!(
            again.first().map(|(at, _)| at.as_millis()),
            Some(used.into())
        );
    }
}

/// Our SYN announces it, and no segment of ours is longer.
#[test]
fn segments_no_longer_than_a_host_allows() {
    for (most, used) in [
        (Some(1200), 1200),
        (Some(1), 48),
        (Some(9000), 1460),
        (None, 1460),
    ] {
        let mut p = Peer::with(&wire(), |config| config.tcp.max_segment = most);
        let syn = p.connect();
        assert_eq!(syn.options.mss, Some(used));
        p.send(&seg(SYN | ACK, 0, 1).options(mss_only(1460)));
        let sent = p.write(&vec![7; 4000]);
        let longest = sent.iter().map(|s| s.payload.len()).max();
        assert_eq!(longest, Some(usize::from(used)));
    }
}

#[test]
fn segments_no_longer_than_a_listener_allows() {
    let mut p = Peer::new();
    p.listen(1);
    let listener = p.listener.expect("listens");
    let option = TcpOption::MaxSegment(Some(1000));
    assert!(p.host.tcp_set_listener_option(listener, option));
    let out = p.send(&seg(SYN, 0, 0).options(mss_only(1460)));
    assert_eq!(out[0].options.mss, Some(1000));
    p.send(&seg(ACK, 1, 1));
    p.accept();
    let sent = p.write(&vec![7; 3000]);
    assert_eq!(sent.iter().map(|s| s.payload.len()).max(), Some(1000));
}

/// What is under way stays as it is; what follows is shorter, options included.
#[test]
fn segments_become_shorter_on_an_open_connection() {
    let mut p = Peer::active(all_options());
    let sent = p.write(&vec![7; 2000]);
    let before = sent[0].payload.len();
    for (most, used) in [(800, 788), (1400, 788), (700, 688)] {
        let option = TcpOption::MaxSegment(Some(most));
        assert!(p.host.tcp_set_option(p.id(), option));
        let sent = p.write(&vec![7; 2000]);
        assert!(sent.iter().all(|s| s.seq > 2000), "nothing is sent again");
        let longest = sent.iter().map(|s| s.payload.len()).max().expect("some");
        assert!(longest == used && longest < before, "{longest}");
    }
}
