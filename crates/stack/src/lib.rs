//! TCP/IP and UDP/IP without clock or operating system: time is an argument, packets go in and out.
//!
//! What it does not do: read a clock, call the operating system, allocate per packet, know a driver.
//!
//! | file | job |
//! |---|---|
//! | `config.rs` | every setting |
//! | `link.rs` | the links of a host: endpoints with addresses |
//! | `ip/` | IPv4: paths, headers, what arrives |
//! | `tcp/` | TCP |
//! | `hash.rs` | keyed hashing of flows: tables, sequence numbers, ports |
//! | `timer.rs` | the timing wheel that holds every timer of a host |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod hash;
pub mod ip;
pub mod link;
pub mod tcp;
pub mod timer;

pub use config::{Config, TcpConfig, UdpConfig};
pub use link::{Link, LinkAddress, LinkConfig, LinkId, Links};
