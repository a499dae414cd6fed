//! The carrier: the process that owns the stack for one program and everything it starts.
//!
//! It makes the memory that the program's processes share, answers their questions, sees to what
//! dead processes leave behind, and is their way to everything that is not a program of the same
//! network: it is just another peer, which joins streams of `gannet-local` to TCP connections and
//! datagrams of a [`gannet::Host`].
//!
//! ```text
//! program's stream --- ring, ring --- slot of the gateway's arena | TcpStream --- link
//! ```
//! One thread moves all data: see `carrier.rs`, whose loop is the index of the rest.
//! Should the carrier die, the programs go on with each other; streams through it end.
//!
//! | file | job |
//! |---|---|
//! | `config.rs` | what a carrier is told |
//! | `start.rs` | another process starts it, and waits until it is ready |
//! | `inherited.rs` | what it was started with, and does not keep open |
//! | `last_words.rs` | what it leaves behind when it fails |
//! | `serve.rs` | it begins, and ends |
//! | `host.rs` | its stack: link, address, routes |
//! | `default_route.rs` | which router leads to everything else |
//! | `link_watch.rs` | whether the interface is switched on |
//! | `carrier.rs` | the event loop |
//! | `kernel.rs` | what only the kernel can tell |
//! | `gateway.rs` | streams to the carrier, and their ends |
//! | `flow.rs`, `tcp.rs`, `udp.rs` | one stream and what it is joined to |
//! | `figures.rs` | what TCP knows of them, for the program and for people |
//! | `tcp_options.rs` | socket options that its connections heed |
//! | `doors.rs` | listeners of the program at the links |
//! | `processes.rs` | who lives |
//! | `janitor.rs` | slots that nobody holds any more |
//! | `kept.rs` | hidden descriptors of sockets that travel in messages |
//! | `questions.rs` | what processes ask |
//! | `introductions.rs` | connections of programs that an acceptor does not know yet |
//! | `strangers.rs` | the memory of other programs |
//! | `listing.rs` | its sockets, for `gannet ss` |
#![deny(unsafe_code)]

mod carrier;
mod config;
mod default_route;
mod doors;
mod figures;
mod flow;
mod gateway;
mod host;
mod inherited;
mod introductions;
mod janitor;
mod kept;
mod kernel;
mod last_words;
mod link_watch;
mod listing;
mod processes;
mod questions;
mod serve;
mod start;
mod strangers;
mod tcp;
mod tcp_options;
mod udp;

pub use config::Config;
pub use inherited::Inherited;
pub use serve::{Trouble, serve};
pub use start::{Started, carry, start};
