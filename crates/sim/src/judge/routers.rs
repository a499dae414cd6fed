//! What a router says of its next link, read from an ICMP error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use gannet_wire::checksum::sum;
use gannet_wire::icmpv6;

/// A router's word that a TCP segment was too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// Who had sent it, and to whom.
    pub ends: (SocketAddr, SocketAddr),
    /// Its sequence number.
    pub seq: u32,
    /// What fits, but not less than what a host may insist on (RFC 1191 section 3; RFC 8200
    /// section 5).
    pub mtu: u32,
}

/// The least that a host of IPv4 need believe, as Linux does.
const LEAST_V4: u32 = 552;
const LEAST_V6: u32 = 1280;

impl TooBig {
    /// Reads an IP packet.
    pub fn of(packet: &[u8]) -> Option<TooBig> {
        match packet.first()? >> 4 {
            4 => Self::four(packet),
            6 => Self::six(packet),
            _ => None,
        }
    }

    /// RFC 1191 section 4.
    fn four(packet: &[u8]) -> Option<TooBig> {
        let icmp = packet.get(20..)?;
        if packet.get(9) != Some(&1) || !icmp.starts_with(&[3, 4]) || sum(icmp).finish() != 0 {
            return None;
        }
        let mtu = u16::from_be_bytes(*icmp.get(6..)?.first_chunk()?);
        let inner = icmp.get(8..)?;
        if inner.get(9) != Some(&6) || inner.first() != Some(&0x45) {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 4] = *inner.get(at..)?.first_chunk()?;
            Some(Ipv4Addr::from(octets).into())
        };
        let hosts = (address(12)?, address(16)?);
        Self::about(hosts, inner.get(20..)?, u32::from(mtu).max(LEAST_V4))
    }

    /// RFC 4443 section 3.2.
    fn six(packet: &[u8]) -> Option<TooBig> {
        let address = |bytes: &[u8], at: usize| -> Option<Ipv6Addr> {
            let octets: [u8; 16] = *bytes.get(at..)?.first_chunk()?;
            Some(Ipv6Addr::from(octets))
        };
        let icmp = packet.get(40..)?;
        if packet.get(6) != Some(&58) || !icmp.starts_with(&[2, 0]) {
            return None;
        }
        icmpv6::Message::parse(icmp, address(packet, 8)?, address(packet, 24)?).ok()?;
        let mtu = u32::from_be_bytes(*icmp.get(4..)?.first_chunk()?);
        let inner = icmp.get(8..)?;
        if inner.get(6) != Some(&6) {
            return None;
        }
        let hosts = (address(inner, 8)?.into(), address(inner, 24)?.into());
        Self::about(hosts, inner.get(40..)?, mtu.max(LEAST_V6))
    }

    fn about((from, to): (IpAddr, IpAddr), tcp: &[u8], mtu: u32) -> Option<TooBig> {
        let tcp: &[u8; 8] = tcp.first_chunk()?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Some(TooBig {
            ends: (SocketAddr::new(from, port(0)), SocketAddr::new(to, port(2))),
            seq: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            mtu,
        })
    }
}
