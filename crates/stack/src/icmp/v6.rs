//! ICMP for IPv6 (RFC 4443): messages that arrive, errors that we send. Neighbour and router
//! discovery never come here: `ip/v6/discovery.rs` has them.

use core::net::{IpAddr, SocketAddr};

use gannet_base::Instant;
use gannet_link::{Driver, Frame, RxChecksum};
use gannet_wire::icmpv4::Unreachable as Unreachable4;
use gannet_wire::icmpv6::{self, Message, Problem, Quoted, Unreachable};
use gannet_wire::{IpProtocol, ipv6};

use super::echo;
use super::error::send_quoting;
use super::input::{Icmp, Report, ReportKind};
use crate::address;
use crate::counters::DropReason;
use crate::ip::{Complaint, Ip, Packet, QUOTE_MAX_SIX};

/// Types from here on are no errors (RFC 4443 section 2.1).
const FIRST_INFORMATIONAL: u8 = 128;
/// Bytes of an error that are read: its header, a packet with some extension headers, ports.
const READ_MAX: usize = 256;

impl Icmp {
    /// A message arrives; `frame` is what is behind the headers, and is released here. Errors are
    /// returned.
    pub(crate) fn six_arrives<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        frame: &mut Frame,
    ) -> Option<Report> {
        let outcome = six_check(ip, now, packet, frame);
        if let Some(endpoint) = ip.endpoint(packet.link) {
            endpoint.release_frame(frame);
        }
        outcome.unwrap_or_else(|reason| {
            ip.count_drop(reason);
            None
        })
    }

    /// Tells the sender of a packet what is wrong with its headers.
    #[cold]
    pub(crate) fn complain<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        complaint: &Complaint,
    ) {
        let message = Message::ParameterProblem {
            code: complaint.code,
            pointer: complaint.pointer,
        };
        let quote = complaint.quote.get(..complaint.quote_len).unwrap_or(&[]);
        let to_group_too = complaint.to_group_too;
        self.send_six(ip, now, &complaint.packet, &message, (quote, to_group_too));
    }

    /// Nobody takes the port or the protocol of the packet that came in last, of which `frame` is
    /// what is behind the headers.
    pub(super) fn six_nobody<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        code: Unreachable4,
        frame: &Frame,
    ) {
        let headers = *ip.six_headers();
        //= https://www.rfc-editor.org/rfc/rfc4443#section-3.1
        //# A destination node SHOULD originate a Destination Unreachable message with Code 4 in
        //# response to a packet for which the transport protocol (e.g., UDP) has no listener, if
        //# that transport protocol has no alternative means to inform the sender.
        let message = match code {
            Unreachable4::PORT => Message::DestinationUnreachable {
                code: Unreachable::PORT,
            },
            _ => Message::ParameterProblem {
                code: Problem::NEXT_HEADER,
                pointer: headers.named_at,
            },
        };
        let mut quote = [0; QUOTE_MAX_SIX];
        let Some(head) = headers.bytes.get(..headers.len).filter(|h| !h.is_empty()) else {
            return;
        };
        let Some((to, rest)) = quote.split_at_mut_checked(head.len()) else {
            return;
        };
        to.copy_from_slice(head);
        let endpoint = ip.endpoint(packet.link);
        let len = head.len() + endpoint.map_or(0, |e| e.peek(frame, rest));
        let quote = quote.get(..len).unwrap_or(&[]);
        self.send_six(ip, now, packet, &message, (quote, false));
    }

    /// Sends an error about `packet`, which begins with `quote`.
    pub(super) fn send_six<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        about: &Packet,
        message: &Message,
        (quote, to_group_too): (&[u8], bool),
    ) {
        if !may_answer(about, quote, to_group_too) {
            return;
        }
        //= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
        //# (f) Finally, in order to limit the bandwidth and forwarding costs
        //# incurred by originating ICMPv6 error messages, an IPv6 node MUST
        //# limit the rate of ICMPv6 error messages it originates.
        if !self.limiter.allow(now, about.source) {
            return ip.count_drop(DropReason::IcmpLimited);
        }
        //= https://www.rfc-editor.org/rfc/rfc4443#section-2.2
        //# (a) If the message is a response to a message sent to one of the
        //# node's unicast addresses, the Source Address of the reply MUST be
        //# that same address.
        //= https://www.rfc-editor.org/rfc/rfc4443#section-2.2
        //# the Source Address of the ICMPv6 packet MUST be a unicast address belonging to the node.
        let source = Some(about.destination).filter(|a| !a.is_multicast());
        let protocol = IpProtocol::ICMPV6;
        let ends = (source, about.source);
        let sent = send_quoting(ip, now, ends, protocol, quote, |sum, (from, to), out| {
            let len = (icmpv6::HEADER_LEN + quote.len()) as u32;
            let pseudo = address::pseudo(from, to, protocol, len);
            message.emit(sum.combine(pseudo, false), out)
        });
        if !sent {
            ip.count_drop(DropReason::LinkFull);
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# (e) An ICMPv6 error message MUST NOT be originated as a result of
//# receiving the following:
fn may_answer(about: &Packet, quote: &[u8], to_group_too: bool) -> bool {
    let to_group = about.destination.is_multicast() && !to_group_too;
    let nobody = about.source.is_unspecified() || about.source.is_multicast();
    !to_group && !nobody && !is_error(quote)
}

/// Whether a packet is an ICMPv6 error, or might be a redirect, as far as it can be read.
fn is_error(quote: &[u8]) -> bool {
    const REDIRECT: u8 = 137;
    let chain = gannet_wire::extension::Chain::parse(quote);
    chain.is_ok_and(|chain| {
        let kind = quote.get(chain.payload_at).copied();
        chain.protocol == IpProtocol::ICMPV6
            && kind.is_none_or(|kind| kind < 128 || kind == REDIRECT)
    })
}

fn six_check<D: Driver>(
    ip: &mut Ip<D>,
    now: Instant,
    packet: &Packet,
    frame: &mut Frame,
) -> Result<Option<Report>, DropReason> {
    let len = frame.len() as u32;
    if frame.checksum() == RxChecksum::Unknown {
        let (from, to) = (packet.source, packet.destination);
        let pseudo = address::pseudo(from, to, IpProtocol::ICMPV6, len);
        let sum = ip.frame_sum(packet.link, frame).combine(pseudo, false);
        if sum.finish() != 0 {
            return Err(DropReason::IcmpMalformed);
        }
    }
    let mut buffer = [0; READ_MAX];
    let endpoint = ip.endpoint(packet.link).ok_or(DropReason::IcmpMalformed)?;
    let n = endpoint.peek(frame, &mut buffer);
    let bytes = buffer.get(..n).unwrap_or(&[]);
    let parsed = Message::parse_unverified(bytes);
    let (message, header_len) = parsed.map_err(|_| DropReason::IcmpMalformed)?;
    let kind = match message {
        //= https://www.rfc-editor.org/rfc/rfc4443#section-4.1
        //# Every node MUST implement an ICMPv6 Echo responder function that receives Echo Requests
        //# and originates corresponding Echo Replies.
        //= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
        //# Every node MUST implement an ICMPv6 Echo responder function that receives Echo Requests
        //# and originates corresponding Echo Replies.
        //= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
        //# The source address of an Echo Reply sent in response to a unicast Echo Request message
        //# MUST be the same as the destination address of that Echo Request message.
        //= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
        //# The data received in the ICMPv6 Echo Request message MUST be returned entirely and
        //# unmodified in the ICMPv6 Echo Reply message.
        Message::EchoRequest { ident, seq } => {
            frame.strip(header_len);
            // one question, a thousand answers (RFC 4443 section 4.2 allows it)
            if packet.destination.is_multicast() {
                return Err(DropReason::IcmpBroadcast);
            }
            return echo::answer(ip, now, packet, (ident, seq), frame).map(|()| None);
        }
        // robustness 6.6: no link has less
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# If a node receives a Packet Too Big message reporting a next-hop MTU that is less than
        //# the IPv6 minimum link MTU, it must discard it.
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# A node must not reduce its estimate of the Path MTU below the IPv6 minimum link MTU on
        //# receipt of a Packet Too Big message.
        Message::PacketTooBig { mtu } if mtu < u32::from(ipv6::MIN_MTU) => {
            return Err(DropReason::IcmpIgnored);
        }
        //= https://www.rfc-editor.org/rfc/rfc4443#section-3.2
        //# An incoming Packet Too Big message MUST be passed to the upper-layer process if the
        //# relevant process can be identified (see Section 2.4, (d)).
        Message::PacketTooBig { mtu } => {
            ReportKind::FragmentationNeeded(u16::try_from(mtu).unwrap_or(u16::MAX))
        }
        //= https://www.rfc-editor.org/rfc/rfc4443#section-3.1
        //# A node receiving the ICMPv6 Destination Unreachable message MUST notify the upper-layer
        //# process if the relevant process can be identified (see Section 2.4, (d)).
        Message::DestinationUnreachable { code } => ReportKind::Unreachable(in_four(code)),
        Message::ParameterProblem {
            code: Problem::NEXT_HEADER,
            ..
        } => ReportKind::Unreachable(Unreachable4::PROTOCOL.0),
        //= https://www.rfc-editor.org/rfc/rfc4443#section-3.3
        //# An incoming Time Exceeded message MUST be passed to the upper-layer process if the
        //# relevant process can be identified (see Section 2.4, (d)).
        //= https://www.rfc-editor.org/rfc/rfc4443#section-3.4
        //# A node receiving this ICMPv6 message MUST notify the upper-layer process if the relevant
        //# process can be identified (see Section 2.4, (d)).
        Message::TimeExceeded { .. } | Message::ParameterProblem { .. } => ReportKind::Soft,
        //= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
        //# (a) If an ICMPv6 error message of unknown type is received at its destination, it MUST
        //# be passed to the upper-layer process that originated the packet that caused the error,
        //# where this can be identified (see Section 2.4, (d)).
        Message::Other { kind, .. } if kind < FIRST_INFORMATIONAL => ReportKind::Soft,
        //= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
        //# (b) If an ICMPv6 informational message of unknown type is received, it MUST be silently
        //# discarded.
        Message::EchoReply { .. } | Message::Other { .. } => {
            return Err(DropReason::IcmpIgnored);
        }
    };
    let quoted = bytes.get(header_len..).unwrap_or(&[]);
    report(ip, packet, kind, quoted).map(Some)
}

/// The code that ICMP for IPv4 has for it, which is what the transports know.
fn in_four(code: Unreachable) -> u8 {
    match code {
        Unreachable::NO_ROUTE | Unreachable::REJECT => 0,
        Unreachable::PORT => Unreachable4::PORT.0,
        Unreachable::PROHIBITED | Unreachable::POLICY => 13,
        _ => 1,
    }
}

/// Reads the quoted packet, which must be one that we could have sent.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# (d) In cases where the internet-layer protocol is required to pass an
//# ICMPv6 error message to the upper-layer process, the upper-layer
//# protocol type is extracted from the original packet (contained in
//# the body of the ICMPv6 error message) and used to select the
//# appropriate upper-layer process to handle the error.
fn report<D: Driver>(
    ip: &Ip<D>,
    packet: &Packet,
    kind: ReportKind,
    quoted: &[u8],
) -> Result<Report, DropReason> {
    let quoted = Quoted::parse(quoted).map_err(|_| DropReason::IcmpBadQuote)?;
    let (local_port, remote_port) = quoted.ports().ok_or(DropReason::IcmpForeignQuote)?;
    let (source, destination) = (IpAddr::V6(quoted.ip.src), IpAddr::V6(quoted.ip.dst));
    if !ip.is_local(source) || !ip.is_local(packet.destination) {
        return Err(DropReason::IcmpForeignQuote);
    }
    Ok(Report {
        protocol: quoted.protocol,
        kind,
        local: SocketAddr::new(source, local_port),
        remote: SocketAddr::new(destination, remote_port),
        seq: quoted.tcp_seq().unwrap_or(0),
    })
}
