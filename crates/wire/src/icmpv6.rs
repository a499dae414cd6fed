//! ICMP for IPv6 (RFC 4443). The first 8 bytes are a [`Message`]; what follows is the payload: echo
//! data, or in an error the packet that it is about (see [`Quoted`]). Neighbour discovery is in
//! [`nd`](crate::nd), multicast listener discovery in [`mld`](crate::mld): their messages are
//! `Other` here.

use crate::checksum::{self, Sum};
use crate::extension::Chain;
use crate::{IpProtocol, ipv6};
use core::net::Ipv6Addr;

/// Bytes before the payload, for every type that we know.
pub const HEADER_LEN: usize = 8;

/// Offset of the checksum field.
pub const CHECKSUM_OFFSET: usize = 2;

/// The first eight bytes of an ICMPv6 message, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Type 128.
    EchoRequest {
        /// Identifier, to match replies.
        ident: u16,
        /// Sequence number, to match replies.
        seq: u16,
    },
    /// Type 129.
    EchoReply {
        /// From the request.
        ident: u16,
        /// From the request.
        seq: u16,
    },
    /// Type 1.
    DestinationUnreachable {
        /// What could not be reached.
        code: Unreachable,
    },
    /// Type 2.
    PacketTooBig {
        /// The next hop's MTU in bytes, as it came: below 1280 is no MTU that a link may have.
        mtu: u32,
    },
    /// Type 3.
    TimeExceeded {
        /// 0: the hop limit ran out in transit; 1: while fragments were awaited.
        code: u8,
    },
    /// Type 4.
    ParameterProblem {
        /// What is wrong.
        code: Problem,
        /// The offset in the quoted packet of what is wrong.
        pointer: u32,
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
    /// No route to destination.
    pub const NO_ROUTE: Self = Self(0);
    /// Forbidden by an administrator.
    pub const PROHIBITED: Self = Self(1);
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: Self = Self(2);
    /// Address unreachable.
    pub const ADDRESS: Self = Self(3);
    /// Nobody listens at the port.
    pub const PORT: Self = Self(4);
    /// The source address failed ingress or egress policy.
    pub const POLICY: Self = Self(5);
    /// Reject route.
    pub const REJECT: Self = Self(6);
}

/// The code of a Parameter Problem message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Problem(pub u8);

impl Problem {
    /// Erroneous header field.
    pub const HEADER_FIELD: Self = Self(0);
    /// Unrecognised next header type.
    pub const NEXT_HEADER: Self = Self(1);
    /// Unrecognised IPv6 option.
    pub const OPTION: Self = Self(2);
    /// The first fragment has an incomplete header chain (RFC 7112).
    pub const INCOMPLETE_CHAIN: Self = Self(3);
}

/// Why bytes are not an ICMPv6 message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 8 bytes (ICMPv6 has no message below 8 that we know).
    Truncated,
    /// The checksum over pseudo header and message is wrong.
    BadChecksum,
}

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

impl Message {
    /// Reads a message that lies in one piece and verifies its checksum; `bytes` is the whole
    /// payload behind the extension headers, and the addresses are those of the IPv6 header. The
    /// payload begins at the returned offset (always 8).
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<(Self, usize), ParseError> {
        let parsed = Self::parse_unverified(bytes)?;
        if pseudo(src, dst, bytes.len())
            .combine(checksum::sum(bytes), false)
            .finish()
            != 0
        {
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
        let ident = u16::from_be_bytes([b[4], b[5]]);
        let seq = u16::from_be_bytes([b[6], b[7]]);
        let word = u32::from_be_bytes([b[4], b[5], b[6], b[7]]);
        let message = match kind {
            ECHO_REQUEST if code == 0 => Self::EchoRequest { ident, seq },
            ECHO_REPLY if code == 0 => Self::EchoReply { ident, seq },
            DESTINATION_UNREACHABLE => Self::DestinationUnreachable {
                code: Unreachable(code),
            },
            // RFC 4443 section 3.2: the code is 0 and the receiver ignores it.
            PACKET_TOO_BIG => Self::PacketTooBig { mtu: word },
            TIME_EXCEEDED => Self::TimeExceeded { code },
            PARAMETER_PROBLEM => Self::ParameterProblem {
                code: Problem(code),
                pointer: word,
            },
            _ => Self::Other {
                kind,
                code,
                rest: [b[4], b[5], b[6], b[7]],
            },
        };
        Ok((message, HEADER_LEN))
    }

    /// Writes the first 8 bytes with the checksum of the message, where `rest` is the sum of the
    /// [`pseudo`] header and of what follows these 8 bytes; `None` (nothing written) when `out` is
    /// shorter than 8 bytes.
    #[must_use]
    pub fn emit(&self, rest: Sum, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        let (kind, code, word) = self.fields();
        b[0] = kind;
        b[1] = code;
        b[2..4].copy_from_slice(&[0, 0]);
        b[4..8].copy_from_slice(&word);
        let checksum = checksum::sum(b).combine(rest, false).finish();
        b[2..4].copy_from_slice(&checksum.to_be_bytes());
        Some(HEADER_LEN)
    }

    /// Whether this is an error message (RFC 4443 section 2.1: types below 128): one is never
    /// answered with another.
    pub const fn is_error(&self) -> bool {
        match self {
            Self::DestinationUnreachable { .. }
            | Self::PacketTooBig { .. }
            | Self::TimeExceeded { .. }
            | Self::ParameterProblem { .. } => true,
            Self::EchoRequest { .. } | Self::EchoReply { .. } => false,
            Self::Other { kind, .. } => *kind < 128,
        }
    }

    fn fields(&self) -> (u8, u8, [u8; 4]) {
        let pair = |upper: u16, lower: u16| {
            let ([a, b], [c, d]) = (upper.to_be_bytes(), lower.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Self::EchoRequest { ident, seq } => (ECHO_REQUEST, 0, pair(ident, seq)),
            Self::EchoReply { ident, seq } => (ECHO_REPLY, 0, pair(ident, seq)),
            Self::DestinationUnreachable { code } => (DESTINATION_UNREACHABLE, code.0, [0; 4]),
            Self::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code.0, pointer.to_be_bytes())
            }
            Self::Other { kind, code, rest } => (kind, code, rest),
        }
    }
}

/// The sum of the pseudo header of an ICMPv6 message of `len` bytes (RFC 4443 section 2.3).
pub fn pseudo(src: Ipv6Addr, dst: Ipv6Addr, len: usize) -> Sum {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    checksum::pseudo_v6(src, dst, IpProtocol::ICMPV6, len)
}

/// Writes the checksum into a whole message that lies in one piece; `None` (nothing written) when
/// it has no room for one.
#[must_use]
pub fn set_checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &mut [u8]) -> Option<()> {
    let end = CHECKSUM_OFFSET + 2;
    message.get_mut(CHECKSUM_OFFSET..end)?.fill(0);
    let checksum = pseudo(src, dst, message.len())
        .combine(checksum::sum(message), false)
        .finish();
    let field = message.get_mut(CHECKSUM_OFFSET..end)?;
    field.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// The packet that an ICMPv6 error is about, as far as it was quoted: the IPv6 header, its
/// extension headers, and at least 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quoted {
    /// The IPv6 header that the host sent. Its payload length is not verified: the packet is cut.
    pub ip: ipv6::Header,
    /// What the payload is, behind the extension headers.
    pub protocol: IpProtocol,
    /// The first 8 bytes of the payload.
    pub transport: [u8; 8],
}

/// Why an ICMPv6 error quotes nothing that we can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuoteError {
    /// The quoted IPv6 header is cut short or bad.
    BadIpHeader,
    /// An extension header of the quoted packet is cut short or bad.
    BadChain,
    /// Fewer than 8 bytes of payload are quoted.
    Truncated,
    /// The quoted packet is a fragment other than the first, so no ports are in it.
    LaterFragment,
}

impl Quoted {
    /// Reads the payload of an ICMPv6 error.
    ///
    /// # Errors
    /// See [`QuoteError`].
    pub fn parse(payload: &[u8]) -> Result<Self, QuoteError> {
        let (ip, _) = ipv6::Header::parse_fixed(payload).map_err(|_| QuoteError::BadIpHeader)?;
        let chain = Chain::parse(payload).map_err(|_| QuoteError::BadChain)?;
        if chain.fragment.is_some_and(|fragment| fragment.offset != 0) {
            return Err(QuoteError::LaterFragment);
        }
        let rest = payload
            .get(chain.payload_at..)
            .ok_or(QuoteError::Truncated)?;
        let transport = *rest.first_chunk::<8>().ok_or(QuoteError::Truncated)?;
        Ok(Self {
            ip,
            protocol: chain.protocol,
            transport,
        })
    }

    /// Source and destination port, when the quoted packet is TCP or UDP; `None` for a protocol
    /// that we do not know.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let [a, b, c, d, ..] = self.transport;
        match self.protocol {
            IpProtocol::TCP | IpProtocol::UDP => {
                Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
            }
            _ => None,
        }
    }

    /// The sequence number, when the quoted packet is TCP (RFC 5927 section 4.1 checks it).
    pub fn tcp_seq(&self) -> Option<u32> {
        let [.., a, b, c, d] = self.transport;
        (self.protocol == IpProtocol::TCP).then_some(u32::from_be_bytes([a, b, c, d]))
    }
}
