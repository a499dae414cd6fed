//! VLANs: hosts with the same tag, with another, with none.

use core::net::{IpAddr, SocketAddr};
use std::vec;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::Checksum;
use gannet_wire::vlan::Tag;
use gannet_wire::{EtherType, ethernet};

use super::{MAC_A, MAC_B, at};
use crate::counters::DropReason;
use crate::link::{LinkAddress, LinkConfig};
use crate::tcp::{RecvError, SendError, TcpEvent};
use crate::testing::packet::{datagram, frame};
use crate::testing::{A, A6, B, B6, Pair, WireConfig, WireDriver};
use crate::udp::UdpError;

/// Gives the ends of the wire other settings.
fn tag(pair: &mut Pair<WireDriver>, a: LinkConfig, b: LinkConfig) {
    let hosts = [
        (&mut pair.a, &mut pair.link_a, A6, a),
        (&mut pair.b, &mut pair.link_b, B6, b),
    ];
    for (host, link, six, config) in hosts {
        let addresses = host.link_config(*link).expect("there").addresses.clone();
        let four = addresses.into_iter().filter(|a| a.address.is_ipv4());
        let endpoint = host.remove_link(pair.now, *link).expect("there");
        let addresses = four.collect();
        *link = host.add_link(
            endpoint,
            LinkConfig {
                addresses,
                ..config
            },
        );
        let six = LinkAddress {
            address: six.into(),
            prefix_len: 64,
        };
        host.add_address(*link, six);
    }
}

fn on(vlan: Option<u16>) -> LinkConfig {
    LinkConfig {
        vlan,
        ..LinkConfig::default()
    }
}

/// Frames that the first host has sent, as their tags.
fn tags(pair: &mut Pair<WireDriver>) -> Vec<Option<u16>> {
    let frames = pair.a.link_mut(pair.link_a).expect("there");
    let frames = frames.driver.recorded();
    let tag = |bytes: &Vec<u8>| {
        let (header, at) = ethernet::Header::parse(bytes).expect("a frame");
        let tagged = header.ethertype == EtherType::VLAN;
        tagged.then(|| Tag::parse(&bytes[at..]).expect("a tag").0.id)
    };
    frames.iter().map(tag).collect()
}

#[test]
fn hosts_with_one_tag_or_none() {
    let cases = [
        (None, Checksum::Partial),
        (Some(100), Checksum::Partial),
        (Some(4094), Checksum::Software),
    ];
    for (number, (vlan, checksum)) in cases.into_iter().enumerate() {
        let wire = WireConfig {
            checksum,
            ..WireConfig::default()
        };
        let mut pair = Pair::six(number as u64, &wire);
        tag(&mut pair, on(vlan), on(vlan));
        pair.settle();
        pair.a.link_mut(pair.link_a).expect("there").driver.record();
        for (from, to) in [(A, B), (IpAddr::V6(A6), IpAddr::V6(B6))] {
            datagrams(&mut pair, from, to);
            stream(&mut pair, to);
        }
        let seen = tags(&mut pair);
        assert!(seen.len() > 100 && seen.iter().all(|tag| *tag == vlan));
        let straight = pair.a.tcp_counters().get(TcpEvent::FromTemplate);
        assert!(straight > 0, "the straight line knows tags");
        for (host, link) in [(&mut pair.a, pair.link_a), (&mut pair.b, pair.link_b)] {
            host.link_mut(link).expect("there").pool.invariants();
        }
    }
}

/// One that waits for the neighbour, a batch, and one in fragments.
fn datagrams(pair: &mut Pair<WireDriver>, from: IpAddr, to: IpAddr) {
    let ours = pair.a.udp_bind(at(from, 0)).expect("free");
    let theirs = pair.b.udp_bind(at(to, 7)).expect("free");
    let mut buffer = vec![0; 70_000];
    for size in [1, 1000, 20_000] {
        let data: Vec<u8> = (0..3 * size).map(|i| i as u8).collect();
        let target = Some(at(to, 7));
        let mut rest = &data[..];
        while !rest.is_empty() {
            let sent = pair.a.udp_send_batch(pair.now, ours, target, rest, size);
            rest = &rest[sent.expect("room") * size..];
        }
        pair.settle();
        for part in data.chunks(size) {
            let mut got = Err(UdpError::WouldBlock);
            pair.run_until(|p| {
                got = p.b.udp_recv_from(theirs, &mut buffer);
                got != Err(UdpError::WouldBlock)
            });
            let (n, _, source) = got.expect("a datagram");
            assert_eq!((&buffer[..n], source.ip()), (part, from));
        }
    }
    pair.a.udp_close(ours);
    pair.b.udp_close(theirs);
}

fn stream(pair: &mut Pair<WireDriver>, to: IpAddr) {
    let listener = pair.b.tcp_listen(at(to, 80), 4).expect("free");
    let client = pair.a.tcp_connect(pair.now, None, at(to, 80));
    let client = client.expect("a route");
    pair.run_until(|p| p.b.tcp_can_accept(listener));
    let server = pair.b.tcp_accept(listener).expect("it waits");
    let mut data = vec![0; 500_000];
    Rng::new(1).fill(&mut data);
    let (mut sent, mut got) = (0, Vec::new());
    let mut buffer = vec![0; 40_000];
    pair.run_until(|p| {
        match p.a.tcp_send(p.now, client, &data[sent..]) {
            Ok(n) => sent += n,
            Err(SendError::WouldBlock | SendError::NotConnected) => {}
            Err(error) => panic!("{error:?}"),
        }
        match p.b.tcp_recv(p.now, server, &mut buffer) {
            Ok(n) => got.extend_from_slice(&buffer[..n]),
            Err(RecvError::WouldBlock) => {}
            Err(error) => panic!("{error:?}"),
        }
        got.len() >= data.len()
    });
    assert!(got == data, "what was sent came out");
}

/// What a host does with a datagram behind some tags.
#[test]
fn frames_with_and_without_tags() {
    let stripped = LinkConfig {
        vlan_stripped: true,
        ..on(Some(5))
    };
    let (none, five) = (on(None), on(Some(5)));
    let plain = EtherType::IPV4.0;
    let outer = EtherType::SERVICE_VLAN.0;
    let vlan = EtherType::VLAN.0;
    let other = Some(DropReason::OtherVlan);
    let unknown = Some(DropReason::UnknownEtherType);
    let cases: [(&LinkConfig, &[u16], Option<DropReason>); 15] = [
        (&none, &[plain], None),
        (&none, &[vlan, 0, plain], None),
        (&none, &[vlan, 0x6000, plain], None),
        (&none, &[vlan, 5, plain], other),
        (&none, &[outer, 5, plain], unknown),
        (&none, &[vlan, 0, vlan, 0, plain], unknown),
        (&five, &[plain], other),
        (&five, &[vlan, 5, plain], None),
        (&five, &[vlan, 0xe005, plain], None),
        (&five, &[vlan, 6, plain], other),
        (&five, &[vlan, 0, plain], other),
        (&five, &[vlan, 5, vlan, 5, plain], unknown),
        (&five, &[outer, 5, plain], other),
        (&stripped, &[plain], None),
        (&stripped, &[vlan, 5, plain], other),
    ];
    for (config, types, reason) in cases {
        let mut pair = Pair::wire(1, &WireConfig::default());
        tag(&mut pair, on(None), config.clone());
        let socket = pair.b.udp_bind(at(B, 7)).expect("free");
        pair.settle();
        let before = |pair: &Pair<WireDriver>| reason.map_or(0, |r| pair.b.drops().get(r));
        let dropped = before(&pair);
        let from: SocketAddr = at(A, 9);
        let (first, behind) = types.split_first().expect("a type");
        let mut payload: Vec<u8> = behind.iter().flat_map(|t| t.to_be_bytes()).collect();
        payload.extend_from_slice(&datagram(from, at(B, 7), b"tag"));
        let bytes = frame(MAC_B, MAC_A, EtherType(*first), &payload);
        pair.inject_b(&[bytes]);
        let mut buffer = [0; 9];
        let got = pair.b.udp_recv_from(socket, &mut buffer);
        match reason {
            None => assert_eq!(got, Ok((3, 3, from)), "{types:04x?}"),
            Some(reason) => {
                assert_eq!(got, Err(UdpError::WouldBlock), "{types:04x?}");
                assert_eq!(pair.b.drops().get(reason), dropped + 1, "{types:04x?}");
            }
        }
    }
    // A tag that is cut off.
    for len in 0..4 {
        let mut pair = Pair::wire(1, &WireConfig::default());
        let payload = &[0, 0, 8, 0][..len];
        let runt = frame(MAC_B, MAC_A, EtherType::VLAN, payload);
        pair.inject_b(&[runt]);
        assert_eq!(pair.b.drops().get(DropReason::Runt), 1);
    }
}
