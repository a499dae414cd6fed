//! A DHCPv4 client (RFC 2131): an address from a server, kept for as long as the lease lasts.
//!
//! | file | job |
//! |---|---|
//! | `client.rs` | the client's state machine without a link: time and messages in, actions out |
//! | `message.rs` | the messages that it sends |
//! | `lease.rs` | what a server granted, read from its options and checked |
//! | `links.rs` | clients on links: sends and receives for them, and does what they say |
//!
//! Not here: a server, DHCPINFORM, relays, authentication.

mod client;
mod lease;
mod links;
mod message;

pub use client::{Action, Client, Destination, Refused, StateName};
pub use lease::Lease;
pub use links::Dhcp;

#[cfg(test)]
mod tests;
