//! Loss found by acknowledgements: RFC 5681 fast retransmit, 6582 NewReno, 6675 SACK, 3042; and
//! SACK blocks that lie (T6).

use std::vec::Vec;

use gannet_base::Rng;

use super::peer::{ACK, PSH, Peer, Seg, mss_only, seg, with_sack};
use crate::tcp::TcpState;
use gannet_wire::tcp::Options;

/// Ten full segments under way.
fn ten(options: Options) -> Peer {
    let mut p = Peer::active(options);
    let out = p.write(&[7; 14_600]);
    assert_eq!(out.len(), 10);
    p
}

fn starts(sent: &[Seg]) -> Vec<u32> {
    sent.iter().map(|s| (s.seq - 1) / 1460).collect()
}

//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# The TCP sender SHOULD use the "fast retransmit" algorithm to detect and repair loss, based on
//# incoming duplicate ACKs.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.2
//= type=test
//# A TCP endpoint MUST implement the basic congestion control algorithms slow start, congestion
//# avoidance, and exponential backoff of RTO to avoid creating congestion collapse conditions
//# (MUST-19).
#[test]
fn rfc_5681_section_3_2_fast_retransmit() {
    let mut p = ten(mss_only(1460));
    p.write(&[8; 14_600]);
    // RFC 3042: the first two duplicates let one new segment out each
    assert_eq!(starts(&p.send(&seg(ACK, 1, 1))), [10]);
    assert_eq!(starts(&p.send(&seg(ACK, 1, 1))), [11]);
    assert_eq!(
        starts(&p.send(&seg(ACK, 1, 1))),
        [0],
        "the third finds the loss"
    );
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.fast_recoveries, info.timeouts), (1, 0));
    // CUBIC: 0.7 of what was in flight (RFC 9438 section 4.6)
    assert!(info.slow_start_threshold <= 9 * 1460);
}

/// RFC 6582: a partial acknowledgement sends the next hole at once, recovery ends with the last.
#[test]
fn rfc_6582_partial_acknowledgements() {
    let mut p = ten(mss_only(1460));
    for _ in 0..3 {
        p.send(&seg(ACK, 1, 1));
    }
    assert_eq!(starts(&p.send(&seg(ACK, 1, 1 + 4 * 1460))), [4]);
    assert_eq!(starts(&p.send(&seg(ACK, 1, 1 + 7 * 1460))), [7]);
    assert_eq!(p.send(&seg(ACK, 1, 14_601)), []);
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.fast_recoveries, info.retransmissions), (1, 3));
    assert_eq!(
        info.congestion_window,
        info.slow_start_threshold
            .max(1460 * 2)
            .min(info.congestion_window)
    );
}

/// What is no duplicate acknowledgement by RFC 5681 section 2.
//= https://www.rfc-editor.org/rfc/rfc6675#section-5
//= type=test
//# If the incoming ACK is a cumulative acknowledgment, the TCP MUST reset DupAcks to zero.
//= https://www.rfc-editor.org/rfc/rfc6675#section-5
//= type=test
//# If the incoming ACK is a duplicate acknowledgment per the definition in Section 2 (regardless of
//# its status as a cumulative acknowledgment), and the TCP is not currently in loss recovery, the
//# TCP MUST increase DupAcks by one and take the following steps:
#[test]
fn not_duplicates() {
    let cases: [fn(u32) -> Seg; 3] = [
        |n| seg(ACK, 1 + n, 1).text(b"x"),            // carries data
        |n| seg(ACK, 1, 1).window(60_000 - n as u16), // a window update
        |_| seg(ACK, 1, 0),                           // older
    ];
    for case in cases {
        let mut p = ten(mss_only(1460));
        for n in 0..10 {
            p.send(&case(n));
        }
        assert_eq!(p.host.tcp_info(p.id()).expect("open").fast_recoveries, 0);
    }
}

/// RFC 6675: every hole is filled, nothing twice, nothing that arrived.
//= https://www.rfc-editor.org/rfc/rfc6675#section-5
//= type=test
//# (C.1) The scoreboard MUST be queried via NextSeg () for the sequence number range of the next
//# segment to transmit (if any), and the given segment sent.
//= https://www.rfc-editor.org/rfc/rfc6675#section-5
//= type=test
//# (A) An incoming cumulative ACK for a sequence number greater than RecoveryPoint signals the end
//# of loss recovery, and the loss recovery phase MUST be terminated.
//= https://www.rfc-editor.org/rfc/rfc6675#section-4
//= type=test
//# (1) If there exists a smallest unSACKed sequence number 'S2' that meets the following three
//# criteria for determining loss, the sequence range of one segment of up to SMSS octets starting
//# with S2 MUST be returned.
//= https://www.rfc-editor.org/rfc/rfc6675#section-4
//= type=test
//# (2) If no sequence number 'S2' per rule (1) exists but there exists available unsent data and
//# the receiver's advertised window allows, the sequence range of one segment of up to SMSS octets
//# of previously unsent data starting with sequence number HighData+1 MUST be returned.
#[test]
fn rfc_6675_holes() {
    let mut p = ten(with_sack());
    let at = |n: u32| 1 + n * 1460;
    // 0, 3 and 6 are lost; no time passes, so that nothing can be late
    let mut out = p.send(&seg(ACK, 1, 1).sack(&[(at(1), at(2))]));
    out.extend(p.send(&seg(ACK, 1, 1).sack(&[(at(1), at(3))])));
    out.extend(p.send(&seg(ACK, 1, 1).sack(&[(at(4), at(5)), (at(1), at(3))])));
    out.extend(p.send(&seg(ACK, 1, 1).sack(&[(at(4), at(6)), (at(1), at(3))])));
    out.extend(p.send(&seg(ACK, 1, 1).sack(&[(at(7), at(8)), (at(4), at(6)), (at(1), at(3))])));
    out.extend(p.send(&seg(ACK, 1, 1).sack(&[(at(7), at(9)), (at(4), at(6)), (at(1), at(3))])));
    out.extend(p.send(&seg(ACK, 1, 1).sack(&[(at(7), at(10)), (at(4), at(6)), (at(1), at(3))])));
    out.extend(p.send(&seg(ACK, 1, at(3)).sack(&[(at(7), at(10)), (at(4), at(6))])));
    out.extend(p.send(&seg(ACK, 1, at(6)).sack(&[(at(7), at(10))])));
    assert_eq!(starts(&out), [0, 3, 6]);
    assert_eq!(p.send(&seg(ACK, 1, at(10))), []);
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.fast_recoveries, info.timeouts), (1, 0));
}

//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# A TCP receiver SHOULD send an immediate duplicate ACK when an out-of-order segment arrives.
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
//= type=test
//# In addition, a TCP receiver SHOULD send an immediate ACK when the incoming segment fills in
//# all or part of a gap in the sequence space.
//= https://www.rfc-editor.org/rfc/rfc2018#section-4
//= type=test
//# If the data receiver has not received a SACK-Permitted option for a given connection, it MUST
//# NOT send SACK options on that connection.
#[test]
fn the_receivers_side() {
    let mut p = Peer::active(with_sack());
    p.pass_ms(5000);
    // use up the quick acknowledgements of the start
    for n in 0..40 {
        p.send(&seg(ACK, 1 + n * 1000, 1).text(&[1; 1000]));
    }
    p.pass_ms(100);
    p.read();
    p.poll();
    let seq = 40_001;
    let s = |offset: u32| seg(ACK, seq + offset, 1).text(&[2; 100]);
    let block = |out: &[Seg]| out[0].options.sack.as_slice().to_vec();
    let out = p.send(&s(100));
    assert_eq!(
        (out[0].ack, block(&out)),
        (seq, [(seq + 100, seq + 200)].to_vec())
    );
    let out = p.send(&s(300));
    let both = [(seq + 300, seq + 400), (seq + 100, seq + 200)];
    assert_eq!(
        block(&out),
        both.to_vec(),
        "the latest first (RFC 2018 section 4)"
    );
    let out = p.send(&s(0));
    assert_eq!((out[0].ack, out.len()), (seq + 200, 1), "a part of the gap");
    let out = p.send(&s(200));
    assert_eq!(
        (out[0].ack, block(&out)),
        (seq + 400, Vec::new()),
        "all of the gap: at once"
    );
    // RFC 2883: what came twice is reported once
    let out = p.send(&s(0));
    assert_eq!(block(&out), [(seq, seq + 100)].to_vec());
    let out = p.send(&s(500));
    assert_eq!(block(&out), [(seq + 500, seq + 600)].to_vec());
}

/// T6: blocks that cannot be true change nothing.
#[test]
fn t6_sack_blocks_that_lie() {
    let una = 1;
    let nxt = 14_601u32;
    let lies = [
        (una + 1460, una + 1460), // empty
        (una + 2920, una + 1460), // reversed
        (0, una),                 // below, without a D-SACK's meaning
        (una, una + 1460),        // what is not acknowledged cannot be held
        (nxt - 1, nxt + 1),       // beyond what was sent
        (nxt, nxt + 100),
        (una.wrapping_sub(0x8000_0000), nxt),
        (nxt + 0x4000_0000, nxt + 0x4000_1000),
        (0xffff_ff00, 0x0000_0100), // around zero
    ];
    for lie in lies {
        let mut p = ten(with_sack());
        for _ in 0..2 {
            p.send(&seg(ACK, 1, 1).sack(&[lie, lie, lie, lie]));
        }
        let info = p.host.tcp_info(p.id()).expect("open");
        assert_eq!(info.retransmissions, 0, "{lie:?}");
        // and the truth is still believed
        p.send(&seg(ACK, 1, nxt));
        assert_eq!(p.host.tcp_info(p.id()).expect("open").in_flight, 0);
    }
}

/// T6: random blocks, reneging, D-SACKs of what was never sent: the connection lives, no more is
/// sent again than is under way, and everything is delivered in the end.
#[test]
fn t6_random_blocks() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut p = Peer::active(with_sack());
        p.write(&[7; 60_000]);
        let mut una = 1;
        for _ in 0..400 {
            let blocks: Vec<_> = (0..rng.below(5))
                .map(|_| {
                    let left = una + rng.below(62_000) as u32;
                    (
                        left,
                        left.wrapping_add(rng.below(9000) as u32)
                            .wrapping_sub(rng.below(300) as u32),
                    )
                })
                .collect();
            if rng.chance(30_000) {
                let info = p.host.tcp_info(p.id()).expect("open");
                una += rng.below(u64::from(info.in_flight) + 1) as u32;
            }
            let out = p.send(&seg(ACK, 1, una).sack(&blocks));
            let bytes: u32 = out.iter().map(Seg::len).sum();
            assert!(bytes <= 60_000, "seed {seed}: {una} {blocks:?}");
            if rng.chance(20_000) {
                p.pass_ms(300);
            }
        }
        let mut steps = 0;
        while una < 60_001 {
            una += p.host.tcp_info(p.id()).expect("open").in_flight;
            p.send(&seg(ACK, 1, una));
            p.pass_ms(300);
            steps += 1;
            assert!(
                steps < 1000,
                "seed {seed} {una} {:?}",
                p.host.tcp_info(p.id())
            );
        }
        assert_eq!(p.state(), TcpState::Established);
        p.assert_memory_is_back();
    }
}

/// T6: "SACK panic": the smallest segments, 17 pieces, everything SACKed but the first.
#[test]
fn t6_seventeen_fragments_of_a_low_mss() {
    let mut options = with_sack();
    options.mss = Some(48);
    let mut p = Peer::active(options);
    for n in 0..40 {
        p.write(&std::vec![n; 1700]);
    }
    let mut out = Vec::new();
    for round in 0..40u32 {
        let right = 49 + round * 48;
        out.extend(p.send(&seg(ACK, 1, 1).sack(&[(49, right.max(97))])));
    }
    assert!(out.iter().all(|s| s.len() <= 48));
    let mut una = 1;
    while una < 68_001 {
        una += p.host.tcp_info(p.id()).expect("open").in_flight;
        p.send(&seg(ACK, 1, una));
        p.pass_ms(300);
    }
    p.assert_memory_is_back();
}

/// Acknowledging every byte by itself does not open the window faster (RFC 3465).
#[test]
fn ack_division_gains_nothing() {
    let grown = |step: u32| {
        let mut p = Peer::active(mss_only(1460));
        p.write(&[7; 200_000]);
        let mut una = 1;
        while una < 14_601 {
            una += step;
            p.send(&seg(ACK, 1, una));
        }
        p.host.tcp_info(p.id()).expect("open").congestion_window
    };
    assert!(grown(10) <= grown(1460));
}

/// PUSH goes on the last of what is queued, also when it is sent again.
#[test]
fn the_last_piece_is_pushed_again() {
    let mut p = Peer::active(with_sack());
    let out = p.write(&[7; 2000]);
    assert_eq!(out[1].flags, ACK | PSH);
    // the probe of the tail, then the time-out
    let again = p.pass_ms(450);
    let flags: Vec<_> = again.iter().map(|(_, s)| (s.seq, s.flags)).collect();
    assert_eq!(flags[0], (541, ACK | PSH), "the last again");
    assert_eq!(flags[1], (1, ACK), "the first is not the last");
}
