//! Robustness I9 and 6.4; RFC 1122 section 3.3.2; a naive twin.

mod direct;
mod twin;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Medium};
use gannet_wire::{IpProtocol, ipv4};

use crate::config::Config;
use crate::counters::DropReason::{self, *};
use crate::testing::packet::{datagram, fragment, fragments, icmp, packet};
use crate::testing::{A, B, Pair, WireConfig, WireDriver};
use crate::udp::UdpId;

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// B has a socket on port 9; what it sends is recorded.
fn pair_with(change: impl Fn(&mut Config)) -> (Pair<WireDriver>, UdpId) {
    let wire = WireConfig {
        medium: Medium::Ip,
        checksum: Checksum::Software,
        ..WireConfig::default()
    };
    let mut pair = Pair::wire_with(1, &wire, change);
    let socket = pair.b.udp_bind(at(B, 9)).expect("free");
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    (pair, socket)
}

fn pair() -> (Pair<WireDriver>, UdpId) {
    pair_with(|_| {})
}

fn sent(pair: &mut Pair<WireDriver>) -> Vec<Vec<u8>> {
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.recorded()
}

fn whole(len: usize) -> Vec<u8> {
    datagram(at(A, 1), at(B, 9), &bytes(len))
}

/// The datagram that arrived, if one did.
fn received(pair: &mut Pair<WireDriver>, socket: UdpId) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let (n, len, from) = pair.b.udp_recv_from(socket, &mut buffer).ok()?;
    assert_eq!((n, from), (len, at(A, 1)));
    buffer.truncate(n);
    Some(buffer)
}

/// No block is in use once everything was read.
fn nothing_kept(pair: &mut Pair<WireDriver>) {
    pair.settle();
    let link = pair.link_b;
    let pool = &pair.b.link(link).expect("there").pool;
    pool.invariants();
    // One block may be open for small payloads.
    assert!(pool.free_blocks() + 1 >= pool.blocks(), "blocks kept");
}

/// The fragments are refused for `reason` once, and no datagram arrives; the next whole one does.
fn refused(frames: &[Vec<u8>], reason: DropReason) {
    let (mut pair, socket) = pair();
    pair.inject_b(frames);
    assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}");
    assert_eq!(received(&mut pair, socket), None, "{reason:?}");
    pair.inject_b(&fragments(&whole(3000), 77, 1480));
    assert_eq!(received(&mut pair, socket), Some(bytes(3000)), "{reason:?}");
    pair.pass(Duration::from_secs(31));
    nothing_kept(&mut pair);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
//= type=test
//# The IP layer MUST implement reassembly of IP datagrams.
#[test]
fn every_order() {
    let pieces = fragments(&whole(3000), 5, 752);
    assert_eq!(pieces.len(), 4);
    let mut orders = 0;
    for order in 0..256usize {
        let picks: [usize; 4] = core::array::from_fn(|i| order >> (2 * i) & 3);
        let mut sorted = picks;
        sorted.sort_unstable();
        if sorted != [0, 1, 2, 3] {
            continue;
        }
        orders += 1;
        let (mut pair, socket) = pair();
        for pick in picks {
            assert_eq!(received(&mut pair, socket), None);
            pair.inject_b(&[pieces[pick].clone()]);
        }
        assert_eq!(received(&mut pair, socket), Some(bytes(3000)), "{picks:?}");
        assert_eq!(pair.b.drops().total(), 0);
        nothing_kept(&mut pair);
    }
    assert_eq!(orders, 24);
}

//= https://www.rfc-editor.org/rfc/rfc791#section-3.1
//= type=test
//# All hosts must be prepared to accept datagrams of up to 576 octets (whether they arrive whole or
//# in fragments).
//= https://www.rfc-editor.org/rfc/rfc791#section-3.2
//= type=test
//# Every internet destination must be able to receive a datagram of 576 octets either in one piece
//# or in fragments to be reassembled.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
//= type=test
//# EMTU_R MUST be greater than or equal to 576, SHOULD be either configurable or indefinite, and
//# SHOULD be greater than or equal to the MTU of the connected network(s).
#[test]
fn the_largest_datagram_shuffled_and_doubled() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let (mut pair, socket) = pair();
        let size = [1480, 8, 552, 24][seed as usize % 4];
        let mut pieces = fragments(&whole(65_507), 5, size);
        for piece in pieces.clone() {
            if rng.chance(300_000) {
                pieces.push(piece);
            }
        }
        for i in (1..pieces.len()).rev() {
            pieces.swap(i, rng.below(i as u64 + 1) as usize);
        }
        pair.inject_b(&pieces);
        let got = received(&mut pair, socket);
        assert!(got == Some(bytes(65_507)), "seed {seed}, size {size}");
        let late = pair.b.drops().get(FragmentDuplicate);
        assert_eq!(pair.b.drops().total(), late, "seed {seed}");
        pair.pass(Duration::from_secs(31));
        nothing_kept(&mut pair);
    }
}

#[test]
fn tcp_and_icmp_come_in_pieces_too() {
    let (mut pair, _) = pair();
    let request = icmp(A, B, (8, 0, [1, 2, 3, 4]), &bytes(1200));
    pair.inject_b(&fragments(&request, 9, 600));
    let expected = icmp(B, A, (0, 0, [1, 2, 3, 4]), &bytes(1200));
    let answers = sent(&mut pair);
    assert_eq!(answers.len(), 1);
    assert!(answers[0][ipv4::HEADER_LEN..] == expected[ipv4::HEADER_LEN..]);
    // A protocol that nobody takes: the error quotes the first fragment as it came.
    let foreign = packet(A, B, IpProtocol(200), &bytes(1000));
    let pieces = fragments(&foreign, 10, 504);
    pair.inject_b(&pieces);
    let errors = sent(&mut pair);
    assert_eq!((errors.len(), errors[0][20], errors[0][21]), (1, 3, 2));
    assert_eq!(errors[0].len(), 576, "as much as fits");
    assert!(errors[0][28..48] == pieces[0][..20]);
    assert!(errors[0][48..] == foreign[20..548]);
}

#[test]
fn i9_ping_of_death() {
    let mut long = fragments(&whole(1480), 5, 1480).remove(0);
    for place in [0x1fffu16, 0x3fff, 8100 | 0x2000] {
        long[6..8].copy_from_slice(&place.to_be_bytes());
        crate::testing::packet::mend(&mut long);
        refused(&[long.clone()], FragmentTooLong);
    }
}

#[test]
fn i9_zero_length_and_ragged() {
    let packet = whole(100);
    refused(&[fragment(&packet, 5, (0, 0), true)], FragmentEmpty);
    refused(&[fragment(&packet, 5, (48, 0), false)], FragmentEmpty);
    for len in [33, 39, 41] {
        let ragged = fragment(&packet, 5, (0, len), true);
        refused(&[ragged], FragmentLength);
    }
}

#[test]
fn i9_overlap_spoils_the_datagram() {
    let packet = whole(200);
    let piece = |from, to, more| fragment(&packet, 5, (from, to - from), more);
    // Teardrop: the second lies within the first; and by one unit at either end.
    for (from, to) in [(8, 16), (0, 88), (72, 88), (8, 80), (0, 72)] {
        let first = piece(0, 80, true);
        let rest = piece(80, 208, false);
        let mut frames = vec![first, piece(from, to, true)];
        if (from, to) == (8, 16) {
            // Within the header of UDP nothing begins.
            frames[1] = piece(16, 24, true);
        }
        frames.push(rest);
        refused(&frames, FragmentOverlap);
    }
}

#[test]
fn i9_duplicates() {
    let packet = whole(200);
    let piece = |from, to, more| fragment(&packet, 5, (from, to - from), more);
    let (mut pair, socket) = pair();
    pair.inject_b(&[
        piece(0, 80, true),
        piece(0, 80, true),
        piece(80, 208, false),
    ]);
    assert_eq!(received(&mut pair, socket), Some(bytes(200)));
    assert_eq!(pair.b.drops().get(FragmentDuplicate), 1);
    // The same edges and other bytes.
    let mut other = piece(0, 80, true);
    other[60] ^= 1;
    let frames = [piece(0, 80, true), other, piece(80, 208, false)];
    refused(&frames, FragmentConflict);
}

#[test]
fn i9_two_ends() {
    let packet = whole(200);
    let piece = |from, to, more| fragment(&packet, 5, (from, to - from), more);
    for frames in [
        // A second end behind the first, before it, and with more behind the same bytes.
        [piece(120, 160, false), piece(160, 208, false)],
        [piece(120, 160, false), piece(80, 100, false)],
        [piece(120, 160, false), piece(120, 160, true)],
        [piece(120, 160, true), piece(120, 160, false)],
        // Bytes behind the end; an end before bytes that came.
        [piece(120, 160, false), piece(168, 176, true)],
        [piece(168, 176, true), piece(120, 160, false)],
    ] {
        let frames = [&[piece(0, 80, true)], &frames[..]].concat();
        refused(&frames, FragmentConflict);
    }
}

#[test]
fn i9_tiny_first_fragments() {
    let tcp = packet(A, B, IpProtocol::TCP, &bytes(100));
    refused(&[fragment(&tcp, 5, (0, 8), true)], FragmentTiny);
    refused(&[fragment(&tcp, 5, (0, 16), true)], FragmentTiny);
    refused(&[fragment(&tcp, 5, (8, 40), true)], FragmentTiny);
    refused(&[fragment(&tcp, 5, (16, 84), false)], FragmentTiny);
}

#[test]
fn i9_one_missing_of_each_of_65536() {
    let (mut pair, socket) = pair_with(|c| c.ip.reassembly_memory = 256 << 10);
    let packet = whole(3000);
    let link = pair.link_b;
    for ident in 0..=u16::MAX {
        let frame = fragment(&packet, ident, (0, 1480), true);
        if let Some(endpoint) = pair.b.link_mut(link) {
            endpoint.driver.inject(&frame);
        }
        if ident % 64 == 63 {
            pair.settle();
            let held = &pair.b.ip().reassembly;
            assert!(held.shelf.bytes() <= 256 << 10);
        }
    }
    let pool = &pair.b.link(link).expect("there").pool;
    assert!(pool.blocks() - pool.free_blocks() <= 17, "blocks");
    let evicted = pair.b.drops().get(FragmentEvicted);
    let held = pair.b.ip().reassembly.shelf.len() as u64;
    assert_eq!(evicted + held, 65_536);
    // The newest is still wanted.
    pair.inject_b(&[fragment(&packet, u16::MAX, (1480, 1528), false)]);
    assert_eq!(received(&mut pair, socket), Some(bytes(3000)));
    sent(&mut pair);
    pair.pass(Duration::from_secs(31));
    assert_eq!(pair.b.ip().reassembly.shelf.len(), 0);
    // Told once: one answer to one host and second.
    assert_eq!(sent(&mut pair).len(), 1);
    nothing_kept(&mut pair);
}

#[test]
fn i9_a_flood_from_one_leaves_others_alone() {
    let (mut pair, socket) = pair_with(|c| c.ip.reassembly_memory = 1 << 20);
    let mine = fragments(&whole(3000), 5, 1480);
    pair.inject_b(&mine[..1]);
    let flood = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 66));
    let packet = datagram(at(flood, 1), at(B, 9), &bytes(3000));
    for ident in 0..2000 {
        pair.inject_b(&[fragment(&packet, ident, (0, 1480), true)]);
    }
    assert!(pair.b.drops().get(FragmentEvicted) > 1000);
    pair.inject_b(&mine[1..]);
    assert_eq!(received(&mut pair, socket), Some(bytes(3000)));
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
//= type=test
//# If this timeout expires, the partially-reassembled datagram MUST be discarded and an ICMP Time
//# Exceeded message sent to the source host (if fragment zero has been received).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
//= type=test
//# There MUST be a reassembly timeout.
#[test]
fn i9_time_exceeded_only_with_the_first() {
    for (missing, answers) in [(0, 0), (1, 1)] {
        let (mut pair, socket) = pair();
        let mut pieces = fragments(&whole(3000), 5, 1480);
        let late = pieces.remove(missing);
        pair.inject_b(&pieces);
        pair.pass(Duration::from_millis(29_900));
        assert_eq!(pair.b.drops().get(FragmentTimeout), 0);
        assert!(sent(&mut pair).is_empty());
        pair.pass(Duration::from_millis(200));
        assert_eq!(pair.b.drops().get(FragmentTimeout), 1);
        let errors = sent(&mut pair);
        assert_eq!(errors.len(), answers, "without fragment {missing}");
        if let Some(error) = errors.first() {
            assert_eq!((error[20], error[21]), (11, 1));
            assert!(error[28..] == pieces[0][..error.len() - 28]);
            assert!(error.len() >= 28 + 20 + 512);
        }
        pair.inject_b(&[late]);
        assert_eq!(received(&mut pair, socket), None, "too late");
    }
}

#[test]
fn a_link_that_goes_takes_its_fragments_along() {
    let (mut pair, _) = pair();
    pair.inject_b(&fragments(&whole(3000), 5, 1480)[1..]);
    let endpoint = pair.b.remove_link(pair.now, pair.link_b).expect("there");
    assert_eq!(endpoint.pool.free_blocks(), endpoint.pool.blocks());
    assert_eq!(pair.b.next_timeout(), None);
}

//= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
//= type=test
//# Reassembly of a fragmented packet MUST NOT lose indications of congestion.
//= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
//= type=test
//# In other words, if any fragment of an IP packet to be reassembled has the CE codepoint set, then
//# one of two actions MUST be taken:
//= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
//= type=test
//# However, this MUST NOT occur if any of the other fragments contributing to this reassembly
//# carries the Not-ECT codepoint.
//= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
//= type=test
//# Reassembly of a fragmented packet MUST NOT change the ECN codepoint when all of the fragments
//# carry the same codepoint.
#[test]
fn ecn_of_the_whole() {
    // Not-ECT 0, ECT(1) 1, ECT(0) 2, CE 3.
    for (marks, fate) in [
        ([2, 2, 2], Some(2)),
        ([2, 3, 2], Some(3)),
        ([0, 0, 0], Some(0)),
        ([3, 3, 3], Some(3)),
        ([0, 2, 0], Some(0)),
        ([0, 3, 0], None),
        ([3, 0, 3], None),
    ] {
        let (mut pair, socket) = pair();
        let mut pieces = fragments(&whole(3000), 5, 1480);
        for (piece, mark) in pieces.iter_mut().zip(marks) {
            piece[1] = mark;
            crate::testing::packet::mend(piece);
        }
        pair.inject_b(&pieces);
        let arrived = received(&mut pair, socket).is_some();
        assert_eq!(arrived, fate.is_some(), "{marks:?}");
        let dropped = pair.b.drops().get(FragmentEcn);
        assert_eq!(dropped, u64::from(!arrived), "{marks:?}");
        nothing_kept(&mut pair);
    }
}

#[test]
fn no_memory_no_reassembly() {
    let (mut pair, socket) = pair_with(|c| c.ip.reassembly_memory = 0);
    pair.inject_b(&fragments(&whole(3000), 5, 1480));
    assert_eq!(received(&mut pair, socket), None);
    assert_eq!(pair.b.drops().get(FragmentEvicted), 3);
    nothing_kept(&mut pair);
}
