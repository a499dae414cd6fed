//! ICMP errors (RFC 9293 section 3.9.2.2, RFC 5927, RFC 1191): rows C3 to C5 of the list of bad
//! input.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::vec::Vec;

use gannet_wire::checksum::sum;

use super::peer::{ACK, Peer, mss_only, seg};
use crate::tcp::{TcpError, TcpEvent, TcpState};
use crate::testing::packet::four;

impl Peer {
    /// An ICMP error from a router about our segment at `seq`.
    pub(super) fn icmp(&mut self, (kind, code): (u8, u8), rest: u32, seq: u32) {
        let mut quoted = [0u8; 28];
        quoted[0] = 0x45;
        quoted[2..4].copy_from_slice(&1500u16.to_be_bytes());
        quoted[8] = 60;
        quoted[9] = 6;
        quoted[12..16].copy_from_slice(&four(self.at.ip()).octets());
        quoted[16..20].copy_from_slice(&four(self.me.ip()).octets());
        let checksum = sum(&quoted[..20]).finish();
        quoted[10..12].copy_from_slice(&checksum.to_be_bytes());
        quoted[20..22].copy_from_slice(&self.at.port().to_be_bytes());
        quoted[22..24].copy_from_slice(&self.me.port().to_be_bytes());
        quoted[24..28].copy_from_slice(&seq.wrapping_add(self.irs).to_be_bytes());
        let mut bytes = [&[kind, code, 0, 0], &rest.to_be_bytes()[..], &quoted].concat();
        let checksum = sum(&bytes).finish();
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut packet = std::vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0];
        packet.extend_from_slice(&[192, 0, 2, 254]);
        packet.extend_from_slice(&four(self.at.ip()).octets());
        let total = (packet.len() + bytes.len()) as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let checksum = sum(&packet).finish();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend_from_slice(&bytes);
        self.inject(&packet);
    }

    fn icmp_now(&mut self, what: (u8, u8), rest: u32, seq: u32) -> Vec<super::peer::Seg> {
        self.icmp(what, rest, seq);
        self.poll()
    }
}

/// C3: about what is not under way: ignored.
//= https://www.rfc-editor.org/rfc/rfc8899#section-4.6.1
//= type=test
//# A PL that supports PTB messages MUST validate these messages before they are further processed.
//= https://www.rfc-editor.org/rfc/rfc8899#section-4.6.1
//= type=test
//# A PTB message that does not complete the validation MUST NOT be further utilized by the DPLPMTUD
//# method, as discussed in the Security Considerations section (Section 8).
#[test]
fn c3_outside_what_is_in_flight() {
    for seq in [0, 3001, 3002, 0x8000_0001] {
        let mut p = Peer::active(mss_only(1460));
        p.write(&[1; 3000]);
        assert_eq!(p.icmp_now((3, 4), 600, seq), []);
        assert_eq!(p.count(TcpEvent::IcmpOutOfWindow), 1, "{seq}");
        assert_eq!(p.host.tcp_info(p.id()).expect("open").send_mss, 1460);
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
//= type=test
//# Since these Unreachable messages indicate soft error conditions, a TCP implementation MUST NOT
//# abort the connection (MUST-56), and it SHOULD make the information available to the application
//# (SHLD-25).
#[test]
fn c4_errors_do_not_end_an_open_connection() {
    let kinds = (0..16)
        .map(|code| (3, code))
        .chain([(4, 0), (5, 0), (11, 0), (11, 1), (12, 0)]);
    for what in kinds.filter(|&w| w != (3, 4)) {
        let mut p = Peer::active(mss_only(1460));
        p.write(&[1; 3000]);
        p.icmp_now(what, 0, 1);
        assert_eq!(p.state(), TcpState::Established, "{what:?}");
        let cwnd = p.host.tcp_info(p.id()).expect("open").congestion_window;
        assert_eq!(cwnd, 14_600, "no quench: {what:?}");
        p.send(&seg(ACK, 1, 3001));
        assert_eq!(p.write(b"on").len(), 1);
    }
}

/// What an error says is told while it holds, and why the connection ended when it does.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.8
//= type=test
//# There MUST be a mechanism for reporting soft TCP error conditions to the application (MUST-47).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.4
//= type=test
//# An incoming Time Exceeded message MUST be passed to the transport layer.
#[test]
fn soft_errors_of_an_open_connection_are_told() {
    let rows = [
        ((3, 0), TcpError::NetworkUnreachable),
        ((3, 1), TcpError::HostUnreachable),
        ((3, 3), TcpError::Refused),
        ((3, 13), TcpError::HostUnreachable),
        ((11, 0), TcpError::HostUnreachable),
    ];
    for (what, error) in rows {
        let mut p = Peer::active(mss_only(1460));
        let told = |p: &Peer| p.host.tcp_info(p.id()).expect("open").soft_error;
        p.icmp_now(what, 0, 1);
        assert_eq!(told(&p), None, "nothing was under way: {what:?}");
        p.write(&[1; 3000]);
        p.icmp_now(what, 0, 1);
        assert_eq!(told(&p), Some(error), "{what:?}");
        let status = p.host.tcp_status(p.id()).expect("open");
        assert_eq!(status.error, None, "soft: {what:?}");
        p.send(&seg(ACK, 1, 1461));
        assert_eq!(told(&p), None, "something got through: {what:?}");
        p.icmp_now(what, 0, 1461);
        p.pass(Duration::from_secs(3600));
        assert_eq!(p.host.tcp_take_error(p.id()), Some(error), "{what:?}");
    }
    let mut p = Peer::active(mss_only(1460));
    p.write(&[1; 3000]);
    for what in [(4, 0), (5, 0)] {
        p.icmp_now(what, 0, 1);
    }
    assert_eq!(p.host.tcp_info(p.id()).expect("open").soft_error, None);
}

/// An attempt to connect ends with a hard error, and only if it is about our SYN.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
//= type=test
//# TCP implementations MUST act on an ICMP error message passed up from the IP layer, directing
//# it to the connection that created the error (MUST-54).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
//= type=test
//# These are hard error conditions, so TCP implementations SHOULD abort the connection (SHLD-26).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
//= type=test
//# A transport protocol that has its own mechanism for notifying the sender that a port is
//# unreachable (e.g., TCP, which sends RST segments) MUST nevertheless accept an ICMP Port
//# Unreachable for the same purpose.
#[test]
fn a_connect_fails_at_once() {
    for (code, error) in [(3, TcpError::Refused), (2, TcpError::Refused)] {
        let mut p = Peer::new();
        p.connect();
        p.icmp_now((3, code), 0, 77);
        assert_eq!(p.state(), TcpState::SynSent, "not about our SYN");
        p.icmp_now((3, code), 0, 0);
        assert_eq!(p.host.tcp_take_error(p.id()), Some(error));
    }
}

/// A soft error does not end an attempt, but says why it ended when it does.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
//= type=test
//# A Destination Unreachable message that is received with code 0 (Net), 1 (Host), or 5 (Bad Source
//# Route) may result from a routing transient and MUST therefore be interpreted as only a hint, not
//# proof, that the specified destination is unreachable [IP:11].
#[test]
fn a_soft_error_explains_a_failed_connect() {
    let rows = [
        (0, TcpError::NetworkUnreachable),
        (1, TcpError::HostUnreachable),
    ];
    for (code, error) in rows {
        let mut p = Peer::new();
        p.connect();
        p.icmp_now((3, code), 0, 0);
        assert_eq!(p.state(), TcpState::SynSent);
        p.pass(Duration::from_secs(300));
        assert_eq!(p.host.tcp_take_error(p.id()), Some(error));
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.2
//= type=test
//# Source Quench TCP implementations MUST silently discard any received ICMP Source Quench messages
//# (MUST-55).
//= https://www.rfc-editor.org/rfc/rfc6633#section-3
//= type=test
//# TCP MUST silently discard any received ICMP Source Quench messages.
#[test]
fn c4_source_quench() {
    let mut p = Peer::active(mss_only(1460));
    p.write(&[1; 3000]);
    assert_eq!(p.icmp_now((4, 0), 0, 1), []);
    assert_eq!(
        p.host.tcp_info(p.id()).expect("open").congestion_window,
        14_600
    );
}

/// C5: (what the router says, the segment size afterwards)
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//= type=test
//# A host MUST not increase its estimate of the Path MTU in response to the contents of a Datagram
//# Too Big message.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//= type=test
//# Hosts MUST be able to deal with Datagram Too Big messages that do not include the next-hop MTU,
//# since it is not feasible to upgrade all the routers in the Internet in any finite time.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//= type=test
//# When a host receives a Datagram Too Big message, it MUST reduce its estimate of the PMTU for the
//# relevant path, based on the value of the Next-Hop MTU field in the message (see section 4).
#[test]
fn c5_fragmentation_needed() {
    let table = [
        (1400, 1360),
        (600, 560),
        (552, 512),
        (551, 512),
        (68, 512),
        (1, 512),
        (0, 1452), // it does not tell: the next of the likely sizes
    ];
    let table = table
        .into_iter()
        .chain([(1500, 1460), (1501, 1460), (65_535, 1460)]);
    for (mtu, mss) in table {
        let mut p = Peer::active(mss_only(1460));
        p.write(&[1; 14_600]);
        let out = p.icmp_now((3, 4), mtu, 1);
        let info = p.host.tcp_info(p.id()).expect("open");
        assert_eq!(info.send_mss, mss, "{mtu}");
        // no collapse: the same number of segments may be under way
        assert!(
            info.congestion_window >= 10 * mss,
            "{mtu}: {}",
            info.congestion_window
        );
        if mss < 1460 {
            assert_eq!(
                (out[0].seq, out[0].len()),
                (1, mss),
                "sent again, smaller: {mtu}"
            );
        } else {
            assert_eq!(out, []);
        }
        let mut una = 1;
        while una < 14_601 {
            una += p.host.tcp_info(p.id()).expect("open").in_flight;
            p.send(&seg(ACK, 1, una));
        }
        p.assert_memory_is_back();
    }
}

/// C5: the same lie again and again.
//= https://www.rfc-editor.org/rfc/rfc1191#section-6.4
//= type=test
//# Note: One MUST not retransmit in response to every Datagram Too Big message, since a burst of
//# several oversized segments will give rise to several such messages and hence several
//# retransmissions of the same data.
#[test]
fn c5_repeated() {
    let mut p = Peer::active(mss_only(1460));
    p.write(&[1; 14_600]);
    let mut sent = 0;
    for n in 0..10_000u32 {
        p.icmp((3, 4), 68 + n % 600, 1);
        if n % 100 == 99 {
            sent += p.poll().len();
        }
    }
    assert!(sent < 100, "{sent} segments for lies");
    assert_eq!(p.host.tcp_info(p.id()).expect("open").send_mss, 512);
}

/// A new connection begins with the size that is known to fit.
#[test]
fn the_path_is_remembered() {
    let mut p = Peer::active(mss_only(1460));
    p.write(&[1; 3000]);
    p.icmp_now((3, 4), 1000, 1);
    p.me = SocketAddr::new(IpAddr::from([192, 0, 2, 2]), 4001);
    p.open(mss_only(1460));
    assert_eq!(p.write(&[1; 3000])[0].len(), 960);
}
