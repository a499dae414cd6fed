//! Which multicast groups are wanted on which link, and when that is to be told (RFC 3376, RFC
//! 2236): state and time only. `ip/igmp.rs` speaks for it.
//!
//! | file | job |
//! |---|---|
//! | `membership.rs` | the groups of one link: changes reported, queries answered |
//!
//! Not here: lists of sources that are not wanted (they stop at the socket: `udp/sources.rs`),
//! multicast routing.

mod membership;

pub(crate) use membership::{Asked, Full, Membership, SOURCES_MAX, Say, Version};

#[cfg(test)]
mod tests;
