use super::*;
use gannet_wire::ethernet;

const PAYLOAD: usize = 3000;

/// An Ethernet frame with `PAYLOAD` bytes behind its headers, and the offload header it needs.
fn super_segment(version: Version, protocol: IpProtocol) -> (Header, Vec<u8>) {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    let tcp = protocol == IpProtocol::TCP;
    let transport = if tcp { 32 } else { 8 };
    let network = match version {
        Version::V4 => {
            let mut ip = vec![0x45, 0, 0, 0, 0x12, 0xff, 0x40, 0, 64, protocol.0, 0, 0];
            ip.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
            frame[12..14].copy_from_slice(&[8, 0]);
            ip
        }
        Version::V6 => {
            let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol.0, 64];
            ip.extend((0..32).map(|n| n as u8));
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            ip
        }
    };
    let start = frame.len() + network.len();
    frame.extend(network);
    frame.resize(start + transport, 7);
    if tcp {
        frame[start + 4..start + 8].copy_from_slice(&u32::MAX.to_be_bytes());
        frame[start + 12] = 8 << 4;
        frame[start + 13] = (0x10 | FIN_PSH | CWR) as u8;
    }
    frame.extend((0..PAYLOAD).map(|n| n as u8));
    let header = Header {
        flags: Flags::NEEDS_CSUM,
        segmentation: match (tcp, version) {
            (true, Version::V4) => Segmentation::TcpV4,
            (true, Version::V6) => Segmentation::TcpV6,
            (false, _) => Segmentation::UdpL4,
        },
        gso_size: 1400,
        csum_start: start as u16,
        csum_offset: if tcp { 16 } else { 6 },
        ..Header::default()
    };
    (header, frame)
}

/// The sum of pseudo header and transport, which is 0xffff when the checksum is right.
fn folded(version: Version, protocol: IpProtocol, piece: &[u8], transport: usize) -> u16 {
    let addresses = match version {
        Version::V4 => &piece[26..34],
        Version::V6 => &piece[22..54],
    };
    let mut total = sum(addresses);
    total.add_u16(u16::from(protocol.0));
    total.add_u16((piece.len() - transport) as u16);
    total.combine(sum(&piece[transport..]), false).fold()
}

#[test]
fn pieces_are_whole_packets_with_right_checksums() {
    for version in [Version::V4, Version::V6] {
        for (protocol, split) in [
            (IpProtocol::TCP, 4),
            (IpProtocol::UDP, 4),
            (IpProtocol::TCP, 200),
        ] {
            let (header, frame) = super_segment(version, protocol);
            let transport = usize::from(header.csum_start);
            let mut pieces = Vec::new();
            // however the bytes are spread over memory
            let (first, rest) = frame.split_at(frame.len() / split);
            let (second, third) = rest.split_at(rest.len() / 3);
            let parts = [first, second, &[], third, &[]];
            cut(&header, Medium::Ethernet, &parts, |piece| {
                pieces.push(piece);
            })
            .unwrap();
            let tcp = protocol == IpProtocol::TCP;
            let headers = transport + if tcp { 32 } else { 8 };
            let lens: Vec<usize> = pieces.iter().map(|p| p.len() - headers).collect();
            assert_eq!(lens, [1400, 1400, 200], "{version:?} {protocol:?}");
            let mut payload = Vec::new();
            for (index, piece) in pieces.iter().enumerate() {
                assert_eq!(folded(version, protocol, piece, transport), 0xffff);
                payload.extend_from_slice(&piece[headers..]);
                let ip_len = match version {
                    Version::V4 => u16::from_be_bytes([piece[16], piece[17]]),
                    Version::V6 => u16::from_be_bytes([piece[18], piece[19]]) + 40,
                };
                assert_eq!(usize::from(ip_len), piece.len() - 14);
                if version == Version::V4 {
                    assert_eq!(sum(&piece[14..34]).fold(), 0xffff);
                    assert_eq!(piece[18..20], (0x12ff + index as u16).to_be_bytes());
                }
                if tcp {
                    let seq = u32::MAX.wrapping_add(1400 * index as u32);
                    assert_eq!(piece[transport + 4..transport + 8], seq.to_be_bytes());
                    let flags = [0x10 | CWR, 0x10, 0x10 | FIN_PSH][index];
                    assert_eq!(u16::from(piece[transport + 13]), flags);
                }
            }
            assert!(payload.iter().copied().eq((0..PAYLOAD).map(|n| n as u8)));
        }
    }
}

#[test]
fn a_partial_checksum_is_completed() {
    let (header, mut frame) = super_segment(Version::V4, IpProtocol::TCP);
    let at = usize::from(header.csum_start);
    let header = Header {
        segmentation: Segmentation::None,
        ..header
    };
    let mut pseudo = sum(&frame[26..34]);
    pseudo.add_u16(6);
    pseudo.add_u16((frame.len() - at) as u16);
    frame[at + 16..at + 18].copy_from_slice(&pseudo.fold().to_be_bytes());
    let mut whole = Buffer::new();
    cut(&header, Medium::Ethernet, &[&frame], |piece| whole = piece).unwrap();
    assert_eq!(folded(Version::V4, IpProtocol::TCP, &whole, at), 0xffff);
}

#[test]
fn a_checksum_is_renewed_whatever_it_was() {
    for version in [Version::V4, Version::V6] {
        let (header, frame) = super_segment(version, IpProtocol::TCP);
        let at = usize::from(header.csum_start);
        let mut first = None;
        let keep = |piece| {
            first.get_or_insert(piece);
        };
        cut(&header, Medium::Ethernet, &[&frame], keep).unwrap();
        let mut piece = first.unwrap();
        piece[at + 16..at + 18].copy_from_slice(&[0xab, 0xcd]);
        piece.extend_from_slice(&[0x55; 7]); // padding of the link
        let place = Place::of(&piece, Medium::Ethernet).unwrap();
        renew_checksum(&mut piece, place);
        assert_eq!(
            folded(version, IpProtocol::TCP, &piece[..place.end], at),
            0xffff
        );
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let (good, frame) = super_segment(Version::V4, IpProtocol::TCP);
    let with = |change: fn(&mut Header)| {
        let mut header = good;
        change(&mut header);
        header
    };
    for (header, why) in [
        (with(|h| h.csum_start = 5000), Uncuttable::BadHeaders),
        (with(|h| h.csum_start = 20), Uncuttable::BadHeaders),
        (
            with(|h| h.segmentation = Segmentation::Udp),
            Uncuttable::Unsupported,
        ),
        (
            with(|h| {
                h.segmentation = Segmentation::None;
                h.csum_offset = 60_000;
            }),
            Uncuttable::ChecksumOutside,
        ),
    ] {
        let refused = cut(&header, Medium::Ethernet, &[&frame], |_| {
            panic!("{header:?}")
        });
        assert_eq!(refused, Err(why));
    }
    for len in 0..frame.len() {
        let part = frame.get(..len).unwrap_or(&[]).to_vec();
        let _ = cut(&good, Medium::Ethernet, &[&part], |_| {});
    }
    let huge = [frame, vec![0; 5000]].concat();
    let tiny = with(|h| h.gso_size = 1);
    let refused = cut(&tiny, Medium::Ethernet, &[&huge], |_| {});
    assert_eq!(refused, Err(Uncuttable::TooMany));
}
