//! TCP (RFC 9293 and the documents around it).
//!
//! Leaf modules: pure, each understandable alone. None of them sends, receives or reads a clock.
//!
//! | file | job |
//! |---|---|
//! | `seq.rs` | sequence numbers modulo 2^32 |
//! | `rtt.rs` | round-trip time and retransmission time-out |
//! | `congestion.rs` | congestion window: slow start, avoidance, recovery, idle restart |
//! | `sack.rs` | the sender's scoreboard of selectively acknowledged ranges |
//! | `sack_blocks.rs` | the receiver's choice of blocks to report |
//! | `assembler.rs` | out-of-order pieces waiting for the hole before them |
//! | `window.rs` | window scaling, silly-window avoidance, Nagle, zero-window probes |
//! | `autotune.rs` | growth of the receive buffer with the speed of the flow |
//! | `isn.rs` | initial sequence numbers, time stamp offsets, ephemeral ports |

mod api;
pub mod assembler;
pub mod autotune;
pub mod congestion;
mod connection;
pub mod counters;
pub mod error;
mod handshake;
mod header;
mod icmp;
mod info;
mod input;
#[cfg(any(test, feature = "testing"))]
mod invariants;
pub mod isn;
mod notice;
mod output;
mod recv;
mod recv_queue;
mod reset;
pub mod rtt;
pub mod sack;
pub mod sack_blocks;
mod segment;
mod send;
mod send_queue;
pub mod seq;
pub mod socket;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
mod timers;
mod transitions;
pub mod window;

pub use counters::{TcpCounters, TcpEvent};
pub use error::{ConnectError, ListenError, RecvError, SendError, TcpError};
pub use icmp::{IcmpError, IcmpErrorKind};
pub use socket::{
    ListenerId, ReceivedBlock, Shutdown, TcpId, TcpInfo, TcpOption, TcpReady, TcpState, TcpStatus,
};
pub use tcp::Tcp;
