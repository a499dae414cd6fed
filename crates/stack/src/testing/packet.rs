//! Packets with correct lengths and checksums, for tests to spoil.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use gannet_wire::checksum::sum;
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::{EtherType, MacAddr, ethernet, icmpv6, ipv6, udp};

use crate::address::pseudo;

/// An IP packet without options: IPv4 or IPv6, as the addresses say.
///
/// # Panics
/// When the payload is too long.
pub fn packet(
    source: IpAddr,
    destination: IpAddr,
    protocol: IpProtocol,
    payload: &[u8],
) -> Vec<u8> {
    if let (IpAddr::V6(src), IpAddr::V6(dst)) = (source, destination) {
        return six(src, dst, (protocol, 64), payload);
    }
    let total = ipv4::HEADER_LEN + payload.len();
    let mut bytes = alloc::vec![0; ipv4::HEADER_LEN];
    let header = ipv4::Header {
        tos: 0,
        total_len: u16::try_from(total).expect("a short payload"),
        ident: 1,
        reserved_flag: false,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol,
        src: four(source),
        dst: four(destination),
        options: ipv4::OptionReport::default(),
    };
    header.emit(&mut bytes).expect("20 bytes");
    bytes.extend_from_slice(payload);
    bytes
}

/// An IPv6 packet: what its next header is, and its hop limit.
///
/// # Panics
/// When the payload is too long.
pub fn six(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    (next_header, hop_limit): (IpProtocol, u8),
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = alloc::vec![0; ipv6::HEADER_LEN];
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: u16::try_from(payload.len()).expect("a short payload"),
        next_header,
        hop_limit,
        src,
        dst,
    };
    header.emit(&mut bytes).expect("40 bytes");
    bytes.extend_from_slice(payload);
    bytes
}

/// An ICMPv6 message in a packet: type, code, four bytes, payload.
///
/// # Panics
/// When it is too long.
pub fn icmp_six(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    (kind, code, rest): (u8, u8, [u8; 4]),
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0], &rest[..], payload].concat();
    icmpv6::set_checksum(src, dst, &mut bytes).expect("8 bytes");
    six(src, dst, (IpProtocol::ICMPV6, 64), &bytes)
}

/// The IPv4 address that a test means.
///
/// # Panics
/// When it is none.
pub fn four(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(four) => four,
        IpAddr::V6(six) => panic!("{six} in an IPv4 packet"),
    }
}

/// Makes the header checksum right again, whatever header length the packet claims (at most what
/// it has).
pub fn mend(bytes: &mut [u8]) {
    let len = (usize::from(bytes[0] & 0xf) * 4).clamp(ipv4::HEADER_LEN, bytes.len());
    bytes[10..12].fill(0);
    let checksum = sum(&bytes[..len]).finish();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// `packet` with options (a multiple of 4 bytes) put behind its header.
pub fn with_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let mut bytes = packet[..ipv4::HEADER_LEN].to_vec();
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(&packet[ipv4::HEADER_LEN..]);
    bytes[0] = 0x40 | ((ipv4::HEADER_LEN + options.len()) / 4) as u8;
    let total = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&total);
    mend(&mut bytes);
    bytes
}

/// A UDP datagram in an IP packet.
///
/// # Panics
/// When the payload is too long.
pub fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(udp::HEADER_LEN + payload.len()).expect("a short payload");
    let mut header = udp::Header {
        src_port: from.port(),
        dst_port: to.port(),
        length: len,
        checksum: 0,
    };
    let pseudo = pseudo(from.ip(), to.ip(), IpProtocol::UDP, len.into());
    let total = pseudo.combine(header.sum(), false);
    header.checksum = udp::checksum_to_send(total.combine(sum(payload), false));
    let mut bytes = alloc::vec![0; udp::HEADER_LEN];
    header.emit(&mut bytes).expect("8 bytes");
    bytes.extend_from_slice(payload);
    packet(from.ip(), to.ip(), IpProtocol::UDP, &bytes)
}

/// An ICMP message in an IPv4 packet: type, code, four bytes, payload.
pub fn icmp(
    source: IpAddr,
    destination: IpAddr,
    (kind, code, rest): (u8, u8, [u8; 4]),
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0], &rest[..], payload].concat();
    let checksum = sum(&bytes).finish();
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet(source, destination, IpProtocol::ICMP, &bytes)
}

/// An Ethernet frame.
///
/// # Panics
/// Never: the buffer is long enough.
pub fn frame(to: MacAddr, from: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = alloc::vec![0; ethernet::HEADER_LEN];
    let header = ethernet::Header {
        dst: to,
        src: from,
        ethertype,
    };
    header.emit(&mut bytes).expect("14 bytes");
    bytes.extend_from_slice(payload);
    bytes
}

/// A fragment of an IPv4 `packet` without options: `len` bytes of its payload from `offset` (a
/// multiple of 8) on.
///
/// # Panics
/// When the packet has not that many bytes.
pub fn fragment(packet: &[u8], ident: u16, (offset, len): (usize, usize), more: bool) -> Vec<u8> {
    let (head, payload) = packet.split_at(ipv4::HEADER_LEN);
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(&payload[offset..offset + len]);
    let place = (offset / 8) as u16 | u16::from(more) << 13;
    bytes[2..4].copy_from_slice(&((ipv4::HEADER_LEN + len) as u16).to_be_bytes());
    bytes[4..6].copy_from_slice(&ident.to_be_bytes());
    bytes[6..8].copy_from_slice(&place.to_be_bytes());
    mend(&mut bytes);
    bytes
}

/// All fragments of an IPv4 `packet` with at most `size` bytes of payload (a multiple of 8) each.
pub fn fragments(packet: &[u8], ident: u16, size: usize) -> Vec<Vec<u8>> {
    let total = packet.len() - ipv4::HEADER_LEN;
    let offsets = (0..total).step_by(size);
    offsets
        .map(|at| {
            let len = size.min(total - at);
            fragment(packet, ident, (at, len), at + len < total)
        })
        .collect()
}

/// Marks the IPv4 packet at `at` with CE, if its sender may be told so (RFC 3168 section 5).
pub(super) fn mark(bytes: &mut [u8], at: usize) -> bool {
    let Some(header) = bytes.get_mut(at..at + 20) else {
        return false;
    };
    if header[0] != 0x45 || header[1] & 3 == 0 {
        return false;
    }
    header[1] |= 3;
    header[10..12].fill(0);
    let sum = gannet_wire::checksum::sum(header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}
