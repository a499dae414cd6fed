//! A network interface through an AF_PACKET socket with virtio-net headers.
//!
//! The interface stays the kernel's: what arrives reaches both. Give the interface no address of
//! the same network, or the kernel answers too (with resets to TCP segments it knows no socket
//! for).
//!
//! * `socket.rs`: [`PacketDriver`]: opening, capabilities, state.
//! * `ring.rs`: memory that the kernel puts small frames into.
//! * `claim.rs`: [`Claim`]: what programs of one interface must not share.
//! * `sys.rs`: socket options, addresses and memory that only libc speaks.

mod claim;
mod ring;
mod socket;
mod sys;

pub use claim::{Claim, Holder, interface_number};
pub use socket::{Options, PacketDriver, PacketSocket};
