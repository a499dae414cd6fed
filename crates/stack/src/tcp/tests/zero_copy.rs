//! Blocks filled and read in place.

use super::peer::{ACK, PSH, Peer, RST, Seg, mss_only, seg};
use crate::tcp::{RecvError, SendError};
use std::vec::Vec;

#[test]
fn blocks_are_sent_as_they_are() {
    let mut p = Peer::active(mss_only(1460));
    let id = p.id();
    let mut sent = Vec::new();
    for n in 1..=5u8 {
        let mut block = p.host.tcp_take_block(id).expect("memory");
        let len = usize::from(n) * 333;
        block[..len].fill(n);
        p.host.tcp_send_block(p.now, id, block, len).expect("room");
        p.host.tcp_send(p.now, id, &[0]).expect("room");
        sent.extend(std::iter::repeat_n(n, len).chain([0]));
    }
    let mut got = Vec::new();
    let mut out = p.poll();
    while got.len() < sent.len() {
        for s in &out {
            assert_eq!(s.seq as usize, got.len() + 1);
            got.extend_from_slice(&s.payload);
        }
        out = p.send(&seg(ACK, 1, 1 + got.len() as u32));
    }
    assert_eq!(got, sent);
    p.assert_memory_is_back();
}

#[test]
fn bad_blocks_are_refused() {
    let mut p = Peer::active(mss_only(1460));
    let mut other = Peer::active(mss_only(1460));
    let id = p.id();
    let strange = other.host.tcp_take_block(other.id()).expect("memory");
    let told = p.host.tcp_send_block(p.now, id, strange, 10);
    assert!(matches!(told, Err((SendError::BadBlock, None))));
    for len in [0, 1 << 20, usize::MAX] {
        let block = p.host.tcp_take_block(id).expect("memory");
        let told = p.host.tcp_send_block(p.now, id, block, len);
        assert!(matches!(told, Err((SendError::BadBlock, None))), "{len}");
    }
    assert_eq!(p.poll(), Vec::<Seg>::new());
    assert_eq!(p.write(b"fine")[0].brief(), (ACK | PSH, 1, 1, 4));
}

/// A block outlives the connection it was taken for, and comes back when it is dropped.
#[test]
fn a_block_without_a_connection() {
    let mut p = Peer::active(mss_only(1460));
    let id = p.id();
    let block = p.host.tcp_take_block(id).expect("memory");
    let kept = p.host.tcp_take_block(id).expect("memory");
    p.send(&seg(RST, 1, 1));
    let told = p.host.tcp_send_block(p.now, id, block, 10);
    assert!(matches!(told, Err((SendError::Failed(_), Some(_)))));
    drop((told, kept));
    p.open(mss_only(1460));
    let pool = &p.host.link(p.link).expect("a link").pool;
    let blocks = pool.blocks();
    // they are found again when memory is short
    let all: Vec<_> = core::iter::from_fn(|| p.host.tcp_take_block(p.id()).ok()).collect();
    assert!(all.len() + 17 >= blocks, "{} of {blocks}", all.len());
}

#[test]
fn received_blocks_are_read_in_place_and_given_back() {
    let mut p = Peer::active(mss_only(1460));
    let mut expected = Vec::new();
    for n in 0..10u8 {
        let text = std::vec![n; 1400];
        p.send(&seg(ACK, 1 + u32::from(n) * 1400, 1).text(&text));
        expected.extend(text);
    }
    let mut got = Vec::new();
    let mut held = Vec::new();
    while let Ok(Some(block)) = p.host.tcp_recv_block(p.now, p.id()) {
        let at = got.len();
        got.resize(at + block.view.len(), 0);
        assert_eq!(block.view.read_at(0, &mut got[at..]), block.view.len());
        held.push(block);
    }
    assert_eq!(got, expected);
    // also when the connection is gone
    p.host.tcp_abort(p.now, p.id());
    for block in held {
        p.host.tcp_release_block(block);
    }
    p.assert_memory_is_back();
}

#[test]
fn peeking_leaves_what_is_there() {
    let mut p = Peer::active(mss_only(1460));
    let mut buffer = [0; 16];
    let told = p.host.tcp_peek(p.id(), &mut buffer);
    assert_eq!(told, Err(RecvError::WouldBlock));
    p.send(&seg(ACK, 1, 1).text(b"look"));
    for _ in 0..3 {
        assert_eq!(p.host.tcp_peek(p.id(), &mut buffer), Ok(4));
        assert_eq!(&buffer[..4], b"look");
    }
    assert_eq!(p.read(), b"look");
}

/// A piece that waited behind a hole and came again with what filled it is the one that is read,
/// and nothing is left of the other: an empty block would look like the end.
#[test]
fn no_block_is_empty() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 701, 1).text(&[2; 700]));
    p.send(&seg(ACK, 1, 1).text(&[1; 1400]));
    for _ in 0..2 {
        let block = p.host.tcp_recv_block(p.now, p.id());
        let block = block.expect("text").expect("a block");
        assert_eq!(block.view.len(), 700);
        p.host.tcp_release_block(block);
    }
    let more = p.host.tcp_recv_block(p.now, p.id());
    assert!(matches!(more, Err(RecvError::WouldBlock)), "{more:?}");
    p.assert_memory_is_back();
}

/// Any part of what waits is looked at, and any part thrown away, across the pieces it came in.
#[test]
fn peeking_behind_and_discarding() {
    let mut p = Peer::active(mss_only(1460));
    let text: Vec<u8> = (0..3000u32).map(|n| (n % 251) as u8).collect();
    let mut at = 0;
    for len in [1, 100, 1400, 7, 1000, 492] {
        p.send(&seg(ACK, 1 + at as u32, 1).text(&text[at..at + len]));
        at += len;
    }
    let id = p.id();
    let mut out = [0; 600];
    let mut gone = 0;
    for step in [0, 1, 50, 700, 1, 1300] {
        assert_eq!(p.host.tcp_discard(p.now, id, step), Ok(step));
        gone += step;
        for skip in [0, 1, 99, 100, 101, 947] {
            let expected = text.get(gone + skip..).unwrap_or(&[]);
            let n = p.host.tcp_peek_at(id, skip, &mut out).expect("text");
            assert_eq!(n, expected.len().min(600), "{gone} {skip}");
            assert_eq!(out[..n], expected[..n]);
        }
    }
    let mut rest = [0; 3000];
    let left = 3000 - gone;
    assert_eq!(p.host.tcp_recv(p.now, id, &mut rest[..10]), Ok(10));
    assert_eq!(rest[..10], text[gone..gone + 10]);
    assert_eq!(p.host.tcp_discard(p.now, id, 5000), Ok(left - 10));
    let nothing = p.host.tcp_discard(p.now, id, 1);
    assert_eq!(nothing, Err(RecvError::WouldBlock));
    p.assert_memory_is_back();
}
