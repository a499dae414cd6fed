//! Ethernet II frames (RFC 894). VLAN tags are not interpreted here: a tagged frame has
//! [`EtherType::VLAN`] or [`EtherType::SERVICE_VLAN`], and [`vlan`](crate::vlan) reads on.

use crate::MacAddr;
use core::fmt;

/// Bytes in an Ethernet header.
pub const HEADER_LEN: usize = 14;

/// The protocol of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// An IEEE 802.1Q tag.
    pub const VLAN: Self = Self(0x8100);
    /// An IEEE 802.1ad tag, in front of an IEEE 802.1Q tag.
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);

    /// Whether the field is an IEEE 802.3 length and not a protocol (RFC 894: below 0x0600).
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("IPv4"),
            Self::ARP => f.write_str("ARP"),
            Self::VLAN => f.write_str("VLAN"),
            Self::IPV6 => f.write_str("IPv6"),
            Self(other) => write!(f, "0x{other:04x}"),
        }
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The station or group the frame is for.
    pub dst: MacAddr,
    /// The station that sent it.
    pub src: MacAddr,
    /// What the payload is.
    pub ethertype: EtherType,
}

/// Why a frame has no usable Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// A runt: fewer than 14 bytes.
    Truncated,
}

impl Header {
    /// Reads the header; the payload begins at the returned offset (always 14).
    ///
    /// # Errors
    /// `Truncated` for a runt.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let header = Self {
            dst: MacAddr([b[0], b[1], b[2], b[3], b[4], b[5]]),
            src: MacAddr([b[6], b[7], b[8], b[9], b[10], b[11]]),
            ethertype: EtherType(u16::from_be_bytes([b[12], b[13]])),
        };
        Ok((header, HEADER_LEN))
    }

    /// Writes the header; `None` (nothing written) when `out` is shorter than 14 bytes.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let Self {
            dst,
            src,
            ethertype,
        } = self;
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        b[0..6].copy_from_slice(&dst.0);
        b[6..12].copy_from_slice(&src.0);
        b[12..14].copy_from_slice(&ethertype.0.to_be_bytes());
        Some(HEADER_LEN)
    }
}
