//! Two programs and a stream between them, for tests; numbers that look random.

use crate::{Arena, Drained, Geometry, Hindrance, Stream, drain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub(crate) const SMALL: Geometry = Geometry {
    slots: 64,
    ring: 4096,
};

/// A program's end: its arena, its slot, its descriptor.
pub(crate) struct End {
    pub(crate) file: OwnedFd,
    pub(crate) arena: Arc<Arena>,
    pub(crate) holder: usize,
    pub(crate) slot: u32,
    pub(crate) fd: OwnedFd,
}

pub(crate) struct Pair {
    pub(crate) a: End,
    pub(crate) b: End,
}

fn program(host: u64) -> (OwnedFd, Arc<Arena>, usize) {
    let (file, arena) = Arena::create(host, SMALL).unwrap();
    let holder = arena.enter(std::process::id()).unwrap();
    (file, Arc::new(arena), holder)
}

pub(crate) fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair::of(1, 2)
    }

    pub(crate) fn of(one: u64, two: u64) -> Pair {
        let (x, y) = sockets();
        let end = |host, fd| {
            let (file, arena, holder) = program(host);
            let slot = arena.allocate(holder, 0).unwrap();
            End {
                file,
                arena,
                holder,
                slot,
                fd,
            }
        };
        let pair = Pair {
            a: end(one, x),
            b: end(two, y),
        };
        let (a, b) = (pair.a.arena.own(pair.a.slot), pair.b.arena.own(pair.b.slot));
        a.set_peer(b.name());
        b.set_peer(a.name());
        pair
    }

    pub(crate) fn a(&self) -> Stream<'_> {
        let theirs = Some(&*self.b.arena);
        Stream::new(&self.a.arena, self.a.slot, theirs, self.a.fd.as_fd())
    }

    pub(crate) fn b(&self) -> Stream<'_> {
        let theirs = Some(&*self.a.arena);
        Stream::new(&self.b.arena, self.b.slot, theirs, self.b.fd.as_fd())
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// The byte at a position of a test's stream.
pub(crate) fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Until something can be read (or written): sleeps in the kernel as programs do.
///
/// # Panics
/// When no wake-up comes for a long time: one was lost.
pub(crate) fn sleep_until(
    stream: &Stream<'_>,
    fd: impl AsFd,
    reads: bool,
    ready: impl Fn() -> bool,
) {
    let slot = stream.slot();
    match reads {
        true => slot.arm_reader(),
        false => slot.arm_writer(),
    }
    fence(Ordering::SeqCst);
    if !ready() {
        let patience = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let mut entry = [PollFd::new(&fd, PollFlags::IN)];
        assert_eq!(poll(&mut entry, Some(&patience)), Ok(1), "a lost wake-up");
        if drain(fd.as_fd()) == Drained::HungUp {
            stream.hung_up();
        }
    }
    match reads {
        true => slot.disarm_reader(),
        false => slot.disarm_writer(),
    }
}

/// Sends the test's bytes from position `from` to `to` in pieces of any size, sleeping for room.
pub(crate) fn send_all(stream: &Stream<'_>, fd: impl AsFd, (from, to): (u64, u64), seed: u64) {
    let mut random = Random(seed);
    let mut at = from;
    while at < to {
        let len = (1 + random.below(6000)).min((to - at) as usize);
        let bytes: Vec<u8> = (at..at + len as u64).map(byte_at).collect();
        match stream.send_slice(&bytes) {
            Ok(n) => at += n as u64,
            Err(Hindrance::Wait) => {
                sleep_until(stream, &fd, false, || stream.readiness().writable);
            }
            Err(other) => panic!("seed {seed}: {other:?} at {at}"),
        }
    }
}

/// Receives until the end, looking at some of it first without taking it; how much there was.
pub(crate) fn receive_all(stream: &Stream<'_>, fd: impl AsFd, from: u64, seed: u64) -> u64 {
    let mut random = Random(seed ^ 1);
    let mut at = from;
    let mut out = vec![0; 6000];
    loop {
        let len = 1 + random.below(out.len());
        let keep = random.below(4) == 0;
        match stream.receive_slice(&mut out[..len], keep) {
            Ok(n) => {
                for (i, byte) in out[..n].iter().enumerate() {
                    assert_eq!(*byte, byte_at(at + i as u64), "seed {seed} at {at}+{i}");
                }
                if !keep {
                    at += n as u64;
                }
            }
            Err(Hindrance::Wait) => {
                sleep_until(stream, &fd, true, || stream.readiness().readable);
            }
            Err(Hindrance::End) => return at,
            Err(other) => panic!("seed {seed}: {other:?} at {at}"),
        }
    }
}
