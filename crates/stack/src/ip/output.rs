//! Headers written, frames handed to a link.

use core::net::{IpAddr, Ipv6Addr};

use gannet_link::{Driver, Endpoint, Frame, Full, Range, Slot, Space};
use gannet_wire::checksum::{self, Sum};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::{EtherType, MacAddr, ipv6};

use super::layer::Ip;
use super::path::{LinkHeader, Path};
use super::select;
use crate::counters::DropReason;
use crate::link::LinkId;
use crate::neighbour::HeldFrame;

/// What the IP layer knows of a packet whose payload it hands up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.4
//# Since this may be a broadcast or multicast address, the SpecDest parameter (not shown in
//# RFC-791) MUST be passed.
pub struct Packet {
    /// Where it came in.
    pub link: LinkId,
    /// Its source.
    pub source: IpAddr,
    /// Its destination: one of our addresses, or a broadcast.
    pub destination: IpAddr,
    /// Type of service.
    pub tos: u8,
}

impl<D: Driver> Ip<D> {
    /// Starts a packet in `slot`: link and IPv4 header for `payload_len` bytes of payload behind
    /// the transport header of `transport_len` bytes, which is returned to be filled in, together
    /// with its offset in the slot. `None` when the headers do not fit, the packet would be longer
    /// than 65,535 bytes, or the path has no header yet.
    ///
    /// The slot must be empty (`Slot::clear`): ranges are pushed afterwards.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc1122#section-2.4
    //# The packet send interface between the IP and link layers MUST include the 5-bit TOS field
    //# (see Section 3.2.1.6).
    pub fn write_header<'s>(
        &mut self,
        path: &Path,
        slot: &'s mut Slot,
        protocol: IpProtocol,
        transport_len: usize,
        payload_len: usize,
    ) -> Option<(&'s mut [u8], usize)> {
        let header = path.header?;
        let (source, destination) = match (path.source, path.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => (source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ends = (source, destination);
                let lens = (transport_len, payload_len);
                return write_six(path, ends, slot, protocol, lens);
            }
            _ => return None,
        };
        let link_header = header.as_slice();
        let at = link_header.len() + ipv4::HEADER_LEN;
        let total = ipv4::HEADER_LEN + transport_len + payload_len;
        let head = slot.inline_mut(at + transport_len)?;
        let (link_part, rest) = head.split_at_mut_checked(link_header.len())?;
        link_part.copy_from_slice(link_header);
        // Zero says nothing about us (robustness I10), and nothing is lost: with DF set the packet
        // is atomic.
        //= https://www.rfc-editor.org/rfc/rfc6864#section-4.1
        //# >> Originating sources MAY set the IPv4 ID field of atomic datagrams to any value.
        let ident = match path.may_be_cut {
            true => self.idents.next(path.source, path.destination, protocol) as u16,
            false => 0,
        };
        let ip = ipv4::Header {
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.6
            //# The IP layer MUST provide a means for the transport layer to set the TOS field of
            //# every datagram that is sent; the default is all zero bits.
            tos: path.tos,
            total_len: u16::try_from(total).ok()?,
            ident,
            reserved_flag: false,
            dont_fragment: !path.may_be_cut,
            more_fragments: false,
            fragment_offset: 0,
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
            //# The IP layer MUST provide a means for the transport layer to set the TTL field of
            //# every datagram that is sent.
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
            //# A host MUST NOT send a datagram with a Time-to-Live (TTL) value of zero.
            ttl: path.ttl.max(1),
            protocol,
            src: source,
            dst: destination,
            options: ipv4::OptionReport::default(),
        };
        ip.emit(rest)?;
        Some((rest.get_mut(ipv4::HEADER_LEN..)?, at))
    }

    /// Hands a finished frame to the path's link.
    ///
    /// # Errors
    /// [`Full`] when the link has no room now, or is gone.
    #[inline]
    pub fn send(&mut self, path: &Path, slot: &Slot) -> Result<(), Full> {
        let link = self.links.get_mut(path.link).ok_or(Full)?;
        link.endpoint.transmit(slot)?;
        let at = path.header.map_or(0, |h| h.as_slice().len());
        let Some(head) = slot.inline().get(at..).and_then(|h| h.first_chunk::<10>()) else {
            return Ok(());
        };
        let (len, protocol) = match head[0] >> 4 {
            4 => (u16::from_be_bytes([head[2], head[3]]).into(), head[9]),
            _ => {
                let payload = u64::from(u16::from_be_bytes([head[4], head[5]]));
                (ipv6::HEADER_LEN as u64 + payload, head[6])
            }
        };
        self.statistics.count_out(IpProtocol(protocol), len);
        Ok(())
    }

    /// One's complement sum over what is left of `frame`, for verifying transport checksums.
    pub fn frame_sum(&mut self, link: LinkId, frame: &Frame) -> Sum {
        let mut sum = checksum::sum(frame.head());
        let mut odd = frame.head().len() % 2 == 1;
        let Some(endpoint) = self.endpoint(link) else {
            return sum;
        };
        for &range in frame.ranges() {
            sum = sum.combine(endpoint_sum(endpoint, range), odd);
            odd ^= range.len % 2 == 1;
        }
        sum
    }

    /// Keeps a frame, begun on a path with [`Ip::held_path`], until its neighbour answers.
    pub(crate) fn hold(&mut self, path: &Path, slot: &Slot) {
        let Some(endpoint) = self.endpoint(path.link) else {
            return;
        };
        for index in 0..slot.range_count() {
            endpoint.pool.retain(own_range(slot, index));
        }
        let frame = HeldFrame {
            link: path.link,
            next_hop: path.next_hop,
            slot: slot.clone(),
        };
        if let Some(victim) = self.held.push(frame) {
            self.throw_away(&victim, DropReason::NeighbourQueueFull);
        }
    }

    /// Whether answers may wait for a neighbour.
    pub(crate) fn holds_answers(&self) -> bool {
        self.held.takes_answers()
    }

    /// As [`Ip::hold`] for the answer to a packet; `false`: too many wait already.
    pub(crate) fn hold_answer(&mut self, path: &Path, slot: &Slot) -> bool {
        let room = self.held.takes_answers();
        if room {
            self.hold(path, slot);
        }
        room
    }

    /// `path` with room for a link header that is not known yet.
    pub(crate) fn held_path(&self, path: &Path) -> Path {
        let link = self.links.get(path.link);
        let ethertype = match path.destination {
            IpAddr::V4(_) => EtherType::IPV4,
            IpAddr::V6(_) => EtherType::IPV6,
        };
        Path {
            header: link.map(|link| select::header(link, MacAddr::ZERO, ethertype)),
            ..*path
        }
    }

    /// Sends what waited for `next_hop`, now that its link header is known.
    pub(super) fn send_held(&mut self, link: LinkId, next_hop: IpAddr, header: LinkHeader) {
        while let Some(mut frame) = self.held.pop(link, Some(next_hop)) {
            let len = frame.slot.inline_len();
            let bytes = header.as_slice();
            if let Some(to) = frame
                .slot
                .inline_mut(len)
                .and_then(|b| b.get_mut(..bytes.len()))
            {
                to.copy_from_slice(bytes);
            }
            let sent = self.endpoint(link).map(|e| e.transmit(&frame.slot));
            if sent != Some(Ok(())) {
                self.count_drop(DropReason::LinkFull);
            }
            self.release_slot(&frame);
        }
    }

    /// Throws a held frame away and counts it.
    pub(super) fn throw_away(&mut self, frame: &HeldFrame, reason: DropReason) {
        self.count_drop(reason);
        self.release_slot(frame);
    }

    fn release_slot(&mut self, frame: &HeldFrame) {
        if let Some(endpoint) = self.endpoint(frame.link) {
            for index in 0..frame.slot.range_count() {
                endpoint.pool.release(own_range(&frame.slot, index));
            }
        }
    }
}

/// As [`Ip::write_header`] for IPv6.
fn write_six<'s>(
    path: &Path,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    slot: &'s mut Slot,
    protocol: IpProtocol,
    (transport_len, payload_len): (usize, usize),
) -> Option<(&'s mut [u8], usize)> {
    let header = path.header?;
    let link_header = header.as_slice();
    let at = link_header.len() + ipv6::HEADER_LEN;
    let head = slot.inline_mut(at + transport_len)?;
    let (link_part, rest) = head.split_at_mut_checked(link_header.len())?;
    link_part.copy_from_slice(link_header);
    let ip = ipv6::Header {
        traffic_class: path.tos,
        flow_label: path.flow_label,
        payload_len: u16::try_from(transport_len + payload_len).ok()?,
        next_header: protocol,
        hop_limit: path.ttl.max(1),
        src,
        dst,
    };
    ip.emit(rest)?;
    Some((rest.get_mut(ipv6::HEADER_LEN..)?, at))
}

fn own_range(slot: &Slot, index: usize) -> Range {
    let (offset, len) = slot.raw_range(index);
    Range {
        offset,
        len,
        space: Space::Own,
    }
}

/// Sum over a received range, in place when it is ours, else through a small buffer.
fn endpoint_sum<D: Driver>(endpoint: &Endpoint<D>, range: Range) -> Sum {
    if let Some(bytes) = endpoint.pool.bytes(range) {
        return checksum::sum(bytes);
    }
    let mut sum = Sum::new();
    let mut buffer = [0; 1024];
    let mut rest = range;
    while rest.len > 0 {
        let n = endpoint.read(rest, &mut buffer);
        let Some(bytes) = buffer.get(..n).filter(|b| !b.is_empty()) else {
            break;
        };
        sum.add_bytes(bytes);
        rest = rest.skip(n as u32);
    }
    sum
}
