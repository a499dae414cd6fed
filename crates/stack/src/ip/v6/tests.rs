//! Robustness 6.1 to 6.6: packets that are wrong, one by one.

mod flows;
mod hostile;
mod neighbours;
mod routers;
mod sources;

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::vec;
use std::vec::Vec;

use gannet_link::{Checksum, Medium};
use gannet_wire::extension::Chain;
use gannet_wire::icmpv6::{Message, Problem, Unreachable};
use gannet_wire::{IpProtocol, ipv6};

use crate::counters::DropReason::{self, *};
use crate::testing::packet::{datagram, icmp_six, six};
use crate::testing::{A6, B6, Pair, WireConfig, WireDriver};
use crate::udp::{PathMtuDiscovery, UdpError, UdpId, UdpOption};

fn at(address: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

/// Two hosts joined without Ethernet, the second with a socket; what it sends is recorded.
fn bare() -> (Pair<WireDriver>, UdpId) {
    let wire = WireConfig {
        medium: Medium::Ip,
        checksum: Checksum::Software,
        ..WireConfig::default()
    };
    let mut pair = Pair::six(1, &wire);
    let socket = pair.b.udp_bind(at(B6, 9)).expect("free");
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    (pair, socket)
}

fn sent(pair: &mut Pair<WireDriver>) -> Vec<Vec<u8>> {
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.recorded()
}

fn good() -> Vec<u8> {
    datagram(at(A6, 1), at(B6, 9), b"hello")
}

/// `good` with other bytes between its header and the datagram; `next` is what they begin with.
fn with_chain(next: u8, chain: &[u8]) -> Vec<u8> {
    let good = good();
    let payload = [chain, &good[ipv6::HEADER_LEN..]].concat();
    six(A6, B6, (IpProtocol(next), 64), &payload)
}

/// `bytes` is dropped for `reason` and nothing else, the next good datagram arrives. What was
/// answered.
fn dropped(bytes: &[u8], reason: DropReason) -> Vec<Vec<u8>> {
    let (mut pair, socket) = bare();
    pair.inject_b(&[bytes.to_vec()]);
    assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}: {bytes:02x?}");
    assert_eq!(pair.b.drops().total(), 1, "{reason:?} only");
    let answers = sent(&mut pair);
    let mut buffer = [0; 64];
    pair.inject_b(&[good()]);
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((5, 5, at(A6, 1))), "after {reason:?}");
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").pool.invariants();
    answers
}

/// The one answer is an error that quotes `about`.
fn told(answers: &[Vec<u8>], about: &[u8]) -> Message {
    let [answer] = answers else {
        panic!("one answer, not {}", answers.len());
    };
    let (header, at) = ipv6::Header::parse(answer).expect("a packet");
    assert_eq!((header.src, header.dst), (B6, A6));
    assert!(answer.len() <= 1280, "no longer than the smallest MTU");
    let parsed = Message::parse(&answer[at..], header.src, header.dst);
    let (message, at) = parsed.expect("a right checksum");
    let quote = &answer[ipv6::HEADER_LEN + at..];
    let most = 1280 - ipv6::HEADER_LEN - 8;
    assert_eq!(quote, &about[..about.len().min(most)], "all that fits");
    message
}

fn taken(bytes: &[u8]) {
    let (mut pair, socket) = bare();
    pair.inject_b(&[bytes.to_vec()]);
    let mut buffer = [0; 64];
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((5, 5, at(A6, 1))), "{bytes:02x?}");
    assert_eq!(pair.b.drops().total(), 0);
}

#[test]
fn six_1_lengths() {
    for len in 1..ipv6::HEADER_LEN {
        dropped(&good()[..len], IpTruncated);
    }
    for claimed in [14, 100, 0xffff] {
        let mut bytes = good();
        bytes[4..6].copy_from_slice(&u16::to_be_bytes(claimed));
        dropped(&bytes, IpTotalLength);
    }
    // no jumbograms: no payload, so no datagram
    let mut empty = good();
    empty[4..6].fill(0);
    dropped(&empty, UdpLength);
    let jumbo = [17, 0, 0xc2, 4, 0, 1, 0, 0];
    let bytes = with_chain(0, &jumbo);
    let message = told(&dropped(&bytes, IpOptions), &bytes);
    let problem = Message::ParameterProblem {
        code: Problem::OPTION,
        pointer: 42,
    };
    assert_eq!(message, problem);
    // padding behind the packet is no part of it
    taken(&[good(), vec![0xee; 40]].concat());
}

#[test]
fn six_2_chains_that_are_well() {
    let pad = [17, 0, 1, 4, 0, 0, 0, 0];
    let then_pad = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    taken(&with_chain(0, &pad));
    taken(&with_chain(60, &pad));
    taken(&with_chain(43, &[17, 0, 0, 0, 0, 0, 0, 0]));
    taken(&with_chain(0, &[then_pad(60), then_pad(60), pad].concat()));
    // an unknown option whose type says: skip
    taken(&with_chain(60, &[17, 0, 0x1e, 4, 1, 2, 3, 4]));
    // an atomic fragment is handled alone (RFC 6946)
    taken(&with_chain(44, &[17, 0, 0, 0, 9, 9, 9, 9]));
}

#[test]
fn six_2_chains_without_end() {
    let pad = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    // hop-by-hop elsewhere than first
    let late = with_chain(60, &[pad(0), pad(17)].concat());
    let message = told(&dropped(&late, IpChain), &late);
    let problem = Message::ParameterProblem {
        code: Problem::NEXT_HEADER,
        pointer: 40,
    };
    assert_eq!(message, problem);
    // a thousand headers
    let many: Vec<u8> = (0..100).flat_map(|_| pad(60)).collect();
    assert!(dropped(&with_chain(60, &many), IpChain).is_empty());
    // a header beyond the packet (CVE-2020-11897)
    assert!(dropped(&with_chain(60, &[17, 200, 0, 0, 0, 0, 0, 0]), IpTruncated).is_empty());
    // CVE-2020-17444: a length that a byte cannot hold must not become 0
    let endless = with_chain(60, &[60, 0xff, 0, 0, 0, 0, 0, 0]);
    assert!(dropped(&endless, IpTruncated).is_empty());
    // an option beyond its header
    assert!(dropped(&with_chain(60, &[17, 0, 1, 9, 0, 0, 0, 0]), IpOptions).is_empty());
    // nine options
    let mut crowded = vec![17, 3];
    crowded.extend([0x1e, 0].repeat(15));
    assert!(dropped(&with_chain(60, &crowded), IpOptions).is_empty());
}

#[test]
fn six_2_unknown_options_ask_for_what_happens() {
    for (kind, tells) in [(0x5e, false), (0x9e, true), (0xde, true)] {
        let bytes = with_chain(60, &[17, 0, 0, kind, 2, 0, 0, 0]);
        let answers = dropped(&bytes, IpOptions);
        if !tells {
            assert!(answers.is_empty(), "{kind:#x}");
            continue;
        }
        let problem = Message::ParameterProblem {
            code: Problem::OPTION,
            pointer: 43,
        };
        assert_eq!(told(&answers, &bytes), problem, "{kind:#x}");
    }
    // to a group only where the highest bits are 10
    for (kind, answers) in [(0x9e_u8, 1), (0xde, 0)] {
        let (mut pair, _) = ethernet();
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let chain = [59, 0, 0, kind, 2, 0, 0, 0];
        let bytes = six(A6, group, (IpProtocol(60), 64), &chain);
        let station = super::solicit::group_station(group);
        pair.inject_b(&[framed(station, &bytes)]);
        let told = sent(&mut pair);
        assert_eq!(told.len(), answers, "{kind:#x}");
        assert!(told.iter().all(|frame| frame[14 + 40] == 4));
    }
}

#[test]
fn six_3_routing_headers_with_segments_left() {
    for kind in [0, 2, 4, 253] {
        let bytes = with_chain(
            43,
            &[
                17, 2, kind, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        );
        let problem = Message::ParameterProblem {
            code: Problem::HEADER_FIELD,
            pointer: 42,
        };
        assert_eq!(told(&dropped(&bytes, IpSourceRoute), &bytes), problem);
    }
}

#[test]
fn six_4_fragments() {
    let whole = datagram(at(A6, 1), at(B6, 9), &[7; 1000]);
    let part = &whole[ipv6::HEADER_LEN..];
    let fragment = |offset: usize, len: usize, more: bool, ident: u8| {
        let word = ((offset / 8) << 3) as u16 | u16::from(more);
        let header = [&[17, 0][..], &word.to_be_bytes(), &[0, 0, 0, ident]].concat();
        let payload = [&header[..], &part[offset..offset + len]].concat();
        six(A6, B6, (IpProtocol::FRAGMENT, 64), &payload)
    };
    let (mut pair, socket) = bare();
    let rest = part.len() - 504;
    // in the wrong order
    pair.inject_b(&[fragment(504, rest, false, 1), fragment(0, 504, true, 1)]);
    let mut buffer = [0; 2000];
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((1000, 1000, at(A6, 1))));
    // RFC 5722: overlapping fragments spoil the whole datagram
    pair.inject_b(&[
        fragment(0, 504, true, 2),
        fragment(496, 8, true, 2),
        fragment(504, rest, false, 2),
    ]);
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Err(UdpError::WouldBlock));
    assert!(sent(&mut pair).is_empty(), "silently");

    let odd = fragment(0, 501, true, 3);
    let problem = |code, pointer| Message::ParameterProblem { code, pointer };
    let answer = told(&dropped(&odd, FragmentLength), &odd);
    assert_eq!(answer, problem(Problem::HEADER_FIELD, 4));
    let mut far = fragment(0, 504, true, 4);
    far[42..44].copy_from_slice(&0xfff9_u16.to_be_bytes());
    let answer = told(&dropped(&far, FragmentTooLong), &far);
    assert_eq!(answer, problem(Problem::HEADER_FIELD, 42));
    // RFC 7112: all headers are in the first fragment
    let mut tiny = fragment(0, 8, true, 5);
    tiny[6] = 44;
    tiny[40] = 60;
    tiny[48..56].copy_from_slice(&[17, 1, 1, 4, 0, 0, 0, 0]);
    let answer = told(&dropped(&tiny, FragmentTiny), &tiny);
    assert_eq!(answer, problem(Problem::INCOMPLETE_CHAIN, 0));
}

#[test]
fn six_5_sources_that_are_no_host() {
    for source in [
        "::ffff:192.0.2.1",
        "::192.0.2.1",
        "ff02::1",
        "ff0e::1",
        "::1",
        "::",
    ] {
        let source: Ipv6Addr = source.parse().expect("an address");
        let bytes = datagram(at(source, 1), at(B6, 9), b"hello");
        assert!(dropped(&bytes, IpSource).is_empty(), "{source}");
    }
    assert!(dropped(&datagram(at(B6, 1), at(B6, 9), b"hello"), IpLand).is_empty());
    // CVE-2020-11899
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x77);
    for (to, reason) in [
        (group, IpNotForUs),
        (Ipv6Addr::LOCALHOST, IpSource),
        (Ipv6Addr::UNSPECIFIED, IpNotForUs),
        ("::ffff:192.0.2.2".parse().expect("an address"), IpSource),
        ("2001:db8::77".parse().expect("an address"), IpNotForUs),
    ] {
        let bytes = datagram(at(A6, 1), at(to, 9), b"hello");
        assert!(dropped(&bytes, reason).is_empty(), "to {to}");
    }
}

#[test]
fn six_6_no_mtu_below_1280() {
    let (mut pair, _) = bare();
    let socket = pair.b.udp_bind(at(B6, 4000)).expect("free");
    pair.b
        .udp_connect(socket, Some(at(A6, 5)))
        .expect("a route");
    let whole = UdpOption::PathMtu(PathMtuDiscovery::Do);
    assert!(pair.b.udp_set_option(socket, whole));
    let mut too_big = |mtu: u32| {
        let quoted = datagram(at(B6, 4000), at(A6, 5), &[0; 8]);
        let message = icmp_six(A6, B6, (2, 0, mtu.to_be_bytes()), &quoted);
        pair.inject_b(&[message]);
        let longest = (1200..1500).rev().find(|&len| {
            pair.b
                .udp_send_to(pair.now, socket, &vec![0; len], None)
                .is_ok()
        });
        longest.expect("some length") + 48
    };
    assert_eq!(too_big(68), 1500);
    assert_eq!(too_big(1279), 1500);
    assert_eq!(too_big(1400), 1400);
    assert_eq!(too_big(1280), 1280);
    assert_eq!(too_big(9000), 1280);
}

#[test]
fn u1_checksums() {
    let mut none = good();
    none[46..48].fill(0);
    assert!(
        dropped(&none, UdpChecksum).is_empty(),
        "zero is no checksum here"
    );
    let mut wrong = good();
    wrong[50] ^= 1;
    assert!(dropped(&wrong, UdpChecksum).is_empty());
}

#[test]
fn nobody_listens() {
    let closed = datagram(at(A6, 1), at(B6, 10), &[3; 1300]);
    let port = Message::DestinationUnreachable {
        code: Unreachable::PORT,
    };
    assert_eq!(told(&dropped(&closed, UdpNoSocket), &closed), port);
    let strange = six(A6, B6, (IpProtocol(200), 64), &[1; 20]);
    let problem = |pointer| Message::ParameterProblem {
        code: Problem::NEXT_HEADER,
        pointer,
    };
    assert_eq!(
        told(&dropped(&strange, DropReason::IpProtocol), &strange),
        problem(6)
    );
    let behind = six(
        A6,
        B6,
        (gannet_wire::IpProtocol(60), 64),
        &[200, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4],
    );
    assert_eq!(
        told(&dropped(&behind, DropReason::IpProtocol), &behind),
        problem(40)
    );
    let nothing = six(A6, B6, (gannet_wire::IpProtocol(59), 64), &[]);
    assert!(dropped(&nothing, IpNoPayload).is_empty());
}

#[test]
fn errors_are_not_answered() {
    let closed = datagram(at(B6, 9), at(A6, 10), b"x");
    let error = icmp_six(A6, B6, (1, 4, [0; 4]), &closed);
    // a parameter problem about an error
    let chain = [58, 0, 0, 0x9e, 2, 0, 0, 0];
    let payload = [&chain[..], &error[ipv6::HEADER_LEN..]].concat();
    let wrapped = six(A6, B6, (gannet_wire::IpProtocol(60), 64), &payload);
    assert!(dropped(&wrapped, IpOptions).len() <= 1);
    let nobody = datagram(at(Ipv6Addr::UNSPECIFIED, 1), at(B6, 10), b"x");
    assert!(dropped(&nobody, IpSource).is_empty());
}

#[test]
fn an_error_reaches_the_connected_socket_once() {
    let (mut pair, _) = bare();
    let socket = pair.b.udp_bind(at(B6, 4000)).expect("free");
    pair.b
        .udp_connect(socket, Some(at(A6, 5)))
        .expect("a route");
    let quoted = datagram(at(B6, 4000), at(A6, 5), &[0; 8]);
    pair.inject_b(&[icmp_six(A6, B6, (1, 4, [0; 4]), &quoted)]);
    let mut buffer = [0; 8];
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Err(UdpError::Refused));
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Err(UdpError::WouldBlock));
    // about a packet of somebody else
    let foreign = datagram(at(A6, 4000), at(B6, 5), &[0; 8]);
    pair.inject_b(&[icmp_six(A6, B6, (1, 4, [0; 4]), &foreign)]);
    assert_eq!(pair.b.drops().get(IcmpForeignQuote), 1);
}

#[test]
fn echo() {
    let (mut pair, _) = bare();
    for len in [0, 1, 56, 1000] {
        let data = vec![0xab; len];
        pair.inject_b(&[icmp_six(A6, B6, (128, 0, [1, 2, 3, 4]), &data)]);
        let answers = sent(&mut pair);
        let [answer] = answers.as_slice() else {
            panic!("one answer");
        };
        let chain = Chain::parse(answer).expect("a packet");
        let (header, _) = ipv6::Header::parse(answer).expect("a packet");
        assert_eq!((header.src, header.dst), (B6, A6));
        let message = &answer[chain.payload_at..];
        let parsed = Message::parse(message, B6, A6).expect("a right checksum");
        let reply = Message::EchoReply {
            ident: 0x0102,
            seq: 0x0304,
        };
        assert_eq!(parsed.0, reply);
        assert_eq!(message[8..], data);
    }
    let mut wrong = icmp_six(A6, B6, (128, 0, [1, 2, 3, 4]), &[5; 8]);
    wrong[50] ^= 1;
    assert!(dropped(&wrong, IcmpMalformed).is_empty());
}

/// Two hosts on an Ethernet that know each other; what the second sends is recorded.
fn ethernet() -> (Pair<WireDriver>, UdpId) {
    let mut pair = Pair::six(1, &WireConfig::default());
    let socket = pair.b.udp_bind(at(B6, 9)).expect("free");
    let from = pair.a.udp_bind(at(A6, 1)).expect("free");
    let now = pair.now;
    let sent = pair.a.udp_send_to(now, from, b"?", Some(at(B6, 9)));
    assert_eq!(sent, Ok(1));
    pair.pass(core::time::Duration::from_millis(10));
    let mut buffer = [0; 8];
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((1, 1, at(A6, 1))));
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    (pair, socket)
}

/// An Ethernet frame of the first host's station.
fn framed(to: gannet_wire::MacAddr, packet: &[u8]) -> Vec<u8> {
    use gannet_wire::{EtherType, MacAddr};
    crate::testing::packet::frame(to, MacAddr([2, 0, 0, 0, 0, 1]), EtherType::IPV6, packet)
}

/// The one family in which a test speaks.
const fn as_ip(address: Ipv6Addr) -> IpAddr {
    IpAddr::V6(address)
}
