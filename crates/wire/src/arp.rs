//! ARP for IPv4 over Ethernet (RFC 826). Only requests and replies with exactly these address kinds
//! are packets here;
//! everything else, RARP included, is an error. Whether to believe a packet is the neighbour
//! cache's business.

use crate::{EtherType, MacAddr};
use core::net::Ipv4Addr;

/// Bytes in an ARP packet for IPv4 over Ethernet; frames are padded beyond it.
pub const PACKET_LEN: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;

/// What an ARP packet asks or says (ar$op).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Who has `target_ip`?
    Request,
    /// `sender_ip` is at `sender_mac`.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// ar$sha.
    pub sender_mac: MacAddr,
    /// ar$spa; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// ar$tha; without meaning in a request.
    pub target_mac: MacAddr,
    /// ar$tpa.
    pub target_ip: Ipv4Addr,
}

/// Why bytes are not an ARP packet that we can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 28 bytes.
    Truncated,
    /// ar$hrd is not Ethernet.
    BadHardwareType,
    /// ar$pro is not IPv4.
    BadProtocolType,
    /// ar$hln is not 6 or ar$pln is not 4.
    BadAddressLength,
    /// ar$op is neither request nor reply.
    BadOperation,
}

impl Packet {
    /// Reads a packet and returns its length (28); bytes after it are padding.
    ///
    /// # Errors
    /// See [`ParseError`]; the checks come in the order of RFC 826, "Packet Reception".
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<PACKET_LEN>()
            .ok_or(ParseError::Truncated)?;
        if u16::from_be_bytes([b[0], b[1]]) != HARDWARE_ETHERNET {
            return Err(ParseError::BadHardwareType);
        }
        if u16::from_be_bytes([b[2], b[3]]) != EtherType::IPV4.0 {
            return Err(ParseError::BadProtocolType);
        }
        if (b[4], b[5]) != (6, 4) {
            return Err(ParseError::BadAddressLength);
        }
        let operation = match u16::from_be_bytes([b[6], b[7]]) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(ParseError::BadOperation),
        };
        let packet = Self {
            operation,
            sender_mac: MacAddr([b[8], b[9], b[10], b[11], b[12], b[13]]),
            sender_ip: Ipv4Addr::new(b[14], b[15], b[16], b[17]),
            target_mac: MacAddr([b[18], b[19], b[20], b[21], b[22], b[23]]),
            target_ip: Ipv4Addr::new(b[24], b[25], b[26], b[27]),
        };
        Ok((packet, PACKET_LEN))
    }

    /// Writes the packet; `None` (nothing written) when `out` is shorter than 28 bytes.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let Self {
            operation,
            sender_mac,
            sender_ip,
            target_mac,
            target_ip,
        } = self;
        let b = out.first_chunk_mut::<PACKET_LEN>()?;
        let operation: u16 = match operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        b[0..2].copy_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
        b[2..4].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        b[4..6].copy_from_slice(&[6, 4]);
        b[6..8].copy_from_slice(&operation.to_be_bytes());
        b[8..14].copy_from_slice(&sender_mac.0);
        b[14..18].copy_from_slice(&sender_ip.octets());
        b[18..24].copy_from_slice(&target_mac.0);
        b[24..28].copy_from_slice(&target_ip.octets());
        Some(PACKET_LEN)
    }
}
