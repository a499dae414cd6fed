//! Slots, processes, sleepers: what an arena keeps count of.

use super::*;
use crate::layout::PROCESSES;
use crate::pair::SMALL;
use std::sync::atomic::Ordering::AcqRel;

fn bits(words: &[u64]) -> Vec<u32> {
    let each = |(at, word): (usize, &u64)| {
        let word = *word;
        (0..64)
            .filter(move |bit| word & (1 << bit) != 0)
            .map(move |bit| at as u32 * 64 + bit)
    };
    words.iter().enumerate().flat_map(each).collect()
}

#[test]
fn what_nobody_holds_is_found() {
    let (_file, arena) = Arena::create(7, Geometry::default()).unwrap();
    let (one, two) = (arena.enter(1).unwrap(), arena.enter(2).unwrap());
    let slots: Vec<u32> = (0..130).map(|_| arena.allocate(one, 0).unwrap()).collect();
    arena.hold(two, slots[1]);
    let mut words = Vec::new();
    assert!(!arena.unheld(&mut words));
    arena.let_go(one, slots[0]);
    arena.let_go(one, slots[1]);
    arena.let_go(one, slots[129]);
    assert!(arena.unheld(&mut words));
    assert_eq!(bits(&words), [slots[0], slots[129]]);
    arena.leave(two);
    arena.unheld(&mut words);
    assert_eq!(bits(&words), [slots[0], slots[1], slots[129]]);
    arena.free(one, slots[1]);
    arena.unheld(&mut words);
    assert_eq!(bits(&words), [slots[0], slots[129]]);
}

#[test]
fn slots_run_out_and_come_back_as_others() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    let holder = arena.enter(1).unwrap();
    let all: Vec<u32> = (0..64)
        .map(|n| arena.allocate(holder, n).unwrap())
        .collect();
    assert_eq!(arena.allocate(holder, 9), None);
    assert_eq!(arena.allocated().count(), 64);
    let before = arena.peer(all[7]).generation();
    arena.own(all[7]).set_inode(77);
    assert_eq!(arena.find_inode(77), Some(all[7]));
    arena.free(holder, all[7]);
    assert_eq!(arena.find_inode(77), None);
    let ended = arena.peer(all[7]).generation();
    assert_eq!(arena.allocate(holder, 0), Some(all[7]));
    let after = arena.peer(all[7]).generation();
    assert!(before != ended && ended != after && before != after);
}

#[test]
fn the_table_of_processes_is_bounded() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    let entries: Vec<usize> = (2..PROCESSES as u32)
        .map(|pid| arena.enter(pid).unwrap())
        .collect();
    assert_eq!(arena.enter(9999), None);
    let last = *entries.last().unwrap();
    let slot = arena.allocate(last, 0).unwrap();
    assert!(arena.is_held(slot));
    arena.leave(last);
    assert!(!arena.is_held(slot));
    assert_eq!(arena.enter(9999), Some(last));
}

#[test]
fn the_last_of_two_ends_a_slot_alone() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    let (one, two) = (arena.enter(1).unwrap(), arena.enter(2).unwrap());
    for _ in 0..500 {
        let slot = arena.allocate(one, 0).unwrap();
        arena.hold(two, slot);
        let last = std::thread::scope(|scope| {
            let each = [one, two].map(|holder| {
                let arena = &arena;
                scope.spawn(move || arena.is_last(holder, slot))
            });
            each.map(|it| it.join().unwrap())
        });
        assert!(last[0] != last[1], "{last:?}");
        assert!(arena.is_held(slot), "until it is freed");
        arena.free(one, slot);
    }
}

#[test]
fn a_slot_is_held_by_nobody_of_its_use_before() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    let (one, two) = (arena.enter(1).unwrap(), arena.enter(2).unwrap());
    let slot = arena.allocate(one, 0).unwrap();
    assert!(arena.is_last(one, slot));
    arena.free(one, slot);
    assert_eq!(arena.held_by(one).count(), 0);
    assert_eq!(arena.allocate(two, 0), Some(slot));
    assert_eq!(arena.held_by(one).count(), 0);
    assert!(arena.let_go(two, slot));
}

#[test]
fn what_is_no_arena_is_not_mapped() {
    let (file, arena) = Arena::create(5, SMALL).unwrap();
    assert_eq!(Arena::open(&file, false).unwrap().host(), 5);
    for (offset, value) in [
        (header::SLOTS, 65),
        (header::SLOTS, 128),
        (header::RING, 4097),
    ] {
        let word = arena.memory.word(offset);
        let before = word.swap(value, AcqRel);
        assert_eq!(Arena::open(&file, false).err(), Some(Errno::INVAL));
        word.store(before, Release);
    }
    arena.memory.long(header::MAGIC).store(MAGIC + 1, Release);
    assert_eq!(Arena::open(&file, false).err(), Some(Errno::INVAL));
    let tail = tempfile::tempfile().unwrap();
    assert!(Arena::open(&tail, false).is_err(), "not sealed");
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let short = rustix::fs::memfd_create("short", flags).unwrap();
    rustix::fs::ftruncate(&short, 100).unwrap();
    rustix::fs::fcntl_add_seals(&short, rustix::fs::SealFlags::SHRINK).unwrap();
    assert_eq!(Arena::open(&short, false).err(), Some(Errno::INVAL));
}

#[test]
fn s7_an_arena_cannot_be_cut_and_its_holes_are_zeroes() {
    let (file, arena) = Arena::create(5, SMALL).unwrap();
    assert_eq!(rustix::fs::ftruncate(&file, 4096), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&file, 1 << 40), Err(Errno::PERM));
    let seal = rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::WRITE);
    assert_eq!(seal, Err(Errno::PERM));
    let other = Arena::open(&file, false).unwrap();
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 0, SMALL.len()).unwrap();
    assert_eq!(other.peer(3).generation(), 0);
    assert_eq!(arena.allocated().count(), 0);
}

#[test]
fn who_is_not_born_yet_holds_what_was_held_for_it() {
    let (_file, arena) = Arena::create(7, SMALL).unwrap();
    let parent = arena.enter(100).unwrap();
    let slot = arena.allocate(parent, 0).unwrap();
    let made = arena.enter_unborn(parent).unwrap();
    assert_eq!(made.to_string().parse(), Ok(made));
    arena.hold(made.entry, slot);
    assert!(!arena.is_last(parent, slot));
    assert!(!arena.unheld(&mut Vec::new()));
    assert!(arena.is_unborn(made) && arena.pid_of(made.entry) == 0);
    arena.name_born(made, 101);
    assert_eq!(arena.pid_of(made.entry), 101);
    // Its maker is late, and the entry is another child's by now.
    arena.leave(made.entry);
    let other = arena.enter_unborn(parent).unwrap();
    assert_eq!(other.entry, made.entry);
    arena.name_born(made, 101);
    assert!(arena.is_unborn(other) && !arena.is_unborn(made));
    assert_eq!(other.maker(), Some(parent));
}

#[test]
fn what_a_process_without_an_entry_has_no_process_ends() {
    let (_file, arena) = Arena::create(7, SMALL).unwrap();
    let parent = arena.enter(100).unwrap();
    let slot = arena.allocate(parent, 0).unwrap();
    // The table was full at the fork.
    arena.hold(UNKNOWN, slot);
    assert!(!arena.is_last(parent, slot), "its child may have it");
    assert!(!arena.is_last(UNKNOWN, slot), "so may another such child");
    assert!(!arena.let_go(UNKNOWN, slot) && arena.is_held(slot));
    assert_eq!(arena.held_in_transit().collect::<Vec<_>>(), [slot]);
    // The kernel's socket is gone.
    arena.drop_transit(slot);
    assert!(!arena.is_held(slot));
    let mine = arena.allocate(UNKNOWN, 0).unwrap();
    assert!(arena.is_held(mine), "what it opens itself is held as well");
}

#[test]
fn of_a_thousand_processes_the_last_ends_a_slot() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    let all: Vec<usize> = (1..=1000).map(|pid| arena.enter(pid).unwrap()).collect();
    let shared = arena.allocate(all[0], 0).unwrap();
    all.iter().for_each(|&holder| arena.hold(holder, shared));
    let each: Vec<u32> = [0, 63, 500, 999]
        .map(|n| arena.allocate(all[n], 0).unwrap())
        .into();
    for (n, slot) in [0, 63, 500, 999].into_iter().zip(each) {
        assert!(arena.is_last(all[n], slot), "{n}");
        arena.free(all[n], slot);
    }
    let (last, others) = all.split_last().unwrap();
    for &holder in others {
        assert!(!arena.is_last(holder, shared));
    }
    assert!(arena.is_last(*last, shared));
}

#[test]
fn an_entry_whose_leaver_was_killed_is_given_back_by_another() {
    let (_file, arena) = Arena::create(1, SMALL).unwrap();
    let holder = arena.enter(5).unwrap();
    let slot = arena.allocate(holder, 0).unwrap();
    let word = arena.memory.long(arena.geometry.process(holder));
    // Killed between the first and the last store of `leave`.
    word.store(word.load(Acquire) & !0xffff_ffff | 1 << 30, Release);
    let stuck = arena.look_at(holder);
    assert!(stuck.is_leaving() && arena.is_held(slot));
    assert!(arena.leave_as(stuck) && !arena.is_held(slot));
    assert!(!arena.leave_as(stuck));
    assert_eq!(arena.enter(6), Some(holder));
}
