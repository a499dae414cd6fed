//! RFC 9293 section 3.10.7.4 for ESTABLISHED and later: the checks in their order, in every state.

use super::peer::{ACK, FIN, PSH, Peer, RST, STATES, SYN, mss_only, seg};
use crate::tcp::{RecvError, TcpError, TcpEvent, TcpState};
use gannet_wire::tcp::Flags;
use std::vec::Vec;

/// The states that are synchronised.
fn synchronised() -> impl Iterator<Item = TcpState> {
    STATES.into_iter().skip(2)
}

/// First, check sequence number: what lies outside the window is answered, resets are not.
//= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
//= type=test
//# In all other cases, where the SEQ-field does not match and is outside the window, the receiver
//# MUST silently discard the segment.
#[test]
fn first_sequence() {
    for state in synchronised() {
        let (mut p, seq, ack) = Peer::in_state(state);
        assert_eq!(
            p.brief(&seg(ACK, seq, 1)),
            [],
            "{state:?}: the next in order"
        );
        let outside = [seq.wrapping_sub(10_000), seq + 0x10_0000, seq ^ 0x8000_0000];
        for wrong in outside {
            p.pass_ms(600);
            let out: Vec<_> = p.brief(&seg(ACK, wrong, ack).text(b"text"));
            assert!(
                out.iter().any(|s| s.0.contains(ACK) && s.2 == seq),
                "{state:?}: {out:?}"
            );
            assert_eq!(p.brief(&seg(RST, wrong, ack)), [], "{state:?}");
            assert_eq!(p.state(), state);
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# 2) If the RST bit is set and the sequence number exactly matches the next expected sequence
//# number (RCV.NXT), then TCP endpoints MUST reset the connection in the manner prescribed below
//# according to the connection state.
//= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
//= type=test
//# Upon receipt of a valid RST, the local TCP endpoint MUST terminate its connection.
//= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
//= type=test
//# 2) If the RST bit is set and the sequence number exactly matches the next expected sequence
//# number (RCV.NXT), then TCP MUST reset the connection.
#[test]
fn second_reset() {
    for state in synchronised() {
        let (mut p, seq, ack) = Peer::in_state(state);
        p.send(&seg(RST, seq, ack));
        if state == TcpState::TimeWait {
            assert_eq!(p.state(), TcpState::TimeWait, "RFC 1337");
            continue;
        }
        assert_eq!(p.state(), TcpState::Closed, "{state:?}");
        assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::Reset));
        p.close();
        assert_eq!(p.host.tcp_connections(), 0);
        p.assert_memory_is_back();
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# 3) If the RST bit is set and the sequence number does not exactly match the next expected
//# sequence value, yet is within the current receive window, TCP endpoints MUST send an
//# acknowledgment (challenge ACK):
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# After sending the challenge ACK, TCP endpoints MUST drop the unacceptable segment and stop
//# processing the incoming packet further.
//= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
//= type=test
//# 3) If the RST bit is set and the sequence number does not exactly match the next expected
//# sequence value, yet is within the current receive window (RCV.NXT < SEG.SEQ < RCV.NXT+RCV.WND),
//# TCP MUST send an acknowledgment (challenge ACK):
//= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
//= type=test
//# After sending the challenge ACK, TCP MUST drop the unacceptable segment and stop processing the
//# incoming packet further.
#[test]
fn rfc_5961_section_3_2_inexact_resets_are_challenged_and_rarely() {
    for state in synchronised() {
        let (mut p, seq, ack) = Peer::in_state(state);
        for offset in [1, 2, 1000] {
            p.send(&seg(RST, seq + offset, ack));
        }
        let sent = p.pass_ms(1);
        assert!(sent.is_empty());
        assert_eq!(p.state(), state);
        assert_eq!(p.count(TcpEvent::InexactReset), 3, "{state:?}");
        assert_eq!(
            p.count(TcpEvent::Suppressed),
            2,
            "{state:?}: one answer in half a second"
        );
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.5.3
//= type=test
//# TCP implementations SHOULD allow a received RST segment to include data (SHLD-2).
#[test]
fn a_reset_may_carry_text() {
    let mut p = Peer::active(mss_only(1460));
    assert_eq!(p.send(&seg(RST, 1, 1).text(b"because")), []);
    assert_eq!(p.state(), TcpState::Closed);
}

//= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
//= type=test
//# 1) If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK (also
//# referred to as challenge ACK) to the remote peer:
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# RFC 5961 recommends that in these synchronized states, if the SYN bit is set, irrespective of
//# the sequence number, TCP endpoints MUST send a "challenge ACK" to the remote peer:
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# After sending the acknowledgment, TCP implementations MUST drop the unacceptable segment and
//# stop processing further.
//= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
//= type=test
//# After sending the acknowledgment, TCP MUST drop the unacceptable segment and stop processing
//# further.
#[test]
fn fourth_syn() {
    for state in synchronised() {
        for offset in [0, 1, 500, 0x7000_0000] {
            for flags in [SYN, SYN | ACK] {
                let (mut p, seq, ack) = Peer::in_state(state);
                let out = p.send(&seg(flags, seq.wrapping_add(offset), ack));
                assert_eq!(out.len(), 1, "{state:?} {offset}");
                assert_eq!((out[0].flags & !FIN, out[0].ack), (ACK, seq), "{state:?}");
                assert_eq!(p.state(), state);
            }
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
//= type=test
//# The ACK value is considered acceptable only if it is in the range of ((SND.UNA - MAX.SND.WND) <=
//# SEG.ACK <= SND.NXT).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# TCP stacks that implement RFC 5961 MUST add an input check that the ACK value is acceptable
//# only if it is in the range of ((SND.UNA - MAX.SND.WND) =< SEG.ACK =< SND.NXT).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# All incoming segments whose ACK value doesn't satisfy the above condition MUST be discarded
//# and an ACK sent back.
//= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
//= type=test
//# TCP stacks that implement this mitigation MUST add an additional input check to any incoming
//# segment.
//= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
//= type=test
//# All incoming segments whose ACK value doesn't satisfy the above condition MUST be discarded and
//# an ACK sent back.
#[test]
fn fifth_ack() {
    for state in synchronised() {
        let table = [
            (0, false),
            (1, true),
            (65_536 + 2, true),
            (0x8000_0000, true),
        ];
        for (before, drop) in table {
            let (mut p, seq, ack) = Peer::in_state(state);
            let ack = if before == 1 {
                ack + 1
            } else {
                ack.wrapping_sub(before)
            };
            p.send(&seg(ACK, seq, ack).text(b"forged"));
            let bad = p.count(TcpEvent::BadAck);
            assert_eq!(bad > 0, drop, "{state:?} {before}");
        }
        let (mut p, seq, _) = Peer::in_state(state);
        p.send(&seg(Flags::empty(), seq, 0).text(b"no ACK at all"));
        assert_eq!(p.count(TcpEvent::NoAck), 1, "{state:?}");
    }
}

/// Text that both sides no longer expect is acknowledged as where we are, and nobody reads it.
#[test]
fn t5_text_after_the_fin() {
    use TcpState::{CloseWait, Closing, LastAck, TimeWait};
    for state in [CloseWait, Closing, LastAck, TimeWait] {
        let (mut p, seq, ack) = Peer::in_state(state);
        let out = p.send(&seg(ACK, seq, ack.min(1)).text(b"more"));
        assert!(out.iter().any(|s| s.ack == seq), "{state:?} {out:?}");
        let mut buffer = [0; 8];
        assert_eq!(
            p.host.tcp_recv(p.now, p.id(), &mut buffer),
            Ok(0),
            "{state:?}"
        );
    }
}

/// Text is read in order whatever the order of arrival, each byte once.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//= type=test
//# Segments with higher beginning sequence numbers SHOULD be held for later processing (SHLD-31).
#[test]
fn seventh_text_in_any_order() {
    let orders: [[usize; 4]; 5] = [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [1, 0, 3, 2],
        [2, 0, 1, 3],
        [3, 0, 2, 1],
    ];
    let parts: [(u32, &[u8]); 4] = [(1, b"abc"), (4, b"def"), (6, b"fgh"), (9, b"ijk")];
    for order in orders {
        let mut p = Peer::active(mss_only(1460));
        let mut got = Vec::new();
        for index in order {
            let (seq, text) = parts[index];
            p.send(&seg(ACK | PSH, seq, 1).text(text));
            got.extend(p.read());
        }
        assert_eq!(got, b"abcdefghijk", "{order:?}");
        assert_eq!(
            p.brief(&seg(ACK, 1, 1).text(b"abc")),
            [(ACK, 1, 12, 0)],
            "old: answered"
        );
    }
}

#[test]
fn eighth_fin_waits_for_the_text_before_it() {
    let mut p = Peer::active(mss_only(1460));
    assert_eq!(
        p.brief(&seg(ACK | FIN, 4, 1).text(b"def")),
        [(ACK, 1, 1, 0)]
    );
    assert_eq!(p.state(), TcpState::Established);
    let mut buffer = [0; 8];
    let nothing = p.host.tcp_recv(p.now, p.id(), &mut buffer);
    assert_eq!(nothing, Err(RecvError::WouldBlock));
    assert_eq!(p.brief(&seg(ACK, 1, 1).text(b"abc")), [(ACK, 1, 8, 0)]);
    assert_eq!(p.state(), TcpState::CloseWait);
    assert_eq!(p.read(), b"abcdef");
    assert_eq!(p.host.tcp_recv(p.now, p.id(), &mut buffer), Ok(0));
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.6
//= type=test
//# If the local TCP connection is closed by the remote side due to a FIN or RST received from the
//# remote side, then the local application MUST be informed whether it closed normally or was
//# aborted (MUST-12).
#[test]
fn the_end_and_a_reset_are_told_apart() {
    let mut buffer = [0; 8];
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK | FIN, 1, 1));
    assert_eq!(p.host.tcp_recv(p.now, p.id(), &mut buffer), Ok(0));
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(RST, 1, 1));
    let told = p.host.tcp_recv(p.now, p.id(), &mut buffer);
    assert_eq!(told, Err(RecvError::Failed(TcpError::Reset)));
}

/// What is acknowledged twice a second at most cannot keep two confused ends busy: an
/// acknowledgement outside the window is not always answered, text always is.
#[test]
fn an_ack_storm_dies() {
    let mut p = Peer::active(mss_only(1460));
    let answers: usize = (0..50)
        .map(|_| p.send(&seg(ACK, 0x100_0000, 1)).len())
        .sum();
    assert_eq!(answers, 1);
    let answers: usize = (0..5)
        .map(|_| p.send(&seg(ACK, 0, 1).text(b"x")).len())
        .sum();
    assert_eq!(answers, 5);
}

/// A second FIN elsewhere, or one in the middle of what arrived, is no FIN.
#[test]
fn t5_contradicting_fins() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 4, 1).text(b"def"));
    p.send(&seg(ACK | FIN, 3, 1).text(b"c")); // would end before "def"
    p.send(&seg(ACK | FIN, 7, 1).text(b"gh"));
    p.send(&seg(ACK | FIN, 2, 1)); // would end before "b"
    p.send(&seg(ACK, 9, 1).text(b"i")); // behind the end
    p.send(&seg(ACK, 1, 1).text(b"abc"));
    assert_eq!(p.read(), b"abcdefgh");
    assert_eq!(p.state(), TcpState::CloseWait);
}

/// A FIN that came before what lies in front of it: the peer's acknowledgements come from behind
/// it. They are not answered, or two ends with holes would answer each other until those are
/// filled.
#[test]
fn acknowledgements_from_behind_a_fin_that_waits() {
    let mut p = Peer::active(mss_only(1000));
    assert_eq!(p.send(&seg(ACK | FIN, 5, 1)).len(), 1, "the hole is told");
    for _ in 0..3 {
        assert_eq!(p.send(&seg(ACK, 6, 1)), []);
    }
    let out = p.brief(&seg(ACK, 1, 1).text(b"text"));
    assert_eq!(out.last().map(|ack| ack.2), Some(6), "and the FIN counts");
}
