//! Groups of IPv6 on a wire: what is told, what is taken, what is sent. By sections of RFC 3810.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use gannet_wire::extension::{Chain, ROUTER_ALERT_LEN, emit_router_alert};
use gannet_wire::mld::{self, Message, Old};
use gannet_wire::{EtherType, IpProtocol, MacAddr, ethernet, ipv6, nd, pretty};

use crate::counters::DropReason;
use crate::testing::packet::{datagram, frame, six};
use crate::testing::{A6, B6, Pair, WireConfig, WireDriver};
use crate::udp::SourceChange::Join;
use crate::udp::{GroupError, UdpError, UdpId};

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 2);
const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// Where queries come from.
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

fn station(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

fn joined() -> (Pair<WireDriver>, UdpId) {
    let mut pair = Pair::six(1, &WireConfig::default());
    pair.pass(Duration::from_secs(5));
    let socket = pair.b.udp_bind(SocketAddr::new(ANY, 7)).unwrap();
    pair.b.link_mut(pair.link_b).unwrap().driver.record();
    (pair, socket)
}

/// What the second host has sent of MLD, without its source; each is checked to be as it has to be.
fn told(pair: &mut Pair<WireDriver>) -> Vec<String> {
    let frames = pair.b.link_mut(pair.link_b).unwrap().driver.recorded();
    let mut lines = Vec::new();
    for bytes in frames {
        let (link, at) = ethernet::Header::parse(&bytes).unwrap();
        let Ok((ip, _)) = ipv6::Header::parse(&bytes[at..]) else {
            continue;
        };
        let chain = Chain::parse(&bytes[at..]).unwrap();
        let message = &bytes[at + chain.payload_at..];
        if chain.protocol != IpProtocol::ICMPV6 || !Message::is_type(message[0]) {
            continue;
        }
        assert_eq!((ip.hop_limit, chain.router_alert), (1, Some(0)));
        assert!(ip.src.is_unicast_link_local() || ip.src.is_unspecified());
        assert_eq!(link.dst, station(ip.dst));
        let mut sealed = message.to_vec();
        gannet_wire::icmpv6::set_checksum(ip.src, ip.dst, &mut sealed).unwrap();
        assert_eq!(sealed, message, "the checksum");
        let line = std::format!("{}", pretty::ipv6(&bytes[at..]));
        lines.push(line.split_once(" > ").unwrap().1.into());
    }
    lines
}

/// A message of MLD to the second host, as it has to be before `spoil`.
fn hand(
    pair: &mut Pair<WireDriver>,
    (source, to): (Ipv6Addr, Ipv6Addr),
    message: &[u8],
    spoil: impl Fn(&mut Vec<u8>),
) {
    let mut payload = std::vec![0; ROUTER_ALERT_LEN];
    emit_router_alert(IpProtocol::ICMPV6, &mut payload).unwrap();
    payload.extend_from_slice(message);
    let mut whole = six(source, to, (IpProtocol::HOP_BY_HOP, 1), &payload);
    spoil(&mut whole);
    pair.inject_b(&[frame(station(to), MAC_A, EtherType::IPV6, &whole)]);
}

fn query(group: Ipv6Addr, sources: Option<&[Ipv6Addr]>, ends: (Ipv6Addr, Ipv6Addr)) -> Vec<u8> {
    let mut bytes = [0; 28];
    let len = mld::emit_query(1000, group, sources, ends, &mut bytes).unwrap();
    bytes[..len].to_vec()
}

fn report(kind: &str, group: impl core::fmt::Display) -> String {
    std::format!("ff02::16 ICMPv6 MLD V2 report, {kind} {group}")
}

//= https://www.rfc-editor.org/rfc/rfc3810#section-5
//= type=test
//# All MLDv2 messages described in this document MUST be sent with a link-local IPv6 Source
//# Address, an IPv6 Hop Limit of 1, and an IPv6 Router Alert option [RFC2711] in a Hop-by-Hop
//# Options header.
//= https://www.rfc-editor.org/rfc/rfc3810#section-6
//= type=test
//# No MLD messages are ever sent regarding neither the link-scope all-nodes multicast address, nor
//# any multicast address of scope 0 (reserved) or 1 (node-local).
#[test]
fn rfc3810_section_6_1_joined_and_left() {
    let (mut pair, socket) = joined();
    let join = pair.b.udp_join_group(socket, GROUP.into(), ANY);
    assert_eq!(join, Ok(()));
    let again = pair.b.udp_join_group(socket, GROUP.into(), pair.link_b);
    assert_eq!(again, Err(GroupError::AlreadyJoined));
    for silent in ["ff02::1", "ff01::5", "ff00::5"] {
        let group = silent.parse().unwrap();
        pair.b.udp_join_group(socket, group, ANY).unwrap();
    }
    pair.pass(Duration::from_secs(5));
    let line = report("to_ex", GROUP);
    assert_eq!(told(&mut pair), [line.clone(), line]);
    pair.b.udp_close(socket);
    pair.pass(Duration::from_secs(5));
    let line = report("to_in", GROUP);
    assert_eq!(told(&mut pair), [line.clone(), line]);
}

#[test]
fn rfc3810_section_6_2_asked() {
    let (mut pair, socket) = joined();
    pair.b
        .udp_join_group(socket, GROUP.into(), B6_LINK)
        .unwrap();
    pair.pass(Duration::from_secs(5));
    told(&mut pair);
    let dropped = pair.b.drops().total();
    // Everything: our addresses' groups, too.
    let ends = (ROUTER, nd::ALL_NODES);
    let general = query(Ipv6Addr::UNSPECIFIED, Some(&[]), ends);
    for _ in 0..100 {
        hand(&mut pair, ends, &general, |_| {});
    }
    assert!(told(&mut pair).is_empty(), "not at once");
    pair.pass(Duration::from_secs(1));
    let lines = told(&mut pair);
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    for group in [GROUP, nd::solicited_node(B6)] {
        assert!(line.contains(&std::format!("is_ex {group}")), "{line}");
    }
    // One group.
    let ends = (ROUTER, GROUP);
    hand(&mut pair, ends, &query(GROUP, Some(&[]), ends), |_| {});
    pair.pass(Duration::from_secs(1));
    assert_eq!(told(&mut pair), [report("is_ex", GROUP)]);
    assert_eq!(pair.b.drops().total(), dropped);
}

const B6_LINK: IpAddr = IpAddr::V6(B6);

//= https://www.rfc-editor.org/rfc/rfc3810#section-6.2
//= type=test
//# Upon reception of an MLD message that contains a Query, the node checks if the source address of
//# the message is a valid link-local address, if the Hop Limit is set to 1, and if the Router Alert
//# option is present in the Hop-By-Hop Options header of the IPv6 packet. If any of these checks
//# fails, the packet is dropped.
#[test]
fn rfc3810_section_6_2_queries_that_no_router_sent() {
    type Spoil = fn(&mut Vec<u8>);
    let near = (ROUTER, nd::ALL_NODES);
    let cases: [(&str, (Ipv6Addr, Ipv6Addr), Spoil); 6] = [
        ("far", (A6, nd::ALL_NODES), |_| {}),
        ("nobody", (Ipv6Addr::UNSPECIFIED, nd::ALL_NODES), |_| {}),
        ("hops", near, |bytes| bytes[7] = 2),
        ("no router alert", near, |bytes| bytes[42] = 0x1e),
        ("another value", near, |bytes| bytes[45] = 1),
        ("checksum", near, |bytes| bytes[50] ^= 1),
    ];
    for (name, ends, spoil) in cases {
        let (mut pair, _) = joined();
        let general = query(Ipv6Addr::UNSPECIFIED, Some(&[]), ends);
        hand(&mut pair, ends, &general, spoil);
        pair.pass(Duration::from_secs(20));
        assert!(told(&mut pair).is_empty(), "{name}");
        assert_eq!(pair.b.drops().get(DropReason::MldMalformed), 1, "{name}");
    }
    let (mut pair, _) = joined();
    let short = query(Ipv6Addr::UNSPECIFIED, None, near);
    hand(&mut pair, near, &short[..23], |_| {});
    assert_eq!(pair.b.drops().get(DropReason::MldMalformed), 1);
}

#[test]
fn rfc3810_section_8_2_an_old_querier() {
    let (mut pair, socket) = joined();
    pair.b.udp_join_group(socket, GROUP.into(), ANY).unwrap();
    pair.pass(Duration::from_secs(5));
    told(&mut pair);
    let ends = (ROUTER, GROUP);
    let old = query(GROUP, None, ends);
    hand(&mut pair, ends, &old, |_| {});
    pair.pass(Duration::from_secs(2));
    let line = std::format!("{GROUP} ICMPv6 MLD V1 report {GROUP}");
    assert_eq!(told(&mut pair), [line]);
    // Another host's report is enough.
    hand(&mut pair, ends, &old, |_| {});
    let mut other = [0; mld::MESSAGE_LEN];
    mld::emit_old(Old::Report, GROUP, ends, &mut other).unwrap();
    hand(&mut pair, ends, &other, |_| {});
    pair.pass(Duration::from_secs(20));
    assert!(told(&mut pair).is_empty());
    pair.b.udp_close(socket);
    pair.pass(Duration::from_secs(20));
    let line = std::format!("ff02::2 ICMPv6 MLD V1 done {GROUP}");
    assert_eq!(told(&mut pair), [line]);
}

//= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.13
//= type=test
//# Once a valid link-local address is available, a node SHOULD generate new MLDv2 Report messages
//# for all multicast addresses joined on the interface.
#[test]
fn rfc3810_section_5_2_13_told_again_when_there_is_an_address() {
    let mut pair = Pair::wire(5, &WireConfig::default());
    let link = pair.link_b;
    pair.b.link_mut(link).unwrap().driver.record();
    pair.b.autoconfigure(link);
    pair.pass(Duration::from_secs(5));
    let frames = pair.b.link_mut(link).unwrap().driver.recorded();
    let reports = frames.iter().filter_map(|bytes| {
        let (ip, _) = ipv6::Header::parse(&bytes[ethernet::HEADER_LEN..]).ok()?;
        (ip.dst == mld::ALL_V2_ROUTERS).then_some(ip.src.is_unspecified())
    });
    let reports: Vec<bool> = reports.collect();
    assert!(reports.starts_with(&[true]), "{reports:?}");
    assert!(reports.ends_with(&[false, false]), "{reports:?}");
}

#[test]
fn what_is_sent_to_a_group_reaches_its_members_only() {
    let (mut pair, socket) = joined();
    let from = SocketAddr::new(A6.into(), 9);
    let bytes = datagram(from, SocketAddr::new(GROUP.into(), 7), b"news");
    let whole = frame(station(GROUP), MAC_A, EtherType::IPV6, &bytes);
    // What the other host tells routers is dropped, too.
    let before = pair.b.drops().get(DropReason::IpNotForUs);
    pair.inject_b(core::slice::from_ref(&whole));
    let refused = |pair: &Pair<WireDriver>| pair.b.drops().get(DropReason::IpNotForUs) - before;
    assert_eq!(refused(&pair), 1);
    pair.b.udp_join_group(socket, GROUP.into(), ANY).unwrap();
    pair.inject_b(core::slice::from_ref(&whole));
    let mut buffer = [0; 9];
    assert_eq!(pair.b.udp_recv_from(socket, &mut buffer), Ok((4, 4, from)));
    // Nobody hears that nobody listens.
    let other = datagram(from, SocketAddr::new(GROUP.into(), 8), b"news");
    pair.b.link_mut(pair.link_b).unwrap().driver.recorded();
    pair.inject_b(&[frame(station(GROUP), MAC_A, EtherType::IPV6, &other)]);
    assert_eq!(pair.b.drops().get(DropReason::UdpNoSocket), 1);
    let frames = pair.b.link_mut(pair.link_b).unwrap().driver.recorded();
    let errors = frames
        .iter()
        .filter(|bytes| bytes[20] == 58 && bytes[54] == 1);
    assert_eq!(errors.count(), 0);
    pair.b.udp_leave_group(socket, GROUP.into(), ANY).unwrap();
    pair.inject_b(&[whole]);
    assert_eq!(refused(&pair), 2);
    let nothing = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(nothing, Err(UdpError::WouldBlock));
    let link = pair.link_b;
    pair.b.link_mut(link).unwrap().pool.invariants();
}

#[test]
fn sent_to_a_group_from_the_address_that_suits_it() {
    let (mut pair, socket) = joined();
    let now = pair.now;
    for group in ["ff02::5:5", "ff05::5:5", "ff0e::5:5"] {
        let group: Ipv6Addr = group.parse().unwrap();
        let to = Some(SocketAddr::new(group.into(), 9));
        assert_eq!(pair.b.udp_send_to(now, socket, b"one", to), Ok(3));
        let frames = pair.b.link_mut(pair.link_b).unwrap().driver.recorded();
        let (link, at) = ethernet::Header::parse(&frames[0]).unwrap();
        let (ip, _) = ipv6::Header::parse(&frames[0][at..]).unwrap();
        assert_eq!((link.dst, ip.dst, ip.hop_limit), (station(group), group, 1));
        let near = group.octets()[1] == 2;
        assert_eq!(ip.src.is_unicast_link_local(), near, "{group}");
    }
}

/// Sources that single sockets want (RFC 3810 section 4.2).
#[test]
fn rfc3810_section_4_2_sources_are_told() {
    let (mut pair, socket) = joined();
    let group: Ipv6Addr = "ff05::7".parse().expect("a group");
    for n in 1..=10 {
        let source = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n);
        let which = (group.into(), source.into());
        let done = pair.b.udp_change_source(socket, which, Join, ANY);
        assert_eq!(done, Ok(()));
    }
    let more = (group.into(), "2001:db8::77".parse().expect("an address"));
    let full = pair.b.udp_change_source(socket, more, Join, ANY);
    assert_eq!(full, Err(GroupError::TooMany));
    pair.pass(Duration::from_secs(5));
    let mut lines = told(&mut pair);
    lines.dedup();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("to_in ff05::7 sources 2001:db8::1,2001:db8::2"));
    assert!(lines[0].ends_with("2001:db8::a"), "{lines:?}");
    pair.b.udp_close(socket);
    pair.pass(Duration::from_secs(5));
    let mut lines = told(&mut pair);
    lines.dedup();
    assert_eq!(lines, [report("to_in", group)]);
}
