//! Stacks as a library: both ends of a TCP connection in one process on one core, over a device in
//! memory.
//!
//! * [`smoltcp`]: smoltcp at its best: no checksums, large packets, large buffers, no packet
//!   allocated anew

mod library;
pub mod smoltcp;

pub use library::run;
