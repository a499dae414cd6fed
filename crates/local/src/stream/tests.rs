//! Streams against a naive model, across threads and processes, and with a peer that lies.

mod ends;
mod hostile;

use super::*;
use crate::pair::{Pair, Random, byte_at, receive_all, send_all};
use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::VecDeque;
use std::process::{Command, Stdio};

#[test]
fn places_make_up_the_length_and_stay_inside() {
    for ring in [4096usize, 8192] {
        for from in [0, 1, 4095, 4096, 4097, u64::MAX, u64::MAX - 4095, 1 << 63] {
            for len in [0, 1, 4095, 4096, 9000, usize::MAX] {
                let ((at, first), second) = places(from, len, ring);
                assert!(at < ring && first <= ring - at && second <= at);
                assert_eq!(first + second, len.min(ring));
                assert_eq!(at as u64, from % ring as u64);
            }
        }
    }
}

#[test]
fn a_ring_that_is_empty_begins_again_at_its_start() {
    let pair = Pair::new();
    let (a, b) = (pair.a(), pair.b());
    for turn in 0..100u64 {
        assert_eq!(a.send_slice(b"twelve bytes").unwrap(), 12);
        assert_eq!(pair.a.arena.peer(pair.a.slot).base(), turn * 12);
        assert_eq!(b.skip(100).unwrap(), 12);
    }
    a.send_slice(b"one").unwrap();
    a.send_slice(b"two").unwrap();
    assert_eq!(pair.a.arena.peer(pair.a.slot).base(), 1200);
}

/// One direction as one would write it who had never heard of rings.
#[derive(Default)]
struct Model {
    queue: VecDeque<u8>,
    fin: bool,
    shut: bool,
}

impl Model {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Hindrance> {
        let room = 4096 - self.queue.len();
        match (self.fin, room) {
            (true, _) => Err(Hindrance::End),
            (false, 0) => Err(Hindrance::Wait),
            _ => {
                let n = bytes.len().min(room);
                self.queue.extend(&bytes[..n]);
                Ok(n)
            }
        }
    }

    fn receive(&mut self, len: usize, keep: bool) -> Result<Vec<u8>, Hindrance> {
        if self.queue.is_empty() {
            return Err(if self.fin || self.shut {
                Hindrance::End
            } else {
                Hindrance::Wait
            });
        }
        let got: Vec<u8> = self.queue.iter().take(len).copied().collect();
        if !keep {
            self.queue.drain(..got.len());
        }
        Ok(got)
    }
}

fn compare(seed: u64) {
    let pair = Pair::new();
    let ends = [pair.a(), pair.b()];
    let mut models = [Model::default(), Model::default()];
    let mut random = Random(seed);
    let mut next = 0;
    for turn in 0..400 {
        let from = random.below(2);
        let (end, other) = (ends[from], ends[1 - from]);
        let model = &mut models[from];
        match random.below(100) {
            0 if turn > 300 => {
                end.finish();
                model.fin = true;
            }
            1 if turn > 300 => {
                other.refuse();
                model.shut = true;
            }
            2..50 => {
                let len = 1 + random.below(3000);
                let bytes: Vec<u8> = (next..next + len as u64).map(byte_at).collect();
                next += len as u64;
                assert_eq!(
                    end.send_slice(&bytes),
                    model.send(&bytes),
                    "seed {seed}, {turn}"
                );
            }
            _ => {
                let mut out = vec![0; 1 + random.below(3000)];
                let keep = random.below(3) == 0;
                let got = other.receive_slice(&mut out, keep);
                let got = got.map(|n| out[..n].to_vec());
                assert_eq!(got, model.receive(out.len(), keep), "seed {seed}, {turn}");
            }
        }
        if !model.shut {
            assert_eq!(other.waiting(), model.queue.len() as u64);
            assert_eq!(end.unread(), model.queue.len() as u64);
            let ready = other.readiness();
            assert_eq!(ready.readable, !model.queue.is_empty() || model.fin);
            assert_eq!(ready.ended, model.fin);
        }
    }
}

#[test]
fn as_a_naive_model() {
    for seed in 0..60 {
        compare(seed);
    }
}

#[test]
fn two_threads_move_bytes_both_ways_and_sleep_for_each_other() {
    for seed in 0..6u64 {
        let pair = Pair::new();
        let total = 300_000;
        let stop = std::sync::atomic::AtomicBool::new(false);
        let stop = &stop;
        std::thread::scope(|scope| {
            for look in [Pair::a, Pair::b] {
                // Looks without the lock, at positions that move under its eyes.
                let stream = look(&pair);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        stream.readiness();
                        assert_eq!(stream.slot().flags() & flags::BROKEN, 0, "seed {seed}");
                    }
                });
            }
            scope.spawn(|| {
                send_all(&pair.a(), &pair.a.fd, (0, total), seed);
                pair.a().finish();
            });
            assert_eq!(receive_all(&pair.b(), &pair.b.fd, 0, seed), total);
            stop.store(true, Relaxed);
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send_all(&pair.b(), &pair.b.fd, (0, total), seed);
                pair.b().finish();
            });
            scope.spawn(|| assert_eq!(receive_all(&pair.a(), &pair.a.fd, 0, seed), total));
        });
        let over = pair.a().readiness();
        assert!(over.hung_up && over.ended && !over.failed, "seed {seed}");
    }
}

const CHILD: &str = "GANNET_TEST_STREAM";

/// As the child: the end `b`, with its descriptor as standard input.
fn child(text: &str) {
    let mut words = text.split(' ');
    let mut arena = |writable| {
        let file = std::fs::File::options()
            .read(true)
            .write(writable)
            .open(words.next().unwrap());
        Arena::open(file.unwrap(), writable).unwrap()
    };
    let (theirs, own) = (arena(false), arena(true));
    let fd = rustix::stdio::stdin();
    let stream = Stream::new(&own, 0, Some(&theirs), fd);
    let total = receive_all(&stream, fd, 0, 7);
    send_all(&stream, fd, (0, total), 7);
    stream.finish();
    sleep_for_death(&stream, fd);
}

/// Until the other end says that it has seen everything: then this process is killed.
fn sleep_for_death(stream: &Stream<'_>, fd: BorrowedFd<'_>) {
    crate::pair::sleep_until(stream, fd, false, || false);
}

#[test]
fn s8_two_processes_and_one_is_killed() {
    if let Ok(text) = std::env::var(CHILD) {
        return child(&text);
    }
    let pair = Pair::new();
    let path = |file: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let name = "stream::tests::s8_two_processes_and_one_is_killed";
    let fd = pair.b.fd.try_clone().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(
            CHILD,
            format!("{} {}", path(&pair.a.file), path(&pair.b.file)),
        )
        .stdin(fd)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let crate::pair::End { fd: gone, .. } = pair.b;
    drop(gone);
    let stream = Stream::new(&pair.a.arena, 0, Some(&pair.b.arena), pair.a.fd.as_fd());
    send_all(&stream, &pair.a.fd, (0, 200_000), 5);
    stream.finish();
    assert_eq!(receive_all(&stream, &pair.a.fd, 0, 5), 200_000);
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(drain(pair.a.fd.as_fd()), Drained::HungUp);
    stream.hung_up();
    assert_eq!(stream.send_slice(b"x"), Err(Hindrance::End));
    assert!(stream.readiness().hung_up);
}

#[test]
fn readiness_in_every_state() {
    let ready = |text: &str, change: &dyn Fn(&Pair)| {
        let pair = Pair::new();
        change(&pair);
        let it = pair.a().readiness();
        let letters = [
            (it.readable, 'r'),
            (it.writable, 'w'),
            (it.ended, 'e'),
            (it.hung_up, 'h'),
            (it.failed, 'f'),
        ];
        let is: String = letters
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, c)| *c)
            .collect();
        assert_eq!(is, text);
    };
    let fill = |pair: &Pair| {
        pair.a().send_slice(&[0; 4096]).unwrap();
    };
    ready("w", &|_| {});
    ready("rw", &|pair| {
        pair.b().send_slice(b"x").unwrap();
    });
    ready("", &fill);
    ready("", &|pair| {
        fill(pair);
        pair.b().skip(1023).unwrap();
    });
    ready("w", &|pair| {
        fill(pair);
        pair.b().skip(1024).unwrap();
    });
    ready("rwe", &|pair| pair.b().finish());
    ready("w", &|pair| pair.a().finish());
    ready("rweh", &|pair| {
        pair.a().finish();
        pair.b().finish();
    });
    ready("rwe", &|pair| pair.a().refuse());
    ready("w", &|pair| pair.b().refuse());
    ready("rwe", &|pair| pair.b().close(false));
    ready("rwehf", &|pair| pair.b().close(true));
    ready("rwehf", &|pair| {
        fill(pair);
        pair.b().close(false);
    });
    ready("rwe", &|pair| pair.a().hung_up());
    ready("rwehf", &|pair| {
        fill(pair);
        pair.a().hung_up();
    });
    ready("wf", &|pair| pair.a().slot().set_error(111));
}

#[test]
fn s4_a_slot_that_is_used_for_something_else_is_the_end() {
    let pair = Pair::new();
    pair.b().send_slice(b"lost").unwrap();
    pair.b.arena.free(pair.b.holder, pair.b.slot);
    assert_eq!(pair.b.arena.allocate(pair.b.holder, 0), Some(pair.b.slot));
    let (a, mut out) = (pair.a(), [0; 8]);
    assert_eq!(a.receive_slice(&mut out, false), Err(Hindrance::End));
    assert_eq!(a.send_slice(b"x"), Err(Hindrance::End));
    assert!(a.is_forgotten() && a.readiness().readable);
}

#[test]
fn s9_wake_ups_without_end_do_not_hold_their_reader() {
    let pair = Pair::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let _ = rustix::net::send(&pair.b.fd, &[0; 4096], SendFlags::DONTWAIT);
            }
        });
        for _ in 0..50 {
            assert_eq!(drain(pair.a.fd.as_fd()), Drained::Wakes);
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn a_hang_up_behind_a_wake_up_is_found_with_it() {
    let pair = Pair::new();
    crate::wake(pair.b.fd.as_fd());
    let crate::pair::End { fd: gone, .. } = pair.b;
    drop(gone);
    assert_eq!(drain(pair.a.fd.as_fd()), Drained::HungUp);
}
