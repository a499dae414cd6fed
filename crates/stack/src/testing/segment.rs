//! What an interface does to what it is handed: completes checksums, cuts super-segments.

use alloc::vec::Vec;

use gannet_link::slot::flags;
use gannet_link::{Medium, Slot};
use gannet_wire::checksum::{Sum, pseudo_v4, pseudo_v6, sum};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::{ethernet, ipv6, udp, vlan};

/// Bytes before the IP header of a frame.
pub(super) fn link_header_len(medium: Medium, frame: &[u8]) -> usize {
    match medium {
        Medium::Ethernet => match frame.get(12..14) {
            Some([0x81, 0x00]) => ethernet::HEADER_LEN + vlan::TAG_LEN,
            _ => ethernet::HEADER_LEN,
        },
        Medium::Ip => 0,
    }
}

/// Completes a partial checksum: the field holds the pseudo header's sum.
pub(super) fn complete(bytes: &mut [u8], slot: &Slot) {
    if slot.flags() & flags::CSUM_PARTIAL == 0 {
        return;
    }
    let (start, offset) = slot.checksum_place();
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
    let checksum = match sum(&bytes[start..]).finish() {
        0 => 0xffff,
        checksum => checksum,
    };
    bytes[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The frames that leave for one slot.
pub(super) fn cut(mut bytes: Vec<u8>, slot: &Slot, link: usize) -> Vec<Vec<u8>> {
    if slot.gso_size() == 0 {
        complete(&mut bytes, slot);
        return [bytes].into();
    }
    let six = bytes[link] >> 4 == 6;
    let (protocol, ip_len) = match six {
        true => (bytes[link + 6], ipv6::HEADER_LEN),
        false => (bytes[link + 9], ipv4::HEADER_LEN),
    };
    let (protocol, transport) = (IpProtocol(protocol), link + ip_len);
    let headers = match protocol {
        IpProtocol::TCP => transport + usize::from(bytes[transport + 12] >> 4) * 4,
        _ => transport + udp::HEADER_LEN,
    };
    let udp_marked = slot.flags() & flags::GSO_UDP != 0;
    assert_eq!(udp_marked, protocol == IpProtocol::UDP, "a wrong mark");
    let (head, payload) = bytes.split_at(headers);
    let size = usize::from(slot.gso_size());
    let count = payload.len().div_ceil(size);
    let piece = |(index, part): (usize, &[u8])| {
        let mut frame = head.to_vec();
        frame.extend_from_slice(part);
        let last = index + 1 == count;
        if protocol == IpProtocol::TCP {
            mend_tcp(&mut frame, transport, index * size, last);
        } else {
            let len = (udp::HEADER_LEN + part.len()) as u16;
            frame[transport + 4..transport + 6].copy_from_slice(&len.to_be_bytes());
        }
        match six {
            true => mend_ip_six(&mut frame, link),
            false => mend_ip(&mut frame, link, index),
        }
        mend_transport(&mut frame, (transport, six), protocol);
        frame
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

/// Sequence number of the piece; FIN and PSH only in the last, CWR only in the first.
fn mend_tcp(frame: &mut [u8], at: usize, offset: usize, last: bool) {
    let seq = u32::from_be_bytes([frame[at + 4], frame[at + 5], frame[at + 6], frame[at + 7]]);
    let seq = seq.wrapping_add(offset as u32);
    frame[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
    if !last {
        frame[at + 13] &= !0x09;
    }
    if offset > 0 {
        frame[at + 13] &= !0x80;
    }
}

fn mend_ip(frame: &mut [u8], link: usize, index: usize) {
    let total = (frame.len() - link) as u16;
    let ip = &mut frame[link..link + ipv4::HEADER_LEN];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let ident = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
    ip[4..6].copy_from_slice(&ident.to_be_bytes());
    ip[10..12].fill(0);
    let checksum = sum(ip).finish();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn mend_ip_six(frame: &mut [u8], link: usize) {
    let len = (frame.len() - link - ipv6::HEADER_LEN) as u16;
    frame[link + 4..link + 6].copy_from_slice(&len.to_be_bytes());
}

/// Sum of the pseudo-header of what begins at `at`.
fn pseudo(frame: &[u8], (at, six): (usize, bool), protocol: IpProtocol) -> Sum {
    let len = frame.len() - at;
    if six {
        let address = |from: usize| {
            let octets: [u8; 16] = frame[at - from..at - from + 16].try_into().expect("16");
            octets.into()
        };
        return pseudo_v6(address(32), address(16), protocol, len as u32);
    }
    let ip = &frame[at - ipv4::HEADER_LEN..];
    let source = [ip[12], ip[13], ip[14], ip[15]].into();
    let destination = [ip[16], ip[17], ip[18], ip[19]].into();
    pseudo_v4(source, destination, protocol, len as u16)
}

fn mend_transport(frame: &mut [u8], (at, six): (usize, bool), protocol: IpProtocol) {
    let field = at
        + match protocol {
            IpProtocol::TCP => 16,
            _ => udp::CHECKSUM_OFFSET,
        };
    frame[field..field + 2].fill(0);
    let pseudo = pseudo(frame, (at, six), protocol);
    let total = pseudo.combine(sum(&frame[at..]), false);
    let checksum = match (total.finish(), protocol) {
        (0, IpProtocol::UDP) => 0xffff,
        (checksum, _) => checksum,
    };
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}
