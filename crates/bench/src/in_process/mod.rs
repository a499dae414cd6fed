//! Stacks as a library: both ends of a TCP connection in one process on one core, over a device in
//! memory.
//!
//! * [`gannet`]: two hosts on a channel, driven by one thread; copied in and out, or in place
//! * [`smoltcp`]: smoltcp at its best: no checksums, large packets, large buffers, no packet
//!   allocated anew
//! * `tally.rs`: what the reader of either keeps account of
//! * [`two_copies`]: no stack, only the copies
//! * [`instructions`]: what one segment costs, counted, not timed
//! * [`attacks`]: what hostile packets cost, against ordinary ones
//! * `valgrind.rs`: who counts

pub mod attacks;
pub mod gannet;
pub mod instructions;
mod library;
pub mod smoltcp;
mod tally;
pub mod two_copies;
mod valgrind;

pub use library::run;
