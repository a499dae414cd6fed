//! ICMP for IPv4 (RFC 792, RFC 1191 for "fragmentation needed"). The first 8 bytes are a `Message`;
//! what
//! follows is the payload: echo data, or in an error the packet that it is about (see [`Quoted`]).

use crate::checksum::{self, Sum};
use crate::{IpProtocol, ipv4};

/// Bytes before the payload, for every type that we know.
pub const HEADER_LEN: usize = 8;

/// The first eight bytes of an ICMP message, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Type 8.
    EchoRequest {
        /// Identifier, to match replies.
        ident: u16,
        /// Sequence number, to match replies.
        seq: u16,
    },
    /// Type 0.
    EchoReply {
        /// From the request.
        ident: u16,
        /// From the request.
        seq: u16,
    },
    /// Type 3.
    DestinationUnreachable {
        /// What could not be reached.
        code: Unreachable,
        /// For [`Unreachable::FRAGMENTATION_NEEDED`] the next hop's MTU in bytes, 0 from routers
        /// older
        /// than RFC 1191; 0 for all other codes.
        next_hop_mtu: u16,
    },
    /// Type 11.
    TimeExceeded {
        /// 0: time to live ran out in transit; 1: while fragments were awaited.
        code: u8,
    },
    /// Type 12.
    ParameterProblem {
        /// 0: the pointer says where; others RFC 1122 section 3.2.2.5.
        code: u8,
        /// The offset in the quoted packet of the byte that was wrong.
        pointer: u8,
    },
    /// Any other type, kept as it came.
    Other {
        /// The type field.
        kind: u8,
        /// The code field.
        code: u8,
        /// Bytes 4 to 7.
        rest: [u8; 4],
    },
}

/// The code of a Destination Unreachable message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Unreachable(pub u8);

impl Unreachable {
    /// Network unreachable.
    pub const NETWORK: Self = Self(0);
    /// Host unreachable.
    pub const HOST: Self = Self(1);
    /// No such protocol at the host.
    pub const PROTOCOL: Self = Self(2);
    /// Nobody listens at the port.
    pub const PORT: Self = Self(3);
    /// Too large for the next hop and must not be fragmented (RFC 1191).
    pub const FRAGMENTATION_NEEDED: Self = Self(4);
    /// A source route failed.
    pub const SOURCE_ROUTE_FAILED: Self = Self(5);
    /// Forbidden by an administrator (RFC 1812 section 5.2.7.1).
    pub const PROHIBITED: Self = Self(13);
}

/// Why bytes are not an ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 8 bytes.
    Truncated,
    /// The checksum over the message is wrong.
    BadChecksum,
}

const ECHO_REPLY: u8 = 0;
const DESTINATION_UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

impl Message {
    /// Reads a message that lies in one piece and verifies its checksum; `bytes` is the IP payload
    /// without padding. The payload begins at the returned offset (always 8).
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let parsed = Self::parse_unverified(bytes)?;
        if checksum::sum(bytes).finish() != 0 {
            return Err(ParseError::BadChecksum);
        }
        Ok(parsed)
    }

    /// Reads the first 8 bytes; the checksum, which covers the payload too, is left to the caller.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes.
    pub fn parse_unverified(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let (kind, code) = (b[0], b[1]);
        let upper = u16::from_be_bytes([b[4], b[5]]);
        let lower = u16::from_be_bytes([b[6], b[7]]);
        let message = match kind {
            // RFC 792: the code of an echo is 0. One that is not falls through to `Other`.
            ECHO_REQUEST if code == 0 => Self::EchoRequest {
                ident: upper,
                seq: lower,
            },
            ECHO_REPLY if code == 0 => Self::EchoReply {
                ident: upper,
                seq: lower,
            },
            DESTINATION_UNREACHABLE => {
                let code = Unreachable(code);
                let needs_mtu = code == Unreachable::FRAGMENTATION_NEEDED;
                let next_hop_mtu = if needs_mtu { lower } else { 0 };
                Self::DestinationUnreachable { code, next_hop_mtu }
            }
            TIME_EXCEEDED => Self::TimeExceeded { code },
            PARAMETER_PROBLEM => Self::ParameterProblem {
                code,
                pointer: b[4],
            },
            _ => Self::Other {
                kind,
                code,
                rest: [b[4], b[5], b[6], b[7]],
            },
        };
        Ok((message, HEADER_LEN))
    }

    /// Writes the first 8 bytes with the checksum of the message, where `payload` is the sum of
    /// what
    /// follows; `None` (nothing written) when `out` is shorter than 8 bytes.
    #[must_use]
    pub fn emit(&self, payload: Sum, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        let (kind, code, rest) = self.fields();
        b[0] = kind;
        b[1] = code;
        b[2..4].copy_from_slice(&[0, 0]);
        b[4..8].copy_from_slice(&rest);
        let checksum = checksum::sum(b).combine(payload, false).finish();
        b[2..4].copy_from_slice(&checksum.to_be_bytes());
        Some(HEADER_LEN)
    }

    /// Whether this is an error message: RFC 1122 section 3.2.2 forbids answering one with another.
    pub const fn is_error(&self) -> bool {
        match self {
            Self::DestinationUnreachable { .. }
            | Self::TimeExceeded { .. }
            | Self::ParameterProblem { .. } => true,
            Self::EchoRequest { .. } | Self::EchoReply { .. } => false,
            // Source quench and redirect.
            Self::Other { kind, .. } => matches!(kind, 4 | 5),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc792
    //# Any field labeled "unused" is reserved for later extensions and must be zero when sent, but
    //# receivers should not use these fields (except to include them in the checksum).
    fn fields(&self) -> (u8, u8, [u8; 4]) {
        let pair = |upper: u16, lower: u16| {
            let ([a, b], [c, d]) = (upper.to_be_bytes(), lower.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Self::EchoRequest { ident, seq } => (ECHO_REQUEST, 0, pair(ident, seq)),
            Self::EchoReply { ident, seq } => (ECHO_REPLY, 0, pair(ident, seq)),
            Self::DestinationUnreachable { code, next_hop_mtu } => {
                (DESTINATION_UNREACHABLE, code.0, pair(0, next_hop_mtu))
            }
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
            Self::Other { kind, code, rest } => (kind, code, rest),
        }
    }
}

/// The packet that an ICMP error is about, as far as it was quoted: an IP header and at least 8
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quoted {
    /// The IP header that the host sent. Its lengths and checksum are not verified: the packet is
    /// cut,
    /// and routers change fields.
    pub ip: ipv4::Header,
    /// The first 8 bytes after the header.
    pub transport: [u8; 8],
}

/// Why an ICMP error quotes nothing that we can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuoteError {
    /// The quoted IP header is cut short or bad.
    BadIpHeader,
    /// Fewer than 8 bytes follow the quoted IP header (RFC 792 promises 8).
    Truncated,
    /// The quoted packet is a fragment other than the first, so no ports are in it.
    LaterFragment,
}

impl Quoted {
    /// Reads the payload of an ICMP error.
    ///
    /// # Errors
    /// See [`QuoteError`].
    pub fn parse(payload: &[u8]) -> Result<Self, QuoteError> {
        let (ip, header_len) =
            ipv4::Header::parse_fixed(payload).map_err(|_| QuoteError::BadIpHeader)?;
        if usize::from(ip.total_len) < header_len {
            return Err(QuoteError::BadIpHeader);
        }
        if ip.fragment_offset != 0 {
            return Err(QuoteError::LaterFragment);
        }
        let rest = payload.get(header_len..).ok_or(QuoteError::Truncated)?;
        let transport = *rest.first_chunk::<8>().ok_or(QuoteError::Truncated)?;
        Ok(Self { ip, transport })
    }

    /// Source and destination port, when the quoted packet is TCP or UDP; `None` for a protocol
    /// that we
    /// do not know.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let [a, b, c, d, ..] = self.transport;
        match self.ip.protocol {
            IpProtocol::TCP | IpProtocol::UDP => {
                Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
            }
            _ => None,
        }
    }

    /// The sequence number, when the quoted packet is TCP (RFC 5927 section 4.1 checks it).
    pub fn tcp_seq(&self) -> Option<u32> {
        let [.., a, b, c, d] = self.transport;
        (self.ip.protocol == IpProtocol::TCP).then_some(u32::from_be_bytes([a, b, c, d]))
    }
}
