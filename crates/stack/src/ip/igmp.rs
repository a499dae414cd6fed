//! IGMP for the IPv4 groups of the links (RFC 3376, RFC 2236).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use gannet_base::Instant;
use gannet_link::{Driver, Frame, Slot};
use gannet_wire::group_record::{REPORT_HEADER_LEN, ReportWriter};
use gannet_wire::igmp::{self, Message, Old};
use gannet_wire::{IpProtocol, ipv4};

use super::layer::Ip;
use super::output::Packet;
use super::path::LINK_HEADER_MAX;
use crate::counters::DropReason;
use crate::link::LinkId;
use crate::multicast::{Asked, SOURCES_MAX, Say, Version};

/// Bytes of records in one report: as many as a slot holds beside the headers.
const RECORDS_LEN: usize = 48;
const _: () = assert!(8 + 4 * SOURCES_MAX <= RECORDS_LEN);
/// The longest message that is looked at; the rest is not worth reading.
const MESSAGE_MAX: usize = 1500;

impl<D: Driver> Ip<D> {
    /// Whether a packet to a group is for us: somebody wants it, or it is a query to everybody.
    pub(super) fn takes_group(&self, link: LinkId, header: &ipv4::Header) -> bool {
        let query = header.dst == igmp::ALL_SYSTEMS && header.protocol == IpProtocol::IGMP;
        query || self.wants_group(link, header.dst.into())
    }

    /// The first IPv4 address of a link.
    pub(super) fn group_source(&self, link: LinkId) -> Ipv4Addr {
        let own = self.links.get(link).map(|l| l.config.addresses.iter());
        let mut four = own.into_iter().flatten().filter_map(|a| match a.address {
            IpAddr::V4(four) => Some(four),
            IpAddr::V6(_) => None,
        });
        //= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.13
        //# An IGMP report is sent with a valid IP source address for the destination subnet.
        four.next().unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// An IGMP message arrives; `frame` is the IP payload and is released here.
    pub(crate) fn igmp_arrives(&mut self, now: Instant, packet: &Packet, frame: &mut Frame) {
        let mut buffer = [0; MESSAGE_MAX];
        let Some(endpoint) = self.endpoint(packet.link) else {
            return;
        };
        let len = endpoint.peek(frame, &mut buffer);
        endpoint.release_frame(frame);
        //= https://www.rfc-editor.org/rfc/rfc2236#section-2.5
        //# As long as the Type is one that is recognized, an IGMPv2 implementation MUST ignore
        //# anything past the first 8 octets while processing the packet.
        let message = Message::parse(buffer.get(..len).unwrap_or(&[]));
        let Ok(message) = message else {
            self.count_drop(DropReason::IgmpMalformed);
            return;
        };
        match (message, self.groups.of(packet.link)) {
            (Message::Query(query), Some(membership)) => {
                let to = packet.destination;
                // RFC 3376 section 9.1: a general query that is not sent to all systems is forged.
                if query.group.is_unspecified() && to != IpAddr::V4(igmp::ALL_SYSTEMS) {
                    self.count_drop(DropReason::IgmpMalformed);
                    return;
                }
                membership.asked(
                    now,
                    &Asked {
                        version: match query.version {
                            igmp::Version::V1 => Version::First,
                            igmp::Version::V2 => Version::Second,
                            igmp::Version::V3 => Version::Newest,
                        },
                        group: (!query.group.is_unspecified()).then_some(query.group),
                        within: query.max_response(),
                        robustness: query.robustness,
                        interval: query.interval(),
                    },
                );
            }
            //= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.14
            //# In addition, a system MUST accept and process any version 1 or version 2 Report
            //# whose IP Destination Address field contains *any* of the addresses (unicast or
            //# multicast) assigned to the interface on which the Report arrives.
            (Message::ReportV1 { group } | Message::ReportV2 { group }, Some(membership)) => {
                membership.heard(group);
            }
            //= https://www.rfc-editor.org/rfc/rfc3376#section-4
            //# Unrecognized message types MUST be silently ignored.
            _ => {}
        }
    }

    /// Tells what is to be told by now.
    pub(super) fn poll_groups(&mut self, now: Instant) {
        let mut says = Vec::new();
        for index in 0.. {
            let Some((link, membership)) = self.groups.at(index) else {
                break;
            };
            membership.poll(now, &mut says);
            // Everybody is in it, and nobody says so.
            says.retain(|say| say.group != igmp::ALL_SYSTEMS);
            match membership.version() {
                Version::Newest => {
                    let mut rest = &says[..];
                    while !rest.is_empty() {
                        let (part, len, later) = Say::part(rest, RECORDS_LEN);
                        self.send_report(link, part, len);
                        rest = later;
                    }
                }
                old => {
                    for say in &says {
                        self.send_old(link, old, say);
                    }
                }
            }
            says.clear();
        }
    }

    /// `records`: how many bytes `says` takes.
    fn send_report(&mut self, link: LinkId, says: &[Say<Ipv4Addr>], records: usize) {
        let len = REPORT_HEADER_LEN + records;
        self.send_igmp(link, igmp::ALL_V3_ROUTERS, len, |bytes| {
            if let Some(mut report) = ReportWriter::new(bytes) {
                for say in says {
                    report.push(say.kind, say.group, &say.sources);
                }
                let _ = igmp::finish_report(report);
            }
        });
    }

    //= https://www.rfc-editor.org/rfc/rfc3376#section-4
    //# An implementation of IGMPv3 MUST also support the following three message types, for
    //# interoperation with previous versions of IGMP (see section 7):
    fn send_old(&mut self, link: LinkId, version: Version, say: &Say<Ipv4Addr>) {
        let (kind, to) = match (version, say.leaves()) {
            (Version::First, true) => return,
            //= https://www.rfc-editor.org/rfc/rfc2236#section-9
            //# In all cases, however, hosts MUST send to the ALL-ROUTERS address to be compliant
            //# with this specification.
            (_, true) => (Old::Leave, igmp::ALL_ROUTERS),
            (Version::First, _) => (Old::ReportV1, say.group),
            _ => (Old::ReportV2, say.group),
        };
        self.send_igmp(link, to, igmp::MESSAGE_LEN, |bytes| {
            let _ = igmp::emit_old(kind, say.group, bytes);
        });
    }

    /// Sends a message of `len` bytes that `write` writes.
    fn send_igmp(&mut self, link: LinkId, to: Ipv4Addr, len: usize, write: impl FnOnce(&mut [u8])) {
        //= https://www.rfc-editor.org/rfc/rfc3376#section-4
        //# Every IGMP message described in this document is sent with an IP Time-to-Live of 1, IP
        //# Precedence of Internetwork Control (e.g., Type of Service 0xc0), and carries an IP
        //# Router Alert option [RFC-2113] in its IP header.
        let Some(path) = self.group_path(link, to.into(), 1) else {
            return;
        };
        let mut slot = Slot::new();
        let at = path.header.map_or(0, |h| h.as_slice().len());
        let body = at + ipv4::ROUTER_ALERT_HEADER_LEN;
        let ip = ipv4::Header {
            tos: 0xc0,
            total_len: (ipv4::ROUTER_ALERT_HEADER_LEN + len) as u16,
            ident: 0,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 1,
            protocol: IpProtocol::IGMP,
            src: self.group_source(link),
            dst: to,
            options: ipv4::OptionReport::default(),
        };
        let Some(bytes) = slot.inline_mut(body + len) else {
            return;
        };
        if let (Some(header), Some(place)) = (path.header, bytes.get_mut(..at)) {
            place.copy_from_slice(header.as_slice());
        }
        let _ = bytes
            .get_mut(at..)
            .and_then(|b| ip.emit_with_router_alert(b));
        write(bytes.get_mut(body..).unwrap_or_default());
        if self.send(&path, &slot).is_err() {
            self.count_drop(DropReason::LinkFull);
        }
    }
}

const _: () = assert!(
    LINK_HEADER_MAX + ipv4::ROUTER_ALERT_HEADER_LEN + REPORT_HEADER_LEN + RECORDS_LEN
        <= gannet_link::slot::INLINE_MAX
);
