//! Processes that end, and entries that no process will ever take.

use super::*;
use gannet_local::Geometry;
use std::process::Command;

const SMALL: Geometry = Geometry {
    slots: 64,
    ring: 4096,
};

struct Table {
    arena: Arena,
    kernel: Kernel,
    processes: Processes,
    now: Instant,
}

impl Table {
    fn new() -> Table {
        let (_file, arena) = Arena::create(7, SMALL).unwrap();
        Table {
            arena,
            kernel: Kernel::new().unwrap(),
            processes: Processes::new(),
            now: Instant::now(),
        }
    }

    fn look(&mut self) -> Vec<Made> {
        let mut dead = Vec::new();
        let Table { arena, kernel, .. } = self;
        self.processes.look(arena, kernel, self.now, &mut dead);
        dead
    }
}

#[test]
fn news_of_the_one_before_do_not_end_who_has_the_entry_now() {
    let mut table = Table::new();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let entry = table.arena.enter(child.id()).unwrap();
    table.look();
    assert_eq!(table.processes.ended(entry, &table.arena), None, "it lives");
    assert!(table.processes.has(child.id()));
    // As if descriptors had run out.
    table.processes.entries[entry].as_mut().unwrap().fd = None;
    table.look();
    child.kill().unwrap();
    child.wait().unwrap();
    let made = table.arena.look_at(entry);
    assert_eq!(table.processes.ended(entry, &table.arena), Some(made));
    assert_eq!(table.processes.ended(entry, &table.arena), None, "once");
}

#[test]
fn an_entry_that_changed_hands_after_the_look_is_not_given_back() {
    let mut table = Table::new();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let entry = table.arena.enter(child.id()).unwrap();
    table.look();
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = table.processes.ended(entry, &table.arena).unwrap();
    // Meanwhile the entry was given back, and a process with the same number has it.
    table.arena.leave(entry);
    assert_eq!(table.arena.enter(child.id()), Some(entry));
    let slot = table.arena.allocate(entry, 0).unwrap();
    assert!(!table.arena.leave_as(ended), "late");
    assert!(table.arena.is_held(slot));
}

#[test]
fn a_child_that_was_never_born_goes_with_its_maker() {
    let mut table = Table::new();
    let maker = table.arena.enter(std::process::id()).unwrap();
    let [unborn, late] = [(); 2].map(|()| table.arena.enter_unborn(maker).unwrap());
    let slot = table.arena.allocate(maker, 0).unwrap();
    table.arena.hold(unborn.entry, slot);
    assert_eq!(table.look(), []);
    table.now += 2 * GRACE;
    assert_eq!(table.look(), [], "its maker lives");
    table.processes.orphan(maker, &table.arena, table.now);
    table.arena.leave(maker);
    assert_eq!(table.look(), [], "it may be on its way");
    assert!(!table.processes.is_empty() && table.processes.due().is_some());
    assert!(
        table.arena.become_process(late, std::process::id()),
        "this one was"
    );
    table.now += 2 * GRACE;
    assert_eq!(table.look(), [unborn]);
    assert_eq!(table.processes.due(), None);
    assert!(table.arena.leave_as(unborn) && !table.arena.is_held(slot));
    assert!(
        !table.arena.become_process(unborn, 1),
        "it comes too late, and enters anew"
    );
}

#[test]
fn an_entry_of_another_namespace_is_not_looked_for_by_number() {
    let mut table = Table::new();
    // This process has that number here; the one that entered itself has it elsewhere.
    let entry = table.arena.enter(std::process::id()).unwrap();
    table.processes.namespace += 1;
    assert_eq!(table.look(), []);
    assert!(!table.processes.has(std::process::id()));
    // The kernel says which it is.
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let fd = watch(child.id(), entry, &table.kernel).unwrap();
    table.kernel.remove(&fd);
    let made = table.arena.look_at(entry).pack();
    let who = (fd, child.id());
    table
        .processes
        .entered(made, who, &table.kernel, &table.arena);
    table.now += 2 * GRACE;
    assert_eq!(table.look(), []);
    assert!(table.processes.has(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(table.processes.ended(entry, &table.arena).is_some());
    // One that never said is dead after a while.
    assert_eq!(table.look(), []);
    table.now += 2 * GRACE;
    assert_eq!(table.look(), [table.arena.look_at(entry)]);
}
