//! Gannet: networking in user space, with the interface of `std::net`.
//!
//! A [`Host`] has links (channels to other processes, interfaces, TAP devices) and addresses.
//! [`TcpListener`], [`TcpStream`] and [`UdpSocket`] take one where `std::net` takes none, and
//! behave as there; what std does not have is told apart in their descriptions. [`Poller`] waits
//! for many.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! use gannet::{Host, TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! let network = format!("doc-lib-{}", std::process::id());
//! let server = Host::builder().channel(&network, "10.0.0.1/24").build()?;
//! let listener = TcpListener::bind(&server, "10.0.0.1:7")?;
//! let echo = std::thread::spawn(move || {
//!     let (mut stream, _) = listener.accept()?;
//!     std::io::copy(&mut stream.try_clone()?, &mut stream)
//! });
//!
//! // Another process would do the same with another address.
//! let client = Host::builder().channel(&network, "10.0.0.2/24").build()?;
//! let mut stream = TcpStream::connect(&client, "10.0.0.1:7")?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut back = String::new();
//! stream.read_to_string(&mut back)?;
//! assert_eq!(back, "hello");
//! assert_eq!(echo.join().unwrap()?, 5);
//! # Ok(())
//! # }
//! ```
//!
//! Not here: name service of its own, `fork` (a child process must make a host of its own),
//! packets from a host to itself.
//!
//! | file | job |
//! |---|---|
//! | `builder.rs`, `host.rs` | a host is made, and ends |
//! | `lease.rs`, `identity.rs` | addresses from a DHCP server, and by what it knows the host |
//! | `event_loop.rs` | one turn: in, due, out, tell |
//! | `waiting.rs` | calls wait: spin, lead, follow; the background thread |
//! | `watch.rs` | what only the kernel can tell |
//! | `shard.rs` | what the lock protects |
//! | `driver.rs` | every driver behind one type |
//! | `network.rs` | channels made when they are needed |
//! | `dialling.rs` | channels that no call waits for |
//! | `connect.rs` | how TCP connections are opened |
//! | `tcp_listener.rs`, `tcp_stream.rs`, `udp_socket.rs` | sockets |
//! | `blocks.rs` | sending and receiving without copies |
//! | `poller.rs` | readiness of many sockets |
//! | `gather.rs` | what many calls send leaves together |
//! | `settings/` | settings as text, from profiles, files and the environment |
//! | `deadline.rs`, `address.rs`, `error.rs`, `clock.rs` | time-outs, addresses, errors, time |
#![forbid(unsafe_code)]

mod address;
mod blocks;
mod builder;
mod clock;
mod connect;
mod deadline;
mod dialling;
mod driver;
mod error;
mod event_loop;
mod gather;
mod host;
mod identity;
mod lease;
mod network;
mod poller;
pub mod settings;
mod shard;
mod tcp_listener;
mod tcp_stream;
mod udp_socket;
mod waiting;
mod watch;

pub use blocks::{RecvBlock, SendBlock};
pub use builder::HostBuilder;
pub use connect::Connect;
pub use error::{Failure, os_code};
pub use gather::Gathering;
pub use host::{Counts, Host};
pub use lease::Lease;
pub use poller::{Event, Interest, Poller, Source, Waker};
pub use tcp_listener::{Incoming, ListenOptions, TcpListener};
pub use tcp_stream::TcpStream;
pub use udp_socket::UdpSocket;

pub use gannet_drivers::channel::Options as ChannelOptions;
pub use gannet_stack::tcp::{BusyTimes, ControlState, LossState, TcpInfo, TcpState};
pub use gannet_stack::udp::{Datagram, PathMtuDiscovery, WhenFull};
pub use gannet_stack::{CongestionControl, EcnMode, Pacing, UnknownCongestionControl};
pub use gannet_stack::{
    DhcpConfig, DropReason, Drops, FastOpenConfig, MtuProbing, Statistics, SynCookies, TcpConfig,
    Traffic, UdpConfig, UserTimeoutConfig,
};
