//! The channel: two processes of one user find each other by name, map each other's memory
//! read-only, and from then on exchange slots with no system call.
//!
//! ```text
//!   directory      <runtime>/gannet/<network>/<name>.sock, .lock
//!   handshake      one message each way: who I am, my layout, my memory, my doorbell
//!   driver         gannet_link::PeerDriver over the two memories, death notice, doorbell
//! ```
//! Trust: the directory and the socket admit processes of this user only. Even so nothing a peer
//! says or writes is believed: every message is checked, and the memory is read as [`gannet_link`]
//! reads all foreign memory. What a process of the same user can still do is what it can do anyway
//! with a signal: stop this one.
//!
//! Two processes may connect to each other at the same time; both channels then come up, and either
//! is whole. [`Channel::supersedes`] names the one that both sides keep.
//!
//! Not here: when to poll (the caller's event loop; [`crate::wait`] helps), time (an argument).
//!
//! * [`directory`]: where names live, and who owns one.
//! * [`message`]: the one message of the handshake, written and checked.
//! * [`handshake`]: both sides of it, without blocking. [`listener`], [`connector`]: its two users.
//! * [`driver`]: [`Channel`], the [`gannet_link::Driver`]. [`config`]: sizes and times.
//! * `sys`: memory files and credentials.

pub mod config;
pub mod connector;
pub mod directory;
pub mod driver;
pub mod handshake;
pub mod listener;
pub mod message;
mod sys;

pub(crate) use sys::{PeerCredentials, peer_credentials};

pub use config::{HugePages, Options};
pub use connector::Connector;
pub use directory::Directory;
pub use driver::{Channel, PipeDoorbell};
pub use handshake::Fault;
pub use listener::Listener;
