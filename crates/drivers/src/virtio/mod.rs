//! Frames with a virtio-net header in front, to and from the kernel: what a packet socket and a
//! TUN/TAP device have in common.
//!
//! ```text
//! out:  slot -> Outgoing (header + slot) -> iovecs over inline bytes and segment -> kernel copies
//! in:   kernel copies -> [10-byte header][armed blocks of the stock ...] -> slot -> Frame
//! small frames of a packet socket: kernel copies -> its receive ring -> copied -> slot -> Frame
//! ```
//! But for those the kernel copies once each way, straight out of and into the segment, and the
//! copy is over when the call returns: blocks come back at once. Copying less is not to be had:
//! `MSG_ZEROCOPY` does not exist for packet sockets or TUN, and frames from a `PACKET_TX_RING`
//! would have to lie in one piece there, and are copied by the kernel all the same as soon as a
//! local socket receives them.
//!
//! * `driver.rs`: [`VirtioDriver`], the driver over any [`Port`].
//! * `header.rs`: what a slot says in the words of the header, and back.
//! * `stock.rs`: armed blocks, and where in them the next frame goes.
//! * `sys.rs`: scatter and gather calls over the segment.

mod driver;
mod header;
mod stock;
pub(crate) mod sys;

pub(crate) use header::HEADER;

pub use driver::{DropReason, Front, Port, SegmentSize, VirtioDriver};
pub use sys::Call;
