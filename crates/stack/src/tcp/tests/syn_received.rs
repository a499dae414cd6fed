//! RFC 9293 section 3.10.7.4 for SYN-RECEIVED, passive and active.

use core::time::Duration;

use super::peer::{ACK, FIN, Peer, RST, SYN, mss_only, seg};
use crate::tcp::{TcpError, TcpState};
use gannet_wire::tcp::Flags;
use std::vec::Vec;

fn passive() -> Peer {
    let mut p = Peer::new();
    p.listen(4);
    let out = p.brief(&seg(SYN, 0, 0).options(mss_only(1460)));
    assert_eq!(out, [(SYN | ACK, 0, 1, 0)]);
    p
}

/// (segment, answer, connections left, connections to accept)
#[test]
fn section_3_10_7_4_passive() {
    let none = Flags::empty();
    let left = u32::MAX; // one before our SYN
    let table = [
        // first, check sequence number
        (seg(ACK, left, 1), Some((ACK, 1, 1, 0)), 1, 0),
        (seg(ACK, 1 + 65_535, 1), Some((ACK, 1, 1, 0)), 1, 0),
        (seg(RST, left, 0), None, 1, 0),
        (seg(RST, 1 + 65_535, 0), None, 1, 0),
        // a host that lost its memory begins anew: the answer makes it reset the old attempt
        (seg(SYN, 0x4000_0000, 0), Some((ACK, 1, 1, 0)), 1, 0),
        (seg(SYN, 0, 0), Some((SYN | ACK, 0, 1, 0)), 1, 0),
        // second, check the RST bit (RFC 5961: only an exact one)
        (seg(RST, 1, 0), None, 0, 0),
        (seg(RST | ACK, 1, 1), None, 0, 0),
        (seg(RST, 2, 0), Some((ACK, 1, 1, 0)), 1, 0),
        // fourth, check the SYN bit: a passive open returns to LISTEN
        (seg(SYN, 100, 0), None, 0, 0),
        // fifth, check the ACK field
        (seg(none, 1, 0), None, 1, 0),
        (seg(ACK, 1, 0), Some((RST, 0, 0, 0)), 1, 0),
        (seg(ACK, 1, 2), Some((RST, 2, 0, 0)), 1, 0),
        (seg(ACK, 1, 1), None, 1, 1),
        (seg(ACK, 1, 1).text(b"x"), None, 1, 1),
        (seg(ACK | FIN, 1, 1), Some((ACK, 1, 2, 0)), 1, 1),
    ];
    for (segment, answer, connections, accepted) in table {
        let mut p = passive();
        let expected: Vec<_> = answer.into_iter().collect();
        assert_eq!(p.brief(&segment), expected, "{segment:?}");
        assert_eq!(p.host.tcp_connections(), connections, "{segment:?}");
        let n = core::iter::from_fn(|| p.host.tcp_accept(p.listener?)).count();
        assert_eq!(n, accepted, "{segment:?}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.5
//= type=test
//# Note that a TCP implementation MUST keep track of whether a connection has reached SYN-RECEIVED
//# state as the result of a passive OPEN or an active OPEN (MUST-11).
#[test]
fn a_reset_tells_who_asked() {
    let (mut p, seq, _) = Peer::in_state(TcpState::SynReceived);
    p.send(&seg(RST, seq, 0));
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::Refused));
    let mut p = passive();
    p.send(&seg(RST, 1, 0));
    assert_eq!(
        p.host.tcp_connections(),
        0,
        "back to LISTEN, nobody is told"
    );
    assert!(!p.host.tcp_can_accept(p.listener.expect("listens")));
    assert_eq!(p.brief(&seg(SYN, 0, 0)), [(SYN | ACK, 0, 1, 0)]);
}

#[test]
fn an_unexpected_syn_does_not_end_an_active_open() {
    let (mut p, ..) = Peer::in_state(TcpState::SynReceived);
    assert_eq!(p.brief(&seg(SYN, 100, 0)), [(ACK, 1, 1, 0)]);
    assert_eq!(p.state(), TcpState::SynReceived);
}

#[test]
fn the_syn_ack_is_sent_again_and_given_up() {
    let mut p = passive();
    let again = p.pass(Duration::from_secs(600));
    let times: Vec<_> = again.iter().map(|(t, _)| t.as_secs()).collect();
    assert_eq!(times, [1, 3, 7, 15, 31]);
    assert!(again.iter().all(|(_, s)| s.brief() == (SYN | ACK, 0, 1, 0)));
    assert_eq!(p.host.tcp_connections(), 0);
}

/// A host that crashed and comes back with the same port: its SYN is answered with where we are,
/// it resets, and its next SYN opens.
#[test]
fn a_peer_that_restarted_gets_in() {
    let mut p = passive();
    assert_eq!(p.brief(&seg(SYN, 0x4000_0000, 0)), [(ACK, 1, 1, 0)]);
    p.send(&seg(RST, 1, 0));
    assert_eq!(p.host.tcp_connections(), 0);
    let out = p.brief(&seg(SYN, 0x4000_0000, 0));
    assert_eq!(out, [(SYN | ACK, 0, 0x4000_0001, 0)]);
}
