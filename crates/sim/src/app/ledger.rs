//! What applications sent and received, written down by both ends; and what should not have
//! happened.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use gannet_base::Instant;
use gannet_stack::tcp::TcpError;

/// Most failures that are written down: the first ones tell.
const FAILURES_MAX: usize = 8;

/// How an end of a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It did all that it was to do.
    Done,
    /// It broke off, as planned.
    BrokeOff,
    /// The connection failed.
    Failed(TcpError),
    /// Its host, or its process, died.
    Died,
}

/// One connection, as its two ends see it: index 0 is the client's, 1 the server's.
#[derive(Clone, Debug)]
pub struct Conn {
    /// Which conversation of the plan.
    pub talk: usize,
    /// The addresses of client and server.
    pub ends: [SocketAddr; 2],
    /// Bytes that the stack took.
    pub sent: [u64; 2],
    /// Bytes that the stack gave.
    pub received: [u64; 2],
    /// When the stack last took and gave bytes.
    pub wrote_at: [Instant; 2],
    /// See `wrote_at`.
    pub read_at: [Instant; 2],
    /// Small segments never wait.
    pub no_delay: [bool; 2],
    /// Sending was shut down.
    pub shut: [bool; 2],
    /// How each end ended.
    pub over: [Option<End>; 2],
    /// The server was handed the connection.
    pub accepted: bool,
    /// Somebody broke off or died: errors are to be expected.
    pub disturbed: bool,
}

/// Everything written down.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Every connection that was begun.
    pub conns: Vec<Conn>,
    /// What should not have happened.
    pub failures: Vec<String>,
    /// Conversations and exchanges still going on.
    pub open: usize,
    /// A failed connection attempt is to be expected: there are outages.
    pub outages: bool,
    /// Bits are flipped that no checksum can show: contents are not judged.
    pub unseen: bool,
    /// Bits are flipped: in a datagram of several fragments several, and one sum over all of them
    /// may not show it.
    pub corrupts: bool,
    /// The shortest time from one host to another and back.
    pub round_trip: Duration,
    /// Ports on which datagrams were received.
    pub heard: BTreeSet<u16>,
    /// Datagrams sent and received.
    pub datagrams: (u64, u64),
}

impl Ledger {
    /// Writes down a failure.
    pub fn fail(&mut self, text: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(text);
        }
    }

    /// A new connection of a conversation.
    pub fn begin(&mut self, talk: usize, ends: [SocketAddr; 2], no_delay: [bool; 2]) -> usize {
        self.conns.push(Conn {
            talk,
            ends,
            sent: [0; 2],
            received: [0; 2],
            wrote_at: [Instant::ZERO; 2],
            read_at: [Instant::ZERO; 2],
            no_delay,
            shut: [false; 2],
            over: [None; 2],
            accepted: false,
            disturbed: false,
        });
        self.conns.len() - 1
    }

    /// The connection between these ends that was begun last and nobody accepted.
    pub fn accept(&mut self, ends: [SocketAddr; 2]) -> Option<usize> {
        let index = self.conns.iter().rposition(|conn| conn.ends == ends)?;
        let conn = self.conns.get_mut(index).filter(|conn| !conn.accepted)?;
        conn.accepted = true;
        Some(index)
    }

    /// The latest connection between these ends, and which of them the first is.
    pub fn place_of(&self, (ours, theirs): (SocketAddr, SocketAddr)) -> Option<(usize, usize)> {
        let mut conns = self.conns.iter().enumerate().rev();
        conns.find_map(|(index, conn)| match conn.ends {
            ends if ends == [ours, theirs] => Some((index, 0)),
            ends if ends == [theirs, ours] => Some((index, 1)),
            _ => None,
        })
    }

    /// A connection.
    pub fn conn(&mut self, index: usize) -> Option<&mut Conn> {
        self.conns.get_mut(index)
    }

    /// Bytes received by applications.
    pub fn bytes(&self) -> u64 {
        self.conns.iter().flat_map(|conn| conn.received).sum()
    }

    /// What must be true of connections when nothing goes on any more.
    pub fn judge_the_end(&mut self) {
        if self.unseen {
            return;
        }
        let mut failures = Vec::new();
        for conn in self.conns.iter().filter(|conn| !conn.disturbed) {
            let done = conn.over == [Some(End::Done); 2];
            let whole = (conn.sent[0], conn.sent[1]) == (conn.received[1], conn.received[0]);
            if done && !whole {
                failures.push(format!("bytes are missing at the end: {conn:?}"));
            }
        }
        for failure in failures {
            self.fail(failure);
        }
    }
}
