//! IPv6, its extension headers, ICMPv6 and neighbour discovery: rows of the robustness list, what
//! comes back of what was written, and the lines that people read.

use gannet_wire::extension::{self, Action, Chain, ChainError, Fragment};
use gannet_wire::icmpv6::{self, Message, Problem, QuoteError, Quoted, Unreachable};
use gannet_wire::nd::{self, NdOption, Prefix};
use gannet_wire::{IpProtocol, MacAddr, checksum, ipv6, pretty, udp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::net::Ipv6Addr;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const HOP_BY_HOP: u8 = IpProtocol::HOP_BY_HOP.0;
const DESTINATION: u8 = IpProtocol::DESTINATION_OPTIONS.0;
const ROUTING: u8 = IpProtocol::ROUTING.0;
const FRAGMENT: u8 = IpProtocol::FRAGMENT.0;
const UDP: u8 = IpProtocol::UDP.0;

/// A packet of A to B with these bytes behind the fixed header.
fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header: IpProtocol(next_header),
        hop_limit: 64,
        src: A,
        dst: B,
    };
    let mut out = vec![0; 40];
    header.emit(&mut out).unwrap();
    out.extend(payload);
    out
}

#[test]
fn six_1_version_and_payload_length() {
    use ipv6::ParseError::{BadPayloadLength, BadVersion, Truncated};
    let good = packet(59, &[1; 10]);
    let length = |bytes: &[u8]| ipv6::Header::parse(bytes).map(|(header, _)| header.payload_len);
    assert_eq!(length(&good), Ok(10));
    for len in 0..40 {
        assert_eq!(length(&good[..len]), Err(Truncated), "{len}");
    }
    assert_eq!(length(&good[..49]), Err(BadPayloadLength));
    assert_eq!(length(&packet(59, &[])), Ok(0));
    let mut padded = good.clone();
    padded.extend([0; 9]);
    assert_eq!(length(&padded), Ok(10));
    for version in (0..16).filter(|version| *version != 6) {
        let mut bytes = good.clone();
        bytes[0] = version << 4;
        assert_eq!(length(&bytes), Err(BadVersion), "{version}");
    }
    // Headers in the slot, payload elsewhere: the frame's length decides.
    assert!(ipv6::Header::parse_split(&good[..40], 50).is_ok());
    let beyond = ipv6::Header::parse_split(&good[..40], 49);
    assert_eq!(beyond, Err(BadPayloadLength));
    assert_eq!(
        ipv6::Header::parse_split(&good, 0),
        Err(BadPayloadLength),
        "no wrap below the header's length"
    );
}

/// An options header of as many bytes as needed, padded with Pad1.
fn options(next: u8, options: &[u8]) -> Vec<u8> {
    let mut out = vec![next, 0];
    out.extend(options);
    out.resize(out.len().next_multiple_of(8), 0);
    out[1] = (out.len() / 8 - 1) as u8;
    out
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

//= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
//= type=test
//# These padding options must be recognized by all IPv6 implementations:
#[test]
fn six_2_chains() {
    use ChainError::{BadOption, HopByHopNotFirst, TooManyHeaders, TooManyOptions, Truncated};
    let nothing = options(UDP, &[1, 4, 0, 0, 0, 0]);
    let again = options(DESTINATION, &[]);
    let pads = options(UDP, &[0; 2000]);
    let eight = options(UDP, &[0x1e, 0].repeat(8));
    let nine = options(UDP, &[0x1e, 0].repeat(9));
    let first = options(HOP_BY_HOP, &[]);
    let eight_headers = joined(&[&again.repeat(7), &nothing]);
    let many = again.repeat(170);
    // (first header, bytes, where the payload begins)
    let cases: [(u8, &[u8], Result<usize, ChainError>); 17] = [
        (UDP, &[], Ok(40)),
        (59, &[], Ok(40)),
        (HOP_BY_HOP, &nothing, Ok(48)),
        (DESTINATION, &nothing, Ok(48)),
        (DESTINATION, &pads, Ok(40 + pads.len())),
        (DESTINATION, &eight, Ok(40 + eight.len())),
        (DESTINATION, &nine, Err(TooManyOptions)),
        (DESTINATION, &eight_headers, Ok(104)),
        (DESTINATION, &many, Err(TooManyHeaders)),
        (HOP_BY_HOP, &[], Err(Truncated)),
        (HOP_BY_HOP, &[17], Err(Truncated)),
        (HOP_BY_HOP, &[17, 0, 0, 0, 0, 0, 0], Err(Truncated)),
        (HOP_BY_HOP, &[17, 255, 0, 0, 0, 0, 0, 0], Err(Truncated)),
        (DESTINATION, &[17, 0, 1, 5, 0, 0, 0, 0], Err(BadOption)),
        (DESTINATION, &[17, 0, 0, 0, 0, 0, 0, 1], Err(BadOption)),
        (DESTINATION, &[17, 0, 0x1e, 255, 0, 0, 0, 0], Err(BadOption)),
        (
            HOP_BY_HOP,
            &joined(&[&first, &nothing]),
            Err(HopByHopNotFirst { pointer: 40 }),
        ),
    ];
    for (next, bytes, expected) in cases {
        let chain = Chain::parse(&packet(next, bytes));
        assert_eq!(
            chain.map(|chain| chain.payload_at),
            expected,
            "{next} {bytes:?}"
        );
    }
    let chain = Chain::parse(&packet(HOP_BY_HOP, &options(99, &[5, 2, 0, 0]))).unwrap();
    assert_eq!((chain.protocol, chain.named_at), (IpProtocol(99), 40));
    assert_eq!(chain.router_alert, Some(0));
    assert_eq!(Chain::parse(&[0; 6]), Err(Truncated));
}

#[test]
fn six_2_unknown_options_and_their_action() {
    let actions = [
        Action::Skip,
        Action::Discard,
        Action::DiscardAndTell,
        Action::DiscardAndTellUnlessMulticast,
    ];
    for (bits, action) in actions.into_iter().enumerate() {
        let kind = (bits as u8) << 6 | 0x1e;
        for first in [HOP_BY_HOP, DESTINATION] {
            let bytes = packet(first, &options(UDP, &[1, 1, 0, kind, 1, 7]));
            let expected = match action {
                Action::Skip => None,
                _ => Some(ChainError::UnknownOption {
                    action,
                    pointer: 45,
                }),
            };
            assert_eq!(Chain::parse(&bytes).err(), expected, "{kind:#x}");
        }
    }
    // The pointer counts from the packet's start in a later header as well, and a jumbo payload
    // option is an unknown one.
    let second = joined(&[
        &options(DESTINATION, &[]),
        &options(UDP, &[0xc2, 4, 0, 1, 0, 0]),
    ]);
    let expected = ChainError::UnknownOption {
        action: Action::DiscardAndTellUnlessMulticast,
        pointer: 50,
    };
    assert_eq!(Chain::parse(&packet(DESTINATION, &second)), Err(expected));
}

#[test]
fn six_3_routing_headers() {
    for kind in [0, 2, 4, 253] {
        for (segments_left, expected) in [(0, Ok(64)), (1, Err(42)), (255, Err(42))] {
            let mut header = vec![UDP, 2, kind, segments_left];
            header.resize(24, 0);
            let answer = Chain::parse(&packet(ROUTING, &header));
            let expected = expected.map_err(|pointer| ChainError::RoutingUnrecognised { pointer });
            assert_eq!(answer.map(|chain| chain.payload_at), expected);
        }
    }
}

#[test]
fn six_4_fragment_headers() {
    let fragment = |offset, more| {
        let header = Fragment {
            next_header: IpProtocol::UDP,
            offset,
            more,
            ident: 9,
        };
        let mut bytes = [0; 8];
        header.emit(&mut bytes).unwrap();
        assert_eq!(Fragment::parse(&bytes), Some(header));
        assert_eq!(Fragment::parse(&bytes[..7]), None);
        assert_eq!(header.emit(&mut [0; 7]), None);
        (header, bytes)
    };
    for (offset, more) in [(0, true), (1, true), (8191, false), (8191, true)] {
        let (header, bytes) = fragment(offset, more);
        let chain = Chain::parse(&packet(FRAGMENT, &bytes)).unwrap();
        assert_eq!(chain.fragment, Some(header));
        assert_eq!((chain.protocol, chain.payload_at), (IpProtocol::UDP, 48));
        assert!(!header.is_atomic());
    }
    // An atomic fragment is passed, so what follows it is looked at; twice is once too often.
    let (header, mut bytes) = fragment(0, false);
    bytes[0] = DESTINATION;
    let chain = Chain::parse(&packet(FRAGMENT, &joined(&[&bytes, &options(UDP, &[])]))).unwrap();
    assert!(header.is_atomic() && chain.fragment.is_some());
    assert_eq!((chain.protocol, chain.payload_at), (IpProtocol::UDP, 56));
    bytes[0] = FRAGMENT;
    let twice = Chain::parse(&packet(FRAGMENT, &bytes.repeat(2)));
    assert_eq!(twice, Err(ChainError::TooManyHeaders));
    // Behind a fragment that is not atomic nothing is read.
    let (_, mut bytes) = fragment(4, true);
    bytes[0] = DESTINATION;
    let chain = Chain::parse(&packet(FRAGMENT, &bytes)).unwrap();
    assert_eq!(chain.protocol, IpProtocol::DESTINATION_OPTIONS);
}

#[test]
fn router_alert_is_found_again() {
    let mut bytes = [0; 8];
    extension::emit_router_alert(IpProtocol::ICMPV6, &mut bytes).unwrap();
    let chain = Chain::parse(&packet(HOP_BY_HOP, &bytes)).unwrap();
    assert_eq!(chain.router_alert, Some(0));
    assert_eq!((chain.protocol, chain.payload_at), (IpProtocol::ICMPV6, 48));
    assert_eq!(
        extension::emit_router_alert(IpProtocol::ICMPV6, &mut [0; 7]),
        None
    );
}

fn icmp(message: Message, payload: &[u8]) -> Vec<u8> {
    let rest = icmpv6::pseudo(A, B, 8 + payload.len()).combine(checksum::sum(payload), false);
    let mut out = vec![0; 8];
    message.emit(rest, &mut out).unwrap();
    out.extend(payload);
    out
}

fn messages() -> [Message; 8] {
    [
        Message::EchoRequest { ident: 1, seq: 2 },
        Message::EchoReply { ident: 3, seq: 4 },
        Message::DestinationUnreachable {
            code: Unreachable::PORT,
        },
        Message::PacketTooBig { mtu: 1280 },
        Message::TimeExceeded { code: 1 },
        Message::ParameterProblem {
            code: Problem::OPTION,
            pointer: 42,
        },
        Message::Other {
            kind: 200,
            code: 1,
            rest: [1, 2, 3, 4],
        },
        Message::Other {
            kind: 100,
            code: 0,
            rest: [0; 4],
        },
    ]
}

#[test]
fn c2_icmpv6_messages_their_checksum_and_their_end() {
    for message in messages() {
        let bytes = icmp(message, b"payload");
        assert_eq!(Message::parse(&bytes, A, B), Ok((message, 8)));
        for bit in 0..bytes.len() * 8 {
            let mut spoiled = bytes.clone();
            spoiled[bit / 8] ^= 1 << (bit % 8);
            let answer = Message::parse(&spoiled, A, B);
            assert_eq!(answer, Err(icmpv6::ParseError::BadChecksum), "bit {bit}");
        }
        // The pseudo header is in the sum.
        let elsewhere = Message::parse(&bytes, A, A);
        assert_eq!(elsewhere, Err(icmpv6::ParseError::BadChecksum));
        for len in 0..8 {
            let cut = Message::parse(&bytes[..len], A, B);
            assert_eq!(cut, Err(icmpv6::ParseError::Truncated));
            assert_eq!(message.emit(checksum::Sum::new(), &mut vec![0; len]), None);
        }
        assert_eq!(message.is_error(), bytes[0] < 128);
    }
    // An echo with a code stays what it is.
    let parsed = Message::parse_unverified(&[128, 1, 0, 0, 0, 1, 0, 2]);
    let rest = [0, 1, 0, 2];
    let (kind, code) = (128, 1);
    assert_eq!(parsed, Ok((Message::Other { kind, code, rest }, 8)));
}

#[test]
fn c1_quoted_ipv6_packet_cut_or_bad() {
    let transport = [0x12, 0x34, 0, 80, 1, 2, 3, 4];
    let mut quote = packet(6, &transport);
    quote[4..6].copy_from_slice(&1400_u16.to_be_bytes());
    let quoted = Quoted::parse(&quote).unwrap();
    assert_eq!(quoted.ports(), Some((0x1234, 80)));
    assert_eq!(quoted.tcp_seq(), Some(0x0102_0304));
    for len in 0..48 {
        let error = if len < 40 {
            QuoteError::BadIpHeader
        } else {
            QuoteError::Truncated
        };
        assert_eq!(Quoted::parse(&quote[..len]), Err(error), "{len}");
    }
    for protocol in [1, 50, 132, 253, 255] {
        let unknown = Quoted::parse(&packet(protocol, &transport)).unwrap();
        assert_eq!((unknown.ports(), unknown.tcp_seq()), (None, None));
    }
    let behind = joined(&[&options(6, &[]), &transport]);
    let quoted = Quoted::parse(&packet(DESTINATION, &behind)).unwrap();
    assert_eq!(
        (quoted.protocol, quoted.ports()),
        (IpProtocol::TCP, Some((0x1234, 80)))
    );
    let cut = Quoted::parse(&packet(DESTINATION, &behind[..7]));
    assert_eq!(cut, Err(QuoteError::BadChain));
    let later = joined(&[&[6, 0, 0, 8, 0, 0, 0, 1], &transport[..]]);
    let later = Quoted::parse(&packet(FRAGMENT, &later));
    assert_eq!(later, Err(QuoteError::LaterFragment));
    quote[0] = 0x45;
    assert_eq!(Quoted::parse(&quote), Err(QuoteError::BadIpHeader));
}

fn discovery(message: nd::Message, options: &[NdOption<'_>]) -> Vec<u8> {
    let mut out = vec![0; 256];
    let len = message.emit(A, B, options, &mut out).unwrap();
    out.truncate(len);
    out
}

fn discoveries() -> [nd::Message; 5] {
    [
        nd::Message::RouterSolicitation,
        nd::Message::RouterAdvertisement {
            hop_limit: 64,
            managed: true,
            other: false,
            router_lifetime: 1800,
            reachable_time: 30_000,
            retrans_timer: 1000,
        },
        nd::Message::NeighbourSolicitation { target: B },
        nd::Message::NeighbourAdvertisement {
            router: false,
            solicited: true,
            overriding: true,
            target: B,
        },
        nd::Message::Redirect {
            target: A,
            destination: B,
        },
    ]
}

fn some_options() -> [NdOption<'static>; 5] {
    [
        NdOption::SourceLinkAddress(MacAddr([2, 0, 0, 0, 0, 1])),
        NdOption::TargetLinkAddress(MacAddr([2, 0, 0, 0, 0, 2])),
        NdOption::Prefix(Prefix {
            prefix: A,
            len: 64,
            on_link: true,
            autonomous: true,
            valid_lifetime: u32::MAX,
            preferred_lifetime: 600,
        }),
        NdOption::RedirectedHeader(b"sixteen bytes!!!"),
        NdOption::Mtu(1400),
    ]
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-4.1
//= type=test
//# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
//= type=test
//# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
//= type=test
//# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
#[test]
fn discovery_messages_are_found_again() {
    for message in discoveries() {
        let bytes = discovery(message, &some_options());
        assert!(
            Message::parse(&bytes, A, B).is_ok(),
            "checksum of {message:?}"
        );
        let (got, options) = nd::Message::parse(&bytes).unwrap();
        assert_eq!(got, message);
        assert!(options.clone().eq(some_options()), "{options:?}");
        assert_eq!(
            options.source_link_address(),
            Some(MacAddr([2, 0, 0, 0, 0, 1]))
        );
        assert_eq!(
            options.target_link_address(),
            Some(MacAddr([2, 0, 0, 0, 0, 2]))
        );
        for room in 0..bytes.len() {
            let mut out = vec![0; room];
            assert_eq!(message.emit(A, B, &some_options(), &mut out), None);
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
//= type=test
//# It MUST NOT be a multicast address.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
//= type=test
//# The Target Address MUST NOT be a multicast address.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.6
//= type=test
//# Nodes MUST silently discard an ND packet that contains an option with length zero.
//= https://www.rfc-editor.org/rfc/rfc4861#section-9
//= type=test
//# In order to ensure that future extensions properly coexist with current implementations, all
//# nodes MUST silently ignore any options they do not recognize in received ND packets and continue
//# processing the packet.
//= https://www.rfc-editor.org/rfc/rfc4861#section-9
//= type=test
//# A node MUST NOT ignore valid options just because the ND message contains unrecognized ones.
#[test]
fn six_6_discovery_options() {
    use nd::ParseError::{BadCode, BadOption, MulticastTarget, OtherType, Truncated};
    let with = |options: &[u8]| {
        let mut bytes = discovery(nd::Message::NeighbourSolicitation { target: B }, &[]);
        bytes.extend(options);
        nd::Message::parse(&bytes).map(|(_, options)| options.count())
    };
    let unknown = [[99, 1].as_slice(), &[0; 6], &[98, 2], &[0; 14]].concat();
    // (options, how many)
    let cases: [(&[u8], Result<usize, nd::ParseError>); 9] = [
        (&[], Ok(0)),
        (&[1, 1, 2, 0, 0, 0, 0, 1], Ok(1)),
        (&unknown, Ok(2)),
        (&[1, 0, 2, 0, 0, 0, 0, 1], Err(BadOption)), // a walk that would not advance
        (&[1, 1, 2, 0, 0, 0, 0, 1, 0, 0], Err(BadOption)),
        (&[1], Err(BadOption)),
        (&[1, 1, 2, 0, 0, 0, 0], Err(BadOption)),
        (&[1, 2, 2, 0, 0, 0, 0, 1], Err(BadOption)),
        (&[1, 255, 2, 0, 0, 0, 0, 1], Err(BadOption)),
    ];
    for (options, expected) in cases {
        assert_eq!(with(options), expected, "{options:?}");
    }
    // A known option of a length or value that it cannot have is an unknown one.
    for (kind, units) in [(1, 2), (2, 2), (3, 1), (3, 5), (5, 2), (99, 1)] {
        let mut option = vec![kind, units];
        option.resize(8 * usize::from(units), 0);
        let mut options = nd::Options::parse(&option).unwrap();
        let got = options.next().unwrap();
        assert!(
            matches!(got, NdOption::Unknown { kind: k, .. } if k == kind),
            "{got:?}"
        );
    }
    let mut prefix = vec![3, 4, 129];
    prefix.resize(32, 0);
    let mut options = nd::Options::parse(&prefix).unwrap();
    assert!(matches!(
        options.next(),
        Some(NdOption::Unknown { kind: 3, .. })
    ));

    for message in discoveries() {
        let bytes = discovery(message, &[]);
        for len in 0..bytes.len() {
            assert_eq!(
                nd::Message::parse(&bytes[..len]).err(),
                Some(Truncated),
                "{len}"
            );
        }
        let mut coded = bytes.clone();
        coded[1] = 1;
        assert_eq!(nd::Message::parse(&coded).err(), Some(BadCode));
        coded[0] = 138;
        assert_eq!(nd::Message::parse(&coded).err(), Some(OtherType));
        if bytes.len() >= 24 {
            let mut group = bytes;
            group[8] = 0xff;
            assert_eq!(nd::Message::parse(&group).err(), Some(MulticastTarget));
        }
    }
}

#[test]
fn rfc4291_section_2_7_1_solicited_node() {
    let address: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
    let group: Ipv6Addr = "ff02::1:ff0e:8c6c".parse().unwrap();
    assert_eq!(nd::solicited_node(address), group);
}

#[test]
fn lines_for_people() {
    let mut datagram = vec![0; 12];
    let header = udp::Header {
        src_port: 53,
        dst_port: 5353,
        length: 12,
        checksum: 0,
    };
    header.emit(&mut datagram).unwrap();
    let about = packet(UDP, &datagram);
    let fragment = joined(&[&[UDP, 0, 0, 9, 0, 0, 0, 7], &datagram]);
    let solicitation = discovery(
        nd::Message::NeighbourSolicitation { target: B },
        &[NdOption::SourceLinkAddress(MacAddr([2, 0, 0, 0, 0, 1]))],
    );
    let too_big = icmp(Message::PacketTooBig { mtu: 1280 }, &about);
    let cases = [
        (
            about.clone(),
            "[2001:db8::1]:53 > [2001:db8::2]:5353 UDP length 4",
        ),
        (
            packet(58, &icmp(messages()[0], b"ping")),
            "2001:db8::1 > 2001:db8::2 ICMPv6 echo request id 1 seq 2 length 12",
        ),
        (
            packet(58, &too_big),
            "2001:db8::1 > 2001:db8::2 ICMPv6 packet too big, mtu 1280 length 60 \
             (about [2001:db8::1]:53 > [2001:db8::2]:5353 UDP)",
        ),
        (
            packet(58, &solicitation),
            "2001:db8::1 > 2001:db8::2 ICMPv6 who has 2001:db8::2, from 02:00:00:00:00:01",
        ),
        (
            packet(FRAGMENT, &fragment),
            "2001:db8::1 > 2001:db8::2 UDP length 12 (fragment 7@8+)",
        ),
        (
            packet(DESTINATION, &[]),
            "2001:db8::1 > 2001:db8::2 IPv6 [Truncated]",
        ),
        (vec![0x60; 3], "IPv6 [Truncated, 3 bytes]"),
    ];
    for (bytes, line) in cases {
        assert_eq!(pretty::ipv6(&bytes).to_string(), line);
    }
}

proptest! {
    #![proptest_config(Config {
        cases: 1_000,
        rng_seed: RngSeed::Fixed(0x0069_7076_3620),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn headers_are_found_again_and_etherparse_reads_them(
        traffic_class in any::<u8>(),
        flow_label in 0..1_u32 << 20,
        numbers in any::<(u16, u8, u8)>(),
        src in any::<Ipv6Addr>(),
        dst in any::<Ipv6Addr>(),
    ) {
        let (payload_len, next_header, hop_limit) = numbers;
        let next_header = IpProtocol(next_header);
        let header = ipv6::Header {
            traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst
        };
        let mut out = [0; 40];
        header.emit(&mut out).unwrap();
        let parsed = ipv6::Header::parse_split(&out, 40 + usize::from(payload_len));
        prop_assert_eq!(parsed, Ok((header, 40)));
        prop_assert_eq!(header.emit(&mut [0; 39]), None);
        let (theirs, _) = etherparse::Ipv6Header::from_slice(&out).unwrap();
        prop_assert_eq!(theirs.traffic_class, traffic_class);
        prop_assert_eq!(theirs.flow_label.value(), flow_label);
        prop_assert_eq!(theirs.payload_length, payload_len);
        prop_assert_eq!((theirs.next_header.0, theirs.hop_limit), (next_header.0, hop_limit));
        prop_assert_eq!((theirs.source, theirs.destination), (src.octets(), dst.octets()));
        prop_assert_eq!(theirs.to_bytes(), out);
    }

    #[test]
    fn etherparse_agrees_on_icmpv6(
        src in any::<Ipv6Addr>(),
        dst in any::<Ipv6Addr>(),
        which in 0..6_usize,
        payload in any::<Vec<u8>>(),
    ) {
        let message = messages()[which];
        let rest = icmpv6::pseudo(src, dst, 8 + payload.len())
            .combine(checksum::sum(&payload), false);
        let mut out = vec![0; 8];
        message.emit(rest, &mut out).unwrap();
        out.extend(&payload);
        let slice = etherparse::Icmpv6Slice::from_slice(&out).unwrap();
        prop_assert!(slice.is_checksum_valid(src.octets(), dst.octets()));
        let kind = slice.header().icmp_type;
        let theirs = etherparse::Icmpv6Header::with_checksum(
            kind, src.octets(), dst.octets(), &payload).unwrap();
        prop_assert_eq!(&theirs.to_bytes()[..], &out[..8]);
    }

    #[test]
    fn any_bytes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x60 | *first & 0xf;
        }
        // Often an extension header first, so that the depths are reached.
        if let Some(next) = bytes.get_mut(6) {
            *next = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, UDP, 6, 58, 59]
                [usize::from(*next) % 8];
        }
        if let Ok(chain) = Chain::parse(&bytes) {
            prop_assert!(chain.payload_at <= bytes.len().max(40));
        }
        let _ = Quoted::parse(&bytes);
        for start in [0, 8, 40] {
            let rest = bytes.get(start..).unwrap_or_default();
            if let Ok((_, options)) = nd::Message::parse(rest) {
                prop_assert!(options.count() <= rest.len() / 8);
            }
            prop_assert!(extension::Options::new(rest).count() <= rest.len());
            prop_assert!(!pretty::ipv6(rest).to_string().contains('\n'));
        }
    }
}
