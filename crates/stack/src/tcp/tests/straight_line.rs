//! The straight-line paths and the general ones do the same: every slot that is sent is equal, byte
//! for byte, mark for mark; and the straight ones really are taken.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Layout, Medium, NoDoorbell};

use super::peer::{ACK, FIN, Peer, Seg, mss_only, seg, wire, with_sack};
use super::recorder::{Loss, Recorder, Sent};
use super::transfer::recorded;
use crate::Config;
use crate::tcp::{Shutdown, TcpEvent, TcpOption};
use crate::testing::{B, Pair, Simulated, Wire, WireConfig};

/// What both sides sent, and how often the straight ways in and out were taken.
type Outcome = ([Vec<Sent>; 2], u64, u64);

/// A random conversation.
fn converse<D: Simulated>(mut pair: Pair<Recorder<D>>, seed: u64, loss: bool) -> Outcome {
    let at = SocketAddr::new(B, 80);
    let listener = pair.b.tcp_listen(at, 4).expect("free");
    for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
        let driver = &mut host.link_mut(link).expect("a link").driver;
        driver.sent = Some(Vec::new());
        if loss {
            driver.loss = Loss::Bursts {
                begin: 10_000,
                end: 400_000,
            };
        }
    }
    let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
    let mut server = None;
    pair.run_until(|p| {
        server = p.b.tcp_accept(listener);
        server.is_some()
    });
    let server = server.expect("accepted");
    let mut rng = Rng::new(seed);
    let mut data = std::vec![0; 200_000];
    rng.fill(&mut data);
    let mut buffer = std::vec![0; 300_000];
    for _ in 0..400 {
        let now = pair.now;
        let len = match rng.below(4) {
            0 => rng.below(60),
            1 => rng.below(2000),
            2 => rng.below(20_000),
            _ => rng.below(200_000),
        } as usize;
        let (host, id) = match rng.below(2) {
            0 => (&mut pair.a, client),
            _ => (&mut pair.b, server),
        };
        match rng.below(8) {
            0..3 => host.tcp_send(now, id, &data[..len]).map_or((), |_| ()),
            3..6 => host
                .tcp_recv(now, id, &mut buffer[..len.max(1)])
                .map_or((), |_| ()),
            6 => assert!(host.tcp_set_option(id, TcpOption::NoDelay(len.is_multiple_of(2)))),
            _ => pair.pass(Duration::from_millis(rng.below(50))),
        }
        if rng.chance(500_000) {
            pair.poll();
        }
        pair.a.check_tcp();
        pair.b.check_tcp();
    }
    let _ = pair.a.tcp_shutdown(pair.now, client, Shutdown::Write);
    let _ = pair.b.tcp_shutdown(pair.now, server, Shutdown::Write);
    for _ in 0..2000 {
        let _ = pair.a.tcp_recv(pair.now, client, &mut buffer);
        let _ = pair.b.tcp_recv(pair.now, server, &mut buffer);
        pair.pass(Duration::from_millis(3));
    }
    let count = |event| pair.a.tcp_counters().get(event) + pair.b.tcp_counters().get(event);
    let counts = (count(TcpEvent::Straight), count(TcpEvent::FromTemplate));
    let mut take = |a: bool| {
        let (host, link) = match a {
            true => (&mut pair.a, pair.link_a),
            false => (&mut pair.b, pair.link_b),
        };
        let driver = &mut host.link_mut(link).expect("a link").driver;
        let sent = driver.sent.take().unwrap_or_default();
        sent.into_iter().map(|(_, sent)| sent).collect()
    };
    ([take(true), take(false)], counts.0, counts.1)
}

fn compare(what: &str, run: impl Fn(bool) -> Outcome) {
    let (straight, input, output) = run(true);
    let (general, no_input, no_output) = run(false);
    assert_eq!((no_input, no_output), (0, 0), "switched off: {what}");
    assert!(
        input > 50 && output > 20,
        "hardly taken: {what} {input} {output}"
    );
    for (side, (s, g)) in straight.iter().zip(&general).enumerate() {
        for (n, (s, g)) in s.iter().zip(g).enumerate() {
            assert_eq!(s, g, "{what}, side {side}, slot {n}");
        }
        assert_eq!(s.len(), g.len(), "{what}, side {side}");
    }
}

#[test]
fn over_a_channel_without_checksums() {
    for seed in 0..4 {
        compare("channel", |on| {
            let ends = gannet_link::pair(Layout::CHANNEL, (NoDoorbell, NoDoorbell));
            let change = |c: &mut Config| c.tcp.straight_line = on;
            converse(recorded(seed, ends, true, change), seed, false)
        });
    }
}

#[test]
fn over_wires_with_every_kind_of_checksum() {
    for medium in [Medium::Ip, Medium::Ethernet] {
        for checksum in [Checksum::Partial, Checksum::Software] {
            for (seed, mtu, whole) in [(1, 1500, false), (2, 1500, true), (3, 9000, false)] {
                let wire = WireConfig {
                    medium,
                    checksum,
                    mtu,
                    whole,
                    delay: Duration::from_micros(300),
                    ..WireConfig::default()
                };
                for loss in [false, true] {
                    let what = std::format!("{wire:?} {loss}");
                    compare(&what, |on| {
                        let ends = Wire::ends(seed, &wire);
                        let change = |c: &mut Config| c.tcp.straight_line = on;
                        converse(recorded(seed, ends, false, change), seed, loss)
                    });
                }
            }
        }
    }
}

/// Without time stamps: a crafted peer that offers none.
#[test]
fn without_time_stamps() {
    for checksum in [Checksum::Partial, Checksum::Software] {
        for options in [mss_only(1460), with_sack()] {
            for seed in 0..5 {
                let talk = |on: bool| {
                    let wire = WireConfig { checksum, ..wire() };
                    let mut p = Peer::with(&wire, |c| c.tcp.straight_line = on);
                    p.open(options);
                    (
                        script(&mut p, seed),
                        p.count(TcpEvent::Straight),
                        p.count(TcpEvent::FromTemplate),
                    )
                };
                let (straight, input, output) = talk(true);
                let (general, ..) = talk(false);
                assert!(input > 5 && output > 5, "{input} {output}");
                assert_eq!(straight, general, "seed {seed}");
            }
        }
    }
}

/// Writes, text in and out of order, acknowledgements of everything or a part, reading.
fn script(p: &mut Peer, seed: u64) -> Vec<Seg> {
    let mut rng = Rng::new(seed);
    let (mut seq, mut una) = (1, 1);
    let mut all = Vec::new();
    for _ in 0..300 {
        let info = p.host.tcp_info(p.id()).expect("open");
        let len = 1 + rng.below(1400) as usize;
        let out = match rng.below(6) {
            0 => p.write(&std::vec![7; len]),
            1 | 2 if info.receive_window > 3000 => {
                let early = rng.chance(100_000);
                let at = if early { seq + 700 } else { seq };
                let out = p.send(&seg(ACK, at, una).text(&std::vec![1; len]));
                seq = p.host.tcp_info(p.id()).expect("open").bytes_received as u32 + 1;
                out
            }
            3 | 4 => {
                una += rng.below(u64::from(info.in_flight) + 1) as u32;
                p.send(&seg(ACK, seq, una).window(20_000 + rng.below(40_000) as u16))
            }
            _ => {
                p.read();
                p.pass_ms(rng.below(60))
                    .into_iter()
                    .map(|(_, s)| s)
                    .collect()
            }
        };
        all.extend(out);
    }
    all.extend(p.send(&seg(FIN | ACK, seq, una)));
    all
}
