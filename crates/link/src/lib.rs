//! The endpoint: a segment of memory cut into blocks, four rings, and the driver that moves slots
//! between them and the world. The only place where memory is shared with other processes.
//!
//! ```text
//!   own memory (read-only to the peer)              peer's memory (read-only to us)
//!   +------------+------------+---------+           +------------+------------+---------+
//!   | send slots | completions| blocks  |           | send slots | completions| blocks  |
//!   +-----|------+-----|------+----|----+           +-----|------+-----|------+----|----+
//!         v            v           v                      v            v           v
//!     to the peer  "I am done   payload it           our receive   our TX blocks  payload we
//!                  with yours"  may read             ring          come back      may read
//! ```
//!
//! Each process writes only its own memory, so a peer can lie but not corrupt. Everything read from
//! a peer is copied once into private memory and checked before it means anything.
//!
//! Not here: protocols, system calls, time. Memory comes from a driver (or the heap, for tests).
//!
//! * [`segment`]: memory, and the two ways to look at it: [`OwnBlocks`], [`PeerBlocks`].
//! * [`pool`]: which block is free, shared, in flight.
//! * [`slot`]: the 128-byte entry, untrusted; [`frame`]: the same after the check.
//! * [`ring`]: single-producer single-consumer rings and the sleep flag. [`layout`]: where they
//!   lie.
//! * [`driver`]: the [`Driver`] trait and [`Capabilities`].
//! * [`peer`]: the driver between two memories, in one process or two. [`endpoint`]: pool + driver.
//! * [`loopback`]: the driver that leads back to ourselves.
//! * [`sync`]: the atomics, so that loom can replace them.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, loom))]
extern crate std;

pub mod driver;
pub mod endpoint;
pub mod frame;
pub mod layout;
pub mod loopback;
pub mod peer;
pub mod pool;
pub mod ring;
pub mod segment;
pub mod slot;
pub mod sync;

pub use driver::{Capabilities, Checksum, Driver, LinkState, Medium};
pub use endpoint::{Endpoint, Full};
pub use frame::{Frame, RxChecksum, SlotFault};
pub use layout::Layout;
pub use loopback::LoopDriver;
pub use peer::{Doorbell, NoDoorbell, PeerDriver, pair};
pub use pool::{Arena, Audit, BlockId, OwnedBlock, Pool};
pub use segment::{HeapMemory, Memory, OwnBlocks, PeerBlocks, Range, Space, View};
pub use slot::Slot;
