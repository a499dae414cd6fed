//! Gannet against the kernel's own TCP, UDP, ARP and ICMP, in network namespaces of the test's own.
//! Needs root; without it every test says so and passes.
//!
//! | file | what it shows |
//! |---|---|
//! | `lan.rs`, `stream.rs` | namespaces, links, hosts; streams that are hashed on both sides |
//! | `transfer.rs` | a gibibyte each way at every MTU over both drivers |
//! | `many.rs` | a thousand connections at once, in both roles |
//! | `endings.rs` | half-close, reset, refusal, unread data, urgent data, keep-alive |
//! | `datagrams.rs` | UDP of every size, ICMP both ways |
//! | `fragments.rs` | UDP and echoes longer than the MTU |
//! | `neighbours.rs` | ARP, and links that go down, come back, and go for good |
//! | `settings.rs` | a kernel without offloads, without options, with tiny buffers |
//! | `path.rs` | a router with a smaller MTU |
//! | `fast_open.rs` | data in the SYN |
//! | `faults.rs` | a bridge that loses, repeats and reorders |
//! | `ecn.rs` | marks of a router on the wire: echoed and answered, both ways |
//! | `six.rs` | IPv6: streams, datagrams, echoes, neighbours |
//! | `router.rs` | the kernel as IPv6 router that advertises a prefix and itself |
//! | `dhcp.rs` | an address from a real DHCP server |
//! | `groups.rs` | multicast both ways |
//! | `vlan.rs` | frames with tags: streams, datagrams, echoes |
//! | `capture.rs` | what a capture holds |
#![forbid(unsafe_code)]

mod capture;
mod datagrams;
mod dhcp;
mod ecn;
mod endings;
mod fast_open;
mod faults;
mod fragments;
mod groups;
mod lan;
mod many;
mod neighbours;
mod path;
mod router;
mod settings;
mod six;
mod stream;
mod transfer;
mod vlan;
