//! Answers to a neighbour whose station is not known yet (RFC 4861 section 7.2.2, RFC 1122 section
//! 2.3.2.2): they wait until it is.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::vec::Vec;

use gannet_wire::arp::{self, Operation};
use gannet_wire::checksum::sum;
use gannet_wire::icmpv4;
use gannet_wire::nd::{Message, NdOption};
use gannet_wire::tcp::{self, Flags, Options};
use gannet_wire::{EtherType, IpProtocol, MacAddr, icmpv6};

use super::peer::{ACK, RST, SYN};
use crate::address::pseudo;
use crate::counters::DropReason;
use crate::testing::packet::{frame, packet, six};
use crate::testing::{B, B6, Pair, WireConfig, WireDriver};

const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MAC_X: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const X: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
const X6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x99);

/// Both ends of a packet from the neighbour, in either family.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(X.into(), B), (X6.into(), B6.into())]
}

fn ethertype(address: IpAddr) -> EtherType {
    match address {
        IpAddr::V4(_) => EtherType::IPV4,
        IpAddr::V6(_) => EtherType::IPV6,
    }
}

/// A pair of hosts with both families; what the second sends is recorded.
fn pair() -> Pair<WireDriver> {
    let mut pair = Pair::six(1, &WireConfig::default());
    pair.pass(Duration::from_secs(5));
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    pair
}

/// A segment from port `from` of the neighbour to a port on which nothing listens.
fn segment((source, destination): (IpAddr, IpAddr), from: u16, flags: Flags) -> Vec<u8> {
    let header = tcp::Header {
        src_port: from,
        dst_port: 81,
        seq: 1000,
        ack: 5000,
        reserved: 0,
        flags,
        window: 1000,
        checksum: 0,
        urgent: 0,
    };
    let mut bytes = std::vec![0; tcp::HEADER_LEN];
    header.emit(&Options::NONE, &mut bytes).expect("room");
    let over = pseudo(source, destination, IpProtocol::TCP, bytes.len() as u32);
    let checksum = sum(&bytes).combine(over, false).finish();
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    framed(source, packet(source, destination, IpProtocol::TCP, &bytes))
}

fn echo((source, destination): (IpAddr, IpAddr)) -> Vec<u8> {
    let text = b"data";
    let mut bytes = [0; 8];
    if source.is_ipv4() {
        let message = icmpv4::Message::EchoRequest { ident: 1, seq: 2 };
        message.emit(sum(text), &mut bytes).expect("room");
        let bytes = [&bytes[..], text].concat();
        return framed(
            source,
            packet(source, destination, IpProtocol::ICMP, &bytes),
        );
    }
    let message = icmpv6::Message::EchoRequest { ident: 1, seq: 2 };
    let over = pseudo(source, destination, IpProtocol::ICMPV6, 12);
    message
        .emit(sum(text).combine(over, false), &mut bytes)
        .expect("room");
    let bytes = [&bytes[..], text].concat();
    framed(
        source,
        packet(source, destination, IpProtocol::ICMPV6, &bytes),
    )
}

fn framed(source: IpAddr, packet: Vec<u8>) -> Vec<u8> {
    frame(MAC_B, MAC_X, ethertype(source), &packet)
}

/// The neighbour says where it is.
fn answer(source: IpAddr) -> Vec<u8> {
    if source.is_ipv4() {
        let reply = arp::Packet {
            operation: Operation::Reply,
            sender_mac: MAC_X,
            sender_ip: X,
            target_mac: MAC_B,
            target_ip: crate::testing::packet::four(B),
        };
        let mut bytes = [0; arp::PACKET_LEN];
        reply.emit(&mut bytes).expect("28 bytes");
        return frame(MAC_B, MAC_X, EtherType::ARP, &bytes);
    }
    let message = Message::NeighbourAdvertisement {
        router: false,
        solicited: true,
        overriding: true,
        target: X6,
    };
    let mut bytes = [0; 100];
    let options = [NdOption::TargetLinkAddress(MAC_X)];
    let len = message.emit(X6, B6, &options, &mut bytes).expect("room");
    let packet = six(X6, B6, (IpProtocol::ICMPV6, 255), &bytes[..len]);
    framed(source, packet)
}

/// What the second host has sent to the neighbour: the IP protocol and what follows the IP header.
fn sent(pair: &mut Pair<WireDriver>) -> Vec<(u8, Vec<u8>)> {
    let link = pair.link_b;
    let frames = pair.b.link_mut(link).expect("there").driver.recorded();
    let to_x = frames.iter().filter(|f| f[..6] == MAC_X.0);
    to_x.filter_map(|f| match u16::from_be_bytes([f[12], f[13]]) {
        0x0800 => Some((f[23], f[34..].to_vec())),
        0x86dd => Some((f[20], f[54..].to_vec())),
        _ => None,
    })
    .collect()
}

#[test]
fn a_reset_waits_for_its_neighbour() {
    for ends in families() {
        let mut pair = pair();
        pair.inject_b(&[segment(ends, 4000, SYN), segment(ends, 4001, ACK)]);
        assert_eq!(sent(&mut pair), [], "{ends:?}: its station is not known");
        pair.inject_b(&[answer(ends.0)]);
        let out = sent(&mut pair);
        let flags = |n: usize| {
            let (header, _) = tcp::Header::parse(&out[n].1).expect("a segment");
            (header.dst_port, header.flags, header.seq)
        };
        assert_eq!(out.len(), 2, "{ends:?}");
        assert_eq!(flags(0), (4000, RST | ACK, 0), "{ends:?}");
        assert_eq!(flags(1), (4001, RST, 5000), "{ends:?}");
        for (_, bytes) in &out {
            let over = pseudo(ends.1, ends.0, IpProtocol::TCP, bytes.len() as u32);
            assert_eq!(sum(bytes).combine(over, false).finish(), 0, "checksum");
        }
    }
}

#[test]
fn an_echo_reply_waits_for_its_neighbour() {
    for ends in families() {
        let mut pair = pair();
        pair.inject_b(&[echo(ends)]);
        assert_eq!(sent(&mut pair), [], "{ends:?}: its station is not known");
        pair.inject_b(&[answer(ends.0)]);
        let out = sent(&mut pair);
        assert_eq!(out.len(), 1, "{ends:?}");
        assert_eq!(out[0].1[8..], *b"data", "{ends:?}");
        let link = pair.link_b;
        pair.b.link_mut(link).expect("there").pool.invariants();
    }
}

/// Forged sources fill no more than half of the queue, and their resets go when nothing answers.
#[test]
fn answers_leave_room_for_what_programs_send() {
    for ends in families() {
        let mut pair = pair();
        let flood: Vec<_> = (0..400).map(|n| segment(ends, 5000 + n, SYN)).collect();
        pair.inject_b(&flood);
        let dropped = pair.b.drops().get(DropReason::NeighbourQueueFull);
        assert_eq!(dropped, 400 - 64, "{ends:?}");
        pair.pass(Duration::from_secs(10));
        let dropped = pair.b.drops().get(DropReason::NeighbourFailed);
        assert_eq!(dropped, 64, "{ends:?}");
        assert_eq!(sent(&mut pair), [], "{ends:?}");
    }
}
