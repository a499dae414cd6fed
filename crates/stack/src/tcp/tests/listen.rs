//! RFC 9293 section 3.10.7.2: a segment for a listener; and the listener itself.

use core::net::{IpAddr, SocketAddr};

use super::peer::{ACK, FIN, Peer, RST, SYN, all_options, mss_only, seg};
use crate::tcp::{ListenError, TcpEvent, TcpReady, TcpState};
use gannet_wire::tcp::{Flags, Options};

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.2
//= type=test
//# An incoming RST should be ignored.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.2
//= type=test
//# This field may be sent in the initial connection request (i.e., in segments with the SYN
//# control bit set) and MUST NOT be sent in other segments (MUST-65).
//= https://www.rfc-editor.org/rfc/rfc2018#section-2
//= type=test
//# It MUST NOT be sent on non-SYN segments.
#[test]
fn section_3_10_7_2() {
    let none = Flags::empty();
    let table = [
        (seg(RST, 7, 0), None), // first, check for a RST
        (seg(RST | SYN, 7, 0), None),
        (seg(ACK, 7, 9), Some((RST, 9, 0, 0))), // second, check for an ACK
        (seg(SYN | ACK, 7, 9), Some((RST, 9, 0, 0))),
        (seg(SYN, 0, 0), Some((SYN | ACK, 0, 1, 0))), // third, check for a SYN
        (seg(SYN, 0, 0).text(b"early"), Some((SYN | ACK, 0, 1, 0))),
        (seg(SYN | FIN, 0, 0), Some((SYN | ACK, 0, 1, 0))),
        (seg(none, 7, 0), None), // fourth, other text or control
        (seg(FIN, 7, 0), None),
    ];
    for (segment, answer) in table {
        let mut p = Peer::new();
        p.listen(4);
        let expected: std::vec::Vec<_> = answer.into_iter().collect();
        assert_eq!(p.brief(&segment), expected, "{segment:?}");
        let opened = answer.is_some_and(|a| a.0.contains(SYN));
        assert_eq!(p.host.tcp_connections(), usize::from(opened));
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
//= type=test
//# Every passive OPEN call either creates a new connection record in LISTEN state, or it returns an
//# error; it MUST NOT affect any previously created connection record (MUST-41).
#[test]
fn a_second_listener_is_refused_and_the_first_lives() {
    let mut p = Peer::new();
    p.listen(4);
    for address in [
        IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
        crate::testing::A,
    ] {
        let again = p.host.tcp_listen(SocketAddr::new(address, 80), 1);
        assert_eq!(again, Err(ListenError::AddressInUse));
    }
    let strange = SocketAddr::new(IpAddr::from([10, 9, 8, 7]), 81);
    assert_eq!(
        p.host.tcp_listen(strange, 1),
        Err(ListenError::AddressNotAvailable)
    );
    assert_eq!(p.brief(&seg(SYN, 0, 0)), [(SYN | ACK, 0, 1, 0)]);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
//= type=test
//# A TCP implementation that supports multiple concurrent connections MUST provide an OPEN call
//# that will functionally allow an application to LISTEN on a port while a connection block with
//# the same local port is in SYN-SENT or SYN-RECEIVED state (MUST-42).
#[test]
fn listening_beside_a_connection_being_opened() {
    let mut p = Peer::new();
    let syn = p.connect();
    assert_eq!(p.state(), TcpState::SynSent);
    let port = p.at.port();
    assert!(
        p.host
            .tcp_listen(
                SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), port),
                1
            )
            .is_ok()
    );
    assert_eq!(syn.seq, 0);
}

/// What is offered is answered, what is not is left out.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
//= type=test
//# TCP implementations SHOULD send an MSS Option in every SYN segment when its receive MSS
//# differs from the default 536 for IPv4 or 1220 for IPv6 (SHLD-5), and MAY send it always
//# (MAY-3).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
//= type=test
//# where MMS_R is the maximum size for a transport-layer message that can be received (and
//# reassembled at the IP layer) (MUST-67).
#[test]
fn options_of_the_answer() {
    let offers = [Options::NONE, mss_only(536), all_options()];
    for offer in offers {
        let mut p = Peer::new();
        p.listen(4);
        let answer = p.send(&seg(SYN, 0, 0).options(offer)).remove(0).options;
        assert_eq!(answer.mss, Some(1460), "always sent");
        assert_eq!(answer.window_scale.is_some(), offer.window_scale.is_some());
        assert_eq!(answer.sack_permitted, offer.sack_permitted);
        assert_eq!(answer.timestamps.is_some(), offer.timestamps.is_some());
        let echo = answer.timestamps.map(|t| t.1);
        assert_eq!(echo, offer.timestamps.map(|t| t.0), "TSecr echoes TSval");
    }
}

/// The accept queue is full: no SYN is answered, and the last acknowledgement of a handshake is
/// dropped, so that the peer sends again what it believes to be connected for.
#[test]
fn the_accept_queue_bounds_and_is_given_back() {
    let mut p = Peer::new();
    p.listen(2);
    let mut irs = [0; 3];
    for n in 0..3 {
        p.me.set_port(1000 + n);
        p.send(&seg(SYN, 0, 0));
        irs[usize::from(n)] = p.irs;
    }
    for n in 0..3 {
        p.me.set_port(1000 + n);
        p.irs = irs[usize::from(n)];
        assert_eq!(p.brief(&seg(ACK, 1, 1)), []);
    }
    assert_eq!(p.count(TcpEvent::AcceptQueueFull), 1);
    assert_eq!(p.host.tcp_connections(), 3);
    p.me.set_port(1003);
    assert_eq!(p.brief(&seg(SYN, 0, 0)), []);
    assert_eq!(p.count(TcpEvent::BacklogFull), 1);
    assert!(matches!(
        p.host.tcp_take_ready(),
        Some(TcpReady::Listener(_))
    ));
    p.accept();
    // its text comes again, and finds room
    p.me.set_port(1002);
    p.irs = irs[2];
    let text = seg(ACK, 1, 1).text(b"x");
    assert_eq!(p.brief(&text), []);
    p.accept();
    p.accept();
    assert_eq!(p.read(), b"x");
}

#[test]
fn a_closed_listener_resets_what_it_made() {
    let mut p = Peer::new();
    p.listen(4);
    p.send(&seg(SYN, 0, 0)); // being opened
    p.me.set_port(4001);
    p.send(&seg(SYN, 0, 0));
    p.send(&seg(ACK, 1, 1)); // waits to be accepted
    p.me.set_port(4002);
    p.send(&seg(SYN, 0, 0));
    p.send(&seg(ACK, 1, 1));
    p.send(&seg(RST, 1, 1)); // was reset while it waited
    p.host
        .tcp_close_listener(p.now, p.listener.expect("listens"));
    let out = p.poll();
    assert_eq!(
        out.iter().filter(|s| s.flags.contains(RST)).count(),
        2,
        "{out:?}"
    );
    assert_eq!(p.host.tcp_connections(), 0);
    assert_eq!(
        p.brief(&seg(SYN, 0, 0)),
        [(RST | ACK, 0u32.wrapping_sub(p.irs), 1, 0)]
    );
}

/// Opened, filled and finished before the application looks.
#[test]
fn over_before_accepted() {
    let mut p = Peer::new();
    p.listen(1);
    p.send(&seg(SYN, 0, 0));
    p.send(&seg(ACK | FIN, 1, 1).text(b"all there is"));
    p.accept();
    assert_eq!(p.state(), TcpState::CloseWait);
    assert_eq!(p.read(), b"all there is");
    p.close();
    p.send(&seg(ACK, 14, 2));
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.3
//= type=test
//# A TCP implementation MUST silently discard an incoming SYN segment that is addressed to a
//# broadcast or multicast address [(MUST-57)].
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.3
//= type=test
//# An incoming SYN with an invalid source address MUST be ignored either by TCP or by the IP
//# layer [(MUST-63)] (see Section 3.2.1.3).
#[test]
fn impossible_addresses_of_a_syn() {
    let mut p = Peer::new();
    p.listen(4);
    let at = p.at;
    for to in [[255, 255, 255, 255], [192, 0, 2, 255], [224, 0, 0, 1]] {
        p.at = SocketAddr::new(to.into(), 80);
        assert_eq!(p.send(&seg(SYN, 0, 0)), [], "to {to:?}");
    }
    p.at = at;
    for from in [
        [0, 0, 0, 0],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [192, 0, 2, 255],
        [192, 0, 2, 1],
    ] {
        p.me = SocketAddr::new(from.into(), 4000);
        assert_eq!(p.send(&seg(SYN, 0, 0)), [], "from {from:?}");
    }
    assert_eq!(p.host.tcp_connections(), 0);
}
