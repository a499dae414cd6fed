//! A slot: what is known of one socket. Its owner writes, the other end looks.

use crate::arena::{Arena, HostId};
use crate::figures::WORDS as FIGURES;
use crate::layout::slot as at;
use crate::layout::slot::OPTION_COUNT;
use crate::lock::{self, Held, Lock};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// One end of a byte stream.
    Stream = 1,
    /// A listener.
    Listener = 2,
    /// Datagrams, carried as records of a stream to the carrier.
    Datagrams = 3,
}

/// Where a socket stands. Numbers as in `tcpi_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Free.
    Closed = 0,
    /// Open.
    Established = 1,
    /// Asked for, not answered.
    SynSent = 2,
    /// Listens.
    Listen = 10,
}

/// What the sender has said last, as bits of its word.
pub mod sent {
    /// Nothing follows.
    pub const FIN: u32 = 1;
    /// The stream is broken off: what was not read is lost.
    pub const RESET: u32 = 2;
    /// There is a mark, see [`super::PeerSlot::urgent`].
    pub const URGENT: u32 = 4;
    /// With [`RESET`]: the direction had been ended before.
    pub const LATE: u32 = 8;
}

/// What the receiver has said, as bits of its word.
pub mod receiver {
    /// It reads no more.
    pub const SHUT: u32 = 1;
    /// It has seen the end of the other side and needs nothing of its memory any more.
    pub const DONE: u32 = 2;
    /// Descriptor closed: what is sent now meets nobody.
    pub const CLOSED: u32 = 4;
}

/// What all holders of a socket share, as bits.
pub mod flags {
    /// Calls do not block.
    pub const NONBLOCKING: u32 = 1;
    /// The other end's slot is known.
    pub const RESOLVED: u32 = 2;
    /// The other end's socket hung up.
    pub const HUNG_UP: u32 = 4;
    /// The other end is the carrier.
    pub const CARRIED: u32 = 8;
    /// Takes both families (an IPv6 socket that is not IPv6 only).
    pub const DUAL: u32 = 16;
    /// Made as an IPv6 socket.
    pub const SIX: u32 = 32;
    /// An error of the peer's making was met: the stream is broken.
    pub const BROKEN: u32 = 64;
    /// The reset has been reported once.
    pub const TOLD: u32 = 128;
    /// Of datagrams: connected to an address of the kernel's.
    pub const ELSEWHERE: u32 = 256;
    /// Of datagrams: nothing is sent any more.
    pub const SENDS_NO_MORE: u32 = 512;
    /// Of datagrams: connected to the remote address, which is one of ours.
    pub const CONNECTED: u32 = 1024;
    /// Less than [`crate::options::Opt::LowWater`] says is nothing to read yet.
    pub const LOW_WATER: u32 = 2048;
    /// What was sent last met nobody: the other end was closed. Over TCP a reset answers it.
    pub const LOST: u32 = 4096;
    /// The own socket is shut down for reading at the kernel: no wake-up comes through it.
    pub const DEAF: u32 = 8192;
    /// More follows what was sent last (`MSG_MORE`): it may be held back as by `TCP_CORK`.
    pub const MORE: u32 = 1 << 17;
    /// The carrier keeps its hidden descriptors, for processes that get it in a message.
    pub const KEPT: u32 = 1 << 18;
    /// The program has chosen the port itself.
    pub const PORT_GIVEN: u32 = 1 << 16;
    /// There is something for a call with `MSG_ERRQUEUE`.
    pub const ERROR_QUEUE: u32 = 1 << 19;
    /// There is a limit of what is not sent yet ([`crate::Opt::NOT_SENT_LOW_WATER`]).
    pub const UNSENT_MAX: u32 = 1 << 20;
}

/// Which slot of which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotName {
    /// Whose arena.
    pub host: HostId,
    /// Which slot.
    pub slot: u32,
    /// Which use of it.
    pub generation: u32,
}

/// A slot of another program's arena, or of the own one without the right to write.
#[derive(Clone, Copy, Debug)]
pub struct PeerSlot<'a> {
    arena: &'a Arena,
    at: usize,
    n: u32,
}

/// A slot of the own arena.
#[derive(Clone, Copy, Debug)]
pub struct OwnSlot<'a>(PeerSlot<'a>);

impl<'a> PeerSlot<'a> {
    pub(crate) fn new(arena: &'a Arena, n: u32) -> Self {
        let n = n & (arena.geometry.slots - 1);
        PeerSlot {
            arena,
            at: arena.slot_at(n),
            n,
        }
    }

    fn word(&self, offset: usize) -> &'a AtomicU32 {
        self.arena.memory.word(self.at + offset)
    }

    fn long(&self, offset: usize) -> &'a AtomicU64 {
        self.arena.memory.long(self.at + offset)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.n
    }

    /// Its name, as it is used now.
    pub fn name(&self) -> SlotName {
        SlotName {
            host: self.arena.host(),
            slot: self.n,
            generation: self.generation(),
        }
    }

    /// Which use of the slot this is.
    pub fn generation(&self) -> u32 {
        self.word(at::GENERATION).load(Acquire)
    }

    /// Position behind the last byte sent.
    pub fn produced(&self) -> u64 {
        self.long(at::PRODUCED).load(Acquire)
    }

    /// Position of the byte at the ring's first place. To be read after `produced`.
    pub fn base(&self) -> u64 {
        self.long(at::BASE).load(Relaxed)
    }

    /// Position of the byte that was marked as urgent last.
    pub fn urgent(&self) -> u64 {
        self.long(at::URGENT).load(Acquire)
    }

    /// Position behind the urgent byte that was read apart last.
    pub(crate) fn urgent_read(&self) -> u64 {
        self.long(at::URGENT_READ).load(Acquire)
    }

    /// See [`sent`].
    pub fn sent(&self) -> u32 {
        self.word(at::SENT).load(Acquire)
    }

    /// Position behind the last byte read of the other end's ring.
    pub fn consumed(&self) -> u64 {
        self.long(at::CONSUMED).load(Acquire)
    }

    /// See [`receiver`].
    pub fn receiver(&self) -> u32 {
        self.word(at::RECEIVER).load(Acquire)
    }

    /// Says which sleep it is that somebody waits for bytes, 0 when nobody does.
    pub fn reader_armed(&self) -> u32 {
        armed(self.word(at::READER_ARMED))
    }

    /// Says which sleep it is that somebody waits for room, 0 when nobody does.
    pub fn writer_armed(&self) -> u32 {
        armed(self.word(at::WRITER_ARMED))
    }

    /// Which sleeper watches, plus one; see [`crate::news`].
    pub fn watch(&self) -> u32 {
        self.word(at::WATCH).load(Acquire)
    }

    /// What it is, if it is anything.
    pub fn kind(&self) -> Option<Kind> {
        match self.word(at::KIND).load(Relaxed) {
            1 => Some(Kind::Stream),
            2 => Some(Kind::Listener),
            3 => Some(Kind::Datagrams),
            _ => None,
        }
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        match self.word(at::STATE).load(Acquire) {
            1 => State::Established,
            2 => State::SynSent,
            10 => State::Listen,
            _ => State::Closed,
        }
    }

    /// The inode of its kernel socket.
    pub fn inode(&self) -> u64 {
        self.long(at::INODE).load(Acquire)
    }

    /// The inode of the Unix socket that lives as long as this does: its own, or the one behind it.
    pub fn backing(&self) -> u64 {
        match self.long(at::BACKING).load(Acquire) {
            0 => self.inode(),
            inode => inode,
        }
    }

    /// See [`flags`].
    pub fn flags(&self) -> u32 {
        self.word(at::FLAGS).load(Acquire)
    }

    /// The other end, as far as it is known.
    pub fn peer_name(&self) -> SlotName {
        SlotName {
            host: self.long(at::PEER_HOST).load(Acquire),
            slot: self.word(at::PEER_SLOT).load(Acquire),
            generation: self.word(at::PEER_GENERATION).load(Acquire),
        }
    }

    /// Socket option number `n` of this crate's users; 0 when never set.
    pub fn option(&self, n: usize) -> u32 {
        self.word(at::OPTIONS + (n % OPTION_COUNT) * 4)
            .load(Relaxed)
    }

    pub(crate) fn option_turn(&self) -> u32 {
        self.word(at::OPTION_TURN).load(Acquire)
    }

    pub(crate) fn figure(&self, n: usize) -> u32 {
        self.word(at::FIGURES + (n % FIGURES) * 4).load(Relaxed)
    }

    /// Why this end broke the stream off, an errno; 0 for no particular reason (`ECONNRESET` to the
    /// other end).
    pub fn reason(&self) -> i32 {
        self.word(at::REASON).load(Acquire) as i32
    }

    /// The local address.
    pub fn local(&self) -> SocketAddr {
        self.address(at::LOCAL)
    }

    /// The remote address.
    pub fn remote(&self) -> SocketAddr {
        self.address(at::REMOTE)
    }

    fn address(&self, offset: usize) -> SocketAddr {
        let head = self.long(offset).load(Acquire);
        let high = self.long(offset + 8).load(Relaxed);
        let low = self.long(offset + 16).load(Relaxed);
        address_of([head, high, low])
    }

    /// What the opening end's name ends with.
    pub(crate) fn nonce(&self) -> u64 {
        self.long(at::NONCE).load(Acquire)
    }

    /// When it was opened: nanoseconds of the monotonic clock.
    pub fn opened(&self) -> u64 {
        self.long(at::OPENED).load(Relaxed)
    }
}

/// An address as three words: port and family, then 16 bytes.
pub(crate) fn words_of(address: SocketAddr) -> [u64; 3] {
    let (family, bits) = match address.ip() {
        IpAddr::V4(ip) => (4u64, u128::from(u32::from(ip))),
        IpAddr::V6(ip) => (6, u128::from(ip)),
    };
    let head = u64::from(address.port()) | family << 16;
    [head, (bits >> 64) as u64, bits as u64]
}

/// The address of three words, whatever they are.
pub(crate) fn address_of([head, high, low]: [u64; 3]) -> SocketAddr {
    let ip = match head >> 16 {
        6 => IpAddr::V6(Ipv6Addr::from((u128::from(high) << 64) | u128::from(low))),
        _ => IpAddr::V4(Ipv4Addr::from(low as u32)),
    };
    SocketAddr::new(ip, head as u16)
}

impl<'a> std::ops::Deref for OwnSlot<'a> {
    type Target = PeerSlot<'a>;

    fn deref(&self) -> &PeerSlot<'a> {
        &self.0
    }
}

impl<'a> OwnSlot<'a> {
    pub(crate) fn new(arena: &'a Arena, n: u32) -> Self {
        OwnSlot(PeerSlot::new(arena, n))
    }

    /// A new use: everything as at the start, but the generation, which is another.
    pub(crate) fn begin(&self) {
        for offset in (0..crate::layout::SLOT_BYTES).step_by(8) {
            // Another process may be forking, and note at this moment that its child holds it.
            if ![at::GENERATION, at::HOLDERS, at::CLAIM].contains(&offset) {
                self.long(offset).store(0, Relaxed);
            }
        }
        self.word(at::STATE).store(0, Relaxed);
        let generation = self.generation().wrapping_add(1).max(1);
        self.word(at::GENERATION).store(generation, Release);
    }

    /// The use is over: whoever still knows its name sees another generation.
    pub(crate) fn end(&self, generation: u32) -> bool {
        let next = generation.wrapping_add(1).max(1);
        let word = self.word(at::GENERATION);
        if word
            .compare_exchange(generation, next, AcqRel, Relaxed)
            .is_err()
        {
            return false;
        }
        self.set_state(State::Closed);
        self.long(at::INODE).store(0, Relaxed);
        self.word(at::KIND).store(0, Relaxed);
        true
    }

    pub(crate) fn set_produced(&self, to: u64) {
        self.long(at::PRODUCED).store(to, Release);
    }

    pub(crate) fn set_base(&self, to: u64) {
        self.long(at::BASE).store(to, Relaxed);
    }

    pub(crate) fn set_consumed(&self, to: u64) {
        self.long(at::CONSUMED).store(to, Release);
    }

    pub(crate) fn set_urgent(&self, to: u64) {
        self.long(at::URGENT).store(to, Release);
    }

    pub(crate) fn set_urgent_read(&self, to: u64) {
        self.long(at::URGENT_READ).store(to, Release);
    }

    /// Adds bits of [`sent`].
    pub fn say_sent(&self, bits: u32) {
        self.word(at::SENT).fetch_or(bits, Release);
    }

    /// Adds bits of [`receiver`].
    pub fn say_receiver(&self, bits: u32) {
        self.word(at::RECEIVER).fetch_or(bits, Release);
    }

    /// Adds bits of [`flags`]; gives those set before.
    pub fn set_flags(&self, bits: u32) -> u32 {
        self.word(at::FLAGS).fetch_or(bits, Release)
    }

    /// Takes bits of [`flags`] away.
    pub fn clear_flags(&self, bits: u32) {
        self.word(at::FLAGS).fetch_and(!bits, Release);
    }

    pub(crate) fn woken_reader(&self) -> &'a AtomicU32 {
        self.word(at::WOKEN_READER)
    }

    pub(crate) fn woken_writer(&self) -> &'a AtomicU32 {
        self.word(at::WOKEN_WRITER)
    }

    pub(crate) fn woken_set(&self) -> &'a AtomicU32 {
        self.word(at::WOKEN_SET)
    }

    /// Somebody is about to sleep until bytes come. Several may; each says when it is awake again.
    pub fn arm_reader(&self) {
        arm(self.word(at::READER_ARMED));
    }

    /// Somebody is about to sleep until there is room.
    pub fn arm_writer(&self) {
        arm(self.word(at::WRITER_ARMED));
    }

    /// One of those who sleep for bytes is awake again.
    pub fn disarm_reader(&self) {
        disarm(self.word(at::READER_ARMED));
    }

    /// One of those who sleep for room is awake again.
    pub fn disarm_writer(&self) {
        disarm(self.word(at::WRITER_ARMED));
    }

    /// Says which sleeper watches, see [`crate::news`].
    pub fn set_watch(&self, to: u32) {
        self.word(at::WATCH).store(to, Release);
    }

    /// Changes which sleeper watches to what `next` makes of it.
    pub(crate) fn change_watch(&self, next: impl FnMut(u32) -> u32) {
        change(self.word(at::WATCH), next);
    }

    /// Says what it is.
    pub fn set_kind(&self, kind: Kind) {
        self.word(at::KIND).store(kind as u32, Relaxed);
    }

    /// Says where it stands.
    pub fn set_state(&self, state: State) {
        self.word(at::STATE).store(state as u32, Release);
    }

    /// Notes the inode of its kernel socket.
    pub fn set_inode(&self, inode: u64) {
        self.long(at::INODE).store(inode, Release);
    }

    /// Notes the inode of the Unix socket behind a socket that is none itself.
    pub fn set_backing(&self, inode: u64) {
        self.long(at::BACKING).store(inode, Release);
    }

    /// The inode of the other end's socket, as it was when both met; 0 where that is not known.
    pub fn peer_inode(&self) -> u64 {
        self.long(at::PEER_INODE).load(Acquire)
    }

    /// Notes the inode of the other end's socket.
    pub fn set_peer_inode(&self, inode: u64) {
        self.long(at::PEER_INODE).store(inode, Release);
    }

    pub(crate) fn holders(&self) -> &'a AtomicU64 {
        self.long(at::HOLDERS)
    }

    pub(crate) fn claim(&self) -> &'a AtomicU64 {
        self.long(at::CLAIM)
    }

    /// Notes the other end.
    pub fn set_peer(&self, peer: SlotName) {
        self.long(at::PEER_HOST).store(peer.host, Relaxed);
        self.word(at::PEER_SLOT).store(peer.slot, Relaxed);
        self.word(at::PEER_GENERATION)
            .store(peer.generation, Release);
        self.set_flags(flags::RESOLVED);
    }

    /// Sets socket option number `n`.
    pub fn set_option(&self, n: usize, to: u32) {
        self.word(at::OPTIONS + (n % OPTION_COUNT) * 4)
            .store(to, Relaxed);
    }

    pub(crate) fn add_to_option(&self, n: usize) {
        self.word(at::OPTIONS + (n % OPTION_COUNT) * 4)
            .fetch_add(1, Release);
    }

    pub(crate) fn change_option(&self, n: usize, from: u32, to: u32) -> bool {
        self.word(at::OPTIONS + (n % OPTION_COUNT) * 4)
            .compare_exchange(from, to, AcqRel, Relaxed)
            .is_ok()
    }

    pub(crate) fn turn_options(&self) {
        self.word(at::OPTION_TURN).fetch_add(1, Release);
    }

    pub(crate) fn set_figure(&self, n: usize, to: u32) {
        self.word(at::FIGURES + (n % FIGURES) * 4)
            .store(to, Relaxed);
    }

    /// Says why the stream is about to be broken off: before [`crate::Stream::close`].
    pub fn set_reason(&self, errno: i32) {
        self.word(at::REASON).store(errno as u32, Release);
    }

    /// The error that the next call is to report, an errno; taken by [`OwnSlot::take_error`].
    pub fn set_error(&self, errno: i32) {
        self.word(at::ERROR).store(errno as u32, Release);
    }

    /// The error not yet reported, which is now.
    pub fn take_error(&self) -> i32 {
        if self.word(at::ERROR).load(Relaxed) == 0 {
            return 0;
        }
        self.word(at::ERROR).swap(0, AcqRel) as i32
    }

    /// The error not yet reported.
    pub fn error(&self) -> i32 {
        self.word(at::ERROR).load(Acquire) as i32
    }

    /// Sets the local address.
    pub fn set_local(&self, to: SocketAddr) {
        self.set_address(at::LOCAL, to);
    }

    /// Sets the remote address.
    pub fn set_remote(&self, to: SocketAddr) {
        self.set_address(at::REMOTE, to);
    }

    fn set_address(&self, offset: usize, to: SocketAddr) {
        let [head, high, low] = words_of(to);
        self.long(offset + 8).store(high, Relaxed);
        self.long(offset + 16).store(low, Relaxed);
        self.long(offset).store(head, Release);
    }

    pub(crate) fn set_nonce(&self, to: u64) {
        self.long(at::NONCE).store(to, Release);
    }

    /// Notes when it was opened.
    pub fn set_opened(&self, nanoseconds: u64) {
        self.long(at::OPENED).store(nanoseconds, Relaxed);
    }

    pub(crate) fn comers(&self) -> &'a AtomicU64 {
        self.long(at::COMERS)
    }

    pub(crate) fn takers(&self) -> &'a AtomicU64 {
        self.long(at::TAKERS)
    }

    pub(crate) fn taken_at(&self) -> &'a AtomicU64 {
        self.long(at::TAKEN_AT)
    }

    /// The lock of the threads that read, held. `DEADLK` when this thread has it.
    pub(crate) fn hold_read(&self) -> Result<Held<'a>, Errno> {
        lock::hold(self.lock(at::READ_LOCK))
    }

    /// The lock of the threads that write, held. `DEADLK` when this thread has it.
    pub(crate) fn hold_write(&self) -> Result<Held<'a>, Errno> {
        lock::hold(self.write_lock())
    }

    /// The lock of the threads that write.
    pub(crate) fn write_lock(&self) -> Lock<'a> {
        self.lock(at::WRITE_LOCK)
    }

    fn lock(&self, offset: usize) -> Lock<'a> {
        Lock {
            arena: self.0.arena,
            word: self.long(offset),
            lower: self.word(offset),
        }
    }
}

// A word of those who sleep: how many there are, below a number that changes with each of them. One
// that goes must not take the others' wake-up with it, so the number changes then too.
const SLEEPERS: u32 = (1 << 10) - 1;
const TURN: u32 = SLEEPERS + 1;

fn armed(word: &AtomicU32) -> u32 {
    match word.load(Acquire) {
        nobody if nobody & SLEEPERS == 0 => 0,
        somebody => somebody,
    }
}

fn arm(word: &AtomicU32) {
    change(word, |seen| {
        let more = u32::from(seen & SLEEPERS != SLEEPERS);
        seen.wrapping_add(TURN).wrapping_add(more)
    });
}

fn disarm(word: &AtomicU32) {
    change(word, |seen| {
        let fewer = u32::from(seen & SLEEPERS != 0);
        seen.wrapping_add(TURN).wrapping_sub(fewer)
    });
}

fn change(word: &AtomicU32, mut next: impl FnMut(u32) -> u32) {
    let mut seen = word.load(Relaxed);
    while let Err(now) = word.compare_exchange_weak(seen, next(seen), AcqRel, Relaxed) {
        seen = now;
    }
}

#[cfg(test)]
mod tests;
