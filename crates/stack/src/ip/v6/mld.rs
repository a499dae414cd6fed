//! Multicast listener discovery (RFC 3810, RFC 2710): IGMP's twin.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use gannet_base::Instant;
use gannet_link::{Driver, Frame, RxChecksum, Slot};
use gannet_wire::extension::{ROUTER_ALERT_LEN, emit_router_alert};
use gannet_wire::group_record::{REPORT_HEADER_LEN, ReportWriter};
use gannet_wire::mld::{self, Message, Old};
use gannet_wire::nd::{ALL_NODES, ALL_ROUTERS};
use gannet_wire::{IpProtocol, ipv6};

use super::super::layer::Ip;
use super::super::output::Packet;
use super::own::Own;
use crate::address;
use crate::counters::DropReason;
use crate::link::LinkId;
use crate::multicast::{Asked, Say, Version};

/// Bytes of records in one report: as many as fit into the smallest MTU.
const RECORDS_LEN: usize = 1200;
const REPORT_MAX: usize = REPORT_HEADER_LEN + RECORDS_LEN;
/// The longest message that is looked at; the rest is not worth reading.
const MESSAGE_MAX: usize = 1500;

const _: () = assert!(ipv6::HEADER_LEN + ROUTER_ALERT_LEN + REPORT_MAX <= ipv6::MIN_MTU as usize);

/// Whether routers and switches have to know who wants a group.
//= https://www.rfc-editor.org/rfc/rfc3810#section-6
//# No MLD messages are ever sent regarding neither the link-scope all-nodes multicast address, nor
//# any multicast address of scope 0 (reserved) or 1 (node-local).
fn is_told(group: Ipv6Addr) -> bool {
    group != ALL_NODES && super::source::scope(group) > 1
}

impl<D: Driver> Ip<D> {
    /// Whether a message of ICMPv6 is about who listens.
    pub(super) fn is_about_listeners(&mut self, link: LinkId, frame: &Frame) -> bool {
        let mut kind = [0; 1];
        let read = self.endpoint(link).map_or(0, |e| e.peek(frame, &mut kind));
        read == 1 && Message::is_type(kind[0])
    }

    /// A message arrives; `frame` is what is behind the headers, and stays the caller's.
    pub(super) fn listeners_arrive(
        &mut self,
        now: Instant,
        packet: &Packet,
        hop_limit: u8,
        frame: &Frame,
    ) -> Result<(), DropReason> {
        //= https://www.rfc-editor.org/rfc/rfc3810#section-6.2
        //# Upon reception of an MLD message that contains a Query, the node checks if the source
        //# address of the message is a valid link-local address, if the Hop Limit is set to 1, and
        //# if the Router Alert option is present in the Hop-By-Hop Options header of the IPv6
        //# packet. If any of these checks fails, the packet is dropped.
        //= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.14
        //# If a node (router or host) receives a Query message with the IPv6 Source Address set to
        //# the unspecified address (::), or any other address that is not a valid IPv6 link-local
        //# address, it MUST silently discard the message and SHOULD log a warning.
        let near = matches!(packet.source, IpAddr::V6(six) if six.is_unicast_link_local());
        if !near || hop_limit != 1 || !self.six.headers.router_alert {
            return Err(DropReason::MldMalformed);
        }
        //= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.2
        //# When a packet is received, the checksum MUST be verified before processing it.
        //= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.12
        //# If the Payload Length field in the IPv6 header of a received Query indicates that there
        //# are additional octets of data present, beyond the fields described here, MLDv2
        //# implementations MUST include those octets in the computation to verify the received MLD
        //# Checksum, but MUST otherwise ignore those additional octets.
        //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.2
        //# When a packet is received, the checksum MUST be verified before processing it.
        if frame.checksum() == RxChecksum::Unknown {
            let len = frame.len() as u32;
            let (from, to) = (packet.source, packet.destination);
            let pseudo = address::pseudo(from, to, IpProtocol::ICMPV6, len);
            let sum = self.frame_sum(packet.link, frame).combine(pseudo, false);
            if sum.finish() != 0 {
                return Err(DropReason::MldMalformed);
            }
        }
        let mut buffer = [0; MESSAGE_MAX];
        let endpoint = self.endpoint(packet.link);
        let read = endpoint.map_or(0, |e| e.peek(frame, &mut buffer));
        let message = Message::parse(buffer.get(..read).unwrap_or(&[]));
        let message = message.map_err(|_| DropReason::MldMalformed)?;
        let Some(membership) = self.groups_six.of(packet.link) else {
            return Ok(());
        };
        match message {
            //= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.15
            //# Multicast Address Specific and Multicast Address and Source Specific Queries are
            //# sent with an IP destination address equal to the multicast address of interest.
            //# *However*, a node MUST accept and process any Query whose IP Destination Address
            //# field contains *any* of the addresses (unicast or multicast) assigned to the
            //# interface on which the Query arrives.
            Message::Query(query) => membership.asked(
                now,
                &Asked {
                    version: match query.version {
                        mld::Version::V1 => Version::Second,
                        mld::Version::V2 => Version::Newest,
                    },
                    group: (!query.group.is_unspecified()).then_some(query.group),
                    within: query.max_response(),
                    robustness: query.robustness,
                    interval: query.interval(),
                },
            ),
            //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.14
            //# In addition, a node MUST accept and process any version 1 Report whose IP
            //# Destination Address field contains *any* of the IPv6 addresses (unicast or
            //# multicast) assigned to the interface on which the Report arrives.
            Message::ReportV1 { group } => membership.heard(group),
            //= https://www.rfc-editor.org/rfc/rfc3810#section-5
            //# Unrecognized message types MUST be silently ignored.
            Message::Done { .. } | Message::ReportV2(_) => {}
        }
        Ok(())
    }

    /// An address is in use from now on. When it is the one that reports come from, they are sent
    /// again: those before it came from nobody.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.13
    //# Once a valid link-local address is available, a node SHOULD generate new MLDv2 Report
    //# messages for all multicast addresses joined on the interface.
    pub(super) fn retell_groups(&mut self, own: &Own) {
        if own.address.is_unicast_link_local()
            && let Some(membership) = self.groups_six.of(own.link)
        {
            membership.retell();
        }
    }

    /// Tells what is to be told by now.
    pub(in crate::ip) fn poll_listeners(&mut self, now: Instant) {
        let mut says = Vec::new();
        for index in 0.. {
            let Some((link, membership)) = self.groups_six.at(index) else {
                break;
            };
            membership.poll(now, &mut says);
            says.retain(|say| is_told(say.group));
            match membership.version() {
                Version::Newest => {
                    let mut rest = &says[..];
                    while !rest.is_empty() {
                        let (part, _, later) = Say::part(rest, RECORDS_LEN);
                        self.send_listener_report(link, part);
                        rest = later;
                    }
                }
                _ => {
                    for say in &says {
                        self.send_old_listener(link, say);
                    }
                }
            }
            says.clear();
        }
    }

    fn send_listener_report(&mut self, link: LinkId, says: &[Say<Ipv6Addr>]) {
        let mut buffer = [0; REPORT_MAX];
        let Some(mut report) = ReportWriter::new(&mut buffer) else {
            return;
        };
        for say in says {
            report.push(say.kind, say.group, &say.sources);
        }
        let source = self.listener_source(link);
        let len = mld::finish_report(report, (source, mld::ALL_V2_ROUTERS));
        let bytes = buffer.get(..len).unwrap_or(&[]);
        self.send_listener(link, (source, mld::ALL_V2_ROUTERS), bytes);
    }

    fn send_old_listener(&mut self, link: LinkId, say: &Say<Ipv6Addr>) {
        let (kind, to) = match say.leaves() {
            true => (Old::Done, ALL_ROUTERS),
            false => (Old::Report, say.group),
        };
        let mut buffer = [0; mld::MESSAGE_LEN];
        let source = self.listener_source(link);
        if mld::emit_old(kind, say.group, (source, to), &mut buffer).is_some() {
            self.send_listener(link, (source, to), &buffer);
        }
    }

    /// Who tells.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.13
    //# An MLDv2 Report MUST be sent with a valid IPv6 link-local source address, or the unspecified
    //# address (::), if the sending interface has not acquired a valid link-local address yet.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.13
    //# An MLDv2 Report MUST be sent with a valid IPv6 link-local source address, or the unspecified
    //# address (::), if the sending interface has not acquired a valid link-local address yet.
    fn listener_source(&self, link: LinkId) -> Ipv6Addr {
        let own = self.six.own.iter().filter(|own| own.link == link);
        let mut near = own.filter(|own| own.address.is_unicast_link_local());
        let own = near.find(|own| !own.is_tentative());
        own.map_or(Ipv6Addr::UNSPECIFIED, |own| own.address)
    }

    //= https://www.rfc-editor.org/rfc/rfc3810#section-5
    //# All MLDv2 messages described in this document MUST be sent with a link-local IPv6 Source
    //# Address, an IPv6 Hop Limit of 1, and an IPv6 Router Alert option [RFC2711] in a Hop-by-Hop
    //# Options header.
    fn send_listener(&mut self, id: LinkId, (src, dst): (Ipv6Addr, Ipv6Addr), message: &[u8]) {
        // Links without stations have no switches, and may have nobody who listens.
        if !self.is_ethernet(id) {
            return;
        }
        let Some(path) = self.group_path_from((id, src.into()), dst.into(), 1) else {
            return;
        };
        let mut slot = Slot::new();
        let (protocol, len) = (IpProtocol::HOP_BY_HOP, ROUTER_ALERT_LEN);
        let Some((options, _)) = self.write_header(&path, &mut slot, protocol, len, message.len())
        else {
            return;
        };
        let _ = emit_router_alert(IpProtocol::ICMPV6, options);
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let pool = &mut link.endpoint.pool;
        let Some(range) = pool.reserve_whole(&mut link.small, message.len()) else {
            return self.count_drop(DropReason::NoMemory);
        };
        if let Some(to) = pool.bytes_mut(range) {
            to.copy_from_slice(message);
        }
        let sent = slot.push_range(range) && self.send(&path, &slot).is_ok();
        if let Some(endpoint) = self.endpoint(id) {
            endpoint.release(range);
        }
        if !sent {
            self.count_drop(DropReason::LinkFull);
        }
    }
}
