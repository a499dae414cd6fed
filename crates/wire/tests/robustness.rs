//! Bad input, one test per row of the robustness list: what each parser must answer to it.

use gannet_wire::icmpv4::{self, Message, QuoteError, Quoted, Unreachable};
use gannet_wire::tcp::{self, FastOpenCookie, Options, UserTimeout};
use gannet_wire::{IpProtocol, checksum, ethernet, ipv4, udp};
use std::net::Ipv4Addr;
use std::time::Duration;

/// A good packet of 20 + `payload` bytes.
fn packet(payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; 20 + payload];
    header(payload).emit(&mut bytes).unwrap();
    bytes
}

fn header(payload: usize) -> ipv4::Header {
    ipv4::Header {
        tos: 0,
        total_len: 20 + payload as u16,
        ident: 7,
        reserved_flag: false,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: IpProtocol::TCP,
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(192, 0, 2, 2),
        options: ipv4::OptionReport::default(),
    }
}

/// The same packet with options (a multiple of 4 bytes) and a good checksum.
fn packet_with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = packet(8);
    bytes.splice(20..20, options.iter().copied());
    bytes[0] = 0x40 | (5 + options.len() / 4) as u8;
    bytes[2..4].copy_from_slice(&(28 + options.len() as u16).to_be_bytes());
    seal(&mut bytes, 20 + options.len());
    bytes
}

fn seal(bytes: &mut [u8], header_len: usize) {
    bytes[10..12].fill(0);
    let checksum = checksum::sum(&bytes[..header_len]).finish();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn l1_runt_frame() {
    for len in 0..ethernet::HEADER_LEN {
        let frame = vec![0xff; len];
        assert_eq!(
            ethernet::Header::parse(&frame),
            Err(ethernet::ParseError::Truncated),
            "{len}"
        );
    }
    let (header, len) = ethernet::Header::parse(&[0xff; 14]).unwrap();
    assert!(header.dst.is_broadcast() && len == 14);
}

#[test]
fn l2_ip_length_beyond_the_frame_and_padding_after_it() {
    let mut bytes = packet(10);
    let short = bytes.len() - 1;
    assert_eq!(
        ipv4::Header::parse(&bytes[..short]),
        Err(ipv4::ParseError::BadTotalLength)
    );
    // Headers in the slot, payload elsewhere: the frame's length decides, not the slice's.
    assert!(ipv4::Header::parse_split(&bytes[..20], 30).is_ok());
    let beyond = ipv4::Header::parse_split(&bytes[..20], 29);
    assert_eq!(beyond, Err(ipv4::ParseError::BadTotalLength));
    bytes.extend([0; 16]);
    let (header, header_len) = ipv4::Header::parse(&bytes).unwrap();
    assert_eq!(header.payload_len(header_len), 10);
}

#[test]
fn i1_version_and_header_length() {
    use ipv4::ParseError::{BadHeaderLength, BadTotalLength, BadVersion, Truncated};
    let cases = [
        // (first byte, total length, bytes present, answer)
        (0x35, 30, 30, Err(BadVersion)),
        (0x65, 30, 30, Err(BadVersion)),
        (0x05, 30, 30, Err(BadVersion)),
        (0x40, 30, 30, Err(BadHeaderLength)),
        (0x44, 30, 30, Err(BadHeaderLength)),
        (0x4f, 30, 30, Err(Truncated)),
        (0x48, 30, 32, Err(BadTotalLength)), // IHL * 4 > total length
        (0x45, 19, 30, Err(BadTotalLength)), // CVE-2021-31401
        (0x45, 0, 30, Err(BadTotalLength)),
        (0x45, 31, 30, Err(BadTotalLength)),
        (0x45, 65_535, 30, Err(BadTotalLength)),
        (0x45, 20, 20, Ok(0)),
        (0x45, 30, 30, Ok(10)),
    ];
    for (first, total_len, present, answer) in cases {
        let mut bytes = packet(40);
        bytes[0] = first;
        bytes[2..4].copy_from_slice(&u16::to_be_bytes(total_len));
        let header_len = usize::from(first & 0xf) * 4;
        seal(&mut bytes, header_len);
        let parsed = ipv4::Header::parse(&bytes[..present]);
        let payload = parsed.map(|(header, len)| header.payload_len(len));
        assert_eq!(payload, answer, "{first:#x} {total_len} {present}");
    }
    for len in 0..20 {
        assert_eq!(
            ipv4::Header::parse(&packet(0)[..len]),
            Err(Truncated),
            "{len}"
        );
    }
}

#[test]
fn i2_bad_header_checksum() {
    let good = packet(0);
    assert!(ipv4::Header::parse(&good).is_ok());
    // Each single flipped bit that leaves the lengths believable is found.
    for bit in 0..160 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(ipv4::Header::parse(&bytes).is_err(), "bit {bit}");
        if !(0..8).contains(&bit) && !(16..32).contains(&bit) {
            let answer = ipv4::Header::parse(&bytes);
            assert_eq!(answer, Err(ipv4::ParseError::BadChecksum), "bit {bit}");
            assert!(
                ipv4::Header::parse_unverified(&bytes, 20).is_ok(),
                "bit {bit}"
            );
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc791#section-3.2
//= type=test
//# That is, the presence or absence of an option is the choice of the sender, but each internet
//# module must be able to parse every option.
#[test]
fn i3_ip_options() {
    // (options, source route, repeated, malformed)
    let cases: [(&[u8], bool, bool, bool); 22] = [
        (&[1, 1, 1, 1], false, false, false),
        (&[1; 40], false, false, false),
        (&[0, 131, 7, 3], false, false, false), // after the end of the list nothing counts
        (&[7, 0, 4, 0], false, false, true),    // length 0
        (&[7, 1, 4, 0], false, false, true),
        (&[148, 0, 0, 0], false, false, true), // router alert, length 0
        (&[1, 1, 1, 148], false, false, true), // no length byte
        (&[148, 5, 0, 0], false, false, true), // beyond the header
        (&[148, 255, 0, 0], false, false, true),
        (&[148, 4, 0, 0], false, false, false),
        (&[99, 4, 0, 0], false, false, false), // unknown: skipped
        (&[131, 7, 4, 192, 0, 2, 9, 0], true, false, false),
        (&[137, 7, 4, 192, 0, 2, 9, 0], true, false, false),
        (&[131, 7, 8, 192, 0, 2, 9, 0], true, false, false), // full
        (&[131, 7, 3, 192, 0, 2, 9, 0], true, false, true),  // pointer below 4
        (&[131, 7, 0, 192, 0, 2, 9, 0], true, false, true),
        (&[131, 7, 12, 192, 0, 2, 9, 0], true, false, true), // pointer past the end
        (&[131, 7, 5, 192, 0, 2, 9, 0], true, false, true),  // pointer between addresses
        (&[131, 2, 0, 0], true, false, true),                // no pointer at all
        (&[7, 7, 3, 192, 0, 2, 9, 0], false, false, true),
        (&[131, 3, 4, 137, 3, 4, 0, 0], true, true, false), // two source routes
        (&[68, 4, 5, 0xf0], false, false, false),           // time stamp, overflow counter full
    ];
    for (options, source_route, repeated_source_route, malformed) in cases {
        let bytes = packet_with_options(options);
        let (header, len) = ipv4::Header::parse(&bytes).unwrap();
        let expected = ipv4::OptionReport {
            source_route,
            repeated_source_route,
            malformed,
        };
        assert_eq!(header.options, expected, "{options:?}");
        assert_eq!(
            header.options.is_clean(),
            expected == ipv4::OptionReport::default()
        );
        assert_eq!(
            (len, header.payload_len(len)),
            (20 + options.len(), 8),
            "{options:?}"
        );
        // Never reflected: what we write has no options.
        let mut out = [0; 60];
        assert_eq!(header.emit(&mut out), Some(20));
        assert_eq!(out[0], 0x45);
    }
}

#[test]
fn i6_flag_bits() {
    for bits in 0..8_u8 {
        let sent = ipv4::Header {
            reserved_flag: bits & 4 != 0,
            dont_fragment: bits & 2 != 0,
            more_fragments: bits & 1 != 0,
            ..header(0)
        };
        let mut bytes = [0; 20];
        sent.emit(&mut bytes).unwrap();
        assert_eq!(bytes[6] >> 5, bits);
        let (got, _) = ipv4::Header::parse(&bytes).unwrap();
        assert_eq!(got, sent);
        assert_eq!(got.is_fragment(), bits & 1 != 0);
    }
}

#[test]
fn c1_quoted_packet_cut_or_bad() {
    let mut quote = packet(8);
    quote[20..28].copy_from_slice(&[0x12, 0x34, 0, 80, 1, 2, 3, 4]);
    // Routers change fields and cut packets: neither checksum nor total length has to fit.
    quote[8] = 1;
    quote[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    let quoted = Quoted::parse(&quote).unwrap();
    assert_eq!(quoted.ports(), Some((0x1234, 80)));
    assert_eq!(quoted.tcp_seq(), Some(0x0102_0304));
    assert_eq!(quoted.ip.src, Ipv4Addr::new(192, 0, 2, 1));

    let with = |at: usize, byte: u8| {
        let mut bad = quote.clone();
        bad[at] = byte;
        Quoted::parse(&bad)
    };
    for len in 0..28 {
        let error = if len < 20 {
            QuoteError::BadIpHeader
        } else {
            QuoteError::Truncated
        };
        assert_eq!(Quoted::parse(&quote[..len]), Err(error), "{len}");
    }
    assert_eq!(with(0, 0x65), Err(QuoteError::BadIpHeader)); // version
    assert_eq!(with(0, 0x44), Err(QuoteError::BadIpHeader)); // IHL too small
    assert_eq!(with(0, 0x46), Err(QuoteError::Truncated)); // IHL leaves 4 bytes
    assert_eq!(with(0, 0x4f), Err(QuoteError::BadIpHeader)); // IHL beyond the quote
    assert_eq!(with(7, 1), Err(QuoteError::LaterFragment));
    // CVE-2026-23398: an inner protocol that nobody registered.
    for protocol in [0, 1, 132, 253, 255] {
        let unknown = with(9, protocol).unwrap();
        assert_eq!(
            (unknown.ports(), unknown.tcp_seq()),
            (None, None),
            "{protocol}"
        );
    }
    assert_eq!(with(9, 17).unwrap().tcp_seq(), None);
    let mut tiny = quote.clone();
    tiny[2..4].copy_from_slice(&19_u16.to_be_bytes());
    assert_eq!(Quoted::parse(&tiny), Err(QuoteError::BadIpHeader));
}

#[test]
fn c2_echo_too_short_and_unknown_messages() {
    for len in 0..8 {
        let bytes = vec![8; len];
        assert_eq!(
            Message::parse(&bytes),
            Err(icmpv4::ParseError::Truncated),
            "{len}"
        );
    }
    let mut echo = [0; 8];
    let request = Message::EchoRequest { ident: 1, seq: 2 };
    request.emit(checksum::Sum::new(), &mut echo).unwrap();
    assert_eq!(Message::parse(&echo), Ok((request, 8)));
    echo[7] ^= 1;
    assert_eq!(Message::parse(&echo), Err(icmpv4::ParseError::BadChecksum));
    // An echo with a code, and every type that we do not know, stay what they are.
    for (kind, code) in [
        (8, 1),
        (0, 255),
        (4, 0),
        (5, 1),
        (13, 0),
        (15, 0),
        (17, 0),
        (255, 255),
    ] {
        let other = Message::Other {
            kind,
            code,
            rest: [1, 2, 3, 4],
        };
        let mut bytes = [0; 8];
        other.emit(checksum::Sum::new(), &mut bytes).unwrap();
        assert_eq!(Message::parse(&bytes), Ok((other, 8)));
        assert_eq!(other.is_error(), matches!(kind, 4 | 5));
    }
}

#[test]
fn c5_next_hop_mtu_only_where_it_means_something() {
    for mtu in [0, 1, 67, 68, 551, 65_535_u16] {
        for code in [3, 4, 13] {
            let [hi, lo] = mtu.to_be_bytes();
            let bytes = [3, code, 0, 0, 0xaa, 0xbb, hi, lo];
            let expected = if code == 4 { mtu } else { 0 };
            let message = Message::DestinationUnreachable {
                code: Unreachable(code),
                next_hop_mtu: expected,
            };
            assert_eq!(Message::parse_unverified(&bytes), Ok((message, 8)));
        }
    }
}

#[test]
fn t1_tcp_header_too_short_or_data_offset_impossible() {
    use tcp::ParseError::{BadDataOffset, Truncated};
    for len in 0..20 {
        assert_eq!(
            tcp::Header::parse(&vec![0x50; len]),
            Err(Truncated),
            "{len}"
        );
    }
    for words in 0..16_u8 {
        for len in [20, 24, 40, 60, 100] {
            let mut bytes = vec![0; len];
            bytes[12] = words << 4;
            let header_len = usize::from(words) * 4;
            let parsed = tcp::Header::parse(&bytes).map(|(_, len)| len);
            let good = words >= 5 && header_len <= len;
            let expected = if good {
                Ok(header_len)
            } else {
                Err(BadDataOffset)
            };
            assert_eq!(parsed, expected, "{words} words, {len} bytes");
        }
    }
    // A made-up header length cannot reach outside either.
    assert_eq!(tcp::options(&[0; 20], 60), &[] as &[u8]);
    assert_eq!(tcp::options(&[0; 20], 0), &[] as &[u8]);
    assert_eq!(tcp::set_checksum(&mut [0; 17], 1), None);
}

#[test]
fn t2_tcp_options() {
    let none = Options::NONE;
    let mss = Options {
        mss: Some(1460),
        ..none
    };
    let malformed = Options {
        malformed: true,
        ..none
    };
    let one_block = Options {
        sack: [(1, 2)].into_iter().collect(),
        ..none
    };
    let cases: [(&[u8], Options); 35] = [
        (&[], none),
        (&[0], none),
        (&[1; 40], none),
        (&[0, 2, 4, 5, 180], none), // beyond the end of the list
        (&[2, 4, 5, 180], mss),
        (&[1, 2, 4, 5, 180], mss), // unaligned (MUST-64)
        (&[1, 1, 1, 2, 4, 5, 180, 0], mss),
        (&[2, 0, 5, 180], malformed), // MUST-7
        (&[2, 1, 5, 180], malformed),
        (&[2, 5, 5, 180], malformed), // beyond the option space
        (&[2], malformed),
        (&[8, 255], malformed),
        (
            &[2, 4, 5, 180, 3, 0],
            Options {
                malformed: true,
                ..mss
            },
        ), // what came before is kept
        (&[2, 3, 5], none), // known, wrong length
        (&[2, 2], none),
        (&[3, 2], none),
        (&[3, 4, 7, 7], none),
        (&[4, 3, 0], none),
        (&[5, 2], none),
        (&[5, 9, 0, 0, 0, 1, 0, 0, 0], none),
        (&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2], one_block),
        (&[8, 9, 0, 0, 0, 1, 0, 0, 0], none),
        (&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2], Options::timestamps(1, 2)),
        (&[2, 4, 0, 1, 2, 4, 5, 180], mss), // repeated: the last counts
        (
            &[3, 3, 7],
            Options {
                window_scale: Some(7),
                ..none
            },
        ),
        (
            &[3, 3, 14],
            Options {
                window_scale: Some(14),
                ..none
            },
        ),
        (
            &[3, 3, 15],
            Options {
                window_scale: Some(14),
                ..none
            },
        ),
        (
            &[3, 3, 255],
            Options {
                window_scale: Some(14),
                ..none
            },
        ),
        (
            &[4, 2],
            Options {
                sack_permitted: true,
                ..none
            },
        ),
        (
            &[2, 4, 0, 0],
            Options {
                mss: Some(0),
                ..none
            },
        ), // CVE-2019-11479: floor in the stack
        (
            &[2, 4, 0, 1],
            Options {
                mss: Some(1),
                ..none
            },
        ),
        (
            &[2, 4, 255, 255],
            Options {
                mss: Some(65_535),
                ..none
            },
        ),
        (
            &[
                19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 180,
            ],
            mss,
        ), // MD5
        (&[29, 2, 2, 4, 5, 180], mss), // TCP-AO too short (CVE-2019-12260)
        (&[34, 5, 1, 2, 3, 2, 4, 5, 180], mss), // fast open, odd cookie
    ];
    for (bytes, expected) in cases {
        assert_eq!(Options::parse(bytes), expected, "{bytes:?}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.1
//= type=test
//# Options with invalid Length values or without the SYN flag set MUST
//# be ignored.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.1
//= type=test
//# The number MUST be even.
#[test]
fn t2_fast_open_cookies() {
    for len in 0..=38_u8 {
        let mut bytes = vec![34, 2 + len];
        bytes.extend(1..=len);
        let read = Options::parse(&bytes).fast_open();
        let good = len == 0 || (4..=16).contains(&len) && len.is_multiple_of(2);
        assert_eq!(read.is_some(), good, "{len}");
        let Some(cookie) = read else {
            continue;
        };
        assert_eq!(cookie.as_slice(), &bytes[2..]);
        // written beside everything that a SYN has, and read again
        let mut options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((1, 2)),
            ..Options::NONE
        };
        options.set_fast_open(&cookie);
        let mut out = [0; 40];
        let written = options.emit(&mut out).expect("room");
        assert_eq!(written, 20 + (2 + usize::from(len)).next_multiple_of(4));
        assert_eq!(Options::parse(&out[..written]), options);
        // blocks and a cookie do not mix
        assert!(!options.sack.push(1, 2));
        assert!(options.sack.as_slice().is_empty());
    }
}

/// RFC 5482 section 3.3: the option in bytes, and what it means in seconds.
#[test]
fn t2_user_timeouts() {
    for (bytes, seconds) in [
        ([28, 4, 0, 1], Some(1)),
        ([28, 4, 0x7f, 0xff], Some(32_767)),
        ([28, 4, 0x80, 1], Some(60)),
        ([28, 4, 0xff, 0xff], Some(32_767 * 60)),
        //= https://www.rfc-editor.org/rfc/rfc5482#section-3.4
        //= type=test
        //# Current TCP implementations MUST NOT send it and MUST ignore it upon reception.
        ([28, 4, 0, 0], None),
        ([28, 4, 0x80, 0], None),
        ([28, 3, 0, 1], None),
    ] {
        let options = Options::parse(&bytes);
        let read = options.user_timeout().map(|t| t.duration());
        assert_eq!(read, seconds.map(Duration::from_secs), "{bytes:?}");
        let mut out = [0; 40];
        let written = options.emit(&mut out).expect("room");
        assert_eq!(
            &out[..written],
            if seconds.is_some() { &bytes[..] } else { &[] }
        );
    }
    for (time, told) in [
        (0, None),
        (1, Some(1)),
        (1001, Some(2)),
        (32_767_000, Some(32_767)),
        (32_767_001, Some(32_820)),
        (u64::MAX, Some(32_767 * 60)),
    ] {
        let told_now = UserTimeout::new(Duration::from_millis(time)).map(UserTimeout::duration);
        assert_eq!(told_now, told.map(Duration::from_secs), "{time}");
    }
}

/// Beside SACK blocks it takes the room of one; beside a full SYN there is none.
#[test]
fn t2_user_timeouts_beside_others() {
    let timeout = UserTimeout::new(Duration::from_secs(300)).expect("not 0");
    let mut options = Options::timestamps(1, 2);
    options.sack = (0..3).map(|n| (n, n)).collect();
    options.set_user_timeout(timeout);
    let mut out = [0; 40];
    let written = options.emit(&mut out).expect("room");
    let read = Options::parse(&out[..written]);
    assert_eq!((written, read.sack.as_slice().len()), (36, 2));
    assert_eq!(read.user_timeout(), Some(timeout));
    for len in [14, 16] {
        let mut options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            ..Options::timestamps(1, 2)
        };
        options.set_user_timeout(timeout);
        options.set_fast_open(&FastOpenCookie::new(&vec![7; len]).expect("even"));
        let written = options.emit(&mut out).expect("room");
        let read = Options::parse(&out[..written]);
        assert_eq!((written, read.user_timeout().is_some()), (40, len == 14));
        assert_eq!(read.fast_open(), options.fast_open());
    }
}

#[test]
fn t2_more_than_four_sack_blocks() {
    // A header has room for 4; option bytes from elsewhere may claim more.
    let mut bytes = vec![5, 2 + 8 * 6];
    bytes.extend((0..12_u32).flat_map(u32::to_be_bytes));
    let options = Options::parse(&bytes);
    assert_eq!(options.sack.as_slice(), [(0, 1), (2, 3), (4, 5), (6, 7)]);
}

#[test]
fn u1_udp_length() {
    use udp::ParseError::{BadLength, Truncated};
    for len in 0..8 {
        assert_eq!(udp::Header::parse(&vec![0; len]), Err(Truncated), "{len}");
    }
    // (length field, IP payload, answer)
    let cases = [
        (0, 8, false),
        (7, 8, false),
        (8, 8, true),
        (9, 8, false),
        (8, 20, true), // padding
        (65_535, 20, false),
        (65_535, 65_535, true),
    ];
    for (length, available, good) in cases {
        let header = udp::Header {
            src_port: 1,
            dst_port: 2,
            length,
            checksum: 0,
        };
        let mut bytes = [0; 8];
        header.emit(&mut bytes).unwrap();
        let expected = if good {
            Ok((header, 8))
        } else {
            Err(BadLength)
        };
        assert_eq!(
            udp::Header::parse_split(&bytes, available),
            expected,
            "{length} {available}"
        );
    }
}

#[test]
fn u1_udp_checksum_zero_and_all_ones() {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut header = udp::Header {
        src_port: 5,
        dst_port: 6,
        length: 10,
        checksum: 0,
    };
    assert!(!header.has_checksum());
    let pseudo = checksum::pseudo_v4(src, dst, IpProtocol::UDP, 10);
    // The data word that makes the computed checksum 0: it must be sent as all ones.
    let data = (!pseudo.combine(header.sum(), false).fold()).to_be_bytes();
    let sum = pseudo
        .combine(header.sum(), false)
        .combine(checksum::sum(&data), false);
    assert_eq!(sum.finish(), 0);
    header.checksum = udp::checksum_to_send(sum);
    assert_eq!(header.checksum, 0xffff);
    // And the receiver finds it good.
    let received = pseudo
        .combine(header.sum(), false)
        .combine(checksum::sum(&data), false);
    assert_eq!(received.finish(), 0);
}
