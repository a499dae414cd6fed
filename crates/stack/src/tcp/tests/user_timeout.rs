//! The user time-out option (RFC 5482).

use core::time::Duration;

use gannet_wire::tcp::{Options, UserTimeout};

use super::peer::{ACK, PSH, Peer, SYN, all_options, mss_only, seg};
use crate::tcp::{TcpError, TcpOption, TcpState};

fn seconds(n: u64) -> Option<Duration> {
    Some(Duration::from_secs(n))
}

fn said(seconds: u64) -> Options {
    let mut options = Options::NONE;
    let timeout = UserTimeout::new(Duration::from_secs(seconds));
    options.set_user_timeout(timeout.expect("not 0"));
    options
}

fn told(seg: &super::peer::Seg) -> Option<Duration> {
    seg.options.user_timeout().map(UserTimeout::duration)
}

fn advertise(p: &mut Peer, n: u64) {
    let option = TcpOption::AdvertiseUserTimeout(seconds(n));
    assert!(p.host.tcp_set_option(p.id(), option));
}

/// Who did not ask for it neither sends nor believes it.
#[test]
fn off_unless_asked_for() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).options(said(5)));
    let sent = p.write(b"text");
    assert!(sent.iter().all(|s| told(s).is_none()));
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.peer_user_timeout, None);
}

/// The next segment tells it, once; text or not, with all other options.
#[test]
fn told_with_the_next_segment() {
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3
    //= type=test
    //# A host that supports the UTO option SHOULD include one in the next possible outgoing segment
    //# whenever it starts using a new user timeout for the connection.
    for options in [mss_only(1460), all_options()] {
        let mut p = Peer::active(options);
        advertise(&mut p, 300);
        let mss = p.host.tcp_info(p.id()).expect("open").send_mss as usize;
        let sent = p.write(&std::vec![7; 3 * mss]);
        let texts: std::vec::Vec<_> = sent.iter().map(told).collect();
        assert_eq!(texts[0], seconds(300));
        assert!(texts[1..].iter().all(Option::is_none), "once");
        assert_eq!(sent[0].payload.len(), mss - 4, "it takes its room");
        assert_eq!(sent[1].payload.len(), mss);
    }
    let mut p = Peer::active(mss_only(1460));
    advertise(&mut p, 3600);
    let mut sent = p.send(&seg(ACK | PSH, 1, 1).text(b"question"));
    sent.extend(p.pass_ms(100).into_iter().map(|(_, s)| s));
    assert_eq!(told(&sent[0]), seconds(3600));
}

/// SYN, then the first segment without SYN.
#[test]
fn told_while_opening() {
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3
    //= type=test
    //# In addition to exchanging UTO options in the SYN segments, a
    //# connection that has enabled UTO options SHOULD include a UTO option
    //# in the first packet that does not have the SYN flag set.
    let mut p = Peer::new();
    p.listen(1);
    let listener = p.listener.expect("listens");
    let option = TcpOption::AdvertiseUserTimeout(seconds(200));
    p.host.tcp_set_listener_option(listener, option);
    p.send(&seg(SYN, 0, 0).options(mss_only(1460)));
    p.send(&seg(ACK, 1, 1).options(said(400)));
    p.accept();
    let sent = p.write(b"first");
    assert_eq!(told(&sent[0]), seconds(200));
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(
        info.peer_user_timeout,
        seconds(400),
        "from the last segment of the handshake"
    );
}

/// Both agree: the longer time, and as many retransmissions as it takes.
#[test]
fn the_adopted_time_ends_the_connection() {
    for (ours, theirs, adopted) in [
        (150, 120, 150),
        (120, 150, 150),
        (1, 1, 100),
        (9, 20_000, 3600),
    ] {
        let mut p = Peer::active(mss_only(1460));
        advertise(&mut p, ours);
        p.send(&seg(ACK, 1, 1).options(said(theirs)));
        p.write(b"unheard");
        p.pass(Duration::from_secs(adopted - 1));
        assert_eq!(p.state(), TcpState::Established, "{ours} {theirs}");
        p.pass(Duration::from_secs(150)); // at the next of its timers
        assert_eq!(p.state(), TcpState::Closed, "{ours} {theirs}");
        assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
    }
}

/// What the application set stays, whatever the peer says.
#[test]
fn the_application_has_the_last_word() {
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3
    //= type=test
    //# If an application explicitly sets the USER_TIMEOUT, CHANGEABLE MUST become false in order to
    //# prevent UTO options (from the other end) from overriding local application requests.
    let mut p = Peer::active(mss_only(1460));
    advertise(&mut p, 300);
    p.host
        .tcp_set_option(p.id(), TcpOption::UserTimeout(seconds(5)));
    p.send(&seg(ACK, 1, 1).options(said(500)));
    p.write(b"unheard");
    p.pass(Duration::from_secs(10));
    assert_eq!(p.state(), TcpState::Closed);
}

/// A forger who does not know where we are changes nothing.
#[test]
fn a_segment_from_elsewhere_changes_nothing() {
    let mut p = Peer::active(mss_only(1460));
    advertise(&mut p, 300);
    p.send(&seg(ACK, 1_000_000, 1).options(said(500)));
    p.send(&seg(ACK, 1, 1_000_000).options(said(500)));
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.peer_user_timeout, None);
}

/// RFC 5482 section 4.2.
#[test]
fn keep_alives_wait_for_longer() {
    //= https://www.rfc-editor.org/rfc/rfc5482#section-4.2
    //= type=test
    //# Therefore, if a connection that enables keep-alives is also using the TCP User Timeout
    //# Option, then the keep-alive timer MUST be set to a value larger than that of the adopted
    //# USER TIMEOUT.
    let mut p = Peer::active(mss_only(1460));
    p.host
        .tcp_set_option(p.id(), TcpOption::KeepAlive(seconds(60)));
    advertise(&mut p, 300);
    p.send(&seg(ACK, 1, 1).options(said(200)));
    assert!(p.pass(Duration::from_secs(299)).is_empty());
    assert!(!p.pass(Duration::from_secs(3)).is_empty());
}

/// A connection at rest keeps what it is to tell.
#[test]
fn not_forgotten_at_rest() {
    let mut p = Peer::active(mss_only(1460));
    advertise(&mut p, 300);
    p.send(&seg(ACK, 1, 1).options(said(400)));
    p.pass(Duration::from_secs(30));
    let sent = p.write(b"text");
    assert_eq!(told(&sent[0]), seconds(300));
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.peer_user_timeout, seconds(400));
}
