//! What a program's tables hold, read from the memory that its carrier shares with it.

use gannet_local::slot::{Kind, flags};
use gannet_local::{Arena, TRANSIT, UNKNOWN};
use std::fs::OpenOptions;

/// How much of each table is taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Slots of sockets.
    pub(crate) slots: usize,
    /// Entries of processes.
    pub(crate) processes: usize,
    /// Slots that are held for no process in particular.
    pub(crate) in_transit: usize,
    /// Slots that no process holds.
    pub(crate) unheld: usize,
    /// Streams among those whose other end never became known.
    pub(crate) unknown: usize,
}

/// The tables of one program.
pub(crate) struct Tables(Arena);

impl Tables {
    /// Of the program of this carrier.
    pub(crate) fn of(carrier: u32) -> Tables {
        let words = std::fs::read(format!("/proc/{carrier}/cmdline")).expect("it runs");
        let host = words.split(|byte| *byte == 0).nth(2).expect("its number");
        let host = std::str::from_utf8(host).expect("a number");
        let host = u64::from_str_radix(host, 16).expect("a number");
        let opened = std::fs::read_dir(format!("/proc/{carrier}/fd")).expect("descriptors");
        let arenas = opened.flatten().filter_map(|entry| {
            let target = std::fs::read_link(entry.path()).ok()?;
            target.to_str()?.starts_with("/memfd:").then_some(())?;
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).open(entry.path()).ok()?;
            Arena::open(file, true).ok()
        });
        let mut own = arenas.filter(|arena| arena.host() == host);
        Tables(own.next().expect("its memory"))
    }

    /// What is taken now.
    pub(crate) fn taken(&self) -> Taken {
        let unheld = self.unheld_slots();
        let unknown = |n: &&u32| {
            let slot = self.0.peer(**n);
            slot.kind() == Some(Kind::Stream) && slot.flags() & flags::RESOLVED == 0
        };
        let for_none = [TRANSIT, UNKNOWN].map(|entry| self.0.held_by(entry).count());
        Taken {
            slots: self.0.allocated().count(),
            processes: self.0.entries().count(),
            in_transit: for_none.iter().sum(),
            unknown: unheld.iter().filter(unknown).count(),
            unheld: unheld.len(),
        }
    }

    fn unheld_slots(&self) -> Vec<u32> {
        let mut unheld = Vec::new();
        self.0.unheld(&mut unheld);
        let bits = unheld.into_iter().zip(0..).flat_map(|(word, at)| {
            let slots = (0..64).filter(move |bit| word & 1 << bit != 0);
            slots.map(move |bit| at * 64 + bit)
        });
        bits.collect()
    }

    /// Slots that no process holds, for people.
    pub(crate) fn unheld(&self) -> Vec<String> {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let lives = |inode: u64| {
            let inode = inode.to_string();
            let mut numbers = sockets
                .lines()
                .filter_map(|line| line.split_whitespace().nth(6));
            numbers.any(|number| number == inode)
        };
        let slots = self.unheld_slots().into_iter();
        let of = |n| {
            let slot = self.0.own(n);
            let (kind, state, flags) = (slot.kind(), slot.state(), slot.flags());
            let (end, peer) = (slot.receiver(), slot.peer_name());
            let bytes = (slot.produced(), slot.consumed());
            let live = (lives(slot.backing()), lives(slot.peer_inode()));
            format!("{n}: {kind:?} {state:?} {flags:#x} {end:#x} {bytes:?} {live:?} {peer:?}")
        };
        slots.map(of).collect()
    }
}
