//! ICMP errors about our segments (RFC 1122 section 4.2.3.9, RFC 5927).

use core::net::SocketAddr;

use gannet_link::Driver;

use super::black_hole::BlackHole;
use super::connection::{Connection, Cx, State};
use super::counters::TcpEvent;
use super::error::TcpError;
use super::seq::SeqNum;

/// An ICMP error about a segment of ours, already found to quote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What it says.
    pub kind: IcmpErrorKind,
    /// Source of the quoted packet: ours.
    pub local: SocketAddr,
    /// Destination of the quoted packet.
    pub remote: SocketAddr,
    /// Sequence number of the quoted segment.
    pub seq: u32,
}

/// What an ICMP error says, as far as TCP cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// Fragmentation needed and DF set, with the next hop's MTU (0 when not told).
    FragmentationNeeded(u16),
    /// Destination unreachable with this code (0 network, 1 host, 2 protocol, 3 port, ...).
    Unreachable(u8),
    /// Time exceeded or parameter problem: always soft.
    Soft,
}

/// The error concerns `conn`.
pub(super) fn arrives<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>, error: &IcmpError) {
    // RFC 5927 section 4.1: only what quotes a number in flight is believed
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
    //# TCP implementations MUST act on an ICMP error message passed up from the IP layer,
    //# directing it to the connection that created the error (MUST-54).
    let seq = SeqNum(error.seq);
    let in_flight = match &conn.state {
        State::SynSent(o) | State::SynReceived(o) => seq == o.iss,
        State::Open(open) => seq.in_range(open.send.una, open.send.max - open.send.una),
        State::Dormant(_) | State::TimeWait(_) | State::Closed => false,
    };
    //= https://www.rfc-editor.org/rfc/rfc8899#section-4.6.1
    //# A PL that supports PTB messages MUST validate these messages before they are further
    //# processed.
    //= https://www.rfc-editor.org/rfc/rfc8899#section-4.6.1
    //# The PL MUST check the protocol information in the quoted packet carried in an ICMP PTB
    //# message payload to validate the message originated from the sending node.
    //= https://www.rfc-editor.org/rfc/rfc8899#section-4.6.1
    //# A PTB message that does not complete the validation MUST NOT be further utilized by the
    //# DPLPMTUD method, as discussed in the Security Considerations section (Section 8).
    if !in_flight {
        return cx.counters.add(TcpEvent::IcmpOutOfWindow);
    }
    match (error.kind, &mut conn.state) {
        (IcmpErrorKind::FragmentationNeeded(mtu), _) => reduce_mtu(conn, cx, mtu),
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
        //# These are hard error conditions, so TCP implementations SHOULD abort
        //# the connection (SHLD-26).
        // while it is being opened; an open connection lives on (RFC 5927 section 5.2)
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
        //# A transport protocol that has its own mechanism for notifying the sender that a port is
        //# unreachable (e.g., TCP, which sends RST segments) MUST nevertheless accept an ICMP Port
        //# Unreachable for the same purpose.
        (IcmpErrorKind::Unreachable(2 | 3), State::SynSent(_)) => {
            conn.fail(cx.ip, Some(TcpError::Refused));
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
        //# Since these Unreachable messages indicate soft error conditions, a TCP
        //# implementation MUST NOT abort the connection (MUST-56), and it SHOULD
        //# make the information available to the application (SHLD-25).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.8
        //# There MUST be a mechanism for reporting soft TCP error conditions to the application
        //# (MUST-47).
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
        //# A Destination Unreachable message that is received with code 0 (Net), 1 (Host), or 5
        //# (Bad Source Route) may result from a routing transient and MUST therefore be interpreted
        //# as only a hint, not proof, that the specified destination is unreachable [IP:11].
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
        //# For example, it MUST NOT be used as proof of a dead gateway (see Section 3.3.1).
        (kind, State::SynSent(opening) | State::SynReceived(opening)) => {
            opening.soft_error = Some(meaning(kind));
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.8
        //# However, an application program that does not want to receive such ERROR_REPORT calls
        //# SHOULD be able to effectively disable these calls (SHLD-20).
        // it is told to whoever asks ([`super::socket::TcpInfo`]), and to nobody else
        (kind, State::Open(open)) => open.send.soft_error = Some(meaning(kind)),
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
        //# Source Quench TCP implementations MUST silently discard any received ICMP Source
        //# Quench messages (MUST-55).
        _ => {}
    }
}

/// What a soft error tells the application.
fn meaning(kind: IcmpErrorKind) -> TcpError {
    match kind {
        IcmpErrorKind::Unreachable(0 | 6 | 9 | 11) => TcpError::NetworkUnreachable,
        IcmpErrorKind::Unreachable(2 | 3) => TcpError::Refused,
        _ => TcpError::HostUnreachable,
    }
}

fn reduce_mtu<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>, mtu: u16) {
    //= https://www.rfc-editor.org/rfc/rfc8201#section-4
    //# Because each of these messages (and the dropped packets they respond to) consume network
    //# resources, nodes using Path MTU Discovery must detect decreases in PMTU as fast as possible.
    //= https://www.rfc-editor.org/rfc/rfc1191#section-3
    //# Hosts using PMTU Discovery MUST detect decreases in Path MTU as fast as possible.
    let mtu = cx.ip.reduce_mtu(conn.remote.ip(), u32::from(mtu), cx.now);
    //= https://www.rfc-editor.org/rfc/rfc1191#section-6.4
    //# Note: One MUST not retransmit in response to every Datagram Too Big message, since a burst
    //# of several oversized segments will give rise to several such messages and hence several
    //# retransmissions of the same data.
    if mtu >= conn.path.mtu {
        return;
    }
    conn.path.mtu = mtu;
    if let State::Open(open) = &mut conn.state {
        //= https://www.rfc-editor.org/rfc/rfc8201#section-5.4
        //# A packetization layer (e.g., TCP) must use the PMTU for the path(s) in use by a
        //# connection; it should not send segments that would result in packets larger than the
        //# PMTU, except to probe during PMTU Discovery (this probe packet must not be fragmented to
        //# the PMTU).
        //= https://www.rfc-editor.org/rfc/rfc8201#section-5.4
        //# A TCP implementation must also store the Maximum Segment Size (MSS) value received from
        //# its peer, which represents the EMTU_R, the largest packet that can be reassembled by the
        //# receiver, and must not send any segment larger than this MSS, regardless of the PMTU.
        let mss = BlackHole::mss(open, &conn.path);
        open.send.set_mss(mss);
        open.refresh();
    }
}
