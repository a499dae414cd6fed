//! UDP (RFC 768). The checksum is the caller's to verify (the payload may be elsewhere): sum pseudo
//! header, header and
//! payload; a datagram with its correct checksum finishes as 0.

use crate::checksum::Sum;

/// Bytes in a UDP header.
pub const HEADER_LEN: usize = 8;

/// Offset of the checksum field in the header.
pub const CHECKSUM_OFFSET: usize = 6;

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender's port; 0 when it wants no answer.
    pub src_port: u16,
    /// The receiver's port.
    pub dst_port: u16,
    /// Bytes of header and data.
    pub length: u16,
    /// The checksum as on the wire; see [`Header::has_checksum`].
    pub checksum: u16,
}

/// Why bytes are not a UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 8 bytes.
    Truncated,
    /// The length field is below 8 or beyond the IP payload.
    BadLength,
}

impl Header {
    /// Reads the header of a datagram that lies in one piece; `bytes` is the whole IP payload.
    ///
    /// # Errors
    /// As [`Header::parse_split`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        Self::parse_split(bytes, bytes.len())
    }

    /// Reads the header at the start of `bytes`, where the IP payload has `available` bytes,
    /// perhaps elsewhere.
    /// IP payload beyond `length` is padding and not part of the datagram.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes; `BadLength` when the length field is below 8 or above
    /// `available`.
    pub fn parse_split(bytes: &[u8], available: usize) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let header = Self {
            src_port: u16::from_be_bytes([b[0], b[1]]),
            dst_port: u16::from_be_bytes([b[2], b[3]]),
            length: u16::from_be_bytes([b[4], b[5]]),
            checksum: u16::from_be_bytes([b[6], b[7]]),
        };
        let length = usize::from(header.length);
        if length < HEADER_LEN || length > available {
            return Err(ParseError::BadLength);
        }
        Ok((header, HEADER_LEN))
    }

    /// Writes the header; `None` (nothing written) when `out` is shorter than 8 bytes.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let Self {
            src_port,
            dst_port,
            length,
            checksum,
        } = self;
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        b[0..2].copy_from_slice(&src_port.to_be_bytes());
        b[2..4].copy_from_slice(&dst_port.to_be_bytes());
        b[4..6].copy_from_slice(&length.to_be_bytes());
        b[6..8].copy_from_slice(&checksum.to_be_bytes());
        Some(HEADER_LEN)
    }

    /// The header's own share of the checksum, its checksum field counted as it stands.
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::new();
        sum.add_u16(self.src_port);
        sum.add_u16(self.dst_port);
        sum.add_u16(self.length);
        sum.add_u16(self.checksum);
        sum
    }

    //= https://www.rfc-editor.org/rfc/rfc768
    //# An all zero transmitted checksum value means that the transmitter generated no checksum (for
    //# debugging or for
    //# higher level protocols that don't care).
    /// Whether the sender computed a checksum at all.
    pub const fn has_checksum(&self) -> bool {
        self.checksum != 0
    }
}

//= https://www.rfc-editor.org/rfc/rfc768
//# If the computed checksum is zero, it is transmitted as all ones (the equivalent in one's
//# complement arithmetic).
/// The value for the checksum field, where `sum` covers pseudo header, header (checksum field zero)
/// and data.
#[must_use]
//= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
//# That is, whenever originating a UDP packet, an IPv6 node must compute a UDP checksum over the
//# packet and the pseudo-header, and, if that computation yields a result of zero, it must be
//# changed to hex FFFF for placement in the UDP header.
pub const fn checksum_to_send(sum: Sum) -> u16 {
    match sum.finish() {
        0 => 0xffff,
        checksum => checksum,
    }
}
