//! IPv4 (RFC 791). Options are walked safely, reported and otherwise ignored; they are never
//! written or
//! reflected. Address policy (own, broadcast, LAND) and reassembly belong to the stack.

use crate::checksum;
use core::fmt;
use core::net::Ipv4Addr;

/// Bytes in a header without options, the only kind that we send.
pub const HEADER_LEN: usize = 20;

/// Bytes in a header with a router alert option.
pub const ROUTER_ALERT_HEADER_LEN: usize = 24;

/// Bytes in the longest possible header.
pub const MAX_HEADER_LEN: usize = 60;

/// The protocol number of an IP payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options (RFC 8200 section 4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP (RFC 792).
    pub const ICMP: Self = Self(1);
    /// IGMP (RFC 3376).
    pub const IGMP: Self = Self(2);
    /// TCP (RFC 9293).
    pub const TCP: Self = Self(6);
    /// UDP (RFC 768).
    pub const UDP: Self = Self(17);
    /// IPv6 routing header (RFC 8200 section 4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header (RFC 8200 section 4.5).
    pub const FRAGMENT: Self = Self(44);
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: Self = Self(58);
    /// Nothing follows (RFC 8200 section 4.7).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options (RFC 8200 section 4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
}

impl fmt::Debug for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ICMP => f.write_str("ICMP"),
            Self::IGMP => f.write_str("IGMP"),
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::ICMPV6 => f.write_str("ICMPv6"),
            Self(other) => write!(f, "protocol {other}"),
        }
    }
}

/// An IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Type of service: DSCP in the upper six bits, ECN (RFC 3168) in the lower two.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: u16,
    /// Identification, for reassembly.
    pub ident: u16,
    /// The flag bit that RFC 791 reserves as zero. A packet that has it set is odd but legal to
    /// receive.
    pub reserved_flag: bool,
    /// DF.
    pub dont_fragment: bool,
    /// MF.
    pub more_fragments: bool,
    /// Where this fragment's payload belongs, in units of 8 bytes (13 bits).
    pub fragment_offset: u16,
    /// Time to live, hops.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: IpProtocol,
    /// Source.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
    /// What was found among the options. Not written by `emit`.
    pub options: OptionReport,
}

/// What the options of a received header contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OptionReport {
    /// A loose or strict source route (RFC 791 section 3.1), well-formed or not. RFC 7126 section
    /// 4.3:
    /// drop such packets by default.
    pub source_route: bool,
    /// More than one source route, which RFC 1122 section 3.2.1.8 forbids.
    pub repeated_source_route: bool,
    /// A length of 0 or 1, one beyond the header, or a route pointer that is impossible. What
    /// follows
    /// was not looked at.
    pub malformed: bool,
}

/// Why bytes are not an IPv4 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer bytes than the header says it has, or than any header has.
    Truncated,
    /// Not version 4.
    BadVersion,
    /// IHL below 5 words.
    BadHeaderLength,
    /// The total length is below the header length or beyond the frame.
    BadTotalLength,
    /// The header checksum is wrong.
    BadChecksum,
}

impl Header {
    /// Reads a header and verifies its checksum; `bytes` is the whole frame payload, padding
    /// included.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        Self::parse_split(bytes, bytes.len())
    }

    /// Reads a header at the start of `bytes` and verifies its checksum, where the frame has
    /// `available` bytes from the start of this header, perhaps elsewhere. Bytes beyond `total_len`
    /// are padding.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse_split(bytes: &[u8], available: usize) -> Result<(Self, usize), ParseError> {
        let (header, header_len) = Self::parse_unverified(bytes, available)?;
        let covered = bytes.get(..header_len).ok_or(ParseError::Truncated)?;

        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.2
        //# A host MUST verify the IP header checksum on every received
        //# datagram and silently discard every datagram that has a bad
        //# checksum.
        if checksum::sum(covered).finish() != 0 {
            return Err(ParseError::BadChecksum);
        }
        Ok((header, header_len))
    }

    /// As [`Header::parse_split`] without looking at the checksum: for a link that vouches for it.
    ///
    /// # Errors
    /// See [`ParseError`]; never `BadChecksum`.
    #[inline]
    pub fn parse_unverified(bytes: &[u8], available: usize) -> Result<(Self, usize), ParseError> {
        let (header, header_len) = Self::parse_fixed(bytes)?;
        let total_len = usize::from(header.total_len);
        if total_len < header_len || total_len > available {
            return Err(ParseError::BadTotalLength);
        }
        Ok((header, header_len))
    }

    /// Version and header length only: neither total length nor checksum are believed or checked.
    /// For packets quoted in ICMP errors, which are cut and whose fields routers have changed.
    ///
    /// # Errors
    /// `Truncated`, `BadVersion`, `BadHeaderLength`.
    #[inline]
    pub(crate) fn parse_fixed(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;

        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.1
        //# A datagram whose version number is not 4 MUST be silently
        //# discarded.
        if b[0] >> 4 != 4 {
            return Err(ParseError::BadVersion);
        }
        let header_len = usize::from(b[0] & 0xf) * 4;
        if header_len < HEADER_LEN {
            return Err(ParseError::BadHeaderLength);
        }
        let options = bytes
            .get(HEADER_LEN..header_len)
            .ok_or(ParseError::Truncated)?;
        let fragment = u16::from_be_bytes([b[6], b[7]]);
        let header = Self {
            tos: b[1],
            total_len: u16::from_be_bytes([b[2], b[3]]),
            ident: u16::from_be_bytes([b[4], b[5]]),
            reserved_flag: fragment & 0x8000 != 0,
            dont_fragment: fragment & 0x4000 != 0,
            more_fragments: fragment & 0x2000 != 0,
            fragment_offset: fragment & 0x1fff,
            ttl: b[8],
            protocol: IpProtocol(b[9]),
            src: Ipv4Addr::new(b[12], b[13], b[14], b[15]),
            dst: Ipv4Addr::new(b[16], b[17], b[18], b[19]),
            options: match options {
                [] => OptionReport::default(),
                _ => OptionReport::parse(options),
            },
        };
        Ok((header, header_len))
    }

    /// Writes a header without options and with its checksum; `None` (nothing written) when `out`
    /// is
    /// shorter than 20 bytes. `fragment_offset` is cut to 13 bits.
    #[must_use]
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.1
    //# Bit 0: reserved, must be zero Bit 1: (DF) 0 = May Fragment, 1 = Don't Fragment.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        let fragment = u16::from(self.reserved_flag) << 15
            | u16::from(self.dont_fragment) << 14
            | u16::from(self.more_fragments) << 13
            | self.fragment_offset & 0x1fff;
        b[0] = 0x45;
        b[1] = self.tos;
        b[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        b[4..6].copy_from_slice(&self.ident.to_be_bytes());
        b[6..8].copy_from_slice(&fragment.to_be_bytes());
        b[8] = self.ttl;
        b[9] = self.protocol.0;
        b[10..12].copy_from_slice(&[0, 0]);
        b[12..16].copy_from_slice(&self.src.octets());
        b[16..20].copy_from_slice(&self.dst.octets());
        let checksum = checksum::sum(b).finish();
        b[10..12].copy_from_slice(&checksum.to_be_bytes());
        Some(HEADER_LEN)
    }

    /// As [`Header::emit`] with a router alert option (RFC 2113) in front of the payload, the only
    /// option that we ever send: every IGMP message carries it. 24 bytes.
    #[must_use]
    pub fn emit_with_router_alert(&self, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<ROUTER_ALERT_HEADER_LEN>()?;
        self.emit(b)?;
        b[0] = 0x46;
        b[HEADER_LEN..].copy_from_slice(&[148, 4, 0, 0]);
        b[10..12].copy_from_slice(&[0, 0]);
        let checksum = checksum::sum(b).finish();
        b[10..12].copy_from_slice(&checksum.to_be_bytes());
        Some(ROUTER_ALERT_HEADER_LEN)
    }

    /// Whether this is a piece of a larger datagram.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Bytes of payload after a header of `header_len` bytes; 0 when the lengths contradict.
    pub const fn payload_len(&self, header_len: usize) -> usize {
        (self.total_len as usize).saturating_sub(header_len)
    }
}

impl OptionReport {
    /// Whether the packet had no option worth mentioning.
    pub const fn is_clean(&self) -> bool {
        !self.source_route && !self.repeated_source_route && !self.malformed
    }

    //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
    //# That is, the presence or absence of an option is the choice of the sender, but each internet
    //# module must be able to parse every option.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.1
    //# They must be implemented by all IP modules (host and gateways).
    fn parse(mut options: &[u8]) -> Self {
        const END: u8 = 0;
        const NO_OPERATION: u8 = 1;
        const RECORD_ROUTE: u8 = 7;
        const LOOSE_SOURCE_ROUTE: u8 = 131;
        const STRICT_SOURCE_ROUTE: u8 = 137;
        let mut report = Self::default();
        // Each turn takes at least one byte, so at most 40 turns.
        while let [kind, rest @ ..] = options {
            match *kind {
                END => break,
                NO_OPERATION => {
                    options = rest;
                    continue;
                }
                _ => {}
            }
            let len = rest.first().map_or(0, |len| usize::from(*len));
            let Some((option, after)) = options.split_at_checked(len).filter(|_| len >= 2) else {
                report.malformed = true;
                break;
            };
            if matches!(*kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) {
                report.repeated_source_route |= report.source_route;
                report.source_route = true;
            }
            if matches!(
                *kind,
                RECORD_ROUTE | LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE
            ) {
                report.malformed |= !route_is_sound(option);
            }
            options = after;
        }
        report
    }
}

/// RFC 791 section 3.1: the pointer counts from the option's first byte as 1, so the smallest is 4,
/// it
/// moves in fours, and one past the data means that the route is full.
fn route_is_sound(option: &[u8]) -> bool {
    let len = option.len();
    let pointer = option.get(2).map_or(0, |pointer| usize::from(*pointer));
    len >= 3 && len % 4 == 3 && pointer >= 4 && pointer.is_multiple_of(4) && pointer <= len + 1
}
