//! An independent library as judge: it writes valid packets that we read, and reads what we write.

use etherparse::{Icmpv4Type, PacketBuilder, PacketHeaders, TcpHeader, TcpOptionElement};
use gannet_wire::icmpv4::Message;
use gannet_wire::tcp::{self, Flags, Options};
use gannet_wire::{EtherType, IpProtocol, MacAddr, checksum, ethernet, ipv4, udp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::net::Ipv4Addr;

fn config() -> Config {
    Config {
        cases: 1_000,
        rng_seed: RngSeed::Fixed(0x6574_6865_7270),
        failure_persistence: None,
        ..Config::default()
    }
}

/// Reads Ethernet and IPv4 of a frame; gives the header and the transport bytes.
fn open(frame: &[u8]) -> (ipv4::Header, &[u8]) {
    let (link, at) = ethernet::Header::parse(frame).unwrap();
    assert_eq!(link.ethertype, EtherType::IPV4);
    assert_eq!((link.src, link.dst), (MacAddr([2; 6]), MacAddr([4; 6])));
    let (ip, len) = ipv4::Header::parse(&frame[at..]).unwrap();
    assert_eq!(ip.payload_len(len), frame.len() - at - len);
    (ip, &frame[at + len..])
}

/// The checksum over pseudo header and segment: 0 when the segment carries its own.
fn verify(ip: &ipv4::Header, transport: &[u8]) -> u16 {
    checksum::pseudo_v4(ip.src, ip.dst, ip.protocol, transport.len() as u16)
        .combine(checksum::sum(transport), false)
        .finish()
}

fn elements(options: &Options) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{MaximumSegmentSize, SelectiveAcknowledgement};
    use TcpOptionElement::{SelectiveAcknowledgementPermitted, Timestamp, WindowScale};
    let mut list = Vec::new();
    list.extend(options.mss.map(MaximumSegmentSize));
    list.extend(options.window_scale.map(WindowScale));
    list.extend(
        options
            .timestamps
            .map(|(value, echo)| Timestamp(value, echo)),
    );
    if options.sack_permitted {
        list.push(SelectiveAcknowledgementPermitted);
    }
    if let [first, rest @ ..] = options.sack.as_slice() {
        let mut more = [None; 3];
        for (to, from) in more.iter_mut().zip(rest) {
            *to = Some(*from);
        }
        list.push(SelectiveAcknowledgement(*first, more));
    }
    list
}

prop_compose! {
    // At most 1 block, so that every combination fits however it is laid out.
    fn tcp_options()(
        mss in any::<Option<u16>>(),
        window_scale in proptest::option::of(0..=14_u8),
        sack_permitted in any::<bool>(),
        block in any::<Option<(u32, u32)>>(),
        timestamps in any::<Option<(u32, u32)>>(),
    ) -> Options {
        let sack = block.into_iter().collect();
        Options { mss, window_scale, sack_permitted, sack, timestamps, malformed: false }
    }
}

prop_compose! {
    fn tcp_header()(
        ports in any::<(u16, u16)>(),
        numbers in any::<(u32, u32)>(),
        flags in any::<u8>(),
        window in any::<u16>(),
        urgent in any::<u16>(),
    ) -> tcp::Header {
        tcp::Header {
            src_port: ports.0,
            dst_port: ports.1,
            seq: numbers.0,
            ack: numbers.1,
            reserved: 0,
            flags: Flags::from_bits_retain(flags),
            window,
            checksum: 0,
            urgent,
        }
    }
}

fn theirs(header: &tcp::Header, options: &Options) -> TcpHeader {
    let mut their = TcpHeader::new(header.src_port, header.dst_port, header.seq, header.window);
    their.acknowledgment_number = header.ack;
    their.fin = header.flags.contains(Flags::FIN);
    their.syn = header.flags.contains(Flags::SYN);
    their.rst = header.flags.contains(Flags::RST);
    their.psh = header.flags.contains(Flags::PSH);
    their.ack = header.flags.contains(Flags::ACK);
    their.urg = header.flags.contains(Flags::URG);
    their.ece = header.flags.contains(Flags::ECE);
    their.cwr = header.flags.contains(Flags::CWR);
    their.urgent_pointer = header.urgent;
    their.set_options(&elements(options)).unwrap();
    their
}

/// A whole frame of ours around a transport header without its checksum, and the payload.
fn frame(ip: &ipv4::Header, transport: &[u8], payload: &[u8]) -> Vec<u8> {
    let link = ethernet::Header {
        dst: MacAddr([4; 6]),
        src: MacAddr([2; 6]),
        ethertype: EtherType::IPV4,
    };
    let mut out = vec![0; 34];
    link.emit(&mut out).unwrap();
    ip.emit(&mut out[14..]).unwrap();
    out.extend(transport);
    out.extend(payload);
    out
}

fn ip_header(
    ends: (Ipv4Addr, Ipv4Addr),
    ttl: u8,
    protocol: IpProtocol,
    len: usize,
) -> ipv4::Header {
    ipv4::Header {
        tos: 0,
        total_len: 20 + len as u16,
        ident: 1,
        reserved_flag: false,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl,
        protocol,
        src: ends.0,
        dst: ends.1,
        options: ipv4::OptionReport::default(),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn we_read_their_tcp(
        ends in any::<(Ipv4Addr, Ipv4Addr)>(),
        ttl in any::<u8>(),
        header in tcp_header(),
        options in tcp_options(),
        payload in any::<Vec<u8>>(),
    ) {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(ends.0.octets(), ends.1.octets(), ttl)
            .tcp_header(theirs(&header, &options))
            .write(&mut bytes, &payload)
            .unwrap();
        let (ip, segment) = open(&bytes);
        prop_assert_eq!((ip.src, ip.dst), ends);
        prop_assert_eq!((ip.ttl, ip.protocol), (ttl, IpProtocol::TCP));
        prop_assert_eq!(verify(&ip, segment), 0);
        let (got, len) = tcp::Header::parse(segment).unwrap();
        prop_assert_eq!(got, tcp::Header { checksum: got.checksum, ..header });
        prop_assert_eq!(Options::parse(tcp::options(segment, len)), options);
        prop_assert_eq!(&segment[len..], &payload[..]);
    }

    #[test]
    fn they_read_our_tcp(
        ends in any::<(Ipv4Addr, Ipv4Addr)>(),
        ttl in any::<u8>(),
        header in tcp_header(),
        options in tcp_options(),
        payload in any::<Vec<u8>>(),
    ) {
        let mut transport = [0; 60];
        let len = header.emit(&options, &mut transport).unwrap();
        let ip = ip_header(ends, ttl, IpProtocol::TCP, len + payload.len());
        let sum = checksum::pseudo_v4(ip.src, ip.dst, ip.protocol, ip.total_len - 20)
            .combine(checksum::sum(&transport[..len]), false)
            .combine(checksum::sum(&payload), false);
        tcp::set_checksum(&mut transport, sum.finish()).unwrap();
        let bytes = frame(&ip, &transport[..len], &payload);

        let packet = PacketHeaders::from_ethernet_slice(&bytes).unwrap();
        let net = packet.net.unwrap();
        let (their_ip, _) = net.ipv4_ref().unwrap();
        prop_assert_eq!(their_ip.header_checksum, their_ip.calc_header_checksum());
        prop_assert_eq!(their_ip.source, ends.0.octets());
        prop_assert_eq!(their_ip.destination, ends.1.octets());
        prop_assert!(their_ip.dont_fragment && their_ip.time_to_live == ttl);
        let got = packet.transport.unwrap().tcp().unwrap();
        prop_assert_eq!(got.checksum, got.calc_checksum_ipv4(their_ip, &payload).unwrap());
        let mut found: Vec<_> = got.options_iterator().map(Result::unwrap).collect();
        found.retain(|element| *element != TcpOptionElement::Noop);
        let mut expected = elements(&options);
        found.sort_by_key(|element| format!("{element:?}"));
        expected.sort_by_key(|element| format!("{element:?}"));
        prop_assert_eq!(found, expected);
        let mut plain = theirs(&header, &Options::NONE);
        plain.checksum = got.checksum;
        let mut got_plain = got.clone();
        got_plain.set_options(&[]).unwrap();
        prop_assert_eq!(got_plain, plain);
        prop_assert_eq!(packet.payload.slice(), &payload[..]);
    }

    #[test]
    fn udp_both_ways(
        ends in any::<(Ipv4Addr, Ipv4Addr)>(),
        ports in any::<(u16, u16)>(),
        payload in any::<Vec<u8>>(),
    ) {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(ends.0.octets(), ends.1.octets(), 64)
            .udp(ports.0, ports.1)
            .write(&mut bytes, &payload)
            .unwrap();
        let (ip, datagram) = open(&bytes);
        let (header, len) = udp::Header::parse(datagram).unwrap();
        prop_assert_eq!((header.src_port, header.dst_port), ports);
        prop_assert_eq!(usize::from(header.length), len + payload.len());
        prop_assert_eq!(verify(&ip, datagram), 0);

        // Ours with the same content has the same bytes from the UDP header on.
        let ours = udp::Header { checksum: 0, ..header };
        let sum = checksum::pseudo_v4(ends.0, ends.1, IpProtocol::UDP, header.length)
            .combine(ours.sum(), false)
            .combine(checksum::sum(&payload), false);
        let ours = udp::Header { checksum: udp::checksum_to_send(sum), ..ours };
        let mut out = [0; 8];
        ours.emit(&mut out).unwrap();
        prop_assert_eq!(&out[..], &datagram[..8]);
    }

    #[test]
    fn icmp_echo_both_ways(
        ends in any::<(Ipv4Addr, Ipv4Addr)>(),
        ident in any::<u16>(),
        seq in any::<u16>(),
        payload in any::<Vec<u8>>(),
    ) {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(ends.0.octets(), ends.1.octets(), 64)
            .icmpv4_echo_request(ident, seq)
            .write(&mut bytes, &payload)
            .unwrap();
        let (_, theirs) = open(&bytes);
        let message = Message::EchoRequest { ident, seq };
        prop_assert_eq!(Message::parse(theirs), Ok((message, 8)));

        let mut ours = [0; 8];
        message.emit(checksum::sum(&payload), &mut ours).unwrap();
        prop_assert_eq!(&ours[..], &theirs[..8]);
        let (read, _) = etherparse::Icmpv4Header::from_slice(theirs).unwrap();
        let Icmpv4Type::EchoRequest(echo) = read.icmp_type else {
            return Err(TestCaseError::fail("not an echo request"));
        };
        prop_assert_eq!((echo.id, echo.seq), (ident, seq));
    }
}
