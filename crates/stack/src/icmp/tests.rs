//! Robustness C1, C2, C4, C6, C7, U2 and the echo server (RFC 792, RFC 1122 section 3.2.2).

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::{Instant, Rng};
use gannet_link::{Checksum, Medium};
use gannet_wire::{IpProtocol, ipv4};

use super::limit::Limiter;
use crate::counters::DropReason::*;
use crate::hash::HashKey;
use crate::testing::packet::{datagram, four, icmp, mend, packet};
use crate::testing::{A, B, Pair, WireConfig, WireDriver};
use crate::udp::{UdpError, UdpId};

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn ip(bits: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(bits))
}

/// B has a socket connected to A's port 5; what it sends is recorded.
fn pair(mtu: u32) -> (Pair<WireDriver>, UdpId) {
    let mut pair = Pair::wire(
        1,
        &WireConfig {
            medium: Medium::Ip,
            checksum: Checksum::Software,
            mtu,
            ..WireConfig::default()
        },
    );
    let socket = pair.b.udp_bind(at(B, 9)).expect("free");
    pair.b.udp_connect(socket, Some(at(A, 5))).expect("a route");
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    (pair, socket)
}

fn sent(pair: &mut Pair<WireDriver>) -> Vec<Vec<u8>> {
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.recorded()
}

fn quoted() -> Vec<u8> {
    datagram(at(B, 9), at(A, 5), &[7; 30])
}

//= https://www.rfc-editor.org/rfc/rfc792
//= type=test
//# The data received in the echo message must be returned in the echo reply message.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
//= type=test
//# Every host MUST implement an ICMP Echo server function that receives Echo Requests and sends
//# corresponding Echo Replies.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
//= type=test
//# The IP source address in an ICMP Echo Reply MUST be the same as the specific-destination address
//# (defined in Section 3.2.1.3) of the corresponding ICMP Echo Request message.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
//= type=test
//# Data received in an ICMP Echo Request MUST be entirely included in the resulting Echo Reply.
#[test]
fn echo_of_every_size() {
    let mut rng = Rng::new(3);
    for len in [
        0, 1, 2, 35, 36, 37, 63, 64, 1023, 1024, 1025, 1472, 16_384, 40_001, 65_507,
    ] {
        let mtu = if len > 1472 { 65_535 } else { 1500 };
        let (mut pair, _) = pair(mtu);
        let mut data = vec![0; len];
        rng.fill(&mut data);
        let request = icmp(A, B, (8, 0, [1, 2, 3, 4]), &data);
        pair.inject_b(&[request]);
        let answers = sent(&mut pair);
        let expected = icmp(B, A, (0, 0, [1, 2, 3, 4]), &data);
        assert_eq!(answers.len(), 1, "{len} bytes");
        assert!(
            answers[0][ipv4::HEADER_LEN..] == expected[ipv4::HEADER_LEN..],
            "{len} bytes"
        );
        pair.settle();
        let link = pair.link_b;
        let pool = &pair.b.link(link).expect("there").pool;
        assert_eq!(pool.free_blocks(), pool.blocks(), "{len} bytes");
    }
}

#[test]
fn c2_echo_that_must_not_be_answered() {
    let broadcast = IpAddr::from([192, 0, 2, 255]);
    for to in [broadcast, IpAddr::V4(core::net::Ipv4Addr::BROADCAST)] {
        let (mut pair, _) = pair(1500);
        pair.inject_b(&[icmp(A, to, (8, 0, [0; 4]), b"smurf")]);
        assert_eq!(pair.b.drops().get(IcmpBroadcast), 1);
        assert!(sent(&mut pair).is_empty());
    }
    // CVE-2020-17443: shorter than its header.
    let whole = icmp(A, B, (8, 0, [0; 4]), &[]);
    for len in 0..8 {
        let (mut pair, _) = pair(1500);
        let mut short = whole[..20 + len].to_vec();
        short[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
        mend(&mut short);
        pair.inject_b(&[short]);
        assert_eq!(pair.b.drops().get(IcmpMalformed), 1, "{len} bytes");
        assert!(sent(&mut pair).is_empty());
    }
    let (mut pair, _) = pair(1500);
    let mut bad = icmp(A, B, (8, 0, [0; 4]), b"abc");
    bad[22] ^= 1;
    pair.inject_b(&[bad]);
    assert_eq!(pair.b.drops().get(IcmpMalformed), 1);
}

//= https://www.rfc-editor.org/rfc/rfc6633#section-5
//= type=test
//# Hereby, we clarify that UDP endpoints MUST silently discard received ICMP Source Quench
//# messages.
//= https://www.rfc-editor.org/rfc/rfc6633#section-8
//= type=test
//# Hosts, security gateways, and firewalls MUST silently discard received ICMP Source Quench
//# packets and SHOULD log such drops as a security fault with at least minimal details (IP Source
//# Address, IP Destination Address, ICMP message type, and date/time the packet was seen).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//= type=test
//# If an ICMP message of unknown type is received, it MUST be silently discarded.
#[test]
fn c6_requests_that_are_ignored() {
    // Time stamp, information, address mask; replies; source quench (RFC 6633); redirect.
    for kind in [13, 15, 17, 14, 16, 18, 0, 4, 30, 255, 5] {
        let (mut pair, socket) = pair(1500);
        pair.inject_b(&[icmp(A, B, (kind, 0, [0; 4]), &quoted()[..28])]);
        let reason = if kind == 5 { Redirect } else { IcmpIgnored };
        assert_eq!(pair.b.drops().get(reason), 1, "type {kind}");
        assert!(sent(&mut pair).is_empty(), "type {kind}");
        assert_eq!(pair.b.udp_take_error(socket), None, "type {kind}");
    }
}

#[test]
fn c1_quotes_that_are_not_ours() {
    let unreachable = |quote: &[u8]| icmp(A, B, (3, 3, [0; 4]), quote);
    let mut cases = vec![];
    for len in 0..28 {
        cases.push((unreachable(&quoted()[..len]), IcmpBadQuote));
    }
    let mut spoilt = |change: &dyn Fn(&mut Vec<u8>), reason| {
        let mut quote = quoted();
        change(&mut quote);
        cases.push((unreachable(&quote), reason));
    };
    spoilt(&|q| q[0] = 0x44, IcmpBadQuote);
    spoilt(&|q| q[0] = 0x65, IcmpBadQuote);
    spoilt(&|q| q[2..4].fill(0), IcmpBadQuote);
    spoilt(&|q| q[7] = 1, IcmpBadQuote);
    // CVE-2026-23398: a protocol that nobody registered.
    spoilt(&|q| q[9] = 200, IcmpForeignQuote);
    spoilt(&|q| q[9] = 1, IcmpForeignQuote);
    spoilt(&|q| q[12] = 10, IcmpForeignQuote);
    spoilt(&|q| q[16] = 10, IcmpForeignQuote);
    spoilt(&|q| q[21] = 77, IcmpForeignQuote);
    spoilt(&|q| q[23] = 77, IcmpForeignQuote);
    for (bytes, reason) in cases {
        let (mut pair, socket) = pair(1500);
        pair.inject_b(&[bytes]);
        assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}");
        assert_eq!(pair.b.drops().total(), 1, "{reason:?} only");
        assert_eq!(pair.b.udp_take_error(socket), None);
        assert!(sent(&mut pair).is_empty());
    }
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.3
//= type=test
//# UDP MUST pass to the application layer all ICMP error messages that it receives from the IP
//# layer.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
//= type=test
//# A Destination Unreachable message that is received MUST be reported to the transport layer.
#[test]
fn errors_about_our_datagrams_reach_the_socket_once() {
    for (code, error) in [
        (3, UdpError::Refused),
        (2, UdpError::Refused),
        (1, UdpError::HostUnreachable),
        (0, UdpError::HostUnreachable),
        (13, UdpError::HostUnreachable),
    ] {
        let (mut pair, socket) = pair(1500);
        pair.inject_b(&[icmp(A, B, (3, code, [0; 4]), &quoted()[..28])]);
        assert_eq!(pair.b.udp_take_ready(), Some(socket));
        let status = pair.b.udp_status(socket).expect("open");
        assert_eq!((status.error, status.readable), (Some(error), true));
        let got = pair.b.udp_recv_from(socket, &mut [0; 8]);
        assert_eq!(got, Err(error), "code {code}");
        let again = pair.b.udp_recv_from(socket, &mut [0; 8]);
        assert_eq!(again, Err(UdpError::WouldBlock));
    }
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//= type=test
//# An ICMP error message MUST NOT be sent as the result of receiving:
#[test]
fn errors_to_errors_are_never_sent() {
    // An error about a closed port, sent to a host that has no such socket.
    let (mut pair, _) = pair(1500);
    let foreign = datagram(at(B, 99), at(A, 98), b"not sent");
    for kind in [3, 11, 12] {
        pair.inject_b(&[icmp(A, B, (kind, 0, [0; 4]), &foreign[..28])]);
    }
    assert!(sent(&mut pair).is_empty());
}

#[test]
fn u2_closed_ports_are_answered_at_a_limited_rate() {
    let (mut pair, _) = pair(1500);
    let source = |n: u32| ip((four(A).to_bits() & !0xff) + 0x0100 * (1 + n / 200) + (n % 200) + 10);
    let flood: Vec<_> = (0..5000)
        .map(|n| datagram(at(source(n % 4000), 7), at(B, 4), b"x"))
        .collect();
    let wide = crate::link::LinkAddress {
        address: B,
        prefix_len: 8,
    };
    let link = pair.link_b;
    pair.b.add_address(link, wide);
    pair.inject_b(&flood);
    let burst = sent(&mut pair).len();
    assert!((40..=50).contains(&burst), "{burst} at once");
    assert_eq!(pair.b.drops().get(UdpNoSocket), 5000);
    assert_eq!(pair.b.drops().get(IcmpLimited), 5000 - burst as u64);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.5
//= type=test
//# A host MUST be able to generate Destination Unreachable messages with the following codes:
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.4
//= type=test
//# The transport layer MUST be able to send certain ICMP messages: Port Unreachable or any of the
//# query-type messages.
#[test]
fn u2_the_peer_of_a_closed_port_is_refused() {
    let mut pair = Pair::channel(1);
    let socket = pair.a.udp_bind(at(A, 0)).expect("free");
    pair.a.udp_connect(socket, Some(at(B, 4))).expect("a route");
    assert_eq!(pair.a.udp_send_to(pair.now, socket, b"x", None), Ok(1));
    pair.settle();
    let sent = pair.a.udp_send_to(pair.now, socket, b"x", None);
    assert_eq!(sent, Err(UdpError::Refused));
    assert_eq!(pair.a.udp_send_to(pair.now, socket, b"x", None), Ok(1));
}

//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//= type=test
//# (f) Finally, in order to limit the bandwidth and forwarding costs incurred by originating ICMPv6
//# error messages, an IPv6 node MUST limit the rate of ICMPv6 error messages it originates.
#[test]
fn c7_outgoing_errors_are_limited_in_all_and_per_target() {
    let mut limiter = Limiter::new(HashKey::new([1; 16]), 1);
    let mut allowed = 0;
    let mut per_target = [0; 64];
    // Ten seconds, 100 attempts per millisecond, 64 targets.
    for millis in 0..10_000u64 {
        let now = Instant::from_millis(1000 + millis);
        for n in 0..100u32 {
            let target = (millis as u32).wrapping_mul(100).wrapping_add(n) % 64;
            if limiter.allow(now, ip(0x0a00_0000 + target)) {
                allowed += 1;
                per_target[target as usize] += 1;
            }
        }
    }
    assert!(allowed > 64 * 5, "{allowed}");
    assert!(per_target.iter().all(|&n| n <= 10), "{per_target:?}");
    let mut limiter = Limiter::new(HashKey::new([1; 16]), 1);
    let mut allowed = 0;
    for n in 0..1_000_000u32 {
        let now = Instant::from_millis(1000) + Duration::from_micros(u64::from(n) * 10);
        allowed += u32::from(limiter.allow(now, ip(n.wrapping_mul(0x9e37_79b9))));
    }
    assert!(
        (100..=10_050).contains(&allowed),
        "{allowed} in ten seconds"
    );
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//= type=test
//# Every ICMP error message includes the Internet header and at least the first 8 data octets of
//# the datagram that triggered the error; more than 8 octets MAY be sent; this header and data MUST
//# be unchanged from the received datagram.
#[test]
fn a_protocol_error_quotes_the_packet_unchanged() {
    let (mut pair, _) = pair(1500);
    let bytes = packet(A, B, IpProtocol(99), b"0123456789");
    pair.inject_b(core::slice::from_ref(&bytes));
    let answers = sent(&mut pair);
    assert_eq!(answers[0][20..22], [3, 2]);
    assert_eq!(answers[0][28..], bytes);
}
