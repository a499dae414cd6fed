//! One line per packet for people, in the manner of tcpdump: traces and test failures. Any bytes
//! can be
//! printed; what cannot be read is said in brackets. Nothing is allocated.
//!
//! ```
//! let frame = [0xff; 20];
//! println!("{}", gannet_wire::pretty::ethernet(&frame));
//! ```

use crate::icmpv4::{self, Quoted, Unreachable};
use crate::{EtherType, IpProtocol, arp, dhcpv4, ethernet, ipv4, tcp, udp, vlan};
use core::fmt::{self, Display, Formatter};
use core::net::{IpAddr, SocketAddr};

mod groups;
mod v6;

/// Prints a frame that begins with an Ethernet header.
pub fn ethernet(frame: &[u8]) -> impl Display + '_ {
    fmt::from_fn(move |f| write_ethernet(f, frame))
}

/// Prints a packet that begins with an IPv4 header.
pub fn ipv4(packet: &[u8]) -> impl Display + '_ {
    fmt::from_fn(move |f| write_ipv4(f, packet))
}

/// Prints a packet that begins with an IPv6 header.
pub fn ipv6(packet: &[u8]) -> impl Display + '_ {
    fmt::from_fn(move |f| v6::write_ipv6(f, packet))
}

/// Prints a TCP header, options included, and the length of the data after it.
pub fn tcp(segment: &[u8]) -> impl Display + '_ {
    fmt::from_fn(move |f| write_tcp(f, None, segment, segment.len()))
}

type Addresses = Option<(IpAddr, IpAddr)>;

fn write_ethernet(f: &mut Formatter<'_>, frame: &[u8]) -> fmt::Result {
    let Ok((header, len)) = ethernet::Header::parse(frame) else {
        return write!(f, "[runt frame, {} bytes]", frame.len());
    };
    let payload = frame.get(len..).unwrap_or_default();
    write!(f, "{} > {} ", header.src, header.dst)?;
    write_tagged(f, header.ethertype, payload)
}

/// What follows an EtherType: up to two tags, and the payload.
fn write_tagged(f: &mut Formatter<'_>, ethertype: EtherType, payload: &[u8]) -> fmt::Result {
    let (mut ethertype, mut payload) = (ethertype, payload);
    for _ in 0..2 {
        if !matches!(ethertype, EtherType::VLAN | EtherType::SERVICE_VLAN) {
            break;
        }
        let Ok((tag, len)) = vlan::Tag::parse(payload) else {
            return write!(f, "{ethertype:?} [Truncated, {} bytes]", payload.len());
        };
        write!(f, "vlan {} ", tag.id)?;
        ethertype = tag.ethertype;
        payload = payload.get(len..).unwrap_or_default();
    }
    match ethertype {
        EtherType::IPV4 => write_ipv4(f, payload),
        EtherType::IPV6 => v6::write_ipv6(f, payload),
        EtherType::ARP => write_arp(f, payload),
        other => write!(f, "{other:?} length {}", payload.len()),
    }
}

fn write_arp(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    match arp::Packet::parse(bytes) {
        Ok((packet, _)) => match packet.operation {
            arp::Operation::Request => {
                write!(
                    f,
                    "ARP who has {} tell {}",
                    packet.target_ip, packet.sender_ip
                )
            }
            arp::Operation::Reply => {
                write!(f, "ARP {} is at {}", packet.sender_ip, packet.sender_mac)
            }
        },
        Err(error) => write!(f, "ARP [{error:?}, {} bytes]", bytes.len()),
    }
}

fn write_ipv4(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    // A packet whose payload was left out of a trace is still worth a line: only the header's own
    // soundness is needed, the rest is reported.
    let (header, header_len) = match ipv4::Header::parse_fixed(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, "IPv4 [{error:?}, {} bytes]", bytes.len()),
    };
    let payload_len = header.payload_len(header_len);
    let present = bytes.get(header_len..).unwrap_or_default();
    let payload = present.get(..payload_len).unwrap_or(present);
    let ends = Some((IpAddr::V4(header.src), IpAddr::V4(header.dst)));
    match header.protocol {
        _ if header.fragment_offset != 0 => {
            write!(f, "{} > {} {:?}", header.src, header.dst, header.protocol)?;
            write!(f, " length {payload_len}")?;
        }
        IpProtocol::TCP => write_tcp(f, ends, payload, payload_len)?,
        IpProtocol::UDP => write_udp(f, ends, payload)?,
        IpProtocol::ICMP => write_icmp(f, ends, payload, payload_len)?,
        IpProtocol::IGMP => {
            write_hosts(f, ends)?;
            groups::write_igmp(f, payload)?;
        }
        other => {
            write!(
                f,
                "{} > {} {other:?} length {payload_len}",
                header.src, header.dst
            )?;
        }
    }
    write_ipv4_oddities(f, &header, bytes)
}

fn write_ipv4_oddities(f: &mut Formatter<'_>, header: &ipv4::Header, all: &[u8]) -> fmt::Result {
    if header.is_fragment() {
        let at = u32::from(header.fragment_offset) * 8;
        let more = if header.more_fragments { "+" } else { "" };
        write!(f, " (fragment {}@{at}{more})", header.ident)?;
    }
    if header.reserved_flag {
        f.write_str(" [reserved flag]")?;
    }
    if header.options.source_route {
        f.write_str(" [source route]")?;
    }
    if header.options.malformed {
        f.write_str(" [bad IP options]")?;
    }
    if let Err(error) = ipv4::Header::parse(all) {
        write!(f, " [IP {error:?}]")?;
    }
    Ok(())
}

fn write_ends(f: &mut Formatter<'_>, ends: Addresses, src: u16, dst: u16) -> fmt::Result {
    match ends {
        Some((from, to)) => {
            let (from, to) = (SocketAddr::new(from, src), SocketAddr::new(to, dst));
            write!(f, "{from} > {to}")
        }
        None => write!(f, "{src} > {dst}"),
    }
}

/// Both addresses, when there are any, before something that has no ports.
fn write_hosts(f: &mut Formatter<'_>, ends: Addresses) -> fmt::Result {
    match ends {
        Some((from, to)) => write!(f, "{from} > {to} "),
        None => Ok(()),
    }
}

fn write_udp(f: &mut Formatter<'_>, ends: Addresses, bytes: &[u8]) -> fmt::Result {
    let Some(fixed) = bytes.first_chunk::<{ udp::HEADER_LEN }>() else {
        write_hosts(f, ends)?;
        return write!(f, "UDP [Truncated, {} bytes]", bytes.len());
    };
    // With all the room there can be, only a length below 8 is an error.
    match udp::Header::parse_split(fixed, usize::from(u16::MAX)) {
        Ok((header, len)) => {
            write_ends(f, ends, header.src_port, header.dst_port)?;
            write!(
                f,
                " UDP length {}",
                usize::from(header.length).saturating_sub(len)
            )?;
            if usize::from(header.length) > bytes.len() {
                write!(f, " [only {} bytes]", bytes.len())?;
            } else if is_dhcp(&header) {
                groups::write_dhcp(f, bytes.get(len..).unwrap_or_default())?;
            }
            Ok(())
        }
        Err(error) => {
            write_hosts(f, ends)?;
            write!(f, "UDP [{error:?}]")
        }
    }
}

fn is_dhcp(header: &udp::Header) -> bool {
    matches!(
        (header.src_port, header.dst_port),
        (dhcpv4::CLIENT_PORT, dhcpv4::SERVER_PORT) | (dhcpv4::SERVER_PORT, dhcpv4::CLIENT_PORT)
    )
}

fn write_tcp(f: &mut Formatter<'_>, ends: Addresses, bytes: &[u8], len: usize) -> fmt::Result {
    let (header, header_len) = match tcp::Header::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => {
            write_hosts(f, ends)?;
            return write!(f, "TCP [{error:?}, {} bytes]", bytes.len());
        }
    };
    let data = len.saturating_sub(header_len);
    write_ends(f, ends, header.src_port, header.dst_port)?;
    f.write_str(" TCP [")?;
    write_flags(f, header.flags)?;
    write!(f, "] seq {}", header.seq)?;
    if data > 0 {
        let end = header.seq.wrapping_add(data as u32);
        write!(f, ":{end}")?;
    }
    if header.flags.contains(tcp::Flags::ACK) {
        write!(f, " ack {}", header.ack)?;
    }
    write!(f, " win {}", header.window)?;
    if header.flags.contains(tcp::Flags::URG) {
        write!(f, " urg {}", header.urgent)?;
    }
    write_options(f, &tcp::Options::parse(tcp::options(bytes, header_len)))?;
    write!(f, " length {data}")
}

fn write_flags(f: &mut Formatter<'_>, flags: tcp::Flags) -> fmt::Result {
    // tcpdump's letters.
    let letters = [
        (tcp::Flags::SYN, "S"),
        (tcp::Flags::FIN, "F"),
        (tcp::Flags::RST, "R"),
        (tcp::Flags::PSH, "P"),
        (tcp::Flags::URG, "U"),
        (tcp::Flags::ECE, "E"),
        (tcp::Flags::CWR, "W"),
        (tcp::Flags::ACK, "."),
    ];
    if flags.is_empty() {
        return f.write_str("none");
    }
    for (flag, letter) in letters {
        if flags.contains(flag) {
            f.write_str(letter)?;
        }
    }
    Ok(())
}

fn write_options(f: &mut Formatter<'_>, options: &tcp::Options) -> fmt::Result {
    let tcp::Options {
        mss,
        window_scale,
        sack_permitted,
        sack,
        timestamps,
        malformed,
    } = options;
    if *options == tcp::Options::NONE {
        return Ok(());
    }
    f.write_str(" <")?;
    let mut separator = "";
    let mut item = |f: &mut Formatter<'_>, text: fmt::Arguments<'_>| {
        write!(f, "{}{text}", core::mem::replace(&mut separator, ","))
    };
    if let Some(mss) = mss {
        item(f, format_args!("mss {mss}"))?;
    }
    if *sack_permitted {
        item(f, format_args!("sackOK"))?;
    }
    if let Some((value, echo)) = timestamps {
        item(f, format_args!("TS {value} {echo}"))?;
    }
    if let Some(shift) = window_scale {
        item(f, format_args!("ws {shift}"))?;
    }
    for (left, right) in sack.as_slice() {
        item(f, format_args!("sack {left}:{right}"))?;
    }
    if *malformed {
        item(f, format_args!("malformed"))?;
    }
    f.write_str(">")
}

fn write_icmp(f: &mut Formatter<'_>, ends: Addresses, bytes: &[u8], len: usize) -> fmt::Result {
    write_hosts(f, ends)?;
    let (message, header_len) = match icmpv4::Message::parse_unverified(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, "ICMP [{error:?}, {} bytes]", bytes.len()),
    };
    f.write_str("ICMP ")?;
    match message {
        icmpv4::Message::EchoRequest { ident, seq } => {
            write!(f, "echo request id {ident} seq {seq}")?;
        }
        icmpv4::Message::EchoReply { ident, seq } => write!(f, "echo reply id {ident} seq {seq}")?,
        icmpv4::Message::DestinationUnreachable { code, next_hop_mtu } => {
            write_unreachable(f, code, next_hop_mtu)?;
        }
        icmpv4::Message::TimeExceeded { code } => write!(f, "time exceeded code {code}")?,
        icmpv4::Message::ParameterProblem { code, pointer } => {
            write!(f, "parameter problem code {code} at {pointer}")?;
        }
        icmpv4::Message::Other { kind, code, .. } => write!(f, "type {kind} code {code}")?,
    }
    write!(f, " length {len}")?;
    if message.is_error() {
        write_quoted(f, bytes.get(header_len..).unwrap_or_default())?;
    }
    Ok(())
}

fn write_unreachable(f: &mut Formatter<'_>, code: Unreachable, mtu: u16) -> fmt::Result {
    match code {
        Unreachable::NETWORK => f.write_str("network unreachable"),
        Unreachable::HOST => f.write_str("host unreachable"),
        Unreachable::PROTOCOL => f.write_str("protocol unreachable"),
        Unreachable::PORT => f.write_str("port unreachable"),
        Unreachable::FRAGMENTATION_NEEDED => write!(f, "fragmentation needed, mtu {mtu}"),
        Unreachable(other) => write!(f, "unreachable code {other}"),
    }
}

/// The quoted packet, one level deep: a quote of a quote is not followed, so nothing recurses.
fn write_quoted(f: &mut Formatter<'_>, payload: &[u8]) -> fmt::Result {
    match Quoted::parse(payload) {
        Ok(quoted) => {
            f.write_str(" (about ")?;
            let ends = Some((IpAddr::V4(quoted.ip.src), IpAddr::V4(quoted.ip.dst)));
            match quoted.ports() {
                Some((src, dst)) => write_ends(f, ends, src, dst)?,
                None => write!(f, "{} > {}", quoted.ip.src, quoted.ip.dst)?,
            }
            write!(f, " {:?})", quoted.ip.protocol)
        }
        Err(error) => write!(f, " [quote {error:?}]"),
    }
}
