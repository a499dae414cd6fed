//! Router advertisements: routers, networks, addresses made of prefixes (RFC 4861 section 6.3, RFC
//! 4862 section 5.5, RFC 7217).

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::vec::Vec;

use gannet_wire::nd::{self, Message, NdOption, Prefix};
use gannet_wire::{EtherType, MacAddr};

use super::super::solicit::group_station;
use super::neighbours::{discovered, message};
use super::{at, sent};
use crate::counters::DropReason::*;
use crate::testing::packet::frame;
use crate::testing::{Pair, WireConfig, WireDriver};
use crate::udp::{PathMtuDiscovery, UdpOption};

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x77]);
const HOUR: u32 = 3600;

fn prefix(number: u16, valid: u32, preferred: u32) -> Prefix {
    Prefix {
        prefix: Ipv6Addr::new(0x2001, 0xdb8, 1, number, 0, 0, 0, 0),
        len: 64,
        on_link: true,
        autonomous: true,
        valid_lifetime: valid,
        preferred_lifetime: preferred,
    }
}

fn advertisement(router_lifetime: u16) -> Message {
    Message::RouterAdvertisement {
        hop_limit: 33,
        managed: false,
        other: false,
        router_lifetime,
        reachable_time: 0,
        retrans_timer: 0,
    }
}

/// An advertisement of `from` arrives at the second host.
fn advertise(
    pair: &mut Pair<WireDriver>,
    from: Ipv6Addr,
    router_lifetime: u16,
    options: &[NdOption<'_>],
) {
    let ends = (from, nd::ALL_NODES);
    let packet = message(ends, 255, &advertisement(router_lifetime), options);
    let station = group_station(nd::ALL_NODES);
    pair.inject_b(&[frame(station, ROUTER_MAC, EtherType::IPV6, &packet)]);
}

fn autoconf() -> Pair<WireDriver> {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    pair.b.autoconfigure(link);
    pair
}

/// The second host's addresses of IPv6 that are not link-local.
fn global(pair: &Pair<WireDriver>) -> Vec<Ipv6Addr> {
    let config = pair.b.link_config(pair.link_b).expect("there");
    let own = config.addresses.iter().filter_map(|own| match own.address {
        IpAddr::V6(six) if !six.is_unicast_link_local() => Some(six),
        _ => None,
    });
    own.collect()
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.7
//= type=test
//# Once the host sends a Router Solicitation, and receives a valid Router Advertisement with a
//# non-zero Router Lifetime, the host MUST desist from sending additional solicitations on that
//# interface, until the next time one of the above events occurs.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.1
//= type=test
//# MUST NOT be included if the Source Address is the unspecified address.
#[test]
fn routers_are_asked_for() {
    let mut pair = autoconf();
    pair.pass(Duration::from_secs(30));
    let asked = discovered(&mut pair);
    let questions = |m: &Message| *m == Message::RouterSolicitation;
    assert_eq!(asked.iter().filter(|(_, m)| questions(m)).count(), 3);
    let config = pair.b.link_config(pair.link_b).expect("there");
    let own = config.addresses.iter().any(|own| match own.address {
        IpAddr::V6(six) => six.is_unicast_link_local() && own.prefix_len == 64,
        IpAddr::V4(_) => false,
    });
    assert!(own, "the link's own address, after its trial");

    let mut pair = autoconf();
    pair.settle();
    advertise(&mut pair, ROUTER, 1800, &[]);
    sent(&mut pair);
    pair.pass(Duration::from_secs(30));
    let more = discovered(&mut pair);
    assert!(
        !more.iter().any(|(_, m)| questions(m)),
        "one answer is enough"
    );
}

#[test]
fn an_address_is_made_of_a_prefix() {
    let mut pair = autoconf();
    pair.pass(Duration::from_secs(2));
    let link_address = NdOption::SourceLinkAddress(ROUTER_MAC);
    let options = [
        link_address,
        NdOption::Prefix(prefix(1, HOUR, HOUR)),
        NdOption::Mtu(1400),
    ];
    advertise(&mut pair, ROUTER, 1800, &options);
    pair.pass(Duration::from_secs(2));
    let own = global(&pair);
    let [own] = own[..] else {
        panic!("one address: {own:?}");
    };
    assert_eq!(own.segments()[..4], [0x2001, 0xdb8, 1, 1]);
    assert_ne!(
        own.to_bits() as u64,
        0x0000_00ff_fe00_0002,
        "says nothing of the station"
    );
    // far away, through the router; near, directly
    let from = pair.b.udp_bind(at(own, 5)).expect("free");
    let whole = UdpOption::PathMtu(PathMtuDiscovery::Do);
    assert!(pair.b.udp_set_option(from, whole));
    sent(&mut pair);
    let far = "[2001:db8:ffff::1]:9".parse().expect("an address");
    assert_eq!(
        pair.b.udp_send_to(pair.now, from, &[0; 1352], Some(far)),
        Ok(1352)
    );
    let too_long = pair.b.udp_send_to(pair.now, from, &[0; 1353], Some(far));
    assert!(too_long.is_err(), "the link's MTU is 1,400 now");
    pair.settle();
    let frames = sent(&mut pair);
    assert_eq!(frames[0][..6], ROUTER_MAC.0);
    assert_eq!(frames[0][14 + 7], 33, "the router's hop limit");
    let near = "[2001:db8:1:1::9]:9".parse().expect("an address");
    assert_eq!(pair.b.udp_send_to(pair.now, from, b"x", Some(near)), Ok(1));
    pair.settle();
    assert_eq!(discovered(&mut pair).len(), 1, "a neighbour is asked for");
    // the same host has the same address again, another host another
    let mut again = autoconf();
    advertise(
        &mut again,
        ROUTER,
        1800,
        &[NdOption::Prefix(prefix(1, HOUR, HOUR))],
    );
    again.pass(Duration::from_secs(3));
    assert_eq!(global(&again), [own]);
}

//= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.4
//= type=test
//# An invalid address MUST NOT be used as a source address in outgoing communications and MUST NOT
//# be recognized as a destination on a receiving interface.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.5
//= type=test
//# When removing a router from the Default Router list, the node MUST update the Destination Cache
//# in such a way that all entries using the router perform next-hop determination again rather than
//# continue sending traffic to the (deleted) router.
#[test]
fn lifetimes_end() {
    let mut pair = autoconf();
    let two_hours = 2 * u64::from(HOUR);
    advertise(
        &mut pair,
        ROUTER,
        100,
        &[NdOption::Prefix(prefix(1, 10 * HOUR, HOUR))],
    );
    pair.pass(Duration::from_secs(3));
    assert_eq!(global(&pair).len(), 1);
    // nobody may end it at once: two hours remain
    advertise(&mut pair, ROUTER, 100, &[NdOption::Prefix(prefix(1, 1, 1))]);
    pair.pass(Duration::from_secs(two_hours - 10));
    assert_eq!(global(&pair).len(), 1);
    pair.pass(Duration::from_secs(20));
    assert!(global(&pair).is_empty());
    let far = "[2001:db8:ffff::1]:9".parse().expect("an address");
    let from = pair
        .b
        .udp_bind("[::]:5".parse().expect("any"))
        .expect("free");
    let sent = pair.b.udp_send_to(pair.now, from, b"x", Some(far));
    assert!(sent.is_err(), "the router is none any more");
}

//= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.4
//= type=test
//# IP and higher layers (e.g., TCP, UDP) MUST continue to accept and process datagrams destined to
//# a deprecated address as normal since a deprecated address is still a valid address for the
//# interface.
#[test]
fn a_deprecated_address_is_avoided() {
    let mut pair = autoconf();
    let forever = u32::MAX;
    let options = [
        NdOption::Prefix(prefix(1, forever, 60)),
        NdOption::Prefix(prefix(2, forever, forever)),
    ];
    advertise(&mut pair, ROUTER, 9000, &options);
    pair.pass(Duration::from_secs(3));
    let far: IpAddr = "2001:db8:1:1:8000::1".parse().expect("an address");
    let from = |pair: &Pair<WireDriver>| {
        let path = pair.b.ip().path(None, far).expect("a route");
        match path.source {
            IpAddr::V6(six) => six.segments()[3],
            IpAddr::V4(_) => 0,
        }
    };
    assert_eq!(from(&pair), 1, "nearer");
    pair.pass(Duration::from_secs(70));
    // (the clock of lifetimes moves with the polls)
    pair.b.poll(pair.now);
    assert_eq!(from(&pair), 2, "not deprecated");
}

/// A router that answers as a host is no router any more; one that answers as a router stays.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# - The IsRouter flag in the cache entry MUST be set based on the Router flag in the received
//# advertisement.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//= type=test
//# In those cases where the IsRouter flag changes from TRUE to FALSE as a result of this update,
//# the node MUST remove that router from the Default Router List and update the Destination Cache
//# entries for all destinations using that neighbor as a router as specified in Section 7.3.3.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
//= type=test
//# To properly detect the case where a router switches from being a router to being a host (e.g.,
//# if its IP forwarding capability is turned off by system management), a node MUST compare the
//# Router flag field in all received Neighbor Advertisement messages with the IsRouter flag
//# recorded in the Neighbor Cache entry.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
//= type=test
//# When a node detects that a neighbor has changed from being a router to being a host, the node
//# MUST remove that router from the Default Router List and update the Destination Cache as
//# described in Section 6.3.5.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
//= type=test
//# If no Source Link-Layer Address is included, but a corresponding Neighbor Cache entry exists,
//# its IsRouter flag MUST be set to TRUE.
#[test]
fn a_router_that_becomes_a_host_is_left() {
    let told = |router| Message::NeighbourAdvertisement {
        router,
        solicited: true,
        overriding: true,
        target: ROUTER,
    };
    let mut pair = autoconf();
    pair.pass(Duration::from_secs(2));
    let mut own = pair.b.ip().six.own.iter();
    let own = own.find(|own| own.link == pair.link_b);
    let ends = (ROUTER, own.expect("a link-local address").address);
    let station = MacAddr([2, 0, 0, 0, 0, 2]);
    let answers = |pair: &mut Pair<WireDriver>, router| {
        let option = [NdOption::TargetLinkAddress(ROUTER_MAC)];
        let packet = message(ends, 255, &told(router), &option);
        pair.inject_b(&[frame(station, ROUTER_MAC, EtherType::IPV6, &packet)]);
        pair.b.ip().six.routers.routers().len()
    };
    let source = [NdOption::SourceLinkAddress(ROUTER_MAC)];
    advertise(&mut pair, ROUTER, 1800, &source);
    assert_eq!(pair.b.ip().six.routers.routers().len(), 1);
    assert_eq!(answers(&mut pair, true), 1);
    assert_eq!(answers(&mut pair, false), 0, "a host now");
    // advertising itself it is a router again, also when it does not tell its station
    advertise(&mut pair, ROUTER, 1800, &[]);
    assert_eq!(answers(&mut pair, true), 1);
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.2
//= type=test
//# A node MUST silently discard any received Router Advertisement messages that do not satisfy all
//# of the following validity checks:
#[test]
fn l6_advertisements_that_are_not_believed() {
    let mut pair = autoconf();
    pair.pass(Duration::from_secs(2));
    let global_router = Ipv6Addr::new(0x2001, 0xdb8, 1, 1, 0, 0, 0, 1);
    advertise(
        &mut pair,
        global_router,
        1800,
        &[NdOption::Prefix(prefix(1, HOUR, HOUR))],
    );
    assert_eq!(pair.b.drops().get(DiscoveryBadSender), 1);
    let bad = |change: fn(&mut Prefix)| {
        let mut prefix = prefix(1, HOUR, HOUR);
        change(&mut prefix);
        NdOption::Prefix(prefix)
    };
    let unusable = [
        bad(|p| p.len = 63),
        bad(|p| p.len = 128),
        bad(|p| p.preferred_lifetime = p.valid_lifetime + 1),
        bad(|p| p.prefix = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)),
        bad(|p| p.prefix = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0)),
        bad(|p| (p.valid_lifetime, p.preferred_lifetime) = (0, 0)),
        NdOption::Mtu(68),
    ];
    advertise(&mut pair, ROUTER, 0, &unusable);
    pair.pass(Duration::from_secs(5));
    assert!(global(&pair).is_empty());
    // who did not ask for configuration is not configured
    let mut pair = Pair::six(1, &WireConfig::default());
    let before = global(&pair);
    advertise(
        &mut pair,
        ROUTER,
        1800,
        &[NdOption::Prefix(prefix(1, HOUR, HOUR))],
    );
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.b.drops().get(DiscoveryIgnored), 1);
    assert_eq!(global(&pair), before);
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
//= type=test
//# However, a host MUST retain at least two router addresses and SHOULD retain more.
#[test]
fn l6_a_thousand_prefixes_and_routers() {
    let mut pair = autoconf();
    pair.pass(Duration::from_secs(2));
    for batch in 0..40_u16 {
        let many: Vec<_> = (0..25)
            .map(|n| NdOption::Prefix(prefix(batch * 25 + n, HOUR, HOUR)))
            .collect();
        let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, batch);
        advertise(&mut pair, from, 1800, &many);
    }
    pair.pass(Duration::from_secs(5));
    assert_eq!(global(&pair).len(), 16);
    assert!(pair.b.drops().get(DiscoveryTableFull) >= 39);
    let six = &pair.b.ip().six;
    assert_eq!(six.routers.routers().len(), 8);
    assert_eq!(six.routers.networks(), 32);
}
