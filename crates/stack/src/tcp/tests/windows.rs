//! Windows: zero-window probes, silly windows, Nagle, delayed acknowledgements, shrinking, scaling.

use core::time::Duration;
use std::vec::Vec;

use super::peer::{ACK, FIN, PSH, Peer, RST, Seg, all_options, mss_only, seg};
use crate::tcp::{SendError, TcpError, TcpOption, TcpState};

fn briefs(sent: &[Seg]) -> Vec<(gannet_wire::tcp::Flags, u32, u32, u32)> {
    sent.iter().map(Seg::brief).collect()
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
//= type=test
//# As long as the receiving TCP peer continues to send acknowledgments in response to the probe
//# segments, the sending TCP peer MUST allow the connection to stay open (MUST-37).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
//= type=test
//# Probing of zero (offered) windows MUST be supported (MUST-36).
#[test]
fn section_3_8_6_1_probes() {
    let mut p = Peer::active(mss_only(1000));
    p.send(&seg(ACK, 1, 1).window(0));
    assert_eq!(p.write(b"0123456789"), []);
    let mut gaps = Vec::new();
    let mut last = p.now;
    for _ in 0..10_000 {
        let start = p.now;
        let sent = p.pass_ms(10);
        for (after, s) in sent {
            assert_eq!(s.brief().1, 1);
            assert_eq!(s.payload, b"0");
            let at = start + after;
            gaps.push(at.saturating_duration_since(last).as_millis());
            last = at;
            p.send(&seg(ACK, 1, 1).window(0));
        }
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
    //= type=test
    //# The transmitting host SHOULD send the first zero-window probe when a zero window has existed
    //# for the retransmission timeout period (SHLD-29) (Section 3.8.1), and SHOULD increase
    //# exponentially the interval between successive probes (SHLD-30).
    assert_eq!(gaps[..8], [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600]);
    p.pass(Duration::from_secs(10_000));
    assert_eq!(p.state(), TcpState::Closed, "unanswered probes end it");
}

#[test]
fn a_probe_that_is_taken() {
    let mut p = Peer::active(mss_only(1000));
    p.send(&seg(ACK, 1, 1).window(0));
    p.write(b"0123456789");
    p.pass_ms(250);
    assert_eq!(
        briefs(&p.send(&seg(ACK, 1, 2).window(5))),
        [],
        "too small to be worth it"
    );
    assert_eq!(
        p.pass_ms(250)[0].1.brief(),
        (ACK, 2, 1, 5),
        "but not for ever"
    );
    assert_eq!(
        briefs(&p.send(&seg(ACK, 1, 7).window(100))),
        [(ACK | PSH, 7, 1, 4)]
    );
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
//= type=test
//# If the window shrinks to zero, the TCP implementation MUST probe it in the standard way
//# (described below) (MUST-35).
#[test]
fn the_window_opens_by_itself() {
    let mut p = Peer::active(mss_only(1000));
    p.send(&seg(ACK, 1, 1).window(0));
    p.write(b"0123456789");
    p.pass_ms(250);
    let out = p.send(&seg(ACK, 1, 1).window(1000));
    assert_eq!(briefs(&out), [(ACK | PSH, 1, 1, 10)]);
}

/// Only a FIN is left and the window is closed: it is delivered all the same, however long it
/// takes.
#[test]
fn a_fin_before_a_closed_window() {
    let mut p = Peer::active(mss_only(1000));
    p.send(&seg(ACK, 1, 1).window(0));
    p.shutdown();
    for _ in 0..100 {
        p.pass(Duration::from_secs(30));
        p.send(&seg(ACK, 1, 1).window(0));
    }
    assert_eq!(p.state(), TcpState::FinWait1, "answered: stays open");
    p.send(&seg(ACK, 1, 1));
    let sent = p.pass(Duration::from_secs(130));
    assert!(sent.iter().any(|(_, s)| s.flags.contains(FIN)));
    p.send(&seg(ACK, 1, 2));
    assert_eq!(p.state(), TcpState::FinWait2);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
//= type=test
//# However, a sending TCP peer MUST be robust against window shrinking, which may cause the "usable
//# window" (see Section 3.8.6.2.1) to become negative (MUST-34).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
//= type=test
//# If this happens, the sender SHOULD NOT send new data (SHLD-15), but SHOULD retransmit normally
//# the old unacknowledged data between SND.UNA and SND.UNA+SND.WND (SHLD-16).
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
//= type=test
//# Implementations MUST ensure that they handle a shrinking window, as specified in Section
//# 4.2.2.16 of [RFC1122].
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
//= type=test
//# 3) The initial transmission MUST be within the window announced by the most recent <ACK>.
#[test]
fn t5_shrinking_windows() {
    for shrink in [1u16, 100, 3000, 3999, 4000] {
        let mut p = Peer::active(mss_only(1000));
        p.send(&seg(ACK, 1, 1).window(4000));
        assert_eq!(p.write(&[1; 10_000]).len(), 4);
        let out = p.send(&seg(ACK, 1, 1).window(4000 - shrink));
        assert_eq!(out, [], "nothing new: {shrink}");
        let again = p.pass_ms(250);
        assert_eq!(again[0].1.seq, 1, "the old is sent again: {shrink}");
        let out = p.send(&seg(ACK, 1, 4001).window(8000));
        assert_eq!(out[0].seq, 4001);
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
//= type=test
//# The sender MAY also retransmit old data beyond SND.UNA+SND.WND (MAY-7), but SHOULD NOT time out
//# the connection if data beyond the right window edge is not acknowledged (SHLD-17).
#[test]
fn text_behind_a_window_that_shrank_to_nothing_does_not_time_out() {
    let mut p = Peer::active(mss_only(1000));
    p.write(&[1; 2000]);
    for _ in 0..200 {
        p.send(&seg(ACK, 1, 1).window(0));
        p.pass(Duration::from_secs(30));
    }
    assert_eq!(p.state(), TcpState::Established);
    let out = p.send(&seg(ACK, 1, 1));
    let later = p.pass(Duration::from_secs(121));
    assert!(!out.is_empty() || !later.is_empty());
}

/// Sender's silly window avoidance (RFC 9293 section 3.8.6.2.1) and its override timer.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
//= type=test
//# A TCP implementation MUST include a SWS avoidance algorithm in the sender (MUST-38).
#[test]
fn section_3_8_6_2_1_no_crumbs() {
    let mut p = Peer::active(mss_only(1000));
    p.send(&seg(ACK, 1, 1).window(4000));
    p.write(&[1; 4000]);
    p.write(&[2; 5000]);
    // a little room is not worth a segment
    assert_eq!(p.send(&seg(ACK, 1, 4001).window(300)), []);
    let later = p.pass_ms(300);
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].1.brief(), (ACK, 4001, 1, 300));
    let after = later[0].0.as_millis();
    assert!((100..=1000).contains(&after), "0.1 to 1 s: {after}");
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.4
//= type=test
//# However, there MUST be a way for an application to disable the Nagle algorithm on an
//# individual connection (MUST-17).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.4
//= type=test
//# A TCP implementation SHOULD implement the Nagle algorithm to coalesce short segments (SHLD-7).
#[test]
fn section_3_7_4_nagle() {
    let mut p = Peer::active(mss_only(1000));
    assert_eq!(p.write(b"a").len(), 1, "nothing is under way");
    assert_eq!(p.write(b"b"), [], "a small segment is");
    assert_eq!(p.write(&[b'c'; 1200]).len(), 1, "a full one leaves");
    let out = p.send(&seg(ACK, 1, 1002));
    assert_eq!(briefs(&out), [(ACK | PSH, 1002, 1, 201)]);
    p.host.tcp_set_option(p.id(), TcpOption::NoDelay(true));
    assert_eq!(p.write(b"d").len(), 1);
    assert_eq!(p.write(b"e").len(), 1);
}

/// What only joins others that wait is taken without a look at anything else, and leaves with them.
#[test]
fn joining_what_nagle_holds() {
    let mut p = Peer::active(mss_only(1000));
    let id = p.id();
    assert_eq!(p.host.tcp_join(id, b"a"), None, "nothing is under way");
    assert_eq!(p.write(b"a").len(), 1);
    assert_eq!(p.host.tcp_join(id, b"bc"), Some(2));
    assert_eq!(p.host.tcp_join(id, &[b'd'; 997]), Some(997));
    assert_eq!(p.host.tcp_join(id, b"e"), None, "a full segment leaves");
    assert_eq!(p.host.tcp_join(id, b""), None, "nothing to take");
    assert_eq!(p.poll(), []);
    let out = p.send(&seg(ACK, 1, 2));
    assert_eq!(briefs(&out), [(ACK | PSH, 2, 1, 999)]);
    assert_eq!(out[0].payload[..3], *b"bcd");
    p.host.tcp_set_option(id, TcpOption::NoDelay(true));
    assert_eq!(p.host.tcp_join(id, b"f"), None, "small ones do not wait");
}

#[test]
fn joining_a_connection_that_takes_no_more() {
    let waiting = || {
        let mut p = Peer::active(mss_only(1000));
        p.write(b"a");
        assert_eq!(p.host.tcp_join(p.id(), b"b"), Some(1));
        p
    };
    let mut p = waiting();
    p.shutdown();
    assert_eq!(p.host.tcp_join(p.id(), b"c"), None, "behind the FIN");
    let mut p = waiting();
    p.send(&seg(RST, 1, 1));
    let id = p.id();
    assert_eq!(p.host.tcp_join(id, b"c"), None, "reset");
    let told = p.host.tcp_send(p.now, id, b"c");
    assert_eq!(told, Err(SendError::Failed(TcpError::Reset)), "kept");
}

#[test]
fn switching_nagle_off_lets_what_waits_go() {
    let mut p = Peer::active(mss_only(1000));
    p.write(b"a");
    assert_eq!(p.write(b"b"), []);
    p.host.tcp_set_option(p.id(), TcpOption::NoDelay(true));
    assert_eq!(briefs(&p.poll()), [(ACK | PSH, 2, 1, 1)]);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.3
//= type=test
//# A TCP endpoint SHOULD implement a delayed ACK (SHLD-18), but an ACK should not be excessively
//# delayed; in particular, the delay MUST be less than 0.5 seconds (MUST-40).
#[test]
fn section_3_8_6_3_delayed_acknowledgements() {
    let mut p = Peer::active(mss_only(1000));
    p.pass(Duration::from_secs(10));
    let mut seq = 1;
    // beyond the quick ones at the start
    for _ in 0..40 {
        p.send(&seg(ACK, seq, 1).text(&[1; 1000]));
        seq += 1000;
    }
    p.pass_ms(100);
    p.read();
    p.poll();
    assert_eq!(p.send(&seg(ACK, seq, 1).text(&[1; 1000])), [], "one waits");
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.3
    //= type=test
    //# An ACK SHOULD be generated for at least every second full-sized segment or 2*RMSS bytes of
    //# new data (where RMSS is the MSS specified by the TCP endpoint receiving the segments to be
    //# acknowledged, or the default value if not specified) (SHLD-19).
    let out = p.send(&seg(ACK, seq + 1000, 1).text(&[1; 1000]));
    assert_eq!(
        briefs(&out),
        [(ACK, 1, seq + 2000, 0)],
        "the second does not"
    );
    assert_eq!(p.send(&seg(ACK, seq + 2000, 1).text(&[1; 1000])), []);
    let later = p.pass_ms(500);
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].0.as_millis(), 40);
    // what the application writes carries it
    assert_eq!(p.send(&seg(ACK, seq + 3000, 1).text(&[1; 100])), []);
    assert_eq!(briefs(&p.write(b"answer")), [(ACK | PSH, 1, seq + 3100, 6)]);
    assert!(p.pass_ms(150).is_empty());
}

/// Whatever the setting says.
//= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
//= type=test
//# Specifically, an ACK SHOULD be generated for at least every second full-sized segment, and MUST
//# be generated within 500 ms of the arrival of the first unacknowledged packet.
//= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
//= type=test
//# Finally, we repeat that an ACK MUST NOT be delayed for more than 500 ms waiting on a second
//# full-sized segment to arrive.
#[test]
fn no_acknowledgement_waits_for_half_a_second() {
    let mut p = Peer::with(&super::peer::wire(), |c| {
        c.tcp.delayed_ack = Duration::from_secs(5);
    });
    p.open(mss_only(1000));
    p.pass(Duration::from_secs(10));
    assert_eq!(p.send(&seg(ACK, 1, 1).text(b"small")), [], "it waits");
    let later = p.pass(Duration::from_secs(10));
    assert_eq!(later.len(), 1);
    assert!(later[0].0 < Duration::from_millis(500), "{later:?}");
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# For example, if the TCP endpoint is processing a series of queued segments, it MUST process them
//# all before sending any ACK segments (MUST-59).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# In general, the processing of received segments MUST be implemented to aggregate ACK segments
//# whenever possible (MUST-58).
//= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
//= type=test
//# A TCP receiver MUST NOT generate more than one ACK for every incoming segment, other than to
//# update the offered window as the receiving application consumes new data (see [RFC813] and page
//# 42 of [RFC793]).
#[test]
fn one_acknowledgement_for_a_batch() {
    let mut p = Peer::active(mss_only(1000));
    for n in 0..20 {
        let packet = p.packet(&seg(ACK, 1 + n * 1000, 1).text(&[1; 1000]));
        p.inject(&packet);
    }
    assert_eq!(briefs(&p.poll()), [(ACK, 1, 20_001, 0)]);
}

/// The right edge of the window never moves left (by more than the scale cannot express), whatever
/// arrives and however little is read, and moves right only by steps worth a segment (RFC 9293
/// section 3.8.6.2.2). What nobody reads stays within the buffer.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.2
//= type=test
//# A TCP implementation MUST include a SWS avoidance algorithm in the receiver (MUST-39).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
//= type=test
//# A TCP receiver SHOULD NOT shrink the window, i.e., move the right window edge to the left
//# (SHLD-14).
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
//= type=test
//# 1) The receiver MUST honor, as in window, any segment that would have been in window for any
//# <ACK> sent by the receiver.
#[test]
fn section_3_8_6_2_2_the_edge_moves_right_in_steps() {
    for options in [mss_only(1000), all_options()] {
        let mut p = Peer::active(options);
        let mut edge = 0;
        let mut seq = 1;
        let mut buffer = [0; 37];
        for n in 0..3000 {
            let mut s = seg(ACK, seq, 1).text(&[7; 700]);
            if options.timestamps.is_some() {
                s = s.stamp(5001, 0);
            }
            let info = p.host.tcp_info(p.id()).expect("open");
            let scale = info.window_scale.map_or(0, |s| s.0);
            let mut out = Vec::new();
            if info.receive_window >= 700 {
                out.extend(p.send(&s));
                seq += 700;
            }
            if n % 3 == 0 {
                let _ = p.host.tcp_recv(p.now, p.id(), &mut buffer);
                out.extend(p.poll());
            }
            for s in out {
                let now = s.ack + (u32::from(s.window) << scale);
                assert!(now + (1 << scale) > edge, "{now} {edge}");
                let same = now < edge + (1 << scale);
                assert!(same || now - edge >= 536, "a crumb: {}", now - edge);
                edge = edge.max(now);
                let info = p.host.tcp_info(p.id()).expect("open");
                assert!(info.unread <= info.receive_buffer, "{info:?}");
            }
        }
    }
}

/// A closed window opens when the application reads, and the peer is told at once.
#[test]
fn reading_opens_the_window() {
    let mut p = Peer::active(mss_only(1000));
    p.host
        .tcp_set_option(p.id(), TcpOption::ReceiveBuffer(8000));
    let mut seq = 1;
    loop {
        let out = p.send(&seg(ACK, seq, 1).text(&[7; 1000]));
        seq = out.last().map_or(seq + 1000, |s| s.ack);
        if out.last().is_some_and(|s| s.window == 0) {
            break;
        }
        assert!(seq < 100_000);
    }
    // probes are answered, nothing is taken
    let out = p.send(&seg(ACK, seq, 1).text(b"p"));
    assert_eq!((out[0].ack, out[0].window), (seq, 0));
    let got = p.read().len() as u32;
    assert_eq!(got, seq - 1);
    let out = p.poll();
    let last = out.last().expect("a window update");
    assert!(last.window >= 4000 && last.ack == seq, "{out:?}");
}

//= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
//= type=test
//# The window field in a segment where the SYN bit is set (i.e., a <SYN> or <SYN,ACK>) MUST NOT be
//# scaled.
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
//= type=test
//# Thus, the shift count MUST be limited to 14 (which allows windows of 2^30 = 1 GiB).
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
//= type=test
//# If a Window Scale option is received with a shift.cnt value larger than 14, the TCP SHOULD log
//# the error but MUST use 14 instead of the specified value.
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
//= type=test
//# This option is an offer, not a promise; both sides MUST send Window Scale options in their <SYN>
//# segments to enable window scaling in either direction.
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
//= type=test
//# The Window Scale option MUST be sent with shift.cnt = R, where R is the value that the TCP would
//# like to use for its receive window.
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
//= type=test
//# Upon receiving a <SYN> segment with a Window Scale option containing shift.cnt = S, a TCP MUST
//# set Snd.Wind.Shift to S and MUST set Rcv.Wind.Shift to R; otherwise, it MUST set both
//# Snd.Wind.Shift and Rcv.Wind.Shift to zero.
//= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
//= type=test
//# The window field (SEG.WND) in the header of every incoming segment, with the exception of <SYN>
//# segments, MUST be left-shifted by Snd.Wind.Shift bits before updating SND.WND:
#[test]
fn rfc_7323_scaling() {
    let mut p = Peer::new();
    let syn = p.connect();
    assert_eq!(syn.window, 65_535);
    let mut options = all_options();
    options.timestamps = None;
    p.send(
        &seg(super::peer::SYN | ACK, 0, 1)
            .options(options)
            .window(1000),
    );
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.send_window, 1000, "not yet scaled");
    p.send(&seg(ACK, 1, 1).window(1000));
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.send_window, 1000 << 7);
    // a shift of more than 14 is taken for 14
    let mut p = Peer::new();
    p.connect();
    options.window_scale = Some(255);
    p.send(&seg(super::peer::SYN | ACK, 0, 1).options(options));
    p.send(&seg(ACK, 1, 1).window(1));
    assert_eq!(p.host.tcp_info(p.id()).expect("open").send_window, 1 << 14);
}

/// SND.WL1 follows although nothing is told for more than half the number space.
#[test]
fn window_updates_after_two_gigabytes_one_way() {
    let mut p = Peer::active(mss_only(1460));
    p.host
        .tcp_set_option(p.id(), TcpOption::ReceiveBuffer(1 << 20));
    let text = std::vec![7; 16_000];
    let mut seq = 1u32;
    let mut buffer = std::vec![0; 65_536];
    while seq < 0x8800_0000 {
        for _ in 0..3 {
            p.host.skip_received(p.id(), 1 << 20);
            seq += 1 << 20;
        }
        p.send(&seg(ACK, seq, 1).text(&text));
        seq += 16_000;
        let _ = p.host.tcp_recv(p.now, p.id(), &mut buffer);
    }
    p.send(&seg(ACK, seq, 1).window(77));
    assert_eq!(p.host.tcp_info(p.id()).expect("open").send_window, 77);
}

/// A peer that sends less than a unit of its window scale at a time cannot move the edge with it.
#[test]
fn crumbs_do_not_overrun_the_buffer() {
    let mut p = Peer::active(all_options());
    let mut seq = 1;
    for _ in 0..6000 {
        let s = seg(ACK, seq, 1).text(&[7; 63]).stamp(5001, 0);
        let out = p.send(&s);
        seq = out.last().map_or(seq + 63, |s| s.ack);
    }
    let info = p.host.tcp_info(p.id()).expect("open");
    assert!(info.unread <= info.receive_buffer, "{info:?}");
    assert!(info.unread > info.receive_buffer - 1000, "{info:?}");
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.4
//= type=test
//# A TCP receiver MUST process the RST and URG fields of all incoming segments, even when the
//# receive window is zero (MUST-66).
#[test]
fn a_closed_window_still_hears_resets_urgent_pointers_and_acknowledgements() {
    let closed = || {
        let mut p = Peer::active(mss_only(1000));
        p.write(b"under way");
        let mut seq = 1;
        while p.host.tcp_info(p.id()).expect("open").receive_window > 0 {
            let out = p.send(&seg(ACK, seq, 1).text(&[7; 1000]));
            seq = out.last().map_or(seq + 1000, |s| s.ack);
        }
        (p, seq)
    };
    let (mut p, seq) = closed();
    p.send(&seg(ACK, seq, 10).text(b"no room"));
    assert_eq!(p.host.tcp_info(p.id()).expect("open").in_flight, 0);
    p.send(&seg(ACK, seq, 10).urgent(7));
    assert_eq!(p.state(), TcpState::Established);
    p.send(&seg(super::peer::RST, seq, 10));
    assert_eq!(p.state(), TcpState::Closed);
    let (mut p, seq) = closed();
    p.send(&seg(FIN | ACK, seq, 10));
    assert_eq!(p.state(), TcpState::CloseWait);
}

/// What is sent again after a time-out may take new data along, but none beyond the window.
#[test]
fn a_retransmission_stays_within_the_window() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).window(100));
    assert_eq!(p.write(&[1; 60]).len(), 1);
    p.write(&[2; 200]);
    let again = p.pass_ms(1500);
    let furthest = again.iter().map(|(_, s)| s.seq + s.len()).max();
    assert_eq!(furthest, Some(101), "{again:?}");
}

/// A segment that fills a hole is older than what came before it, but its acknowledgement and its
/// window are the newest: to add the window of the other to the acknowledgement of this one would
/// give more than anybody offered.
#[test]
fn a_window_goes_with_its_acknowledgement() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).window(1000));
    assert_eq!(p.write(&[1; 600]).len(), 1);
    p.send(&seg(ACK, 101, 1).window(1000).text(&[2; 10]));
    let mut out = p.send(&seg(ACK, 1, 601).window(400).text(&[3; 100]));
    out.extend(p.write(&[4; 2000]));
    out.extend(p.pass_ms(1000).into_iter().map(|(_, s)| s));
    let furthest = out.iter().map(|s| s.seq + s.len()).max();
    assert_eq!(furthest, Some(1001), "{out:?}");
}

/// RFC 9293 appendix A.2: both ends have filled each other's window and lost the front of it, so
/// every acknowledgement comes from the window's far edge. It counts all the same.
#[test]
fn an_acknowledgement_from_the_edge_of_the_window() {
    let mut p = Peer::active(mss_only(1000));
    let text = p.write(b"0123456789");
    let edge = 1 + u32::from(text[0].window);
    assert_eq!(briefs(&p.send(&seg(ACK, edge, 5))), []);
    assert_eq!(
        p.pass_ms(300)[0].1.brief(),
        (ACK | PSH, 5, 1, 6),
        "the rest"
    );
    // and from one further, when the window was probed
    assert_eq!(briefs(&p.send(&seg(ACK, edge + 1, 11))), []);
    assert_eq!(p.pass_ms(3000), []);
    assert_eq!(briefs(&p.send(&seg(ACK, edge + 2, 11))), [(ACK, 11, 1, 0)]);
}

/// RFC 7661 section 4.4: a window that is filled to the last octet is used, also when the
/// application has nothing more to send.
#[test]
fn rfc_7661_section_4_4_a_window_that_is_used_exactly_grows() {
    for (written, grows) in [(10_000, true), (9_000, false)] {
        let mut p = Peer::active(mss_only(1000));
        let window = |p: &Peer| p.host.tcp_info(p.id()).expect("open").congestion_window;
        assert_eq!(window(&p), 10_000);
        let text = std::vec![7; written as usize];
        p.write(&text);
        p.send(&seg(ACK, 1, 2001));
        assert_eq!(window(&p) > 10_000, grows, "{written}");
    }
}
