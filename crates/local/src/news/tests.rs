//! News: rings that overrun, entries that are missing, more programs than rings, many watchers.

use super::*;
use crate::pair::{End, Pair, SMALL};

fn watcher(of: &End, theirs: &End) -> Watcher {
    let mut watcher = Watcher::new(of.arena.clone(), of.holder);
    watcher.add(of.slot, &theirs.arena);
    watcher
}

fn wakes(end: &End) -> usize {
    let mut bytes = [0; 64];
    let got = rustix::net::recv(&end.fd, &mut bytes[..], rustix::net::RecvFlags::DONTWAIT);
    got.map_or(0, |(_, n)| n)
}

#[test]
fn news_is_found_and_wakes_once_a_sleep() {
    let pair = Pair::new();
    let mut watcher = watcher(&pair.b, &pair.a);
    let mut found = Vec::new();
    pair.a().send_slice(b"x").unwrap();
    assert!(watcher.has_news() && wakes(&pair.b) == 0);
    assert!(watcher.collect(&mut found));
    assert_eq!(found, [pair.b.slot]);
    assert!(!watcher.arm());
    pair.a().send_slice(b"x").unwrap();
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(wakes(&pair.b), 1);
    assert!(watcher.arm());
    watcher.disarm();
}

/// Room is news to whoever was short of it, not to whoever had enough.
#[test]
fn what_is_read_is_news_only_to_a_full_sender() {
    let pair = Pair::new();
    let mut watcher = watcher(&pair.a, &pair.b);
    let mut bytes = [0; 4096];
    pair.a().send_slice(b"x").unwrap();
    pair.b().receive_slice(&mut bytes, false).unwrap();
    assert!(!watcher.has_news(), "all of the ring was left");
    while pair.a().send_slice(&[1; 100]).is_ok() {}
    assert!(!watcher.arm());
    pair.b().receive_slice(&mut bytes[..10], false).unwrap();
    assert!(watcher.has_news());
    assert_eq!(wakes(&pair.a), 1);
    watcher.disarm();
    watcher.collect(&mut Vec::new());
    // A sleeper who asked for room itself is woken by any.
    pair.b().receive_slice(&mut bytes, false).unwrap();
    watcher.collect(&mut Vec::new());
    let slot = pair.a.arena.own(pair.a.slot);
    slot.arm_writer();
    pair.a().send_slice(b"x").unwrap();
    pair.b().receive_slice(&mut bytes, false).unwrap();
    assert_eq!(wakes(&pair.a), 1);
    slot.disarm_writer();
}

#[test]
fn a_watcher_that_was_slow_looks_at_everything() {
    let pair = Pair::new();
    let mut watcher = watcher(&pair.b, &pair.a);
    for _ in 0..NEWS_ENTRIES + 10 {
        pair.a().finish();
    }
    assert!(!watcher.collect(&mut Vec::new()));
    assert!(!watcher.has_news());
    pair.a().finish();
    assert!(watcher.collect(&mut Vec::new()));
}

#[test]
fn s8_an_entry_whose_writer_died_is_doubt() {
    let pair = Pair::new();
    let mut watcher = watcher(&pair.b, &pair.a);
    pair.a().finish();
    let arena = &pair.a.arena;
    let tail = arena.memory.long(arena.geometry.news(0) + news::TAIL);
    tail.fetch_add(1, SeqCst);
    let mut found = Vec::new();
    assert!(watcher.has_news() && !watcher.collect(&mut found));
    assert_eq!(found, [pair.b.slot]);
    assert!(!watcher.arm());
}

#[test]
fn s8_a_ring_whose_opener_died_is_found_before_sleeping() {
    let pair = Pair::new();
    let mut watcher = watcher(&pair.b, &pair.a);
    let arena = &pair.a.arena;
    let owner = arena.memory.long(arena.geometry.news(0) + news::FOR);
    owner.store(pair.b.arena.host(), Release);
    pair.a().finish();
    assert!(watcher.arm(), "news");
    assert!(watcher.collect(&mut Vec::new()));
    assert!(!watcher.arm());
}

fn take_all_rings(end: &End) {
    for n in 0..NEWS_RINGS {
        let owner = end.memory().long(end.arena.geometry.news(n) + news::FOR);
        owner.store(1000 + n as u64, Release);
    }
}

impl End {
    fn memory(&self) -> &crate::memory::Mapping {
        &self.arena.memory
    }
}

#[test]
fn without_a_ring_all_is_looked_at_whenever_there_is_news() {
    let pair = Pair::new();
    take_all_rings(&pair.a);
    let mut watcher = watcher(&pair.b, &pair.a);
    assert!(!watcher.arm());
    for _ in 0..3 {
        pair.a().finish();
        assert!(watcher.has_news() && !watcher.collect(&mut Vec::new()));
        assert!(!watcher.arm(), "nothing new");
        assert!(watcher.collect(&mut Vec::new()));
    }
    assert_eq!(wakes(&pair.b), 3);
    pair.a.arena.forget_news(|host| host == 1003);
    pair.a().finish();
    let mut found = Vec::new();
    assert!(watcher.arm());
    assert!(watcher.collect(&mut found) == found.contains(&pair.b.slot));
    pair.a().finish();
    found.clear();
    assert!(watcher.collect(&mut found));
    assert_eq!(found, [pair.b.slot]);
}

#[test]
fn a_ring_that_becomes_free_is_not_a_second_one_for_a_program() {
    let pair = Pair::new();
    let own = pair.b.arena.host();
    assert_eq!(pair.a.arena.news_ring(1003), Some(0));
    assert_eq!(pair.a.arena.news_ring(own), Some(1));
    let mut watcher = watcher(&pair.b, &pair.a);
    pair.a.arena.forget_news(|host| host == 1003);
    pair.a().send_slice(b"x").unwrap();
    assert!(watcher.has_news());
    let mut found = Vec::new();
    assert!(watcher.collect(&mut found) && found == [pair.b.slot]);
}

#[test]
fn threads_that_open_rings_while_others_become_free_open_one_for_each_program() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    for round in 1..400 {
        let open = |host| arena.news_ring(host).expect("there are enough");
        std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| open(round)));
            arena.forget_news(|host| host < round);
            let [one, other] = both.map(|it| it.join().unwrap());
            assert_eq!(one, other, "round {round}");
        });
    }
}

#[test]
fn a_stream_that_moves_to_another_watcher_wakes_that_one() {
    let pair = Pair::new();
    let mut one = watcher(&pair.b, &pair.a);
    one.arm();
    pair.a().finish();
    assert_eq!(wakes(&pair.b), 1);
    one.remove(pair.b.slot, pair.a.arena.host());
    drop(one);
    let mut two = watcher(&pair.b, &pair.a);
    two.arm();
    pair.a().finish();
    assert_eq!(
        wakes(&pair.b),
        1,
        "another sleep, though as young as the first was"
    );
}

#[test]
fn two_watchers_of_one_stream_are_both_woken() {
    let pair = Pair::new();
    let mut one = watcher(&pair.b, &pair.a);
    let two = watcher(&pair.b, &pair.a);
    assert_eq!(pair.b.arena.peer(pair.b.slot).watch(), ALWAYS);
    pair.a().finish();
    pair.a().finish();
    assert_eq!(wakes(&pair.b), 2);
    one.remove(pair.b.slot, pair.a.arena.host());
    assert_eq!(pair.b.arena.peer(pair.b.slot).watch(), ALWAYS);
    drop(two);
}

#[test]
fn watchers_without_a_sleeper_are_woken_always() {
    let pair = Pair::new();
    let new = || Watcher::new(pair.b.arena.clone(), pair.b.holder);
    let mut all: Vec<Watcher> = (0..SLEEPERS).map(|_| new()).collect();
    let mut further = new();
    assert_eq!(further.watch, ALWAYS);
    further.add(pair.b.slot, &pair.a.arena);
    pair.a().finish();
    assert_eq!(wakes(&pair.b), 1);
    all.truncate(3);
    assert_ne!(new().watch, ALWAYS);
    pair.b.arena.leave(pair.b.holder);
    assert_eq!(new().watch, 1, "a process that left sleeps nowhere");
}

#[test]
fn s1_a_ring_that_says_anything_is_followed_no_further_than_it_is_long() {
    let pair = Pair::new();
    let mut watcher = watcher(&pair.b, &pair.a);
    pair.a().finish();
    watcher.collect(&mut Vec::new());
    let arena = &pair.a.arena;
    let tail = arena.memory.long(arena.geometry.news(0) + news::TAIL);
    for to in [0, u64::MAX, 1 << 63, 1 << 31, 2048, 2049, 1] {
        tail.store(to, SeqCst);
        let mut found = Vec::new();
        watcher.collect(&mut found);
        assert!(found.len() <= NEWS_ENTRIES);
        assert!(!watcher.has_news());
    }
}
