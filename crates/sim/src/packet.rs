//! What passes on a wire, parsed for whoever watches: only what is sound and whole.

use std::net::{IpAddr, SocketAddr};

use gannet_link::Medium;
use gannet_wire::checksum::{pseudo_v4, sum};
use gannet_wire::tcp::{Flags, Header, Options};
use gannet_wire::{IpProtocol, ipv4, tcp, udp};

use crate::path::place::{Place, Version, link_header_len};

/// A TCP segment in a packet.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// Whom it is for.
    pub to: SocketAddr,
    /// Its header.
    pub header: Header,
    /// Its options.
    pub options: Options,
    /// Bytes of options, padding included.
    pub options_len: usize,
    /// Its data.
    pub data: &'a [u8],
    /// Bytes of the IP packet.
    pub packet_len: usize,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
}

impl Segment<'_> {
    /// Whether it has all of these flags.
    pub fn has(&self, flags: Flags) -> bool {
        self.header.flags.contains(flags)
    }

    /// Sequence numbers that it takes up.
    pub fn len(&self) -> u32 {
        let flags = u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN));
        self.data.len() as u32 + flags
    }

    /// Whether it takes up none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A TCP segment with right checksums.
    Tcp(Segment<'a>),
    /// TCP or IP with a wrong checksum, or impossible lengths.
    Wrong(&'static str),
    /// Anything else.
    Other,
}

impl<'a> Packet<'a> {
    /// Looks at a frame.
    pub fn parse(frame: &'a [u8], medium: Medium) -> Packet<'a> {
        let Some(place) = Place::of(frame, medium) else {
            return Packet::Other;
        };
        if place.version != Version::V4 {
            return Packet::Other;
        }
        let packet = frame.get(place.network..place.end).unwrap_or(&[]);
        let Ok((ip, header_len)) = ipv4::Header::parse(packet) else {
            return Packet::Wrong("IP header");
        };
        let bytes = packet.get(header_len..).unwrap_or(&[]);
        match ip.protocol {
            IpProtocol::TCP => Self::tcp(&ip, bytes, packet.len()),
            IpProtocol::UDP => Self::udp(&ip, bytes),
            _ => Packet::Other,
        }
    }

    fn tcp(ip: &ipv4::Header, bytes: &'a [u8], packet_len: usize) -> Packet<'a> {
        let pseudo = pseudo_v4(ip.src, ip.dst, IpProtocol::TCP, bytes.len() as u16);
        if pseudo.combine(sum(bytes), false).finish() != 0 {
            return Packet::Wrong("TCP checksum");
        }
        let Ok((header, at)) = Header::parse(bytes) else {
            return Packet::Wrong("TCP header");
        };
        let options = tcp::options(bytes, at);
        Packet::Tcp(Segment {
            from: SocketAddr::new(IpAddr::V4(ip.src), header.src_port),
            to: SocketAddr::new(IpAddr::V4(ip.dst), header.dst_port),
            header,
            options: Options::parse(options),
            options_len: options.len(),
            data: bytes.get(at..).unwrap_or(&[]),
            packet_len,
            ecn: ip.tos & 3,
        })
    }

    fn udp(ip: &ipv4::Header, bytes: &[u8]) -> Packet<'a> {
        let Ok((header, _)) = udp::Header::parse(bytes) else {
            return Packet::Wrong("UDP header");
        };
        let pseudo = pseudo_v4(ip.src, ip.dst, IpProtocol::UDP, header.length);
        let bytes = bytes.get(..usize::from(header.length)).unwrap_or(bytes);
        if header.has_checksum() && pseudo.combine(sum(bytes), false).finish() != 0 {
            return Packet::Wrong("UDP checksum");
        }
        Packet::Other
    }
}

/// The IP packet of a frame.
pub fn ip_of(frame: &[u8], medium: Medium) -> &[u8] {
    frame.get(link_header_len(medium)..).unwrap_or(&[])
}

/// A frame in one line.
pub fn line(frame: &[u8], medium: Medium) -> String {
    match medium {
        Medium::Ethernet => gannet_wire::pretty::ethernet(frame).to_string(),
        Medium::Ip => gannet_wire::pretty::ipv4(frame).to_string(),
    }
}
