//! Retransmission time-outs (RFC 6298), giving up (RFC 9293 section 3.8.3), Karn's algorithm.

use core::time::Duration;
use std::vec::Vec;

use super::peer::{ACK, PSH, Peer, RST, all_options, mss_only, seg};
use crate::tcp::{SendError, TcpError, TcpOption, TcpState};

/// Milliseconds at which something was sent.
fn times(sent: &[(Duration, super::peer::Seg)]) -> Vec<u64> {
    sent.iter().map(|(t, _)| t.as_millis() as u64).collect()
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-5
//= type=test
//# (5.5) The host MUST set RTO <- RTO * 2 ("back off the timer").
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.1
//= type=test
//# The RTO MUST be computed according to the algorithm in [10], including Karn's algorithm for
//# taking RTT samples (MUST-18).
//= https://www.rfc-editor.org/rfc/rfc8961#section-4
//= type=test
//# (4) Each time the RTO is used to detect a loss, the value of the RTO MUST be exponentially
//# backed off such that the next firing requires a longer interval.
#[test]
fn section_5_back_off() {
    let mut p = Peer::active(mss_only(1460));
    p.write(b"unheard");
    let sent = p.pass(Duration::from_secs(15));
    // the handshake took no time: RTO = 0 + max(G, 4 * 0) floored at 200 ms
    let at = times(&sent);
    assert_eq!(at, [200, 600, 1400, 3000, 6200, 12_600]);
    assert!(
        sent.iter()
            .all(|(_, s)| s.payload == b"unheard" && s.seq == 1)
    );
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.timeouts, info.retransmissions), (6, 6));
}

#[test]
fn section_5_only_the_first_segment_goes_again() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 5000]);
    let sent = p.pass_ms(300);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.brief(), (ACK, 1, 1, 1000));
    // slow start from one segment: two for the first acknowledgement
    let out: Vec<_> = p.brief(&seg(ACK, 1, 1001));
    assert_eq!(out, [(ACK, 1001, 1, 1000), (ACK, 2001, 1, 1000)]);
    // everything had arrived after all
    assert_eq!(p.send(&seg(ACK, 1, 5001)), []);
    assert!(p.pass(Duration::from_secs(60)).is_empty());
    p.close();
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-5
//= type=test
//# (5.2) When all outstanding data has been acknowledged, turn off the retransmission timer.
#[test]
fn section_5_2_silence_when_all_is_acknowledged() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 1500]);
    p.send(&seg(ACK, 1, 1501));
    assert!(p.pass(Duration::from_secs(100)).is_empty());
    p.assert_memory_is_back();
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-5
//= type=test
//# (5.3) When an ACK is received that acknowledges new data, restart the retransmission timer so
//# that it will expire after RTO seconds (for the current value of RTO).
//= https://www.rfc-editor.org/rfc/rfc6298#section-5
//= type=test
//# An implementation MUST manage the retransmission timer(s) in such a way that a segment is never
//# retransmitted too early, i.e., less than one RTO after the previous transmission of that
//# segment.
//= https://www.rfc-editor.org/rfc/rfc6928#section-9
//= type=test
//# To minimize spurious retransmissions, implementations MUST follow RFC 6298 [RFC6298] to restart
//# the retransmission timer with the current value of RTO for each ACK received that acknowledges
//# new data.
#[test]
fn section_5_3_progress_restarts_the_timer() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 3000]);
    p.pass_ms(150);
    p.send(&seg(ACK, 1, 1001));
    assert!(p.pass_ms(150).is_empty());
    p.send(&seg(ACK, 1, 2001));
    assert!(p.pass_ms(150).is_empty());
}

//= https://www.rfc-editor.org/rfc/rfc6298#section-3
//= type=test
//# TCP MUST use Karn's algorithm [KP87] for taking RTT samples.  That is, RTT samples MUST NOT be
//# made using segments that were retransmitted (and thus for which it is ambiguous whether the
//# reply was for the first instance of the packet or a later instance).
//= https://www.rfc-editor.org/rfc/rfc8961#section-4
//= type=test
//# (d) An RTO mechanism MUST NOT use ambiguous FT samples.
#[test]
fn karn() {
    let mut p = Peer::active(mss_only(1000));
    p.write(b"once and again");
    p.pass_ms(5000);
    let before = p.host.tcp_info(p.id()).expect("open").rtt;
    p.send(&seg(ACK, 1, 15));
    assert_eq!(p.host.tcp_info(p.id()).expect("open").rtt, before);
    // a segment sent once is a sample
    p.write(b"once");
    p.pass_ms(100);
    p.send(&seg(ACK, 1, 19));
    assert!(p.host.tcp_info(p.id()).expect("open").rtt > before);
}

/// With time stamps the answer says which copy it answers.
#[test]
fn karn_does_not_need_luck_with_time_stamps() {
    let mut p = Peer::active(all_options());
    p.write(b"once and again");
    let sent = p.pass_ms(1000);
    let last = sent.last().expect("sent again").1.options.timestamps;
    p.pass_ms(30);
    let since = times(&sent).last().map(|t| 1030 - t).expect("sent");
    p.send(&seg(ACK, 1, 15).stamp(5001, last.expect("agreed").0));
    let rtt = p
        .host
        .tcp_info(p.id())
        .expect("open")
        .rtt
        .expect("a sample");
    assert!(
        rtt.as_millis() as u64 <= since && !rtt.is_zero(),
        "{rtt:?} {since}"
    );
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# (c) When the number of transmissions of the same segment reaches a threshold R2 greater than R1,
//# close the connection.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# The following procedure MUST be used to handle excessive retransmissions of data segments
//# (MUST-20):
#[test]
fn r2_gives_up() {
    let mut p = Peer::active(mss_only(1000));
    p.write(b"unheard");
    let sent = p.pass(Duration::from_secs(3600));
    assert_eq!(sent.len(), 15);
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
    //= type=test
    //# The value of R2 SHOULD correspond to at least 100 seconds (SHLD-11).
    assert!(sent[14].0 > Duration::from_secs(100));
    let told = p.host.tcp_send(p.now, p.id(), b"x");
    assert_eq!(told, Err(SendError::Failed(TcpError::TimedOut)));
    p.close();
    p.assert_memory_is_back();
}

/// The peer sends but never acknowledges: what it says is no progress.
#[test]
fn r2_is_reached_although_the_peer_talks() {
    let mut p = Peer::active(mss_only(1000));
    p.write(b"never acknowledged");
    for n in 0..1000 {
        p.pass(Duration::from_secs(2));
        if p.state() == TcpState::Closed {
            break;
        }
        p.send(&seg(ACK, 1 + n, 1).text(b"x"));
        p.read();
    }
    assert_eq!(p.state(), TcpState::Closed);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# (d) An application MUST (MUST-21) be able to set the value for R2 for a particular connection.
#[test]
fn user_timeout() {
    let mut p = Peer::active(mss_only(1000));
    let most = Duration::from_secs(5);
    p.host
        .tcp_set_option(p.id(), TcpOption::UserTimeout(Some(most)));
    p.pass(Duration::from_secs(100)); // idle time does not count
    p.write(b"unheard");
    p.pass_ms(4900);
    assert_eq!(p.state(), TcpState::Established);
    p.pass_ms(3000);
    assert_eq!(p.state(), TcpState::Closed);
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
}

/// A window that closed while nothing was under way: idle time before does not count either.
#[test]
fn user_timeout_counts_from_the_write() {
    let mut p = Peer::active(mss_only(1000));
    let most = Duration::from_secs(5);
    p.host
        .tcp_set_option(p.id(), TcpOption::UserTimeout(Some(most)));
    p.send(&seg(ACK, 1, 1).window(0));
    p.pass(Duration::from_secs(100));
    p.write(b"0123456789");
    p.pass_ms(1000);
    assert_eq!(p.state(), TcpState::Established);
}

/// Text and FIN lost together come back together.
#[test]
fn text_and_fin_again() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 500]);
    p.shutdown();
    let sent = p.pass_ms(250);
    let out: Vec<_> = sent.iter().map(|(_, s)| s.brief()).collect();
    assert_eq!(out, [(super::peer::FIN | ACK | PSH, 1, 1, 500)]);
    // the FIN may be on its way; only time tells that it is lost too
    assert_eq!(p.brief(&seg(ACK, 1, 501)), []);
    assert_eq!(
        p.pass_ms(500)[0].1.brief(),
        (super::peer::FIN | ACK, 501, 1, 0)
    );
    p.send(&seg(ACK, 1, 502));
    assert_eq!(p.state(), TcpState::FinWait2);
}

/// A late acknowledgement of everything after a time-out: nothing is sent twice needlessly.
#[test]
fn the_original_arrived_after_all() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 4000]);
    p.pass_ms(210);
    assert_eq!(p.send(&seg(ACK, 1, 4001)), []);
    let out: Vec<_> = p
        .write(&[2; 1000])
        .iter()
        .map(super::peer::Seg::brief)
        .collect();
    assert_eq!(out, [(ACK | PSH, 4001, 1, 1000)]);
}

#[test]
fn a_reset_frees_what_was_queued() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 200_000]);
    p.send(&seg(RST, 1, 1));
    p.assert_memory_is_back();
    let told = p.host.tcp_send(p.now, p.id(), b"x");
    assert_eq!(told, Err(SendError::Failed(TcpError::Reset)));
    assert!(
        p.pass(Duration::from_secs(100)).is_empty(),
        "and nothing is sent any more"
    );
}
