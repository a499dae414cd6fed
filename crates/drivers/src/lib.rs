//! What moves slots between an endpoint and the world outside this process.
//!
//! Not here: protocols (a driver knows where a checksum goes because the slot says so), time,
//! retransmission, fairness. Frames that cannot be sent or received are dropped and counted.
//!
//! * [`interface`]: network interfaces of the kernel: look, set up, explain errors.
//! * [`packet`]: a network interface through an AF_PACKET socket.
//! * [`virtio`]: frames with a virtio-net header to and from the kernel.

#![deny(unsafe_code)]

pub mod interface;
pub mod packet;
pub mod virtio;
