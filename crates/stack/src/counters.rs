//! What is counted: packets thrown away, by reason, and traffic by protocol.

use gannet_base::{Counters, reasons};
use gannet_wire::IpProtocol;

reasons! {
    /// Why a packet was thrown away. A drop is a count, not an error.
    pub enum DropReason {
        /// Shorter than its link header.
        Runt => "runt",
        /// An Ethernet frame for another station.
        ForeignStation => "foreign_station",
        /// A protocol above Ethernet that we do not speak.
        UnknownEtherType => "unknown_ethertype",
        /// A frame of another VLAN than the link's, or with or without a tag where it ought not to.
        OtherVlan => "other_vlan",
        /// An ARP packet that is cut short, or not about IPv4 over Ethernet.
        ArpMalformed => "arp_malformed",
        /// An ARP packet from a sender that can be no station or host.
        ArpBadSender => "arp_bad_sender",
        /// An ARP packet from another station that claims an address of ours.
        ArpConflict => "arp_conflict",
        /// An ARP reply that nobody asked for.
        ArpUnsolicited => "arp_unsolicited",
        /// No entry of the neighbour cache could be given up.
        NeighbourTableFull => "neighbour_table_full",
        /// Too many packets wait for a neighbour's answer.
        NeighbourQueueFull => "neighbour_queue_full",
        /// The neighbour did not answer.
        NeighbourFailed => "neighbour_failed",
        /// Shorter than an IP header, or than the header says it is.
        IpTruncated => "ip_truncated",
        /// Not IP version 4.
        IpVersion => "ip_version",
        /// A header length below 20 bytes.
        IpHeaderLength => "ip_header_length",
        /// A total length below the header's or beyond the frame.
        IpTotalLength => "ip_total_length",
        /// The header checksum is wrong.
        IpChecksum => "ip_checksum",
        /// Options that cannot be walked.
        IpOptions => "ip_options",
        /// A source route.
        IpSourceRoute => "ip_source_route",
        /// A source that can be no host: broadcast, multicast, zero, loopback, reserved.
        IpSource => "ip_source",
        /// Our own address as source.
        IpLand => "ip_land",
        /// A source other than the one this channel leads to.
        IpSpoofed => "ip_spoofed",
        /// For another host.
        IpNotForUs => "ip_not_for_us",
        /// A fragment without bytes.
        FragmentEmpty => "fragment_empty",
        /// A fragment that others follow and that does not end where one can.
        FragmentLength => "fragment_length",
        /// A fragment that ends behind the longest possible datagram, or the longest that a frame
        /// of its link refers to.
        FragmentTooLong => "fragment_too_long",
        /// A fragment that cuts the headers of the protocol above.
        FragmentTiny => "fragment_tiny",
        /// A fragment that came before.
        FragmentDuplicate => "fragment_duplicate",
        /// A fragment with bytes of another one, and with it the whole datagram.
        FragmentOverlap => "fragment_overlap",
        /// A fragment that contradicts another one about the datagram's end or the bytes between
        /// the same edges, and with it the whole datagram.
        FragmentConflict => "fragment_conflict",
        /// A datagram of which one fragment bears a congestion mark and another forbids it.
        FragmentEcn => "fragment_ecn",
        /// An incomplete datagram that had to make room for another.
        FragmentEvicted => "fragment_evicted",
        /// An incomplete datagram whose time was over.
        FragmentTimeout => "fragment_timeout",
        /// Extension headers in the wrong order, or too many.
        IpChain => "ip_chain",
        /// IPv6 headers and nothing behind them.
        IpNoPayload => "ip_no_payload",
        /// A message of neighbour discovery that cannot be read.
        DiscoveryMalformed => "discovery_malformed",
        /// A message of neighbour discovery that was forwarded.
        DiscoveryHopLimit => "discovery_hop_limit",
        /// A message of neighbour discovery in pieces (RFC 6980).
        DiscoveryFragment => "discovery_fragment",
        /// A message of neighbour discovery from, to or about an address that it cannot be.
        DiscoveryBadSender => "discovery_bad_sender",
        /// A message of neighbour discovery that does not concern us.
        DiscoveryIgnored => "discovery_ignored",
        /// More routers, networks or addresses were advertised than are kept.
        DiscoveryTableFull => "discovery_table_full",
        /// Another station has, or tries out, an address of ours.
        DuplicateAddress => "duplicate_address",
        /// A protocol that we do not speak.
        IpProtocol => "ip_protocol",
        /// TCP to a broadcast address.
        TcpBroadcast => "tcp_broadcast",
        /// An ICMP message below 8 bytes, or with a wrong checksum.
        IcmpMalformed => "icmp_malformed",
        /// An echo request to a broadcast address.
        IcmpBroadcast => "icmp_broadcast",
        /// A redirect, of either family: a router that is not the best one forwards our packets all
        /// the same, and whoever forges it must not turn them to himself.
        Redirect => "redirect",
        /// A type that we do not answer: address mask, time stamp, information, quench.
        IcmpIgnored => "icmp_ignored",
        /// An ICMP error that quotes no packet we can read.
        IcmpBadQuote => "icmp_bad_quote",
        /// An ICMP error about a packet that is not ours.
        IcmpForeignQuote => "icmp_foreign_quote",
        /// An ICMP error not sent because too many were sent already.
        IcmpLimited => "icmp_limited",
        /// A UDP datagram below 8 bytes, or with an impossible length.
        UdpLength => "udp_length",
        /// A UDP datagram with a wrong checksum.
        UdpChecksum => "udp_checksum",
        /// A UDP datagram for a port without a socket.
        UdpNoSocket => "udp_no_socket",
        /// The socket's receive buffer is full.
        UdpReceiveFull => "udp_receive_full",
        /// The oldest datagrams of a full receive buffer, which made room for newer ones.
        UdpReceiveOld => "udp_receive_old",
        /// A received datagram that its link took away before it was read.
        UdpLinkGone => "udp_link_gone",
        /// An IGMP message that is none, from beyond the link, or a query that no router sends.
        IgmpMalformed => "igmp_malformed",
        /// A message of multicast listener discovery that is none, or from beyond the link.
        MldMalformed => "mld_malformed",
        /// A message to the DHCP client that is none, or lacks what its kind needs.
        DhcpMalformed => "dhcp_malformed",
        /// A message to the DHCP client from another server, or for another one, or too late.
        DhcpUnexpected => "dhcp_unexpected",
        /// No block free to keep or answer a packet.
        NoMemory => "no_memory",
        /// A packet of our own making that the link had no room for.
        LinkFull => "link_full",
        /// A packet of our own making that no link leads to.
        NoRoute => "no_route",
    }
}

/// Drops by reason.
pub type Drops = Counters<DropReason, { DropReason::COUNT }>;

/// Packets and bytes both ways. Bytes are those of IP packets, headers included; a super-packet
/// counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets received and handed to the protocol.
    pub packets_in: u64,
    /// Bytes in them.
    pub bytes_in: u64,
    /// Packets handed to a link.
    pub packets_out: u64,
    /// Bytes in them.
    pub bytes_out: u64,
}

/// Traffic by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// TCP.
    pub tcp: Traffic,
    /// UDP.
    pub udp: Traffic,
    /// ICMP.
    pub icmp: Traffic,
    /// Every other protocol above IP.
    pub other: Traffic,
}

impl Statistics {
    /// All zero.
    pub const fn new() -> Self {
        const NONE: Traffic = Traffic {
            packets_in: 0,
            bytes_in: 0,
            packets_out: 0,
            bytes_out: 0,
        };
        Statistics {
            tcp: NONE,
            udp: NONE,
            icmp: NONE,
            other: NONE,
        }
    }

    #[inline]
    fn of(&mut self, protocol: IpProtocol) -> &mut Traffic {
        match protocol {
            IpProtocol::TCP => &mut self.tcp,
            IpProtocol::UDP => &mut self.udp,
            IpProtocol::ICMP | IpProtocol::ICMPV6 => &mut self.icmp,
            _ => &mut self.other,
        }
    }

    #[inline]
    pub(crate) fn count_in(&mut self, protocol: IpProtocol, bytes: u64) {
        let traffic = self.of(protocol);
        traffic.packets_in = traffic.packets_in.wrapping_add(1);
        traffic.bytes_in = traffic.bytes_in.wrapping_add(bytes);
    }

    #[inline]
    pub(crate) fn count_out(&mut self, protocol: IpProtocol, bytes: u64) {
        let traffic = self.of(protocol);
        traffic.packets_out = traffic.packets_out.wrapping_add(1);
        traffic.bytes_out = traffic.bytes_out.wrapping_add(bytes);
    }
}
