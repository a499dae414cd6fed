//! IGMP, MLD, VLAN tags and DHCP: what comes back of what was written, what bad input is answered,
//! and the lines that people read.

use gannet_wire::dhcpv4::{self, DhcpOption, MessageType};
use gannet_wire::group_record::{RecordKind, ReportWriter, from_code_8, from_code_16};
use gannet_wire::{EtherType, IpProtocol, MacAddr, checksum, igmp, ipv4, ipv6, mld, pretty, vlan};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const OTHER: Ipv4Addr = Ipv4Addr::new(232, 0, 0, 9);
const SOURCES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x99);
const ENDS6: (Ipv6Addr, Ipv6Addr) = (
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    mld::ALL_V2_ROUTERS,
);
const SOURCE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

fn igmp_report() -> Vec<u8> {
    let mut out = vec![0; 100];
    let mut report = ReportWriter::new(&mut out).unwrap();
    assert!(report.push(RecordKind::CHANGE_TO_EXCLUDE, GROUP, &[]));
    assert!(report.push(RecordKind::ALLOW_NEW_SOURCES, OTHER, &SOURCES));
    let len = igmp::finish_report(report);
    out.truncate(len);
    out
}

fn mld_report() -> Vec<u8> {
    let mut out = vec![0; 100];
    let mut report = ReportWriter::new(&mut out).unwrap();
    assert!(report.push(RecordKind::CHANGE_TO_EXCLUDE, GROUP6, &[]));
    assert!(report.push(RecordKind::BLOCK_OLD_SOURCES, GROUP6, &[SOURCE6]));
    let len = mld::finish_report(report, ENDS6);
    out.truncate(len);
    out
}

#[test]
fn reports_are_found_again() {
    let bytes = igmp_report();
    assert_eq!(bytes.len(), 8 + 8 + 16);
    let Ok(igmp::Message::ReportV3(mut records)) = igmp::Message::parse(&bytes) else {
        panic!("{:?}", igmp::Message::parse(&bytes));
    };
    let first = records.next().unwrap();
    assert_eq!(
        (first.kind, first.group),
        (RecordKind::CHANGE_TO_EXCLUDE, GROUP)
    );
    assert!(first.sources.is_empty());
    let second = records.next().unwrap();
    assert_eq!(
        (second.kind, second.group),
        (RecordKind::ALLOW_NEW_SOURCES, OTHER)
    );
    assert!(second.sources.clone().eq(SOURCES) && second.sources.len() == 2);
    assert_eq!(records.next(), None);

    let bytes = mld_report();
    let checked = gannet_wire::icmpv6::Message::parse(&bytes, ENDS6.0, ENDS6.1);
    assert!(checked.is_ok(), "{checked:?}");
    let Ok(mld::Message::ReportV2(records)) = mld::Message::parse(&bytes) else {
        panic!("{:?}", mld::Message::parse(&bytes));
    };
    let found: Vec<_> = records
        .map(|record| {
            (
                record.kind,
                record.group,
                record.sources.collect::<Vec<_>>(),
            )
        })
        .collect();
    let expected = [
        (RecordKind::CHANGE_TO_EXCLUDE, GROUP6, vec![]),
        (RecordKind::BLOCK_OLD_SOURCES, GROUP6, vec![SOURCE6]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_report_holds_what_fits() {
    let mut out = [0; 8 + 8 + 12];
    let mut report = ReportWriter::new(&mut out).unwrap();
    assert_eq!(report.room(), Some(3));
    assert!(!report.push(RecordKind::MODE_IS_INCLUDE, GROUP, &[GROUP; 4]));
    assert!(report.push(RecordKind::MODE_IS_INCLUDE, GROUP, &SOURCES));
    assert_eq!(report.room(), None);
    assert!(!report.push(RecordKind::MODE_IS_INCLUDE, GROUP, &[]));
    assert_eq!((report.records(), igmp::finish_report(report)), (1, 24));
    assert!(ReportWriter::<Ipv4Addr>::new(&mut [0; 7]).is_none());
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-7.1
//= type=test
//# Query messages that do not match any of the above conditions (e.g., a Query of length 10 octets)
//# MUST be silently ignored.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.2
//= type=test
//# When receiving packets, the checksum MUST be verified before processing a message.
#[test]
fn rfc3376_section_4_1_queries_and_their_versions() {
    use igmp::Version::{V1, V2, V3};
    // (maximum response code, sources, version, within)
    let cases: [(u8, Option<&[Ipv4Addr]>, igmp::Version, u64); 6] = [
        (0, None, V1, 10_000),
        (100, None, V2, 10_000),
        (255, None, V2, 25_500),
        (0, Some(&[]), V3, 0),
        (100, Some(&SOURCES), V3, 10_000),
        (0x80, Some(&[]), V3, 12_800),
    ];
    for (code, sources, version, milliseconds) in cases {
        let mut out = [0; 40];
        let len = igmp::emit_query(code, GROUP, sources, &mut out).unwrap();
        let Ok(igmp::Message::Query(query)) = igmp::Message::parse(&out[..len]) else {
            panic!("{code} {sources:?}");
        };
        assert_eq!((query.version, query.group), (version, GROUP));
        assert_eq!(query.max_response(), Duration::from_millis(milliseconds));
        assert!(
            query
                .sources
                .eq(sources.unwrap_or_default().iter().copied())
        );
        let v3 = version == V3;
        assert_eq!(query.robustness, if v3 { 2 } else { 0 });
        let told = v3.then_some(Duration::from_secs(125));
        let mut out = [0; 40];
        let len = igmp::emit_query(code, GROUP, sources, &mut out).unwrap();
        let Ok(igmp::Message::Query(query)) = igmp::Message::parse(&out[..len]) else {
            panic!("{code}");
        };
        assert_eq!(query.interval(), told);
    }
    let mut out = [0; 40];
    let len = igmp::emit_query(1, GROUP, Some(&[]), &mut out).unwrap();
    for short in 9..12 {
        let mut cut = out[..len].to_vec();
        cut.truncate(short);
        cut[2..4].fill(0);
        let checksum = checksum::sum(&cut).finish();
        cut[2..4].copy_from_slice(&checksum.to_be_bytes());
        let answer = igmp::Message::parse(&cut);
        assert_eq!(answer, Err(igmp::ParseError::Truncated), "{short}");
    }
}

#[test]
fn rfc3376_section_4_1_1_and_rfc3810_section_5_1_3_codes() {
    let eight = [(0, 0), (127, 127), (128, 128), (0x8f, 248), (0xff, 31_744)];
    for (code, value) in eight {
        assert_eq!(from_code_8(code), value, "{code:#x}");
    }
    let sixteen = [
        (0, 0),
        (32_767, 32_767),
        (0x8000, 32_768),
        (0xffff, 8_387_584),
    ];
    for (code, value) in sixteen {
        assert_eq!(from_code_16(code), value, "{code:#x}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc2236#section-2.3
//= type=test
//# When receiving packets, the checksum MUST be verified before processing a packet.
//= https://www.rfc-editor.org/rfc/rfc2236#section-2.5
//= type=test
//# As long as the Type is one that is recognized, an IGMPv2 implementation MUST ignore anything
//# past the first 8 octets while processing the packet.
#[test]
fn old_messages() {
    let mut out = [0; 8];
    for (kind, expected) in [
        (
            igmp::Old::ReportV1,
            igmp::Message::ReportV1 { group: GROUP },
        ),
        (
            igmp::Old::ReportV2,
            igmp::Message::ReportV2 { group: GROUP },
        ),
        (igmp::Old::Leave, igmp::Message::Leave { group: GROUP }),
    ] {
        assert_eq!(igmp::emit_old(kind, GROUP, &mut out), Some(8));
        assert_eq!(igmp::Message::parse(&out), Ok(expected));
        assert_eq!(igmp::emit_old(kind, GROUP, &mut out[..7]), None);
    }
    let mut out = [0; 24];
    for (kind, expected) in [
        (mld::Old::Report, mld::Message::ReportV1 { group: GROUP6 }),
        (mld::Old::Done, mld::Message::Done { group: GROUP6 }),
    ] {
        assert_eq!(mld::emit_old(kind, GROUP6, ENDS6, &mut out), Some(24));
        assert_eq!(mld::Message::parse(&out), Ok(expected));
        assert_eq!(mld::emit_old(kind, GROUP6, ENDS6, &mut out[..23]), None);
    }
}

//= https://www.rfc-editor.org/rfc/rfc3810#section-8.1
//= type=test
//# Query messages that do not match any of the above conditions (e.g., a Query of length 26 octets)
//# MUST be silently ignored.
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.2
//= type=test
//# When a packet is received, the checksum MUST be verified before processing it.
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.2
//= type=test
//# When a packet is received, the checksum MUST be verified before processing it.
#[test]
fn mld_queries() {
    for (sources, version) in [
        (None, mld::Version::V1),
        (Some([].as_slice()), mld::Version::V2),
        (Some(&[SOURCE6]), mld::Version::V2),
    ] {
        let mut out = [0; 60];
        let len = mld::emit_query(1000, GROUP6, sources, ENDS6, &mut out).unwrap();
        let Ok(mld::Message::Query(query)) = mld::Message::parse(&out[..len]) else {
            panic!("{sources:?}");
        };
        assert_eq!((query.version, query.group), (version, GROUP6));
        assert_eq!(query.max_response(), Duration::from_secs(1));
        assert!(
            query
                .sources
                .eq(sources.unwrap_or_default().iter().copied())
        );
        for short in 0..len {
            // Cut to 24 bytes a query is one of version 1, with an empty list.
            if short != mld::MESSAGE_LEN {
                assert!(mld::Message::parse(&out[..short]).is_err(), "{short}");
            }
        }
    }
}

#[test]
fn lists_that_lie_about_their_length() {
    let report = igmp_report();
    // The number of records, of sources, and the length of auxiliary data.
    for (at, more) in [(7, 3), (19, 3), (19, 255), (9, 7), (17, 1)] {
        let mut bytes = report.clone();
        bytes[at] = more;
        bytes[2..4].fill(0);
        let checksum = checksum::sum(&bytes).finish();
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        let answer = igmp::Message::parse(&bytes);
        assert_eq!(answer, Err(igmp::ParseError::BadList), "{at} {more}");
    }
    let mut query = [0; 20];
    igmp::emit_query(1, GROUP, Some(&SOURCES), &mut query).unwrap();
    query[11] = 3;
    query[3] = query[3].wrapping_sub(1);
    assert_eq!(igmp::Message::parse(&query), Err(igmp::ParseError::BadList));
    let mut bytes = mld_report();
    bytes[7] = 3;
    assert_eq!(mld::Message::parse(&bytes), Err(mld::ParseError::BadList));
    for len in 0..8 {
        let cut = igmp::Message::parse(&report[..len]);
        assert_eq!(cut, Err(igmp::ParseError::Truncated), "{len}");
    }
    let mut spoiled = report;
    spoiled[20] ^= 1;
    let answer = igmp::Message::parse(&spoiled);
    assert_eq!(answer, Err(igmp::ParseError::BadChecksum));
}

fn offer() -> dhcpv4::Header {
    dhcpv4::Header {
        to_server: false,
        xid: 0x1234_5678,
        secs: 3,
        broadcast: true,
        ciaddr: Ipv4Addr::UNSPECIFIED,
        yiaddr: Ipv4Addr::new(192, 0, 2, 50),
        siaddr: Ipv4Addr::new(192, 0, 2, 1),
        giaddr: Ipv4Addr::UNSPECIFIED,
        chaddr: MacAddr([2, 0, 0, 0, 0, 1]),
    }
}

fn dhcp_options() -> [DhcpOption<'static>; 16] {
    let server = Ipv4Addr::new(192, 0, 2, 1);
    [
        DhcpOption::MessageType(MessageType::OFFER),
        DhcpOption::ServerId(server),
        DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 255, 0)),
        DhcpOption::Routers(&[192, 0, 2, 1]),
        DhcpOption::DnsServers(&[192, 0, 2, 1, 192, 0, 2, 2]),
        DhcpOption::HostName(b"gannet"),
        DhcpOption::Mtu(1400),
        DhcpOption::RequestedAddress(server),
        DhcpOption::LeaseTime(3600),
        DhcpOption::RenewalTime(1800),
        DhcpOption::RebindingTime(3150),
        DhcpOption::ParameterRequest(&[1, 3, 6]),
        DhcpOption::Message(b"no"),
        DhcpOption::MaxMessageSize(548),
        DhcpOption::ClientId(&[1, 2, 0, 0, 0, 0, 1]),
        DhcpOption::Unknown {
            code: 15,
            data: b"example",
        },
    ]
}

fn dhcp(header: dhcpv4::Header, options: &[DhcpOption<'_>]) -> Vec<u8> {
    let mut out = vec![0xa5; 600];
    let len = header.emit(options, &mut out).unwrap();
    out.truncate(len);
    out
}

#[test]
fn dhcp_messages_are_found_again() {
    for (header, options) in [(offer(), &dhcp_options()[..]), (offer(), &[])] {
        let bytes = dhcp(header, options);
        assert!(bytes.len() >= dhcpv4::MIN_LEN);
        let (got, found) = dhcpv4::Header::parse(&bytes).unwrap();
        assert_eq!(got, header);
        assert!(found.clone().eq(options.iter().copied()), "{found:?}");
        for room in 0..bytes.len() {
            assert_eq!(header.emit(options, &mut vec![0; room]), None, "{room}");
        }
    }
    let servers = [192, 0, 2, 1, 192, 0, 2, 2];
    let list: Vec<_> = dhcpv4::addresses(&servers).collect();
    assert_eq!(
        list,
        [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)]
    );
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
//= type=test
//# Any individual option in the 'options', 'sname' and 'file' fields MUST be entirely contained in
//# that field.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
//= type=test
//# The options in the 'options' field MUST be interpreted first, so that any 'option overload'
//# options may be interpreted.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
//= type=test
//# The 'file' field MUST be interpreted next (if the 'option overload' option indicates that the
//# 'file' field contains DHCP options), followed by the 'sname' field.
#[test]
fn u4_dhcp_option_overrun_and_overload() {
    use dhcpv4::ParseError::{BadCookie, BadHardwareType, BadOperation, BadOption, Truncated};
    let good = dhcp(offer(), &[]);
    let with = |options: &[u8], file: &[u8], sname: &[u8]| {
        let mut bytes = good.clone();
        bytes.truncate(dhcpv4::HEADER_LEN);
        bytes[108..108 + file.len()].copy_from_slice(file);
        bytes[44..44 + sname.len()].copy_from_slice(sname);
        bytes.extend(options);
        dhcpv4::Header::parse(&bytes).map(|(_, options)| options.count())
    };
    let full = |last: &[u8], len: usize| {
        let mut area = vec![0; len - last.len()];
        area.extend(last);
        area
    };
    // (options, file, sname, how many)
    type Case<'a> = (
        &'a [u8],
        &'a [u8],
        &'a [u8],
        Result<usize, dhcpv4::ParseError>,
    );
    let cases: [Case<'_>; 15] = [
        (&[], &[], &[], Ok(0)),
        (&[0, 0, 0], &[], &[], Ok(0)),
        (&[53, 1, 2], &[], &[], Ok(1)), // no end option: forgiven
        (&[53, 1, 2, 255, 53, 9], &[], &[], Ok(1)), // nothing counts behind the end
        (&[53], &[], &[], Err(BadOption)),
        (&[53, 1], &[], &[], Err(BadOption)),
        (&[53, 255, 2], &[], &[], Err(BadOption)),
        (&[12, 0, 53, 1, 2], &[], &[], Ok(2)), // length 0: an option without data
        (&[53, 1, 2], &[99, 1, 1], &[99, 1, 1], Ok(1)), // not overloaded: a file's name
        (&[52, 1, 1], &[99, 1, 1], &[99, 1, 1], Ok(2)),
        (&[52, 1, 2], &[99, 1, 1], &[99, 1, 1, 98, 1, 1], Ok(3)),
        (&[52, 1, 3], &[99, 1, 1], &[99, 1, 1], Ok(3)),
        (&[52, 1, 4], &[99, 1, 1], &[99, 1, 1], Ok(1)), // no such overload
        (&[52, 1, 1], &full(&[53, 1], 128), &[], Err(BadOption)), // into the cookie
        (&[52, 1, 2], &[], &full(&[53, 2, 1], 64), Err(BadOption)), // into the file
    ];
    for (options, file, sname, expected) in cases {
        let got = with(options, file, sname);
        assert_eq!(got, expected, "{options:?} {file:?} {sname:?}");
    }
    // An overload within an overloaded area opens nothing.
    assert_eq!(with(&[52, 1, 1], &[52, 1, 3], &[99, 1, 1]), Ok(2));

    for len in 0..dhcpv4::HEADER_LEN {
        assert_eq!(dhcpv4::Header::parse(&good[..len]).err(), Some(Truncated));
    }
    for (at, byte, error) in [
        (0, 0, BadOperation),
        (0, 3, BadOperation),
        (1, 6, BadHardwareType),
        (2, 16, BadHardwareType),
        (236, 98, BadCookie),
        (239, 0, BadCookie),
    ] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        assert_eq!(dhcpv4::Header::parse(&bytes).err(), Some(error), "{at}");
    }
    // A known option of a wrong length is an unknown one.
    for (code, len) in [
        (1, 3),
        (3, 6),
        (3, 0),
        (6, 5),
        (26, 4),
        (51, 2),
        (53, 2),
        (61, 1),
    ] {
        let mut option = vec![code, len];
        option.resize(2 + usize::from(len), 0);
        let mut bytes = good[..dhcpv4::HEADER_LEN].to_vec();
        bytes.extend(option);
        let (_, mut options) = dhcpv4::Header::parse(&bytes).unwrap();
        let got = options.next().unwrap();
        assert!(
            matches!(got, DhcpOption::Unknown { code: c, .. } if c == code),
            "{got:?}"
        );
    }
}

fn ip(protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        tos: 0,
        total_len: 20 + payload.len() as u16,
        ident: 0,
        reserved_flag: false,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 1,
        protocol,
        src: SOURCES[0],
        dst: GROUP,
        options: ipv4::OptionReport::default(),
    };
    let mut out = vec![0; 20];
    header.emit(&mut out).unwrap();
    out.extend(payload);
    out
}

#[test]
fn router_alert_in_an_ipv4_header() {
    let mut bytes = ip(IpProtocol::IGMP, &igmp_report());
    let (mut header, _) = ipv4::Header::parse(&bytes).unwrap();
    header.total_len += 4;
    bytes.splice(0..20, [0; 24]);
    assert_eq!(header.emit_with_router_alert(&mut bytes), Some(24));
    assert_eq!(ipv4::Header::parse(&bytes), Ok((header, 24)));
    assert_eq!(bytes[20..24], [148, 4, 0, 0]);
    assert_eq!(header.emit_with_router_alert(&mut [0; 23]), None);
}

#[test]
fn lines_for_people() {
    let line = |payload: &[u8]| pretty::ipv4(&ip(IpProtocol::IGMP, payload)).to_string();
    assert_eq!(
        line(&igmp_report()),
        "10.0.0.1 > 239.1.2.3 IGMP V3 report, to_ex 239.1.2.3, \
         allow 232.0.0.9 sources 10.0.0.1,10.0.0.2"
    );
    let mut query = [0; 8];
    igmp::emit_query(100, GROUP, None, &mut query).unwrap();
    assert_eq!(
        line(&query),
        "10.0.0.1 > 239.1.2.3 IGMP V2 query 239.1.2.3 within 10s"
    );

    let mut packet = vec![0; 40];
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: mld_report().len() as u16,
        next_header: IpProtocol::ICMPV6,
        hop_limit: 1,
        src: ENDS6.0,
        dst: ENDS6.1,
    };
    header.emit(&mut packet).unwrap();
    packet.extend(mld_report());
    assert_eq!(
        pretty::ipv6(&packet).to_string(),
        "fe80::1 > ff02::16 ICMPv6 MLD V2 report, to_ex ff05::99, block ff05::99 \
         sources 2001:db8::7"
    );

    let message = dhcp(offer(), &dhcp_options()[..2]);
    let mut datagram = vec![0, 67, 0, 68, 0, 0, 0, 0];
    datagram[4..6].copy_from_slice(&(8 + message.len() as u16).to_be_bytes());
    datagram.extend(message);
    let dhcp = pretty::ipv4(&ip(IpProtocol::UDP, &datagram)).to_string();
    assert_eq!(
        dhcp,
        "10.0.0.1:67 > 239.1.2.3:68 UDP length 300 DHCP offer xid 12345678 \
         gives 192.0.2.50 server 192.0.2.1"
    );

    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0xb0, 5, 8, 0]);
    frame.extend(ip(IpProtocol(99), b"abcd"));
    assert_eq!(
        pretty::ethernet(&frame).to_string(),
        "02:02:02:02:02:02 > 02:02:02:02:02:02 vlan 7 vlan 5 \
         10.0.0.1 > 239.1.2.3 protocol 99 length 4"
    );
    assert_eq!(
        pretty::ethernet(&frame[..20]).to_string(),
        "02:02:02:02:02:02 > 02:02:02:02:02:02 vlan 7 VLAN [Truncated, 2 bytes]"
    );
}

proptest! {
    #![proptest_config(Config {
        cases: 1_000,
        rng_seed: RngSeed::Fixed(0x0067_726f_7570),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn tags_are_found_again_and_etherparse_reads_them(
        priority in 0..8_u8,
        drop_eligible in any::<bool>(),
        id in 0..4096_u16,
        kind in any::<u16>(),
    ) {
        let tag = vlan::Tag { priority, drop_eligible, id, ethertype: EtherType(kind) };
        let mut out = [0; 4];
        prop_assert_eq!(tag.emit(&mut out), Some(4));
        prop_assert_eq!(vlan::Tag::parse(&out), Ok((tag, 4)));
        prop_assert_eq!(tag.emit(&mut [0; 3]), None);
        prop_assert_eq!(vlan::Tag::parse(&out[..3]), Err(vlan::ParseError::Truncated));
        let (theirs, _) = etherparse::SingleVlanHeader::from_slice(&out).unwrap();
        prop_assert_eq!(theirs.pcp.value(), priority);
        prop_assert_eq!(theirs.drop_eligible_indicator, drop_eligible);
        prop_assert_eq!((theirs.vlan_id.value(), theirs.ether_type.0), (id, kind));
    }

    #[test]
    fn any_bytes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        // Types that lead deep, and good checksums and cookies.
        if let Some(first) = bytes.first_mut() {
            *first = [0x11, 0x22, 0x16, 130, 143, 131, 1, 2][usize::from(*first) % 8];
        }
        if let Some(cookie) = bytes.get_mut(236..240) {
            cookie.copy_from_slice(&[99, 130, 83, 99]);
        }
        if let Some(hardware) = bytes.get_mut(1..3) {
            hardware.copy_from_slice(&[1, 6]);
        }
        if let Ok((_, options)) = dhcpv4::Header::parse(&bytes) {
            prop_assert!(options.count() <= 600);
        }
        if let Some(checksum) = bytes.get_mut(2..4) {
            checksum.fill(0);
            let value = checksum::sum(&bytes).finish();
            bytes[2..4].copy_from_slice(&value.to_be_bytes());
        }
        if let Ok(igmp::Message::ReportV3(records)) = igmp::Message::parse(&bytes) {
            prop_assert!(records.count() <= 300 / 8);
        }
        if let Ok(mld::Message::ReportV2(records)) = mld::Message::parse(&bytes) {
            prop_assert!(records.map(|r| r.sources.count()).sum::<usize>() <= 300 / 16);
        }
        let line = pretty::ipv4(&ip(IpProtocol::IGMP, &bytes)).to_string();
        prop_assert!(!line.contains('\n'));
    }

    #[test]
    fn etherparse_agrees_on_igmp(group in any::<Ipv4Addr>()) {
        let mut out = [0; 8];
        igmp::emit_old(igmp::Old::ReportV2, group, &mut out).unwrap();
        let (theirs, _) = etherparse::IgmpHeader::from_slice(&out).unwrap();
        let etherparse::IgmpType::MembershipReportV2(report) = theirs.igmp_type else {
            return Err(TestCaseError::fail(format!("{:?}", theirs.igmp_type)));
        };
        prop_assert_eq!(report.group_address, group.octets().into());
    }
}
