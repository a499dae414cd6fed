//! What arrives: checks in order, one function each. The first that fails names the drop.

use core::net::{IpAddr, Ipv6Addr};

use gannet_base::Instant;
use gannet_link::{Driver, Frame};
use gannet_wire::IpProtocol;
use gannet_wire::ipv6::{self, Header, ParseError};
use gannet_wire::nd;

use super::super::input::{Cast, first_bytes};
use super::super::layer::Ip;
use super::super::output::Packet;
use crate::counters::DropReason;
use crate::link::{Link, LinkId};

impl<D: Driver> Ip<D> {
    /// The steps. `Ok(None)`: nothing is left for the transports.
    pub(in crate::ip) fn six_arrives(
        &mut self,
        now: Instant,
        (id, cast): (LinkId, Cast),
        frame: &mut Frame,
    ) -> Result<Option<(Packet, IpProtocol)>, DropReason> {
        let Some(link) = self.links.get(id) else {
            return Ok(None);
        };
        let header = header(link, frame)?;
        if link.config.loopback {
            // Only we put packets on this link; but the address may have gone meanwhile.
            if !self.is_local(header.src.into()) {
                return Err(DropReason::IpSource);
            }
        } else {
            source_possible(link, &header)?;
            if self.is_local(header.src.into()) {
                return Err(DropReason::IpLand);
            }
        }
        let many = header.dst.is_multicast();
        let ours = match many {
            true => cast != Cast::One && self.six_group_is_ours(id, header.dst),
            false => cast != Cast::Many && self.is_local(header.dst.into()),
        };
        if !ours {
            return Err(DropReason::IpNotForUs);
        }
        // Ethernet pads to 60 bytes: what lies behind the packet is not part of it.
        //= https://www.rfc-editor.org/rfc/rfc8200#section-5
        //# From each link to which a node is directly attached, the node must be able to accept
        //# packets as large as that link's MTU.
        frame.truncate(ipv6::HEADER_LEN + usize::from(header.payload_len));
        let packet = Packet {
            link: id,
            source: IpAddr::V6(header.src),
            destination: IpAddr::V6(header.dst),
            tos: header.traffic_class,
        };
        let bytes = frame.len() as u64;
        let Some((protocol, whole)) = self.six_payload(now, &packet, &header, frame)? else {
            return Ok(None);
        };
        self.statistics.count_in(protocol, bytes);
        match protocol {
            IpProtocol::TCP if many => Err(DropReason::TcpBroadcast),
            IpProtocol::ICMPV6 if self.is_discovery(id, frame) => {
                let limits = (header.hop_limit, whole);
                self.discovery_arrives(now, &packet, limits, frame)
                    .map(|()| None)
            }
            IpProtocol::ICMPV6 if self.is_about_listeners(id, frame) => self
                .listeners_arrive(now, &packet, header.hop_limit, frame)
                .map(|()| None),
            // only questions for neighbours and groups are asked by whoever has no address yet
            _ if header.src.is_unspecified() => Err(DropReason::IpSource),
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4.7
            //# The value 59 in the Next Header field of an IPv6 header or any
            //# extension header indicates that there is nothing following that
            //# header.
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4.7
            //# If the Payload Length field of the IPv6 header indicates the presence of octets past
            //# the end of a header whose Next Header field contains 59, those octets must be
            //# ignored and passed on unchanged if the packet is forwarded.
            IpProtocol::NO_NEXT_HEADER => Err(DropReason::IpNoPayload),
            protocol => Ok(Some((packet, protocol))),
        }
    }

    /// Whether packets to `group` are for us: all nodes, the groups of our addresses, those still
    /// being tried out too, and those that somebody wants.
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.2
    //# In order to improve the robustness of the Duplicate Address Detection algorithm, an
    //# interface MUST receive and process datagrams sent to the all-nodes multicast address or
    //# solicited-node multicast address of the tentative address during the delay period.
    pub(in crate::ip) fn six_group_is_ours(&self, link: LinkId, group: Ipv6Addr) -> bool {
        const INTERFACE_ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);
        let mut own = self.six.own.iter().filter(|own| own.link == link);
        let solicited = own.any(|own| nd::solicited_node(own.address) == group);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.1
        //# When a multicast-capable interface becomes enabled, the node MUST join the all-nodes
        //# multicast address on that interface, as well as the solicited-node multicast address
        //# corresponding to each of the IP addresses assigned to the interface.
        let all = group == nd::ALL_NODES || group == INTERFACE_ALL_NODES;
        (all && self.speaks_six(link)) || solicited || self.wants_group(link, group.into())
    }

    /// Whether a link has addresses of IPv6, or is waiting for some.
    pub(in crate::ip) fn speaks_six(&self, link: LinkId) -> bool {
        let asked = self.six.soliciting.iter().any(|s| s.link == link);
        asked || self.six.own.iter().any(|own| own.link == link)
    }

    fn is_discovery(&mut self, link: LinkId, frame: &Frame) -> bool {
        let mut kind = [0; 1];
        let read = self.endpoint(link).map_or(0, |e| e.peek(frame, &mut kind));
        read == 1 && nd::Message::is_type(kind[0])
    }
}

#[inline]
fn header<D: Driver>(link: &Link<D>, frame: &Frame) -> Result<Header, DropReason> {
    let mut buffer = [0; ipv6::HEADER_LEN];
    let bytes = first_bytes(&link.endpoint, frame, ipv6::HEADER_LEN, &mut buffer);
    let parsed = Header::parse_split(bytes, frame.len());
    parsed
        .map(|(header, _)| header)
        .map_err(|error| match error {
            ParseError::Truncated => DropReason::IpTruncated,
            ParseError::BadVersion => DropReason::IpVersion,
            ParseError::BadPayloadLength => DropReason::IpTotalLength,
        })
}

/// A source that can be a host: RFC 4291 sections 2.5.3, 2.5.5, 2.7.
fn source_possible<D>(link: &Link<D>, header: &Header) -> Result<(), DropReason> {
    let (source, destination) = (header.src, header.dst);
    if let Some(peer) = link.config.peer {
        // The far end of a channel is one host, and nobody else writes into it.
        return match peer == IpAddr::V6(source) {
            true => Ok(()),
            false => Err(DropReason::IpSpoofed),
        };
    }
    let impossible = |a: Ipv6Addr| a.is_loopback() || embeds_four(a);
    if source.is_multicast() || impossible(source) || impossible(destination) {
        return Err(DropReason::IpSource);
    }
    Ok(())
}

/// Mapped and compatible addresses (RFC 4291 section 2.5.5): `::a.b.c.d` and `::ffff:a.b.c.d`. On a
/// wire they say that somebody wants to be taken for a host of IPv4.
fn embeds_four(address: Ipv6Addr) -> bool {
    let [0, 0, 0, 0, 0, form, _, _] = address.segments() else {
        return false;
    };
    form == 0xffff || (form == 0 && !address.is_unspecified() && !address.is_loopback())
}
