//! What applications are to do.

use core::time::Duration;

use gannet_base::Instant;

use crate::address::Family;

/// Conversations over TCP between two hosts, one after the other.
#[derive(Clone, Debug)]
pub struct Talk {
    /// The host that connects.
    pub client: usize,
    /// The host that listens.
    pub server: usize,
    /// Over which version of IP.
    pub family: Family,
    /// The port it listens on.
    pub port: u16,
    /// The port that the client calls from, each time; `None`: any.
    pub client_port: Option<u16>,
    /// When the first connection is made.
    pub begins: Instant,
    /// How many connections, each when the one before is over.
    pub times: u32,
    /// What the client does.
    pub up: Side,
    /// What the server does.
    pub down: Side,
}

/// What one end of a connection does.
#[derive(Clone, Debug)]
pub struct Side {
    /// Bytes it sends.
    pub total: u64,
    /// Most bytes of one write.
    pub chunk: usize,
    /// Most bytes of one read.
    pub read: usize,
    /// Rest after each write.
    pub beat: Duration,
    /// Rest after each read.
    pub pause: Duration,
    /// Stops reading after so many bytes, for so long.
    pub stall: Option<(u64, Duration)>,
    /// Sends only in turn.
    pub turn: Option<Turn>,
    /// How it ends.
    pub ending: Ending,
    /// Takes received bytes in place rather than as copies.
    pub in_place: bool,
    /// Small segments never wait.
    pub no_delay: bool,
    /// Acts only when told that the socket is ready; otherwise at every opportunity.
    pub waits_for_news: bool,
}

/// Speaking in turn: `mine` bytes for every `theirs` received.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Bytes of each of its messages.
    pub mine: u64,
    /// Bytes of each message of the other side.
    pub theirs: u64,
    /// Speaks first.
    pub first: bool,
}

/// How an end of a connection ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Sends everything, shuts down sending, reads to the end, closes.
    Graceful,
    /// Closes after so many bytes received, whatever is unread or unsent.
    CloseAfter(u64),
    /// Resets after so many bytes received.
    AbortAfter(u64),
}

/// Datagrams from one host to another.
#[derive(Clone, Debug)]
pub struct Datagrams {
    /// The host that sends.
    pub from: usize,
    /// The host that receives.
    pub to: usize,
    /// Over which version of IP.
    pub family: Family,
    /// The port it receives on.
    pub port: u16,
    /// When the first is sent.
    pub begins: Instant,
    /// How many.
    pub count: u64,
    /// Bytes of each, at least 8.
    pub size: usize,
    /// Time between them.
    pub gap: Duration,
}

impl Side {
    /// Sends `total` bytes and reads as fast as they come.
    pub fn sends(total: u64) -> Self {
        Side {
            total,
            chunk: 64 << 10,
            read: 256 << 10,
            beat: Duration::ZERO,
            pause: Duration::ZERO,
            stall: None,
            turn: None,
            ending: Ending::Graceful,
            in_place: false,
            no_delay: false,
            waits_for_news: true,
        }
    }
}
