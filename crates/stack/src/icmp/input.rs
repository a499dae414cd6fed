//! Messages that arrive: requests answered, errors turned into a report for who sent the packet.

use core::net::SocketAddr;

use gannet_base::Instant;
use gannet_link::{Driver, Frame};
use gannet_wire::IpProtocol;
use gannet_wire::icmpv4::{self, Message, Quoted, Unreachable};
use gannet_wire::ipv4;

use super::echo;
use super::limit::Limiter;
use crate::config::Config;
use crate::counters::DropReason;
use crate::hash::HashKey;
use crate::ip::{Ip, Packet};

/// ICMP of a host.
pub struct Icmp {
    pub(super) limiter: Limiter,
}

/// An ICMP error about a packet that names one of our addresses as its source. Whether we ever sent
/// it is for the protocol to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Protocol of the quoted packet: TCP or UDP.
    pub protocol: IpProtocol,
    /// What happened to it.
    pub kind: ReportKind,
    /// Its source.
    pub local: SocketAddr,
    /// Its destination.
    pub remote: SocketAddr,
    /// TCP's sequence number; 0 for UDP.
    pub seq: u32,
}

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// Fragmentation needed and DF set, with the next hop's MTU (0 when not told).
    FragmentationNeeded(u16),
    /// Destination unreachable with this code.
    Unreachable(u8),
    /// Time exceeded or parameter problem.
    Soft,
}

/// The type of a redirect. None is obeyed: see `specs/exceptions/ip.toml`.
const REDIRECT: u8 = 5;

impl Icmp {
    /// No error sent yet.
    pub fn new(config: &Config) -> Self {
        Icmp {
            limiter: Limiter::new(HashKey::new(config.secret), config.seed),
        }
    }

    /// A message arrives; `frame` is the IP payload and is released here. Errors are returned.
    //= https://www.rfc-editor.org/rfc/rfc792
    //# ICMP, uses the basic support of IP as if it were a higher level protocol, however, ICMP is
    //# actually an integral part of IP, and must be implemented by every IP module.
    pub(crate) fn arrives<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        frame: &mut Frame,
    ) -> Option<Report> {
        let outcome = self.check(ip, now, packet, frame);
        if let Some(endpoint) = ip.endpoint(packet.link) {
            endpoint.release_frame(frame);
        }
        outcome.unwrap_or_else(|reason| {
            ip.count_drop(reason);
            None
        })
    }

    fn check<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        frame: &mut Frame,
    ) -> Result<Option<Report>, DropReason> {
        if ip.frame_sum(packet.link, frame).finish() != 0 {
            return Err(DropReason::IcmpMalformed);
        }
        let mut buffer = [0; icmpv4::HEADER_LEN + ipv4::MAX_HEADER_LEN + 8];
        let endpoint = ip.endpoint(packet.link).ok_or(DropReason::IcmpMalformed)?;
        let n = endpoint.peek(frame, &mut buffer);
        let bytes = buffer.get(..n).unwrap_or(&[]);
        let parsed = Message::parse_unverified(bytes);
        let (message, header_len) = parsed.map_err(|_| DropReason::IcmpMalformed)?;
        let kind = match message {
            Message::EchoRequest { ident, seq } => {
                frame.strip(header_len);
                // May be discarded by RFC 1122 section 3.2.2.6; one question, a thousand answers.
                if !ip.is_local(packet.destination) {
                    return Err(DropReason::IcmpBroadcast);
                }
                return echo::answer(ip, now, packet, (ident, seq), frame).map(|()| None);
            }
            Message::DestinationUnreachable { code, next_hop_mtu } => match code {
                Unreachable::FRAGMENTATION_NEEDED => ReportKind::FragmentationNeeded(next_hop_mtu),
                Unreachable(code) => ReportKind::Unreachable(code),
            },
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.4
            //# An incoming Time Exceeded message MUST be passed to the transport layer.
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.5
            //# An incoming Parameter Problem message MUST be passed to the transport layer, and it
            //# MAY be reported to the user.
            Message::TimeExceeded { .. } | Message::ParameterProblem { .. } => ReportKind::Soft,
            Message::Other { kind: REDIRECT, .. } => return Err(DropReason::Redirect),
            //= https://www.rfc-editor.org/rfc/rfc6633#section-3
            //# TCP MUST silently discard any received ICMP Source Quench messages.
            //= https://www.rfc-editor.org/rfc/rfc6633#section-5
            //# Hereby, we clarify that UDP endpoints MUST silently discard received ICMP Source
            //# Quench messages.
            //= https://www.rfc-editor.org/rfc/rfc6633#section-6
            //# If a Source Quench message is received by any other transport-protocol instance, it
            //# MUST be silently ignored.
            //= https://www.rfc-editor.org/rfc/rfc6633#section-8
            //# Hosts, security gateways, and firewalls MUST silently discard received ICMP Source
            //# Quench packets and SHOULD log such drops as a security fault with at least minimal
            //# details (IP Source Address, IP Destination Address, ICMP message type, and date/time
            //# the packet was seen).
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
            //# If an ICMP message of unknown type is received, it MUST be silently discarded.
            Message::EchoReply { .. } | Message::Other { .. } => {
                return Err(DropReason::IcmpIgnored);
            }
        };
        let quoted = bytes.get(header_len..).unwrap_or(&[]);
        report(ip, packet, kind, quoted).map(Some)
    }
}

/// Reads the quoted packet, which must be one that we could have sent.
fn report<D: Driver>(
    ip: &Ip<D>,
    packet: &Packet,
    kind: ReportKind,
    quoted: &[u8],
) -> Result<Report, DropReason> {
    let quoted = Quoted::parse(quoted).map_err(|_| DropReason::IcmpBadQuote)?;
    // CVE-2026-23398: a protocol that nobody registered.
    let (local_port, remote_port) = quoted.ports().ok_or(DropReason::IcmpForeignQuote)?;
    let (source, destination) = (quoted.ip.src.into(), quoted.ip.dst.into());
    if !ip.is_local(source) || !ip.is_local(packet.destination) {
        return Err(DropReason::IcmpForeignQuote);
    }
    Ok(Report {
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
        //# In those cases where the Internet layer is required to pass an ICMP error message to the
        //# transport layer, the IP protocol number MUST be extracted from the original header and
        //# used to select the appropriate transport protocol entity to handle the error.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.4
        //# The IP layer MUST pass certain ICMP messages up to the appropriate transport-layer
        //# routine.
        protocol: quoted.ip.protocol,
        kind,
        local: SocketAddr::new(source, local_port),
        remote: SocketAddr::new(destination, remote_port),
        seq: quoted.tcp_seq().unwrap_or(0),
    })
}
