//! Robustness I3, I4, I7 and I9 once more, where packets lie across layers; and what answers cost.

use super::*;
use crate::testing::packet::{fragments, icmp};

fn recording() -> (Pair<WireDriver>, UdpId) {
    let (mut pair, socket) = bare();
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    (pair, socket)
}

fn recorded(pair: &mut Pair<WireDriver>) -> Vec<Vec<u8>> {
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.recorded()
}

/// An echo of a packet with options has none: neither is a route turned round nor a record or a
/// time stamp written (CVE-2019-12256).
#[test]
fn i3_options_are_never_reflected() {
    let request = icmp(A, B, (8, 0, [1, 2, 3, 4]), b"data");
    let lists: [&[u8]; 4] = [
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[68, 8, 5, 0, 0, 0, 0, 0],
        &[148, 4, 0, 0],
        &[1; 40],
    ];
    for options in lists {
        let (mut pair, _) = recording();
        pair.inject_b(&[with_options(&request, options)]);
        let answers = recorded(&mut pair);
        assert_eq!(answers.len(), 1, "{options:?}");
        assert_eq!(answers[0][0], 0x45, "{options:?}");
        assert_eq!(answers[0].len(), request.len(), "{options:?}");
    }
}

/// A packet from us to us on the wire, of every protocol, to a port that somebody listens on.
#[test]
fn i4_land_of_every_protocol() {
    let mut syn = [0; 20];
    syn[..4].copy_from_slice(&[0, 80, 0, 80]);
    syn[12..14].copy_from_slice(&[0x50, 2]);
    let echo = icmp(B, B, (8, 0, [0; 4]), b"?");
    let packets = [
        packet::packet(B, B, IpProtocol::TCP, &syn),
        datagram(at(B, 9), at(B, 9), b"!"),
        echo,
        packet::packet(B, B, IpProtocol(200), b"????"),
    ];
    for bytes in packets {
        let (mut pair, _) = recording();
        pair.b.tcp_listen(at(B, 80), 4).expect("free");
        pair.inject_b(&[bytes]);
        assert_eq!(pair.b.drops().get(IpLand), 1);
        assert!(recorded(&mut pair).is_empty());
        assert_eq!(pair.b.tcp_connections(), 0);
    }
}

/// What is put together is a packet like any other: one within it stays closed, and so does a
/// fragment within it.
#[test]
fn i9_a_fragment_of_a_fragment_is_not_opened() {
    let inner = fragments(&datagram(at(A, 1), at(B, 9), &[7; 3000]), 9, 1480);
    let outer = packet::packet(A, B, IpProtocol(4), &inner[0]);
    let (mut pair, socket) = recording();
    pair.inject_b(&fragments(&outer, 5, 744));
    assert_eq!(pair.b.drops().get(DropReason::IpProtocol), 1);
    pair.pass(Duration::from_secs(61));
    assert_eq!(pair.b.drops().get(FragmentTimeout), 0, "nothing waited");
    let got = pair.b.udp_recv_from(socket, &mut [0; 8]);
    assert_eq!(got, Err(UdpError::WouldBlock));
}

/// Bytes behind the total length of each fragment belong to nobody (CVE-2020-11896).
#[test]
fn i9_what_lies_behind_a_fragment_is_no_part_of_it() {
    let data: Vec<u8> = (0..3000).map(|n| n as u8).collect();
    let mut pieces = fragments(&datagram(at(A, 1), at(B, 9), &data), 5, 752);
    for (n, piece) in pieces.iter_mut().enumerate() {
        piece.extend(vec![0xee; [0, 8, 100, 500][n]]);
    }
    let (mut pair, socket) = bare();
    pair.inject_b(&pieces);
    let mut buffer = [0; 4000];
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((3000, 3000, at(A, 1))));
    assert!(buffer[..3000] == data[..]);
}

/// The transport's own length says more than was put together, or less than its header.
#[test]
fn i9_the_whole_is_as_long_as_it_is() {
    for claimed in [0u16, 7, 3009, 65_535] {
        let mut whole = datagram(at(A, 1), at(B, 9), &[7; 3000]);
        whole[24..26].copy_from_slice(&claimed.to_be_bytes());
        let (mut pair, socket) = recording();
        pair.inject_b(&fragments(&whole, 5, 1480));
        assert_eq!(pair.b.drops().get(UdpLength), 1, "{claimed}");
        assert!(recorded(&mut pair).is_empty());
        let got = pair.b.udp_recv_from(socket, &mut [0; 8]);
        assert_eq!(got, Err(UdpError::WouldBlock));
    }
}

/// Amplification: whoever writes somebody else's address into packets makes us send that host one
/// packet for each, and few bytes more than it took. An error is longer by its own two headers; the
/// answer to a SYN by the one option that it always has.
#[test]
fn one_answer_and_hardly_longer_than_the_question() {
    let tcp = |flags: u8, text: &[u8]| {
        let mut bytes = vec![0; 20];
        bytes[..4].copy_from_slice(&[4, 0, 0, 80]);
        bytes[12..14].copy_from_slice(&[0x50, flags]);
        bytes.extend_from_slice(text);
        let total = gannet_wire::checksum::sum(&bytes).combine(
            crate::address::pseudo(A, B, IpProtocol::TCP, bytes.len() as u32),
            false,
        );
        bytes[16..18].copy_from_slice(&total.finish().to_be_bytes());
        packet::packet(A, B, IpProtocol::TCP, &bytes)
    };
    let questions = [
        (tcp(0x02, b""), 4), // SYN to a listener
        (tcp(0x02, &[1; 500]), 4),
        (tcp(0x10, b""), 0), // what nobody knows
        (tcp(0x11, b"text"), 0),
        (tcp(0x12, b""), 0),
        (datagram(at(A, 1), at(B, 10), b""), 28),
        (datagram(at(A, 1), at(B, 10), &[1; 1400]), 28),
        (packet::packet(A, B, IpProtocol(200), &[1; 40]), 28),
        (icmp(A, B, (8, 0, [0; 4]), &[1; 1000]), 0),
    ];
    for (question, more) in questions {
        let (mut pair, _) = recording();
        pair.b.tcp_listen(at(B, 80), 4).expect("free");
        pair.inject_b(core::slice::from_ref(&question));
        let answers = recorded(&mut pair);
        let lens: Vec<_> = answers.iter().map(Vec::len).collect();
        assert_eq!(lens.len(), 1, "{:02x?}", &question[20..34]);
        let most = question.len() + more;
        assert!(lens[0] <= most, "{} for {}", lens[0], question.len());
    }
}
