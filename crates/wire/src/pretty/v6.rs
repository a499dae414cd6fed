//! IPv6 packets, their extension headers, ICMPv6 and neighbour discovery.

use super::{Addresses, groups, write_ends, write_hosts, write_tcp, write_udp};
use crate::extension::{self, Chain};
use crate::icmpv6::{Message, Quoted, Unreachable};
use crate::mld;
use crate::nd::{self, NdOption};
use crate::{IpProtocol, ipv6};
use core::fmt::{self, Formatter};
use core::net::IpAddr;

pub(super) fn write_ipv6(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let (header, header_len) = match ipv6::Header::parse_fixed(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, "IPv6 [{error:?}, {} bytes]", bytes.len()),
    };
    let packet_len = header_len + usize::from(header.payload_len);
    let packet = bytes.get(..packet_len).unwrap_or(bytes);
    let (src, dst) = (header.src, header.dst);
    let chain = match Chain::parse(packet) {
        Ok(chain) => chain,
        Err(error) => return write!(f, "{src} > {dst} IPv6 [{error:?}]"),
    };
    let ends = Some((IpAddr::V6(src), IpAddr::V6(dst)));
    let payload = packet.get(chain.payload_at..).unwrap_or_default();
    let len = packet_len.saturating_sub(chain.payload_at);
    match chain.protocol {
        protocol if chain.fragment.is_some_and(|fragment| fragment.offset != 0) => {
            write!(f, "{src} > {dst} {protocol:?} length {len}")?;
        }
        IpProtocol::TCP => write_tcp(f, ends, payload, len)?,
        IpProtocol::UDP => write_udp(f, ends, payload)?,
        IpProtocol::ICMPV6 => write_icmpv6(f, ends, payload, len)?,
        other => write!(f, "{src} > {dst} {other:?} length {len}")?,
    }
    if let Some(fragment) = chain.fragment {
        write_fragment(f, fragment)?;
    }
    if let Err(error) = ipv6::Header::parse(bytes) {
        write!(f, " [IP {error:?}]")?;
    }
    Ok(())
}

fn write_fragment(f: &mut Formatter<'_>, fragment: extension::Fragment) -> fmt::Result {
    let at = u32::from(fragment.offset) * 8;
    let more = if fragment.more { "+" } else { "" };
    write!(f, " (fragment {}@{at}{more})", fragment.ident)
}

fn write_icmpv6(f: &mut Formatter<'_>, ends: Addresses, bytes: &[u8], len: usize) -> fmt::Result {
    write_hosts(f, ends)?;
    let (message, header_len) = match Message::parse_unverified(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, "ICMPv6 [{error:?}, {} bytes]", bytes.len()),
    };
    f.write_str("ICMPv6 ")?;
    match message {
        Message::EchoRequest { ident, seq } => write!(f, "echo request id {ident} seq {seq}")?,
        Message::EchoReply { ident, seq } => write!(f, "echo reply id {ident} seq {seq}")?,
        Message::DestinationUnreachable { code } => write_unreachable(f, code)?,
        Message::PacketTooBig { mtu } => write!(f, "packet too big, mtu {mtu}")?,
        Message::TimeExceeded { code } => write!(f, "time exceeded code {code}")?,
        Message::ParameterProblem { code, pointer } => {
            write!(f, "parameter problem code {} at {pointer}", code.0)?;
        }
        Message::Other { kind, .. } if nd::Message::is_type(kind) => {
            return write_neighbour(f, bytes);
        }
        Message::Other { kind, .. } if mld::Message::is_type(kind) => {
            return groups::write_mld(f, bytes);
        }
        Message::Other { kind, code, .. } => write!(f, "type {kind} code {code}")?,
    }
    write!(f, " length {len}")?;
    if message.is_error() {
        write_quoted(f, bytes.get(header_len..).unwrap_or_default())?;
    }
    Ok(())
}

fn write_unreachable(f: &mut Formatter<'_>, code: Unreachable) -> fmt::Result {
    match code {
        Unreachable::NO_ROUTE => f.write_str("no route"),
        Unreachable::ADDRESS => f.write_str("address unreachable"),
        Unreachable::PORT => f.write_str("port unreachable"),
        Unreachable(other) => write!(f, "unreachable code {other}"),
    }
}

/// The quoted packet, one level deep.
fn write_quoted(f: &mut Formatter<'_>, payload: &[u8]) -> fmt::Result {
    match Quoted::parse(payload) {
        Ok(quoted) => {
            f.write_str(" (about ")?;
            let (src, dst) = (quoted.ip.src, quoted.ip.dst);
            match quoted.ports() {
                Some((from, to)) => {
                    write_ends(f, Some((IpAddr::V6(src), IpAddr::V6(dst))), from, to)?;
                }
                None => write!(f, "{src} > {dst}")?,
            }
            write!(f, " {:?})", quoted.protocol)
        }
        Err(error) => write!(f, " [quote {error:?}]"),
    }
}

fn write_neighbour(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let (message, options) = match nd::Message::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, "neighbour discovery [{error:?}]"),
    };
    match message {
        nd::Message::RouterSolicitation => f.write_str("who is router")?,
        nd::Message::RouterAdvertisement {
            router_lifetime, ..
        } => write!(f, "router for {router_lifetime} s")?,
        nd::Message::NeighbourSolicitation { target } => write!(f, "who has {target}")?,
        nd::Message::NeighbourAdvertisement { target, .. } => write!(f, "here is {target}")?,
        nd::Message::Redirect {
            target,
            destination,
        } => write!(f, "redirect {destination} to {target}")?,
    }
    for option in options {
        match option {
            NdOption::SourceLinkAddress(mac) => write!(f, ", from {mac}")?,
            NdOption::TargetLinkAddress(mac) => write!(f, ", at {mac}")?,
            NdOption::Prefix(prefix) => write!(f, ", prefix {}/{}", prefix.prefix, prefix.len)?,
            NdOption::RedirectedHeader(_) => {}
            NdOption::Mtu(mtu) => write!(f, ", mtu {mtu}")?,
            NdOption::Unknown { kind, .. } => write!(f, ", option {kind}")?,
        }
    }
    Ok(())
}
