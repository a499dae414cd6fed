//! Neighbours on an Ethernet: which station has which IPv4 address (RFC 826, RFC 1122 section
//! 2.3.2). Pure: decides what to ask and what to believe; `ip/arp.rs` sends and receives.
//!
//! | file | job |
//! |---|---|
//! | `cache.rs` | the bounded table of neighbours with its states and timers |
//! | `held.rs` | packets that wait for a neighbour's answer |

mod cache;
mod held;

pub use cache::{Answer, Ask, Claim, Neighbours};
pub use held::{Held, HeldFrame};

#[cfg(test)]
mod tests;
