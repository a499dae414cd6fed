//! Peers that came in by an honest handshake and then break every rule, as processes of their own.
//! (What they can write into their memory by hand is tried in `gannet-link`'s own tests.)

use crate::raw;
use crate::support::{
    End, Other, accept, connect, network, options, receive, send, take, until, wait,
};
use gannet_base::Rng;
use gannet_drivers::wait::Spinner;
use gannet_drivers::{Directory, Listener};
use gannet_link::slot::RANGES_MAX;
use gannet_link::{Driver, Frame, Range, Slot, Space};
use std::os::fd::AsFd;

/// S1, S2, S10: slots and completions that lie, as fast as they can be sent, and payload that
/// changes while it is read.
#[test]
fn s2_a_peer_that_lies_at_full_speed() {
    let (runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    let mut other = Other::start("lie", runtime.path());
    let mut end = accept(&mut listener);
    let (mut frame, mut spinner) = (Frame::new(), Spinner::default());
    let (mut frames, mut bytes) = (0, Vec::new());
    while frames < 20_000 || end.faults().total() < 20_000 || end.pool.bad_completions() < 1_000 {
        send(&mut end, b"head", &[5; 3000]);
        let mut budget = 64;
        let mut idle = true;
        while end.receive(&mut frame, &mut budget) {
            bytes = take(&mut end, &frame);
            frames += 1;
            idle = false;
        }
        assert!(end.reclaim() <= 8192, "bounded by the ring");
        end.flush();
        if idle && budget == 63 {
            wait(&mut end, &mut spinner);
        }
    }
    assert!(!bytes.is_empty());
    other.kill();
    until("the end of it", || {
        while end.receive(&mut frame, &mut 64) {
            end.release_frame(&frame);
        }
        (end.driver.check_peer() == gannet_link::LinkState::Gone).then_some(())
    });
    end.pool.complete_all();
    end.pool.invariants();
    assert_eq!(end.pool.free_blocks(), end.pool.blocks());
}

pub(crate) fn lie(directory: &Directory) {
    let mut end = connect(directory, "liar", "main");
    let mut rng = Rng::new(3);
    let block = end.pool.alloc().unwrap();
    let payload = end.pool.range(block, 0, end.pool.block_bytes());
    let mut frame = Frame::new();
    let mut since_flush = 0;
    loop {
        let slot = if rng.chance(500_000) {
            bad_slot(&mut rng)
        } else {
            let mut slot = Slot::new();
            slot.inline_mut(8).unwrap().fill(1);
            assert!(slot.push_range(payload.front(1 + rng.below(4000) as u32)));
            slot
        };
        // The driver itself checks nothing: what it is given goes out.
        let sent = end.driver.transmit(&mut end.pool, &slot);
        rng.fill(end.pool.bytes_mut(payload.front(256)).unwrap());
        end.driver.release(Range {
            offset: rng.next_u32(),
            len: 1,
            space: Space::Peer,
        });
        since_flush += 1;
        if !sent || since_flush > 32 {
            since_flush = 0;
            while end.receive(&mut frame, &mut 8) {}
            end.driver.reclaim(&mut end.pool);
            end.flush();
        }
    }
}

/// Offsets and lengths that are 0, huge, wrapping, across an edge; flags nobody knows.
fn bad_slot(rng: &mut Rng) -> Slot {
    let edges = [0, 1, 16_383, 16_384, 16 << 20, u32::MAX, 1 << 31];
    let mut slot = Slot::new();
    slot.inline_mut(rng.below(60) as usize).unwrap().fill(2);
    for _ in 0..rng.below(RANGES_MAX as u64) {
        let mut pick = || edges[rng.below(edges.len() as u64) as usize];
        let (offset, len) = (pick(), pick());
        slot.push_range(Range {
            offset,
            len,
            space: Space::Own,
        });
    }
    if rng.chance(300_000) {
        slot.set_flags(rng.next_u32() as u16);
        slot.set_checksum_place(rng.next_u32() as u16, rng.next_u32() as u16);
        slot.set_gso_size(rng.next_u32() as u16);
    }
    slot
}

/// S9: a doorbell that never stops ringing keeps nobody from talking to others.
#[test]
fn s9_doorbell_storm() {
    let (runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    let stormer = Other::start("storm", runtime.path());
    let mut stormed = accept(&mut listener);
    let honest = Other::start("connect_and_echo", runtime.path());
    let mut end = accept(&mut listener);
    let mut frame = Frame::new();
    let mut rings = 0;
    for round in 0..1_000u32 {
        assert!(send(&mut end, &round.to_le_bytes(), b""));
        end.flush();
        assert_eq!(receive(&mut end), Some(round.to_le_bytes().to_vec()));
        rings += rung(&mut stormed);
        assert!(!stormed.receive(&mut frame, &mut 8));
    }
    until("a ring", || {
        rings += rung(&mut stormed);
        (rings > 0).then_some(())
    });
    drop(stormer);
    drop(end);
    honest.finish();
}

/// Goes to sleep as a program would, and counts a wake-up.
fn rung(end: &mut End) -> u32 {
    let mut rung = 0;
    if end.driver.arm() {
        let fds = [end.driver.wake_fd()];
        let timeout = Some(std::time::Duration::ZERO);
        rung = u32::from(gannet_drivers::wait::sleep(&fds, timeout).unwrap());
    }
    end.driver.disarm();
    end.driver.drain_wake();
    rung
}

pub(crate) fn storm(directory: &Directory) {
    let socket = until("the listener", || raw::knock(directory, "main").ok());
    let file = raw::memory(raw::LAYOUT.bytes(), raw::seals());
    let own_bell = raw::bell();
    let hello = raw::hello("storm", raw::LAYOUT);
    raw::say(&socket, &hello, &[file.as_fd(), own_bell.as_fd()]);
    let (_memory, bell) = raw::answer(&socket);
    // Ends when it is killed, or the listener dies first and with it the test.
    while rustix::io::write(&bell, &1u64.to_ne_bytes()).is_ok() {}
}
