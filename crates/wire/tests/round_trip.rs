//! parse(emit(x)) = x for every header, and a buffer too small is left alone. Seeds are fixed.

use gannet_wire::checksum;
use gannet_wire::icmpv4::{Message, Unreachable};
use gannet_wire::tcp::{self, Flags, Options};
use gannet_wire::virtio_net::{self, Segmentation};
use gannet_wire::{EtherType, IpProtocol, MacAddr, arp, ethernet, ipv4, udp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::net::Ipv4Addr;

fn config() -> Config {
    Config {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(0x6761_6e6e_6574),
        failure_persistence: None,
        ..Config::default()
    }
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn arp_packet() -> impl Strategy<Value = arp::Packet> {
    let operation = prop_oneof![Just(arp::Operation::Request), Just(arp::Operation::Reply)];
    (
        operation,
        mac(),
        any::<Ipv4Addr>(),
        mac(),
        any::<Ipv4Addr>(),
    )
        .prop_map(
            |(operation, sender_mac, sender_ip, target_mac, target_ip)| arp::Packet {
                operation,
                sender_mac,
                sender_ip,
                target_mac,
                target_ip,
            },
        )
}

fn ipv4_header() -> impl Strategy<Value = ipv4::Header> {
    let numbers = (
        any::<u8>(),
        20..=u16::MAX,
        any::<u16>(),
        0..0x2000_u16,
        any::<u8>(),
        any::<u8>(),
    );
    let flags = any::<[bool; 3]>();
    (numbers, flags, any::<Ipv4Addr>(), any::<Ipv4Addr>()).prop_map(
        |((tos, total_len, ident, fragment_offset, ttl, protocol), flags, src, dst)| ipv4::Header {
            tos,
            total_len,
            ident,
            reserved_flag: flags[0],
            dont_fragment: flags[1],
            more_fragments: flags[2],
            fragment_offset,
            ttl,
            protocol: IpProtocol(protocol),
            src,
            dst,
            options: ipv4::OptionReport::default(),
        },
    )
}

fn icmp_message() -> impl Strategy<Value = Message> {
    let pair = (any::<u16>(), any::<u16>());
    prop_oneof![
        pair.prop_map(|(ident, seq)| Message::EchoRequest { ident, seq }),
        pair.prop_map(|(ident, seq)| Message::EchoReply { ident, seq }),
        any::<u16>().prop_map(|next_hop_mtu| Message::DestinationUnreachable {
            code: Unreachable::FRAGMENTATION_NEEDED,
            next_hop_mtu,
        }),
        (0..4_u8).prop_map(|code| Message::DestinationUnreachable {
            code: Unreachable(code),
            next_hop_mtu: 0,
        }),
        any::<u8>().prop_map(|code| Message::TimeExceeded { code }),
        any::<(u8, u8)>().prop_map(|(code, pointer)| Message::ParameterProblem { code, pointer }),
        (13..=255_u8, any::<u8>(), any::<[u8; 4]>())
            .prop_map(|(kind, code, rest)| Message::Other { kind, code, rest }),
    ]
}

prop_compose! {
    fn tcp_header()(
        ports in any::<(u16, u16)>(),
        numbers in any::<(u32, u32)>(),
        reserved in 0..16_u8,
        flags in any::<u8>(),
        rest in any::<(u16, u16, u16)>(),
    ) -> tcp::Header {
        tcp::Header {
            src_port: ports.0,
            dst_port: ports.1,
            seq: numbers.0,
            ack: numbers.1,
            reserved,
            flags: Flags::from_bits_retain(flags),
            window: rest.0,
            checksum: rest.1,
            urgent: rest.2,
        }
    }
}

prop_compose! {
    fn tcp_options()(
        mss in any::<Option<u16>>(),
        window_scale in proptest::option::of(0..=14_u8),
        sack_permitted in any::<bool>(),
        blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..=4),
        timestamps in any::<Option<(u32, u32)>>(),
    ) -> Options {
        let sack = blocks.into_iter().collect();
        Options { mss, window_scale, sack_permitted, sack, timestamps, malformed: false }
    }
}

fn segmentation() -> impl Strategy<Value = Segmentation> {
    use Segmentation::{None, TcpV4, TcpV6, Udp, UdpL4};
    prop_oneof![Just(None), Just(TcpV4), Just(Udp), Just(TcpV6), Just(UdpL4)]
}

/// What `emit` says about buffers of every length: `None` and untouched below `len`, only `len`
/// bytes
/// written above.
fn check_bounds(len: usize, emit: impl Fn(&mut [u8]) -> Option<usize>) {
    for room in 0..len {
        let mut out = vec![0xa5; room];
        assert_eq!(emit(&mut out), None, "room {room} of {len}");
        assert!(out.iter().all(|byte| *byte == 0xa5), "room {room} of {len}");
    }
    let mut out = vec![0xa5; len + 4];
    assert_eq!(emit(&mut out), Some(len));
    assert_eq!(out[len..], [0xa5; 4]);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ethernet(dst in mac(), src in mac(), ethertype in any::<u16>()) {
        let header = ethernet::Header { dst, src, ethertype: EtherType(ethertype) };
        let mut out = [0; 14];
        header.emit(&mut out).unwrap();
        prop_assert_eq!(ethernet::Header::parse(&out), Ok((header, 14)));
        check_bounds(14, |out| header.emit(out));
    }

    #[test]
    fn arp(packet in arp_packet()) {
        let mut out = [0; 28];
        packet.emit(&mut out).unwrap();
        prop_assert_eq!(arp::Packet::parse(&out), Ok((packet, 28)));
        check_bounds(28, |out| packet.emit(out));
    }

    #[test]
    fn ipv4(header in ipv4_header()) {
        let mut out = [0; 20];
        header.emit(&mut out).unwrap();
        let parsed = ipv4::Header::parse_split(&out, usize::from(header.total_len));
        prop_assert_eq!(parsed, Ok((header, 20)));
        check_bounds(20, |out| header.emit(out));
    }

    #[test]
    fn icmp(message in icmp_message(), payload in any::<Vec<u8>>()) {
        let sum = checksum::sum(&payload);
        let mut out = vec![0; 8];
        message.emit(sum, &mut out).unwrap();
        out.extend(&payload);
        prop_assert_eq!(Message::parse(&out), Ok((message, 8)));
        check_bounds(8, |out| message.emit(sum, out));
    }

    #[test]
    fn udp(ports in any::<(u16, u16)>(), length in 8..=u16::MAX, checksum in any::<u16>()) {
        let header = udp::Header { src_port: ports.0, dst_port: ports.1, length, checksum };
        let mut out = [0; 8];
        header.emit(&mut out).unwrap();
        prop_assert_eq!(udp::Header::parse_split(&out, usize::from(length)), Ok((header, 8)));
        prop_assert_eq!(header.sum().fold(), checksum::sum(&out).fold());
        check_bounds(8, |out| header.emit(out));
    }

    #[test]
    fn tcp(header in tcp_header(), options in tcp_options()) {
        let mut out = [0; tcp::MAX_HEADER_LEN];
        let len = header.emit(&options, &mut out).unwrap();
        prop_assert_eq!(len, 20 + options.encoded_len());
        prop_assert_eq!(tcp::Header::parse(&out[..len]), Ok((header, len)));
        let got = Options::parse(tcp::options(&out, len));
        // SACK blocks that found no room were left out from the end; nothing else changes.
        let fitting = got.sack.as_slice().len();
        prop_assert!(fitting == options.sack.as_slice().len() || len + 8 > 60);
        let sack = options.sack.as_slice().iter().copied().take(fitting).collect();
        prop_assert_eq!(got, Options { sack, ..options });
        check_bounds(len, |out| header.emit(&options, out));
    }

    #[test]
    fn virtio_net(
        flags in any::<u8>(),
        segmentation in segmentation(),
        ecn in any::<bool>(),
        gso_size in 1..=u16::MAX,
        rest in any::<(u16, u16, u16)>(),
    ) {
        let header = virtio_net::Header {
            flags: virtio_net::Flags::from_bits_retain(flags),
            segmentation,
            ecn,
            hdr_len: rest.0,
            gso_size,
            csum_start: rest.1,
            csum_offset: rest.2,
        };
        let mut out = [0; 10];
        header.emit(&mut out).unwrap();
        prop_assert_eq!(virtio_net::Header::parse(&out), Ok((header, 10)));
        check_bounds(10, |out| header.emit(out));
    }
}
