//! Bells: rung once for each sleep, whichever stream has news; by whoever can.

use super::*;
use crate::Watcher;
use crate::pair::{End, Pair};
use std::os::fd::IntoRawFd;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Numbers of programs that no other test of this machine uses.
fn pair() -> Pair {
    static RINGS: OnceLock<()> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    RINGS.get_or_init(|| set_ringer(ringer().unwrap().into_raw_fd()));
    let next = NEXT.fetch_add(2, Relaxed);
    let base = u64::from(std::process::id()) << 32 | next;
    Pair::of(base, base + 1)
}

fn watcher(of: &End, theirs: &End) -> (Watcher, OwnedFd) {
    let mut watcher = Watcher::new(of.arena.clone(), of.holder);
    watcher.add(of.slot, &theirs.arena);
    let bell = watcher.make_bell().unwrap();
    watcher.hang_bell();
    (watcher, bell)
}

/// How often it was rung since it was silenced last.
fn rings(bell: &OwnedFd) -> usize {
    let mut byte = [0; 8];
    let ring = |_: &i32| rustix::net::recv(bell, &mut byte[..], RecvFlags::DONTWAIT).is_ok();
    (0..1000).take_while(ring).count()
}

fn stream_wakes(end: &End) -> usize {
    let mut bytes = [0; 64];
    let got = rustix::net::recv(&end.fd, &mut bytes[..], RecvFlags::DONTWAIT);
    got.map_or(0, |(_, n)| n)
}

#[test]
fn a_bell_is_rung_once_a_sleep_and_streams_stay_quiet() {
    let pair = pair();
    let (mut watcher, bell) = watcher(&pair.b, &pair.a);
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(rings(&bell), 0, "awake");
    watcher.collect(&mut Vec::new());
    for _ in 0..3 {
        assert!(!watcher.arm());
        pair.a().send_slice(b"x").unwrap();
        pair.a().send_slice(b"x").unwrap();
        pair.a().tell();
        assert_eq!((rings(&bell), stream_wakes(&pair.b)), (1, 0));
        watcher.disarm();
        watcher.collect(&mut Vec::new());
    }
}

#[test]
fn the_other_sleepers_are_woken_by_later_news() {
    let pair = pair();
    let (mut watcher, bell) = watcher(&pair.b, &pair.a);
    assert!(!watcher.arm());
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(rings(&bell), 1);
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(rings(&bell), 0);
    watcher.sleep_anew();
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(rings(&bell), 1);
}

#[test]
fn without_a_bell_the_stream_wakes() {
    let pair = pair();
    let mut watcher = Watcher::new(pair.b.arena.clone(), pair.b.holder);
    watcher.add(pair.b.slot, &pair.a.arena);
    let bell = watcher.make_bell().unwrap();
    assert!(!watcher.arm());
    pair.a().send_slice(b"x").unwrap();
    assert_eq!((rings(&bell), stream_wakes(&pair.b)), (0, 1), "not hung");
}

#[test]
fn a_bell_that_is_gone_belongs_to_nobody_who_sleeps() {
    let pair = pair();
    let (mut watcher, bell) = watcher(&pair.b, &pair.a);
    assert!(!watcher.arm());
    drop(bell);
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(stream_wakes(&pair.b), 0);
    // Whoever has the place afterwards has a bell of his own, or none.
    drop(watcher);
    let mut next = Watcher::new(pair.b.arena.clone(), pair.b.holder);
    next.add(pair.b.slot, &pair.a.arena);
    assert!(!next.arm());
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(stream_wakes(&pair.b), 1);
}

#[test]
fn a_full_bell_has_been_rung() {
    let pair = pair();
    let (mut watcher, bell) = watcher(&pair.b, &pair.a);
    let name = name::bell(pair.b.arena.host(), 1).unwrap();
    let stranger = ringer().unwrap();
    while sendto(&stranger, b"!", SendFlags::DONTWAIT, &name).is_ok() {}
    assert!(!watcher.arm());
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(stream_wakes(&pair.b), 0);
    silence(&bell);
    assert!(rings(&bell) > 0);
    watcher.disarm();
    watcher.collect(&mut Vec::new());
    assert!(!watcher.arm());
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(rings(&bell), 1);
}

#[test]
fn rings_can_be_gathered_where_nobody_else_waits_for_them() {
    let pair = pair();
    let (mut watcher, bell) = watcher(&pair.b, &pair.a);
    let theirs = pair.b.arena.clone();
    let host = pair.a.arena.host();
    let (_file, alone) = Arena::create_alone(host, crate::pair::SMALL).unwrap();
    let tell = |alone: &Arena| {
        let peer = theirs.peer(pair.b.slot);
        let woken = pair.a.arena.own(pair.a.slot).woken_set();
        alone.news_for(&theirs, peer, woken).is_some()
    };
    assert!(!watcher.arm());
    alone.gather();
    assert!(!tell(&alone) && !tell(&alone));
    assert_eq!(rings(&bell), 0);
    assert!(alone.ring_gathered().is_empty());
    assert_eq!(rings(&bell), 1);
    assert!(!tell(&alone));
    assert_eq!(rings(&bell), 0, "woken for this sleep");
    watcher.sleep_anew();
    assert!(!tell(&alone));
    assert_eq!(rings(&bell), 1, "no longer gathered");
    // A program's own processes ring at once: one of them may be stopped before it does.
    pair.a.arena.gather();
    watcher.sleep_anew();
    pair.a().send_slice(b"x").unwrap();
    assert_eq!(rings(&bell), 1);
}

#[test]
fn streams_without_a_bell_are_woken_by_the_caller_then() {
    let pair = pair();
    let (_file, alone) = Arena::create_alone(3, crate::pair::SMALL).unwrap();
    assert!(!alone.puts_off(5), "not gathering");
    alone.gather();
    assert!(alone.puts_off(5) && alone.puts_off(7));
    assert_eq!(alone.ring_gathered(), [5, 7]);
    assert!(!alone.puts_off(5));
    pair.a.arena.gather();
    assert!(!pair.a.arena.puts_off(1), "others rely on it");
}
