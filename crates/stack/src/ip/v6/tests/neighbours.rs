//! Robustness L6, RFC 4861's states and checks, RFC 4862's trials of addresses.

use core::net::Ipv6Addr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_wire::nd::{self, Message, NdOption};
use gannet_wire::{EtherType, IpProtocol, MacAddr, ipv6};

use super::super::solicit::group_station;
use super::{at, ethernet, framed, sent};
use crate::counters::DropReason::{self, *};
use crate::hash::HashKey;
use crate::link::{LinkAddress, LinkId};
use crate::neighbour::{Advertised, Answer, Discovery, Solicit};
use crate::testing::packet::{frame, six};
use crate::testing::{A6, B6, Pair, WireConfig, WireDriver};
use crate::udp::UdpError;

const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MAC_X: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const X: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x99);

/// A message as a packet, with whatever hop limit.
pub(super) fn message(
    (src, dst): (Ipv6Addr, Ipv6Addr),
    hop_limit: u8,
    message: &Message,
    options: &[NdOption<'_>],
) -> Vec<u8> {
    let mut bytes = [0; 1400];
    let len = message.emit(src, dst, options, &mut bytes).expect("room");
    six(src, dst, (IpProtocol::ICMPV6, hop_limit), &bytes[..len])
}

fn solicitation(target: Ipv6Addr) -> Message {
    Message::NeighbourSolicitation { target }
}

fn advertisement(target: Ipv6Addr, solicited: bool) -> Message {
    Message::NeighbourAdvertisement {
        router: false,
        solicited,
        overriding: true,
        target,
    }
}

/// The messages of neighbour discovery that the second host sent.
pub(super) fn discovered(pair: &mut Pair<WireDriver>) -> Vec<(ipv6::Header, Message)> {
    let of = |frame: Vec<u8>| {
        let packet = frame.get(14..)?;
        let (header, at) = ipv6::Header::parse(packet).ok()?;
        let (message, _) = Message::parse(&packet[at..]).ok()?;
        assert_eq!(header.hop_limit, 255);
        Some((header, message))
    };
    sent(pair).into_iter().filter_map(of).collect()
}

fn ignored(packet: &[u8], to: MacAddr, reason: DropReason) {
    let (mut pair, _) = ethernet();
    let before = pair.b.drops().get(reason);
    pair.inject_b(&[framed(to, packet)]);
    assert_eq!(pair.b.drops().get(reason), before + 1, "{reason:?}");
    assert!(sent(&mut pair).is_empty(), "{reason:?} is not answered");
}

//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.1
//= type=test
//# A node MUST silently discard any Neighbor Solicitation or Advertisement message that does not
//# pass the validity checks specified in [RFC4861].
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
//= type=test
//# If the solicitation is being sent to a solicited-node multicast address, the sender MUST include
//# its link-layer address (if it has one) as a Source Link-Layer Address option.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.1
//= type=test
//# Hosts MUST silently discard any received Router Solicitation Messages.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.6
//= type=test
//# A host MUST silently discard any received Router Solicitation messages.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
//= type=test
//# A node MUST silently discard any received Neighbor Solicitation messages that do not satisfy all
//# of the following validity checks:
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.2
//= type=test
//# A node MUST silently discard any received Neighbor Advertisement messages that do not satisfy
//# all of the following validity checks:
//= https://www.rfc-editor.org/rfc/rfc6980#section-5
//= type=test
//# Certification Path Advertisement Nodes MUST silently ignore the following Neighbor Discovery and
//# SEcure Neighbor Discovery messages if the packets carrying them include an IPv6 Fragmentation
//# Header:
#[test]
fn l6_what_is_not_believed() {
    let group = nd::solicited_node(B6);
    let to_group = group_station(group);
    let asks = solicitation(B6);
    let source = NdOption::SourceLinkAddress(MAC_A);
    for hops in [0, 1, 64, 254] {
        let packet = message((A6, group), hops, &asks, &[source]);
        ignored(&packet, to_group, DiscoveryHopLimit);
    }
    let good = message((A6, group), 255, &asks, &[source]);
    let spoilt = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let (src, dst) = (A6, nd::solicited_node(B6));
        gannet_wire::icmpv6::set_checksum(src, dst, &mut bytes[40..]).expect("room");
        bytes
    };
    let mut wrong = good.clone();
    wrong[70] ^= 1;
    ignored(&wrong, to_group, IcmpMalformed);
    // an option of length 0 never ends; one of 255 ends beyond the message
    ignored(&spoilt(|b| b[65] = 0), to_group, DiscoveryMalformed);
    ignored(&spoilt(|b| b[65] = 255), to_group, DiscoveryMalformed);
    ignored(&spoilt(|b| b[41] = 1), to_group, DiscoveryMalformed);
    // nobody asks with an address to be told, or asks one station
    let nobody = Ipv6Addr::UNSPECIFIED;
    let packet = message((nobody, group), 255, &asks, &[source]);
    ignored(&packet, to_group, DiscoveryBadSender);
    ignored(
        &message((nobody, B6), 255, &asks, &[]),
        MAC_B,
        DiscoveryBadSender,
    );
    // redirects, and questions for routers
    let redirect = Message::Redirect {
        target: A6,
        destination: X,
    };
    ignored(&message((A6, B6), 255, &redirect, &[]), MAC_B, Redirect);
    let asks_routers = Message::RouterSolicitation;
    ignored(
        &message((A6, B6), 255, &asks_routers, &[]),
        MAC_B,
        DiscoveryIgnored,
    );
    // an answer to a question that was asked of one, sent to all
    let answer = message((A6, nd::ALL_NODES), 255, &advertisement(A6, true), &[]);
    ignored(&answer, group_station(nd::ALL_NODES), DiscoveryBadSender);
    // in pieces (RFC 6980), even in one
    let atomic = [&[58, 0, 0, 0, 1, 2, 3, 4][..], &good[40..]].concat();
    let packet = six(A6, group, (IpProtocol::FRAGMENT, 255), &atomic);
    ignored(&packet, to_group, DiscoveryFragment);
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
//= type=test
//# It MUST NOT be set in multicast advertisements or in unsolicited unicast advertisements.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.4
//= type=test
//# If the source of the solicitation is the unspecified address, the node MUST set the Solicited
//# flag to zero and multicast the advertisement to the all-nodes address.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.4
//= type=test
//# Otherwise, the node MUST set the Solicited flag to one and unicast the advertisement to the
//# Source Address of the solicitation.
#[test]
fn questions_are_answered() {
    let (mut pair, _) = ethernet();
    let group = nd::solicited_node(B6);
    let source = NdOption::SourceLinkAddress(MAC_X);
    let packet = message((X, group), 255, &solicitation(B6), &[source]);
    let question = frame(group_station(group), MAC_X, EtherType::IPV6, &packet);
    pair.inject_b(&[question]);
    let answers = discovered(&mut pair);
    let [
        (
            header,
            Message::NeighbourAdvertisement {
                solicited, target, ..
            },
        ),
    ] = answers[..]
    else {
        panic!("one answer: {answers:?}");
    };
    assert_eq!((header.src, header.dst), (B6, X));
    assert_eq!((solicited, target), (true, B6));
    // somebody tries the address out: everybody is told that it is taken
    let probe = message((Ipv6Addr::UNSPECIFIED, group), 255, &solicitation(B6), &[]);
    pair.inject_b(&[framed(group_station(group), &probe)]);
    let answers = discovered(&mut pair);
    let [(header, Message::NeighbourAdvertisement { solicited, .. })] = answers[..] else {
        panic!("one answer: {answers:?}");
    };
    assert_eq!((header.dst, solicited), (nd::ALL_NODES, false));
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
//= type=test
//# Retransmissions MUST be rate-limited to at most one solicitation per neighbor every RetransTimer
//# milliseconds.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
//= type=test
//# A node MUST NOT send Neighbor Solicitations to the same neighbor more frequently than once every
//# RetransTimer milliseconds.
#[test]
fn a_silent_neighbour_is_asked_three_times() {
    let (mut pair, _) = ethernet();
    let from = pair.b.udp_bind(at(B6, 5)).expect("free");
    let to = Some(at(X, 6));
    let sent = pair.b.udp_send_to(pair.now, from, b"anybody?", to);
    assert_eq!(sent, Ok(8), "it waits for the answer");
    pair.pass(Duration::from_millis(3500));
    let asked = discovered(&mut pair);
    assert_eq!(asked.len(), 3);
    for (header, message) in asked {
        assert_eq!(header.dst, nd::solicited_node(X));
        assert_eq!(message, solicitation(X));
    }
    assert_eq!(pair.b.drops().get(NeighbourFailed), 1, "it waited in vain");
    let sent = pair.b.udp_send_to(pair.now, from, b"anybody?", to);
    assert_eq!(sent, Err(UdpError::HostUnreachable));
}

fn link() -> LinkId {
    let pair = Pair::six(1, &WireConfig::default());
    pair.link_a
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# Otherwise, the received advertisement should be ignored and MUST NOT update the cache.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# If the Override flag is set, or the supplied link-layer address is the same as that in the
//# cache, or no Target Link-Layer Address option was supplied, the received advertisement MUST
//# update the Neighbor Cache entry as follows:
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# - The link-layer address in the Target Link-Layer Address option MUST be inserted in the cache
//# (if one is supplied and differs from the already recorded address).
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# - If the Solicited flag is set, the state of the entry MUST be set to REACHABLE.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# If the Solicited flag is zero and the link-layer address was updated with a different address,
//# the state MUST be set to STALE.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.1
//= type=test
//# Receipt of other Neighbor Discovery messages, such as Router Advertisements and Neighbor
//# Advertisement with the Solicited flag set to zero, MUST NOT be treated as a reachability
//# confirmation.
#[test]
fn states_of_an_entry() {
    let link = link();
    let mut table = Discovery::new(HashKey::new([7; 16]));
    let mut now = Instant::from_millis(1000);
    let told = |mac, solicited, overriding| Advertised {
        mac: Some(mac),
        router: false,
        solicited,
        overriding,
    };
    let ask = |to| {
        Some(Solicit {
            link,
            target: X,
            to,
        })
    };
    assert!(
        !table.advertised(now, link, X, &told(MAC_X, true, true)),
        "nobody asked"
    );
    assert_eq!(table.lookup(now, link, X), (Answer::Pending, ask(None)));
    assert_eq!(table.lookup(now, link, X), (Answer::Pending, None));
    assert!(table.advertised(now, link, X, &told(MAC_X, true, true)));
    assert_eq!(table.lookup(now, link, X), (Answer::Ready(MAC_X), None));
    // another station without the override flag: stale, but the same
    table.advertised(now, link, X, &told(MAC_A, false, false));
    assert_eq!(table.lookup(now, link, X), (Answer::Ready(MAC_X), None));
    let (mut asks, mut failed) = (Vec::new(), Vec::new());
    now += Duration::from_secs(5);
    table.poll(now, &mut asks, &mut failed);
    assert_eq!(
        asks.pop(),
        ask(Some(MAC_X)),
        "delayed, then probed directly"
    );
    assert!(!table.advertised(now, link, X, &told(MAC_X, true, false)));
    now += Duration::from_secs(10);
    table.poll(now, &mut asks, &mut failed);
    assert!(asks.is_empty() && failed.is_empty(), "reachable again");
    // 30 s later: stale; used: delayed; nobody answers: three questions, failed
    now += Duration::from_secs(30);
    let epoch = table.epoch();
    assert_eq!(table.lookup(now, link, X), (Answer::Ready(MAC_X), None));
    for _ in 0..10 {
        now += Duration::from_secs(1);
        table.poll(now, &mut asks, &mut failed);
    }
    assert_eq!(asks.len(), 3);
    assert_eq!(failed, [(link, X)]);
    assert_ne!(table.epoch(), epoch);
    // with the override flag another station is believed, and checked
    now += Duration::from_secs(10);
    table.lookup(now, link, X);
    table.advertised(now, link, X, &told(MAC_X, true, true));
    let epoch = table.epoch();
    table.advertised(now, link, X, &told(MAC_A, false, true));
    assert_eq!(table.lookup(now, link, X).0, Answer::Ready(MAC_A));
    assert_ne!(table.epoch(), epoch);
}

#[test]
fn l4_a_flood_of_neighbours_is_bounded() {
    let link = link();
    let mut table = Discovery::new(HashKey::new([7; 16]));
    let now = Instant::from_millis(1000);
    let host = |n: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, n);
    let known = Advertised {
        mac: Some(MAC_A),
        router: false,
        solicited: true,
        overriding: true,
    };
    table.lookup(now, link, A6);
    assert!(table.advertised(now, link, A6, &known));
    for n in 0..5000 {
        table.heard_from(now, link, (host(n), MAC_X), false);
    }
    assert_eq!(table.len(), 512, "strangers fill half of it");
    assert_eq!(table.lookup(now, link, A6), (Answer::Ready(MAC_A), None));
    for n in 5000..8000 {
        table.lookup(now, link, host(n));
    }
    assert_eq!(table.len(), 1024);
    assert_eq!(table.lookup(now, link, host(9000)), (Answer::Failed, None));
    assert_eq!(table.lookup(now, link, A6), (Answer::Ready(MAC_A), None));
    // once nobody has used the strangers' for a while, ours push them out
    let later = now + Duration::from_secs(61);
    assert_eq!(table.lookup(later, link, host(9000)).0, Answer::Pending);
    assert_eq!(table.len(), 1024);
}

/// A host that tries out its addresses; what it sends is recorded from the start.
fn trying() -> Pair<WireDriver> {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    let own = LinkAddress {
        address: B6.into(),
        prefix_len: 64,
    };
    assert!(pair.b.add_address(link, own));
    pair.settle();
    pair
}

//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4
//= type=test
//# Duplicate Address Detection MUST be performed on all unicast addresses prior to assigning them
//# to an interface, regardless of whether they are obtained through stateless autoconfiguration,
//# DHCPv6, or manual configuration, with the following exceptions:
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
//= type=test
//# MUST NOT be included when the source IP address is the unspecified address.
#[test]
fn an_address_is_tried_out_first() {
    let mut pair = trying();
    let probes = discovered(&mut pair);
    assert_eq!(probes.len(), 2, "this one and the link's own");
    for (header, message) in probes {
        let Message::NeighbourSolicitation { target } = message else {
            panic!("a question, not {message:?}");
        };
        assert_eq!(header.src, Ipv6Addr::UNSPECIFIED);
        assert_eq!(header.dst, nd::solicited_node(target));
    }
    assert!(!pair.b.is_local(B6.into()) && pair.b.has_tentative_addresses());
    pair.pass(Duration::from_millis(1100));
    assert!(pair.b.is_local(B6.into()) && !pair.b.has_tentative_addresses());
}

//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.3
//= type=test
//# In all cases, a node MUST NOT respond to a Neighbor Solicitation for a tentative address.
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.5
//= type=test
//# A tentative address that is determined to be a duplicate as described above MUST NOT be assigned
//# to an interface, and the node SHOULD log a system management error.
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.2
//= type=test
//# In order to improve the robustness of the Duplicate Address Detection algorithm, an interface
//# MUST receive and process datagrams sent to the all-nodes multicast address or solicited-node
//# multicast address of the tentative address during the delay period.
#[test]
fn an_address_that_others_have_is_not_taken() {
    let group = nd::solicited_node(B6);
    let taken = message((B6, nd::ALL_NODES), 255, &advertisement(B6, false), &[]);
    let probe = message((Ipv6Addr::UNSPECIFIED, group), 255, &solicitation(B6), &[]);
    for (packet, to) in [(taken, nd::ALL_NODES), (probe, group)] {
        let mut pair = trying();
        pair.inject_b(&[framed(group_station(to), &packet)]);
        pair.pass(Duration::from_secs(5));
        assert!(!pair.b.is_local(B6.into()));
        assert_eq!(pair.b.drops().get(DuplicateAddress), 1);
    }
    // a question from somebody who has an address is no objection
    let mut pair = trying();
    let source = NdOption::SourceLinkAddress(MAC_A);
    let question = message((A6, group), 255, &solicitation(B6), &[source]);
    pair.inject_b(&[framed(group_station(group), &question)]);
    pair.pass(Duration::from_secs(5));
    assert!(pair.b.is_local(B6.into()));
}
