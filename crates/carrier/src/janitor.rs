//! Slots that nobody holds any more: what dead processes held, and what living ones let go of while
//! the other end still needed it.
//!
//! A slot is freed when no process holds it, the kernel's socket is gone too (a descriptor can be
//! on its way in a message, or be held by a process without an entry in the table), and the other
//! end needs its memory no more: says so, or its own socket is gone, with every process that could
//! read. A look is not one instant: only a use of a slot that two looks in a row find is looked at
//! closely, and with a claim on it, so that no process ends it or begins the next meanwhile.
//!
//! Looks happen while there are such slots, four times a second at first, less often while nothing
//! changes; no timer runs when every slot is held.

use gannet_local::slot::{Kind, SlotName, flags, receiver};
use gannet_local::{Arena, HostId, Stream};
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
    /// What the look before found: slots, and which use of them.
    before: HashMap<u32, u32>,
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

    /// Whether hidden descriptors of the socket in this slot are kept, which is on its way.
    fn keeps(&self, slot: u32) -> bool;
}

impl Janitor {
    pub(crate) fn new() -> Result<Janitor, Errno> {
        Ok(Janitor {
            due: None,
            pause: OFTEN,
            unheld: Vec::new(),
            before: HashMap::new(),
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
        let on_their_way = drop_lost_messages(program, others);
        if !program.unheld(&mut self.unheld) {
            // A slot that is let go of from now on is told of; one that was just before is found.
            program.say_sweeping(false);
            if program.unheld(&mut self.unheld) {
                self.look_soon(now);
                return swept;
            }
            self.due = on_their_way.then(|| now + SELDOM);
            self.since.clear();
            self.before.clear();
            return swept;
        }
        program.say_sweeping(true);
        let unheld = self.unheld.iter().enumerate();
        let unheld = unheld.flat_map(|(at, bits)| slots_of(at, *bits));
        let found: HashMap<u32, u32> = unheld.map(|n| (n, program.peer(n).generation())).collect();
        let before = std::mem::replace(&mut self.before, found);
        let twice: Vec<(u32, u32)> = before
            .iter()
            .filter(|(n, generation)| self.before.get(n) == Some(generation))
            .map(|(n, generation)| (*n, *generation))
            .collect();
        if let Some(alive) = (!twice.is_empty()).then(living_sockets).flatten() {
            for (n, generation) in twice {
                self.finish(program, (n, generation), (others, &alive), now, &mut swept);
            }
        }
        let changed = swept.freed > 0 || self.before != before;
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
        // First: what is begun later has a socket that is not among those which live now.
        let uses: Vec<(u32, u32)> = held
            .into_iter()
            .map(|n| (n, program.peer(n).generation()))
            .collect();
        let Some(alive) = living_sockets() else {
            return swept;
        };
        for found in uses {
            self.finish(program, found, (others, &alive), now, &mut swept);
        }
        swept
    }

    /// Ends use `generation` of slot `n`, unless a process holds it or its other end needs it.
    fn finish(
        &mut self,
        program: &Arena,
        (n, generation): (u32, u32),
        (others, alive): (&dyn Others, &HashSet<u64>),
        now: Instant,
        swept: &mut Swept,
    ) {
        let Some(claim) = program.claim_to_end(n, generation) else {
            return;
        };
        let slot = program.own(n);
        if program.is_held(n) || alive.contains(&slot.backing()) {
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
            let reads = alive.contains(&slot.peer_inode());
            let needed = match theirs {
                Some(_) => reads && !stream.is_forgotten(),
                None if resolved => reads,
                None => self.may_be_accepted(program, n, now),
            };
            if needed {
                return;
            }
        }
        self.since.remove(&(n, generation));
        program.end(&claim, generation);
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

/// A message with a descriptor may never be received, and a process without an entry lets go of
/// nothing: what is held for both is let go of once the kernel has thrown the socket away, or, of a
/// socket whose hidden descriptors are kept, when they are kept no more. True when others are left.
fn drop_lost_messages(program: &Arena, others: &dyn Others) -> bool {
    let sent: Vec<u32> = program.held_in_transit().collect();
    if sent.is_empty() {
        return false;
    }
    let Some(alive) = living_sockets() else {
        return true;
    };
    let (there, gone): (Vec<u32>, Vec<u32>) = sent
        .into_iter()
        .partition(|&n| others.keeps(n) || alive.contains(&program.peer(n).backing()));
    for n in gone {
        program.drop_transit(n);
    }
    !there.is_empty()
}

fn slots_of(word: usize, bits: u64) -> impl Iterator<Item = u32> {
    (0..64)
        .filter(move |bit| bits & (1 << bit) != 0)
        .map(move |bit| word as u32 * 64 + bit)
}

/// The inodes of all Unix sockets that anything refers to, descriptors in messages among them.
/// `None` when that cannot be told: then each may live. Names in the table are bytes of any kind.
fn living_sockets() -> Option<HashSet<u64>> {
    let table = std::fs::read("/proc/self/net/unix").ok()?;
    let inode = |line: &[u8]| {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        std::str::from_utf8(words.nth(6)?).ok()?.parse().ok()
    };
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    // One that waits to be accepted has no number yet: nor has the socket of a slot that was never
    // opened.
    Some(
        lines
            .filter_map(inode)
            .filter(|inode| *inode != 0)
            .collect(),
    )
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

        fn keeps(&self, _: u32) -> bool {
            false
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
        assert!(!arena.must_ask_for_sweep(), "it looks");
        janitor.sweep(&arena, &Nobody, now);
        assert_eq!(janitor.due(), None);
        arena.let_go(holder, held);
        assert!(
            arena.must_ask_for_sweep() && !arena.must_ask_for_sweep(),
            "once"
        );
    }

    /// Those that no process has accepted yet have none: 0 is no socket's.
    #[test]
    fn a_socket_without_a_number_keeps_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&name).unwrap();
        let _waits = std::os::unix::net::UnixStream::connect(&name).unwrap();
        let table = std::fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
        let mut numbers = table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(6));
        assert!(numbers.any(|number| number == "0"), "{table}");
        assert!(!living_sockets().unwrap().contains(&0));
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

    struct Known(Arc<Arena>);

    impl Others for Known {
        fn arena(&self, host: HostId) -> Option<Arc<Arena>> {
            (host == self.0.host()).then(|| self.0.clone())
        }

        fn keeps(&self, _: u32) -> bool {
            false
        }
    }

    /// A client that was killed, and with it the carrier that would have said so.
    #[test]
    fn what_the_other_end_reads_is_kept_until_its_socket_is_gone() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let (_file, theirs) = Arena::create(2, Geometry::default()).unwrap();
        let peer = theirs.allocate(theirs.enter(2).unwrap(), 0).unwrap();
        let (socket, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let others = Known(Arc::new(theirs));
        let holder = arena.enter(1).unwrap();
        let slot = arena.allocate(holder, 0).unwrap();
        let own = arena.own(slot);
        own.set_kind(Kind::Stream);
        own.set_inode(gannet_local::meet::inode(&socket).unwrap());
        own.set_peer(others.0.peer(peer).name());
        own.set_peer_inode(gannet_local::meet::inode(&other).unwrap());
        drop(socket);
        arena.leave(holder);
        let mut janitor = Janitor::new().unwrap();
        let mut now = Instant::now();
        for _ in 0..4 {
            now += PATIENCE;
            assert_eq!(janitor.sweep(&arena, &others, now).freed, 0);
        }
        drop(other);
        assert_eq!(janitor.sweep(&arena, &others, now).freed, 1);
        assert!(!arena.is_allocated(slot));
    }

    #[test]
    fn what_a_process_without_an_entry_has_is_kept_while_the_kernel_has_it() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let slot = arena.allocate(gannet_local::UNKNOWN, 0).unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        arena.own(slot).set_kind(Kind::Listener);
        // The program's descriptor is the kernel's listener; a Unix one stands behind it.
        let inode = gannet_local::meet::inode(&socket).unwrap();
        arena.own(slot).set_inode(1);
        arena.own(slot).set_backing(inode);
        let mut janitor = Janitor::new().unwrap();
        let mut now = Instant::now();
        for _ in 0..3 {
            now += OFTEN;
            assert_eq!(janitor.sweep(&arena, &Nobody, now).freed, 0);
        }
        assert!(arena.is_held(slot) && janitor.due().is_some());
        drop(socket);
        for _ in 0..2 {
            janitor.sweep(&arena, &Nobody, now);
        }
        assert!(!arena.is_allocated(slot));
        assert_eq!(janitor.due(), Some(now + OFTEN));
    }
}
