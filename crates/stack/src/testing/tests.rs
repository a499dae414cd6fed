//! The pair itself: bytes get through, time passes, seeds replay.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Medium};

use super::*;
use crate::tcp::{RecvError, SendError, Shutdown};

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

/// Sends `len` random bytes from A to B over TCP and compares them.
fn transfer<D: Simulated>(mut pair: Pair<D>, len: usize) {
    let mut data = std::vec![0; len];
    Rng::new(7).fill(&mut data);
    let listener = pair.b.tcp_listen(at(B, 80), 8).expect("free");
    let client = pair
        .a
        .tcp_connect(pair.now, None, at(B, 80))
        .expect("a route");
    let (mut sent, mut got) = (0, Vec::new());
    let mut server = None;
    let mut buffer = std::vec![0; 100_000];
    let mut ended = false;
    pair.run_until(|p| {
        server = server.or_else(|| p.b.tcp_accept(listener));
        while sent < len {
            match p.a.tcp_send(p.now, client, &data[sent..]) {
                Ok(n) => sent += n,
                Err(SendError::WouldBlock | SendError::NotConnected) => break,
                Err(e) => panic!("{e:?}"),
            }
            if sent == len {
                p.a.tcp_shutdown(p.now, client, Shutdown::Write)
                    .expect("open");
            }
        }
        while let (Some(server), false) = (server, ended) {
            match p.b.tcp_recv(p.now, server, &mut buffer) {
                Ok(0) => ended = true,
                Ok(n) => got.extend_from_slice(&buffer[..n]),
                Err(RecvError::WouldBlock) => break,
                Err(e) => panic!("{e:?}"),
            }
        }
        ended
    });
    assert!(got == data, "{} of {len} bytes, or others", got.len());
}

#[test]
fn tcp_over_a_channel() {
    transfer(Pair::channel(1), 3_000_000);
}

#[test]
fn tcp_over_wires_of_every_kind() {
    for medium in [Medium::Ethernet, Medium::Ip] {
        for checksum in [Checksum::Partial, Checksum::Software] {
            for (mtu, whole) in [(1500, false), (1500, true), (9000, false), (576, false)] {
                let wire = WireConfig {
                    medium,
                    mtu,
                    checksum,
                    whole,
                    ..WireConfig::default()
                };
                transfer(Pair::wire(2, &wire), 1_000_000);
            }
        }
    }
}

#[test]
fn tcp_over_a_bad_wire() {
    for seed in 0..8 {
        let wire = WireConfig {
            delay: Duration::from_millis(2),
            faults: Faults {
                loss: 20_000,
                duplication: 10_000,
                reorder: 50_000,
                reorder_by: Duration::from_millis(5),
                corruption: 5_000,
                ..Faults::default()
            },
            ..WireConfig::default()
        };
        transfer(Pair::wire(seed, &wire), 200_000);
    }
}
