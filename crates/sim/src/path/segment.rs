//! What an interface does before a frame reaches the line: cuts super-segments into packets and
//! completes checksums, as the virtio-net header asks (Virtual I/O Device 1.x section 5.1.6.2).
//!
//! IPv4 and IPv6, TCP and UDP; the transport header lies where `csum_start` says. The headers come
//! from another process: what they ask and the frame does not have is an error.

use gannet_link::Medium;
use gannet_wire::IpProtocol;
use gannet_wire::checksum::{Sum, sum};
use gannet_wire::udp;
use gannet_wire::virtio_net::{Flags, Header, Segmentation};

use super::place::{Place, Version, link_header_len};
use crate::buffer::Buffer;

/// Bytes of an IPv4 header without options.
const V4_HEADER: usize = 20;
/// Bytes of an IPv6 header.
const V6_HEADER: usize = 40;
/// More pieces than a frame of 64 KiB can have with the smallest segments in use.
const PIECES_MAX: usize = 4096;
/// Flags of TCP, in the word that begins with the data offset.
const FIN_PSH: u16 = 0x09;
const CWR: u16 = 0x80;

/// Why a frame could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncuttable {
    /// The checksum field lies outside the frame.
    ChecksumOutside,
    /// A super-segment whose headers are not where the offload header says.
    BadHeaders,
    /// Fragments of one datagram, or a protocol that cannot be cut here.
    Unsupported,
    /// Into more pieces than anybody means.
    TooMany,
}

/// Hands `out` the packets that leave for one frame, whose bytes are `parts` one behind the other,
/// with its offload `header`, checksums complete.
///
/// # Errors
/// When the header asks for what the frame does not have; nothing is handed out then.
pub fn cut(
    header: &Header,
    medium: Medium,
    parts: &[&[u8]],
    mut out: impl FnMut(Buffer),
) -> Result<(), Uncuttable> {
    let protocol = match header.segmentation {
        Segmentation::None => {
            let mut frame = joined(parts);
            if header.flags.contains(Flags::NEEDS_CSUM) {
                complete(&mut frame, header).ok_or(Uncuttable::ChecksumOutside)?;
            }
            out(frame);
            return Ok(());
        }
        Segmentation::TcpV4 | Segmentation::TcpV6 => IpProtocol::TCP,
        Segmentation::UdpL4 => IpProtocol::UDP,
        Segmentation::Udp => return Err(Uncuttable::Unsupported),
    };
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let (first, rest) = parts.split_first().ok_or(Uncuttable::BadHeaders)?;
    let Some(shape) = Shape::of(header, medium, protocol, first) else {
        // perhaps the headers go on in the next part
        return match rest {
            [] => Err(Uncuttable::BadHeaders),
            _ => cut(header, medium, &[&joined(parts)], out),
        };
    };
    let (head, payload) = first
        .split_at_checked(shape.headers)
        .ok_or(Uncuttable::BadHeaders)?;
    let size = usize::from(header.gso_size).max(1);
    let count = (total - head.len()).div_ceil(size);
    if count > PIECES_MAX {
        return Err(Uncuttable::TooMany);
    }
    let standing = shape.standing(head).ok_or(Uncuttable::BadHeaders)?;
    let mut payload = Payload { now: payload, rest };
    for index in 0..count {
        let mut piece = Buffer::from(head);
        let sum = payload.take(size, &mut piece);
        let place = Within {
            index,
            offset: index * size,
            last: index + 1 == count,
        };
        let _ = shape.mend(&mut piece, &place, standing, sum); // headers are in every piece
        out(piece);
    }
    Ok(())
}

/// All parts in one.
fn joined(parts: &[&[u8]]) -> Buffer {
    let mut frame = Buffer::new();
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// What is left of the bytes behind the headers.
struct Payload<'a> {
    now: &'a [u8],
    rest: &'a [&'a [u8]],
}

impl Payload<'_> {
    /// Appends the next `len` bytes to `piece`, fewer if there are no more, and sums them: where
    /// they come from, not where they were written a moment ago.
    fn take(&mut self, mut len: usize, piece: &mut Buffer) -> Sum {
        let (mut total, mut odd) = (Sum::new(), false);
        while len > 0 {
            let (taken, left) = self.now.split_at(self.now.len().min(len));
            piece.extend_from_slice(taken);
            total = total.combine(sum(taken), odd);
            odd ^= taken.len() % 2 == 1;
            (self.now, len) = (left, len - taken.len());
            if self.now.is_empty() {
                let Some((next, rest)) = self.rest.split_first() else {
                    break;
                };
                (self.now, self.rest) = (next, rest);
            }
        }
        total
    }
}

/// Computes the transport checksum of a whole packet anew, whatever the field holds; for packets
/// whose sender or receiver vouched for the bytes instead. Other protocols than TCP and UDP keep
/// theirs.
pub fn renew_checksum(frame: &mut [u8], place: Place) {
    if place.checksum().is_none() {
        return;
    }
    let shape = Shape {
        version: place.version,
        protocol: place.protocol,
        network: place.network,
        transport: place.transport,
        headers: place.transport,
    };
    if let Some(packet) = frame.get_mut(..place.end) {
        let _ = shape.mend_checksum(packet); // the field is there, as was asked
    }
}

/// Sums from `csum_start` to the end: the field holds the pseudo header's sum already.
fn complete(frame: &mut [u8], header: &Header) -> Option<()> {
    let start = usize::from(header.csum_start);
    let field = start + usize::from(header.csum_offset);
    let total = never_zero(sum(frame.get(start..)?).finish());
    put(frame, field, &total.to_be_bytes())
}

/// A checksum of 0 would mean "none" in UDP; for TCP both forms are the same number.
fn never_zero(checksum: u16) -> u16 {
    match checksum {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The word at `at`.
fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// Writes `bytes` at `at`; `None` when they would lie outside.
fn put(frame: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    frame.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    Some(())
}

/// Where the headers of a super-segment lie.
struct Shape {
    version: Version,
    protocol: IpProtocol,
    network: usize,
    transport: usize,
    /// Length of all headers.
    headers: usize,
}

/// Sums over what all pieces have in common.
#[derive(Clone, Copy)]
struct Standing {
    network: Sum,
    transport: Sum,
}

/// Which piece of the whole.
struct Within {
    index: usize,
    /// Where its payload begins.
    offset: usize,
    last: bool,
}

impl Shape {
    fn of(header: &Header, medium: Medium, protocol: IpProtocol, frame: &[u8]) -> Option<Shape> {
        let network = link_header_len(medium);
        let transport = usize::from(header.csum_start);
        let (version, least) = match frame.get(network)? >> 4 {
            4 => (Version::V4, V4_HEADER),
            6 => (Version::V6, V6_HEADER),
            _ => return None,
        };
        let headers = match protocol {
            IpProtocol::TCP => transport + usize::from(frame.get(transport + 12)? >> 4) * 4,
            _ => transport + udp::HEADER_LEN,
        };
        let least_transport = if protocol == IpProtocol::TCP { 20 } else { 8 };
        let fits = transport >= network + least
            && headers >= transport + least_transport
            && headers <= frame.len();
        fits.then_some(Shape {
            version,
            protocol,
            network,
            transport,
            headers,
        })
    }

    /// What the checksums of all pieces have in common: the sums of the headers without the fields
    /// that differ from piece to piece.
    fn standing(&self, head: &[u8]) -> Option<Standing> {
        let without = |from: usize, to: usize, fields: &[usize]| {
            let mut total = sum(head.get(from..to)?);
            for field in fields {
                total.add_u16(!word(head, from + field)?);
            }
            Some(total)
        };
        let at = self.network;
        let (network, addresses) = match self.version {
            Version::V4 => {
                let header = usize::from(*head.get(at)? & 15) * 4;
                (without(at, at + header, &[2, 4, 10])?, at + 12..at + 20)
            }
            Version::V6 => (Sum::new(), at + 8..at + 40),
        };
        let fields: &[usize] = match self.protocol {
            IpProtocol::TCP => &[4, 6, 12, 16],
            _ => &[4, 6],
        };
        let mut transport = without(self.transport, self.headers, fields)?;
        transport.add_bytes(head.get(addresses)?);
        transport.add_u16(u16::from(self.protocol.0));
        Some(Standing { network, transport })
    }

    /// Makes the headers of a copy those of a piece with a payload of this sum.
    fn mend(
        &self,
        piece: &mut [u8],
        place: &Within,
        standing: Standing,
        payload: Sum,
    ) -> Option<()> {
        self.mend_network(piece, place, standing.network)?;
        let mut total = standing.transport.combine(payload, false);
        total.add_u16((piece.len() - self.transport) as u16);
        let field = match self.protocol {
            IpProtocol::TCP => self.mend_tcp(piece, place, &mut total)?,
            _ => self.mend_udp(piece, &mut total)?,
        };
        put(piece, field, &never_zero(total.finish()).to_be_bytes())
    }

    fn mend_network(&self, piece: &mut [u8], place: &Within, standing: Sum) -> Option<()> {
        let (at, len) = (self.network, piece.len());
        if self.version == Version::V6 {
            let payload = (len - at - V6_HEADER) as u16;
            return put(piece, at + 4, &payload.to_be_bytes());
        }
        let total = (len - at) as u16;
        let ident = word(piece, at + 4)?.wrapping_add(place.index as u16);
        put(piece, at + 2, &total.to_be_bytes())?;
        put(piece, at + 4, &ident.to_be_bytes())?;
        let mut checksum = standing;
        checksum.add_u16(total);
        checksum.add_u16(ident);
        put(piece, at + 10, &checksum.finish().to_be_bytes())
    }

    /// Sequence number of the piece; FIN and PSH only in the last, CWR only in the first. Where the
    /// checksum lies.
    fn mend_tcp(&self, piece: &mut [u8], place: &Within, total: &mut Sum) -> Option<usize> {
        let at = self.transport;
        let seq: [u8; 4] = *piece.get(at + 4..)?.first_chunk()?;
        let seq = u32::from_be_bytes(seq).wrapping_add(place.offset as u32);
        put(piece, at + 4, &seq.to_be_bytes())?;
        let mut flags = word(piece, at + 12)?;
        if !place.last {
            flags &= !FIN_PSH;
        }
        if place.offset > 0 {
            flags &= !CWR;
        }
        put(piece, at + 12, &flags.to_be_bytes())?;
        total.add_u32(seq);
        total.add_u16(flags);
        Some(at + 16)
    }

    fn mend_udp(&self, piece: &mut [u8], total: &mut Sum) -> Option<usize> {
        let len = (piece.len() - self.transport) as u16;
        put(piece, self.transport + 4, &len.to_be_bytes())?;
        total.add_u16(len);
        Some(self.transport + udp::CHECKSUM_OFFSET)
    }

    fn mend_checksum(&self, piece: &mut [u8]) -> Option<()> {
        let field = self.transport
            + match self.protocol {
                IpProtocol::TCP => 16,
                _ => udp::CHECKSUM_OFFSET,
            };
        put(piece, field, &[0, 0])?;
        let addresses = match self.version {
            Version::V4 => self.network + 12..self.network + 20,
            Version::V6 => self.network + 8..self.network + 40,
        };
        let mut total = Sum::new();
        total.add_bytes(piece.get(addresses)?);
        total.add_u16(u16::from(self.protocol.0));
        total.add_u16((piece.len() - self.transport) as u16);
        total.add_bytes(piece.get(self.transport..)?);
        put(piece, field, &never_zero(total.finish()).to_be_bytes())
    }
}

#[cfg(test)]
mod tests;
