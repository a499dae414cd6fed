//! Multicast groups on a wire: what is told, what is taken, what is sent.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_wire::igmp::{self, Message};
use gannet_wire::{EtherType, IpProtocol, MacAddr, ethernet, ipv4, pretty};

use crate::counters::DropReason;
use crate::testing::packet::{datagram, frame, packet, with_options};
use crate::testing::{A, B, Pair, WireConfig, WireDriver};
use crate::udp::{GroupError, UdpError, UdpId, UdpOption};

pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
pub(super) const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
pub(super) const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn socket(pair: &mut Pair<WireDriver>) -> UdpId {
    pair.b.udp_bind(SocketAddr::new(ANY, 7)).unwrap()
}

pub(super) fn record(pair: &mut Pair<WireDriver>) {
    pair.b.link_mut(pair.link_b).unwrap().driver.record();
}

/// What the second host has sent of IGMP, as lines; each is checked to be as IGMP has to be.
pub(super) fn told(pair: &mut Pair<WireDriver>) -> Vec<std::string::String> {
    let frames = pair.b.link_mut(pair.link_b).unwrap().driver.recorded();
    let mut lines = Vec::new();
    for bytes in frames {
        let (link, at) = ethernet::Header::parse(&bytes).unwrap();
        let (ip, len) = ipv4::Header::parse(&bytes[at..]).unwrap();
        if ip.protocol != IpProtocol::IGMP {
            continue;
        }
        assert_eq!((ip.ttl, ip.tos, len), (1, 0xc0, 24));
        assert_eq!(bytes[at + 20..at + 24], [148, 4, 0, 0], "router alert");
        assert_eq!(link.dst, MacAddr::of_group_v4(ip.dst));
        assert!(Message::parse(&bytes[at + len..]).is_ok());
        lines.push(std::format!("{}", pretty::ipv4(&bytes[at..])));
    }
    lines
}

/// A query to the second host.
fn ask(pair: &mut Pair<WireDriver>, bytes: &[u8], to: Ipv4Addr) {
    let mut whole = packet(A, to.into(), IpProtocol::IGMP, bytes);
    whole[8] = 1;
    let whole = with_options(&whole, &[148, 4, 0, 0]);
    let mac = MacAddr::of_group_v4(to);
    pair.inject_b(&[frame(mac, MAC_A, EtherType::IPV4, &whole)]);
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-4
//= type=test
//# Every IGMP message described in this document is sent with an IP Time-to-Live of 1, IP
//# Precedence of Internetwork Control (e.g., Type of Service 0xc0), and carries an IP Router Alert
//# option [RFC-2113] in its IP header.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.13
//= type=test
//# An IGMP report is sent with a valid IP source address for the destination subnet.
#[test]
fn rfc3376_joined_asked_and_left() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let socket = socket(&mut pair);
    pair.settle();
    record(&mut pair);
    let join = pair.b.udp_join_group(socket, GROUP.into(), ANY);
    assert_eq!(join, Ok(()));
    let again = pair.b.udp_join_group(socket, GROUP.into(), B);
    assert_eq!(again, Err(GroupError::AlreadyJoined));
    pair.pass(Duration::from_secs(5));
    let line = "192.0.2.2 > 224.0.0.22 IGMP V3 report, to_ex 239.1.2.3";
    assert_eq!(told(&mut pair), [line, line]);

    let mut query = [0; 12];
    igmp::emit_query(10, Ipv4Addr::UNSPECIFIED, Some(&[]), &mut query).unwrap();
    ask(&mut pair, &query, igmp::ALL_SYSTEMS);
    assert!(told(&mut pair).is_empty(), "not at once");
    pair.pass(Duration::from_secs(1));
    let line = "192.0.2.2 > 224.0.0.22 IGMP V3 report, is_ex 239.1.2.3";
    assert_eq!(told(&mut pair), [line]);
    // A general query to one host is none, and garbage is none.
    ask(&mut pair, &query, GROUP);
    ask(&mut pair, &query[..7], igmp::ALL_SYSTEMS);
    pair.pass(Duration::from_secs(1));
    assert!(told(&mut pair).is_empty());
    assert_eq!(pair.b.drops().get(DropReason::IgmpMalformed), 2);

    // An old querier gets old messages.
    let mut query = [0; 8];
    igmp::emit_query(10, GROUP, None, &mut query).unwrap();
    ask(&mut pair, &query, GROUP);
    pair.pass(Duration::from_secs(2));
    let line = "192.0.2.2 > 239.1.2.3 IGMP V2 report 239.1.2.3";
    assert_eq!(told(&mut pair), [line]);
    pair.b.udp_close(socket);
    pair.pass(Duration::from_secs(20));
    let line = "192.0.2.2 > 224.0.0.2 IGMP V2 leave 239.1.2.3";
    assert_eq!(told(&mut pair), [line]);
}

#[test]
fn what_is_sent_to_a_group_reaches_its_members_only() {
    let mut pair = Pair::wire(2, &WireConfig::default());
    let socket = socket(&mut pair);
    let from = SocketAddr::new(A, 9);
    let bytes = datagram(from, SocketAddr::new(GROUP.into(), 7), b"news");
    let whole = frame(MacAddr::of_group_v4(GROUP), MAC_A, EtherType::IPV4, &bytes);
    pair.inject_b(core::slice::from_ref(&whole));
    assert_eq!(pair.b.drops().get(DropReason::IpNotForUs), 1);
    pair.b.udp_join_group(socket, GROUP.into(), B).unwrap();
    pair.inject_b(core::slice::from_ref(&whole));
    let mut buffer = [0; 9];
    assert_eq!(pair.b.udp_recv_from(socket, &mut buffer), Ok((4, 4, from)));
    // Another socket that has not joined gets nothing, and nobody is told.
    let other = datagram(from, SocketAddr::new(GROUP.into(), 8), b"news");
    let mac = MacAddr::of_group_v4(GROUP);
    let unjoined = pair.b.udp_bind(SocketAddr::new(ANY, 8)).unwrap();
    record(&mut pair);
    pair.inject_b(&[frame(mac, MAC_A, EtherType::IPV4, &other)]);
    let nothing = pair.b.udp_recv_from(unjoined, &mut buffer);
    assert_eq!(nothing, Err(UdpError::WouldBlock));
    assert_eq!(pair.b.drops().get(DropReason::UdpNoSocket), 1);
    pair.b.udp_leave_group(socket, GROUP.into(), B).unwrap();
    pair.inject_b(&[whole]);
    assert_eq!(pair.b.drops().get(DropReason::IpNotForUs), 2);
    let link = pair.link_b;
    pair.b.link_mut(link).unwrap().pool.invariants();
}

#[test]
fn sent_to_a_group() {
    let mut pair = Pair::wire(3, &WireConfig::default());
    let socket = socket(&mut pair);
    pair.settle();
    record(&mut pair);
    let to = Some(SocketAddr::new(GROUP.into(), 9));
    let now = pair.now;
    assert_eq!(pair.b.udp_send_to(now, socket, b"one", to), Ok(3));
    assert!(pair.b.udp_set_option(socket, UdpOption::GroupTimeToLive(5)));
    assert_eq!(pair.b.udp_send_to(now, socket, b"two", to), Ok(3));
    let frames = pair.b.link_mut(pair.link_b).unwrap().driver.recorded();
    let seen: Vec<_> = frames
        .iter()
        .map(|bytes| {
            let (link, at) = ethernet::Header::parse(bytes).unwrap();
            let (ip, _) = ipv4::Header::parse(&bytes[at..]).unwrap();
            assert_eq!(link.dst, MacAddr::of_group_v4(GROUP));
            (ip.dst, ip.ttl)
        })
        .collect();
    assert_eq!(seen, vec![(GROUP, 1), (GROUP, 5)]);
}

#[test]
fn calls_that_cannot_be_right() {
    let mut pair = Pair::wire(4, &WireConfig::default());
    let socket = socket(&mut pair);
    let mut join = |group: IpAddr, interface| pair.b.udp_join_group(socket, group, interface);
    assert_eq!(join(A, ANY), Err(GroupError::NotAGroup));
    let six = join("ff02::5".parse().unwrap(), ANY);
    assert_eq!(six, Err(GroupError::NoLink), "no IPv6 there");
    assert_eq!(join(GROUP.into(), A), Err(GroupError::NoLink));
    let left = pair.b.udp_leave_group(socket, GROUP.into(), ANY);
    assert_eq!(left, Err(GroupError::NotJoined));
    pair.b.udp_close(socket);
    let closed = pair.b.udp_join_group(socket, GROUP.into(), ANY);
    assert_eq!(closed, Err(GroupError::Closed));
}
