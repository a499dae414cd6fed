//! Robustness L1, L2, I1 to I8, I10 and the choice of paths.

mod duplicates;
mod groups;
mod hostile;
mod listeners;
mod loopback;
mod sources;
mod vlan;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Medium};
use gannet_wire::{EtherType, IpProtocol, MacAddr, ipv4};

use super::route::is_broadcast_of;
use crate::address::contains;
use crate::counters::DropReason::{self, *};
use crate::link::{LinkAddress, LinkConfig};
use crate::testing::packet::{self, datagram, four, frame, mend, with_options};
use crate::testing::{A, B, Pair, Wire, WireConfig, WireDriver};
use crate::udp::{PathMtuDiscovery, UdpError, UdpId, UdpOption};

const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn bare() -> (Pair<WireDriver>, UdpId) {
    let wire = WireConfig {
        medium: Medium::Ip,
        checksum: Checksum::Software,
        ..WireConfig::default()
    };
    let mut pair = Pair::wire(1, &wire);
    let socket = pair.b.udp_bind(at(B, 9)).expect("free");
    (pair, socket)
}

fn good() -> Vec<u8> {
    datagram(at(A, 1), at(B, 9), b"hello")
}

/// `bytes` is dropped for `reason` and for nothing else, unanswered unless `answers` says so, and
/// the next good datagram arrives.
fn dropped(bytes: &[u8], reason: DropReason, answers: usize) {
    let (mut pair, socket) = bare();
    let link = pair.link_b;
    let driver = |p: &mut Pair<WireDriver>| p.b.link_mut(link).expect("there").driver.recorded();
    pair.b.link_mut(link).expect("there").driver.record();
    pair.inject_b(&[bytes.to_vec()]);
    assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}: {bytes:02x?}");
    assert_eq!(pair.b.drops().total(), 1, "{reason:?} only");
    assert_eq!(driver(&mut pair).len(), answers, "answers to {reason:?}");
    let mut buffer = [0; 64];
    pair.inject_b(&[good()]);
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((5, 5, at(A, 1))), "after {reason:?}");
    pair.b.link_mut(link).expect("there").pool.invariants();
}

fn spoil(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = good();
    change(&mut bytes);
    mend(&mut bytes);
    bytes
}

#[test]
fn l1_runt_frames() {
    for len in 1..14 {
        let mut pair = Pair::wire(1, &WireConfig::default());
        let whole = frame(MAC_B, MAC_A, EtherType::IPV4, &good());
        pair.inject_b(&[whole[..len].to_vec()]);
        assert_eq!(pair.b.drops().get(Runt), 1, "{len} bytes");
    }
    for len in 14..34 {
        let mut pair = Pair::wire(1, &WireConfig::default());
        let whole = frame(MAC_B, MAC_A, EtherType::IPV4, &good());
        pair.inject_b(&[whole[..len].to_vec()]);
        assert_eq!(pair.b.drops().get(IpTruncated), 1, "{len} bytes");
    }
}

#[test]
fn l1_frames_for_others_and_of_other_protocols() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let other = MacAddr([2, 0, 0, 0, 0, 9]);
    pair.inject_b(&[
        frame(other, MAC_A, EtherType::IPV4, &good()),
        frame(MAC_B, MAC_A, EtherType(0x88cc), &good()),
        frame(MAC_B, MAC_A, EtherType(46), &good()),
    ]);
    assert_eq!(pair.b.drops().get(ForeignStation), 1);
    assert_eq!(pair.b.drops().get(UnknownEtherType), 2);
}

#[test]
fn l2_padding_is_trimmed_and_missing_bytes_are_noticed() {
    let (mut pair, socket) = bare();
    let mut padded = good();
    padded.extend_from_slice(&[0xee; 40]);
    pair.inject_b(&[padded]);
    let mut buffer = [0; 64];
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((5, 5, at(A, 1))));
    assert_eq!(&buffer[..5], b"hello");
    dropped(&good()[..32], IpTotalLength, 0);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.1
//= type=test
//# A datagram whose version number is not 4 MUST be silently discarded.
#[test]
fn i1_lengths_and_version() {
    dropped(&spoil(|b| b[0] = 0x75), IpVersion, 0);
    dropped(&spoil(|b| b[0] = 0x05), IpVersion, 0);
    for words in 0..5 {
        let mut bytes = good();
        bytes[0] = 0x40 | words;
        dropped(&bytes, IpHeaderLength, 0);
    }
    dropped(&spoil(|b| b[0] = 0x4f), IpTruncated, 0);
    // CVE-2021-31401: total length below the header's.
    for total in [0u16, 1, 19, 34, 1000, 0xffff] {
        let bytes = spoil(|b| b[2..4].copy_from_slice(&total.to_be_bytes()));
        let fits = usize::from(total) >= 20 && usize::from(total) <= bytes.len();
        if !fits {
            dropped(&bytes, IpTotalLength, 0);
        }
    }
    let options_beyond_total = {
        let mut bytes = with_options(&good(), &[1; 40]);
        bytes[2..4].copy_from_slice(&40u16.to_be_bytes());
        mend(&mut bytes);
        bytes
    };
    dropped(&options_beyond_total, IpTotalLength, 0);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.2
//= type=test
//# A host MUST verify the IP header checksum on every received datagram and silently discard every
//# datagram that has a bad checksum.
#[test]
fn i2_header_checksum() {
    for bit in 0..16 {
        let mut bytes = good();
        bytes[10 + bit / 8] ^= 1 << (bit % 8);
        dropped(&bytes, IpChecksum, 0);
    }
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//= type=test
//# The IP and transport layer MUST each interpret those IP options that they understand and
//# silently ignore the others.
#[test]
fn i3_options() {
    let harmless: [&[u8]; 3] = [&[1; 40], &[0, 9, 9, 9], &[148, 4, 0, 0]];
    for options in harmless {
        let (mut pair, socket) = bare();
        pair.inject_b(&[with_options(&good(), options)]);
        let got = pair.b.udp_recv_from(socket, &mut [0; 8]);
        assert_eq!(got, Ok((5, 5, at(A, 1))), "{options:?}");
    }
    let malformed: [&[u8]; 4] = [&[7, 0, 0, 0], &[7, 1, 4, 0], &[7, 9, 4, 0], &[68, 0, 5, 0]];
    for options in malformed {
        dropped(&with_options(&good(), options), IpOptions, 0);
    }
    let route = |kind| [kind, 7, 4, 192, 0, 2, 9, 0];
    dropped(&with_options(&good(), &route(131)), IpSourceRoute, 0);
    dropped(&with_options(&good(), &route(137)), IpSourceRoute, 0);
    let two = [route(131), route(137)].concat();
    dropped(&with_options(&good(), &two), IpSourceRoute, 0);
    // CVE-2019-12256: an error about a packet with options is not built at all.
    let closed = datagram(at(A, 1), at(B, 10), b"x");
    dropped(&with_options(&closed, &[1; 40]), UdpNoSocket, 0);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//= type=test
//# A host MUST silently discard an incoming datagram that is not destined for the host.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//= type=test
//# A host MUST silently discard an incoming datagram containing an IP source address that is
//# invalid by the rules of this section.
#[test]
fn i4_sources_and_destinations() {
    let bad_sources = [
        ([0, 0, 0, 0], IpSource),
        ([0, 1, 2, 3], IpSource),
        ([127, 0, 0, 1], IpSource),
        ([224, 0, 0, 1], IpSource),
        ([240, 0, 0, 1], IpSource),
        ([255, 255, 255, 255], IpSource),
        ([192, 0, 2, 255], IpSource),
        (four(B).octets(), IpLand),
    ];
    for (source, reason) in bad_sources {
        let bytes = datagram(at(source.into(), 1), at(B, 9), b"hello");
        dropped(&bytes, reason, 0);
    }
    for destination in [[0, 0, 0, 0], [224, 0, 0, 1], [127, 0, 0, 1], [192, 0, 2, 3]] {
        let bytes = datagram(at(A, 1), at(destination.into(), 9), b"hello");
        dropped(&bytes, IpNotForUs, 0);
    }
    for destination in [[255, 255, 255, 255], [192, 0, 2, 255]] {
        let bytes = packet::packet(A, destination.into(), IpProtocol::TCP, &[0; 20]);
        dropped(&bytes, TcpBroadcast, 0);
        let bytes = datagram(at(A, 1), at(destination.into(), 10), b"nobody");
        dropped(&bytes, UdpNoSocket, 0);
    }
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-2.4
//= type=test
//# The packet receive interface between the IP layer and the link layer MUST include a flag to
//# indicate whether the incoming packet was addressed to a link-layer broadcast address.
#[test]
fn i4_one_host_in_a_frame_for_many() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    pair.inject_b(&[frame(MacAddr::BROADCAST, MAC_A, EtherType::IPV4, &good())]);
    assert_eq!(pair.b.drops().get(IpNotForUs), 1);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
//= type=test
//# A host MUST NOT discard a datagram just because it was received with TTL less than 2.
#[test]
fn i5_time_to_live_of_zero_is_for_routers() {
    for ttl in [0, 1] {
        let (mut pair, socket) = bare();
        pair.inject_b(&[spoil(|b| b[8] = ttl)]);
        assert!(pair.b.udp_recv_from(socket, &mut [0; 8]).is_ok());
    }
}

#[test]
fn i6_flags() {
    let (mut pair, socket) = bare();
    pair.inject_b(&[spoil(|b| b[6] = 0x80)]);
    assert!(pair.b.udp_recv_from(socket, &mut [0; 8]).is_ok());
    // DF and MF at once are a fragment like any other; this one does not end where one can.
    for (fragment, reason) in [
        (0x2000u16, FragmentLength),
        (0x6000, FragmentLength),
        (0x1fff, FragmentTooLong),
        (0x3fff, FragmentLength),
    ] {
        let bytes = spoil(|b| b[6..8].copy_from_slice(&fragment.to_be_bytes()));
        dropped(&bytes, reason, 0);
    }
}

#[test]
fn i7_packets_in_packets_are_not_opened() {
    for protocol in [4, 41, 47] {
        let bytes = packet::packet(A, B, IpProtocol(protocol), &good());
        dropped(&bytes, DropReason::IpProtocol, 1);
    }
}

#[test]
fn i8_unknown_protocols_are_answered_at_a_limited_rate() {
    let (mut pair, _) = bare();
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    let flood: Vec<_> = (0..200)
        .map(|n| packet::packet(A, B, IpProtocol(143), &[n; 9]))
        .collect();
    pair.inject_b(&flood);
    let sent = pair.b.link_mut(link).expect("there").driver.recorded();
    assert_eq!(sent.len(), 1, "one a second per target");
    let answer = &sent[0][ipv4::HEADER_LEN..];
    assert_eq!(answer[..2], [3, 2]);
    assert_eq!(answer[8..], flood[0], "unchanged");
    assert_eq!(pair.b.drops().get(IcmpLimited), 199);
}

#[test]
fn i10_identification_tells_nothing() {
    let (mut pair, socket) = bare();
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    for _ in 0..3 {
        let sent = pair.b.udp_send_to(pair.now, socket, b"x", Some(at(A, 5)));
        assert_eq!(sent, Ok(1));
    }
    for bytes in pair.b.link_mut(link).expect("there").driver.recorded() {
        assert_eq!(bytes[4..8], [0, 0, 0x40, 0]);
    }
}

#[test]
fn a_channel_takes_packets_from_its_peer_alone() {
    let (left, _right) = Wire::ends(
        1,
        &WireConfig {
            medium: Medium::Ip,
            ..WireConfig::default()
        },
    );
    let (mut pair, _) = bare();
    let own = LinkAddress {
        address: B,
        prefix_len: 24,
    };
    let config = LinkConfig {
        addresses: vec![own],
        peer: Some(IpAddr::from([192, 0, 2, 77])),
        ..LinkConfig::default()
    };
    let id = pair.b.add_link(left, config);
    let endpoint = pair.b.link_mut(id).expect("there");
    endpoint.driver.inject(&good());
    pair.settle();
    assert_eq!(pair.b.drops().get(IpSpoofed), 1);
}

#[test]
fn random_bytes_are_dropped_and_cost_no_memory() {
    let mut rng = Rng::new(0x5eed);
    for medium in [Medium::Ip, Medium::Ethernet] {
        let mut pair = Pair::wire(
            1,
            &WireConfig {
                medium,
                ..WireConfig::default()
            },
        );
        let link = pair.link_b;
        let free = |p: &Pair<WireDriver>| p.b.link(link).expect("there").pool.free_blocks();
        pair.settle();
        let before = free(&pair);
        for _ in 0..3000 {
            let mut bytes = good();
            if medium == Medium::Ethernet {
                bytes = frame(MAC_B, MAC_A, EtherType::IPV4, &bytes);
            }
            bytes.truncate(1 + rng.below(bytes.len() as u64) as usize);
            for _ in 0..rng.below(8) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u32() as u8;
            }
            pair.inject_b(&[bytes]);
        }
        pair.b.link(link).expect("there").pool.invariants();
        assert!(before - free(&pair) <= 2, "open shared blocks at most");
    }
}

#[test]
fn prefixes() {
    let own = |address: [u8; 4], prefix_len| LinkAddress {
        address: address.into(),
        prefix_len,
    };
    for (net, len, address, inside) in [
        ([10, 0, 0, 0], 8, [10, 255, 1, 2], true),
        ([10, 0, 0, 0], 8, [11, 0, 0, 0], false),
        ([0, 0, 0, 0], 0, [203, 0, 113, 9], true),
        ([192, 0, 2, 1], 32, [192, 0, 2, 1], true),
        ([192, 0, 2, 1], 32, [192, 0, 2, 0], false),
    ] {
        assert_eq!(contains(net.into(), len, address.into()), inside);
    }
    assert!(is_broadcast_of(
        &own([10, 1, 2, 3], 8),
        [10, 255, 255, 255].into()
    ));
    assert!(!is_broadcast_of(
        &own([10, 1, 2, 3], 8),
        [10, 1, 2, 255].into()
    ));
    assert!(!is_broadcast_of(
        &own([10, 0, 0, 0], 31),
        [10, 0, 0, 1].into()
    ));
    assert!(!is_broadcast_of(
        &own([10, 0, 0, 1], 32),
        [10, 0, 0, 1].into()
    ));
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//= type=test
//# A host MUST support the subnet extensions to IP [IP:3].
#[test]
fn the_longest_prefix_decides() {
    let (mut pair, socket) = bare();
    let wire = WireConfig {
        medium: Medium::Ip,
        ..WireConfig::default()
    };
    let (second, _far) = Wire::ends(3, &wire);
    let own = LinkAddress {
        address: IpAddr::from([10, 0, 0, 1]),
        prefix_len: 8,
    };
    let config = LinkConfig {
        addresses: vec![own],
        peer: None,
        ..LinkConfig::default()
    };
    let other = pair.b.add_link(second, config);
    let link = pair.link_b;
    let far = IpAddr::from([203, 0, 113, 9]);
    let leaves_by = |p: &mut Pair<WireDriver>, to: IpAddr| {
        for id in [link, other] {
            p.b.link_mut(id).expect("there").driver.record();
        }
        let wild =
            p.b.udp_bind(at(IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0))
                .expect("free");
        p.b.udp_send_to(p.now, wild, b"x", Some(at(to, 7)))?;
        p.b.udp_close(wild);
        let first = p.b.link_mut(link).expect("there").driver.recorded();
        Ok::<_, UdpError>(if first.is_empty() { other } else { link })
    };
    assert_eq!(leaves_by(&mut pair, A), Ok(link));
    assert_eq!(leaves_by(&mut pair, [10, 9, 9, 9].into()), Ok(other));
    assert_eq!(leaves_by(&mut pair, far), Err(UdpError::NoRoute));
    pair.b.add_route(
        IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
        0,
        Some(A),
        link,
    );
    assert_eq!(leaves_by(&mut pair, far), Ok(link));
    pair.b.add_route(
        [203, 0, 113, 0].into(),
        24,
        Some([10, 0, 0, 2].into()),
        other,
    );
    assert_eq!(leaves_by(&mut pair, far), Ok(other));
    pair.b.add_route(far, 32, Some(A), link);
    assert_eq!(leaves_by(&mut pair, far), Ok(link));
    assert!(pair.b.remove_route(far, 32, link));
    assert_eq!(leaves_by(&mut pair, far), Ok(other));
    for nowhere in [B, [127, 0, 0, 1].into(), [10, 0, 0, 1].into()] {
        assert_eq!(leaves_by(&mut pair, nowhere), Err(UdpError::NoRoute));
    }
    // From an address of the first link the first link is taken, though the other has a longer
    // prefix.
    pair.b.link_mut(link).expect("there").driver.recorded();
    let sent = pair.b.udp_send_to(pair.now, socket, b"x", Some(at(far, 7)));
    assert_eq!(sent, Ok(1));
    assert_eq!(
        pair.b
            .link_mut(link)
            .expect("there")
            .driver
            .recorded()
            .len(),
        1
    );
}

//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//= type=test
//# An attempt to detect an increase (by sending a packet larger than the current estimate) must not
//# be done less than 5 minutes after a Packet Too Big message has been received for the given path.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//= type=test
//# A host MUST never reduce its estimate of the Path MTU below 68 octets.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//= type=test
//# An attempt to detect an increase (by sending a datagram larger than the current estimate) MUST
//# NOT be done less than 5 minutes after a Datagram Too Big message has been received for the given
//# destination, or less than 1 minute after a previous, successful attempted increase.
#[test]
fn c5_path_mtu_floor_and_expiry() {
    let (mut pair, socket) = bare();
    pair.b.udp_connect(socket, Some(at(A, 5))).expect("a route");
    let whole_only = UdpOption::PathMtu(PathMtuDiscovery::Do);
    assert!(pair.b.udp_set_option(socket, whole_only));
    let quoted = datagram(at(B, 9), at(A, 5), &[0; 8]);
    let needed = |mtu: u16| {
        let [a, b] = mtu.to_be_bytes();
        packet::icmp(A, B, (3, 4, [0, 0, a, b]), &quoted[..28])
    };
    let most = |p: &mut Pair<WireDriver>| {
        let fits = |p: &mut Pair<WireDriver>, len: usize| {
            p.settle();
            p.b.udp_send_to(p.now, socket, &vec![0; len], None).is_ok()
        };
        (1..1480)
            .rev()
            .find(|&len| fits(p, len))
            .expect("some length")
    };
    assert_eq!(most(&mut pair), 1472);
    pair.inject_b(&[needed(1000)]);
    assert_eq!(most(&mut pair), 972);
    pair.inject_b(&[needed(1400)]);
    assert_eq!(most(&mut pair), 972, "never raised");
    for mtu in [552, 551, 68, 67, 1] {
        pair.inject_b(&[needed(mtu)]);
        assert_eq!(most(&mut pair), 524, "{mtu}: floor 552");
    }
    pair.pass(Duration::from_secs(601));
    assert_eq!(most(&mut pair), 1472, "forgotten after 600 s");
    pair.inject_b(&[needed(0)]);
    assert_eq!(most(&mut pair), 1464, "the next plateau, 1492");
}
