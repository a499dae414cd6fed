//! Which processes hold which slots: a bitmap for each process, and for each slot the groups of 64
//! entries in which to look. A group is noted before the bit, so that a bit stands in no other.

use super::{Arena, TRANSIT, UNKNOWN};
use crate::layout::header;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

/// Entries of one group.
const GROUP: usize = crate::layout::PROCESSES / 64;

fn group(holder: usize) -> u64 {
    1 << (holder / GROUP % 64)
}

impl Arena {
    fn bit_of(&self, holder: usize, n: u32) -> (&std::sync::atomic::AtomicU64, u64) {
        let (word, bit) = self.bit(self.geometry.held_by(holder), n);
        (self.memory.long(word), bit)
    }

    /// Notes that process `holder` has a descriptor of slot `n`.
    pub fn hold(&self, holder: usize, n: u32) {
        let groups = self.own(n).holders();
        if groups.load(Relaxed) & group(holder) == 0 {
            groups.fetch_or(group(holder), SeqCst);
        }
        let (word, bit) = self.bit_of(holder, n);
        word.fetch_or(bit, SeqCst);
    }

    /// The entries among which those lie that hold slot `n`.
    fn candidates(&self, n: u32) -> impl Iterator<Item = usize> + '_ {
        let groups = self.own(n).holders().load(SeqCst);
        let all = self.all_entries();
        let first = (0..64).filter(move |at| groups & (1 << at) != 0);
        first
            .flat_map(|at| at * GROUP..(at + 1) * GROUP)
            .take_while(move |entry| *entry < all.end)
    }

    /// A slot that is free is held by no process, whatever the one that freed it left behind.
    pub(super) fn forget_holders(&self, n: u32, but: Option<usize>) {
        for holder in self.candidates(n).filter(|&holder| Some(holder) != but) {
            let (word, bit) = self.bit_of(holder, n);
            if word.load(Relaxed) & bit != 0 {
                word.fetch_and(!bit, AcqRel);
            }
        }
    }

    /// Process `holder` has closed its last descriptor of slot `n`. False when others hold it: it
    /// is let go of. True when no other does: the slot is this process's to end, alone, and to
    /// [`Arena::free`] or [`Arena::let_go`] of. A process without an entry is never the last, since
    /// it cannot tell.
    pub fn is_last(&self, holder: usize, n: u32) -> bool {
        if holder == UNKNOWN {
            return false;
        }
        // Two that go at once would each find that the other is gone. The lock cannot be this
        // thread's: an interrupted call keeps the descriptor in use.
        let held = self.own(n).hold_write();
        let others = self.has_other_holder(holder, n);
        if others {
            self.let_go(holder, n);
        }
        drop(held);
        !others
    }

    /// Whether another process than `holder` holds slot `n`.
    pub fn has_other_holder(&self, holder: usize, n: u32) -> bool {
        self.candidates(n)
            .any(|other| other != holder && self.holds(other, n))
    }

    pub(crate) fn holds(&self, holder: usize, n: u32) -> bool {
        let (word, bit) = self.bit_of(holder, n);
        word.load(SeqCst) & bit != 0 && self.is_taken(holder)
    }

    /// Process `holder` does not hold slot `n`. True when no process does. A process without an
    /// entry cannot say so of others: what such ones have is the carrier's to let go of.
    pub fn let_go(&self, holder: usize, n: u32) -> bool {
        if holder != UNKNOWN {
            let (word, bit) = self.bit_of(holder, n);
            word.fetch_and(!bit, SeqCst);
        }
        !self.is_held(n)
    }

    /// Whether a process holds slot `n`.
    pub fn is_held(&self, n: u32) -> bool {
        self.candidates(n).any(|holder| self.holds(holder, n))
    }

    /// Whether a process that has an entry holds slot `n`, not only one for which it is on its way.
    pub fn has_holder(&self, n: u32) -> bool {
        self.candidates(n)
            .any(|holder| ![TRANSIT, UNKNOWN].contains(&holder) && self.holds(holder, n))
    }

    /// The slots that are held for no process in particular.
    pub fn held_in_transit(&self) -> impl Iterator<Item = u32> + '_ {
        let both = [TRANSIT, UNKNOWN];
        both.into_iter().flat_map(|entry| self.held_by(entry))
    }

    /// The kernel has thrown the socket of slot `n` away: it is on its way nowhere.
    pub fn drop_transit(&self, n: u32) {
        for entry in [TRANSIT, UNKNOWN] {
            let (word, bit) = self.bit_of(entry, n);
            word.fetch_and(!bit, SeqCst);
        }
    }

    /// The slots that are taken and that no process holds, a bitmap: word `n` has slots `64 n` and
    /// following. A look at all of them is not one instant: a use is looked at closely, with a
    /// claim, before it is ended. True when there is any.
    pub fn unheld(&self, into: &mut Vec<u64>) -> bool {
        into.clear();
        let holders = self.all_entries().filter(|&n| self.is_taken(n));
        let bitmaps: Vec<usize> = holders.map(|n| self.geometry.held_by(n)).collect();
        let mut any = 0;
        for at in 0..self.geometry.bitmap_words() {
            let taken = self.memory.long(self.geometry.allocated() + at * 8);
            let mut left = taken.load(Acquire);
            for bitmap in &bitmaps {
                if left == 0 {
                    break;
                }
                left &= !self.memory.long(bitmap + at * 8).load(Acquire);
            }
            into.push(left);
            any |= left;
        }
        any != 0
    }

    /// A slot was let go of that cannot be free yet. True when the carrier has to be told, since it
    /// does not look for such slots at present.
    pub fn must_ask_for_sweep(&self) -> bool {
        let sweeping = self.memory.word(header::SWEEPING);
        fence(SeqCst);
        sweeping.load(SeqCst) == 0 && sweeping.swap(1, SeqCst) == 0
    }

    /// The carrier says whether it looks for slots that no process holds. One that stops has to
    /// look once more afterwards.
    pub fn say_sweeping(&self, on: bool) {
        self.memory.word(header::SWEEPING).store(on.into(), SeqCst);
        fence(SeqCst);
    }

    /// The slots which process `holder` holds.
    pub fn held_by(&self, holder: usize) -> impl Iterator<Item = u32> + '_ {
        let held = self.set_bits(self.geometry.held_by(holder));
        held.filter(|n| self.is_allocated(*n))
    }

    pub(super) fn let_go_of_all(&self, holder: usize) {
        for at in 0..self.geometry.bitmap_words() {
            let word = self.memory.long(self.geometry.held_by(holder) + at * 8);
            if word.load(Relaxed) != 0 {
                word.store(0, Release);
            }
        }
    }
}
