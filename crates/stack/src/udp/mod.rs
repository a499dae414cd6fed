//! UDP (RFC 768): datagrams, made to travel in numbers.
//!
//! On a link that carries super-datagrams (a channel, an interface with segmentation offload) many
//! datagrams of one size leave as one frame with one header, and stay one queue entry at the
//! receiver until they are read. A sender that is ahead of its receiver is told to wait rather than
//! losing datagrams: what a socket has sent counts against its send buffer until the link (on a
//! channel: the peer's application, by reading) gives the bytes back.
//!
//! | file | job |
//! |---|---|
//! | `api.rs` | [`Udp`]: sockets made, connected, asked, closed |
//! | `socket.rs` | ids, status, options, errors; the socket itself |
//! | `groups.rs` | multicast groups of sockets |
//! | `sources.rs` | which sources of a group a socket wants |
//! | `ports.rs` | which socket a datagram is for |
//! | `blocks.rs` | a socket's blocks under way: copy in, count, take back |
//! | `send.rs` | datagrams leave |
//! | `input.rs` | datagrams and ICMP errors arrive |
//! | `queue.rs` | datagrams that wait to be read |
//! | `read.rs` | datagrams are read |

mod api;
mod blocks;
mod groups;
mod input;
mod ports;
mod queue;
mod read;
mod send;
mod socket;
mod sources;

pub use api::Udp;
pub use groups::GroupError;
pub use queue::Datagram;
pub use socket::{
    BindError, Binding, PathMtuDiscovery, UdpError, UdpId, UdpOption, UdpStatus, WhenFull,
};

pub use sources::SourceChange;

pub(crate) use input::Delivery;

#[cfg(test)]
mod tests;
