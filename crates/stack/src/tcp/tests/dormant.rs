//! A connection that slept and was woken, by whatever wakes one, sends the same bytes at the same
//! times as one that never slept.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Layout, NoDoorbell};

use super::peer::{ACK, FIN, Peer, RST, mss_only, seg};
use super::recorder::{Loss, Recorder, Sent};
use super::transfer::recorded;
use crate::Config;
use crate::tcp::{Shutdown, TcpEvent, TcpOption, TcpState};
use crate::testing::{B, Pair, Simulated, Wire, WireConfig};

/// What both sides sent, what their applications read, and how often a connection rested.
type Outcome = (Vec<(u64, Sent)>, [Vec<u8>; 2], u64);

const SECOND: Duration = Duration::from_secs(1);

/// A random conversation with long pauses.
fn converse<D: Simulated>(
    mut pair: Pair<Recorder<D>>,
    seed: u64,
    (timed, loss): (bool, bool),
) -> Outcome {
    let at = SocketAddr::new(B, 80);
    let listener = pair.b.tcp_listen(at, 4).expect("free");
    let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
    let mut server = None;
    pair.run_until(|p| {
        server = p.b.tcp_accept(listener);
        server.is_some()
    });
    let ids = [client, server.expect("accepted")];
    for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
        let driver = &mut host.link_mut(link).expect("a link").driver;
        driver.sent = Some(Vec::new());
        if loss {
            driver.loss = Loss::Acks(100_000);
        }
    }
    let mut rng = Rng::new(seed);
    let data = std::vec![7; 300_000];
    let mut read = [Vec::new(), Vec::new()];
    for _ in 0..60 {
        let len = match rng.below(3) {
            0 => 1 + rng.below(60),
            1 => rng.below(5000),
            _ => rng.below(300_000),
        } as usize;
        let side = rng.below(2) as usize;
        let host = [&mut pair.a, &mut pair.b].into_iter().nth(side);
        let (host, id) = (host.expect("two"), ids[side]);
        match rng.below(8) {
            0..4 => drop(host.tcp_send(pair.now, id, &data[..len])),
            4 => drop(host.tcp_set_option(id, TcpOption::NoDelay(len.is_multiple_of(2)))),
            // (what a timer sends over a channel is seen at the next event, whatever that is)
            5 if timed => {
                let idle = rng.chance(500_000).then_some(SECOND * 20);
                host.tcp_set_option(id, TcpOption::KeepAlive(idle));
            }
            6 => drop(host.tcp_take_block(id)),
            _ => {}
        }
        for pause in [rng.below(60), rng.below(25_000)] {
            pair.pass(Duration::from_millis(pause));
            drain(&mut pair, ids, &mut read);
        }
    }
    finish(&mut pair, ids, &mut rng);
    drain(&mut pair, ids, &mut read);
    let rested = [&pair.a, &pair.b].map(|h| h.tcp_counters().get(TcpEvent::Rested));
    let mut sent = Vec::new();
    for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
        let driver = &mut host.link_mut(link).expect("a link").driver;
        sent.extend(driver.sent.take().unwrap_or_default());
        host.check_tcp();
    }
    sent.sort_by_key(|(order, _)| *order);
    for (n, (order, _)) in sent.iter_mut().enumerate() {
        *order = n as u64;
    }
    (sent, read, rested[0].min(rested[1]))
}

fn drain<D: Simulated>(
    pair: &mut Pair<Recorder<D>>,
    ids: [crate::tcp::TcpId; 2],
    read: &mut [Vec<u8>; 2],
) {
    let mut buffer = std::vec![0; 400_000];
    let now = pair.now;
    for ((host, id), read) in [&mut pair.a, &mut pair.b].into_iter().zip(ids).zip(read) {
        host.check_tcp();
        // it may look without waking anybody
        let (info, status) = (host.tcp_info(id), host.tcp_status(id));
        assert_eq!(info.map(|i| i.state), status.map(|s| s.state));
        while let Ok(n @ 1..) = host.tcp_recv(now, id, &mut buffer) {
            read.extend(&buffer[..n]);
        }
    }
}

fn finish<D: Simulated>(pair: &mut Pair<Recorder<D>>, ids: [crate::tcp::TcpId; 2], rng: &mut Rng) {
    pair.pass(SECOND * 40);
    let now = pair.now;
    match rng.below(3) {
        0 => drop(pair.a.tcp_shutdown(now, ids[0], Shutdown::Write)),
        1 => pair.b.tcp_close(now, ids[1]),
        _ => pair.a.tcp_abort(now, ids[0]),
    }
    pair.pass(SECOND * 40);
}

fn compare(what: &str, run: impl Fn(Duration) -> Outcome) {
    let (sent, read, rested) = run(SECOND);
    let (awake, awake_read, none) = run(Duration::MAX);
    assert_eq!(none, 0, "switched off: {what}");
    assert!(rested > 5, "hardly rested: {what} {rested}");
    for (n, (s, a)) in sent.iter().zip(&awake).enumerate() {
        assert_eq!(s, a, "{what}, slot {n}");
    }
    assert_eq!(sent.len(), awake.len(), "{what}");
    assert!(read == awake_read, "{what}");
}

#[test]
fn sends_the_same_over_a_channel() {
    for seed in 0..10 {
        compare("channel", |after| {
            let ends = gannet_link::pair(Layout::CHANNEL, (NoDoorbell, NoDoorbell));
            let change = |c: &mut Config| c.tcp.rest_after = after;
            converse(recorded(seed, ends, true, change), seed, (false, false))
        });
    }
}

#[test]
fn sends_the_same_over_wires() {
    for seed in 0..20 {
        let wire = WireConfig {
            checksum: [Checksum::Partial, Checksum::Software][seed as usize % 2],
            delay: Duration::from_millis(5),
            ..WireConfig::default()
        };
        for loss in [false, true] {
            compare(&std::format!("{wire:?} {loss} {seed}"), |after| {
                let ends = Wire::ends(seed, &wire);
                let change = |c: &mut Config| c.tcp.rest_after = after;
                converse(recorded(seed, ends, false, change), seed, (true, loss))
            });
        }
    }
}

/// A peer whose connection rests: 6 seconds after it was opened, without time stamps.
fn at_rest() -> Peer {
    let mut p = Peer::active(mss_only(1000));
    assert!(p.pass(SECOND * 6).is_empty());
    assert_eq!(p.count(TcpEvent::Rested), 1);
    assert_eq!(p.host.next_timeout(), None, "nothing to wait for");
    p
}

#[test]
fn looking_does_not_wake() {
    let mut p = at_rest();
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.send_mss, info.state), (1000, TcpState::Established));
    let status = p.host.tcp_status(p.id()).expect("open");
    assert_eq!((status.readable, status.writable), (false, true));
    assert!(p.read().is_empty());
    assert_eq!(p.host.next_timeout(), None);
}

#[test]
fn a_segment_wakes_and_it_rests_again() {
    let mut p = at_rest();
    assert_eq!(p.send(&seg(ACK, 1, 1).text(b"hello")).len(), 0);
    assert_eq!(p.read(), b"hello");
    let sent = p.pass(SECOND * 60);
    assert_eq!(sent.len(), 1, "the delayed acknowledgement");
    assert_eq!(p.count(TcpEvent::Rested), 2);
    // what is outside the window is answered as ever
    let answer = p.brief(&seg(RST, 99, 0));
    assert_eq!(answer, [(ACK, 1, 6, 0)]);
}

#[test]
fn a_write_wakes() {
    let mut p = at_rest();
    let sent = p.write(b"hello");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].len(), 5);
    p.send(&seg(ACK, 1, 6));
    p.pass(SECOND * 60);
    assert_eq!(p.count(TcpEvent::Rested), 2);
}

#[test]
fn a_close_wakes() {
    let mut p = at_rest();
    let sent = p.close();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].flags.contains(FIN));
}

#[test]
fn a_call_that_changes_nothing_wakes_for_a_while() {
    let mut p = at_rest();
    assert!(p.host.tcp_set_option(p.id(), TcpOption::NoDelay(true)));
    assert!(p.pass(SECOND * 60).is_empty());
    assert_eq!(p.count(TcpEvent::Rested), 2);
    assert_eq!(p.host.next_timeout(), None);
}

#[test]
fn keep_alives_wake() {
    let mut p = at_rest();
    let idle = TcpOption::KeepAlive(Some(SECOND * 60));
    assert!(p.host.tcp_set_option(p.id(), idle));
    let sent = p.pass(SECOND * (54 + 3 * 75) + SECOND / 2);
    let times: Vec<_> = sent.iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(times, [54, 54 + 75, 54 + 150, 54 + 225]);
    assert_eq!(p.count(TcpEvent::Rested), 2 + 3, "in between");
}

/// An ICMP error can only be about what is under way: there is nothing.
#[test]
fn an_icmp_error_is_out_of_the_window() {
    let mut p = at_rest();
    p.icmp((3, 1), 0, 1);
    assert_eq!(p.poll(), []);
    assert_eq!(p.count(TcpEvent::IcmpOutOfWindow), 1);
    assert_eq!(p.state(), TcpState::Established);
    assert_eq!(p.host.next_timeout(), None);
}

/// Unread bytes, a half-closed connection, data under way: no rest for those.
#[test]
fn whoever_has_something_to_do_stays_awake() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).text(b"unread"));
    p.pass(SECOND * 100);
    assert_eq!(p.count(TcpEvent::Rested), 0);
    assert_eq!(p.read(), b"unread");
    p.pass(SECOND * 100);
    assert_eq!(p.count(TcpEvent::Rested), 1);
    p.shutdown();
    p.pass(SECOND * 10);
    assert_eq!(p.state(), TcpState::FinWait1);
    assert_eq!(p.count(TcpEvent::Rested), 1);
}
