//! A peer that writes anything into its own memory, while this end goes on.

use super::*;
use crate::Watcher;
use crate::layout::header;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Values that have broken rings before.
const NASTY: [u64; 8] = [
    0,
    1,
    4096,
    4097,
    1 << 31,
    u64::MAX,
    1 << 63,
    u64::MAX - 4095,
];

/// Writes anything anywhere in `arena` until told to stop; most of it where the slot is.
fn scribble(pair: &Pair, seed: u64, stop: &AtomicBool) {
    let (arena, mut random) = (&pair.b.arena, Random(seed));
    let slot = arena.slot_at(pair.b.slot);
    let words = arena.geometry.head_len() / 8;
    while !stop.load(Relaxed) {
        let at = match random.below(4) {
            0 => random.below(words) * 8,
            1 => arena.geometry.news(0) + random.below(20) * 8,
            _ => slot + random.below(crate::layout::SLOT_BYTES / 8) * 8,
        };
        let value = match random.below(3) {
            0 => random.next(),
            1 => NASTY[random.below(NASTY.len())],
            _ => random.below(10_000) as u64,
        };
        arena.memory.long(at).store(value, Relaxed);
        // Often as it should be: what follows the first check is to be reached too.
        let generation = arena.memory.word(slot + crate::layout::slot::GENERATION);
        generation.store(
            pair.a.arena.peer(pair.a.slot).peer_name().generation,
            Relaxed,
        );
    }
}

fn use_it(pair: &Pair, watcher: &mut Watcher, random: &mut Random) {
    let a = pair.a();
    let mut out = [0; 5000];
    let len = random.below(5000);
    match random.below(8) {
        0 => drop(a.send_slice(&out[..len])),
        1 => assert!(a.receive_slice(&mut out[..len], true).unwrap_or(0) <= len),
        2 => assert!(a.receive_slice(&mut out[..len], false).unwrap_or(0) <= len),
        3 => assert!(a.waiting() <= 4096 && a.unread() <= 4096),
        4 => {
            a.readiness();
            a.is_forgotten();
        }
        5 => {
            let mut found = Vec::new();
            watcher.collect(&mut found);
            assert!(found.len() <= crate::layout::NEWS_ENTRIES);
            watcher.arm();
            watcher.disarm();
        }
        6 => {
            let peer = pair.b.arena.peer(random.next() as u32);
            let seen = (peer.local(), peer.remote(), peer.state(), peer.kind());
            assert!(format!("{seen:?} {:?}", peer.figures()).len() > 10);
        }
        _ => {
            a.finish();
            a.slot().clear_flags(flags::BROKEN | flags::HUNG_UP);
        }
    }
}

fn withstand(seed: u64) {
    let (bad, good) = (Pair::of(1, 2), Pair::of(1, 3));
    let stop = AtomicBool::new(false);
    let total = 200_000;
    std::thread::scope(|scope| {
        scope.spawn(|| scribble(&bad, seed, &stop));
        scope.spawn(|| send_all(&good.a(), &good.a.fd, (0, total), seed));
        let reader = scope.spawn(|| {
            let mut watcher = Watcher::new(bad.a.arena.clone(), bad.a.holder);
            watcher.add(bad.a.slot, &bad.b.arena);
            let mut random = Random(seed ^ 0x55);
            for _ in 0..8_000 {
                use_it(&bad, &mut watcher, &mut random);
            }
            let slot = bad.a.arena.own(bad.a.slot);
            slot.clear_flags(flags::BROKEN | flags::HUNG_UP);
            bad.a().close(true);
        });
        let mut at = 0;
        let mut out = [0; 3000];
        while at < total {
            match good.b().receive_slice(&mut out, false) {
                Ok(n) => {
                    for byte in &out[..n] {
                        assert_eq!(*byte, byte_at(at), "seed {seed} at {at}");
                        at += 1;
                    }
                }
                Err(Hindrance::Wait) => std::thread::yield_now(),
                Err(other) => panic!("seed {seed}: {other:?} at {at}"),
            }
        }
        let outcome = reader.join();
        stop.store(true, Relaxed);
        assert!(outcome.is_ok(), "seed {seed}");
    });
}

#[test]
fn s3_a_peer_that_changes_everything_meanwhile_hurts_its_own_stream_alone() {
    for seed in 0..4 {
        withstand(seed);
    }
}

#[test]
fn s1_positions_that_cannot_be_break_the_stream() {
    use crate::layout::slot as at;
    for value in NASTY {
        let pair = Pair::new();
        let (arena, a) = (&pair.b.arena, pair.a());
        a.send_slice(b"abc").unwrap();
        let word = |offset| arena.memory.long(arena.slot_at(pair.b.slot) + offset);
        word(at::PRODUCED).store(value, Relaxed);
        let got = a.receive_slice(&mut [0; 8], true);
        match value {
            0 => assert_eq!(got, Err(Hindrance::Wait)),
            1 | 4096 => assert_eq!(got, Ok(value.min(8) as usize)),
            _ => assert_eq!(got, Err(Hindrance::Reset), "{value}"),
        }
        a.slot().clear_flags(flags::BROKEN);
        word(at::PRODUCED).store(0, Relaxed);
        word(at::CONSUMED).store(value, Relaxed);
        let sent = a.send_slice(b"d");
        match value {
            0 | 1 => assert_eq!(sent, Ok(1)),
            _ => assert_eq!(sent, Err(Hindrance::Reset), "{value}"),
        }
    }
}

#[test]
fn s1_a_base_of_any_value_reads_within_the_ring() {
    let pair = Pair::new();
    pair.b().send_slice(&[7; 4096]).unwrap();
    let arena = &pair.b.arena;
    let base = arena.slot_at(pair.b.slot) + crate::layout::slot::BASE;
    for value in NASTY {
        arena.memory.long(base).store(value, Relaxed);
        let mut out = [0; 4096];
        assert_eq!(pair.a().receive_slice(&mut out, true), Ok(4096));
        assert_eq!(out, [7; 4096], "nothing but the ring");
    }
}

#[test]
fn s9_sleepers_that_cannot_be_are_woken_at_most_once() {
    let pair = Pair::new();
    let arena = &pair.b.arena;
    let word = |offset| -> &AtomicU32 { arena.memory.word(arena.slot_at(pair.b.slot) + offset) };
    word(crate::layout::slot::READER_ARMED).store(u32::MAX, Relaxed);
    word(crate::layout::slot::WATCH).store(u32::MAX - 1, Relaxed);
    for _ in 0..100 {
        pair.a().send_slice(b"x").unwrap();
    }
    let mut bytes = [0; 256];
    let (_, n) = rustix::net::recv(&pair.b.fd, &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
    assert_eq!(n, 1);
    assert!(arena.memory.word(header::SLOTS).load(Relaxed) == 64);
}
