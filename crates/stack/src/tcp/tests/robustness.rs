//! Bad input, row by row (T1 to T9 of the list): no panic, no loop, bounded memory, a counter
//! rises, and the next valid segment is processed. Rows T4, T5, T6, T10, T11 and C3 to C5 stand
//! with their subjects.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeSet;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_wire::tcp::Flags;

use super::peer::{ACK, Peer, STATES, SYN, all_options, mss_only, seg};
use crate::tcp::{TcpEvent, TcpState};

/// A new connection on the same host opens and carries text: the host is alive.
fn alive(p: &mut Peer) {
    let me = p.me;
    p.pass_ms(600);
    p.sent();
    p.me.set_port(4999);
    p.at.set_port(80);
    p.open(mss_only(1460));
    assert_eq!(p.write(b"alive").len(), 1);
    p.send(&seg(ACK, 1, 6).text(b"yes"));
    assert_eq!(p.read(), b"yes");
    p.host.tcp_abort(p.now, p.id());
    p.me = me;
}

/// T1: data offsets, lengths, checksums, ports.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# The sender MUST generate it (MUST-2) and the receiver MUST check it (MUST-3).
#[test]
fn t1_headers() {
    let mut p = Peer::active(mss_only(1460));
    let good = p.packet(&seg(ACK, 1, 1).text(b"0123456789"));
    let tcp = good[20..].to_vec();
    for offset in 0..16u8 {
        let mut bytes = tcp.clone();
        bytes[12] = offset << 4;
        let before = p.count(TcpEvent::BadHeader);
        let packet = p.finish(bytes);
        p.raw(&packet);
        let bad = p.count(TcpEvent::BadHeader) > before;
        let fits = (5..=7).contains(&offset);
        assert_eq!(bad, !fits, "{offset}");
    }
    for len in 0..20 {
        let packet = p.finish(tcp[..len].to_vec());
        assert_eq!(p.raw(&packet), [], "{len}");
    }
    for byte in [20, 25, 36, 37, 45] {
        let before = p.count(TcpEvent::BadChecksum);
        let mut packet = good.clone();
        packet[byte] ^= 0x10;
        assert_eq!(p.raw(&packet), []);
        assert_eq!(p.count(TcpEvent::BadChecksum), before + 1, "{byte}");
    }
    for port in [0..2, 2..4] {
        let mut bytes = tcp.clone();
        bytes[port].fill(0);
        let before = p.count(TcpEvent::BadAddress);
        let packet = p.finish(bytes);
        assert_eq!(p.raw(&packet), []);
        assert_eq!(p.count(TcpEvent::BadAddress), before + 1);
    }
    alive(&mut p);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# TCP implementations MUST be prepared to handle an illegal option length (e.g., zero); a
//# suggested procedure is to reset the connection and log the error cause (MUST-7).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# A TCP implementation MUST (MUST-6) ignore without error any TCP Option it does not implement,
//# assuming that the option has a length field.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# A TCP implementation MUST be able to receive a TCP Option in any segment (MUST-5).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.2
//= type=test
//# There is no guarantee that senders will use this option, so receivers MUST be prepared to
//# process options even if they do not begin on a word boundary (MUST-64).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# A given TCP implementation can support any currently defined options, but the following
//# options MUST be supported (MUST-4 --note Maximum Segment Size Option support is also part of
//# MUST-14 in Section 3.7.1):
#[test]
fn t2_options() {
    let mut lists: Vec<Vec<u8>> = [
        &[0u8, 0, 0, 0][..],
        &[1; 40],
        &[2, 0, 0, 0],  // length 0
        &[2, 1, 0, 0],  // length 1
        &[2, 40, 0, 0], // beyond the end
        &[2, 3, 5, 0],  // a wrong length of each
        &[2, 5, 5, 0, 0, 0, 0, 0],
        &[3, 2, 0, 0],
        &[3, 4, 1, 1],
        &[4, 3, 0, 0],
        &[5, 9, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0],
        &[5, 2, 0, 0],
        &[8, 9, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0],
        &[1, 2, 4, 5, 0xb4, 3, 3, 9], // not aligned (MUST-64)
        &[3, 3, 255, 0],
        &[2, 4, 1, 0, 2, 4, 2, 0], // twice
        &[19, 18, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0], // MD5
        &[29, 3, 1, 0],
        &[34, 5, 1, 2, 3, 0, 0, 0], // fast open, odd
        &[254, 2, 0, 0],
        &[0, 2, 0, 9], // behind the end
    ]
    .into_iter()
    .map(<[u8]>::to_vec)
    .collect();
    let mut rng = Rng::new(2);
    for _ in 0..3000 {
        let mut random = std::vec![0; 4 * (1 + rng.below(10) as usize)];
        rng.fill(&mut random);
        random
            .iter_mut()
            .filter(|b| **b > 40)
            .for_each(|b| *b %= 10);
        lists.push(random);
    }
    for list in lists {
        for flags in [SYN, ACK] {
            let mut p = match flags {
                SYN => {
                    let mut p = Peer::new();
                    p.listen(4);
                    p
                }
                _ => Peer::active(mss_only(1460)),
            };
            let plain = p.packet(&seg(flags, u32::from(flags == ACK), 1));
            let mut bytes = plain[20..40].to_vec();
            bytes.extend_from_slice(&list);
            bytes[12] = ((bytes.len() / 4) as u8) << 4;
            if flags == ACK {
                bytes.extend_from_slice(b"text");
            }
            let packet = p.finish(bytes);
            let out = p.raw(&packet);
            if flags == SYN {
                assert_eq!(out.len(), 1, "{list:?}");
                assert_eq!(out[0].flags, SYN | ACK);
            } else {
                assert_eq!(p.read(), b"text", "{list:?}");
            }
        }
    }
}

/// T3: every combination of flags in every state at every interesting place.
#[test]
fn t3_all_flags_in_all_states() {
    for state in STATES {
        for flags in 0..64u8 {
            let flags = Flags::from_bits_truncate(flags);
            for place in 0..5 {
                for acked in 0..5 {
                    for len in [0usize, 3] {
                        let (mut p, seq, ack) = Peer::in_state(state);
                        let places = [
                            seq.wrapping_sub(1),
                            seq,
                            seq + 9,
                            seq + 65_534,
                            seq + 65_535,
                        ];
                        let acks = [ack.wrapping_sub(70_000), ack.wrapping_sub(1), ack, ack + 1];
                        let max = ack.wrapping_add(0x8000_0000);
                        let number = acks.get(acked).copied().unwrap_or(max);
                        let s = seg(flags, places[place], number).text(&[b'x'; 3][..len]);
                        let out = p.send(&s);
                        assert!(out.len() <= 2, "{state:?} {s:?} {out:?}");
                        if flags.contains(Flags::RST) {
                            let quiet = out.iter().all(|o| !o.flags.contains(Flags::RST));
                            assert!(quiet, "a reset is never answered by one: {state:?} {s:?}");
                        }
                        still_works(&mut p, state, (seq, ack));
                    }
                }
            }
        }
    }
}

/// If the connection is as open as it was, the next text in order is taken.
fn still_works(p: &mut Peer, state: TcpState, (seq, ack): (u32, u32)) {
    if state != TcpState::Established || p.state() != state {
        return;
    }
    let received = p.host.tcp_info(p.id()).expect("open").bytes_received as u32;
    assert!(received <= 3);
    p.send(&seg(ACK, seq + received, ack).text(b"next"));
    let after = p.host.tcp_info(p.id()).expect("open").bytes_received as u32;
    assert!(
        after >= received + 4 || p.state() != state,
        "{received} {after}"
    );
}

//= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
//= type=test
//# R1)  If there is a Timestamps option in the arriving segment, SEG.TSval < TS.Recent, TS.Recent
//# is valid (see later discussion), and if the RST bit is not set, then treat the arriving segment
//# as not acceptable:
//= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
//= type=test
//# A TCP MUST NOT abort a TCP connection because any segment lacks an expected TSopt.
//= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
//= type=test
//# The choice of incoming timestamps to be saved for this comparison MUST guarantee a value that is
//# monotonically non-decreasing.
//= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
//= type=test
//# Also, PAWS processing MUST take precedence over the regular TCP acceptability check (Section 3.3
//# in [RFC0793]), which is performed after verification of the received Timestamps option:
#[test]
fn t7_time_stamps() {
    // (TSval, TSecr, whether the text is taken)
    let table = [
        (Some((5000, 0)), true),
        (Some((5001, u32::MAX)), true), // an echo from the future
        (Some((4999, 0)), false),       // going back: PAWS
        (Some((5000u32.wrapping_add(0x7fff_ffff), 0)), true),
        (Some((5000u32.wrapping_add(0x8000_0000), 0)), false),
        (Some((0, 0)), false),
        (None, false), // missing after it was agreed
    ];
    for (stamp, taken) in table {
        let mut p = Peer::active(all_options());
        let mut s = seg(ACK, 1, 1).text(b"text");
        s.options.timestamps = stamp;
        let out = p.send(&s);
        assert_eq!(p.read() == b"text", taken, "{stamp:?}");
        if let (Some(_), false) = (stamp, taken) {
            assert_eq!(out.len(), 1, "answered: {stamp:?}");
            assert_eq!(p.count(TcpEvent::OldTimestamp), 1);
        }
        p.send(
            &seg(
                ACK,
                p.host.tcp_info(p.id()).expect("open").bytes_received as u32 + 1,
                1,
            )
            .stamp(0x7fff_ffff + 5000, 0)
            .text(b"more"),
        );
        assert_eq!(p.read(), b"more");
    }
}

/// T7: a reset needs no time stamp; after 24 days of silence any is believed.
//= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
//= type=test
//# When an <RST> segment is received, it MUST NOT be subjected to the PAWS check by verifying an
//# acceptable value in SEG.TSval, and information from the Timestamps option MUST NOT be used to
//# update connection state information.
#[test]
fn t7_exceptions() {
    let mut p = Peer::active(all_options());
    p.send(&seg(Flags::RST, 1, 1));
    assert_eq!(p.state(), TcpState::Closed);
    let mut p = Peer::active(all_options());
    p.pass(core::time::Duration::from_secs(24 * 24 * 3600 + 1));
    p.send(&seg(ACK, 1, 1).stamp(1, 0).text(b"long ago"));
    assert_eq!(p.read(), b"long ago");
}

/// T7: only a segment that covers the last acknowledgement sets TS.Recent (PAWS poisoning).
//= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
//= type=test
//# When the ACK bit is set in an outgoing segment, the sender MUST echo a recently received TSval
//# sent by the remote TCP in the TSval field of a Timestamps option.
#[test]
fn t7_what_is_remembered() {
    let mut p = Peer::active(all_options());
    p.send(&seg(ACK, 1001, 1).stamp(9000, 0).text(b"early"));
    p.send(&seg(ACK, 1, 1).stamp(5001, 0).text(b"x"));
    assert_eq!(p.read(), b"x");
    let echo = p.write(b"y")[0].options.timestamps.expect("agreed").1;
    assert_eq!(echo, 5001);
}

/// T8, "SegmentSmack": one-byte segments in random order over the whole window. Memory stays within
/// the buffer, and so do the pieces that each segment has to find its place among.
#[test]
fn t8_one_byte_segments_in_random_order() {
    let mut p = Peer::active(mss_only(1460));
    let mut rng = Rng::new(8);
    let mut order: Vec<u32> = (1..60_000).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let blocks = p.host.link(p.link).expect("a link").pool.blocks();
    for chunk in order.chunks(50) {
        for &at in chunk {
            let packet = p.packet(&seg(ACK, 1 + at, 1).text(&[at as u8]));
            p.inject(&packet);
        }
        p.poll();
        let info = p.host.tcp_info(p.id()).expect("open");
        assert!(
            info.out_of_order <= 1024,
            "each is charged for the memory that it keeps"
        );
        let pool = &p.host.link(p.link).expect("a link").pool;
        assert!(
            blocks - pool.free_blocks() <= 64,
            "{} blocks",
            blocks - pool.free_blocks()
        );
    }
    // the first byte joins what was kept next to it; the rest comes again
    let mut seq = 0;
    let mut got = Vec::new();
    while seq < 60_000 {
        let text: Vec<u8> = (seq..(seq + 1000).min(60_000)).map(|n| n as u8).collect();
        p.send(&seg(ACK, 1 + seq, 1).text(&text));
        seq += 1000;
        got.extend(p.read());
    }
    let expected: Vec<u8> = (0..60_000u32).map(|n| n as u8).collect();
    assert!(got == expected);
    p.assert_memory_is_back();
}

/// T8: overlapping copies with other bytes: the first copy of every byte is the one that is read,
/// whether what comes later lies before, behind or over it, or fills the hole in front of it.
#[test]
fn t8_overlaps_with_other_bytes() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut p = Peer::active(mss_only(1460));
        let mut first = [None; 600];
        let mut got = Vec::new();
        for n in 0..200u8 {
            let at = rng.below(560) as usize;
            let len = 1 + rng.below(40) as usize;
            let next = got.len();
            let (from, to) = (at.max(next), (at + len).max(next));
            for byte in &mut first[from..to] {
                byte.get_or_insert(n);
            }
            p.send(&seg(ACK, 1 + at as u32, 1).text(&std::vec![n; len]));
            got.extend(p.read());
        }
        // what never came is filled in, over everything that did
        p.send(&seg(ACK, 1, 1).text(&[255; 600]));
        got.extend(p.read());
        let expected: Vec<u8> = first.iter().map(|n| n.unwrap_or(255)).collect();
        assert_eq!(got, expected, "seed {seed}");
        let info = p.host.tcp_info(p.id()).expect("open");
        assert_eq!(info.bytes_received as usize, got.len());
        p.assert_memory_is_back();
    }
}

/// T9: initial sequence numbers: not constant, not global, not of time alone; another secret gives
/// others.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
//= type=test
//# A TCP implementation MUST use the above type of "clock" for clock-driven selection of initial
//# sequence numbers (MUST-8), and SHOULD generate its initial sequence numbers with the
//# expression:
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
//= type=test
//# F() MUST NOT be computable from the outside (MUST-9), or an attacker could still guess at
//# sequence numbers from the ISN used for some other connection.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
//= type=test
//# where M is the 4 microsecond timer, and F() is a pseudorandom function (PRF) of the
//# connection's identifying parameters ("localip, localport, remoteip, remoteport") and a secret
//# key ("secretkey") (SHLD-1).
#[test]
fn t9_initial_sequence_numbers() {
    let mut seen = BTreeSet::new();
    let mut differences = BTreeSet::new();
    let mut last = 0u32;
    let mut p = Peer::new();
    p.listen(60_000);
    for port in 1024..11_024 {
        p.me.set_port(port);
        p.send(&seg(SYN, 0, 0));
        seen.insert(p.irs);
        differences.insert(p.irs.wrapping_sub(last));
        last = p.irs;
    }
    assert!(seen.len() > 9990 && differences.len() > 9990);
    let high = seen.iter().filter(|&&n| n >= 1 << 31).count();
    assert!((4700..5300).contains(&high), "spread evenly: {high}");
    let of = |secret: u8| {
        let mut p = Peer::with(&super::peer::wire(), |c| c.secret = [secret; 16]);
        p.listen(1);
        p.send(&seg(SYN, 0, 0));
        p.irs
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2), "a restart draws a new secret");
}

/// An acknowledgement for text never sent costs one answer in half a second, not one each.
#[test]
fn acknowledgements_of_nothing() {
    let mut p = Peer::active(mss_only(1460));
    let answers: usize = (0..1000).map(|n| p.send(&seg(ACK, 1, 2 + n)).len()).sum();
    assert_eq!(answers, 1);
    alive(&mut p);
}

/// Random segments: any flags, numbers near and far, options, text; then the connection is reset by
/// its owner and the host still serves.
#[test]
fn random_segments() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let state = STATES[rng.below(9) as usize];
        let (mut p, seq, ack) = Peer::in_state(state);
        for _ in 0..300 {
            let near = |rng: &mut Rng, base: u32| match rng.below(4) {
                0 => base,
                1 => base.wrapping_add(rng.below(3000) as u32).wrapping_sub(1500),
                2 => base
                    .wrapping_add(rng.below(140_000) as u32)
                    .wrapping_sub(70_000),
                _ => rng.next_u32(),
            };
            let flags = Flags::from_bits_truncate(rng.next_u32() as u8 & 0x3f);
            let flags = if rng.chance(700_000) {
                flags | ACK
            } else {
                flags
            };
            let flags = if rng.chance(900_000) {
                flags - Flags::RST
            } else {
                flags
            };
            let mut s = seg(flags, near(&mut rng, seq), near(&mut rng, ack));
            s.window = rng.next_u32() as u16;
            s.urgent = rng.next_u32() as u16;
            s.payload = std::vec![7; rng.below(1400) as usize];
            if rng.chance(200_000) {
                s = s.stamp(rng.next_u32(), rng.next_u32());
            }
            p.send(&s);
            match rng.below(8) {
                0 => p.host.tcp_send(p.now, p.id(), &[1; 700]).map_or((), |_| ()),
                1 => p
                    .host
                    .tcp_recv(p.now, p.id(), &mut [0; 700])
                    .map_or((), |_| ()),
                2 => drop(p.pass_ms(rng.below(2000))),
                _ => {}
            }
        }
        p.host.tcp_abort(p.now, p.id());
        p.me = SocketAddr::new(IpAddr::from([192, 0, 2, 3]), 1);
        p.at.set_port(80);
        alive(&mut p);
        p.pass(core::time::Duration::from_secs(400));
        p.assert_memory_is_back();
    }
}
