//! TIME-WAIT (RFC 9293 sections 3.6.1 and 3.10.7.4; RFC 1122 4.2.2.13; RFC 1337; RFC 6191).

use core::time::Duration;

use super::peer::{ACK, FIN, Peer, RST, SYN, all_options, mss_only, seg};
use crate::tcp::TcpState;
use gannet_wire::tcp::Options;

/// A connection that a listener made, that the stack closed first, let go of, in TIME-WAIT. The
/// application lets go before (`early`) or after both FINs.
fn passive(options: Options, early: bool) -> Peer {
    let stamp = options.timestamps.is_some();
    let mut p = Peer::passive(options);
    let echo = |s: crate::tcp::tests::peer::Seg| if stamp { s.stamp(6000, 0) } else { s };
    if early {
        p.close();
    } else {
        p.shutdown();
    }
    p.send(&echo(seg(ACK, 1, 2)));
    let out = p.brief(&echo(seg(FIN | ACK, 1, 2)));
    assert_eq!(out, [(ACK, 2, 2, 0)]);
    if !early {
        p.close();
    }
    assert_eq!(p.host.tcp_connections(), 1);
    p
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
//= type=test
//# When a connection is closed actively, it MUST linger in the TIME-WAIT state for a time 2xMSL
//# (Maximum Segment Lifetime) (MUST-13).
#[test]
fn lingers() {
    for early in [false, true] {
        let mut p = passive(mss_only(1460), early);
        p.pass(Duration::from_secs(59));
        assert_eq!(p.host.tcp_connections(), 1);
        p.pass(Duration::from_secs(2));
        assert_eq!(p.host.tcp_connections(), 0);
        p.assert_memory_is_back();
    }
}

/// T10: the pair of ports is used again. (SYN, whether it opens)
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
//= type=test
//# This algorithm for reducing TIME-WAIT is a Best Current Practice that SHOULD be implemented
//# since Timestamp Options are commonly used, and using them to reduce TIME-WAIT provides
//# benefits for busy Internet servers (SHLD-4).
#[test]
fn t10_reuse() {
    let stamped = |seq, value| {
        let mut options = all_options();
        options.timestamps = Some((value, 0));
        seg(SYN, seq, 0).options(options)
    };
    let plain = |seq| seg(SYN, seq, 0).options(mss_only(1460));
    let without = [
        (plain(3), true),
        (plain(1000), true),
        (plain(0), false), // an old duplicate
        (plain(0x9000_0000), false),
        (stamped(0, 1), true), // RFC 6191: time stamps are new
    ];
    let with = [
        (stamped(1000, 6001), true),
        (stamped(0, 6001), true), // a lower sequence number, but a later time stamp
        (stamped(0, 6000), false),
        (stamped(1000, 6000), true), // the same time stamp, a higher sequence number
        (stamped(1000, 5999), false),
        (plain(0), false),
        (plain(1000), true),
    ];
    for (options, table) in [(mss_only(1460), &without[..]), (all_options(), &with[..])] {
        for early in [false, true] {
            for (syn, opens) in table {
                let mut p = passive(options, early);
                let before = p.irs.wrapping_add(2);
                let out = p.send(syn);
                assert_eq!(out.len(), 1);
                assert_eq!(out[0].flags.contains(SYN), *opens, "{early} {syn:?}");
                if *opens {
                    let above = p.irs.wrapping_sub(before) as i32;
                    assert!(above > 0, "the new ISS lies above the old numbers");
                    assert_eq!(p.host.tcp_connections(), 1);
                }
            }
        }
    }
}

/// Nobody listens any more: a SYN does not end TIME-WAIT.
#[test]
fn t10_reuse_needs_a_listener() {
    let mut p = passive(mss_only(1460), true);
    p.host
        .tcp_close_listener(p.now, p.listener.expect("listens"));
    p.send(&seg(SYN, 1000, 0));
    assert_eq!(p.host.tcp_connections(), 1);
}

/// RFC 1337 section 3, fix (F1).
#[test]
fn t10_resets_are_ignored() {
    for early in [false, true] {
        let mut p = passive(mss_only(1460), early);
        for seq in [1, 2, 3, 100] {
            p.send(&seg(RST, seq, 2));
        }
        assert_eq!(p.host.tcp_connections(), 1);
    }
}

/// Two ends in TIME-WAIT must not answer each other for ever: an acknowledgement where it belongs
/// is not answered.
#[test]
fn no_answers_to_answers() {
    for early in [false, true] {
        let mut p = passive(mss_only(1460), early);
        assert_eq!(p.brief(&seg(ACK, 2, 2)), []);
        assert_eq!(p.brief(&seg(FIN | ACK, 1, 2)), [(ACK, 2, 2, 0)]);
        assert_eq!(p.brief(&seg(ACK, 2, 2).text(b"T5")), [(ACK, 2, 2, 0)]);
        assert_eq!(p.brief(&seg(ACK, 1, 2).text(b"T5")), [(ACK, 2, 2, 0)]);
    }
}

#[test]
fn while_the_application_holds_it() {
    let (mut p, ..) = Peer::in_state(TcpState::TimeWait);
    p.pass(Duration::from_secs(61));
    assert_eq!(p.state(), TcpState::Closed);
    assert_eq!(p.host.tcp_recv(p.now, p.id(), &mut [0; 4]), Ok(0));
    p.close();
    assert_eq!(p.host.tcp_connections(), 0);
}
