//! What arrives: checks in order, one function each. The first that fails names the drop.

use core::net::{IpAddr, Ipv4Addr};

use gannet_base::Instant;
use gannet_link::{Checksum, Driver, Endpoint, Frame, Medium};
use gannet_wire::ipv4::{self, Header, IpProtocol, ParseError};
use gannet_wire::vlan::{self, Tag};
use gannet_wire::{EtherType, MacAddr, ethernet};

use super::layer::{Ip, QUOTE_LEN};
use super::output::Packet;
use super::select::is_broadcast_on;
use crate::counters::DropReason;
use crate::link::{Link, LinkConfig, LinkId};

/// The Ethernet destination of a frame, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cast {
    One,
    Many,
    /// The medium does not tell.
    Untold,
}

/// The ends of packets that were found in order: most packets have the ends of the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    link: LinkId,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    /// When that was found, in terms of what is known of links and addresses.
    epoch: u32,
}

impl<D: Driver> Ip<D> {
    /// A frame arrived on `link`. When it holds a packet for us, the frame is stripped and trimmed
    /// to the IP payload, which is the caller's to keep or release. Everything else ends here.
    #[inline]
    pub(crate) fn arrives(
        &mut self,
        now: Instant,
        link: LinkId,
        frame: &mut Frame,
    ) -> Option<(Packet, IpProtocol)> {
        match self.check(now, link, frame) {
            Ok(Some(packet)) => return Some(packet),
            Ok(None) => {}
            Err(reason) => self.count_drop(reason),
        }
        if let Some(endpoint) = self.endpoint(link) {
            endpoint.release_frame(frame);
        }
        None
    }

    /// The steps. `Ok(None)`: the frame was ARP's and is dealt with.
    #[inline(always)]
    fn check(
        &mut self,
        now: Instant,
        id: LinkId,
        frame: &mut Frame,
    ) -> Result<Option<(Packet, IpProtocol)>, DropReason> {
        let Some(link) = self.links.get(id) else {
            return Ok(None);
        };
        let mut cast = Cast::Untold;
        if link.endpoint.capabilities().medium == Medium::Ethernet {
            let header = ethernet_header(&link.endpoint, frame)?;
            cast = addressed_to_us(&link.endpoint, header.dst)?;
            frame.strip(ethernet::HEADER_LEN);
            let ethertype = match link.config.vlan {
                None if header.ethertype != EtherType::VLAN => header.ethertype,
                _ => behind_tag(link, header.ethertype, frame)?,
            };
            match ethertype {
                EtherType::IPV4 => {}
                EtherType::IPV6 => return self.six_arrives(now, (id, cast), frame),
                EtherType::ARP => return self.arp_arrives(now, id, frame).map(|()| None),
                _ => return Err(DropReason::UnknownEtherType),
            }
        }
        let (header, header_len) = match ip_header(&link.endpoint, frame) {
            Ok(parsed) => parsed,
            // bare IP: the version tells
            Err(DropReason::IpVersion) if cast == Cast::Untold && is_six(&link.endpoint, frame) => {
                return self.six_arrives(now, (id, cast), frame);
            }
            Err(reason) => return Err(reason),
        };
        options_harmless(&header)?;
        let flow = Flow {
            link: id,
            source: header.src,
            destination: header.dst,
            epoch: self.epoch,
        };
        if self.known != Some(flow) || cast == Cast::Many {
            self.ends_in_order((id, link), &header, cast)?;
            if cast != Cast::Many && self.is_local(header.dst.into()) {
                self.known = Some(flow);
            }
        }
        if is_fragment(&header) {
            return self.fragment_arrives(now, (id, &header, header_len), frame);
        }
        if header.protocol != IpProtocol::TCP {
            // from beyond the link: nobody whom groups concern
            if header.protocol == IpProtocol::IGMP && header.ttl != 1 {
                return Err(DropReason::IgmpMalformed);
            }
            let mut quote = [0; QUOTE_LEN];
            link.endpoint.peek(frame, &mut quote);
            self.quote = quote;
        }
        let bytes = u64::from(header.total_len);
        self.statistics.count_in(header.protocol, bytes);

        // Ethernet pads to 60 bytes: what lies behind the packet is not part of it.
        if !planted!(PaddingTaken) {
            frame.truncate(usize::from(header.total_len));
        }
        frame.strip(header_len);
        let packet = Packet {
            link: id,
            source: IpAddr::V4(header.src),
            destination: IpAddr::V4(header.dst),
            tos: header.tos,
        };
        Ok(Some((packet, header.protocol)))
    }

    /// Whether the addresses are possible and the packet is for us.
    fn ends_in_order(
        &self,
        (id, link): (LinkId, &Link<D>),
        header: &Header,
        cast: Cast,
    ) -> Result<(), DropReason> {
        if link.config.loopback {
            // Only we put packets on this link; but the address may have gone meanwhile.
            self.still_ours(header.src)?;
        } else {
            source_possible(link, header.src)?;
            self.not_from_ourselves(header.src)?;
        }
        self.for_us((id, link), header, cast)
    }

    /// LAND (1997): a packet that claims to come from the host it goes to.
    #[inline]
    fn not_from_ourselves(&self, source: Ipv4Addr) -> Result<(), DropReason> {
        match self.is_local(source.into()) {
            true => Err(DropReason::IpLand),
            false => Ok(()),
        }
    }

    fn still_ours(&self, source: Ipv4Addr) -> Result<(), DropReason> {
        match self.is_local(source.into()) {
            true => Ok(()),
            false => Err(DropReason::IpSource),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
    //# A host MUST silently discard an incoming datagram that is not destined for the host.
    #[inline]
    fn for_us(
        &self,
        (id, link): (LinkId, &Link<D>),
        header: &Header,
        cast: Cast,
    ) -> Result<(), DropReason> {
        let broadcast = is_broadcast_on(link, header.dst.into());
        // A packet for one host in a frame for many is a forged or misled one (RFC 1122 section
        // 3.3.6).
        let martian = header.dst.is_loopback() && !link.config.loopback;
        let local = !martian && self.is_local(header.dst.into());
        let group = header.dst.is_multicast() && self.takes_group(id, header);
        let ours = broadcast || group || (cast != Cast::Many && local);
        if !ours {
            //= https://www.rfc-editor.org/rfc/rfc1122#section-2.5
            //# The host software MUST NOT automatically move into gateway mode if the host has more
            //# than one interface, as the operator of the machine may neither want to provide that
            //# service nor be competent to do so.
            return Err(DropReason::IpNotForUs);
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.3
        //# A TCP implementation MUST silently discard an incoming SYN segment that is addressed
        //# to a broadcast or multicast address [(MUST-57)].
        if (broadcast || group) && header.protocol == IpProtocol::TCP {
            return Err(DropReason::TcpBroadcast);
        }
        Ok(())
    }
}

fn ethernet_header<D: Driver>(
    endpoint: &Endpoint<D>,
    frame: &Frame,
) -> Result<ethernet::Header, DropReason> {
    let mut buffer = [0; ethernet::HEADER_LEN];
    let bytes = first_bytes(endpoint, frame, ethernet::HEADER_LEN, &mut buffer);
    match ethernet::Header::parse(bytes) {
        Ok((header, _)) => Ok(header),
        Err(ethernet::ParseError::Truncated) => Err(DropReason::Runt),
    }
}

/// What a frame carries that has, or ought to have, a VLAN tag: of ours, or on a link without
/// tags one that only carries a priority (IEEE 802.1Q: VLAN 0).
#[cold]
fn behind_tag<D: Driver>(
    link: &Link<D>,
    ethertype: EtherType,
    frame: &mut Frame,
) -> Result<EtherType, DropReason> {
    let LinkConfig {
        vlan,
        vlan_stripped,
        ..
    } = link.config;
    if vlan_stripped != (ethertype != EtherType::VLAN) {
        return Err(DropReason::OtherVlan);
    }
    if vlan_stripped {
        return Ok(ethertype);
    }
    let mut buffer = [0; vlan::TAG_LEN];
    let bytes = first_bytes(&link.endpoint, frame, vlan::TAG_LEN, &mut buffer);
    let (tag, len) = Tag::parse(bytes).map_err(|_| DropReason::Runt)?;
    if tag.id != vlan.unwrap_or(0) {
        return Err(DropReason::OtherVlan);
    }
    frame.strip(len);
    Ok(tag.ethertype)
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-2.4
//# The packet receive interface between the IP layer and the link layer MUST include a flag to
//# indicate whether the incoming packet was addressed to a link-layer broadcast address.
fn addressed_to_us<D: Driver>(endpoint: &Endpoint<D>, to: MacAddr) -> Result<Cast, DropReason> {
    if to.0 == endpoint.capabilities().hardware_address {
        Ok(Cast::One)
    } else if to.is_multicast() {
        Ok(Cast::Many)
    } else {
        Err(DropReason::ForeignStation)
    }
}

/// Version, header length, total length; the checksum unless the bytes never left memory.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
//# A host MUST NOT discard a datagram just because it was received with TTL less than 2.
// (nothing looks at it)
#[inline(always)]
fn ip_header<D: Driver>(
    endpoint: &Endpoint<D>,
    frame: &Frame,
) -> Result<(Header, usize), DropReason> {
    let mut buffer = [0; ipv4::MAX_HEADER_LEN];
    let claimed = frame.head().first().map_or(0, |b| usize::from(b & 0xf) * 4);
    let wanted = claimed.max(ipv4::HEADER_LEN);
    let bytes = first_bytes(endpoint, frame, wanted, &mut buffer);
    let parsed = match endpoint.capabilities().checksum {
        _ if planted!(NoIpChecksum) => Header::parse_unverified(bytes, frame.len()),
        Checksum::None => Header::parse_unverified(bytes, frame.len()),
        Checksum::Software | Checksum::Partial => Header::parse_split(bytes, frame.len()),
    };
    parsed.map_err(|error| match error {
        ParseError::Truncated => DropReason::IpTruncated,
        ParseError::BadVersion => DropReason::IpVersion,
        ParseError::BadHeaderLength => DropReason::IpHeaderLength,
        ParseError::BadTotalLength => DropReason::IpTotalLength,
        ParseError::BadChecksum => DropReason::IpChecksum,
    })
}

/// Whether a packet without a link header says that it is of IPv6.
#[cold]
fn is_six<D: Driver>(endpoint: &Endpoint<D>, frame: &Frame) -> bool {
    let mut first = [0; 1];
    endpoint.peek(frame, &mut first);
    first[0] >> 4 == 6
}

/// The first bytes of a frame: at least `wanted` of them if the frame has that many. In place when
/// they are inline.
#[inline]
pub(super) fn first_bytes<'a, D: Driver>(
    endpoint: &Endpoint<D>,
    frame: &'a Frame,
    wanted: usize,
    buffer: &'a mut [u8],
) -> &'a [u8] {
    if frame.head().len() >= wanted || frame.ranges().is_empty() {
        return frame.head();
    }
    let n = endpoint.peek(frame, buffer);
    buffer.get(..n).unwrap_or(&[])
}

/// Options are never acted on. A source route would make us a relay (RFC 7126 section 4.3).
#[inline]
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2
//# When received options are passed up to TCP from the IP layer, a TCP implementation MUST ignore
//# options that it does not understand (MUST-50).
//= https://www.rfc-editor.org/rfc/rfc791#section-3.2
//# That is, it must be careful to send well-formed datagrams, but must accept any datagram that it
//# can interpret (e.g., not object to technical errors where the meaning is still clear).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//# The IP and transport layer MUST each interpret those IP options that they understand and
//# silently ignore the others.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//# This option is obsolete; it SHOULD NOT be sent, and it MUST be silently ignored if received.
fn options_harmless(header: &Header) -> Result<(), DropReason> {
    if header.options.source_route || header.options.repeated_source_route {
        return Err(DropReason::IpSourceRoute);
    }
    if header.options.malformed {
        //= https://www.rfc-editor.org/rfc/rfc792
        //# If the gateway or host processing a datagram finds a problem with the header parameters
        //# such that it cannot complete processing the datagram it must discard the datagram.
        return Err(DropReason::IpOptions);
    }
    Ok(())
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//# A host MUST silently discard an incoming datagram containing an IP source address that is
//# invalid by the rules of this section.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.3
//# An incoming SYN with an invalid source address MUST be ignored either by TCP or by the
//# IP layer [(MUST-63)] (see Section 3.2.1.3).
fn source_possible<D: Driver>(link: &Link<D>, source: Ipv4Addr) -> Result<(), DropReason> {
    if let Some(peer) = link.config.peer {
        // The far end of a channel is one host, and nobody else writes into it.
        return match source == peer {
            true => Ok(()),
            false => Err(DropReason::IpSpoofed),
        };
    }
    let first = source.octets()[0];
    // 0/8, 127/8, and everything from 224 on: multicast, reserved, broadcast.
    if first == 0 || first == 127 || first >= 224 || is_broadcast_on(link, source.into()) {
        return Err(DropReason::IpSource);
    }
    Ok(())
}

#[inline]
fn is_fragment(header: &Header) -> bool {
    header.more_fragments || header.fragment_offset != 0
}
