//! Bells: one wake-up for whoever sleeps on many streams at once.
//!
//! A stream's own descriptor could wake him as well, but every other thread that uses the stream
//! may take that byte, and a set of fifty streams would get fifty of them. A bell is a datagram
//! socket that only the sleeper reads, with a name that follows from his place in the arena:
//! whoever has news rings once for each sleep, whichever stream it is about.
//!
//! Anybody on the machine can ring; it costs the sleeper a look. A bell that is full has been rung.

#![allow(unsafe_code)]

use crate::arena::{Arena, HostId};
use crate::name;
use crate::sandbox;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with,
};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The socket that this process rings with; -1 while it has none.
static RINGER: AtomicI32 = AtomicI32::new(-1);

const SOCKET: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The bell of sleeper `watch` of program `host`.
///
/// # Errors
/// What the kernel says; `ADDRINUSE` when somebody else has that name.
pub(crate) fn make(host: HostId, watch: u32) -> Result<OwnedFd, Errno> {
    let bell = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SOCKET, None)?;
    bind(&bell, &name::bell(host, watch)?)?;
    Ok(bell)
}

/// A socket for [`set_ringer`].
///
/// # Errors
/// What the kernel says.
pub fn ringer() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SOCKET, None)
}

/// What this process rings with from now on, which stays open until it is replaced.
pub fn set_ringer(fd: RawFd) {
    RINGER.store(fd, Release);
}

/// What this process rings with.
pub fn current_ringer() -> Option<RawFd> {
    let fd = RINGER.load(Acquire);
    (fd >= 0).then_some(fd)
}

/// Whether this process can ring.
pub(crate) fn can_ring() -> bool {
    RINGER.load(Relaxed) >= 0 && !sandbox::is_on()
}

/// What became of an attempt to wake somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    /// He wakes.
    Yes,
    /// Nobody has that bell: whoever slept there does not any more.
    Nobody,
    /// It was not possible: he has to be woken otherwise.
    No,
}

/// Rings the bell of sleeper `watch` of program `host`.
fn ring(host: HostId, watch: u32) -> Rung {
    let (Some(fd), Ok(name)) = (current_ringer(), name::bell(host, watch)) else {
        return Rung::No;
    };
    // SAFETY: who set the ringer keeps it open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    match sendto(fd, b"w", SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &name) {
        Ok(_) | Err(Errno::AGAIN) => Rung::Yes,
        Err(Errno::CONNREFUSED) => Rung::Nobody,
        Err(_) => Rung::No,
    }
}

/// Takes a ring out of a bell. There is one for each sleep; should there be more, it can still be
/// read, and who sleeps on it wakes once more.
pub fn silence(bell: impl AsFd) {
    let mut byte = [0u8; 1];
    // Nothing there is as good.
    let _ = match sandbox::is_on() {
        true => rustix::io::read(&bell, &mut byte[..]).map(drop),
        false => rustix::net::recv(&bell, &mut byte[..], RecvFlags::DONTWAIT).map(drop),
    };
}

/// A sleeper who is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleeper {
    pub(crate) host: HostId,
    pub(crate) watch: u32,
    /// The number of his sleep.
    pub(crate) armed: u32,
    /// Where the own program notes that he was woken.
    pub(crate) note: usize,
}

/// Who is to be woken once [`Arena::ring_gathered`] is called.
#[derive(Debug, Default)]
struct Gathered {
    sleepers: Vec<Sleeper>,
    /// Slots whose other ends have no bell.
    streams: Vec<u32>,
}

/// See [`Arena::gather`].
#[derive(Debug, Default)]
pub(crate) struct Gathering(Mutex<Option<Gathered>>);

impl Gathering {
    fn lock(&self) -> MutexGuard<'_, Option<Gathered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena {
    /// Rings for `sleeper` unless that was done. False when it was not possible.
    pub(crate) fn ring_for(&self, sleeper: Sleeper) -> bool {
        let note = self.memory.word(sleeper.note);
        if note.load(Relaxed) == sleeper.armed {
            return true;
        }
        if self.memory.is_alone()
            && let Some(gathered) = &mut *self.gathering.lock()
        {
            if !gathered.sleepers.contains(&sleeper) {
                gathered.sleepers.push(sleeper);
            }
            return true;
        }
        // Noted afterwards: who is killed or stopped in between leaves a sleeper that others wake.
        let rung = ring(sleeper.host, sleeper.watch);
        if rung == Rung::Yes {
            note.store(sleeper.armed, Relaxed);
        }
        rung != Rung::No
    }

    /// Whether the wake-up by way of own slot `n` is put off: [`Arena::ring_gathered`] tells of it.
    pub(crate) fn puts_off(&self, n: u32) -> bool {
        self.memory.is_alone()
            && self
                .gathering
                .lock()
                .as_mut()
                .map(|gathered| gathered.streams.push(n))
                .is_some()
    }

    /// Nobody is woken until [`Arena::ring_gathered`] is called, so that a sleeper finds everything
    /// when he wakes, and does not compete for the core meanwhile. Only where
    /// [`Arena::create_alone`] made the arena: nobody else then relies on this process to wake.
    pub fn gather(&self) {
        if self.memory.is_alone() {
            self.gathering.lock().get_or_insert_default();
        }
    }

    /// Ends [`Arena::gather`]. Gives the slots whose other ends the caller has to wake by
    /// [`crate::wake`].
    #[must_use]
    pub fn ring_gathered(&self) -> Vec<u32> {
        let gathered = self.gathering.lock().take().unwrap_or_default();
        for sleeper in gathered.sleepers {
            self.ring_for(sleeper);
        }
        gathered.streams
    }
}

#[cfg(test)]
mod tests;
