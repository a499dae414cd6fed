//! Slots that nobody holds any more: what dead processes held, and what living ones let go of while
//! the other end still needed it.
//!
//! A slot is freed when no process holds it, the kernel's socket is gone too (a descriptor can be
//! on its way in a message, or be held by a program that knows nothing of us), and the other end
//! needs its memory no more. A slot is taken an instant before it is held, so only what two looks
//! in a row find is nobody's.
//!
//! Looks happen while there are such slots, four times a second at first, less often while nothing
//! changes; no timer runs when every slot is held.

use gannet_local::slot::{Kind, SlotName, flags, receiver};
use gannet_local::{Arena, HostId, Stream, TRANSIT};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks, at first and at last.
const OFTEN: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(8);
/// How long a stream that nobody accepted yet is kept: with something in it, and empty.
const PATIENCE: Duration = Duration::from_secs(60);
const EMPTY_PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Janitor {
    due: Option<Instant>,
    pause: Duration,
    unheld: Vec<u64>,
    before: Vec<u64>,
    /// Since when slots with an end that nobody knows are nobody's.
    since: HashMap<(u32, u32), Instant>,
    /// In the place of a descriptor that is closed.
    nothing: OwnedFd,
}

/// What a look has led to.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Slots were freed.
    pub(crate) freed: usize,
    /// The other ends of what was closed, in this process's own gateway.
    pub(crate) ends: Vec<SlotName>,
}

/// What the janitor must know of others.
pub(crate) trait Others {
    /// The memory of a program, if it is known and alive.
    fn arena(&self, host: HostId) -> Option<Arc<Arena>>;
}

impl Janitor {
    pub(crate) fn new() -> Result<Janitor, Errno> {
        Ok(Janitor {
            due: None,
            pause: OFTEN,
            unheld: Vec::new(),
            before: Vec::new(),
            since: HashMap::new(),
            nothing: eventfd(0, EventfdFlags::CLOEXEC)?,
        })
    }

    /// When to look again, if at all.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Slots may have been let go of.
    pub(crate) fn look_soon(&mut self, now: Instant) {
        self.pause = OFTEN;
        let soon = now + OFTEN;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// One look at the whole arena.
    pub(crate) fn sweep(&mut self, program: &Arena, others: &dyn Others, now: Instant) -> Swept {
        let mut swept = Swept::default();
        let on_their_way = drop_lost_messages(program);
        std::mem::swap(&mut self.unheld, &mut self.before);
        if !program.unheld(&mut self.unheld) {
            self.due = on_their_way.then(|| now + SELDOM);
            self.since.clear();
            return swept;
        }
        let twice = self.unheld.iter().zip(&self.before);
        let twice: Vec<u32> = twice
            .enumerate()
            .flat_map(|(at, (now, before))| slots_of(at, now & before))
            .collect();
        let alive = match twice.is_empty() {
            true => HashSet::new(),
            false => living_sockets(),
        };
        for n in twice {
            self.finish(program, n, (others, &alive), now, &mut swept);
        }
        let changed = swept.freed > 0 || self.unheld != self.before;
        self.pause = match changed {
            true => OFTEN,
            false => (self.pause * 2).min(SELDOM),
        };
        self.due = Some(now + self.pause);
        swept
    }

    /// A process has died that held these slots.
    pub(crate) fn bury(
        &mut self,
        program: &Arena,
        held: Vec<u32>,
        others: &dyn Others,
        now: Instant,
    ) -> Swept {
        let mut swept = Swept::default();
        self.look_soon(now);
        if held.is_empty() {
            return swept;
        }
        let alive = living_sockets();
        for n in held {
            if program.is_allocated(n) && !program.is_held(n) {
                self.finish(program, n, (others, &alive), now, &mut swept);
            }
        }
        swept
    }

    fn finish(
        &mut self,
        program: &Arena,
        n: u32,
        (others, alive): (&dyn Others, &HashSet<u64>),
        now: Instant,
        swept: &mut Swept,
    ) {
        let slot = program.own(n);
        if alive.contains(&slot.inode()) {
            return;
        }
        let is_stream = matches!(slot.kind(), Some(Kind::Stream | Kind::Datagrams));
        if is_stream {
            let resolved = slot.flags() & flags::RESOLVED != 0;
            let peer = slot.peer_name();
            let theirs = others.arena(peer.host).filter(|_| resolved);
            let stream = Stream::new(program, n, theirs.as_deref(), self.nothing.as_fd());
            if slot.receiver() & receiver::CLOSED == 0 {
                stream.close(slot.aborts());
            }
            swept.ends.push(peer);
            let needed = match theirs {
                Some(_) => !stream.is_forgotten(),
                None => self.may_be_accepted(program, n, now),
            };
            if needed {
                return;
            }
        }
        self.since.remove(&(n, slot.generation()));
        program.free(n);
        swept.freed += 1;
    }

    /// Nobody is known at the other end. It may be in a listener's queue.
    fn may_be_accepted(&mut self, program: &Arena, n: u32, now: Instant) -> bool {
        let slot = program.peer(n);
        let since = *self.since.entry((n, slot.generation())).or_insert(now);
        let patience = match slot.produced() {
            0 => EMPTY_PATIENCE,
            _ => PATIENCE,
        };
        now.duration_since(since) < patience
    }
}

/// A message with a descriptor may never be received: what is held for it is let go of once the
/// kernel has thrown the socket away. True when others are on their way.
fn drop_lost_messages(program: &Arena) -> bool {
    let sent: Vec<u32> = program.held_by(TRANSIT).collect();
    if sent.is_empty() {
        return false;
    }
    let alive = living_sockets();
    let (there, gone): (Vec<u32>, Vec<u32>) = sent
        .into_iter()
        .partition(|&n| alive.contains(&program.peer(n).inode()));
    for n in gone {
        program.let_go(TRANSIT, n);
    }
    !there.is_empty()
}

fn slots_of(word: usize, bits: u64) -> impl Iterator<Item = u32> {
    (0..64)
        .filter(move |bit| bits & (1 << bit) != 0)
        .map(move |bit| word as u32 * 64 + bit)
}

/// The inodes of all Unix sockets that anything refers to, descriptors in messages among them.
fn living_sockets() -> HashSet<u64> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let inode = |line: &str| line.split_ascii_whitespace().nth(6)?.parse().ok();
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_local::Geometry;

    struct Nobody;

    impl Others for Nobody {
        fn arena(&self, _: HostId) -> Option<Arc<Arena>> {
            None
        }
    }

    #[test]
    fn what_is_found_twice_is_freed_and_then_no_timer_runs() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let listener = arena.allocate(holder, 0).unwrap();
        arena.own(listener).set_kind(Kind::Listener);
        let held = arena.allocate(holder, 0).unwrap();
        let mut janitor = Janitor::new().unwrap();
        let mut now = Instant::now();
        assert_eq!(janitor.due(), None);
        arena.let_go(holder, listener);
        janitor.look_soon(now);
        now += OFTEN;
        assert_eq!(janitor.sweep(&arena, &Nobody, now).freed, 0);
        assert!(arena.is_allocated(listener));
        now += OFTEN;
        assert_eq!(janitor.sweep(&arena, &Nobody, now).freed, 1);
        assert!(!arena.is_allocated(listener) && arena.is_allocated(held));
        janitor.sweep(&arena, &Nobody, now);
        assert_eq!(janitor.due(), None);
    }

    #[test]
    fn a_stream_waits_in_the_queue_and_a_living_socket_is_left_alone() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let (empty, alive) = (
            arena.allocate(holder, 0).unwrap(),
            arena.allocate(holder, 0).unwrap(),
        );
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        for n in [empty, alive] {
            arena.own(n).set_kind(Kind::Stream);
        }
        let inode = gannet_local::meet::inode(&socket).unwrap();
        arena.own(alive).set_inode(inode);
        arena.leave(holder);
        let mut janitor = Janitor::new().unwrap();
        let now = Instant::now();
        let swept = janitor.bury(&arena, vec![empty, alive], &Nobody, now);
        assert_eq!(swept.freed, 0);
        assert_ne!(arena.peer(empty).receiver() & receiver::CLOSED, 0);
        assert_eq!(arena.peer(alive).receiver(), 0);
        drop(socket);
        for (seconds, freed) in [(1, 0), (2, 1), (3, 1), (4, 0)] {
            let later = now + Duration::from_secs(seconds);
            assert_eq!(
                janitor.sweep(&arena, &Nobody, later).freed,
                freed,
                "{seconds}"
            );
        }
    }
}
