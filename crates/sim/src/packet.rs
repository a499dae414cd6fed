//! What passes on a wire, parsed for whoever watches: only what is sound and whole.

use std::net::{IpAddr, SocketAddr};

use gannet_link::Medium;
use gannet_wire::checksum::{Sum, pseudo_v4, pseudo_v6, sum};
use gannet_wire::tcp::{Flags, Header, Options};
use gannet_wire::{IpProtocol, ipv4, ipv6, tcp, udp};

use crate::buffer::Buffer;
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
    /// Looks at a frame. The transport checksum of one that is known to be sound is right.
    pub fn parse(frame: &'a Buffer, medium: Medium) -> Packet<'a> {
        Self::of(frame, medium, frame.is_sound())
    }

    fn of(frame: &'a [u8], medium: Medium, sound: bool) -> Packet<'a> {
        let Some(place) = Place::of(frame, medium) else {
            return Packet::Other;
        };
        let packet = frame.get(place.network..place.end).unwrap_or(&[]);
        let Some((ip, header_len)) = Ip::parse(packet, place.version) else {
            return Packet::Wrong("IP header");
        };
        let bytes = packet.get(header_len..).unwrap_or(&[]);
        match ip.protocol {
            IpProtocol::TCP => Self::tcp(&ip, bytes, packet.len(), sound),
            IpProtocol::UDP => Self::udp(&ip, bytes, sound),
            _ => Packet::Other,
        }
    }

    fn tcp(ip: &Ip, bytes: &'a [u8], packet_len: usize, sound: bool) -> Packet<'a> {
        let pseudo = ip.pseudo(bytes.len());
        if !sound && pseudo.combine(sum(bytes), false).finish() != 0 {
            return Packet::Wrong("TCP checksum");
        }
        let Ok((header, at)) = Header::parse(bytes) else {
            return Packet::Wrong("TCP header");
        };
        let options = tcp::options(bytes, at);
        Packet::Tcp(Segment {
            from: SocketAddr::new(ip.src, header.src_port),
            to: SocketAddr::new(ip.dst, header.dst_port),
            header,
            options: Options::parse(options),
            options_len: options.len(),
            data: bytes.get(at..).unwrap_or(&[]),
            packet_len,
            ecn: ip.ecn,
        })
    }

    fn udp(ip: &Ip, bytes: &[u8], sound: bool) -> Packet<'a> {
        let Ok((header, _)) = udp::Header::parse(bytes) else {
            return Packet::Wrong("UDP header");
        };
        // RFC 8200 section 8.1: over IPv6 it is no choice
        if !header.has_checksum() && ip.src.is_ipv6() {
            return Packet::Wrong("UDP without a checksum");
        }
        let pseudo = ip.pseudo(usize::from(header.length));
        let bytes = bytes.get(..usize::from(header.length)).unwrap_or(bytes);
        let judged = header.has_checksum() && !sound;
        if judged && pseudo.combine(sum(bytes), false).finish() != 0 {
            return Packet::Wrong("UDP checksum");
        }
        Packet::Other
    }
}

/// What an IP header says that matters here.
struct Ip {
    src: IpAddr,
    dst: IpAddr,
    protocol: IpProtocol,
    ecn: u8,
}

impl Ip {
    /// A whole header with a right checksum, and its length.
    fn parse(packet: &[u8], version: Version) -> Option<(Ip, usize)> {
        match version {
            Version::V4 => {
                let (ip, len) = ipv4::Header::parse(packet).ok()?;
                let ip = Ip {
                    src: ip.src.into(),
                    dst: ip.dst.into(),
                    protocol: ip.protocol,
                    ecn: ip.tos & 3,
                };
                Some((ip, len))
            }
            Version::V6 => {
                let (ip, len) = ipv6::Header::parse(packet).ok()?;
                let ip = Ip {
                    src: ip.src.into(),
                    dst: ip.dst.into(),
                    protocol: ip.next_header,
                    ecn: ip.traffic_class & 3,
                };
                Some((ip, len))
            }
        }
    }

    /// The sum of the pseudo header before `len` bytes.
    fn pseudo(&self, len: usize) -> Sum {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_v4(src, dst, self.protocol, len as u16),
            (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_v6(src, dst, self.protocol, len as u32),
            _ => Sum::new(),
        }
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
        Medium::Ip if frame.first().is_some_and(|first| first >> 4 == 6) => {
            gannet_wire::pretty::ipv6(frame).to_string()
        }
        Medium::Ip => gannet_wire::pretty::ipv4(frame).to_string(),
    }
}
