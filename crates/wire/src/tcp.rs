//! The TCP header (RFC 9293 section 3.1). Numbers are raw here; their arithmetic lives in `stack`.
//! The
//! checksum is the caller's to verify and to fill in, since the payload may be elsewhere.

use bitflags::bitflags;

pub use crate::tcp_options::{
    FastOpenCookie, MAX_OPTIONS_LEN, MAX_SACK_BLOCKS, Options, SackBlocks, UserTimeout,
};
pub use crate::tcp_options::{TIMESTAMPS_ONLY_LEN, emit_timestamps_only, parse_timestamps_only};

/// Bytes in a header without options.
pub const HEADER_LEN: usize = 20;

/// Bytes in the longest possible header.
pub const MAX_HEADER_LEN: usize = HEADER_LEN + MAX_OPTIONS_LEN;

/// Offset of the checksum field in the header.
pub const CHECKSUM_OFFSET: usize = 16;

bitflags! {
    /// The control bits, as in byte 13 of the header.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u8 {
        /// No more data from sender.
        const FIN = 0x01;
        /// Synchronize sequence numbers.
        const SYN = 0x02;
        /// Reset the connection.
        const RST = 0x04;
        /// Push function.
        const PSH = 0x08;
        /// Acknowledgment field is significant.
        const ACK = 0x10;
        /// Urgent pointer field is significant.
        const URG = 0x20;
        /// ECN-Echo (RFC 3168).
        const ECE = 0x40;
        /// Congestion window reduced (RFC 3168).
        const CWR = 0x80;
    }
}

/// A TCP header without its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender's port.
    pub src_port: u16,
    /// The receiver's port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK; meaningful with [`Flags::ACK`].
    pub ack: u32,
    /// The four reserved bits (0 to 15), kept as they came; send 0.
    pub reserved: u8,
    /// Control bits.
    pub flags: Flags,
    /// SEG.WND as on the wire, not scaled.
    pub window: u16,
    /// The checksum as on the wire.
    pub checksum: u16,
    /// SEG.UP; meaningful with [`Flags::URG`].
    pub urgent: u16,
}

/// Why bytes are not a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 20 bytes.
    Truncated,
    /// The data offset is below 5 words or beyond the bytes given.
    BadDataOffset,
}

impl Header {
    /// Reads a header; the data begins at the returned offset, and the options lie between 20 and
    /// that
    /// offset (see [`options`]). `bytes` holds at least the whole header; data may follow or be
    /// elsewhere.
    /// Zero ports are for the caller to refuse.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let header_len = usize::from(b[12] >> 4) * 4;
        if header_len < HEADER_LEN || header_len > bytes.len() {
            return Err(ParseError::BadDataOffset);
        }
        let header = Self {
            src_port: u16::from_be_bytes([b[0], b[1]]),
            dst_port: u16::from_be_bytes([b[2], b[3]]),
            seq: u32::from_be_bytes([b[4], b[5], b[6], b[7]]),
            ack: u32::from_be_bytes([b[8], b[9], b[10], b[11]]),
            reserved: b[12] & 0xf,
            flags: Flags::from_bits_retain(b[13]),
            window: u16::from_be_bytes([b[14], b[15]]),
            checksum: u16::from_be_bytes([b[16], b[17]]),
            urgent: u16::from_be_bytes([b[18], b[19]]),
        };
        Ok((header, header_len))
    }

    /// Writes the header and its options and returns their length, a multiple of 4; `None` (nothing
    /// written) when `out` is too short. The checksum field is written as it stands in `self`.
    #[must_use]
    pub fn emit(&self, options: &Options, out: &mut [u8]) -> Option<usize> {
        let options_len = options.encoded_len();
        let (fixed, rest) = out.split_first_chunk_mut::<HEADER_LEN>()?;
        options.emit(rest.get_mut(..options_len)?)?;
        self.emit_fixed(options_len, fixed);
        Some(HEADER_LEN + options_len)
    }

    /// Writes the fixed part, with a data offset for `options_len` bytes of options (a multiple of
    /// 4, at
    /// most 40) that the caller writes.
    pub fn emit_fixed(&self, options_len: usize, b: &mut [u8; HEADER_LEN]) {
        let Self {
            src_port,
            dst_port,
            seq,
            ack,
            reserved,
            flags,
            window,
            checksum,
            urgent,
        } = self;
        let words = (HEADER_LEN + options_len.min(MAX_OPTIONS_LEN)).div_ceil(4) as u8;
        b[0..2].copy_from_slice(&src_port.to_be_bytes());
        b[2..4].copy_from_slice(&dst_port.to_be_bytes());
        b[4..8].copy_from_slice(&seq.to_be_bytes());
        b[8..12].copy_from_slice(&ack.to_be_bytes());
        b[12] = words << 4 | reserved & 0xf;
        b[13] = flags.bits();
        b[14..16].copy_from_slice(&window.to_be_bytes());
        b[16..18].copy_from_slice(&checksum.to_be_bytes());
        b[18..20].copy_from_slice(&urgent.to_be_bytes());
    }
}

/// The option bytes of a segment whose header is `header_len` bytes long (as [`Header::parse`]
/// said);
/// empty when there are none.
pub fn options(bytes: &[u8], header_len: usize) -> &[u8] {
    bytes.get(HEADER_LEN..header_len).unwrap_or_default()
}

/// Overwrites the checksum field of an emitted header; `None` when `header` is too short to have
/// one.
pub fn set_checksum(header: &mut [u8], checksum: u16) -> Option<()> {
    let field = header.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2)?;
    field.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}
