//! The offload header of packet sockets (`PACKET_VNET_HDR`) and TUN/TAP (`IFF_VNET_HDR`): `struct
//! virtio_net_hdr` of
//! Virtual I/O Device 1.x section 5.1.6, without the later `num_buffers`; 10 bytes, in the
//! machine's own byte order.

use bitflags::bitflags;

/// Bytes in the header.
pub const HEADER_LEN: usize = 10;

bitflags! {
    /// What the checksum fields mean.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Flags: u8 {
        /// VIRTIO_NET_HDR_F_NEEDS_CSUM: sum from `csum_start` to the end and store at `csum_start +
        /// csum_offset`.
        const NEEDS_CSUM = 1;
        /// VIRTIO_NET_HDR_F_DATA_VALID: the checksum was found good; do not look again.
        const DATA_VALID = 2;
        /// Bits without a meaning here are kept.
        const _ = !0;
    }
}

/// How a frame larger than the MTU is to be cut (`gso_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Segmentation {
    /// VIRTIO_NET_HDR_GSO_NONE: an ordinary frame.
    #[default]
    None,
    /// VIRTIO_NET_HDR_GSO_TCPV4: TCP segments over IPv4.
    TcpV4,
    /// VIRTIO_NET_HDR_GSO_UDP: IP fragments of one datagram.
    Udp,
    /// VIRTIO_NET_HDR_GSO_TCPV6: TCP segments over IPv6.
    TcpV6,
    /// VIRTIO_NET_HDR_GSO_UDP_L4: datagrams of `gso_size` bytes.
    UdpL4,
}

const GSO_ECN: u8 = 0x80;

/// The header in front of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// What the checksum fields mean.
    pub flags: Flags,
    /// How to cut the frame.
    pub segmentation: Segmentation,
    /// VIRTIO_NET_HDR_GSO_ECN: the TCP header has CWR set, for the first segment only.
    pub ecn: bool,
    /// Length of all headers of the frame, bytes: a hint.
    pub hdr_len: u16,
    /// Payload bytes per piece.
    pub gso_size: u16,
    /// Where checksumming starts, bytes from the start of the frame.
    pub csum_start: u16,
    /// Where the checksum goes, bytes from `csum_start`.
    pub csum_offset: u16,
}

/// Why bytes are not an offload header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 10 bytes.
    Truncated,
    /// A `gso_type` that we do not know.
    BadSegmentation,
    /// The frame is to be cut into pieces of 0 bytes.
    BadSegmentSize,
    /// The checksum would lie outside the frame.
    BadChecksumField,
}

impl Header {
    /// Reads the header; the frame begins at the returned offset (always 10). The fields are not
    /// yet compared with
    /// the frame: see [`Header::check`].
    ///
    /// # Errors
    /// `Truncated`; `BadSegmentation` for an unknown `gso_type`; `BadSegmentSize` for pieces of 0
    /// bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let segmentation = match b[1] & !GSO_ECN {
            0 => Segmentation::None,
            1 => Segmentation::TcpV4,
            3 => Segmentation::Udp,
            4 => Segmentation::TcpV6,
            5 => Segmentation::UdpL4,
            _ => return Err(ParseError::BadSegmentation),
        };
        let header = Self {
            flags: Flags::from_bits_retain(b[0]),
            segmentation,
            ecn: b[1] & GSO_ECN != 0,
            hdr_len: u16::from_ne_bytes([b[2], b[3]]),
            gso_size: u16::from_ne_bytes([b[4], b[5]]),
            csum_start: u16::from_ne_bytes([b[6], b[7]]),
            csum_offset: u16::from_ne_bytes([b[8], b[9]]),
        };
        if segmentation != Segmentation::None && header.gso_size == 0 {
            return Err(ParseError::BadSegmentSize);
        }
        Ok((header, HEADER_LEN))
    }

    /// Checks that the checksum to be filled in lies inside a frame of `frame_len` bytes (without
    /// this header).
    ///
    /// # Errors
    /// `BadChecksumField` when it does not; always `Ok` without `NEEDS_CSUM`.
    pub fn check(&self, frame_len: usize) -> Result<(), ParseError> {
        let field_end = usize::from(self.csum_start) + usize::from(self.csum_offset) + 2;
        if self.flags.contains(Flags::NEEDS_CSUM) && field_end > frame_len {
            return Err(ParseError::BadChecksumField);
        }
        Ok(())
    }

    /// Writes the header; `None` (nothing written) when `out` is shorter than 10 bytes.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let Self {
            flags,
            segmentation,
            ecn,
            hdr_len,
            gso_size,
            csum_start,
            csum_offset,
        } = self;
        let b = out.first_chunk_mut::<HEADER_LEN>()?;
        let gso_type = match segmentation {
            Segmentation::None => 0,
            Segmentation::TcpV4 => 1,
            Segmentation::Udp => 3,
            Segmentation::TcpV6 => 4,
            Segmentation::UdpL4 => 5,
        };
        b[0] = flags.bits();
        b[1] = gso_type | if *ecn { GSO_ECN } else { 0 };
        b[2..4].copy_from_slice(&hdr_len.to_ne_bytes());
        b[4..6].copy_from_slice(&gso_size.to_ne_bytes());
        b[6..8].copy_from_slice(&csum_start.to_ne_bytes());
        b[8..10].copy_from_slice(&csum_offset.to_ne_bytes());
        Some(HEADER_LEN)
    }
}
