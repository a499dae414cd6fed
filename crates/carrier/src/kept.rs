//! Hidden descriptors of sockets that travel in messages.
//!
//! A listener of a program is a descriptor that the program knows and some it does not. The kernel
//! takes the first along in a message (`SCM_RIGHTS`); the others are left here by the sender and
//! fetched by each process that receives the first. They are kept as long as the socket's slot is
//! in use: a listener goes from one process to the next without a moment at which none has it.

use gannet_local::Arena;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Descriptors of one socket, at most: as many as a process hides.
const OF_ONE: usize = 6;
/// Sockets, at most. Of further ones only the kernel's side travels.
const MOST: usize = 1024;
/// How long a message may be on its way when no process has the socket any more.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    sockets: BTreeMap<u32, Socket>,
}

#[derive(Debug)]
struct Socket {
    generation: u32,
    since: Instant,
    hidden: Vec<OwnedFd>,
}

impl Kept {
    /// Keeps one more descriptor of the socket in `slot`. False when there is no room.
    pub(crate) fn keep(
        &mut self,
        program: &Arena,
        slot: u32,
        hidden: OwnedFd,
        now: Instant,
    ) -> bool {
        self.prune(program, now);
        if !program.is_held(slot) || self.sockets.len() >= MOST {
            return false;
        }
        let generation = program.peer(slot).generation();
        let socket = self.sockets.entry(slot).or_insert_with(|| Socket {
            generation,
            since: now,
            hidden: Vec::new(),
        });
        socket.since = now;
        let room = socket.hidden.len() < OF_ONE;
        if room {
            socket.hidden.push(hidden);
        }
        room
    }

    /// The descriptor of the socket in `slot` with this place.
    pub(crate) fn get(&self, program: &Arena, slot: u32, place: u32) -> Option<&OwnedFd> {
        let socket = self.sockets.get(&slot)?;
        let same = socket.generation == program.peer(slot).generation();
        socket.hidden.get(place as usize).filter(|_| same)
    }

    /// Closes what belongs to sockets that no process has any more.
    pub(crate) fn prune(&mut self, program: &Arena, now: Instant) {
        self.sockets.retain(|&slot, socket| {
            let on_its_way = now.duration_since(socket.since) < ON_ITS_WAY;
            let same = socket.generation == program.peer(slot).generation();
            same && program.is_held(slot) && (on_its_way || program.has_holder(slot))
        });
    }

    /// Whether a message with the socket in `slot` may be on its way.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.sockets.contains_key(&slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_local::{Geometry, TRANSIT};

    fn file() -> OwnedFd {
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn what_is_kept_goes_with_the_last_holder_of_the_socket() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let (holder, now) = (arena.enter(1).unwrap(), Instant::now());
        let slot = arena.allocate(holder, 0).unwrap();
        let mut kept = Kept::default();
        assert!(kept.keep(&arena, slot, file(), now));
        assert!(kept.get(&arena, slot, 0).is_some());
        assert!(kept.get(&arena, slot, 1).is_none());
        kept.prune(&arena, now + ON_ITS_WAY * 2);
        assert!(kept.has(slot));
        arena.let_go(holder, slot);
        kept.prune(&arena, now);
        assert!(!kept.has(slot));
    }

    #[test]
    fn a_message_that_is_never_received_is_waited_for_a_bounded_time() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let (holder, now) = (arena.enter(1).unwrap(), Instant::now());
        let slot = arena.allocate(holder, 0).unwrap();
        arena.hold(TRANSIT, slot);
        let mut kept = Kept::default();
        assert!(kept.keep(&arena, slot, file(), now));
        arena.let_go(holder, slot);
        kept.prune(&arena, now + ON_ITS_WAY / 2);
        assert!(kept.has(slot));
        kept.prune(&arena, now + ON_ITS_WAY * 2);
        assert!(!kept.has(slot));
    }

    #[test]
    fn the_next_use_of_a_slot_is_another_socket() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let (holder, now) = (arena.enter(1).unwrap(), Instant::now());
        let slot = arena.allocate(holder, 0).unwrap();
        let mut kept = Kept::default();
        assert!(kept.keep(&arena, slot, file(), now));
        arena.free(holder, slot);
        assert_eq!(arena.allocate(holder, slot), Some(slot));
        assert!(kept.get(&arena, slot, 0).is_none());
    }

    #[test]
    fn a_socket_has_no_more_than_a_process_can_hide() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let (holder, now) = (arena.enter(1).unwrap(), Instant::now());
        let slot = arena.allocate(holder, 0).unwrap();
        let mut kept = Kept::default();
        let taken = (0..10).filter(|_| kept.keep(&arena, slot, file(), now));
        assert_eq!(taken.count(), OF_ONE);
    }
}
