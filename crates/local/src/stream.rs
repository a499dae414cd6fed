//! A stream: two byte rings, one in the arena of each end, and a kernel socket pair that keeps
//! count of who still has it and wakes whoever sleeps.
//!
//! ```text
//! sender:    room = ring - (produced - peer.consumed)
//!            copy;  produced += n  [release];  fence;  is the reader asleep? then wake it
//! receiver:  there = peer.produced [acquire] - consumed;  copy;  consumed += n  [release]
//! ```
//! Positions count bytes from the start of the stream and never wrap. While the ring is empty the
//! sender begins again at its first place (`base`), so that a stream of small messages stays within
//! one or two cache lines and an idle one within one page.
//!
//! What the other end says is checked before it is used: positions that cannot be break the stream.
//!
//! No wake-up is lost for the reason that `gannet-link`'s `ring.rs` gives and its loom model
//! checks: a sleeper stores that it sleeps, fences and looks once more; who has news stores it,
//! fences and looks who sleeps. The fences are in one order, so that one of the two sees what the
//! other stored. Loom cannot run this source (its atomics lie in memory that two processes map,
//! loom's in its own), so `tests.rs` has threads and processes sleep for each other instead, and
//! fails when one is never woken. What a sleeper stores changes with each sleep: a waker remembers
//! which it woke, and that is the only one it may leave out.

#![allow(unsafe_code)]

use crate::arena::Arena;
use crate::fault;
use crate::memory::Ring;
use crate::options::Opt;
use crate::sandbox;
use crate::slot::{OwnSlot, PeerSlot, flags, receiver, sent};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

/// The greatest number that is an errno.
const ERRNO_MOST: i32 = 133;

/// A stretch of the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte.
    pub first: *mut u8,
    /// Number of bytes.
    pub len: usize,
}

/// Why nothing can be sent or received now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Nothing there, or no room: wait.
    Wait,
    /// The end of the stream (receiving), or nobody reads (sending).
    End,
    /// The other end broke the stream off.
    Reset,
    /// Of [`Stream::fill`]: the file could not be read. Of all that move bytes, `DEADLK`: a signal
    /// handler has interrupted this thread in the middle of the same; `FAULT`: there is no memory
    /// where the bytes are to be.
    File(Errno),
}

/// What can be done with a stream now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes, the end or an error can be read.
    pub readable: bool,
    /// There is room, or an error.
    pub writable: bool,
    /// The other side has ended its direction.
    pub ended: bool,
    /// Both directions are over.
    pub hung_up: bool,
    /// Broken off, or an error not yet reported.
    pub failed: bool,
    /// An urgent byte can be read.
    pub urgent: bool,
}

/// One end of a stream. The descriptor is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    pub(crate) own: OwnSlot<'a>,
    pub(crate) arena: &'a Arena,
    pub(crate) peer: Option<(&'a Arena, PeerSlot<'a>)>,
    fd: BorrowedFd<'a>,
}

impl<'a> Stream<'a> {
    /// Slot `n` of the own `arena`, its other end in `peer` (`None` while that is not known), and
    /// its descriptor.
    pub fn new(arena: &'a Arena, n: u32, peer: Option<&'a Arena>, fd: BorrowedFd<'a>) -> Self {
        let own = arena.own(n);
        let peer = match peer {
            Some(peer) if own.flags() & flags::RESOLVED != 0 => {
                Some((peer, peer.peer(own.peer_name().slot)))
            }
            _ => None,
        };
        Stream {
            own,
            arena,
            peer,
            fd,
        }
    }

    /// The own slot.
    pub fn slot(&self) -> OwnSlot<'a> {
        self.own
    }

    /// The other end's slot, unless it is not known yet or is used for something else by now.
    fn peer(&self) -> Option<PeerSlot<'a>> {
        let (_, peer) = self.peer?;
        (peer.generation() == self.own.peer_name().generation).then_some(peer)
    }

    /// Bytes that can be under way at most.
    pub fn capacity(&self) -> usize {
        self.arena.geometry().ring_len()
    }

    fn ring(&self) -> u64 {
        u64::from(self.arena.geometry().ring)
    }

    /// Bytes that can be sent now without waiting. What the other end claims to have read and
    /// cannot have, breaks the stream.
    fn room(&self) -> Result<u64, Hindrance> {
        let peer = match (self.peer(), self.peer) {
            (None, Some(_)) => return Err(Hindrance::End),
            (peer, _) => peer,
        };
        // Who reads no more does not say so to the other end, in TCP neither.
        if let Some(peer) = peer.filter(|peer| peer.receiver() & receiver::CLOSED != 0) {
            return Err(match self.met_nobody(peer) {
                true => Hindrance::Reset,
                false => Hindrance::End,
            });
        }
        let consumed = || peer.map_or(0, |peer| peer.consumed());
        let under_way = self.distance(|| self.own.produced(), consumed, true)?;
        let most = ring_share(*self.own, self.ring());
        Ok(most.saturating_sub(under_way))
    }

    /// How far `own` position and that of the other end are apart; `ahead` says that ours has to
    /// be the greater. More than a ring breaks the stream, unless our own moved meanwhile: who only
    /// looks does so without a lock.
    fn distance(
        &self,
        own: impl Fn() -> u64,
        theirs: impl Fn() -> u64,
        ahead: bool,
    ) -> Result<u64, Hindrance> {
        let mut here = own();
        loop {
            let there = theirs();
            let ring = match ahead {
                true => self.ring(),
                false => u64::from(self.peer_ring()),
            };
            let (high, low) = if ahead { (here, there) } else { (there, here) };
            if let Some(distance) = high.checked_sub(low).filter(|n| *n <= ring) {
                return Ok(distance);
            }
            let now = own();
            if now == here {
                return Err(self.broken());
            }
            here = now;
        }
    }

    pub(crate) fn broken(&self) -> Hindrance {
        self.own.set_flags(flags::BROKEN);
        Hindrance::Reset
    }

    fn is_gone(&self) -> bool {
        self.own.flags() & (flags::BROKEN | flags::HUNG_UP) != 0
    }

    /// Bytes that can be received now, or why there are none.
    pub(crate) fn there(&self) -> Result<u64, Hindrance> {
        self.stretch().map(|(_, there)| there)
    }

    /// The same, and how many are left out before them.
    fn stretch(&self) -> Result<(u64, u64), Hindrance> {
        let flags = self.own.flags();
        if flags & flags::BROKEN != 0 {
            return Err(Hindrance::Reset);
        }
        let Some(peer) = self.peer() else {
            return Err(match self.peer.is_some() || flags & flags::HUNG_UP != 0 {
                _ if self.own.receiver() & receiver::SHUT != 0 => Hindrance::End,
                true if self.own.flags() & flags::RESOLVED == 0 => Hindrance::Reset,
                true => Hindrance::End,
                false => Hindrance::Wait,
            });
        };
        // What was sent last is said after the bytes: read the other way round.
        let said = peer.sent();
        let there = self.distance(|| self.own.consumed(), || peer.produced(), false)?;
        // A mark is said before its byte.
        let (skip, there) = match peer.sent() & sent::URGENT {
            0 => (0, there),
            _ => self.up_to_mark(peer, there),
        };
        match there {
            0 if self.own.receiver() & receiver::SHUT != 0 => Err(Hindrance::End),
            // (behind the end of the other direction a reset takes nothing away from reading)
            0 if said & (sent::RESET | sent::LATE) == sent::RESET => Err(Hindrance::Reset),
            0 if said & sent::FIN != 0 && self.met_nobody(peer) => Err(Hindrance::Reset),
            0 if said & sent::FIN != 0 => Err(Hindrance::End),
            0 if flags & flags::HUNG_UP != 0 => Err(self.after_hang_up(peer)),
            0 => Err(Hindrance::Wait),
            _ => Ok((skip, there)),
        }
    }

    /// What was sent was read by nobody: the other end is closed and never looked who answered it,
    /// so that whoever closed it could not see that there were unread bytes.
    fn met_nobody(&self, peer: PeerSlot<'_>) -> bool {
        peer.receiver() & receiver::CLOSED != 0
            && peer.flags() & flags::RESOLVED == 0
            && self.own.produced() != 0
    }

    /// The other end's descriptor is closed, and nothing was said: its process is dead. As TCP
    /// does it: unread bytes make it a reset, or that it asked for one. Of a dead carrier nobody
    /// knows what would have come.
    fn after_hang_up(&self, peer: PeerSlot<'_>) -> Hindrance {
        let whole = peer.consumed() == self.own.produced() && !peer.aborts();
        match whole && self.own.flags() & flags::CARRIED == 0 {
            true => Hindrance::End,
            false => Hindrance::Reset,
        }
    }

    /// The errno of a stream that was broken off: what the other end said of it, if it is one.
    /// As the kernel's, a reset is EPIPE where the other end had ended its direction and this one
    /// has not (CLOSE-WAIT).
    pub fn reset_errno(&self) -> i32 {
        const RESET: i32 = Errno::CONNRESET.raw_os_error();
        let said = self.peer().map_or(0, |peer| peer.reason());
        let late = self
            .peer()
            .is_some_and(|peer| peer.sent() & sent::LATE != 0);
        match said {
            1..=ERRNO_MOST if said != RESET => said,
            _ if late && self.own.sent() & sent::FIN == 0 => Errno::PIPE.raw_os_error(),
            _ => RESET,
        }
    }

    pub(crate) fn peer_ring(&self) -> u32 {
        self.peer.map_or(0, |(arena, _)| arena.geometry().ring)
    }

    /// Sends as many of the bytes as there is room for.
    ///
    /// # Errors
    /// [`Hindrance::Wait`] when there is no room, [`Hindrance::End`] when the other end reads no
    /// more or the own direction is ended, [`Hindrance::Reset`], [`Hindrance::File`] with `FAULT`
    /// when there is no memory where a span says: nothing is sent then.
    ///
    /// # Safety
    /// Nothing of another's is where the spans say.
    pub unsafe fn send(&self, spans: &[Span]) -> Result<usize, Hindrance> {
        // SAFETY: as the caller says.
        unsafe { self.send_at_least(spans, 1) }
    }

    /// As [`Stream::send`], but nothing at all when there is no room for `least` bytes: a record
    /// is sent whole.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// Every span can be read.
    pub unsafe fn send_at_least(&self, spans: &[Span], least: usize) -> Result<usize, Hindrance> {
        let held = self.own.hold_write().map_err(Hindrance::File)?;
        let room = self.may_send()?;
        if room < least as u64 {
            return Err(Hindrance::Wait);
        }
        let start = self.begin(room);
        let ring = self.own_ring()?;
        let mut done = 0;
        for span in spans {
            let n = span.len.min(room as usize - done);
            // SAFETY: the caller vouches for the span.
            unsafe { self.copy_in(ring, start + done as u64, span.first, n) }?;
            done += n;
            if n < span.len {
                break;
            }
        }
        self.own.set_produced(start + done as u64);
        drop(held);
        self.tell_reader();
        Ok(done)
    }

    pub(crate) fn may_send(&self) -> Result<u64, Hindrance> {
        if self.own.sent() & (sent::FIN | sent::RESET) != 0 {
            return Err(Hindrance::End);
        }
        if self.is_gone() {
            return Err(self.gone());
        }
        if let Some(peer) = self.peer()
            && peer.sent() & sent::RESET != 0
        {
            return Err(Hindrance::Reset);
        }
        match self.room()? {
            0 => Err(Hindrance::Wait),
            room => Ok(room),
        }
    }

    /// The first call after the other end went away says so as TCP would, later ones that nobody
    /// reads.
    fn gone(&self) -> Hindrance {
        match self.peer() {
            Some(peer) if peer.sent() & sent::RESET != 0 => Hindrance::Reset,
            Some(peer) if self.met_nobody(peer) => Hindrance::Reset,
            Some(peer) if peer.sent() & sent::FIN == 0 => self.after_hang_up(peer),
            _ => Hindrance::End,
        }
    }

    /// Where the next byte goes; begins the ring anew when it is empty.
    pub(crate) fn begin(&self, room: u64) -> u64 {
        let produced = self.own.produced();
        if self.own.sent() & sent::URGENT != 0 && self.own.urgent() >= produced {
            // Its byte never came: a process was killed between the mark and the byte, and the next
            // byte is an ordinary one.
            self.own.set_urgent(u64::MAX);
        }
        if room == self.ring() && self.own.base() != produced {
            self.own.set_base(produced);
        }
        produced
    }

    /// # Safety
    /// `from` can be read for `len` bytes.
    pub(crate) unsafe fn copy_in(
        &self,
        ring: Ring<'_>,
        position: u64,
        from: *const u8,
        len: usize,
    ) -> Result<(), Hindrance> {
        let (first, second) = self.places(position, len);
        // SAFETY: the caller vouches for the source; the two places make up `len`.
        unsafe {
            ring.write(first.0, from, first.1)
                .and_then(|()| ring.write(0, from.wrapping_add(first.1), second))
                .map_err(Hindrance::File)
        }
    }

    pub(crate) fn own_ring(&self) -> Result<Ring<'a>, Hindrance> {
        ring_of(self.arena, *self.own)
    }

    /// Place in the own ring and length of the first piece, and the length of the second.
    pub(crate) fn places(&self, position: u64, len: usize) -> ((usize, usize), usize) {
        places(
            position.wrapping_sub(self.own.base()),
            len,
            self.arena.geometry().ring_len(),
        )
    }

    /// Sends up to `most` bytes of `file`, read into the ring without a copy in between. 0 at the
    /// end of the file.
    ///
    /// # Errors
    /// As [`Stream::send`]; [`Hindrance::File`].
    pub fn fill(
        &self,
        file: impl AsFd,
        offset: Option<u64>,
        most: usize,
    ) -> Result<usize, Hindrance> {
        let held = self.own.hold_write().map_err(Hindrance::File)?;
        let room = self.may_send()?;
        let start = self.begin(room);
        let ((at, len), _) = self.places(start, most.min(room as usize));
        let ring = self.own_ring()?;
        let n = ring.fill(at, len, file, offset).map_err(Hindrance::File)?;
        self.own.set_produced(start + n as u64);
        drop(held);
        self.tell_reader();
        Ok(n)
    }

    /// Receives up to as many bytes as the spans hold, from `skip` bytes on. With `keep` they are
    /// there the next time too.
    ///
    /// # Errors
    /// [`Hindrance::Wait`] when there are none, [`Hindrance::End`], [`Hindrance::Reset`],
    /// [`Hindrance::File`] with `FAULT` when there is no memory where a span says: nothing is taken
    /// then.
    ///
    /// # Safety
    /// What can be written of the spans is no other's.
    pub unsafe fn receive(
        &self,
        spans: &[Span],
        skip: usize,
        keep: bool,
    ) -> Result<usize, Hindrance> {
        let held = self.own.hold_read().map_err(Hindrance::File)?;
        let (left_out, there) = self.stretch()?;
        let Some((arena, peer)) = self.peer else {
            return Err(Hindrance::Wait);
        };
        let before = self.own.consumed();
        let consumed = before + left_out;
        let start = consumed + (skip as u64).min(there);
        let left = there as usize - skip.min(there as usize);
        let bytes = ring_of(arena, peer)?;
        let ring = arena.geometry().ring_len();
        let mut done = 0;
        for span in spans {
            let n = span.len.min(left - done);
            let from = (start + done as u64).wrapping_sub(peer.base());
            let (first, second) = places(from, n, ring);
            if !span.first.is_null() {
                // SAFETY: the caller vouches for the span; the pieces make up `n` of it.
                unsafe {
                    bytes
                        .read(first.0, span.first, first.1)
                        .and_then(|()| bytes.read(0, span.first.wrapping_add(first.1), second))
                        .map_err(Hindrance::File)?;
                }
            }
            done += n;
            if n < span.len {
                break;
            }
        }
        if !keep {
            self.own.set_consumed(start + done as u64);
        }
        drop(held);
        if !keep && done > 0 {
            self.tell_of_room(before);
        }
        Ok(done)
    }

    /// Bytes that wait to be read.
    pub fn waiting(&self) -> u64 {
        self.there().unwrap_or(0)
    }

    /// Bytes sent and not yet read by the other end.
    pub fn unread(&self) -> u64 {
        let consumed = self.peer().map_or(0, |peer| peer.consumed());
        self.own.produced().wrapping_sub(consumed).min(self.ring())
    }

    /// Ends the own direction: the other end reads the end after the last byte.
    pub fn finish(&self) {
        self.own.say_sent(sent::FIN);
        self.tell_reader();
    }

    /// Reads no more: what comes is thrown away.
    pub fn refuse(&self) {
        self.own.say_receiver(receiver::SHUT);
        self.tell_writer();
    }

    /// The last descriptor is being closed. Unread bytes, or `abort`, make it a reset.
    pub fn close(&self, abort: bool) {
        let unread = self.own.receiver() & receiver::SHUT == 0 && self.waiting() > 0;
        if (abort || unread) && !self.is_over() {
            let late = match self.own.sent() & sent::FIN {
                0 => 0,
                _ => sent::LATE,
            };
            self.own.say_sent(sent::RESET | late);
        }
        self.own.say_sent(sent::FIN);
        self.own.say_receiver(receiver::CLOSED | receiver::DONE);
        self.tell_reader();
        self.tell_writer();
    }

    /// Whether TCP would be done: both ends have ended their directions, and what this end has not
    /// read would lie in its receive buffer, acknowledged. No reset follows then.
    fn is_over(&self) -> bool {
        let Some(peer) = self.peer() else {
            return false;
        };
        let both = self.own.sent() & peer.sent() & sent::FIN != 0;
        let carried = (self.own.flags() | peer.flags()) & flags::CARRIED != 0;
        both && !carried && self.waiting() <= u64::from(self.peer_ring() / 2)
    }

    /// What can be done now.
    pub fn readiness(&self) -> Readiness {
        self.readiness_of(self.may_send())
    }

    /// As [`Stream::readiness`], for somebody who does not want to send: `writable` says nothing.
    pub fn readiness_to_receive(&self) -> Readiness {
        self.readiness_of(Err(Hindrance::Wait))
    }

    fn readiness_of(&self, room: Result<u64, Hindrance>) -> Readiness {
        let there = self.there();
        let said = self.peer().map_or(0, |peer| peer.sent());
        let finished = self.own.sent() & sent::FIN != 0;
        let ended = matches!(there, Err(Hindrance::End | Hindrance::Reset))
            || self.own.receiver() & receiver::SHUT != 0
            || said & sent::FIN != 0;
        // A reset is seen although there are bytes left to read.
        let reset = said & sent::RESET != 0
            || matches!(there, Err(Hindrance::Reset))
            || matches!(room, Err(Hindrance::Reset));
        let flags = self.own.flags();
        let reset = reset || flags & flags::LOST != 0;
        Readiness {
            readable: match there {
                Ok(there) if flags & flags::LOW_WATER != 0 && !ended => there >= self.low_water(),
                there => !matches!(there, Err(Hindrance::Wait)),
            },
            writable: match room {
                Ok(room) => is_writable(room, *self.own, self.ring()),
                Err(hindrance) => hindrance != Hindrance::Wait,
            },
            ended,
            urgent: self.has_urgent(),
            hung_up: ended && finished || reset,
            // A reset that was told once is an end like another.
            failed: reset && flags & flags::TOLD == 0 || self.own.error() != 0,
        }
    }

    /// How many bytes make the stream readable.
    pub fn low_water(&self) -> u64 {
        match self.own.flags() & flags::LOW_WATER {
            0 => 1,
            // More than there can ever be would be never.
            _ => {
                let wanted = self.own.get(Opt::LowWater).unwrap_or(1);
                u64::from(wanted.min(self.peer_ring() / 2).max(1))
            }
        }
    }

    /// Says that the kernel reported the other end's last descriptor closed.
    pub fn hung_up(&self) {
        self.own.set_flags(flags::HUNG_UP);
    }

    /// Whether the other end needs this end's memory no more: it says so, or its last descriptor is
    /// closed, so that no process can read.
    pub fn is_forgotten(&self) -> bool {
        // (What this end shut down itself looks like a hang-up of the other.)
        if self.own.flags() & (flags::HUNG_UP | flags::DEAF) == flags::HUNG_UP {
            return true;
        }
        match self.peer() {
            Some(peer) => peer.receiver() & receiver::DONE != 0,
            None => true,
        }
    }

    pub(crate) fn tell_reader(&self) {
        fence(SeqCst);
        let Some(peer) = self.peer() else { return };
        let armed = peer.reader_armed();
        self.tell_peer(peer, armed, self.own.woken_reader());
    }

    pub(crate) fn tell_writer(&self) {
        fence(SeqCst);
        let Some(peer) = self.peer() else { return };
        let armed = peer.writer_armed();
        self.tell_peer(peer, armed, self.own.woken_writer());
    }

    /// Bytes were consumed, the first at position `before`. A writer that had enough room without
    /// them does not wait for it, and would be woken in vain for each message that is read: sets
    /// have news only of those that were short of it. (That the other end looked before it knew of
    /// this is excluded as with sleepers: both store, fence, and look.)
    fn tell_of_room(&self, before: u64) {
        fence(SeqCst);
        let Some(peer) = self.peer() else { return };
        let armed = peer.writer_armed();
        let ring = u64::from(self.peer_ring());
        let under_way = peer.produced().wrapping_sub(before);
        let most = ring_share(peer, ring);
        if armed == 0 && is_writable(most.saturating_sub(under_way), peer, ring) {
            return;
        }
        self.tell_peer(peer, armed, self.own.woken_writer());
    }

    fn tell_peer(&self, peer: PeerSlot<'_>, armed: u32, woken: &std::sync::atomic::AtomicU32) {
        let asleep = armed != 0 && woken.load(Relaxed) != armed;
        let set = match (peer.watch(), self.peer) {
            (0, _) | (_, None) => None,
            (_, Some((arena, _))) => self.arena.news_for(arena, peer, self.own.woken_set()),
        };
        if !asleep && set.is_none() {
            return;
        }
        if !self.arena.puts_off(self.own.number()) {
            fault::point("wake");
            wake(self.fd);
        }
        // Noted afterwards: a process that is killed in between leaves a sleeper that the others
        // which share this end wake.
        if asleep {
            woken.store(armed, Relaxed);
        }
        if let Some(armed) = set {
            self.own.woken_set().store(armed, Relaxed);
        }
    }

    /// Whether this end sees the other's memory: what it does is told then. The answer is the same
    /// as long as this value lives, whatever another thread finds out meanwhile.
    pub fn can_tell(&self) -> bool {
        self.peer().is_some()
    }

    /// Has the other end look at this one, as if bytes had been sent.
    pub fn tell(&self) {
        self.tell_reader();
    }

    /// Wakes the other end, whether it seems to sleep or not: what a process does that cannot see
    /// the other end's memory yet.
    pub fn wake(&self) {
        wake(self.fd);
    }
}

/// A byte through the kernel: whoever sleeps on the other descriptor wakes. A full socket means
/// that it has been woken already.
pub fn wake(fd: BorrowedFd<'_>) {
    if sandbox::is_on() {
        let _ = rustix::io::write(fd, b"w");
        return;
    }
    let _ = rustix::net::send(fd, b"w", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// What [`drain`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Wake-ups, or none.
    Wakes,
    /// The other end's last descriptor is closed.
    HungUp,
}

/// Takes the wake-up bytes out of a stream's descriptor, many but not all if they are without end.
/// Until nothing is there: a hang-up behind them is told once where edges are waited for.
pub fn drain(fd: BorrowedFd<'_>) -> Drained {
    let mut bytes = [0u8; 256];
    if sandbox::is_on() {
        for _ in 0..64 {
            match sandbox::has_something(fd) {
                true if rustix::io::read(fd, &mut bytes[..]) == Ok(0) => return Drained::HungUp,
                true => {}
                false => break,
            }
        }
        return Drained::Wakes;
    }
    for _ in 0..64 {
        match rustix::net::recv(fd, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Drained::HungUp,
            Ok(_) => continue,
            Err(_) => return Drained::Wakes,
        }
    }
    Drained::Wakes
}

/// The bytes of a slot's ring. Where they cannot be mapped the call fails as for want of buffers.
#[inline]
pub(crate) fn ring_of<'a>(arena: &'a Arena, slot: PeerSlot<'_>) -> Result<Ring<'a>, Hindrance> {
    let ring = arena.memory.ring(slot.number());
    ring.map_err(|_| Hindrance::File(Errno::NOBUFS))
}

/// Room enough that a writer is told: a quarter of what may be there. With `TCP_NOTSENT_LOWAT` less
/// than a quarter of that waits, too.
fn is_writable(room: u64, of: PeerSlot<'_>, ring: u64) -> bool {
    let most = ring_share(of, ring);
    let waits = most.saturating_sub(room);
    let low = of.not_sent_low_water();
    room >= most / 4 && low.is_none_or(|low| waits < u64::from(low).div_ceil(4))
}

/// Most bytes in the ring. Of those that TCP may let wait (`TCP_NOTSENT_LOWAT`) half may be here,
/// and a quarter with the carrier, see [`carrier_share`].
fn ring_share(of: PeerSlot<'_>, ring: u64) -> u64 {
    /// What is gathered before a segment leaves.
    const LEAST: u64 = 4096;
    match of.not_sent_low_water() {
        None => ring,
        Some(low) => u64::from(low / 2).max(LEAST).min(ring),
    }
}

/// Most bytes that the carrier's TCP has and has not sent yet, where a program has set
/// `TCP_NOTSENT_LOWAT` to `low`.
pub fn carrier_share(low: u32) -> u32 {
    (low / 4).max(1)
}

/// Where `len` bytes at distance `from` of the base lie in a ring: the first piece (place, length)
/// and the length of the second, which is at the start. `ring` is a power of two and `len` at most
/// `ring`.
pub(crate) fn places(from: u64, len: usize, ring: usize) -> ((usize, usize), usize) {
    let len = len.min(ring);
    let at = from as usize & (ring - 1);
    let first = len.min(ring - at);
    ((at, first), len - first)
}

#[cfg(test)]
mod tests;
