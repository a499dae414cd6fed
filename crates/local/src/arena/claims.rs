//! Taking a slot and giving it back. Both are several stores, and a process can be stopped or
//! killed between any two: meanwhile the slot is *claimed*, and no other begins or ends its use.
//!
//! The claim is a word of the slot. It says which use of which process entry has it, so that the
//! claim of a process that has ended counts for nothing. A process without an entry of its own that
//! is killed in between leaves its slot claimed: never one of a living socket.

use super::{Arena, Made};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The carrier's claim.
const CARRIER: u64 = u64::MAX;

/// A slot that is claimed, until this is dropped.
#[derive(Debug)]
pub struct Claim<'a> {
    arena: &'a Arena,
    n: u32,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.arena.own(self.n).claim().store(0, Release);
    }
}

impl Arena {
    fn claim(&self, n: u32, claimant: u64) -> Option<Claim<'_>> {
        let own = self.own(n);
        let word = own.claim();
        let mut seen = 0;
        loop {
            match word.compare_exchange(seen, claimant, AcqRel, Acquire) {
                Ok(_) => return Some(Claim { arena: self, n }),
                Err(now) if now == seen || self.is_alive(now) => return None,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether a claimant may still go on.
    fn is_alive(&self, claimant: u64) -> bool {
        let made = self.look_at(claimant as u32 as usize);
        claimant == CARRIER || claimant != 0 && made.pack() == claimant && !made.is_free()
    }

    fn claimant(&self, holder: usize) -> u64 {
        Made::pack(self.look_at(holder))
    }

    /// The carrier claims slot `n`, to end use `generation` of it: as long as the claim stands, no
    /// process can. `None` when a process is at it, or that use has ended.
    pub fn claim_to_end(&self, n: u32, generation: u32) -> Option<Claim<'_>> {
        let claim = self.claim(n, CARRIER)?;
        (self.own(n).generation() == generation && self.is_allocated(n)).then_some(claim)
    }

    /// Takes a free slot and holds it for process `holder`. `None` when all are taken.
    pub fn allocate(&self, holder: usize, hint: u32) -> Option<u32> {
        let words = self.geometry.bitmap_words();
        let first = hint as usize / 64;
        let claimant = self.claimant(holder);
        (0..words).find_map(|step| self.allocate_of(holder, (first + step) % words, claimant))
    }

    /// Of the 64 slots from `64 at` on.
    fn allocate_of(&self, holder: usize, at: usize, claimant: u64) -> Option<u32> {
        let word = self.memory.long(self.geometry.allocated() + at * 8);
        let mut left = !word.load(Relaxed);
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            let n = (at * 64) as u32 + bit;
            let Some(claim) = self.claim(n, claimant) else {
                continue;
            };
            if word.fetch_or(1 << bit, AcqRel) & 1 << bit != 0 {
                continue;
            }
            self.hold(holder, n);
            self.forget_holders(n, Some(holder));
            self.own(n).begin();
            drop(claim);
            return Some(n);
        }
        None
    }

    /// Process `holder` gives slot `n` back, whatever it is used for now.
    pub fn free(&self, holder: usize, n: u32) {
        self.free_use(holder, n, self.own(n).generation());
    }

    /// Process `holder` gives slot `n` back if it still is in use `generation`. Several may try:
    /// the process that closed it, its children, the carrier. True for the one that did it.
    pub fn free_use(&self, holder: usize, n: u32, generation: u32) -> bool {
        let claim = self.claim(n, self.claimant(holder));
        claim.is_some_and(|claim| self.end(&claim, generation))
    }

    /// Gives back the slot of `claim` if it still is in use `generation`.
    pub fn end(&self, claim: &Claim<'_>, generation: u32) -> bool {
        let n = claim.n;
        let first = self.own(n).end(generation);
        if first {
            self.forget_holders(n, None);
            self.own(n).holders().store(0, SeqCst);
            let (word, bit) = self.bit(self.geometry.allocated(), n);
            self.memory.long(word).fetch_and(!bit, AcqRel);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use crate::pair::SMALL;
    use crate::{Arena, UNKNOWN};

    #[test]
    fn who_is_stopped_while_taking_a_slot_loses_it_to_no_other() {
        let (_file, arena) = Arena::create(1, SMALL).unwrap();
        let (one, two) = (arena.enter(1).unwrap(), arena.enter(2).unwrap());
        // Stopped between the claim and the bit: of the first slot.
        std::mem::forget(arena.claim(0, arena.claimant(one)).unwrap());
        assert_eq!(arena.allocate(two, 0), Some(1));
        // Stopped between the bit and the end of its use: of the second.
        let generation = arena.own(1).generation();
        std::mem::forget(arena.claim(1, arena.claimant(one)).unwrap());
        assert!(arena.claim_to_end(1, generation).is_none());
        assert!(!arena.free_use(two, 1, generation));
        // Killed: both are for others to take up.
        arena.leave(one);
        assert!(arena.claim_to_end(1, generation).is_some());
        assert_eq!(arena.allocate(two, 0), Some(0));
    }

    #[test]
    fn the_claim_of_an_entry_is_not_that_of_its_next_process() {
        let (_file, arena) = Arena::create(1, SMALL).unwrap();
        let killed = arena.enter(1).unwrap();
        std::mem::forget(arena.claim(0, arena.claimant(killed)).unwrap());
        arena.leave(killed);
        let next = arena.enter(2).unwrap();
        assert_eq!(next, killed);
        assert_eq!(arena.allocate(next, 0), Some(0));
        assert!(arena.claim(0, arena.claimant(UNKNOWN)).is_some());
    }

    #[test]
    fn the_carrier_ends_the_use_that_it_found_and_no_later_one() {
        let (_file, arena) = Arena::create(1, SMALL).unwrap();
        let holder = arena.enter(1).unwrap();
        let slot = arena.allocate(holder, 0).unwrap();
        let found = arena.own(slot).generation();
        arena.free(holder, slot);
        assert_eq!(arena.allocate(holder, slot), Some(slot));
        assert!(arena.claim_to_end(slot, found).is_none());
        let now = arena.own(slot).generation();
        let claim = arena.claim_to_end(slot, now).unwrap();
        assert!(!arena.free_use(holder, slot, now), "the carrier is at it");
        assert!(arena.end(&claim, now) && !arena.is_allocated(slot));
        assert_ne!(arena.allocate(holder, slot), Some(slot));
        drop(claim);
        assert_eq!(arena.allocate(holder, slot), Some(slot));
    }

    #[test]
    fn threads_that_take_and_give_back_never_have_the_same_slot() {
        let (_file, arena) = Arena::create(1, SMALL).unwrap();
        let used: [std::sync::atomic::AtomicBool; 64] = std::array::from_fn(|_| false.into());
        std::thread::scope(|scope| {
            for pid in 1..4 {
                let (arena, used) = (&arena, &used);
                scope.spawn(move || {
                    let holder = arena.enter(pid).unwrap();
                    for _ in 0..3_000 {
                        let n = arena.allocate(holder, 0).unwrap();
                        let order = std::sync::atomic::Ordering::SeqCst;
                        assert!(!used[n as usize].swap(true, order));
                        used[n as usize].store(false, order);
                        arena.let_go(holder, n);
                        arena.free(holder, n);
                    }
                });
            }
            // As the carrier does: what it finds unheld at one look it must not end at the next.
            for _ in 0..3_000 {
                let mut words = Vec::new();
                arena.unheld(&mut words);
                for n in (0..64).filter(|n| words[0] & 1 << n != 0) {
                    let generation = arena.own(n).generation();
                    let claim = arena.claim_to_end(n, generation);
                    if let Some(claim) = claim.filter(|_| !arena.is_held(n)) {
                        assert!(arena.end(&claim, generation));
                    }
                }
            }
        });
        assert_eq!(arena.allocated().count(), 0);
    }
}
