//! Robustness 6.1 to 6.6: packets that are wrong, one by one.

mod flows;
mod hostile;
mod neighbours;
mod routers;
mod sources;
mod zones;

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

//= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
//= type=test
//# If Segments Left is zero, the node must ignore the Routing header and proceed to process the
//# next header in the packet, whose type is identified by the Next Header field in the Routing
//# header.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4
//= type=test
//# Therefore, extension headers must be processed strictly in the order they appear in the packet;
//# a receiver must not, for example, scan through a packet looking for a particular kind of
//# extension header and process that header prior to processing all preceding ones.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.1
//= type=test
//# IPv6 nodes must accept and attempt to process extension headers in any order and occurring any
//# number of times in the same packet, except for the Hop-by-Hop Options header, which is
//# restricted to appear immediately after an IPv6 header only.
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

//= https://www.rfc-editor.org/rfc/rfc8200#section-4
//= type=test
//# The Hop-by-Hop Options header, when present, must immediately follow the IPv6 header.
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

//= https://www.rfc-editor.org/rfc/rfc4443#section-3.4
//= type=test
//# If an IPv6 node processing a packet finds a problem with a field in the IPv6 header or extension
//# headers such that it cannot complete processing the packet, it MUST discard the packet and
//# SHOULD originate an ICMPv6 Parameter Problem message to the packet's source, indicating the type
//# and location of the problem.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
//= type=test
//# The sequence of options within a header must be processed strictly in the order they appear in
//# the header; a receiver must not, for example, scan through the header looking for a particular
//# kind of option and process that option prior to processing all preceding ones.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
//= type=test
//# The Option Type identifiers are internally encoded such that their highest-order 2 bits specify
//# the action that must be taken if the processing IPv6 node does not recognize the Option Type:
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

//= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
//= type=test
//# If, while processing a received packet, a node encounters a Routing header with an unrecognized
//# Routing Type value, the required behavior of the node depends on the value of the Segments Left
//# field, as follows:
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
//= type=test
//# If Segments Left is non-zero, the node must discard the packet and send an ICMP Parameter
//# Problem, Code 0, message to the packet's Source Address, pointing to the unrecognized Routing
//# Type.
//= https://www.rfc-editor.org/rfc/rfc5095#section-3
//= type=test
//# An IPv6 node that receives a packet with a destination address assigned to it and that contains
//# an RH0 extension header MUST NOT execute the algorithm specified in the latter part of Section
//# 4.4 of [RFC2460] for RH0.
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

//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//= type=test
//# If the length of a fragment, as derived from the fragment packet's Payload Length field, is not
//# a multiple of 8 octets and the M flag of that fragment is 1, then that fragment must be
//# discarded and an ICMP Parameter Problem, Code 0, message should be sent to the source of the
//# fragment, pointing to the Payload Length field of the fragment packet.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//= type=test
//# If the length and offset of a fragment are such that the Payload Length of the packet
//# reassembled from that fragment would exceed 65,535 octets, then that fragment must be discarded
//# and an ICMP Parameter Problem, Code 0, message should be sent to the source of the fragment,
//# pointing to the Fragment Offset field of the fragment packet.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//= type=test
//# If any of the fragments being reassembled overlap with any other fragments being reassembled for
//# the same packet, reassembly of that packet must be abandoned and all the fragments that have
//# been received for that packet must be discarded, and no ICMP error messages should be sent.
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

//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//= type=test
//# A node must not increase its estimate of the Path MTU in response to the contents of a Packet
//# Too Big message.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//= type=test
//# If a node receives a Packet Too Big message reporting a next-hop MTU that is less than the IPv6
//# minimum link MTU, it must discard it.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//= type=test
//# A node must not reduce its estimate of the Path MTU below the IPv6 minimum link MTU on receipt
//# of a Packet Too Big message.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//= type=test
//# When a node receives a Packet Too Big message, it must reduce its estimate of the PMTU for the
//# relevant path, based on the value of the MTU field in the message.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//= type=test
//# The node must reduce the size of the packets it is sending along the path.
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

//= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
//= type=test
//# Any transport or other upper-layer protocol that includes the addresses from the IP header in
//# its checksum computation must be modified for use over IPv6, to include the 128-bit IPv6
//# addresses instead of 32-bit IPv4 addresses.
//= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
//= type=test
//# IPv6 receivers must discard UDP packets containing a zero checksum and should log the error.
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

//= https://www.rfc-editor.org/rfc/rfc4443#section-2.2
//= type=test
//# (a) If the message is a response to a message sent to one of the node's unicast addresses, the
//# Source Address of the reply MUST be that same address.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//= type=test
//# (c) Every ICMPv6 error message (type < 128) MUST include as much of the IPv6 offending
//# (invoking) packet (the packet that caused the error) as possible without making the error
//# message packet exceed the minimum IPv6 MTU [IPv6].
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.7
//= type=test
//# If the Payload Length field of the IPv6 header indicates the presence of octets past the end of
//# a header whose Next Header field contains 59, those octets must be ignored and passed on
//# unchanged if the packet is forwarded.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4
//= type=test
//# If, as a result of processing a header, the destination node is required to proceed to the next
//# header but the Next Header value in the current header is unrecognized by the node, it should
//# discard the packet and send an ICMP Parameter Problem message to the source of the packet, with
//# an ICMP Code value of 1 ("unrecognized Next Header type encountered") and the ICMP Pointer field
//# containing the offset of the unrecognized value within the original packet.
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

//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//= type=test
//# (e) An ICMPv6 error message MUST NOT be originated as a result of receiving the following:
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

//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//= type=test
//# (a) If an ICMPv6 error message of unknown type is received at its destination, it MUST be passed
//# to the upper-layer process that originated the packet that caused the error, where this can be
//# identified (see Section 2.4, (d)).
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//= type=test
//# (b) If an ICMPv6 informational message of unknown type is received, it MUST be silently
//# discarded.
//= https://www.rfc-editor.org/rfc/rfc4443#section-3.1
//= type=test
//# A node receiving the ICMPv6 Destination Unreachable message MUST notify the upper-layer process
//# if the relevant process can be identified (see Section 2.4, (d)).
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
    // an error that did not exist yet when this was written says nothing that a socket could use;
    // TCP is told (RFC 4443 section 2.4 (a))
    pair.inject_b(&[icmp_six(A6, B6, (100, 0, [0; 4]), &quoted)]);
    assert_eq!(pair.b.udp_take_error(socket), None);
    assert_eq!(pair.b.drops().get(IcmpIgnored), 0, "passed on");
    pair.inject_b(&[icmp_six(A6, B6, (200, 0, [0; 4]), &quoted)]);
    assert_eq!(pair.b.drops().get(IcmpIgnored), 1, "no error: silence");
    // about a packet of somebody else
    let foreign = datagram(at(A6, 4000), at(B6, 5), &[0; 8]);
    pair.inject_b(&[icmp_six(A6, B6, (1, 4, [0; 4]), &foreign)]);
    assert_eq!(pair.b.drops().get(IcmpForeignQuote), 2);
}

//= https://www.rfc-editor.org/rfc/rfc4443#section-4.1
//= type=test
//# Every node MUST implement an ICMPv6 Echo responder function that receives Echo Requests and
//# originates corresponding Echo Replies.
//= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
//= type=test
//# Every node MUST implement an ICMPv6 Echo responder function that receives Echo Requests and
//# originates corresponding Echo Replies.
//= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
//= type=test
//# The source address of an Echo Reply sent in response to a unicast Echo Request message MUST be
//# the same as the destination address of that Echo Request message.
//= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
//= type=test
//# The data received in the ICMPv6 Echo Request message MUST be returned entirely and unmodified in
//# the ICMPv6 Echo Reply message.
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
