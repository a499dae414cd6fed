//! Streams between the processes of one machine, for programs that know nothing of Gannet.
//!
//! * [`Arena`]: what the processes of one program have in common; `layout.rs` says where it lies
//! * [`slot`]: what is known of one socket
//! * [`options`]: socket options; [`Figures`]: what TCP knows of a connection
//! * [`Stream`]: bytes from one end to the other, in user space
//! * [`lock`]: among the threads and processes of one program; survives its holder's death
//! * [`news`]: which of many streams changed; [`bell`]: what wakes whoever waits for that
//! * [`meet`]: how two ends find each other; [`name`]: what they are called meanwhile;
//!   [`network`]: where those names lie, and which users may use them
//! * [`datagram`]: records of a stream that are datagrams; [`Record`]: one that was received
//! * [`log`]: which sockets were carried and which were not, for people
//! * [`Peers`]: the mapped arenas of other programs; [`service`]: what is asked of the carrier
//! * [`Heap`]: memory without locks, for what runs inside of other programs
//! * [`sandbox`]: processes that gave up most system calls
//! * [`Turns`]: who accepts, where several processes share a listener
//! * [`Spin`]: how long to look before sleeping
//!
//! Why it is like this: `docs/decisions/programs.md`.
#![deny(unsafe_code)]

mod arena;
pub mod bell;
pub mod credentials;
pub mod datagram;
mod fault;
mod figures;
pub mod guarded;
mod heap;
mod layout;
mod lingering;
pub mod lock;
pub mod log;
pub mod meet;
mod memory;
pub mod name;
pub mod network;
pub mod news;
pub mod options;
#[cfg(test)]
mod pair;
mod peers;
mod records;
mod room;
pub mod sandbox;
pub mod service;
mod slices;
pub mod slot;
mod spin;
mod stream;
mod turns;
mod urgent;

pub use arena::{Arena, Claim, HostId, Made, TRANSIT, UNKNOWN, file_name, pid_namespace};
pub use figures::Figures;
pub use heap::Heap;
pub use layout::{Geometry, PROCESSES};
pub use lingering::Lingering;
pub use memory::lock_future;
pub use network::Network;
pub use news::Watcher;
pub use options::Opt;
pub use peers::Peers;
pub use records::Record;
pub use room::with_room;
pub use spin::Spin;
pub use stream::{Drained, Hindrance, Readiness, Span, Stream, carrier_share, drain, wake};
pub use turns::{Patience, Turns};
