//! Where the headers of a frame lie. Frames here may be anything: what makes no sense has no place.

use gannet_link::Medium;
use gannet_wire::IpProtocol;
use gannet_wire::ethernet;

/// Bytes before the IP header.
pub const fn link_header_len(medium: Medium) -> usize {
    match medium {
        Medium::Ethernet => ethernet::HEADER_LEN,
        Medium::Ip => 0,
    }
}

/// The version of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// Where the parts of an IP packet lie in a frame: offsets from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The version of IP.
    pub version: Version,
    /// The IP header.
    pub network: usize,
    /// The transport header; behind IPv6 extension headers it is not looked for.
    pub transport: usize,
    /// Behind the packet's last byte: the rest is padding.
    pub end: usize,
    /// What the transport header is.
    pub protocol: IpProtocol,
}

impl Place {
    /// The parts of an unfragmented IP packet in `frame`; `None` for everything else.
    pub fn of(frame: &[u8], medium: Medium) -> Option<Place> {
        let network = link_header_len(medium);
        let version = match (medium, frame.get(12..14)) {
            (Medium::Ip, _) => frame.first()? >> 4,
            (Medium::Ethernet, Some([0x08, 0x00])) => 4,
            (Medium::Ethernet, Some([0x86, 0xdd])) => 6,
            (Medium::Ethernet, _) => return None,
        };
        let ip = frame.get(network..)?;
        let (version, header, len, protocol) = match version {
            4 => {
                let ip: &[u8; 20] = ip.first_chunk()?;
                if u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0 {
                    return None;
                }
                let total = u16::from_be_bytes([ip[2], ip[3]]);
                (Version::V4, usize::from(ip[0] & 15) * 4, total, ip[9])
            }
            6 => {
                let ip: &[u8; 40] = ip.first_chunk()?;
                let total = u16::from_be_bytes([ip[4], ip[5]]).saturating_add(40);
                (Version::V6, 40, total, ip[6])
            }
            _ => return None,
        };
        let place = Place {
            version,
            network,
            transport: network + header,
            end: network + usize::from(len),
            protocol: IpProtocol(protocol),
        };
        (place.transport <= place.end && place.end <= frame.len()).then_some(place)
    }

    /// Where the transport checksum lies, if the protocol is known and the field is there.
    pub fn checksum(&self) -> Option<usize> {
        let at = self.transport
            + match self.protocol {
                IpProtocol::TCP => 16,
                IpProtocol::UDP => 6,
                _ => return None,
            };
        (at + 2 <= self.end).then_some(at)
    }

    /// Whether the packet is a TCP segment that only acknowledges: no payload, no SYN, FIN or RST.
    pub fn is_bare_ack(&self, frame: &[u8]) -> bool {
        let tcp = frame.get(self.transport..self.end).unwrap_or(&[]);
        let (Some(offset), Some(flags)) = (tcp.get(12), tcp.get(13)) else {
            return false;
        };
        let bare = usize::from(offset >> 4) * 4 == tcp.len() && flags & 0b1_0111 == 0b1_0000;
        self.protocol == IpProtocol::TCP && bare
    }
}
