//! TCP/IP and UDP/IP without clock or operating system: time is an argument, packets go in and out.
//!
//! What it does not do: read a clock, call the operating system, allocate per packet, know a
//! driver.
//!
//! | file | job |
//! |---|---|
//! | `address.rs` | addresses of both families: what they mean, networks of them |
//! | `config.rs` | every setting |
//! | `link.rs` | the links of a host: endpoints with addresses |
//! | `stack.rs` | [`Stack`]: everything put together, and the order of a poll |
//! | `counters.rs` | what is counted: drops by reason, traffic |
//! | `ip/` | IPv4: paths, headers, what arrives |
//! | `neighbour/` | which station has which address (ARP) |
//! | `icmp/` | echo, errors both ways |
//! | `udp/` | UDP |
//! | `tcp/` | TCP |
//! | `testing.rs` | two hosts in virtual time, for tests |
//! | `hash.rs` | keyed hashing of flows: tables, sequence numbers, ports |
//! | `planted.rs` | mistakes made on purpose, to see that the simulator finds them |
//! | `timer.rs` | the timing wheel that holds every timer of a host |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
pub mod planted;

pub mod address;
pub mod config;
pub mod counters;
pub mod dhcp;
pub mod hash;
pub mod icmp;
pub mod ip;
pub mod link;
mod multicast;
pub mod neighbour;
pub mod stack;
pub mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timer;
pub mod udp;

pub use config::{
    ClientIdentifier, Config, DhcpConfig, FastOpenConfig, IpConfig, Ipv6Config, MtuProbing,
    SynCookies, TcpConfig, UserTimeoutConfig,
};
pub use config::{CongestionControl, EcnMode, Pacing, UdpConfig, UnknownCongestionControl};
pub use counters::{DropReason, Drops, Statistics, Traffic};
pub use ip::Duplicate;
pub use link::{Link, LinkAddress, LinkConfig, LinkId, Links};
pub use stack::Stack;
