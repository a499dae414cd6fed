//! TCP (RFC 9293 and the documents around it).
//!
//! Leaf modules: pure, each understandable alone. None of them sends, receives or reads a clock.
//!
//! | file | job |
//! |---|---|
//! | `seq.rs` | sequence numbers modulo 2^32 |
//! | `rtt.rs` | round-trip time and retransmission time-out |
//! | `ecn.rs` | explicit congestion notification: who is told what, once |
//! | `congestion.rs` | congestion window: slow start, avoidance, recovery, idle restart |
//! | `sent.rs` | what was sent and when, and what became of it |
//! | `rack.rs` | which transmission arrived last, and how long others may be late |
//! | `sack.rs` | the SACK blocks that arrive |
//! | `sack_blocks.rs` | the receiver's choice of blocks to report |
//! | `assembler.rs` | out-of-order pieces waiting for the hole before them |
//! | `window.rs` | window scaling, silly-window avoidance, Nagle, zero-window probes |
//! | `autotune.rs` | growth of the receive buffer with the speed of the flow |
//! | `transitions.rs` | the states of RFC 9293 and what moves between them |
//! | `isn.rs` | initial sequence numbers, time stamp offsets, ephemeral ports |
//! | `cookie.rs` | SYN cookies |
//!
//! A connection is two halves that share no field; a segment takes the steps of RFC 9293 section
//! 3.10.7.
//!
//! | file | job |
//! |---|---|
//! | `engine.rs` | [`Tcp`]: whose time has come, who owes output, what follows from a change |
//! | `api.rs` | the calls |
//! | `demux.rs` | who gets a segment: a connection, a listener, or nobody |
//! | `table.rs` | connections, by id and by ends |
//! | `listeners.rs` | listening sockets, and which a SYN is for |
//! | `ends.rs` | both ends of a connection in 36 bytes |
//! | `connection.rs` | one connection: addresses, state |
//! | `dormant.rs` | connections at rest, folded small |
//! | `settings.rs` | what the application set |
//! | `listen.rs` | LISTEN: SYNs, requests, cookies, the accept queue |
//! | `request.rs` | half-open connections, small |
//! | `handshake.rs` | SYN-SENT and SYN-RECEIVED |
//! | `offer.rs` | what SYNs offer: what the peer's said, what we want |
//! | `start_over.rs` | connections begun before there is a link to their peer |
//! | `fast_open.rs` | data in the SYN (RFC 7413) |
//! | `user_timeout.rs` | how long unanswered data is waited for (RFC 5482) |
//! | `input.rs` | a segment arrives in a synchronised state |
//! | `recv.rs`, `recv_queue.rs` | the receiving half |
//! | `notice.rs` | what the receiving half tells the sending half |
//! | `send.rs`, `send_queue.rs` | the sending half |
//! | `output.rs`, `header.rs` | the one door out |
//! | `bare.rs` | resets and acknowledgements beside it, held while a neighbour is resolved |
//! | `pressure.rs` | what happens when memory runs short |
//! | `orphans.rs` | those that nobody holds: how many there may be |
//! | `timers.rs` | whose time has come: what it does |
//! | `reset.rs`, `icmp.rs` | resets for strangers; ICMP errors |
//! | `segment.rs` | a segment that arrived, parsed |
//! | `socket.rs`, `info.rs`, `error.rs`, `counters.rs` | what callers hold and see |
//! | `invariants.rs` | what must hold between two calls |

mod api;
pub mod assembler;
pub mod autotune;
mod bare;
mod black_hole;
pub mod congestion;
mod connection;
mod cookie;
pub mod counters;
mod demux;
mod dormant;
mod ecn;
mod ends;
mod engine;
pub mod error;
mod fast_open;
mod handshake;
mod header;
mod icmp;
mod info;
mod input;
#[cfg(any(test, feature = "testing"))]
mod invariants;
pub mod isn;
mod listen;
mod listeners;
mod notice;
mod offer;
mod orphans;
mod output;
mod pressure;
pub mod rack;
mod recv;
mod recv_queue;
mod request;
mod reset;
pub mod rtt;
pub mod sack;
pub mod sack_blocks;
mod segment;
mod send;
mod send_queue;
pub mod sent;
pub mod seq;
pub mod settings;
mod socket;
mod start_over;
mod table;
#[cfg(test)]
mod tests;
mod timers;
mod transitions;
mod user_timeout;
pub mod window;

pub use counters::{TcpCounters, TcpEvent};
pub use engine::Tcp;
pub use error::{ConnectError, ListenError, RecvError, SendError, TcpError};
pub use icmp::{IcmpError, IcmpErrorKind};
pub use send::{Busy, BusyTimes};
pub use socket::{
    ControlState, ListenerId, LossState, ReceivedBlock, Shutdown, TcpId, TcpInfo, TcpOption,
    TcpReady, TcpState, TcpStatus,
};
