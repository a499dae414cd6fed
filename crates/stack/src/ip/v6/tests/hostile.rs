//! Robustness L6, I7, 6.2, 6.4 and C1 once more: routers from afar, packets in packets, fragments
//! of fragments, quotes that are cut.

use super::neighbours::message;
use super::*;
use crate::ip::v6::solicit::group_station;
use gannet_wire::nd;

/// Advertisements of routers and redirects that came through a router, or from nobody's link.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.2
//= type=test
//# A node MUST silently discard any received Router Advertisement messages that do not satisfy all
//# of the following validity checks:
#[test]
fn l6_what_comes_from_afar() {
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
    let advertisement = nd::Message::RouterAdvertisement {
        hop_limit: 1,
        managed: false,
        other: false,
        router_lifetime: 1800,
        reachable_time: 0,
        retrans_timer: 0,
    };
    let redirect = nd::Message::Redirect {
        target: router,
        destination: A6,
    };
    let all = nd::ALL_NODES;
    let cases = [
        (
            message((router, all), 254, &advertisement, &[]),
            DiscoveryHopLimit,
        ),
        (
            message((A6, all), 255, &advertisement, &[]),
            DiscoveryBadSender,
        ),
        (
            message((router, all), 254, &redirect, &[]),
            DiscoveryHopLimit,
        ),
        (message((A6, all), 255, &redirect, &[]), Redirect),
        (message((router, all), 255, &redirect, &[]), Redirect),
    ];
    for (packet, reason) in cases {
        let (mut pair, socket) = ethernet_autoconf();
        pair.inject_b(&[framed(group_station(all), &packet)]);
        assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}");
        assert!(pair.b.ip().six.routers.routers().is_empty(), "{reason:?}");
        let out = pair.b.udp_send_to(pair.now, socket, b"x", Some(at(A6, 5)));
        assert_eq!(out, Ok(1), "the way to a neighbour is what it was");
    }
}

/// As `ethernet`, and the host listens to routers.
fn ethernet_autoconf() -> (Pair<WireDriver>, UdpId) {
    let (mut pair, socket) = ethernet();
    let link = pair.link_b;
    pair.b.autoconfigure(link);
    (pair, socket)
}

#[test]
fn i7_packets_in_packets_are_not_opened() {
    let four = crate::testing::packet::datagram(
        "192.0.2.1:1".parse().expect("an address"),
        "192.0.2.2:9".parse().expect("an address"),
        b"hello",
    );
    for (protocol, inner) in [(4, four.clone()), (41, good()), (47, good())] {
        let bytes = six(A6, B6, (IpProtocol(protocol), 64), &inner);
        let answers = dropped(&bytes, DropReason::IpProtocol);
        let problem = Message::ParameterProblem {
            code: Problem::NEXT_HEADER,
            pointer: 6,
        };
        assert_eq!(told(&answers, &bytes), problem, "{protocol}");
    }
}

/// Every single flag and every length of each extension header: nothing loops, nothing is read
/// beyond the packet, and the next packet is taken.
#[test]
fn six_2_headers_of_every_length() {
    for next in [0, 43, 44, 60, 51, 135, 139, 140, 253] {
        for len in 0..=255 {
            let (mut pair, socket) = bare();
            pair.inject_b(&[with_chain(next, &[17, len, 1, 4, 0, 0, 0, 0])]);
            pair.inject_b(&[with_chain(next, &[next, len, 0, 0, 0, 0, 0, 0])]);
            let mut buffer = [0; 64];
            while pair.b.udp_recv_from(socket, &mut buffer).is_ok() {}
            pair.inject_b(&[good()]);
            let got = pair.b.udp_recv_from(socket, &mut buffer);
            assert_eq!(got, Ok((5, 5, at(A6, 1))), "{next} {len}");
        }
    }
}

fn fragment(part: &[u8], (offset, more): (usize, bool), ident: u8, next: u8) -> Vec<u8> {
    let word = ((offset / 8) << 3) as u16 | u16::from(more);
    let header = [&[next, 0][..], &word.to_be_bytes(), &[0, 0, 0, ident]].concat();
    six(
        A6,
        B6,
        (IpProtocol::FRAGMENT, 64),
        &[&header[..], part].concat(),
    )
}

/// RFC 6946: an atomic fragment is no part of a datagram in pieces that has its identification.
#[test]
fn six_4_an_atomic_fragment_stands_alone() {
    let whole = datagram(at(A6, 1), at(B6, 9), &[7; 1000]);
    let part = &whole[ipv6::HEADER_LEN..];
    let atomic = with_chain(44, &[17, 0, 0, 0, 0, 0, 0, 9]);
    let (mut pair, socket) = bare();
    let mut buffer = [0; 2000];
    pair.inject_b(&[fragment(&part[..504], (0, true), 9, 17), atomic]);
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((5, 5, at(A6, 1))), "the one alone");
    pair.inject_b(&[fragment(&part[504..], (504, false), 9, 17)]);
    let got = pair.b.udp_recv_from(socket, &mut buffer);
    assert_eq!(got, Ok((1000, 1000, at(A6, 1))), "the pieces");
    assert_eq!(pair.b.drops().total(), 0);
}

/// A fragment header within a fragment is not looked at a second time.
#[test]
fn six_4_a_fragment_of_a_fragment() {
    let whole = good();
    let part = &whole[ipv6::HEADER_LEN..];
    for inner in [[17, 0, 0, 0, 0, 0, 0, 5], [17, 0, 0, 1, 0, 0, 0, 5]] {
        let nested = [&inner[..], part].concat();
        let (mut pair, socket) = bare();
        // within an atomic one, in the first of two, and in what was put together
        pair.inject_b(&[
            fragment(&nested, (0, false), 9, 44),
            fragment(&nested[..16], (0, true), 8, 44),
            fragment(&nested[16..], (16, false), 8, 44),
        ]);
        let got = pair.b.udp_recv_from(socket, &mut [0; 64]);
        assert_eq!(got, Err(UdpError::WouldBlock), "{inner:?}");
        assert!(pair.b.drops().total() >= 2);
    }
}

/// C1: errors about packets of which too little is quoted, or what nobody could have sent.
#[test]
fn c1_quotes_that_are_cut_or_bad() {
    let quoted = datagram(at(B6, 9), at(A6, 5), &[7; 30]);
    let mut quotes: Vec<Vec<u8>> = (0..48).map(|len| quoted[..len].to_vec()).collect();
    for (place, byte) in [
        (0, 0x45),
        (6, 200),
        (6, 58),
        (6, 44),
        (8, 0xff),
        (24, 0xff),
        (41, 8),
    ] {
        let mut bad = quoted.clone();
        bad[place] = byte;
        quotes.push(bad);
    }
    for quote in quotes {
        for (kind, code, rest) in [(1, 4, 0), (2, 0, 1280), (3, 0, 0), (4, 1, 6)] {
            let (mut pair, socket) = bare();
            pair.b
                .udp_connect(socket, Some(at(A6, 5)))
                .expect("a route");
            let rest = u32::to_be_bytes(rest);
            pair.inject_b(&[icmp_six(A6, B6, (kind, code, rest), &quote)]);
            assert_eq!(pair.b.udp_take_error(socket), None, "{kind} {quote:02x?}");
            assert!(pair.b.drops().total() >= 1, "{kind} {quote:02x?}");
            assert!(sent(&mut pair).is_empty());
        }
    }
}
