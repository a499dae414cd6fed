//! Two ends over heap memory.

use super::*;
use crate::driver::Received;
use crate::slot::flags;

const SMALL: Layout = Layout {
    slots: 8,
    completions: 16,
    block_bytes: 2048,
    blocks: 32,
    align: 4096,
};

fn send(end: &mut Endpoint<PeerDriver<NoDoorbell>>, head: &[u8], body: &[u8]) -> bool {
    let mut slot = Slot::new();
    slot.inline_mut(head.len()).unwrap().copy_from_slice(head);
    let mut range = None;
    if !body.is_empty() {
        let Some(id) = end.pool.alloc() else {
            return false;
        };
        let r = end.pool.range(id, 0, body.len() as u32);
        end.pool.bytes_mut(r).unwrap().copy_from_slice(body);
        assert!(slot.push_range(r));
        range = Some(r);
    }
    let sent = end.transmit(&slot).is_ok();
    range.into_iter().for_each(|r| end.pool.release(r));
    sent
}

#[test]
fn payload_is_read_where_it_lies_and_its_block_comes_back() {
    let (mut a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    assert!(send(&mut a, b"head", b"body"));
    a.flush();
    assert_eq!(a.pool.free_blocks(), 31, "in flight");
    let mut frame = Frame::new();
    assert!(b.receive(&mut frame, &mut 10));
    let mut out = [0; 16];
    assert_eq!(b.peek(&frame, &mut out), 8);
    assert_eq!(&out[..8], b"headbody");
    let view = b.view(frame.ranges()[0]).unwrap();
    assert_eq!((view.read_at(1, &mut out), &out[..3]), (3, &b"ody"[..]));
    b.release_frame(&frame);
    b.flush();
    assert_eq!(a.reclaim(), 1);
    assert_eq!(a.pool.free_blocks(), 32);
}

#[test]
fn a_full_ring_says_so_and_goes_on_when_drained() {
    let (mut a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    let sent = (0..20).take_while(|_| send(&mut a, b"h", b"x")).count();
    assert_eq!(sent, 8);
    assert_eq!(a.pool.free_blocks(), 24, "what was refused is not pinned");
    let mut frame = Frame::new();
    for _ in 0..8 {
        assert!(b.receive(&mut frame, &mut 10));
        b.release_frame(&frame);
    }
    assert!(!b.receive(&mut frame, &mut 10));
    b.flush();
    assert_eq!(a.reclaim(), 8);
    assert!(send(&mut a, b"h", b"x"));
}

#[test]
fn completions_can_never_overflow_the_ring_of_an_honest_peer() {
    let layout = Layout { slots: 64, ..SMALL };
    let (mut a, mut b) = pair(layout, (NoDoorbell, NoDoorbell));
    let sent = (0..64).take_while(|_| send(&mut a, b"h", b"x")).count();
    assert_eq!(
        sent, 16,
        "no more ranges than the peer can complete at a time"
    );
    let mut frame = Frame::new();
    while b.receive(&mut frame, &mut 10) {
        b.release_frame(&frame);
    }
    assert_eq!(b.driver.stats().completions_lost, 0);
}

/// S2, S5: bad slots are counted against their sender; the next good one passes.
#[test]
fn s2_bad_slots_cost_a_count() {
    let (mut a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    let mut bad = Slot::new();
    bad.inline_mut(4).unwrap();
    assert!(bad.push_range(Range {
        offset: 2047,
        len: 2,
        space: Space::Own
    }));
    assert!(a.driver.send.push(&bad));
    let mut unknown = Slot::new();
    unknown.inline_mut(4).unwrap();
    unknown.set_flags(flags::CONTIGUOUS);
    assert!(a.driver.send.push(&unknown));
    assert!(send(&mut a, b"good", b""));
    let mut frame = Frame::new();
    assert!(b.receive(&mut frame, &mut 10));
    assert_eq!((frame.head(), b.faults().total()), (&b"good"[..], 2));
}

/// S9: a peer that never takes its completions costs a bounded number of held ranges.
#[test]
fn s9_completions_never_taken() {
    let (mut a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    let mut frame = Frame::new();
    for _ in 0..50 {
        let mut slot = Slot::new();
        slot.inline_mut(1).unwrap();
        assert!(slot.push_range(Range {
            offset: 0,
            len: 1,
            space: Space::Own
        }));
        assert!(
            a.driver.send.push(&slot),
            "the hostile side ignores its own limits"
        );
        assert_eq!(b.driver.receive(&mut b.pool, &mut frame), Received::Frame);
        b.release_frame(&frame);
        b.flush();
    }
    assert_eq!(b.driver.stats().completions_lost, 50 - 16);
}

#[test]
fn goodbye_is_seen() {
    let (a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    assert_eq!(b.state(), LinkState::Up);
    assert!(b.driver.arm());
    b.driver.disarm();
    drop(a);
    assert_eq!(b.state(), LinkState::Gone);
    assert!(!b.driver.arm());
}

/// An idle end may sleep, whatever went through the rings before.
#[test]
fn traffic_that_is_over_keeps_nobody_awake() {
    let (mut a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    let mut frame = Frame::new();
    for _ in 0..3 {
        assert!(send(&mut a, b"h", b"x"));
        a.flush();
        assert!(!b.driver.arm(), "a frame waits");
        assert!(b.receive(&mut frame, &mut 10));
        b.release_frame(&frame);
        b.flush();
        assert!(!a.driver.arm(), "a completion waits");
        assert_eq!(a.reclaim(), 1);
        a.flush();
        assert!(a.driver.arm() && b.driver.arm());
        a.driver.disarm();
        b.driver.disarm();
    }
}

/// One ring ends one sleep, however much is published while the sleeper wakes up.
#[test]
fn one_ring_per_sleep() {
    let (mut a, mut b) = pair(SMALL, (NoDoorbell, NoDoorbell));
    let mut frame = Frame::new();
    for sleep in 1..=2 {
        assert!(b.driver.arm());
        for _ in 0..3 {
            assert!(send(&mut a, b"h", b""));
            a.flush();
        }
        assert_eq!(a.driver.stats().wakeups, sleep);
        b.driver.disarm();
        while b.receive(&mut frame, &mut 10) {}
        b.flush();
    }
}

/// S1: a consumed index that lies keeps nobody awake and makes no room.
#[test]
fn s1_consumed_index_lies() {
    let layout = Layout {
        completions: 256,
        ..SMALL
    };
    let (mut a, b) = pair(layout, (NoDoorbell, NoDoorbell));
    for n in 0..8 {
        assert!(send(&mut a, &[n], b""));
    }
    assert_eq!(a.driver.room(), 0);
    for lie in [9, u64::from(u32::MAX), 1 << 31, u64::MAX, 1 << 20] {
        b.driver.receive.lie(lie);
        assert_eq!(a.driver.room(), 0, "{lie}");
        assert!(!send(&mut a, b"x", b""));
        assert!(a.driver.arm(), "{lie} is not work");
        a.driver.disarm();
    }
    b.driver.receive.lie(3);
    assert_eq!(a.driver.room(), 3);
    b.driver.receive.lie(2);
    for n in 0..3 {
        assert!(send(&mut a, &[n], b""));
    }
    assert_eq!(a.driver.room(), 0, "backwards makes no room");
}
