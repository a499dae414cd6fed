//! Robustness L3, L4, L5 and the states of an entry (RFC 826, RFC 1122 section 2.3.2).

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_wire::arp::{Operation, PACKET_LEN, Packet};
use gannet_wire::{EtherType, MacAddr};

use super::{Answer, Ask, Claim, Neighbours};
use crate::counters::DropReason::{self, *};
use crate::hash::HashKey;
use crate::link::LinkId;
use crate::testing::packet::frame;
use crate::testing::{Faults, Pair, WireConfig, WireDriver};
use crate::udp::UdpError;

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MAC_X: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const X: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

fn arp(operation: Operation, from: (Ipv4Addr, MacAddr), to: Ipv4Addr) -> Vec<u8> {
    let packet = Packet {
        operation,
        sender_mac: from.1,
        sender_ip: from.0,
        target_mac: MacAddr::ZERO,
        target_ip: to,
    };
    let mut bytes = [0; PACKET_LEN];
    packet.emit(&mut bytes).expect("28 bytes");
    frame(MAC_B, MAC_A, EtherType::ARP, &bytes)
}

/// A pair whose announcements are over, with what B sends recorded.
fn pair() -> Pair<WireDriver> {
    let mut pair = Pair::wire(1, &WireConfig::default());
    pair.pass(Duration::from_secs(1));
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    pair
}

fn sent(pair: &mut Pair<WireDriver>) -> Vec<Vec<u8>> {
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.recorded()
}

fn ignored(bytes: Vec<u8>, reason: DropReason) {
    let mut pair = pair();
    pair.inject_b(&[bytes]);
    assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}");
    assert!(sent(&mut pair).is_empty(), "{reason:?}");
}

#[test]
fn l3_malformed_arp() {
    let good = arp(Operation::Request, (A, MAC_A), B);
    for (at, value) in [
        (15, 2), // hardware type
        (16, 9), // protocol type
        (18, 0), // hardware length
        (18, 1),
        (18, 255),
        (19, 0), // protocol length
        (19, 16),
        (21, 0), // operation
        (21, 3), // RARP, URGENT/11
        (21, 255),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        ignored(bytes, ArpMalformed);
    }
    for len in 14..42 {
        ignored(good[..len].to_vec(), ArpMalformed);
    }
}

#[test]
fn l3_impossible_senders() {
    let ask = Operation::Request;
    ignored(arp(ask, (A, MacAddr::BROADCAST), B), ArpBadSender);
    ignored(
        arp(ask, (A, MacAddr([1, 0, 0x5e, 0, 0, 1])), B),
        ArpBadSender,
    );
    ignored(arp(ask, (A, MacAddr::ZERO), B), ArpBadSender);
    ignored(arp(ask, (A, MAC_B), B), ArpBadSender);
    ignored(arp(ask, ([192, 0, 2, 255].into(), MAC_A), B), ArpBadSender);
    // Ours, claimed by another station: a conflict (RFC 5227), and no reason to believe it.
    ignored(arp(ask, (B, MAC_X), B), ArpConflict);
    ignored(arp(Operation::Reply, (B, MAC_X), B), ArpConflict);
}

#[test]
fn l5_replies_that_nobody_asked_for() {
    ignored(arp(Operation::Reply, (X, MAC_X), B), ArpUnsolicited);
}

//= https://www.rfc-editor.org/rfc/rfc5227#section-2.5
//= type=test
//# From the time a host sends its first ARP Announcement, until the time it ceases using that IP
//# address, the host MUST answer ARP Requests in the usual way required by the ARP specification
//# [RFC826].
//= https://www.rfc-editor.org/rfc/rfc5227#section-2.5
//= type=test
//# Specifically, this means that whenever a host receives an ARP Request, that's not a conflicting
//# ARP packet as described above in Section 2.4, where the 'target IP address' of the ARP Request
//# is (one of) the host's own IP address(es) configured on that interface, the host MUST respond
//# with an ARP Reply as described in RFC 826.
#[test]
fn questions_for_our_address_are_answered() {
    let mut pair = pair();
    pair.inject_b(&[arp(Operation::Request, (A, MAC_A), B)]);
    let answers = sent(&mut pair);
    let (answer, _) = Packet::parse(&answers[0][14..]).expect("ARP");
    assert_eq!(answers.len(), 1);
    assert_eq!((answer.operation, answer.sender_ip), (Operation::Reply, B));
    assert_eq!((answer.sender_mac, answer.target_mac), (MAC_B, MAC_A));
    // Also those of a host that only asks whether the address is free (RFC 5227 probe).
    pair.inject_b(&[arp(Operation::Request, (Ipv4Addr::UNSPECIFIED, MAC_X), B)]);
    assert_eq!(sent(&mut pair).len(), 1);
    // Not those for others.
    pair.inject_b(&[arp(Operation::Request, (A, MAC_A), X)]);
    assert!(sent(&mut pair).is_empty());
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
//= type=test
//# While waiting for address resolution to complete, the sender MUST, for each neighbor, retain a
//# small queue of packets waiting for address resolution to complete.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
//= type=test
//# The queue MUST hold at least one packet, and MAY contain more.
//= https://www.rfc-editor.org/rfc/rfc1122#section-2.4
//= type=test
//# The link layer MUST NOT report a Destination Unreachable error to IP solely because there is no
//# ARP cache entry for a destination.
#[test]
fn the_latest_packets_wait_for_the_answer() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let from = pair.a.udp_bind(SocketAddr::new(A.into(), 5)).expect("free");
    let to = pair.b.udp_bind(SocketAddr::new(B.into(), 6)).expect("free");
    for number in 0..70u8 {
        let remote = Some(SocketAddr::new(B.into(), 6));
        let sent = pair.a.udp_send_to(pair.now, from, &[number; 300], remote);
        assert_eq!(sent, Ok(300));
    }
    pair.pass(Duration::from_millis(10));
    let mut buffer = [0; 300];
    let mut got = Vec::new();
    while pair.b.udp_recv_from(to, &mut buffer).is_ok() {
        assert!(buffer.iter().all(|&b| b == buffer[0]));
        got.push(buffer[0]);
    }
    assert_eq!(got, (6..70).collect::<Vec<u8>>());
    assert_eq!(pair.a.drops().get(NeighbourQueueFull), 6);
    let link = pair.link_a;
    pair.settle();
    let pool = &pair.a.link(link).expect("there").pool;
    assert_eq!(pool.free_blocks(), pool.blocks(), "nothing is kept");
}

/// A neighbour whose station changed is found again when nothing arrives there: first it is asked
/// where it was, a second later everybody is.
#[test]
fn a_neighbour_under_suspicion_is_asked_and_then_looked_for() {
    let (now, second) = (Instant::ZERO, Duration::from_secs(1));
    let link = pair().link_a;
    let (old, new) = (MAC_B, MAC_X);
    let mut table = Neighbours::new(HashKey::new([7; 16]));
    assert_eq!(table.suspect(now, link, B), None, "nobody known");
    table.lookup(now, link, B);
    assert!(table.claimed(now, link, (B, old), Claim::Reply));
    let asked = |to| Ask {
        link,
        target: B,
        to,
    };
    assert_eq!(table.suspect(now, link, B), Some(asked(Some(old))));
    assert_eq!(table.suspect(now, link, B), None, "it is being asked");
    assert_eq!(
        table.lookup(now, link, B),
        (Answer::Ready(old), None),
        "still used"
    );
    let (mut asks, mut failed) = (Vec::new(), Vec::new());
    table.poll(now + second, &mut asks, &mut failed);
    assert_eq!((asks, failed.len()), (std::vec![asked(None)], 0));
    let epoch = table.epoch();
    assert!(table.claimed(now + second, link, (B, new), Claim::Reply));
    assert_ne!(table.epoch(), epoch, "cached headers are wrong now");
    assert_eq!(
        table.lookup(now + second, link, B),
        (Answer::Ready(new), None)
    );
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.1
//= type=test
//# A mechanism to prevent ARP flooding (repeatedly sending an ARP Request for the same IP address,
//# at a high rate) MUST be included.
#[test]
fn silence_is_asked_three_times_and_reported() {
    let mut pair = pair();
    let from = pair.b.udp_bind(SocketAddr::new(B.into(), 5)).expect("free");
    let to = Some(SocketAddr::new(X.into(), 6));
    assert_eq!(pair.b.udp_send_to(pair.now, from, b"x", to), Ok(1));
    pair.pass(Duration::from_millis(3500));
    assert_eq!(
        sent(&mut pair).len(),
        3,
        "at most one a second, three in all"
    );
    assert_eq!(pair.b.drops().get(NeighbourFailed), 1);
    let refused = pair.b.udp_send_to(pair.now, from, b"x", to);
    assert_eq!(refused, Err(UdpError::HostUnreachable));
    // After a second it is asked again.
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.b.udp_send_to(pair.now, from, b"x", to), Ok(1));
    assert_eq!(sent(&mut pair).len(), 1);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.1
//= type=test
//# An implementation of the Address Resolution Protocol (ARP) [LINK:2] MUST provide a mechanism to
//# flush out-of-date cache entries.
#[test]
fn an_old_answer_is_used_while_it_is_confirmed() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let from = pair.a.udp_bind(SocketAddr::new(A.into(), 5)).expect("free");
    let to = Some(SocketAddr::new(B.into(), 6));
    let link = pair.link_a;
    let send = |p: &mut Pair<WireDriver>| {
        let sent = p.a.udp_send_to(p.now, from, b"x", to);
        p.settle();
        sent
    };
    assert_eq!(send(&mut pair), Ok(1));
    pair.pass(Duration::from_secs(40));
    pair.a.link_mut(link).expect("there").driver.record();
    assert_eq!(send(&mut pair), Ok(1));
    let frames = pair.a.link_mut(link).expect("there").driver.recorded();
    let kinds: Vec<_> = frames.iter().map(|f| [f[12], f[13]]).collect();
    assert_eq!(
        kinds,
        [[8, 6], [8, 0]],
        "a question, and the datagram at once"
    );
    assert_eq!(frames[0][..6], MAC_B.0, "asked directly");
    // The neighbour falls silent: used for three seconds more, then failed.
    pair.pass(Duration::from_secs(40));
    let dead = Faults {
        loss: 1_000_000,
        ..Faults::default()
    };
    pair.a
        .link_mut(link)
        .expect("there")
        .driver
        .set_faults(dead);
    assert_eq!(send(&mut pair), Ok(1));
    pair.pass(Duration::from_millis(3500));
    assert_eq!(send(&mut pair), Err(UdpError::HostUnreachable));
}

fn table() -> (Neighbours, LinkId) {
    let link = pair().link_b;
    (Neighbours::new(HashKey::new([7; 16])), link)
}

fn host(n: u32) -> (Ipv4Addr, MacAddr) {
    let [a, b, c, d] = n.to_be_bytes();
    (
        Ipv4Addr::from_bits(0x0a00_0000 + n),
        MacAddr([2, 1, a, b, c, d]),
    )
}

#[test]
fn l4_a_flood_of_claims_fills_half_the_table_and_evicts_nobody() {
    let (mut table, link) = table();
    let now = Instant::from_millis(1000);
    let friend = host(1_000_000);
    table.lookup(now, link, friend.0);
    assert!(table.claimed(now, link, friend, Claim::Reply));
    for n in 0..65_536 {
        table.claimed(now, link, host(n), Claim::RequestToUs);
        table.claimed(now, link, host(n), Claim::Reply);
        table.claimed(now, link, host(n), Claim::Overheard);
    }
    assert_eq!(table.len(), 512);
    assert_eq!(table.lookup(now, link, friend.0).0, Answer::Ready(friend.1));
}

#[test]
fn l4_our_own_lookups_of_silent_hosts_evict_nobody_in_use() {
    let (mut table, link) = table();
    let mut now = Instant::from_millis(1000);
    let friend = host(1_000_000);
    table.lookup(now, link, friend.0);
    table.claimed(now, link, friend, Claim::Reply);
    let mut asked = 0;
    for n in 0..65_536 {
        now += Duration::from_micros(500);
        asked += usize::from(table.lookup(now, link, host(n).0).1.is_some());
        if n % 100 == 0 {
            let (answer, ask) = table.lookup(now, link, friend.0);
            assert_eq!(answer, Answer::Ready(friend.1));
            if ask.is_some() {
                table.claimed(now, link, friend, Claim::Reply);
            }
            let (mut asks, mut failed) = (Vec::new(), Vec::new());
            table.poll(now, &mut asks, &mut failed);
        }
        assert!(table.len() <= 1024);
    }
    assert!(asked < 20_000, "{asked}: bounded by how fast entries fail");
}

#[test]
fn a_neighbour_moves_only_after_a_while_and_tells() {
    let (mut table, link) = table();
    let now = Instant::from_millis(1000);
    let (address, mac) = host(5);
    table.lookup(now, link, address);
    table.claimed(now, link, (address, mac), Claim::Reply);
    let epoch = table.epoch();
    assert!(!table.claimed(now, link, (address, MAC_X), Claim::Overheard));
    assert!(!table.claimed(now, link, (address, MAC_X), Claim::Reply));
    let later = now + Duration::from_secs(2);
    assert!(
        !table.claimed(later, link, (address, MAC_X), Claim::Reply),
        "not asked for"
    );
    assert!(table.claimed(later, link, (address, MAC_X), Claim::Overheard));
    assert_ne!(table.epoch(), epoch);
    assert_eq!(table.lookup(later, link, address).0, Answer::Ready(MAC_X));
    table.forget(link);
    assert!(table.is_empty());
}
