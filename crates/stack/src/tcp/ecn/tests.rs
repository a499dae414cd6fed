//! RFC 3168 section 6.1, RFC 8257 section 3.2: each half by itself.
use super::*;

const SENT: SeqNum = SeqNum(1000);

//= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
//= type=test
//# TCP should not react to congestion indications more than once every window of data (or more
//# loosely, more than once every round-trip time).
#[test]
fn section_6_1_2_once_per_window() {
    let mut ecn = EcnSender::new(true, false);
    assert!(ecn.on_echo(SeqNum(100), SENT));
    assert!(ecn.owes_cwr());
    ecn.cwr_sent();
    // 1000 is all that was sent before CWR: the peer has not seen it yet
    for una in [100, 500, 999, 1000] {
        assert!(!ecn.on_echo(SeqNum(una), SeqNum(2000)), "{una}");
    }
    assert!(!ecn.owes_cwr());
    assert!(ecn.on_echo(SeqNum(1001), SeqNum(2000)), "the next window");
    // a reduction for another reason counts too
    ecn.on_reduction(SeqNum(3000));
    assert!(!ecn.on_echo(SeqNum(2500), SeqNum(3000)));
    // long after, numbers have wrapped
    ecn.on_ack(SeqNum(3001));
    assert!(ecn.on_echo(SeqNum(3000u32.wrapping_sub(1 << 31)), SeqNum(0)));
}

#[test]
fn what_is_marked() {
    // on, everything; new data, the rest
    for (on, all, data, other) in [
        (false, false, 0, 0),
        (false, true, 0, 0),
        (true, false, 2, 0),
        (true, true, 2, 2),
    ] {
        let ecn = EcnSender::new(on, all);
        let marks = (ecn.data_mark(), ecn.other_mark());
        assert_eq!(marks, (data, other), "{on} {all}");
        assert_eq!((ecn.mark(true), ecn.mark(false)), marks);
    }
    let mut off = EcnSender::new(false, false);
    assert!(!off.on_echo(SENT, SENT));
    off.on_reduction(SENT);
    assert!(!off.owes_cwr());
}

#[test]
fn section_6_1_3_echo_until_cwr() {
    let mut ecn = EcnReceiver::new(true, false);
    // mark, CWR, text -> before: in a hurry; after: echo
    let rows = [
        (false, false, true, Echo::Same, false),
        (true, false, true, Echo::Hurry, true),
        (true, false, true, Echo::Same, true),
        (false, false, true, Echo::Same, true),
        (false, true, false, Echo::Same, true), // no data: RFC 3168 speaks of data packets
        (false, true, true, Echo::Same, false),
        (true, false, false, Echo::Same, false),
        (true, true, true, Echo::Hurry, true), // CWR first, then the mark
        (false, true, true, Echo::Same, false),
    ];
    for (n, (ce, cwr, text, hurry, echo)) in rows.into_iter().enumerate() {
        assert_eq!(ecn.look(ce, text), hurry, "{n}");
        ecn.take(ce, cwr, text);
        assert_eq!(ecn.echoes(), echo, "{n}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
//= type=test
//# If the CE codepoint is set and DCTCP.CE is false, set DCTCP.CE to true and send an immediate
//# ACK.
//= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
//= type=test
//# If the CE codepoint is not set and DCTCP.CE is true, set DCTCP.CE to false and send an
//# immediate ACK.
#[test]
fn rfc_8257_section_3_2_state_machine() {
    let mut ecn = EcnReceiver::new(true, true);
    for (ce, change, echo) in [
        (false, Echo::Same, false),
        (true, Echo::Split, true),
        (true, Echo::Same, true),
        (false, Echo::Split, false),
    ] {
        assert_eq!(ecn.look(ce, true), change);
        ecn.take(ce, true, true);
        assert_eq!(ecn.echoes(), echo);
    }
    let mut off = EcnReceiver::new(false, true);
    assert_eq!(off.look(true, true), Echo::Same);
    off.take(true, false, true);
    assert!(!off.echoes());
}

#[test]
fn only_ce_is_a_mark() {
    let marked: [bool; 4] = core::array::from_fn(|tos| is_marked(0xb8 | tos as u8));
    assert_eq!(marked, [false, false, false, true]);
}
