//! Closing (RFC 9293 section 3.6): every order of FINs, half-closed connections, resets, orphans.

use core::time::Duration;

use super::peer::{ACK, FIN, PSH, Peer, RST, mss_only, seg};
use crate::tcp::{SendError, Shutdown, TcpOption, TcpState};

#[test]
fn figure_12_normal_close() {
    let mut p = Peer::active(mss_only(1460));
    assert_eq!(p.shutdown()[0].brief(), (FIN | ACK, 1, 1, 0));
    assert_eq!(p.state(), TcpState::FinWait1);
    p.send(&seg(ACK, 1, 2));
    assert_eq!(p.state(), TcpState::FinWait2);
    assert_eq!(p.brief(&seg(FIN | ACK, 1, 2)), [(ACK, 2, 2, 0)]);
    assert_eq!(p.state(), TcpState::TimeWait);
    p.close();
    p.pass(Duration::from_secs(59));
    assert_eq!(p.host.tcp_connections(), 1, "lingers for 2 MSL");
    p.pass(Duration::from_secs(2));
    assert_eq!(p.host.tcp_connections(), 0);
}

#[test]
fn figure_13_simultaneous_close() {
    let mut p = Peer::active(mss_only(1460));
    p.shutdown();
    assert_eq!(p.brief(&seg(FIN | ACK, 1, 1)), [(ACK, 2, 2, 0)]);
    assert_eq!(p.state(), TcpState::Closing);
    assert_eq!(p.brief(&seg(ACK, 2, 2)), []);
    assert_eq!(p.state(), TcpState::TimeWait);
}

#[test]
fn t11_crossing_fins_in_one_segment_with_the_ack() {
    let mut p = Peer::active(mss_only(1460));
    p.shutdown();
    assert_eq!(p.brief(&seg(FIN | ACK, 1, 2)), [(ACK, 2, 2, 0)]);
    assert_eq!(p.state(), TcpState::TimeWait);
}

#[test]
fn passive_close_with_text_still_to_send() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(FIN | ACK, 1, 1));
    assert_eq!(p.state(), TcpState::CloseWait);
    let out = p.write(b"last words");
    assert_eq!(out[0].brief(), (ACK | PSH, 1, 2, 10));
    assert_eq!(p.close()[0].brief(), (FIN | ACK, 11, 2, 0));
    p.send(&seg(ACK, 2, 11));
    assert_eq!(p.host.tcp_connections(), 1);
    p.send(&seg(ACK, 2, 12));
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

#[test]
fn half_closed_connections_read_on() {
    let mut p = Peer::active(mss_only(1460));
    p.shutdown();
    p.send(&seg(ACK, 1, 2));
    p.send(&seg(ACK, 1, 2).text(b"still here"));
    assert_eq!(p.read(), b"still here");
    let refused = p.host.tcp_send(p.now, p.id(), b"no");
    assert_eq!(refused, Err(SendError::ShutDown));
}

/// The last ACK is lost: the FIN comes again and is acknowledged again; 2 MSL start anew.
#[test]
fn t11_lost_last_ack() {
    for release in [false, true] {
        let mut p = Peer::active(mss_only(1460));
        p.shutdown();
        p.send(&seg(FIN | ACK, 1, 2));
        if release {
            p.close();
        }
        p.pass(Duration::from_secs(50));
        assert_eq!(p.brief(&seg(FIN | ACK, 1, 2)), [(ACK, 2, 2, 0)]);
        p.pass(Duration::from_secs(50));
        assert_eq!(
            p.brief(&seg(FIN | ACK, 1, 2)),
            [(ACK, 2, 2, 0)],
            "{release}"
        );
    }
}

/// The FIN alone is lost: it is sent again with back-off until it is acknowledged.
#[test]
fn a_lost_fin_is_sent_again() {
    let mut p = Peer::active(mss_only(1460));
    p.shutdown();
    let again = p.pass(Duration::from_secs(2));
    assert!(again.len() >= 2, "{again:?}");
    assert!(again.iter().all(|(_, s)| s.brief() == (FIN | ACK, 1, 1, 0)));
    p.send(&seg(ACK, 1, 2));
    assert_eq!(p.state(), TcpState::FinWait2);
    assert!(p.pass(Duration::from_secs(30)).is_empty());
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
//= type=test
//# If PUSH flags are not implemented, then the sending TCP peer: (1) MUST NOT buffer data
//# indefinitely (MUST-60), and (2) MUST set the PSH bit in the last buffered segment (i.e., when
//# there is no more queued data to be sent) (MUST-61).
#[test]
fn the_fin_follows_the_text_before_it() {
    let mut p = Peer::active(mss_only(1000));
    let (now, id) = (p.now, p.id());
    p.host.tcp_send(now, id, &[1; 2500]).expect("room");
    p.host.tcp_close(now, id);
    let out: std::vec::Vec<_> = p.poll().iter().map(super::peer::Seg::brief).collect();
    let last = [(PSH | ACK, 2001, 1, 500), (FIN | ACK, 2501, 1, 0)];
    assert_eq!(out[2..], last);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
//= type=test
//# If such a host issues a CLOSE call while received data is still pending in the TCP connection,
//# or if new data is received after CLOSE is called, its TCP implementation SHOULD send a RST to
//# show that data was lost (SHLD-3).
#[test]
fn unread_text_resets() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).text(b"unread"));
    assert!(p.close()[0].flags.contains(RST));
    assert_eq!(p.host.tcp_connections(), 0);
    let mut p = Peer::active(mss_only(1460));
    p.close();
    let out = p.send(&seg(ACK, 1, 2).text(b"too late"));
    assert!(out[0].flags.contains(RST), "{out:?}");
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

#[test]
fn a_linger_of_zero_resets() {
    let mut p = Peer::active(mss_only(1460));
    p.write(b"unacknowledged");
    p.host
        .tcp_set_option(p.id(), TcpOption::Linger(Some(Duration::ZERO)));
    let out = p.close();
    assert_eq!(out[0].brief(), (RST | ACK, 15, 1, 0));
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

#[test]
fn abort_in_every_state() {
    for state in super::peer::STATES {
        let (mut p, ..) = Peer::in_state(state);
        p.host.tcp_abort(p.now, p.id());
        let out = p.poll();
        let quiet = state == TcpState::SynSent;
        let resets = out.iter().filter(|s| s.flags.contains(RST)).count();
        assert_eq!(resets, usize::from(!quiet), "{state:?}");
        assert_eq!(p.host.tcp_connections(), 0);
        p.assert_memory_is_back();
    }
}

/// An orphan does not wait for ever for a FIN that never comes.
#[test]
fn fin_wait_2_of_an_orphan_ends() {
    let (mut p, ..) = Peer::in_state(TcpState::FinWait2);
    p.pass(Duration::from_secs(3600));
    assert_eq!(
        p.state(),
        TcpState::FinWait2,
        "as long as the application holds it"
    );
    p.close();
    p.pass(Duration::from_secs(61));
    assert_eq!(p.host.tcp_connections(), 0);
}

/// Nor does it hold memory for a peer that answers probes but never opens its window.
#[test]
fn an_orphan_before_a_closed_window_is_given_up() {
    let mut p = Peer::active(mss_only(1460));
    p.write(b"0123456789");
    p.send(&seg(ACK, 1, 1).window(0));
    p.close();
    for _ in 0..2000 {
        p.pass(Duration::from_secs(1));
        p.send(&seg(ACK, 1, 1).window(0));
    }
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

#[test]
fn shutdown_of_reading_throws_away_and_opens_the_window() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).text(b"nobody reads this"));
    p.host
        .tcp_shutdown(p.now, p.id(), Shutdown::Read)
        .expect("open");
    p.poll();
    assert_eq!(p.host.tcp_recv(p.now, p.id(), &mut [0; 8]), Ok(0));
    p.send(&seg(ACK, 18, 1).text(&[7; 1460]));
    let out = p.send(&seg(ACK, 1478, 1).text(&[7; 1460]));
    assert_eq!(out[0].ack, 2938, "acknowledged all the same");
    p.assert_memory_is_back();
}

/// Closing twice, and calls on what is gone, do nothing.
#[test]
fn ids_that_outlived_their_connection() {
    let mut p = Peer::active(mss_only(1460));
    let id = p.id();
    p.host.tcp_abort(p.now, id);
    p.host.tcp_abort(p.now, id);
    p.host.tcp_close(p.now, id);
    assert_eq!(p.host.tcp_status(id), None);
    assert!(p.host.tcp_send(p.now, id, b"x").is_err());
    assert!(p.host.tcp_recv(p.now, id, &mut [0; 1]).is_err());
    assert!(p.host.tcp_shutdown(p.now, id, Shutdown::Both).is_err());
    assert!(!p.host.tcp_set_option(id, TcpOption::NoDelay(true)));
}
