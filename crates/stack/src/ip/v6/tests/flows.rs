//! TCP and UDP over IPv6, between two hosts in virtual time.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Medium};
use gannet_wire::{IpProtocol, ipv6};

use super::{as_ip, at};
use crate::tcp::{ConnectError, ListenError, RecvError, SendError, TcpEvent, TcpId};
use crate::testing::packet::{datagram, icmp_six};
use crate::testing::{A, A6, B, B6, Faults, Pair, WireConfig, WireDriver};
use crate::udp::UdpOption;

fn open(pair: &mut Pair<WireDriver>, from: Option<SocketAddr>, to: SocketAddr) -> (TcpId, TcpId) {
    let listener = pair.b.tcp_listen(to, 4).expect("free");
    let client = pair.a.tcp_connect(pair.now, from, to).expect("a route");
    pair.run_until(|p| p.b.tcp_can_accept(listener));
    (client, pair.b.tcp_accept(listener).expect("it waits"))
}

/// Sends `data` from the first host to the second; the whole must come out.
fn transfer(pair: &mut Pair<WireDriver>, (client, server): (TcpId, TcpId), data: &[u8]) {
    let (mut sent, mut got) = (0, Vec::new());
    let mut buffer = vec![0; 40_000];
    pair.run_until(|p| {
        match p.a.tcp_send(p.now, client, &data[sent..]) {
            Ok(n) => sent += n,
            Err(SendError::WouldBlock | SendError::NotConnected) => {}
            Err(error) => panic!("{error:?}"),
        }
        match p.b.tcp_recv(p.now, server, &mut buffer) {
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            Err(RecvError::WouldBlock) => {}
            Err(error) => panic!("{error:?}"),
        }
        got.len() >= data.len()
    });
    assert!(got == data, "what was sent came out");
}

#[test]
fn a_stream_whatever_the_wire_does() {
    for (seed, medium, checksum, loss) in [
        (1, Medium::Ethernet, Checksum::Partial, 0),
        (2, Medium::Ethernet, Checksum::Software, 20_000),
        (3, Medium::Ip, Checksum::Partial, 20_000),
        (4, Medium::Ethernet, Checksum::Partial, 50_000),
    ] {
        let wire = WireConfig {
            medium,
            checksum,
            faults: Faults {
                loss,
                corruption: loss / 4,
                reorder: loss,
                ..Faults::default()
            },
            ..WireConfig::default()
        };
        let mut pair = Pair::six(seed, &wire);
        let mut data = vec![0; 600_000];
        Rng::new(seed).fill(&mut data);
        let ends = open(&mut pair, None, at(B6, 80));
        transfer(&mut pair, ends, &data);
        let straight = pair.a.tcp_counters().get(TcpEvent::FromTemplate);
        assert!(straight > 0, "the straight line is IPv6's too; seed {seed}");
        pair.a.tcp_close(pair.now, ends.0);
        pair.b.tcp_close(pair.now, ends.1);
        pair.pass(Duration::from_secs(300));
        assert_eq!(pair.a.tcp_connections() + pair.b.tcp_connections(), 0);
        for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
            host.link_mut(link).expect("there").pool.invariants();
        }
    }
}

/// The straight line sends the same bytes as the general paths.
#[test]
fn both_paths_send_the_same() {
    let run = |straight: bool| {
        let wire = WireConfig::default();
        let mut pair = Pair::six_with(5, &wire, |c| c.tcp.straight_line = straight);
        let link = pair.link_a;
        pair.a.link_mut(link).expect("there").driver.record();
        let ends = open(&mut pair, None, at(B6, 80));
        transfer(&mut pair, ends, &[0x5a; 100_000]);
        let used = pair.a.tcp_counters().get(TcpEvent::FromTemplate) > 0;
        assert_eq!(used, straight);
        pair.a.link_mut(link).expect("there").driver.recorded()
    };
    let (straight, general) = (run(true), run(false));
    assert!(straight == general, "not a byte differs");
    let data = |frame: &&Vec<u8>| frame[20] == IpProtocol::TCP.0 && frame.len() > 100;
    let labels: Vec<u32> = straight.iter().filter(data).map(|f| label(f)).collect();
    assert!(labels.len() > 20 && labels[0] != 0, "a flow label");
    assert!(labels.iter().all(|&l| l == labels[0]), "the same on each");
}

fn label(frame: &[u8]) -> u32 {
    let (header, _) = ipv6::Header::parse(&frame[14..]).expect("a packet");
    header.flow_label
}

#[test]
fn every_segment_has_room_for_its_selective_acknowledgements() {
    let wire = WireConfig {
        faults: Faults {
            loss: 100_000,
            ..Faults::default()
        },
        ..WireConfig::default()
    };
    let mut pair = Pair::six(9, &wire);
    let (client, server) = open(&mut pair, None, at(B6, 80));
    let data = vec![1; 150_000];
    let (mut sent, mut got) = ([0; 2], [0; 2]);
    let mut buffer = vec![0; 10_000];
    // both ways at once: text and blocks in the same segments
    pair.run_until(|p| {
        if let Ok(n) = p.a.tcp_send(p.now, client, &data[sent[0]..]) {
            sent[0] += n;
        }
        if let Ok(n) = p.b.tcp_send(p.now, server, &data[sent[1]..]) {
            sent[1] += n;
        }
        if let Ok(n) = p.a.tcp_recv(p.now, client, &mut buffer) {
            got[0] += n;
        }
        if let Ok(n) = p.b.tcp_recv(p.now, server, &mut buffer) {
            got[1] += n;
        }
        got == [data.len(); 2]
    });
}

#[test]
fn a_listener_on_all_addresses_takes_both_families() {
    let any = SocketAddr::new(as_ip(Ipv6Addr::UNSPECIFIED), 80);
    let four = SocketAddr::new(B, 80);
    let mut pair = Pair::six(1, &WireConfig::default());
    let both = pair.b.tcp_listen(any, 4).expect("free");
    let all_four = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 80);
    for collides in [all_four, four, any] {
        let again = pair.b.tcp_listen(collides, 4);
        assert_eq!(again, Err(ListenError::AddressInUse), "{collides}");
    }
    for to in [
        four,
        at(B6, 80),
        "[::ffff:192.0.2.2]:80".parse().expect("mapped"),
    ] {
        pair.a.tcp_connect(pair.now, None, to).expect("a route");
        pair.run_until(|p| p.b.tcp_can_accept(both));
        let id = pair.b.tcp_accept(both).expect("it waits");
        let info = pair.b.tcp_info(id).expect("open");
        assert_eq!(info.remote.is_ipv4(), to != at(B6, 80));
    }

    let mut pair = Pair::six(1, &WireConfig::default());
    let six = pair.b.tcp_listen_only_six(any, 4).expect("free");
    let four_too = pair.b.tcp_listen(all_four, 4).expect("another family");
    pair.a.tcp_connect(pair.now, None, four).expect("a route");
    pair.run_until(|p| p.b.tcp_can_accept(four_too));
    assert!(!pair.b.tcp_can_accept(six));
}

//= https://www.rfc-editor.org/rfc/rfc6724#section-4
//= type=test
//# Regardless, if the application or upper layer specifies a source address that is not in the
//# candidate set for the destination, then the network layer MUST treat this as an error.
#[test]
fn what_cannot_be_connected_to() {
    let mut pair = Pair::six(1, &WireConfig::default());
    for (to, error) in [
        ("[::]:80", ConnectError::InvalidDestination),
        ("[ff02::1]:80", ConnectError::InvalidDestination),
        ("[2001:db8::2]:0", ConnectError::InvalidDestination),
        ("[2001:db9::1]:80", ConnectError::NoRoute),
        ("[::1]:80", ConnectError::NoRoute),
    ] {
        let to = to.parse().expect("an address");
        let got = pair.a.tcp_connect(pair.now, None, to);
        assert_eq!(got, Err(error), "{to}");
    }
    let mixed = pair
        .a
        .tcp_connect(pair.now, Some(SocketAddr::new(A, 0)), at(B6, 80));
    assert_eq!(mixed, Err(ConnectError::NoRoute));
}

#[test]
fn datagrams_of_both_families_at_one_socket() {
    let mut pair = Pair::six(1, &WireConfig::default());
    let any = SocketAddr::new(as_ip(Ipv6Addr::UNSPECIFIED), 53);
    let socket = pair.b.udp_bind(any).expect("free");
    let (four, six) = (SocketAddr::new(A, 7), at(A6, 7));
    let mapped: SocketAddr = "[::ffff:192.0.2.1]:7".parse().expect("mapped");
    let mut buffer = [0; 2000];
    for (from, to, seen) in [
        (four, SocketAddr::new(B, 53), mapped),
        (six, at(B6, 53), six),
    ] {
        let mine = pair.a.udp_bind(from).expect("free");
        let sent = pair.a.udp_send_to(pair.now, mine, &[1; 1400], Some(to));
        assert_eq!(sent, Ok(1400));
        pair.pass(Duration::from_millis(10));
        let got = pair.b.udp_recv_from(socket, &mut buffer);
        assert_eq!(got, Ok((1400, 1400, seen)));
        let back = pair.b.udp_send_to(pair.now, socket, b"back", Some(seen));
        assert_eq!(back, Ok(4));
        pair.pass(Duration::from_millis(10));
        assert_eq!(pair.a.udp_recv_from(mine, &mut buffer), Ok((4, 4, to)));
    }
    assert!(pair.b.udp_set_option(socket, UdpOption::OnlySix(true)));
    pair.inject_b(&[super::framed(
        gannet_wire::MacAddr([2, 0, 0, 0, 0, 2]),
        &datagram(at(A6, 7), at(B6, 53), b"six"),
    )]);
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((3, 3, six)));
}

/// RFC 8201: a router with a narrower link behind it says so, and the stream goes on.
//= https://www.rfc-editor.org/rfc/rfc8201#section-5.4
//= type=test
//# A packetization layer (e.g., TCP) must use the PMTU for the path(s) in use by a connection; it
//# should not send segments that would result in packets larger than the PMTU, except to probe
//# during PMTU Discovery (this probe packet must not be fragmented to the PMTU).
//= https://www.rfc-editor.org/rfc/rfc4443#section-3.2
//= type=test
//# An incoming Packet Too Big message MUST be passed to the upper-layer process if the relevant
//# process can be identified (see Section 2.4, (d)).
#[test]
fn packet_too_big_narrows_the_segments() {
    let mut pair = Pair::six(1, &WireConfig::default());
    let ends = open(&mut pair, None, at(B6, 80));
    let before = pair.a.tcp_info(ends.0).expect("open").send_mss;
    assert_eq!(before, 1500 - 40 - 20 - 12);
    // what was just sent, quoted
    let link = pair.link_a;
    pair.a.link_mut(link).expect("there").driver.record();
    let sent = pair.a.tcp_send(pair.now, ends.0, &[0; 1000]);
    assert_eq!(sent, Ok(1000));
    pair.a.flush();
    let frames = pair.a.link_mut(link).expect("there").driver.recorded();
    let quoted = &frames[0][14..];
    let message = icmp_six(B6, A6, (2, 0, 1300_u32.to_be_bytes()), quoted);
    let to_a = crate::testing::packet::frame(
        gannet_wire::MacAddr([2, 0, 0, 0, 0, 1]),
        gannet_wire::MacAddr([2, 0, 0, 0, 0, 2]),
        gannet_wire::EtherType::IPV6,
        &message,
    );
    pair.a.link_mut(link).expect("there").driver.inject(&to_a);
    pair.settle();
    let after = pair.a.tcp_info(ends.0).expect("open").send_mss;
    assert_eq!(after, 1300 - 40 - 20 - 12);
    transfer(&mut pair, ends, &[]);
}
