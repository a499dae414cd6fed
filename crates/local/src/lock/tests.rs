//! The lock among threads, and after its holder's death.

use super::*;
use crate::pair::{Pair, SMALL};
use crate::{Arena, slot};
use std::io::Read;
use std::process::{Command, Stdio};

fn arena() -> Arena {
    Arena::create(1, SMALL).unwrap().1
}

#[test]
fn threads_take_turns() {
    let (inside, arena) = (AtomicU64::new(0), arena());
    let lock = arena.own(0).write_lock();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let held = hold(lock).unwrap();
                    // Not atomic together: two inside would lose one.
                    let now = inside.load(Relaxed);
                    std::hint::spin_loop();
                    inside.store(now + 1, Relaxed);
                    drop(held);
                }
            });
        }
    });
    assert_eq!((inside.load(Relaxed), lock.word.load(Relaxed)), (8000, 0));
}

#[test]
fn a_thread_that_interrupts_itself_is_told() {
    let arena = arena();
    let lock = arena.own(0).write_lock();
    let held = hold(lock).unwrap();
    assert_eq!(hold(lock).err(), Some(Errno::DEADLK));
    drop(held);
    assert!(hold(lock).is_ok());
}

#[test]
fn waiters_who_were_left_alone_take_it() {
    let arena = arena();
    let lock = arena.own(0).write_lock();
    lock.word.store(SLEEPERS, Relaxed);
    drop(hold(lock).unwrap());
    assert_eq!(lock.word.load(Relaxed), 0);
    // A number that no thread can have.
    lock.word.store((1 << 30) - 1, Relaxed);
    drop(hold(lock).unwrap());
    assert_eq!(lock.word.load(Relaxed), 0);
}

#[test]
fn s8_a_holder_whose_number_came_again_is_followed() {
    let arena = arena();
    let dead = arena.enter(1).unwrap();
    // A thread that lives: of another process, or of another PID namespace.
    let held = u64::from(arena.seat()) << 32 | u64::from(std::process::id());
    let lock = arena.own(0).write_lock();
    lock.word.store(held, Relaxed);
    let own = arena.enter(2).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(hold(lock).unwrap()));
        std::thread::sleep(3 * SUSPICION);
        assert!(!waiting.is_finished(), "its entry is in use");
        arena.leave(dead);
    });
    assert_eq!(lock.word.load(Relaxed), 0);
    // Nor is another use of the entry the same one.
    lock.word.store(held, Relaxed);
    assert_eq!(arena.enter(3), Some(dead));
    drop(hold(lock).unwrap());
    assert!(own != dead && lock.word.load(Relaxed) == 0);
}

#[test]
fn a_thread_with_this_number_elsewhere_is_another() {
    let arena = arena();
    let other = arena.enter(1).unwrap();
    let elsewhere = u64::from(arena.seat()) << 32 | u64::from(thread());
    let lock = arena.own(0).write_lock();
    lock.word.store(elsewhere, Relaxed);
    arena.enter(2).unwrap();
    arena.leave(other);
    assert!(hold(lock).is_ok());
}

#[test]
fn the_state_behind_any_name() {
    assert_eq!(state_in(b"12 (sleep) S 1 1"), Some(b'S'));
    assert_eq!(state_in(b"12 (a) Z) (b) Z 1 1"), Some(b'Z'));
    assert_eq!(state_in(b"12 (cut"), None);
    assert_eq!(state_in(b"12 (cut)"), None);
    assert!(!is_unburied(thread()));
}

/// As the child: takes the lock and stays in it.
fn child(path: &str) {
    let file = std::fs::File::options().read(true).write(true).open(path);
    let arena = Arena::open(file.unwrap(), true).unwrap();
    let held = arena.own(0).hold_write().unwrap();
    println!("held");
    std::thread::sleep(Duration::from_secs(600));
    drop(held);
}

#[test]
fn s8_a_holder_that_is_killed_inside_is_followed() {
    const PATH: &str = "GANNET_TEST_LOCK";
    if let Ok(path) = std::env::var(PATH) {
        return child(&path);
    }
    let (file, arena) = Arena::create(1, SMALL).unwrap();
    let fd = rustix::fd::AsRawFd::as_raw_fd(&file);
    let name = "lock::tests::s8_a_holder_that_is_killed_inside_is_followed";
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", name])
        .env(PATH, format!("/proc/{}/fd/{fd}", std::process::id()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = process.stdout.take().unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"held\n") {
        let mut byte = [0];
        said.read_exact(&mut byte).unwrap();
        text.extend(byte);
    }
    let lock = arena.own(0).write_lock();
    let holder = u64::from(process.id() + tid_after(&process));
    assert_eq!(lock.word.load(Relaxed), holder);
    process.kill().unwrap();
    // Nobody has asked for its end: its number is still taken.
    drop(hold(lock).unwrap());
    assert_eq!(lock.word.load(Relaxed), 0);
    process.wait().unwrap();
}

/// The test's thread is not the process's first.
fn tid_after(process: &std::process::Child) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let numbers = tasks.flatten().map(|task| task.file_name());
    let highest = numbers.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    highest.max().unwrap() - process.id()
}

#[test]
fn a_stream_says_that_its_lock_is_taken_by_the_caller() {
    let pair = Pair::new();
    let slot: slot::OwnSlot<'_> = pair.a.arena.own(pair.a.slot);
    let held = slot.hold_write().unwrap();
    let told = crate::Hindrance::File(Errno::DEADLK);
    assert_eq!(pair.a().send_slice(b"x"), Err(told));
    drop(held);
    let held = slot.hold_read().unwrap();
    assert_eq!(pair.a().receive_slice(&mut [0], false), Err(told));
    drop(held);
    assert_eq!(pair.a().send_slice(b"x"), Ok(1));
}
