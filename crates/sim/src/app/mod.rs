//! What the processes of simulated hosts do: state machines over the calls of the stack. Each
//! judges at once what the stack hands it.
//!
//! * [`cx`]: [`Cx`]: what a process can reach.
//! * [`plan`]: [`Talk`], [`Side`], [`Datagrams`]: what is to be done.
//! * [`ledger`]: [`Ledger`]: what was sent and received, and what should not have happened.
//! * [`talker`]: one end of a TCP connection.
//! * [`door`]: a listener.
//! * [`datagram`]: both ends of a UDP exchange.

pub mod cx;
pub mod datagram;
pub mod door;
pub mod ledger;
pub mod plan;
pub mod talker;

pub use cx::Cx;
pub use ledger::{End, Ledger};
pub use plan::{Datagrams, Ending, Side, Talk, Turn};
