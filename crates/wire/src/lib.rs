//! Packet formats and the Internet checksum.
//!
//! Every header is a plain `Copy` struct with `parse(&[u8]) -> Result<(Header, header length),
//! ParseError>` and
//! `emit(&self, &mut [u8]) -> Option<usize>` (bytes written; `None`, and nothing written, when the
//! buffer is too small).
//! A header may be apart from its payload (the ring slot holds headers only), so lengths that speak
//! about the payload
//! are checked against a length the caller gives (`parse_split`) or against the whole slice
//! (`parse`).
//!
//! What is absent: state, clock, allocation, `unsafe`, sequence-number arithmetic (that is
//! `stack`), policy such as
//! "is this source address allowed" (that too). Nothing here panics on any input; the fuzz targets
//! say so.
//!
//! * `addr` - Ethernet addresses.
//! * `checksum` - the Internet checksum: sums, copy with sum, pseudo headers, incremental update.
//! * `ethernet`, `vlan`, `arp`, `ipv4`, `icmpv4`, `udp`, `tcp` - one header each; `tcp::Options`
//!   are in `tcp_options.rs`.
//! * `ipv6`, `extension` - the fixed header, and the walk over what follows it; `icmpv6`, `nd` -
//!   errors and echo, neighbours and routers.
//! * `igmp`, `mld` - multicast listeners of IPv4 and IPv6; `group_record` - what they share.
//! * `dhcpv4` - DHCP messages and their options.
//! * `virtio_net` - the offload header of packet sockets and TAP devices.
//! * `pcapng` - capture file blocks.
//! * `pretty` - one line per packet for people.
#![no_std]
#![forbid(unsafe_code)]

pub mod addr;
pub mod arp;
pub mod checksum;
pub mod dhcpv4;
pub mod ethernet;
pub mod extension;
pub mod group_record;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod nd;
pub mod pcapng;
pub mod pretty;
pub mod tcp;
mod tcp_options;
pub mod udp;
pub mod virtio_net;
pub mod vlan;

pub use addr::MacAddr;
pub use ethernet::EtherType;
pub use ipv4::IpProtocol;
