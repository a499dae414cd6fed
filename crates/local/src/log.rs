//! Which sockets of a program were carried, and which were left to the kernel and why: for people,
//! written only when somebody wants to know it (`gannet run -v`).
//!
//! Entries are taken by a counter and never given back, so that no lock is needed: whoever finds
//! no finished entry like his takes a new one, writes it, and says that it is ready. Two that do
//! so at once write the same twice, which the reader adds up; one that dies meanwhile leaves an
//! entry that is never ready.

use crate::arena::Arena;
use crate::layout::{LOG_ENTRIES, header, log as at};
use crate::slot::{address_of, words_of};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Something became of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What became of it.
    pub fate: Fate,
    /// By which call.
    pub role: Role,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its own address when it listens, is bound or was accepted, else where it wants to go.
    pub address: Option<SocketAddr>,
}

/// What became of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Carried, between two programs; or open for them.
    Direct,
    /// Carried, by the carrier.
    Carrier,
    /// Left to the kernel.
    Left(Reason),
    /// Neither: the call failed.
    Failed(Reason),
}

/// The call that decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `listen`.
    Listen,
    /// `accept`.
    Accept,
    /// `connect`.
    Connect,
    /// `bind`, of datagrams.
    Bind,
    /// The first `sendto`.
    Send,
    /// `socket`.
    Make,
    /// None: the program's start.
    Start,
}

impl Role {
    const ALL: [Role; 7] = [
        Role::Listen,
        Role::Accept,
        Role::Connect,
        Role::Bind,
        Role::Send,
        Role::Make,
        Role::Start,
    ];
}

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Any other.
    Other,
}

impl Protocol {
    const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Other];
}

/// Why a socket was not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The address is in no network of Gannet's.
    AddressNotOurs,
    /// A loopback address on which no program of the network listens.
    NoListener,
    /// Another program of the network listens on the loopback address already.
    ListenerTaken,
    /// The other end of an accepted connection is a socket of the kernel's.
    KernelPeer,
    /// Datagrams on loopback addresses.
    LoopbackDatagrams,
    /// A Unix socket.
    UnixSocket,
    /// A family that is no network of IP.
    OtherFamily,
    /// A raw socket.
    RawSocket,
    /// Neither TCP nor UDP.
    OtherProtocol,
    /// The arena is full.
    StreamsExhausted,
    /// The number of the descriptor is higher than any the library can watch.
    DescriptorTooHigh,
    /// The carrier is gone.
    NoCarrier,
    /// No memory.
    OutOfMemory,
    /// Of a whole program: only calls by the C library's names are taken over.
    NamesOnly,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 14] = [
        Reason::AddressNotOurs,
        Reason::NoListener,
        Reason::ListenerTaken,
        Reason::KernelPeer,
        Reason::LoopbackDatagrams,
        Reason::UnixSocket,
        Reason::OtherFamily,
        Reason::RawSocket,
        Reason::OtherProtocol,
        Reason::StreamsExhausted,
        Reason::DescriptorTooHigh,
        Reason::NoCarrier,
        Reason::OutOfMemory,
        Reason::NamesOnly,
    ];

    /// Its code, as `gannet explain` takes it.
    pub fn code(self) -> &'static str {
        match self {
            Reason::AddressNotOurs => "address-not-ours",
            Reason::NoListener => "no-listener",
            Reason::ListenerTaken => "listener-taken",
            Reason::KernelPeer => "kernel-peer",
            Reason::LoopbackDatagrams => "loopback-datagrams",
            Reason::UnixSocket => "unix-socket",
            Reason::OtherFamily => "other-family",
            Reason::RawSocket => "raw-socket",
            Reason::OtherProtocol => "other-protocol",
            Reason::StreamsExhausted => "streams-exhausted",
            Reason::DescriptorTooHigh => "descriptor-too-high",
            Reason::NoCarrier => "no-carrier",
            Reason::OutOfMemory => "out-of-memory",
            Reason::NamesOnly => "names-only",
        }
    }
}

impl Fate {
    fn pack(self) -> u8 {
        match self {
            Fate::Direct => 0,
            Fate::Carrier => 1,
            Fate::Left(reason) => 64 + reason as u8,
            Fate::Failed(reason) => 128 + reason as u8,
        }
    }

    fn unpack(byte: u8) -> Option<Fate> {
        let reason = |n: u8| Reason::ALL.get(usize::from(n)).copied();
        match byte {
            0 => Some(Fate::Direct),
            1 => Some(Fate::Carrier),
            2..64 => None,
            64..128 => reason(byte - 64).map(Fate::Left),
            128.. => reason(byte - 128).map(Fate::Failed),
        }
    }
}

/// One word for what, three for where. No family: no address.
type Words = (u32, [u64; 3]);

impl Event {
    fn pack(self) -> Words {
        let Event {
            fate,
            role,
            protocol,
            address,
        } = self;
        let what = [fate.pack(), role as u8, protocol as u8, 0];
        let address = address.map_or([0; 3], words_of);
        (u32::from_le_bytes(what), address)
    }

    fn unpack((what, address): Words) -> Option<Event> {
        let [fate, role, protocol, _] = what.to_le_bytes();
        let some = address.first().is_some_and(|head| head >> 16 != 0);
        Some(Event {
            fate: Fate::unpack(fate)?,
            role: *Role::ALL.get(usize::from(role))?,
            protocol: *Protocol::ALL.get(usize::from(protocol))?,
            address: some.then(|| address_of(address)),
        })
    }
}

/// An event of the log, and how often it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// What happened.
    pub event: Event,
    /// To how many sockets.
    pub count: u64,
    /// The process of the first of them.
    pub pid: u32,
}

/// What a log has in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Events, each once.
    pub events: Vec<Logged>,
    /// Sockets of whose events there was no room to tell.
    pub missed: u32,
}

impl Arena {
    /// From now on the log is written.
    pub fn want_log(&self) {
        self.memory.word(header::LOG_WANTED).store(1, Release);
    }

    /// Whether somebody wants the log.
    #[inline]
    pub fn log_wanted(&self) -> bool {
        self.memory.word(header::LOG_WANTED).load(Relaxed) != 0
    }

    /// Notes an event of process `pid`, unless nobody wants to know.
    pub fn note(&self, event: Event, pid: u32) {
        if !self.log_wanted() {
            return;
        }
        let words = event.pack();
        let taken = self.memory.word(header::LOG_TAKEN);
        let known = (taken.load(Acquire) as usize).min(LOG_ENTRIES);
        let same = (0..known).find(|&n| self.entry(n).is_some_and(|found| found == words));
        if let Some(n) = same {
            self.entry_word(n, at::COUNT).fetch_add(1, Relaxed);
            return;
        }
        // Looked at first, so that the counter cannot wrap.
        let n = match known < LOG_ENTRIES {
            true => taken.fetch_add(1, Relaxed) as usize,
            false => LOG_ENTRIES,
        };
        if n >= LOG_ENTRIES {
            self.memory.word(header::LOG_MISSED).fetch_add(1, Relaxed);
            return;
        }
        let (what, address) = words;
        for (offset, word) in (at::ADDRESS..).step_by(8).zip(address) {
            let place = self.geometry().log_entry(n) + offset;
            self.memory.long(place).store(word, Relaxed);
        }
        self.entry_word(n, at::WHAT).store(what, Relaxed);
        self.entry_word(n, at::PID).store(pid, Relaxed);
        self.entry_word(n, at::COUNT).store(1, Relaxed);
        self.entry_word(n, at::READY).store(1, Release);
    }

    /// What is in the log. Entries that make no sense are left out.
    pub fn log(&self) -> Log {
        let taken = self.memory.word(header::LOG_TAKEN).load(Acquire);
        let mut log = Log {
            events: Vec::new(),
            missed: self.memory.word(header::LOG_MISSED).load(Relaxed),
        };
        for n in 0..(taken as usize).min(LOG_ENTRIES) {
            let Some(event) = self.entry(n).and_then(Event::unpack) else {
                continue;
            };
            let count = u64::from(self.entry_word(n, at::COUNT).load(Relaxed));
            let pid = self.entry_word(n, at::PID).load(Relaxed);
            match log.events.iter_mut().find(|known| known.event == event) {
                Some(known) => known.count += count,
                None => log.events.push(Logged { event, count, pid }),
            }
        }
        log
    }

    /// Entry `n`, if it is ready.
    fn entry(&self, n: usize) -> Option<Words> {
        if self.entry_word(n, at::READY).load(Acquire) == 0 {
            return None;
        }
        let what = self.entry_word(n, at::WHAT).load(Relaxed);
        let long = |offset| self.memory.long(self.geometry().log_entry(n) + offset);
        let address = [at::ADDRESS, at::ADDRESS + 8, at::ADDRESS + 16];
        Some((what, address.map(|offset| long(offset).load(Relaxed))))
    }

    fn entry_word(&self, n: usize, offset: usize) -> &std::sync::atomic::AtomicU32 {
        self.memory.word(self.geometry().log_entry(n) + offset)
    }
}

#[cfg(test)]
mod tests;
