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
use crate::layout::{Geometry, MAGIC, header, slot};
use crate::memory::{self, Mapping};
use crate::slot::{OwnSlot, PeerSlot};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

mod claims;
mod holders;
mod processes;

pub use claims::Claim;
pub use processes::{Made, TRANSIT, UNKNOWN, pid_namespace};

/// The number of a program in its network: random, never 0.
pub type HostId = u64;

/// An arena as this process sees it.
#[derive(Debug)]
pub struct Arena {
    pub(crate) memory: Mapping,
    pub(crate) geometry: Geometry,
    host: HostId,
    pub(crate) gathering: Gathering,
    /// Which use of which entry this process has, see [`Arena::seat`]; 0: none.
    seat: AtomicU32,
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
        let (file, memory) = memory::create(&file_name(host), geometry, alone)?;
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
            seat: AtomicU32::new(0),
        };
        arena.open_table();
        Ok((file, arena))
    }

    /// Maps an arena made by somebody else: for writing the own program's, read-only another's.
    ///
    /// # Errors
    /// `INVAL` when it is none, or of another version; what `mmap` says.
    pub fn open(file: impl AsFd, writable: bool) -> Result<Arena, Errno> {
        let len = memory::check(&file)?;
        let mut head = [0u8; 24];
        let there = rustix::io::pread(&file, &mut head[..], 0)? == head.len();
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?))
        };
        let long = |at: usize| -> Option<u64> {
            Some(u64::from_ne_bytes(head.get(at..at + 8)?.try_into().ok()?))
        };
        if !there || long(header::MAGIC) != Some(MAGIC) {
            return Err(Errno::INVAL);
        }
        let geometry = Geometry {
            slots: word(header::SLOTS).unwrap_or(0),
            ring: word(header::RING).unwrap_or(0),
        };
        let host = long(header::HOST).unwrap_or(0);
        if !geometry.is_sane() || geometry.len() != len {
            return Err(Errno::INVAL);
        }
        let memory = Mapping::new(file, geometry, writable)?;
        Ok(Arena {
            memory,
            geometry,
            host,
            gathering: Gathering::default(),
            seat: AtomicU32::new(0),
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

    /// Maps the ring of slot `n`, if it is not mapped yet: before a stream begins, so that one that
    /// has begun lacks nothing.
    ///
    /// # Errors
    /// `NOMEM` when this process may have no more address space.
    pub fn map_ring(&self, n: u32) -> Result<(), Errno> {
        self.memory.ring(n).map(|_| ())
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
