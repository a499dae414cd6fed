//! RFC 8985: losses found by time, tails probed, reordering waited for; reneging (RFC 2018).

use super::flow::{Flow, RTT};
use super::peer::{all_options, with_sack};

/// Figure 1 and section 7.4.1: the last three of ten are lost; no time-out.
//= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
//= type=test
//# If such an unsent segment is not available, then the sender SHOULD retransmit the
//# highest-sequence segment sent so far and set TLP.is_retrans to true.
//= https://www.rfc-editor.org/rfc/rfc8985#section-4
//= type=test
//# The connection MUST use selective acknowledgment (SACK) options [RFC2018], and the sender MUST
//# keep SACK scoreboard information on a per-connection basis ("SACK scoreboard" has the same
//# meaning here as in [RFC6675], Section 3).
#[test]
fn section_7_4_1_a_lost_tail() {
    let mut f = Flow::new(with_sack());
    let sent = f.write(10);
    f.echo(&sent);
    f.wait(RTT);
    assert_eq!(f.ack(7), []);
    let probe = f.wait(100);
    assert_eq!(probe.len(), 1, "one probe: {probe:?}");
    assert!(
        (80..85).contains(&probe[0].0) && probe[0].1 == 9,
        "{probe:?}"
    );
    f.wait(RTT - 20);
    let mut again = f.sack(7, &[(9, 10)]);
    again.extend(f.wait(1).iter().map(|a| a.1));
    // the second one waits, as PRR wants, for the answer to the first
    f.wait(RTT);
    again.extend(f.sack(8, &[(9, 10)]));
    assert_eq!(again, [7, 8], "what was sent before the probe is lost");
    f.wait(RTT);
    f.ack(10);
    let info = f.info();
    assert_eq!(
        (info.timeouts, info.fast_recoveries, info.tail_probes),
        (0, 1, 1)
    );
    assert_eq!(info.retransmissions, 3);
}

//= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
//= type=test
//# If both conditions are met, then the sender SHOULD transmit a previously unsent data segment, if
//# one exists and the receive window allows, and increment the FlightSize accordingly.
#[test]
fn section_7_3_new_data_is_the_better_probe() {
    let mut f = Flow::new(with_sack());
    let cwnd = f.info().congestion_window / 1460;
    let sent = f.write(cwnd + 5);
    assert_eq!(sent.len() as u32, cwnd);
    let probe = f.wait(100);
    assert_eq!(probe.len(), 1);
    assert_eq!(probe[0].1, cwnd, "beyond the congestion window, once");
    assert_eq!(f.info().retransmissions, 0);
}

//= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
//= type=test
//# After attempting to send a loss probe, regardless of whether a loss probe was sent, the sender
//# MUST re-arm the RTO timer, not the PTO timer, if the FlightSize is not zero.
//= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
//= type=test
//# When the PTO timer expires, the sender MUST check whether both of the following conditions are
//# met before sending a loss probe:
//= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
//= type=test
//# If either one of these two conditions is not met, then the sender MUST skip sending a loss probe
//# and MUST proceed to re-arm the RTO timer, as specified at the end of this section.
#[test]
fn section_7_3_one_probe_then_the_time_out() {
    let mut f = Flow::new(with_sack());
    f.write(3);
    let sent = f.wait(1000);
    let rto = 240; // SRTT and 200 ms
    assert_eq!(sent.len(), 3, "{sent:?}");
    let near = |(ms, n): (u64, u32), then: u64, which| ms.abs_diff(then) < 10 && n == which;
    assert!(
        near(sent[0], 80, 2) && near(sent[1], 80 + rto, 0),
        "{sent:?}"
    );
    assert!(near(sent[2], 80 + 3 * rto, 0), "{sent:?}");
}

/// Section 7.2: a lone segment may be acknowledged late; no probe sooner than that.
#[test]
fn section_7_2_a_lone_segment() {
    let mut f = Flow::new(with_sack());
    f.write(1);
    assert!(f.wait(200).is_empty());
}

/// Section 7.4.2: the probe repaired the only loss; that was congestion all the same, unless the
/// peer has received it twice.
//= https://www.rfc-editor.org/rfc/rfc8985#section-7.4.2
//= type=test
//# The sender then SHOULD invoke a congestion control response equivalent to a fast recovery.
//= https://www.rfc-editor.org/rfc/rfc8985#section-7.4.2
//= type=test
//# If the TLP sender does not receive such an indication, then it MUST assume that the original
//# data segment, the TLP retransmission, or a corresponding ACK was lost for congestion control
//# purposes.
#[test]
fn section_7_4_2_a_loss_that_the_probe_repaired() {
    for needless in [false, true] {
        let mut f = Flow::new(with_sack());
        f.write(10);
        f.wait(RTT);
        f.ack(9);
        assert_eq!(f.wait(250).len(), 1);
        let before = f.info().slow_start_threshold;
        f.ack(10);
        if needless {
            f.sack(10, &[(9, 10)]);
        }
        f.write(5);
        f.wait(RTT);
        f.ack(15);
        let info = f.info();
        assert_eq!(info.slow_start_threshold < before, !needless);
        assert_eq!((info.timeouts, info.retransmissions), (0, 1));
    }
}

/// Section 3.4, event 7: a retransmission is lost, and what was sent after it arrives.
#[test]
fn section_6_2_a_lost_retransmission() {
    for options in [with_sack(), all_options()] {
        let mut f = Flow::new(options);
        let sent = f.write(10);
        f.echo(&sent[..1]);
        f.wait(RTT);
        assert_eq!(f.sack(0, &[(1, 10)]), [0]);
        // later ones, the first of which is lost too
        f.wait(5);
        let after = f.write(3);
        assert_eq!(f.numbers(&after), [10, 11, 12]);
        f.wait(RTT);
        let mut again = f.sack(0, &[(11, 12), (1, 10)]);
        again.extend(f.wait(2).iter().map(|a| a.1));
        assert_eq!(
            again,
            [0, 10],
            "the lost retransmission, and the hole behind"
        );
        f.wait(RTT);
        f.sack(10, &[(11, 12)]);
        f.ack(13);
        let info = f.info();
        assert_eq!((info.timeouts, info.in_flight), (0, 0));
    }
}

/// Section 6.2 step 4: what is late by less than a quarter of the round trip is not lost, while
/// fewer than three have overtaken it.
//= https://www.rfc-editor.org/rfc/rfc8985#section-6.2
//= type=test
//# For timely loss detection, it is RECOMMENDED that the sender install a reordering timer.
#[test]
fn section_6_2_two_segments_swapped() {
    let mut f = Flow::new(with_sack());
    f.write(4);
    f.wait(RTT);
    assert_eq!(f.sack(0, &[(1, 2)]), []);
    assert!(f.wait(5).is_empty());
    f.ack(4);
    let info = f.info();
    assert_eq!((info.fast_recoveries, info.retransmissions), (0, 0));
    assert!(info.reordering_seen);
    // the same, and the first never comes
    f.write(4);
    f.wait(RTT);
    assert_eq!(f.sack(4, &[(5, 6)]), []);
    let late = f.wait(30);
    assert_eq!(late.len(), 1);
    assert!((9..13).contains(&late[0].0) && late[0].1 == 4, "{late:?}");
}

/// Once reordering was seen, no number of segments that overtake means loss: only time does.
#[test]
fn section_3_3_many_overtake() {
    let mut f = Flow::new(with_sack());
    f.write(2);
    f.wait(RTT);
    f.sack(0, &[(1, 2)]);
    f.ack(2);
    assert!(f.info().reordering_seen);
    for round in 0..10 {
        let base = 2 + 10 * round;
        f.write(10);
        f.wait(RTT);
        // the first is overtaken by all others
        for n in 2..10 {
            assert_eq!(f.sack(base, &[(base + 1, base + n)]), []);
            assert!(f.wait(1).is_empty());
        }
        f.ack(base + 10);
    }
    let info = f.info();
    assert_eq!((info.fast_recoveries, info.retransmissions), (0, 0));
}

/// On a path that always reorders, the first mistake is the last: it is noticed and undone.
#[test]
fn reordering_is_mistaken_for_loss_once() {
    for options in [with_sack(), all_options()] {
        let mut f = Flow::new(options);
        for round in 0..10 {
            let base = 10 * round;
            let sent = f.write(10);
            f.echo(&sent[..1]);
            f.wait(RTT);
            let mut again = std::vec::Vec::new();
            for n in 2..8 {
                again.extend(f.sack(base, &[(base + 1, base + n)]));
            }
            f.wait(3);
            // the original, then (if there was one) the retransmission
            f.ack(base + 10);
            if !again.is_empty() {
                f.wait(RTT);
                f.sack(base + 10, &[(base, base + 1)]);
            }
        }
        let info = f.info();
        assert_eq!(info.retransmissions, 1, "{info:#?}");
        assert_eq!((info.spurious_recoveries, info.timeouts), (1, 0));
        assert_eq!(
            info.slow_start_threshold,
            u32::MAX,
            "as if nothing had been"
        );
    }
}

/// RFC 2018 section 8: the receiver throws away what it reported. Nothing waits for a time-out
/// that need not, and everything arrives.
//= https://www.rfc-editor.org/rfc/rfc2018#section-8
//= type=test
//# Since the data receiver may later discard data reported in a SACK option, the sender MUST NOT
//# discard data before it is acknowledged by the Acknowledgment Number field in the TCP header.
//= https://www.rfc-editor.org/rfc/rfc2018#section-5
//= type=test
//# The data sender MUST retransmit the segment at the left edge of the window after a retransmit
//# timeout, whether or not the SACKed bit is on for that segment.
#[test]
fn rfc_2018_section_8_reneging() {
    let mut f = Flow::new(with_sack());
    f.write(10);
    f.wait(RTT);
    // 0 and 4 are lost
    f.sack(0, &[(5, 10), (1, 4)]);
    f.wait(RTT);
    // all above 5 was thrown away: the acknowledgement stops there
    let mut again = f.ack(5);
    for _ in 0..20 {
        f.wait(RTT);
        let next = 5 + again.iter().filter(|&&n| n >= 5).max().map_or(0, |n| n - 4);
        again.extend(f.ack(next));
        again.extend(f.wait(500).iter().map(|a| a.1));
        if f.info().in_flight == 0 {
            break;
        }
    }
    for n in 5..10 {
        assert!(again.contains(&n), "{n} of {again:?}");
    }
    assert_eq!(f.info().in_flight, 0);
    f.p.assert_memory_is_back();
}

/// Section 6.3: a time-out sends again what is lost and not what arrived.
#[test]
fn section_6_3_a_time_out_keeps_what_is_known() {
    let mut f = Flow::new(with_sack());
    f.write(10);
    f.wait(RTT);
    assert_eq!(f.sack(0, &[(5, 10)]), [0, 1, 2, 3, 4]);
    // all of that is lost
    let mut again: std::vec::Vec<u32> = f.wait(400).iter().map(|a| a.1).collect();
    assert_eq!(f.info().timeouts, 1);
    for n in 1..5 {
        f.wait(RTT);
        again.extend(f.sack(n, &[(5, 10)]));
    }
    f.wait(RTT);
    f.ack(10);
    assert!(again.iter().all(|&n| n < 5), "{again:?}");
    assert_eq!(f.info().in_flight, 0);
}
