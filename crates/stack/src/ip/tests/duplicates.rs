//! Address conflict detection (RFC 5227) for addresses that are given to a link.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::vec::Vec;

use gannet_wire::arp::{Operation, PACKET_LEN, Packet};
use gannet_wire::{EtherType, MacAddr};

use super::{A, B, MAC_A, MAC_B};
use crate::counters::DropReason::DuplicateAddress;
use crate::ip::Duplicate;
use crate::link::LinkAddress;
use crate::testing::packet::frame;
use crate::testing::{Pair, WireConfig, WireDriver};

/// Not an address of either host yet.
const NEW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);
const MAC_X: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
/// Longer than probing takes.
const LONG: Duration = Duration::from_secs(1);

fn own(address: impl Into<IpAddr>) -> LinkAddress {
    LinkAddress {
        address: address.into(),
        prefix_len: 24,
    }
}

fn arp((sender_mac, sender_ip): (MacAddr, Ipv4Addr), operation: Operation) -> Vec<u8> {
    let packet = Packet {
        operation,
        sender_mac,
        sender_ip,
        target_mac: MacAddr::ZERO,
        target_ip: NEW,
    };
    let mut bytes = [0; PACKET_LEN];
    packet.emit(&mut bytes).expect("room");
    frame(MacAddr::BROADCAST, sender_mac, EtherType::ARP, &bytes)
}

/// The second host has sent nothing and is about to try out an address.
fn fresh() -> Pair<WireDriver> {
    let mut pair = Pair::wire(1, &WireConfig::default());
    pair.pass(LONG);
    pair.b.link_mut(pair.link_b).expect("there").driver.record();
    pair
}

/// The ARP packets that the second host sent.
fn sent(pair: &mut Pair<WireDriver>) -> Vec<Packet> {
    let recorded = pair
        .b
        .link_mut(pair.link_b)
        .expect("there")
        .driver
        .recorded();
    let packets = recorded.iter().filter_map(|bytes| bytes.get(14..));
    packets
        .filter_map(|p| Packet::parse(p).ok())
        .map(|(p, _)| p)
        .collect()
}

//= https://www.rfc-editor.org/rfc/rfc5227#section-2.1.1
//= type=test
//# The 'target IP address' field MUST be set to the address being probed.
#[test]
fn an_address_is_used_after_three_probes_stay_unanswered() {
    let mut pair = fresh();
    assert!(pair.b.try_address(pair.link_b, own(NEW)));
    while pair.b.has_tentative_addresses() {
        assert!(!pair.b.is_local(NEW.into()), "probed, not in use");
        assert!(pair.step(), "it ends");
    }
    assert!(pair.b.is_local(NEW.into()));
    assert_eq!(pair.b.duplicate_addresses(), []);
    let packets = sent(&mut pair);
    let senders: Vec<_> = packets.iter().map(|p| p.sender_ip).collect();
    let none = Ipv4Addr::UNSPECIFIED;
    assert_eq!(senders, [none, none, none, NEW], "the last announces it");
    for packet in packets {
        assert_eq!((packet.sender_mac, packet.target_ip), (MAC_B, NEW));
        assert_eq!(packet.operation, Operation::Request);
    }
}

#[test]
fn an_address_that_another_station_has_is_not_used() {
    for packet in [
        arp((MAC_X, NEW), Operation::Reply),
        arp((MAC_X, NEW), Operation::Request),
        // It probes the same address.
        arp((MAC_X, Ipv4Addr::UNSPECIFIED), Operation::Request),
    ] {
        let mut pair = fresh();
        pair.b.try_address(pair.link_b, own(NEW));
        pair.pass(Duration::from_millis(500));
        pair.inject_b(&[packet]);
        pair.pass(LONG);
        assert!(!pair.b.is_local(NEW.into()) && !pair.b.has_tentative_addresses());
        let duplicate = Duplicate {
            link: pair.link_b,
            address: NEW.into(),
            station: Some(MAC_X),
        };
        assert_eq!(pair.b.duplicate_addresses(), [duplicate]);
        assert_eq!(pair.b.drops().get(DuplicateAddress), 1);
        assert_eq!(sent(&mut pair).len(), 3, "nothing claims it");
    }
}

#[test]
fn a_neighbour_answers_for_its_address() {
    let mut pair = fresh();
    pair.b.try_address(pair.link_b, own(A));
    pair.pass(LONG);
    assert!(!pair.b.is_local(A));
    let [duplicate] = pair.b.duplicate_addresses() else {
        panic!("{:?}", pair.b.duplicate_addresses());
    };
    assert_eq!((duplicate.address, duplicate.station), (A, Some(MAC_A)));
}

#[test]
fn what_other_stations_say_of_other_addresses_is_no_conflict() {
    let mut pair = fresh();
    pair.b.try_address(pair.link_b, own(NEW));
    let other = Ipv4Addr::new(192, 0, 2, 99);
    pair.inject_b(&[arp((MAC_X, other), Operation::Request)]);
    pair.pass(LONG);
    assert!(pair.b.is_local(NEW.into()) && pair.b.is_local(B));
}

#[test]
fn probing_ends_with_its_link() {
    let mut pair = fresh();
    pair.b.try_address(pair.link_b, own(NEW));
    pair.b.remove_link(pair.now, pair.link_b);
    assert!(!pair.b.has_tentative_addresses());
}
