//! RFC 9293's requirements that no other file here is about, each with its label.

use core::time::Duration;
use std::vec::Vec;

use super::peer::{ACK, Peer, RST, SYN, URG, all_options, mss_only, seg};
use crate::tcp::TcpState;

/// The bytes of the next packets.
fn packets(p: &mut Peer) -> Vec<Vec<u8>> {
    let now = p.now;
    while p.host.poll(now) {}
    let endpoint = p.host.link_mut(p.link).expect("the link");
    endpoint.driver.recorded()
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2
//= type=test
//# When received options are passed up to TCP from the IP layer, a TCP implementation MUST ignore
//# options that it does not understand (MUST-50).
#[test]
fn must_50_options_of_ip_are_ignored() {
    let mut p = Peer::active(mss_only(1460));
    let mut packet = p.packet(&seg(ACK, 1, 1).text(b"text"));
    packet.splice(20..20, [0x5e, 4, 0, 0]); // an experiment's (RFC 4727)
    packet[0] = 0x46;
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[10..12].fill(0);
    let sum = gannet_wire::checksum::sum(&packet[..24]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    p.raw(&packet);
    assert_eq!(p.read(), b"text");
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# All TCP Options except End of Option List Option (EOL) and No-Operation (NOP) MUST have length
//# fields, including all future options (MUST-68).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# The content of the header beyond the End of Option List Option MUST be header padding of zeros
//# (MUST-69).
#[test]
fn must_68_69_options_have_lengths_and_zeros_behind_them() {
    let mut p = Peer::new();
    p.listen(4);
    for offer in [all_options(), mss_only(536)] {
        let syn = p.packet(&seg(SYN, 0, 0).options(offer));
        p.inject(&syn);
        p.me.set_port(p.me.port() + 1);
    }
    let sent = packets(&mut p);
    assert_eq!(sent.len(), 2);
    for packet in sent {
        let end = 20 + usize::from(packet[32] >> 4) * 4;
        let mut options = &packet[40..end];
        while let [kind, rest @ ..] = options {
            options = match kind {
                0 => {
                    assert!(rest.iter().all(|&b| b == 0));
                    &[]
                }
                1 => rest,
                _ => {
                    let len = usize::from(rest[0]);
                    assert!((2..=options.len()).contains(&len), "{packet:?}");
                    &options[len..]
                }
            };
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
//= type=test
//# The transmitter SHOULD collapse successive bits when it packetizes data, to send the largest
//# possible segment (SHLD-27).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
//= type=test
//# However, a TCP implementation SHOULD send a maximum-sized segment whenever possible (SHLD-28)
//# to improve performance (see Section 3.8.6.2.1).
#[test]
fn shld_27_28_small_writes_leave_in_full_segments() {
    let mut p = Peer::active(mss_only(1000));
    p.write(b"first");
    for _ in 0..25 {
        assert_eq!(
            p.write(&[7; 100]).iter().filter(|s| s.len() < 1000).count(),
            0
        );
    }
    let out = p.send(&seg(ACK, 1, 6 + 2000));
    assert_eq!(out.iter().map(|s| s.len()).collect::<Vec<_>>(), [500]);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# (e) TCP implementations SHOULD inform the application of the delivery problem (unless such
//# information has been disabled by the application; see the "Asynchronous Reports" section
//# (Section 3.9.1.8)), when R1 is reached and before R2 (SHLD-9).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# The value of R1 SHOULD correspond to at least 3 retransmissions, at the current RTO (SHLD-10).
#[test]
fn shld_9_10_the_application_is_told_to_look() {
    let mut p = Peer::active(mss_only(1460));
    p.write(b"nobody hears this");
    while p.host.tcp_take_ready().is_some() {}
    let mut told_at = Vec::new();
    for _ in 0..200 {
        let Some(at) = p.host.next_timeout() else {
            break;
        };
        p.now = p.now.max(at);
        p.poll();
        if p.host.tcp_take_ready().is_some() {
            told_at.push(p.host.tcp_info(p.id()).map(|i| (i.state, i.timeouts)));
        }
        if p.state() == TcpState::Closed {
            break;
        }
    }
    assert_eq!(told_at.first(), Some(&Some((TcpState::Established, 3))));
    assert_eq!(told_at.len(), 2, "and once more when it is given up");
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.8
//= type=test
//# However, an application program that does not want to receive such ERROR_REPORT calls SHOULD
//# be able to effectively disable these calls (SHLD-20).
#[test]
fn shld_20_soft_errors_reach_only_who_asks() {
    let mut p = Peer::active(mss_only(1460));
    p.write(b"text");
    while p.host.tcp_take_ready().is_some() {}
    p.icmp((3, 1), 0, 1);
    p.poll();
    assert!(p.host.tcp_take_ready().is_none() && p.host.tcp_take_error(p.id()).is_none());
    assert!(p.host.tcp_info(p.id()).expect("open").soft_error.is_some());
    p.write(b" goes on");
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
//= type=test
//# New applications SHOULD NOT set the URGENT flag [39] due to implementation differences and
//# middlebox issues (SHLD-13).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//= type=test
//# As a result of implementation differences and middlebox interactions, new applications SHOULD
//# NOT employ the TCP urgent mechanism (SHLD-13).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2
//= type=test
//# Generally, an application SHOULD NOT change the Diffserv field value during the course of a
//# connection (SHLD-23).
#[test]
fn shld_13_23_the_stack_does_neither_by_itself() {
    let mut p = Peer::active(all_options());
    for n in 0..20u32 {
        let (now, id) = (p.now, p.id());
        p.host.tcp_send(now, id, &[7; 3000]).expect("room");
        for packet in packets(&mut p) {
            assert_eq!(packet[1], 0, "Differentiated Services");
            assert_eq!(packet[33] & URG.bits(), 0);
        }
        let ack = seg(ACK, 1, 1 + (n + 1) * 3000).stamp(5000 + n, 0);
        p.send(&ack);
        p.pass(Duration::from_millis(20));
    }
}

/// RFC 7323 sections 3.2 and 5.2: resets of a connection that uses time stamps carry one; a reset
/// of no connection echoes the stamp of what it answers.
//= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
//= type=test
//# If an <RST> is being generated because of a user abort, and Snd.TS.OK is set, then a Timestamps
//# option SHOULD be included in the <RST>.
//= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
//= type=test
//# In the <RST> segment, SEG.TSecr SHOULD be set to SEG.TSval from the incoming segment and
//# SEG.TSval SHOULD be set to zero.
#[test]
fn rfc_7323_section_5_2_resets_carry_time_stamps() {
    let mut p = Peer::active(all_options());
    let now = p.write(b"x")[0].options.timestamps.expect("agreed");
    p.host.tcp_abort(p.now, p.id());
    let out = p.poll();
    assert!(out[0].flags.contains(RST));
    assert_eq!(out[0].options.timestamps, Some(now), "of an abort");
    let out = p.send(&seg(ACK, 1, 1).stamp(7777, 5));
    assert!(out[0].flags.contains(RST));
    assert_eq!(
        out[0].options.timestamps,
        Some((0, 7777)),
        "of no connection"
    );
    let out = p.send(&seg(ACK, 1, 1));
    assert_eq!(out[0].options.timestamps, None, "to one without");
    let mut p = Peer::active(mss_only(1460));
    p.host.tcp_abort(p.now, p.id());
    assert_eq!(p.poll()[0].options.timestamps, None, "not agreed");
}
