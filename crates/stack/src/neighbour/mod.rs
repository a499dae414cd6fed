//! Neighbours on an Ethernet: which station has which address (RFC 826, RFC 1122 section 2.3.2; RFC
//! 4861). Pure: decides what to ask and what to believe; `ip/arp.rs` and `ip/v6/` send and receive.
//!
//! | file | job |
//! |---|---|
//! | `cache.rs` | the bounded table of neighbours with its states and timers |
//! | `discovery.rs` | the same for IPv6, with RFC 4861's states |
//! | `held.rs` | packets that wait for a neighbour's answer |

mod cache;
mod discovery;
mod held;

pub use cache::{Answer, Ask, Claim, Neighbours};
pub use discovery::{Advertised, Discovery, Solicit, Times};
pub use held::{Held, HeldFrame};

#[cfg(test)]
mod tests;
