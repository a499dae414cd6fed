//! IPv6 (RFC 8200): the fixed header. Extension headers are walked by
//! [`extension`](crate::extension). Address policy (own, multicast, v4-mapped) and reassembly
//! belong to the stack.
//!
//! ```text
//! |version 4|traffic class 8|flow label 20|
//! |payload length 16|next header 8|hop limit 8|
//! |source 128|
//! |destination 128|
//! ```

use crate::IpProtocol;
use core::net::Ipv6Addr;

/// Bytes in the fixed header.
pub const HEADER_LEN: usize = 40;

/// The smallest MTU that a link may have (RFC 8200 section 5), in bytes.
pub const MIN_MTU: u16 = 1280;

/// The fixed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Traffic class: DSCP in the upper six bits, ECN (RFC 3168) in the lower two.
    pub traffic_class: u8,
    /// Flow label (20 bits; RFC 6437), 0 when the sender made none.
    pub flow_label: u32,
    /// Bytes after this header, extension headers included.
    pub payload_len: u16,
    /// What follows this header: an extension header or the payload.
    pub next_header: IpProtocol,
    /// Hops left.
    pub hop_limit: u8,
    /// Source.
    pub src: Ipv6Addr,
    /// Destination.
    pub dst: Ipv6Addr,
}

/// Why bytes are not an IPv6 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 40 bytes.
    Truncated,
    /// Not version 6.
    BadVersion,
    /// The payload length is beyond the frame.
    BadPayloadLength,
}

impl Header {
    /// Reads the header; `bytes` is the whole frame payload, padding included.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        Self::parse_split(bytes, bytes.len())
    }

    /// Reads the header at the start of `bytes`, where the frame has `available` bytes from the
    /// start of this header, perhaps elsewhere. A payload length of 0 means no payload: jumbograms
    /// (RFC 2675) are not known, and their option is an unknown one that discards.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse_split(bytes: &[u8], available: usize) -> Result<(Self, usize), ParseError> {
        let (header, header_len) = Self::parse_fixed(bytes)?;
        if available.saturating_sub(header_len) < usize::from(header.payload_len) {
            return Err(ParseError::BadPayloadLength);
        }
        Ok((header, header_len))
    }

    /// Version and fields only; the payload length is not believed or checked. For packets quoted
    /// in ICMPv6 errors, which are cut.
    ///
    /// # Errors
    /// `Truncated`, `BadVersion`.
    pub(crate) fn parse_fixed(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let word = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        if word >> 28 != 6 {
            return Err(ParseError::BadVersion);
        }
        let header = Self {
            traffic_class: (word >> 20) as u8,
            flow_label: word & FLOW_LABEL,
            payload_len: u16::from_be_bytes([b[4], b[5]]),
            next_header: IpProtocol(b[6]),
            hop_limit: b[7],
            src: address_at(b, 8),
            dst: address_at(b, 24),
        };
        Ok((header, HEADER_LEN))
    }

    /// Writes the header; `None` (nothing written) when `out` is shorter than 40 bytes.
    /// `flow_label` is cut to 20 bits.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let Self {
            traffic_class,
            flow_label,
            payload_len,
            next_header,
            hop_limit,
            src,
            dst,
        } = self;
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        let word = 6 << 28 | u32::from(*traffic_class) << 20 | flow_label & FLOW_LABEL;
        b[0..4].copy_from_slice(&word.to_be_bytes());
        b[4..6].copy_from_slice(&payload_len.to_be_bytes());
        b[6] = next_header.0;
        b[7] = *hop_limit;
        b[8..24].copy_from_slice(&src.octets());
        b[24..40].copy_from_slice(&dst.octets());
        Some(HEADER_LEN)
    }
}

const FLOW_LABEL: u32 = 0x000f_ffff;

/// The address that begins at `at`; the unspecified address when the bytes do not reach so far.
pub(crate) fn address_at(bytes: &[u8], at: usize) -> Ipv6Addr {
    let octets = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>());
    octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets))
}
