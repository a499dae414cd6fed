//! What moves slots between an endpoint and the world outside this process.
//!
//! Not here: protocols (a driver knows where a checksum goes because the slot says so), time,
//! retransmission, fairness. Frames that cannot be sent or received are dropped and counted.
//!
//! * [`capture`]: wraps any driver and writes what passes to a file, or prints it.
//! * [`channel`]: process to process through memory, no system call per frame.
//! * [`interface`]: network interfaces of the kernel: look, set up, explain errors.
//! * [`packet`]: a network interface through an AF_PACKET socket.
//! * `sys`: memory mappings, for every driver that shares memory with somebody.
//! * [`tap`]: a TUN or TAP device: the kernel of this machine at the other end.
//! * [`virtio`]: what both share: frames with a virtio-net header to and from the kernel.
//! * [`wait`]: spin for a bounded while, then sleep on descriptors.

#![deny(unsafe_code)]

pub mod capture;
pub mod channel;
pub mod interface;
pub mod packet;
mod sys;
pub mod tap;
pub mod virtio;
pub mod wait;

pub use channel::{Channel, Connector, Directory, Listener};
