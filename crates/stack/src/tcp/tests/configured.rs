//! Settings of a host, and of a socket, that change what is sent.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_wire::tcp::Flags;

use super::peer::{ACK, Peer, RST, SYN, all_options, mss_only, seg, wire};
use crate::config::{Config, CongestionControl};
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

/// Options given with the call hold from the SYN on, though it leaves at once.
#[test]
fn options_of_a_connection_leave_with_its_syn() {
    let mut p = Peer::new();
    let options = [
        TcpOption::MaxSegment(Some(900)),
        TcpOption::ReceiveBuffer(8000),
        TcpOption::CongestionControl(CongestionControl::Dctcp),
        TcpOption::SynRetries(Some(1)),
    ];
    let (now, to) = (p.now, p.me);
    let id = p.host.tcp_connect_with_options(now, None, to, &options);
    p.id = Some(id.expect("a route"));
    let syn = p.poll().remove(0);
    assert_eq!((syn.options.mss, syn.window), (Some(900), 8000));
    assert_eq!(syn.flags, SYN | Flags::ECE | Flags::CWR, "DCTCP needs ECN");
    assert_eq!(p.pass(Duration::from_secs(100)).len(), 1, "one more SYN");
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

/// A setting that takes one option away: off, and whether a SYN of ours has the option.
type Switch = (fn(&mut Config), fn(&gannet_wire::tcp::Options) -> bool);

const OPTIONS: [Switch; 3] = [
    (|c| c.tcp.timestamps = false, |o| o.timestamps.is_some()),
    (|c| c.tcp.sack = false, |o| o.sack_permitted),
    (
        |c| c.tcp.window_scaling = false,
        |o| o.window_scale.is_some(),
    ),
];

/// Whether the open connection uses each of [`OPTIONS`].
fn used(p: &Peer) -> [bool; 3] {
    let info = p.host.tcp_info(p.id()).expect("open");
    [info.timestamps, info.sack, info.window_scale.is_some()]
}

#[test]
fn options_that_a_host_does_not_offer() {
    for (n, (off, has)) in OPTIONS.iter().enumerate() {
        let mut p = Peer::with(&wire(), off);
        let syn = p.connect();
        for (other, (_, offered)) in OPTIONS.iter().enumerate() {
            assert_eq!(
                offered(&syn.options),
                other != n,
                "option {other} without {n}"
            );
        }
        assert!(!has(&syn.options));
        // a peer that answers with it all the same is not believed
        let mut answer = all_options();
        let echo = syn.options.timestamps.map_or(0, |(value, _)| value);
        answer.timestamps = Some((5000, echo));
        p.send(&seg(SYN | ACK, 0, 1).options(answer));
        assert_eq!(used(&p), [n != 0, n != 1, n != 2]);
        let sent = p.write(b"text");
        assert_eq!(sent[0].options.timestamps.is_some(), n != 0);
    }
}

#[test]
fn options_that_a_listener_does_not_agree_to() {
    for cookies in [false, true] {
        for (n, (off, has)) in OPTIONS.iter().enumerate() {
            let mut p = Peer::with(&wire(), |config| {
                off(config);
                if cookies {
                    config.tcp.syn_cookies = crate::config::SynCookies::Always;
                }
            });
            p.listen(8);
            let out = p.send(&seg(SYN, 0, 0).options(all_options()));
            assert!(!has(&out[0].options), "option {n}");
            let mut ack = seg(ACK, 1, 1);
            if let Some((echo, _)) = out[0].options.timestamps {
                ack = ack.stamp(5001, echo);
            }
            p.send(&ack);
            p.accept();
            // without a time stamp a cookie has no place for the others
            let carried = !cookies || n != 0;
            let expected = [n != 0, n != 1 && carried, n != 2 && carried];
            assert_eq!(used(&p), expected, "option {n}, cookies {cookies}");
        }
    }
}

#[test]
fn windows_that_are_not_scaled_stay_below_64_kib() {
    let mut p = Peer::with(&wire(), |config| config.tcp.window_scaling = false);
    p.open(all_options());
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.window_scale, None);
    let mut at = 1;
    for _ in 0..200 {
        let out = p.send(&seg(ACK, at, 1).text(&[7; 1000]).stamp(5001, 0));
        at += 1000;
        p.read();
        assert!(out.iter().all(|s| s.options.window_scale.is_none()));
    }
    assert_eq!(p.host.tcp_info(p.id()).expect("open").window_scale, None);
}

/// What leaves at once, before anybody has acknowledged anything.
#[test]
fn the_initial_window() {
    for control in CongestionControl::ALL {
        for (segments, used) in [(1, 1), (2, 2), (10, 10), (30, 30), (0, 1)] {
            let mut p = Peer::with(&wire(), |config| {
                config.tcp.congestion = control;
                config.tcp.ecn = crate::config::EcnMode::Off;
                config.tcp.initial_window = segments;
            });
            p.open(mss_only(1000));
            let info = p.host.tcp_info(p.id()).expect("open");
            assert_eq!(info.congestion_window, used * 1000, "{control}, {segments}");
        }
    }
}

#[test]
fn the_initial_window_after_a_lost_syn_is_one_segment() {
    let mut p = Peer::with(&wire(), |config| config.tcp.initial_window = 30);
    p.connect();
    p.pass(Duration::from_secs(2));
    p.send(&seg(SYN | ACK, 0, 1).options(mss_only(1000)));
    assert_eq!(
        p.host.tcp_info(p.id()).expect("open").congestion_window,
        1000
    );
}

#[test]
fn small_segments_at_once() {
    for (nodelay, sent) in [(false, 1), (true, 3)] {
        let mut p = Peer::with(&wire(), |config| config.tcp.nodelay = nodelay);
        p.open(mss_only(1000));
        let out: usize = (0..3).map(|_| p.write(b"x").len()).sum();
        assert_eq!(out, sent, "nodelay {nodelay}");
    }
}

/// RFC 5961 section 7: how many of 100 doubtful resets in a second are answered.
#[test]
fn challenges_as_often_as_a_host_likes() {
    for (interval, answers) in [(0, 100), (10, 100), (100, 10), (500, 2), (60_000, 1)] {
        let mut p = Peer::with(&wire(), |config| {
            config.tcp.challenge_interval = Duration::from_millis(interval);
        });
        p.open(mss_only(1000));
        let answered = (0..100).map(|_| {
            p.pass_ms(10);
            p.send(&seg(RST, 7, 0)).len()
        });
        assert_eq!(answered.sum::<usize>(), answers, "{interval} ms");
    }
}
