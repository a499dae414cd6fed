//! Recoveries and time-outs that were needless: Eifel (RFC 3522, 4015), F-RTO (RFC 5682), D-SACK.

use std::vec::Vec;

use super::flow::{Flow, RTT};
use super::peer::{all_options, mss_only, with_sack};

/// A delay spike: ten segments, and nothing is heard until the time-out has expired.
fn spike(f: &mut Flow, segments: u32) {
    let sent = f.write(segments);
    f.echo(&sent[..1]);
    let again = f.wait(350);
    assert_eq!(f.info().timeouts, 1, "{again:?}");
    assert_eq!(again.last().map(|a| a.1), Some(0));
}

//= https://www.rfc-editor.org/rfc/rfc3522#section-3.2
//= type=test
//# (4) If the value of the Timestamp Echo Reply field of the acceptable ACK's Timestamps option is
//# smaller than the value of RetransmitTS, then proceed to step (5),
#[test]
fn rfc_3522_a_delay_spike() {
    let mut f = Flow::new(all_options());
    let before = f.info();
    spike(&mut f, 10);
    // the original's acknowledgement, and those of the others
    for n in 1..=10 {
        assert_eq!(f.ack(n), [], "nothing is sent again");
    }
    let info = f.info();
    assert_eq!((info.spurious_recoveries, info.timeouts), (1, 1));
    assert!(info.congestion_window >= before.congestion_window);
    assert_eq!(info.slow_start_threshold, before.slow_start_threshold);
    assert!(info.rto > before.rto, "RFC 4015: the time-out has learned");
}

/// The retransmission was needed: its answer echoes it.
#[test]
fn rfc_3522_a_true_time_out() {
    let mut f = Flow::new(all_options());
    let sent = f.write(10);
    f.echo(&sent[..1]);
    let again = f.p.pass_ms(350);
    let last = again.last().expect("sent again").1.clone();
    f.echo(&[last]);
    f.wait(RTT);
    f.ack(1);
    let info = f.info();
    assert_eq!((info.spurious_recoveries, info.timeouts), (0, 1));
    assert!(info.congestion_window <= 2 * 1448);
}

/// A recovery ends while a segment that it sent again, from behind its end, is still under way; the
/// next begins with that as the oldest. The answer to it is older than what the next sends again,
/// and no answer to an original all the same.
#[test]
fn rfc_3522_an_answer_to_the_recovery_before() {
    let mut f = Flow::new(all_options());
    let sent = f.write(40);
    assert_eq!(f.numbers(&sent).last(), Some(&9));
    f.echo(&sent);
    f.wait(RTT);
    // 0 is lost; what is acknowledged lets new segments out
    let mut more = Vec::new();
    for n in 2..=10 {
        more.extend(f.report(0, &[(1, n)]));
        f.wait(1);
    }
    assert_eq!(f.numbers(&more), [10, 11, 0, 12, 13, 14, 15, 16]);
    f.wait(RTT);
    // so is its copy, and 12 and 14 too; the end of the recovery lies between 11 and 12
    let again = f.report(0, &[(13, 14), (1, 12)]);
    assert_eq!(f.numbers(&again)[..2], [0, 12]);
    f.wait(5);
    f.echo(&again[..1]);
    f.sack(12, &[(13, 14)]);
    f.wait(5);
    assert_eq!(f.sack(12, &[(15, 17), (13, 14)]).first(), Some(&14));
    let before = f.info();
    assert_eq!(before.fast_recoveries, 2);
    f.echo(&again[1..2]);
    f.sack(14, &[(15, 17)]);
    let info = f.info();
    assert_eq!((info.spurious_recoveries, info.reordering_seen), (0, false));
    assert!(info.slow_start_threshold <= before.slow_start_threshold);
}

/// RFC 5682 section 3.1, and 2.1 without SACK: the first acknowledgement lets new data out, the
/// second, for what was sent before the time-out, shows that it was needless.
//= https://www.rfc-editor.org/rfc/rfc5682#section-2.1
//= type=test
//# A TCP sender implementing the basic F-RTO algorithm MUST take the following steps after the
//# retransmission timer expires.
//= https://www.rfc-editor.org/rfc/rfc5682#section-3.1
//= type=test
//# If the sender applies the SACK-enhanced F-RTO algorithm, it MUST follow the steps below.
#[test]
fn rfc_5682_a_delay_spike() {
    for options in [with_sack(), mss_only(1460)] {
        let mut f = Flow::new(options);
        let before = f.info();
        spike(&mut f, 40);
        let new = f.ack(1);
        assert!(!new.is_empty() && new.len() <= 2, "{new:?}");
        assert!(new.iter().all(|&n| n >= 10), "step 2b: {new:?}");
        f.ack(2);
        let info = f.info();
        assert_eq!((info.spurious_recoveries, info.timeouts), (1, 1), "step 3b");
        assert!(info.congestion_window >= before.congestion_window);
        for n in 3..=10 {
            assert!(f.ack(n).iter().all(|&n| n >= 10), "only new data");
        }
        assert!(
            f.info().retransmissions <= 2,
            "the probe and the time-out's"
        );
    }
}

/// The same, and everything was lost: the conventional recovery.
//= https://www.rfc-editor.org/rfc/rfc5682#section-3.1
//= type=test
//# If the retransmission timer expires again during the execution of the SACK-enhanced F-RTO
//# algorithm, the TCP sender MUST re-start the algorithm processing from step 1.
#[test]
fn rfc_5682_a_true_time_out() {
    for options in [with_sack(), mss_only(1460)] {
        let mut f = Flow::new(options);
        spike(&mut f, 40);
        f.wait(480); // and again
        assert_eq!(f.info().timeouts, 2);
        let flight = f.info().in_flight / 1460;
        let new = f.ack(1);
        assert!(new.iter().all(|&n| n >= flight), "step 2b: {new:?}");
        f.wait(RTT);
        let again = match options.sack_permitted {
            true => f.sack(1, &[(flight, flight + 1)]),
            false => f.ack(1),
        };
        assert_eq!(again.first(), Some(&1), "step 3a");
        assert_eq!(f.info().spurious_recoveries, 0);
    }
}

/// RFC 5682: no new data, no test.
#[test]
fn rfc_5682_nothing_new_to_send() {
    let mut f = Flow::new(with_sack());
    spike(&mut f, 8);
    f.wait(RTT);
    assert_eq!(f.ack(1), [1, 2], "slow start");
}

/// RFC 2883: everything that was sent again is reported twice, after the recovery is over.
#[test]
fn d_sack_of_all_that_was_sent_again() {
    let mut f = Flow::new(with_sack());
    let before = f.info().congestion_window;
    f.write(10);
    f.wait(RTT);
    assert_eq!(f.sack(0, &[(2, 10)]), [0, 1]);
    f.wait(10);
    f.ack(10); // the originals
    assert!(f.info().congestion_window < before);
    f.wait(RTT);
    f.sack(10, &[(0, 1)]);
    assert_eq!(
        f.info().spurious_recoveries,
        0,
        "one was needed, as far as is known"
    );
    f.sack(10, &[(1, 2)]);
    let info = f.info();
    assert_eq!(info.spurious_recoveries, 1);
    assert!(info.congestion_window >= before);
    assert!(info.reordering_seen);
}

/// A duplicate of something else proves nothing.
#[test]
fn d_sack_of_something_else() {
    let mut f = Flow::new(with_sack());
    f.write(10);
    f.wait(RTT);
    assert_eq!(f.sack(0, &[(2, 10)]), [0, 1]);
    f.sack(0, &[(2, 3), (2, 10)]);
    f.wait(RTT);
    f.sack(10, &[(0, 1)]);
    assert_eq!(f.info().spurious_recoveries, 0);
}
