//! IP: where packets go, their headers, and what arrives.
//!
//! Not here: forwarding.
//!
//! | file | job |
//! |---|---|
//! | `layer.rs` | [`Ip`]: the links and everything known about where packets go |
//! | `path.rs` | [`Path`]: a destination with everything cached to reach it |
//! | `route.rs` | the routing table |
//! | `mtu.rs` | paths narrower than their first link |
//! | `v6/` | IPv6 where it differs |
//! | `select.rs` | the choice of a path, and of its link header |
//! | `output.rs` | headers written, frames handed to a link |
//! | `input.rs` | what arrives: checks in order, one function each |
//! | `fragments.rs`, `reassembly.rs` | fragments that arrive, and what they are put together to |
//! | `fragmentation.rs`, `ident.rs` | datagrams sent in fragments, and their identifications |
//! | `arp.rs` | questions about neighbours sent and answered |
//! | `groups.rs` | multicast groups of the links, and the ways to them |
//! | `igmp.rs`, `v6/mld.rs` | what is told about them, and asked |
//! | `probe.rs` | whether an address is free; addresses taken away |

mod arp;
mod fragmentation;
mod fragments;
mod groups;
mod ident;
mod igmp;
mod input;
mod layer;
mod mtu;
mod output;
mod path;
mod probe;
mod reassembly;
mod route;
mod select;
mod v6;

pub use groups::Interface;
pub use layer::Ip;
pub use output::Packet;
pub use path::{LinkHeader, NoRoute, Path};
pub use probe::Duplicate;
pub use route::Route;
pub use select::Resolution;

pub(crate) use fragmentation::Parts;
pub(crate) use path::LINK_HEADER_MAX;
pub(crate) use reassembly::Expired;
pub(crate) use select::header as link_header;
pub(crate) use v6::{Complaint, QUOTE_MAX as QUOTE_MAX_SIX};

#[cfg(test)]
mod tests;
