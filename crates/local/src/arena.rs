//! An arena: what the processes of one program know in common of their sockets.
//!
//! The carrier makes it; the program's processes map it for writing, processes of other programs
//! read-only. Nothing in it is believed: indices are reduced to the arena's size, positions are
//! compared before use, so that a process that writes nonsense hurts its own streams alone.
//!
//! No lock guards an arena as a whole. A slot belongs to whoever has set its bit among the
//! allocated ones; which processes hold it stands in a bitmap for each process, so that the
//! carrier can tell, after a process died at any instruction, what nobody holds any more.

use crate::bell::Gathering;
use crate::layout::{Geometry, MAGIC, PROCESSES, SLEEPERS, header, process, sleeper, slot};
use crate::lock;
use crate::memory::{self, Mapping};
use crate::slot::{OwnSlot, PeerSlot};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The entry among the processes that holds descriptors on their way from one to another. It has
/// the carrier's number.
pub const TRANSIT: usize = 0;

/// Set in the number of a process that does not exist yet: its parent entered it before the fork.
const PENDING: u32 = 1 << 31;

/// An entry for a process that does not exist yet, under a number that no other one has: whoever
/// is late with it finds out that the entry is another's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The entry.
    pub entry: usize,
    number: u32,
}

impl fmt::Display for Made {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.entry, self.number)
    }
}

impl FromStr for Made {
    type Err = ();

    fn from_str(text: &str) -> Result<Made, ()> {
        let (entry, number) = text.split_once('.').ok_or(())?;
        let entry = entry.parse().ok().filter(|entry| *entry < PROCESSES);
        let number = number.parse().ok().filter(|number| number & PENDING != 0);
        entry
            .zip(number)
            .map(|(entry, number)| Made { entry, number })
            .ok_or(())
    }
}

/// The number of a program in its network: random, never 0.
pub type HostId = u64;

/// An arena as this process sees it.
#[derive(Debug)]
pub struct Arena {
    pub(crate) memory: Mapping,
    pub(crate) geometry: Geometry,
    host: HostId,
    pub(crate) gathering: Gathering,
}

impl Arena {
    /// Makes the memory of a new arena, and maps it.
    ///
    /// # Errors
    /// What `memfd_create`, `ftruncate` and `mmap` say.
    pub fn create(host: HostId, geometry: Geometry) -> Result<(OwnedFd, Arena), Errno> {
        Self::make(host, geometry, false)
    }

    /// As [`Arena::create`], for a program of one process: nobody else can map it for writing, so
    /// that [`crate::Stream::fill_with`] works.
    ///
    /// # Errors
    /// As there.
    pub fn create_alone(host: HostId, geometry: Geometry) -> Result<(OwnedFd, Arena), Errno> {
        Self::make(host, geometry, true)
    }

    fn make(host: HostId, geometry: Geometry, alone: bool) -> Result<(OwnedFd, Arena), Errno> {
        let geometry = geometry.clamped();
        let (file, memory) = memory::create(&file_name(host), geometry.len(), alone)?;
        memory.long(header::HOST).store(host, Relaxed);
        memory.word(header::SLOTS).store(geometry.slots, Relaxed);
        memory.word(header::RING).store(geometry.ring, Relaxed);
        memory.word(header::CARRIER).store(CARRIED, Relaxed);
        memory.long(header::MAGIC).store(MAGIC, Release);
        let arena = Arena {
            memory,
            geometry,
            host,
            gathering: Gathering::default(),
        };
        arena.memory.word(header::ENTRIES).store(1, Relaxed);
        arena.become_process(TRANSIT, std::process::id());
        Ok((file, arena))
    }

    /// Maps an arena made by somebody else: for writing the own program's, read-only another's.
    ///
    /// # Errors
    /// `INVAL` when it is none, or of another version; what `mmap` says.
    pub fn open(file: impl AsFd, writable: bool) -> Result<Arena, Errno> {
        let memory = Mapping::new(file, writable)?;
        if memory.len() < 4096 || memory.long(header::MAGIC).load(Acquire) != MAGIC {
            return Err(Errno::INVAL);
        }
        let geometry = Geometry {
            slots: memory.word(header::SLOTS).load(Relaxed),
            ring: memory.word(header::RING).load(Relaxed),
        };
        let host = memory.long(header::HOST).load(Relaxed);
        if !geometry.is_sane() || geometry.len() != memory.len() as u64 {
            return Err(Errno::INVAL);
        }
        Ok(Arena {
            memory,
            geometry,
            host,
            gathering: Gathering::default(),
        })
    }

    /// Whose it is.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// How large it is.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Slot `n` of the own program's arena.
    ///
    /// # Panics
    /// When the arena is another's: a mistake of the caller, never input.
    pub fn own(&self, n: u32) -> OwnSlot<'_> {
        assert!(self.memory.is_writable(), "the own arena");
        OwnSlot::new(self, n)
    }

    /// Slot `n`, to be looked at.
    pub fn peer(&self, n: u32) -> PeerSlot<'_> {
        PeerSlot::new(self, n)
    }

    /// A port for a connection or socket that asks for none: 32768 to 60999 in turn, from a random
    /// start.
    pub fn next_port(&self, start: u16) -> u16 {
        let turn = self.memory.word(header::NEXT_PORT).fetch_add(1, Relaxed);
        let span = 61_000 - 32_768;
        (32_768 + turn.wrapping_add(u32::from(start)) % span) as u16
    }

    /// Takes a free slot and holds it for process `holder`. `None` when all are taken.
    pub fn allocate(&self, holder: usize, hint: u32) -> Option<u32> {
        let words = self.geometry.bitmap_words();
        let first = hint as usize / 64;
        for step in 0..words {
            let at = (first + step) % words;
            let word = self.memory.long(self.geometry.allocated() + at * 8);
            let mut seen = word.load(Relaxed);
            while seen != u64::MAX {
                let bit = seen.trailing_ones();
                let n = (at * 64) as u32 + bit;
                match word.compare_exchange(seen, seen | 1 << bit, AcqRel, Relaxed) {
                    Ok(_) => {
                        self.hold(holder, n);
                        self.forget_holders_but(holder, n);
                        self.own(n).begin();
                        return Some(n);
                    }
                    Err(now) => seen = now,
                }
            }
        }
        None
    }

    /// Who freed a slot may have left the note that it holds it.
    fn forget_holders_but(&self, holder: usize, n: u32) {
        for other in self.processes().filter(|&other| other != holder) {
            let (word, bit) = self.bit(self.geometry.held_by(other), n);
            let word = self.memory.long(word);
            if word.load(Relaxed) & bit != 0 {
                word.fetch_and(!bit, AcqRel);
            }
        }
    }

    /// Gives slot `n` back, whatever it is used for now.
    pub fn free(&self, n: u32) {
        self.free_use(n, self.own(n).generation());
    }

    /// Gives slot `n` back if it still is in use `generation`. Several may try: the process that
    /// closed it, its children, the carrier. True for the one who did it.
    pub fn free_use(&self, n: u32, generation: u32) -> bool {
        let first = self.own(n).end(generation);
        if first {
            let (word, bit) = self.bit(self.geometry.allocated(), n);
            self.memory.long(word).fetch_and(!bit, AcqRel);
        }
        first
    }

    /// Whether slot `n` is taken.
    pub fn is_allocated(&self, n: u32) -> bool {
        let (word, bit) = self.bit(self.geometry.allocated(), n);
        self.memory.long(word).load(Acquire) & bit != 0
    }

    /// The slots that are taken.
    pub fn allocated(&self) -> impl Iterator<Item = u32> + '_ {
        self.set_bits(self.geometry.allocated())
    }

    fn bit(&self, bitmap: usize, n: u32) -> (usize, u64) {
        let n = n & (self.geometry.slots - 1);
        (bitmap + n as usize / 64 * 8, 1 << (n % 64))
    }

    fn set_bits(&self, bitmap: usize) -> impl Iterator<Item = u32> + '_ {
        (0..self.geometry.bitmap_words()).flat_map(move |at| {
            let bits = self.memory.long(bitmap + at * 8).load(Acquire);
            let base = (at * 64) as u32;
            (0..64)
                .filter(move |bit| bits & (1 << bit) != 0)
                .map(move |bit| base + bit)
        })
    }

    /// Notes that process `holder` has a descriptor of slot `n`.
    pub fn hold(&self, holder: usize, n: u32) {
        let (word, bit) = self.bit(self.geometry.held_by(holder), n);
        self.memory.long(word).fetch_or(bit, AcqRel);
    }

    /// Process `holder` has closed its last descriptor of slot `n`. False when others hold it: it
    /// is let go of. True when nobody else does: the slot is this process's to end, alone, and to
    /// [`Arena::free`] or [`Arena::let_go`] of.
    pub fn is_last(&self, holder: usize, n: u32) -> bool {
        // Two that go at once would each find that the other is gone. The lock cannot be this
        // thread's: an interrupted call keeps the descriptor in use.
        let held = lock::hold(self.own(n).write_lock());
        let others = self
            .processes()
            .any(|other| other != holder && self.holds(other, n));
        if others {
            self.let_go(holder, n);
        }
        drop(held);
        !others
    }

    pub(crate) fn holds(&self, holder: usize, n: u32) -> bool {
        let (word, bit) = self.bit(self.geometry.held_by(holder), n);
        self.number_of(holder) != 0 && self.memory.long(word).load(SeqCst) & bit != 0
    }

    /// The entries of processes that were ever used.
    fn processes(&self) -> std::ops::Range<usize> {
        let used = self.memory.word(header::ENTRIES).load(Acquire) as usize;
        0..used.min(PROCESSES)
    }

    /// Process `holder` does not hold slot `n`. True when no process does.
    pub fn let_go(&self, holder: usize, n: u32) -> bool {
        let (word, bit) = self.bit(self.geometry.held_by(holder), n);
        self.memory.long(word).fetch_and(!bit, SeqCst);
        !self.is_held(n)
    }

    /// Whether a process holds slot `n`.
    pub fn is_held(&self, n: u32) -> bool {
        self.processes().any(|holder| self.holds(holder, n))
    }

    /// The slots that are taken and that no process holds, a bitmap: word `n` has slots `64 n` and
    /// following. A slot is taken an instant before it is held, so that only what is found twice is
    /// nobody's. True when there is any.
    pub fn unheld(&self, into: &mut Vec<u64>) -> bool {
        into.clear();
        let holders = || self.processes().filter(|&n| self.number_of(n) != 0);
        let bitmaps: Vec<usize> = holders().map(|n| self.geometry.held_by(n)).collect();
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

    /// The slots which process `holder` holds.
    pub fn held_by(&self, holder: usize) -> impl Iterator<Item = u32> + '_ {
        let held = self.set_bits(self.geometry.held_by(holder));
        held.filter(|n| self.is_allocated(*n))
    }

    /// Enters process `pid`. `None` when there are too many.
    pub fn enter(&self, pid: u32) -> Option<usize> {
        let free = (0..PROCESSES).find(|&n| {
            // Looked at from now on, before it can hold anything.
            let entries = self.memory.word(header::ENTRIES);
            if entries.load(Relaxed) <= n as u32 {
                entries.fetch_max(n as u32 + 1, SeqCst);
            }
            let entry = self.memory.word(self.geometry.process(n) + process::PID);
            entry.compare_exchange(0, pid, AcqRel, Relaxed).is_ok()
        })?;
        self.memory.word(header::ENTERED).fetch_add(1, AcqRel);
        Some(free)
    }

    /// Enters a process that does not exist yet. `None` when there are too many.
    pub fn enter_unborn(&self) -> Option<Made> {
        // An entry that is used again was entered, and left, since: the count is another.
        let number = PENDING | (self.entered() & !PENDING);
        let entry = self.enter(number)?;
        Some(Made { entry, number })
    }

    /// Gives entry `n` to process `pid`: a child's, entered by its parent before the fork.
    pub fn become_process(&self, n: usize, pid: u32) {
        let entry = self.memory.word(self.geometry.process(n) + process::PID);
        entry.store(pid, Release);
        self.memory.word(header::ENTERED).fetch_add(1, AcqRel);
    }

    /// Gives the entry to process `pid`, unless the child of a fork has taken it already.
    pub fn name_born(&self, made: Made, pid: u32) {
        let entry = self
            .memory
            .word(self.geometry.process(made.entry) + process::PID);
        let _ = entry.compare_exchange(made.number, pid, AcqRel, Relaxed);
        self.memory.word(header::ENTERED).fetch_add(1, AcqRel);
    }

    /// The process of entry `n`, 0 when there is none, or none yet.
    pub fn pid_of(&self, n: usize) -> u32 {
        let number = self.number_of(n);
        if number & PENDING != 0 { 0 } else { number }
    }

    fn number_of(&self, n: usize) -> u32 {
        let entry = self.memory.word(self.geometry.process(n) + process::PID);
        entry.load(Acquire)
    }

    /// Whether the entry still waits for its process.
    pub fn is_unborn(&self, made: Made) -> bool {
        self.number_of(made.entry) == made.number
    }

    /// How often processes entered: tells when to look at the table again.
    pub fn entered(&self) -> u32 {
        self.memory.word(header::ENTERED).load(Acquire)
    }

    /// Everything process `holder` held is let go of, and its entry is free.
    pub fn leave(&self, holder: usize) {
        for at in 0..self.geometry.bitmap_words() {
            let word = self.geometry.held_by(holder) + at * 8;
            self.memory.long(word).store(0, Release);
        }
        for n in 0..SLEEPERS {
            let owner = self.geometry.sleeper(n) + sleeper::OWNER;
            let owner = self.memory.word(owner);
            let _ = owner.compare_exchange(holder as u32 + 1, 0, AcqRel, Relaxed);
        }
        self.become_process(holder, 0);
    }

    /// Whether the carrier still lives, as far as it could say.
    pub fn has_carrier(&self) -> bool {
        self.memory.word(header::CARRIER).load(Acquire) != 0
    }

    /// Whether the interface of the carrier's link is switched off, or gone.
    pub fn is_link_down(&self) -> bool {
        self.memory.word(header::CARRIER).load(Relaxed) == LINK_DOWN
    }

    /// The carrier says whether the interface of its link can be used.
    pub fn say_link(&self, up: bool) {
        let word = if up { CARRIED } else { LINK_DOWN };
        self.memory.word(header::CARRIER).store(word, Release);
    }

    /// The carrier's last word.
    pub fn carrier_leaves(&self) {
        self.memory.word(header::CARRIER).store(0, Release);
    }

    /// The slot whose socket has inode `inode`: how a process that got a descriptor by `exec` or
    /// in a message finds out what it is.
    pub fn find_inode(&self, inode: u64) -> Option<u32> {
        self.allocated().find(|&n| {
            self.memory
                .long(self.slot_at(n) + slot::INODE)
                .load(Acquire)
                == inode
        })
    }

    pub(crate) fn slot_at(&self, n: u32) -> usize {
        self.geometry.slot(n)
    }
}

/// What the carrier says: that it is there; that it is and its interface is off. 0: that it left.
const CARRIED: u32 = 1;
const LINK_DOWN: u32 = 2;

/// The name of the memory of program `host`, as `/proc/PID/maps` has it.
pub fn file_name(host: HostId) -> String {
    format!("gannet-arena-{host:016x}")
}

#[cfg(test)]
mod tests;
