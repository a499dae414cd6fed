//! Memory and other limits: tiny pools, links that go, full drivers, many connections.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};
use gannet_wire::tcp::Options;

use super::peer::{ACK, Peer, SYN, mss_only, seg, wire, with_sack};
use super::transfer::Transfer;
use crate::tcp::{ConnectError, RecvError, SendError, TcpError, TcpOption, TcpReady, TcpState};
use crate::testing::{Faults, WireConfig};

/// What lies behind a hole is kept as far as the window goes, however many segments that are: what
/// was reported as held is not thrown away while there is memory.
#[test]
fn two_thousand_segments_behind_a_hole_are_kept() {
    const LEN: u32 = 1000;
    const COUNT: u32 = 2000;
    let wire = WireConfig {
        blocks: (16 * 1024, 1024),
        ..wire()
    };
    let mut p = Peer::with(&wire, |config| config.tcp.receive_buffer = 4 << 20);
    p.open(Options {
        window_scale: Some(7),
        ..with_sack()
    });
    let text = [7; LEN as usize];
    for n in 1..=COUNT {
        p.send(&seg(ACK, 1 + n * LEN, 1).text(&text));
    }
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.out_of_order, COUNT * LEN);
    p.send(&seg(ACK, 1, 1).text(&text));
    let read = p.read();
    assert_eq!(read.len() as u32, (COUNT + 1) * LEN);
}

/// Everything goes through, slowly, however little memory there is.
#[test]
fn tiny_pools_neither_block_nor_leak() {
    for blocks in [20, 24, 32, 64] {
        for loss in [0, 20_000] {
            let wire = WireConfig {
                medium: Medium::Ip,
                checksum: Checksum::Software,
                delay: Duration::from_millis(1),
                blocks: (2048, blocks),
                faults: Faults {
                    loss,
                    ..Faults::default()
                },
                ..WireConfig::default()
            };
            let start = Instant::from_millis(1000);
            let mut t = Transfer::new(u64::from(blocks), &wire, (100_000, 100_000), start);
            t.run();
            t.finish();
        }
    }
}

/// Who finds no memory is told when there is some again.
#[test]
fn whoever_waits_for_memory_is_called() {
    let mut config = wire();
    config.blocks = (2048, 24);
    let mut p = Peer::with(&config, |_| {});
    p.open(mss_only(1460));
    while p.host.tcp_take_ready().is_some() {}
    loop {
        match p.host.tcp_send(p.now, p.id(), &[7; 1000]) {
            Ok(_) => {}
            Err(e) => break assert_eq!(e, SendError::WouldBlock),
        }
    }
    assert!(!p.host.tcp_status(p.id()).expect("open").writable);
    p.poll();
    assert_eq!(p.host.tcp_take_ready(), None);
    let info = p.host.tcp_info(p.id()).expect("open");
    p.send(&seg(ACK, 1, 1 + info.in_flight));
    assert_eq!(p.host.tcp_take_ready(), Some(TcpReady::Connection(p.id())));
    assert!(p.host.tcp_status(p.id()).expect("open").writable);
    assert!(p.host.tcp_send(p.now, p.id(), &[7; 1000]).is_ok());
}

/// One connection cannot take all memory from another.
#[test]
fn memory_is_shared() {
    let mut config = wire();
    config.blocks = (2048, 64);
    let mut p = Peer::with(&config, |_| {});
    p.open(mss_only(1460));
    let first = p.id();
    while p.host.tcp_send(p.now, first, &[7; 1000]).is_ok() {}
    p.me = SocketAddr::new(p.me.ip(), 4001);
    p.open(mss_only(1460));
    assert_eq!(p.write(b"a little").len(), 1);
}

/// The link is removed while text is queued both ways: nothing leaks, everybody is told.
#[test]
fn a_link_that_is_removed() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).text(&[1; 1400]));
    p.send(&seg(ACK, 3001, 1).text(&[1; 1400]));
    p.write(&[7; 100_000]);
    let endpoint = p.host.remove_link(p.now, p.link).expect("it was there");
    endpoint.pool.invariants();
    assert_eq!(endpoint.pool.free_blocks(), endpoint.pool.blocks());
    let told = p.host.tcp_recv(p.now, p.id(), &mut [0; 4]);
    assert_eq!(told, Err(RecvError::Failed(TcpError::LinkGone)));
    p.host.poll(p.now);
    p.host.tcp_close(p.now, p.id());
    assert_eq!(p.host.tcp_connections(), 0);
}

/// The other side of a link goes away: what arrived is still read, then the error.
#[test]
fn a_link_whose_peer_is_gone() {
    let ends = gannet_link::pair(
        gannet_link::Layout::CHANNEL,
        (gannet_link::NoDoorbell, gannet_link::NoDoorbell),
    );
    let mut pair = super::transfer::recorded(1, ends, true, |_| {});
    let at = SocketAddr::new(crate::testing::B, 80);
    let listener = pair.b.tcp_listen(at, 4).expect("free");
    let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
    let mut server = None;
    pair.run_until(|p| {
        server = p.b.tcp_accept(listener);
        server.is_some()
    });
    let server = server.expect("accepted");
    pair.a
        .tcp_send(pair.now, client, &[5; 50_000])
        .expect("room");
    pair.settle();
    drop(pair.a.remove_link(pair.now, pair.link_a));
    for _ in 0..5 {
        pair.b.poll(pair.now);
    }
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        match pair.b.tcp_recv(pair.now, server, &mut buffer) {
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            Err(e) => break e,
        }
    };
    assert_eq!(got, [5; 50_000]);
    assert_eq!(end, RecvError::Failed(TcpError::LinkGone));
    pair.b.tcp_close(pair.now, server);
    assert_eq!(pair.b.tcp_connections(), 0);
}

/// A full driver: nothing is lost, everything leaves when there is room.
#[test]
fn a_full_link() {
    let mut p = Peer::active(mss_only(1000));
    p.host
        .link_mut(p.link)
        .expect("a link")
        .driver
        .set_blocked(true);
    let n = p.host.tcp_send(p.now, p.id(), &[7; 5000]).expect("room");
    assert_eq!(n, 5000);
    p.host.poll(p.now);
    p.host.check_tcp();
    p.host
        .link_mut(p.link)
        .expect("a link")
        .driver
        .set_blocked(false);
    assert_eq!(p.poll().len(), 5);
    // the same for a SYN-ACK and for an acknowledgement
    p.host
        .link_mut(p.link)
        .expect("a link")
        .driver
        .set_blocked(true);
    for _ in 0..3 {
        let packet = p.packet(&seg(ACK, 1, 1).text(&[1; 1000]));
        p.inject(&packet);
        p.host.poll(p.now);
    }
    p.host
        .link_mut(p.link)
        .expect("a link")
        .driver
        .set_blocked(false);
    assert_eq!(p.poll().last().expect("an acknowledgement").ack, 1001);
}

/// The peer is stopped and its ring full: nobody polls in vain until it goes on, and then all of it
/// arrives.
#[test]
fn a_full_ring_is_waited_for_without_a_clock() {
    let layout = gannet_link::Layout {
        slots: 8,
        ..gannet_link::Layout::CHANNEL
    };
    let bells = (gannet_link::NoDoorbell, gannet_link::NoDoorbell);
    let ends = gannet_link::pair(layout, bells);
    let mut pair = super::transfer::recorded(1, ends, true, |_| {});
    let at = SocketAddr::new(crate::testing::B, 80);
    let listener = pair.b.tcp_listen(at, 4).expect("free");
    let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
    let mut server = None;
    pair.run_until(|p| {
        server = p.b.tcp_accept(listener);
        server.is_some()
    });
    pair.settle();
    let set = |p: &mut crate::Stack<_>| p.tcp_set_option(client, TcpOption::NoDelay(true));
    assert!(set(&mut pair.a));
    let mut sent = Vec::new();
    for n in 0..100u8 {
        let piece = [n; 100];
        let taken = pair.a.tcp_send(pair.now, client, &piece).expect("room");
        sent.extend_from_slice(&piece[..taken]);
    }
    for _ in 0..3 {
        pair.a.poll(pair.now);
        let next = pair.a.next_timeout();
        assert!(next.is_none_or(|at| at > pair.now), "{next:?} is now");
        assert!(pair.a.arm(), "nothing to be done");
        pair.a.disarm();
    }
    let waiting = pair.a.tcp_info(client).expect("open").unsent;
    assert!(waiting > 0, "the ring was not full");
    pair.b.poll(pair.now);
    assert!(!pair.a.arm(), "the driver tells of the room");
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    pair.run_until(|p| {
        while let Ok(n) = p.b.tcp_recv(p.now, server.expect("accepted"), &mut buffer) {
            got.extend_from_slice(&buffer[..n]);
        }
        got.len() >= sent.len()
    });
    assert_eq!(got, sent);
}

/// A driver that has room again after the batch was handed over wakes nobody: then it is now.
#[test]
fn room_after_a_flush_is_used_at_once() {
    let mut p = Peer::active(mss_only(1000));
    let block = |p: &mut Peer, is: bool| {
        let endpoint = p.host.link_mut(p.link).expect("a link");
        endpoint.driver.set_blocked(is);
    };
    block(&mut p, true);
    let n = p.host.tcp_send(p.now, p.id(), &[7; 5000]).expect("room");
    p.host.flush();
    let next = p.host.next_timeout();
    assert!(next.is_none_or(|at| at > p.now), "{next:?} is now");
    block(&mut p, false);
    p.host.flush();
    assert_eq!(p.host.next_timeout(), Some(Instant::ZERO));
    let out: u32 = p.poll().iter().map(super::peer::Seg::len).sum();
    assert_eq!(out as usize, n);
    assert_ne!(p.host.next_timeout(), Some(Instant::ZERO));
}

#[test]
fn as_many_connections_as_allowed() {
    let mut p = Peer::with(&wire(), |c| c.tcp.connections_max = 3);
    p.listen(100);
    for port in 0..10 {
        p.me.set_port(5000 + port);
        let answered = !p.send(&seg(SYN, 0, 0)).is_empty();
        assert_eq!(answered, port < 3);
        if answered {
            p.send(&seg(ACK, 1, 1));
        }
    }
    assert_eq!(p.host.tcp_connections(), 3);
    let told = p
        .host
        .tcp_connect(p.now, None, SocketAddr::new(crate::testing::B, 9));
    assert_eq!(told, Err(ConnectError::TooManyConnections));
}

/// Ten thousand connections opened and closed: nothing stays.
#[test]
fn nothing_stays_of_many() {
    let mut p = Peer::new();
    p.listen(64);
    for n in 0..10_000u32 {
        p.me.set_port(1024 + (n % 60_000) as u16);
        p.iss = n.wrapping_mul(0x0123_4567);
        p.send(&seg(SYN, 0, 0).options(mss_only(1460)));
        p.send(&seg(ACK, 1, 1).text(b"ping"));
        p.accept();
        assert_eq!(p.read(), b"ping");
        p.write(b"pong");
        match n % 3 {
            0 => {
                p.send(&seg(super::peer::FIN | ACK, 5, 5));
                p.close();
                p.send(&seg(ACK, 6, 6));
            }
            1 => {
                p.close();
                p.send(&seg(super::peer::FIN | ACK, 5, 6));
            }
            _ => {
                p.send(&seg(super::peer::RST, 5, 5));
                p.close();
            }
        }
    }
    p.pass(Duration::from_secs(61));
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
    assert_eq!(p.state(), TcpState::Closed);
}

/// Readers that have stopped hold a little of a link's memory, however much was promised them: a
/// reader that goes on gets all its bytes, and so do they once they read again.
#[test]
fn readers_that_stop_do_not_starve_the_others() {
    const STOPPED: usize = 6;
    const LEN: usize = 300_000;
    let wire = WireConfig {
        delay: Duration::from_millis(1),
        blocks: (2048, 256),
        ..WireConfig::default()
    };
    let mut pair = crate::testing::Pair::wire(1, &wire);
    let at = SocketAddr::from((crate::testing::B, 80));
    let listener = pair.b.tcp_listen(at, 16).expect("free");
    let mut ends = Vec::new();
    for _ in 0..=STOPPED {
        let client = pair.a.tcp_connect(pair.now, None, at).expect("a route");
        let mut server = None;
        pair.run_until(|p| {
            server = p.b.tcp_accept(listener);
            server.is_some()
        });
        ends.push((client, server.expect("accepted"), 0, 0));
    }
    let mut buffer = [0; 4096];
    let mut carry = |pair: &mut crate::testing::Pair<_>,
                     ends: &mut [(crate::tcp::TcpId, crate::tcp::TcpId, usize, usize)],
                     reading: bool| {
        pair.run_until(|p| {
            let mut all = true;
            for (index, (client, server, sent, read)) in ends.iter_mut().enumerate() {
                let text = &[index as u8; LEN][*sent..];
                *sent += p.a.tcp_send(p.now, *client, text).unwrap_or(0);
                let reads = reading || index == STOPPED;
                while reads && let Ok(n @ 1..) = p.b.tcp_recv(p.now, *server, &mut buffer) {
                    assert!(buffer[..n].iter().all(|b| *b == index as u8));
                    *read += n;
                }
                all &= *read == LEN || !reads;
            }
            all
        });
    };
    carry(&mut pair, &mut ends, false);
    carry(&mut pair, &mut ends, true);
    let pool = &pair.b.link(pair.link_b).expect("a link").pool;
    pool.invariants();
    assert!(pool.available() > pool.blocks() / 2);
}

/// A send buffer that is smaller than the path grows with the congestion window, one that the
/// application has set does not.
#[test]
fn the_send_buffer_grows_with_the_path() {
    let wire = WireConfig {
        delay: Duration::from_millis(50),
        blocks: (16 * 1024, 2048),
        ..WireConfig::default()
    };
    let time = |fixed: bool| {
        let start = Instant::from_millis(1000);
        let mut t = Transfer::with(1, &wire, (8_000_000, 0), start, |config| {
            config.tcp.send_buffer = 64 << 10;
        });
        if fixed {
            let client = t.client;
            t.pair
                .a
                .tcp_set_option(client, TcpOption::SendBuffer(64 << 10));
        }
        t.run();
        let info = t.pair.a.tcp_info(t.client).expect("open");
        let taken = t.pair.now - start;
        t.finish();
        (taken, info.send_buffer)
    };
    let (slow, same) = time(true);
    let (fast, grown) = time(false);
    assert_eq!(same, 64 << 10);
    assert!(grown > 1 << 20, "{grown}");
    assert!(fast * 3 < slow, "{fast:?} {slow:?}");
}
