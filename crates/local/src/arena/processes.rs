//! The table of a program's processes: which entries are taken, and by which process.
//!
//! One word says to which process an entry belongs. Its upper half counts how often the entry was
//! taken, so that a process, parent or carrier that is late changes nothing: every change is a
//! compare-and-swap of the whole word. Its lower half is a process number, or says that the entry
//! is free, waits for a child that its maker is about to fork, or is being cleared.
//!
//! A number means something in one PID namespace only. The entry says in which; the carrier learns
//! from the kernel which process entered itself, and trusts numbers only of its own namespace.

use super::Arena;
use crate::layout::{PROCESSES, SLEEPERS, header, process, sleeper};
use rustix::fs::{AtFlags, CWD};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The entry that holds descriptors on their way from one process to another in a message.
pub const TRANSIT: usize = 0;
/// The entry that holds what processes without an entry of their own have: the table was full when
/// they began. No process lets go of it; the carrier does when the kernel's socket is gone.
pub const UNKNOWN: usize = 1;
/// The first entry that a process can have.
const FIRST: usize = 2;

/// Set in the lower half for a process that does not exist yet; the rest of it is its maker's
/// entry.
const UNBORN: u32 = 1 << 31;
/// The lower half while everything the entry held is let go of.
const LEAVING: u32 = 1 << 30;

/// Bits of the number of an entry.
const ENTRY_BITS: u32 = PROCESSES.trailing_zeros();

/// What an entry says at one moment: which entry, and the whole word. Of two uses of one entry no
/// two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// The entry.
    pub entry: usize,
    word: u64,
}

impl Made {
    fn what(self) -> u32 {
        self.word as u32
    }

    fn with(self, what: u32) -> Made {
        let word = self.word & !u64::from(u32::MAX) | u64::from(what);
        Made { word, ..self }
    }

    fn next(self, what: u32) -> Made {
        let serial = (self.word >> 32) as u32;
        let word = u64::from(serial.wrapping_add(1)) << 32 | u64::from(what);
        Made { word, ..self }
    }

    /// The process, in its own PID namespace; 0 when there is none, or none yet.
    pub fn pid(self) -> u32 {
        match self.what() {
            pid if pid & (UNBORN | LEAVING) == 0 => pid,
            _ => 0,
        }
    }

    /// The entry of the process that is about to fork this one.
    pub fn maker(self) -> Option<usize> {
        let unborn = self.what() & UNBORN != 0;
        unborn.then_some((self.what() & !UNBORN) as usize)
    }

    /// Whether a process was about to give it back, and may have been killed meanwhile.
    pub fn is_leaving(self) -> bool {
        self.what() == LEAVING
    }

    /// Whether it is free.
    pub fn is_free(self) -> bool {
        self.what() == 0
    }

    /// For a message: which use of which entry. The process may have been named since.
    pub fn pack(self) -> u64 {
        self.word & !u64::from(u32::MAX) | self.entry as u64
    }
}

impl Made {
    /// For the word of a lock: the entry, and how often it was taken as far as there is room.
    fn seat(self) -> u32 {
        (self.word >> 32 << ENTRY_BITS) as u32 | self.entry as u32
    }
}

impl fmt::Display for Made {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.entry, self.word)
    }
}

impl FromStr for Made {
    type Err = ();

    fn from_str(text: &str) -> Result<Made, ()> {
        let (entry, word) = text.split_once('.').ok_or(())?;
        let in_table = |entry: &usize| (FIRST..PROCESSES).contains(entry);
        let entry = entry.parse().ok().filter(in_table).ok_or(())?;
        let word = word.parse().map_err(|_| ())?;
        let made = Made { entry, word };
        made.maker().map(|_| made).ok_or(())
    }
}

impl Arena {
    fn owner(&self, n: usize) -> &AtomicU64 {
        self.memory.long(self.geometry.process(n) + process::OWNER)
    }

    fn change(&self, from: Made, to: Made) -> bool {
        let entry = self.owner(from.entry);
        let changed = entry.compare_exchange(from.word, to.word, AcqRel, Relaxed);
        if changed.is_ok() {
            self.memory.word(header::ENTERED).fetch_add(1, AcqRel);
        }
        changed.is_ok()
    }

    /// The two entries that stand for no process hold from the beginning.
    pub(super) fn open_table(&self) {
        self.memory
            .word(header::ENTRIES)
            .store(FIRST as u32, Relaxed);
        for n in [TRANSIT, UNKNOWN] {
            self.owner(n).store(1 << 32 | u64::from(LEAVING), Relaxed);
        }
    }

    fn take(&self, what: u32) -> Option<Made> {
        (FIRST..PROCESSES).find_map(|n| {
            let seen = self.look_at(n);
            if !seen.is_free() {
                return None;
            }
            // Looked at from now on, before it can hold anything.
            let entries = self.memory.word(header::ENTRIES);
            if entries.load(Relaxed) <= n as u32 {
                entries.fetch_max(n as u32 + 1, SeqCst);
            }
            let taken = seen.next(what);
            self.change(seen, taken).then_some(taken)
        })
    }

    /// Enters process `pid`, this one. `None` when there are too many.
    pub fn enter(&self, pid: u32) -> Option<usize> {
        let made = self.take(pid)?;
        self.set_namespace(made.entry);
        self.seat.store(made.seat(), Relaxed);
        Some(made.entry)
    }

    /// Which use of which entry this process has; 0 when it has none.
    pub(crate) fn seat(&self) -> u32 {
        self.seat.load(Relaxed)
    }

    /// To be called first in the child of a fork: the entry is its parent's.
    pub fn after_fork(&self) {
        self.seat.store(0, Relaxed);
    }

    /// Of a use of an entry that goes on, the PID namespace of its process; 0 when not said.
    pub(crate) fn seated(&self, seat: u32) -> Option<u64> {
        let entry = seat as usize % PROCESSES;
        let made = self.look_at(entry);
        let namespace = self.namespace_of(entry);
        let goes_on = made.seat() == seat && !made.is_free() && !made.is_leaving();
        goes_on.then_some(namespace)
    }

    /// Enters a process that does not exist yet, made by the process of entry `maker`. `None` when
    /// there are too many.
    pub fn enter_unborn(&self, maker: usize) -> Option<Made> {
        let made = self.take(UNBORN | (maker % PROCESSES) as u32)?;
        self.set_namespace(made.entry);
        Some(made)
    }

    /// The child takes the entry that its maker entered it under. False when that was given back
    /// meanwhile: its maker was killed, and this process ran late.
    pub fn become_process(&self, made: Made, pid: u32) -> bool {
        let seen = self.look_at(made.entry);
        if seen.pack() != made.pack() || seen.is_leaving() || seen.is_free() {
            return false;
        }
        // First: until the number fits it, the carrier does not look for the process by number.
        self.set_namespace(made.entry);
        let named = made.with(pid);
        // Its parent may have been faster, with the number that the child has for the parent.
        let by_parent = self.look_at(made.entry);
        let is_named = self.change(made, named)
            || by_parent == named
            || by_parent.pack() == made.pack()
                && by_parent.pid() != 0
                && self.change(by_parent, named);
        if is_named {
            self.seat.store(made.seat(), Relaxed);
        }
        is_named
    }

    /// The parent names its child, which may have taken the entry already.
    pub fn name_born(&self, made: Made, pid: u32) {
        self.change(made, made.with(pid));
    }

    /// What entry `n` says now.
    pub fn look_at(&self, n: usize) -> Made {
        let word = self.owner(n).load(Acquire);
        let entry = n % PROCESSES;
        Made { entry, word }
    }

    /// The process of entry `n`, 0 when there is none, or none yet.
    pub fn pid_of(&self, n: usize) -> u32 {
        self.look_at(n).pid()
    }

    /// Whether the entry still waits for its process.
    pub fn is_unborn(&self, made: Made) -> bool {
        self.look_at(made.entry) == made
    }

    /// How often entries changed hands: tells when to look at the table again.
    pub fn entered(&self) -> u32 {
        self.memory.word(header::ENTERED).load(Acquire)
    }

    /// The entries that processes have, or had before.
    pub fn entries(&self) -> impl Iterator<Item = Made> + '_ {
        self.all_entries()
            .skip(FIRST)
            .map(|n| self.look_at(n))
            .filter(|made| !made.is_free())
    }

    /// The entries that were ever used, those that stand for no process among them.
    pub(super) fn all_entries(&self) -> std::ops::Range<usize> {
        let used = self.memory.word(header::ENTRIES).load(Acquire) as usize;
        0..used.min(PROCESSES)
    }

    pub(super) fn is_taken(&self, n: usize) -> bool {
        !self.look_at(n).is_free()
    }

    /// Everything process `holder` held is let go of, and its entry is free.
    pub fn leave(&self, holder: usize) {
        self.leave_as(self.look_at(holder));
    }

    /// The same, unless the entry is another's by now. Of several only one does it.
    pub fn leave_as(&self, made: Made) -> bool {
        let leaving = made.with(LEAVING);
        let ours = made.entry >= FIRST && !made.is_free();
        // An entry whose leaver was killed is taken up again under another number.
        let leaving = if made.is_leaving() {
            leaving.next(LEAVING)
        } else {
            leaving
        };
        if !ours || !self.change(made, leaving) {
            return false;
        }
        self.let_go_of_all(made.entry);
        for n in 0..self.memory.word(header::SLEEPERS).load(Acquire) {
            let owner = self.geometry.sleeper(n as usize) + sleeper::OWNER;
            let owner = self.memory.word(owner);
            if owner.load(Relaxed) == made.entry as u32 + 1 {
                let _ = owner.compare_exchange(made.entry as u32 + 1, 0, AcqRel, Relaxed);
            }
        }
        self.namespace(made.entry).store(0, Relaxed);
        self.change(leaving, leaving.with(0))
    }

    fn namespace(&self, n: usize) -> &AtomicU64 {
        self.memory
            .long(self.geometry.process(n) + process::NAMESPACE)
    }

    fn set_namespace(&self, n: usize) {
        self.namespace(n).store(pid_namespace(), Release);
    }

    /// The PID namespace in which the number of entry `n` means something; 0 while that was not
    /// said.
    pub fn namespace_of(&self, n: usize) -> u64 {
        self.namespace(n).load(Acquire)
    }
}

/// The PID namespace of this process, by its inode; 0 where that cannot be told.
pub fn pid_namespace() -> u64 {
    let stat = rustix::fs::statat(CWD, c"/proc/self/ns/pid", AtFlags::empty());
    stat.map_or(0, |stat| stat.st_ino)
}

const _: () = assert!(PROCESSES < LEAVING as usize && SLEEPERS < u32::MAX as usize);
