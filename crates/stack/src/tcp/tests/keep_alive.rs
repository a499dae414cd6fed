//! Keep-alives (RFC 9293 section 3.8.4).

use core::time::Duration;
use std::vec::Vec;

use super::peer::{ACK, PSH, Peer, RST, mss_only, seg};
use crate::tcp::{TcpError, TcpOption, TcpState};

fn idle(seconds: u64) -> TcpOption {
    TcpOption::KeepAlive(Some(Duration::from_secs(seconds)))
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
//= type=test
//# If keep-alives are included, the application MUST be able to turn them on or off for each TCP
//# connection (MUST-24), and they MUST default to off (MUST-25).
#[test]
fn off_unless_asked_for() {
    let mut p = Peer::active(mss_only(1460));
    assert!(p.pass(Duration::from_secs(100_000)).is_empty());
    p.host.tcp_set_option(p.id(), idle(60));
    assert!(!p.pass(Duration::from_secs(61)).is_empty());
    p.send(&seg(ACK, 1, 1));
    p.host.tcp_set_option(p.id(), TcpOption::KeepAlive(None));
    assert!(p.pass(Duration::from_secs(100_000)).is_empty());
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
//= type=test
//# Consequently, if a keep-alive mechanism is implemented it MUST NOT interpret failure to respond
//# to any specific probe as a dead connection (MUST-29).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
//= type=test
//# An implementation SHOULD send a keep-alive segment with no data (SHLD-12); however, it MAY be
//# configurable to send a keep-alive segment containing one garbage octet (MAY-6), for
//# compatibility with erroneous TCP implementations.
#[test]
fn probes_and_their_end() {
    let mut p = Peer::active(mss_only(1460));
    p.host.tcp_set_option(p.id(), idle(60));
    let sent = p.pass(Duration::from_secs(60 + 8 * 75 + 10));
    assert_eq!(sent.len(), 9);
    assert!(
        sent.iter().all(|(_, s)| s.brief() == (ACK, 0, 1, 0)),
        "an old number, no text"
    );
    assert_eq!(sent[0].0, Duration::from_secs(60));
    assert_eq!(sent[8].0, Duration::from_secs(660));
    assert_eq!(p.state(), TcpState::Established);
    let sent = p.pass(Duration::from_secs(75));
    assert!(sent[0].1.flags.contains(RST));
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
//= type=test
//# This interval MUST be configurable (MUST-27) and MUST default to no less than two hours
//# (MUST-28).
#[test]
fn an_answer_starts_anew() {
    let mut p = Peer::active(mss_only(1460));
    p.host.tcp_set_option(p.id(), idle(60));
    for _ in 0..20 {
        let sent = p.pass(Duration::from_secs(60 + 5 * 75));
        assert_eq!(sent.len(), 6);
        p.send(&seg(ACK, 1, 1));
    }
    assert_eq!(p.state(), TcpState::Established);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
//= type=test
//# Keep-alive packets MUST only be sent when no sent data is outstanding, and no data or
//# acknowledgment packets have been received for the connection within an interval (MUST-26).
#[test]
fn not_while_data_is_under_way() {
    let mut p = Peer::active(mss_only(1460));
    p.host.tcp_set_option(p.id(), idle(1));
    p.write(b"unheard");
    let sent = p.pass(Duration::from_secs(100));
    assert!(
        sent.iter().all(|(_, s)| s.payload == b"unheard"),
        "{sent:?}"
    );
}

/// A time of nothing is not a loop without end.
#[test]
fn no_idle_time_at_all() {
    let mut p = Peer::active(mss_only(1460));
    p.host
        .tcp_set_option(p.id(), TcpOption::KeepAlive(Some(Duration::ZERO)));
    p.write(b"under way");
    assert!(p.pass(Duration::from_secs(10)).len() < 30);
}

#[test]
fn our_answer_to_a_probe() {
    let mut p = Peer::active(mss_only(1460));
    assert_eq!(p.brief(&seg(ACK, 0, 1)), [(ACK, 1, 1, 0)]);
    p.pass(Duration::from_secs(1));
    assert_eq!(
        p.brief(&seg(ACK, 0, 1).text(b"g")),
        [(ACK, 1, 1, 0)],
        "with an octet of garbage"
    );
    assert_eq!(p.read(), b"");
}

#[test]
fn each_connection_has_its_own_interval_and_number() {
    let seconds = Duration::from_secs;
    let mut p = Peer::active(mss_only(1460));
    for option in [
        TcpOption::KeepAliveInterval(Some(seconds(5))),
        TcpOption::KeepAliveProbes(Some(3)),
        idle(60),
    ] {
        p.host.tcp_set_option(p.id(), option);
    }
    let sent = p.pass(seconds(60 + 3 * 5 + 1));
    let when: Vec<_> = sent.iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(when, [60, 65, 70, 75], "three probes and the reset");
    assert!(sent[3].1.flags.contains(RST));
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
    // back to the configuration's
    let mut p = Peer::active(mss_only(1460));
    for option in [
        TcpOption::KeepAliveInterval(Some(seconds(5))),
        TcpOption::KeepAliveInterval(None),
        TcpOption::KeepAliveProbes(Some(1)),
        TcpOption::KeepAliveProbes(None),
        idle(60),
    ] {
        p.host.tcp_set_option(p.id(), option);
    }
    assert_eq!(p.pass(seconds(60 + 8 * 75 + 10)).len(), 9);
}

/// As Linux has it (tcp(7), TCP_USER_TIMEOUT).
#[test]
fn a_time_set_by_the_application_stands_for_the_number() {
    let seconds = Duration::from_secs;
    for (most, last) in [(12, 15), (40, 40)] {
        let mut p = Peer::active(mss_only(1460));
        for option in [
            TcpOption::UserTimeout(Some(seconds(most))),
            TcpOption::KeepAliveInterval(Some(seconds(5))),
            TcpOption::KeepAliveProbes(Some(2)),
            idle(10),
        ] {
            p.host.tcp_set_option(p.id(), option);
        }
        let sent = p.pass(seconds(100));
        let (at, end) = sent.last().expect("probes");
        assert!(end.flags.contains(RST), "{sent:?}");
        assert_eq!(at.as_secs(), last);
        assert_eq!(p.state(), TcpState::Closed);
    }
}

/// What fails the checks of sequence or acknowledgement number may come from anywhere: it neither
/// puts a probe off nor answers one.
#[test]
fn a_segment_that_is_not_acceptable_answers_no_probe() {
    for (name, forged) in [
        ("behind the window", seg(ACK, 1_000_000, 1).text(b"x")),
        (
            "before the window",
            seg(ACK, 0u32.wrapping_sub(100_000), 1).text(b"x"),
        ),
        ("acknowledges too much", seg(ACK, 1, 1_000_000)),
        ("acknowledges nothing", seg(PSH, 1, 0).text(b"x")),
        ("a reset that is not exact", seg(RST, 100, 1)),
    ] {
        let mut p = Peer::active(mss_only(1460));
        p.host.tcp_set_option(p.id(), idle(60));
        let mut probes = 0;
        for _ in 0..(660 + 75) / 15 {
            let sent = p.pass(Duration::from_secs(15));
            probes += sent.iter().filter(|(_, s)| s.seq == 0).count();
            p.send(&forged);
        }
        assert_eq!(probes, 9, "{name}");
        assert_eq!(p.state(), TcpState::Closed, "{name}");
    }
}
