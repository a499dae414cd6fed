//! Slots of streams that were closed here while the other end had not read everything: whoever
//! closed them gives them back when it can. (The carrier does it for those who are gone.)

use crate::arena::Arena;
use crate::slot::receiver;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Looked at in one call, at most.
const AT_ONCE: usize = 8;
/// Remembered, at most; the carrier finds the others.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub struct Lingering(Mutex<VecDeque<Closed>>);

#[derive(Debug)]
struct Closed {
    slot: u32,
    generation: u32,
    theirs: Arc<Arena>,
}

impl Lingering {
    /// Slot `n` of `arena` was closed; its other end lies in `theirs`.
    pub fn add(&self, arena: &Arena, n: u32, theirs: Arc<Arena>) {
        let mut all = self.lock();
        if all.len() < MOST {
            all.push_back(Closed {
                slot: n,
                generation: arena.own(n).generation(),
                theirs,
            });
        }
    }

    /// Process `holder` gives back what the other ends have no need of any more: of the oldest few.
    pub fn collect(&self, arena: &Arena, holder: usize) {
        let mut all = self.lock();
        for _ in 0..AT_ONCE.min(all.len()) {
            let Some(closed) = all.pop_front() else { break };
            match closed.is_forgotten(arena) {
                true => {
                    arena.free_use(holder, closed.slot, closed.generation);
                }
                false => all.push_back(closed),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Closed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Around a fork: nobody else is inside while this is held.
    pub fn quiesce(&self) -> impl Drop + '_ {
        Quiet(self.lock())
    }
}

struct Quiet<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, VecDeque<Closed>>);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {}
}

impl Closed {
    fn is_forgotten(&self, arena: &Arena) -> bool {
        let own = arena.own(self.slot);
        if own.generation() != self.generation {
            return true;
        }
        let name = own.peer_name();
        let peer = self.theirs.peer(name.slot);
        peer.generation() != name.generation || peer.receiver() & receiver::DONE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::SlotName;
    use crate::{Arena, Geometry};

    #[test]
    fn a_closed_slot_is_given_back_once_the_other_end_is_done() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let (_file, theirs) = Arena::create(2, Geometry::default()).unwrap();
        let theirs = Arc::new(theirs);
        let holder = arena.enter(1).unwrap();
        let slot = arena.allocate(holder, 0).unwrap();
        let other = theirs.allocate(theirs.enter(1).unwrap(), 0).unwrap();
        arena.own(slot).set_peer(SlotName {
            host: 2,
            slot: other,
            generation: theirs.own(other).generation(),
        });
        let lingering = Lingering::default();
        lingering.add(&arena, slot, theirs.clone());
        lingering.collect(&arena, holder);
        assert!(arena.is_allocated(slot));
        theirs.own(other).say_receiver(receiver::DONE);
        lingering.collect(&arena, holder);
        assert!(!arena.is_allocated(slot));
    }

    #[test]
    fn what_somebody_else_gave_back_is_not_taken_from_its_next_user() {
        let (_file, arena) = Arena::create(1, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let slot = arena.allocate(holder, 0).unwrap();
        let generation = arena.own(slot).generation();
        assert!(arena.free_use(holder, slot, generation));
        assert_eq!(arena.allocate(holder, slot), Some(slot));
        assert!(!arena.free_use(holder, slot, generation));
        assert!(arena.is_allocated(slot));
    }
}
