//! A destination with everything cached to reach it.

use core::net::IpAddr;

use gannet_wire::vlan::{self, Tag};
use gannet_wire::{EtherType, ethernet, ipv4, ipv6};

use crate::link::LinkId;

/// Largest link header we prepend: Ethernet with a VLAN tag.
pub(crate) const LINK_HEADER_MAX: usize = ethernet::HEADER_LEN + vlan::TAG_LEN;

/// A link header ready to be copied in front of an IP header; empty on links without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkHeader {
    bytes: [u8; LINK_HEADER_MAX],
    len: u8,
}

impl LinkHeader {
    /// No header: bare IP.
    pub const NONE: LinkHeader = LinkHeader {
        bytes: [0; LINK_HEADER_MAX],
        len: 0,
    };

    /// An Ethernet header, with the tag of a VLAN if one is given.
    pub fn ethernet(header: &ethernet::Header, vlan: Option<u16>) -> Self {
        let mut link = LinkHeader::NONE;
        let Some(id) = vlan else {
            let _ = header.emit(&mut link.bytes);
            link.len = ethernet::HEADER_LEN as u8;
            return link;
        };
        let (first, rest) = link.bytes.split_at_mut(ethernet::HEADER_LEN);
        let announcing = ethernet::Header {
            ethertype: EtherType::VLAN,
            ..*header
        };
        let _ = announcing.emit(first);
        let tag = Tag {
            priority: 0,
            drop_eligible: false,
            id,
            ethertype: header.ethertype,
        };
        let _ = tag.emit(rest);
        link.len = LINK_HEADER_MAX as u8;
        link
    }

    /// Its bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// How to reach one destination. Connections keep one and renew it when told that it is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The link packets leave by.
    pub link: LinkId,
    /// Our address on it.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// The neighbour they are handed to: the destination or a gateway.
    pub next_hop: IpAddr,
    /// Largest IP packet in bytes: the link's MTU, or less by path MTU discovery.
    pub mtu: u32,
    /// The link header to prepend, once [`crate::ip::Ip::resolve`] found it; `None` before, and
    /// after a retransmission time-out threw it away.
    pub header: Option<LinkHeader>,
    /// Time to live of packets; [`Path::TTL`] unless somebody sets another.
    pub ttl: u8,
    /// Flow label of IPv6 packets (RFC 6437), 0 when nobody made one.
    pub flow_label: u32,
    /// Type of service of packets: Differentiated Services and ECN bits; 0 unless set.
    pub tos: u8,
    /// Whether routers may cut IPv4 packets of it: not unless set (DF).
    pub may_be_cut: bool,
}

impl Path {
    /// The same path for a packet with `ecn` in the ECN field (RFC 3168 section 5).
    #[must_use]
    pub fn marked(&self, ecn: u8) -> Path {
        Path {
            tos: self.tos | ecn & 0b11,
            ..*self
        }
    }

    /// Time to live when nobody chose one: the recommended default (RFC 1700).
    pub const TTL: u8 = 64;

    /// Bytes of the IP header of its packets, without options: 20 or 40.
    #[inline]
    pub const fn ip_header_len(&self) -> usize {
        match self.destination {
            IpAddr::V4(_) => ipv4::HEADER_LEN,
            IpAddr::V6(_) => ipv6::HEADER_LEN,
        }
    }
}

/// No link leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoute;
