//! Recoveries that last: only the first answer to what was sent again can say that it was needless.

use super::peer::{ACK, Peer, all_options, seg};

/// The stamp of the last segment sent.
fn stamp(sent: &[super::peer::Seg]) -> u32 {
    let last = sent.last().expect("something was sent");
    last.options.timestamps.expect("stamped").0
}

//= https://www.rfc-editor.org/rfc/rfc3522#section-3.2
//= type=test
//# The Eifel detection algorithm MUST NOT be reinitiated after loss recovery has already
//# started.
/// Three of ten are lost, and the third is found to be only when the first was mended: the second's
/// answer is older than the third's retransmission, and means nothing.
#[test]
fn rfc_3522_answers_within_a_recovery_say_nothing() {
    let mut p = Peer::active(all_options());
    let out = p.write(&[7; 14_480]);
    assert_eq!(out.len(), 10);
    let first = stamp(&out);
    let at = |n: u32| 1 + n * 1448;
    p.pass_ms(100);
    // 0 and 3 are lost, of 6 nobody knows yet
    let ack = |n: u32, echo: u32| seg(ACK, 1, at(n)).stamp(5001, echo);
    let mut again = p.send(&ack(0, first).sack(&[(at(1), at(3))]));
    again.extend(p.send(&ack(0, first).sack(&[(at(4), at(6)), (at(1), at(3))])));
    again.extend(p.send(&ack(0, first).sack(&[(at(4), at(6)), (at(1), at(3))])));
    assert_eq!(again.iter().filter(|s| s.seq == at(0)).count(), 1);
    let second = stamp(&again);
    assert_ne!(first, second);
    p.pass_ms(100);
    let late = p.send(&ack(3, second).sack(&[(at(7), at(10)), (at(4), at(6))]));
    assert!(
        late.iter().any(|s| s.seq == at(6) || s.seq == at(3)),
        "{late:?}"
    );
    p.pass_ms(2);
    p.send(&ack(6, second).sack(&[(at(7), at(10))]));
    p.pass_ms(100);
    p.send(&ack(10, stamp(&late)));
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.fast_recoveries, info.spurious_recoveries), (1, 0));
    assert_eq!(info.congestion_window, info.slow_start_threshold);
}
