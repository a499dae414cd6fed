//! Gannet for C. What a caller sees is `include/gannet.h`, which `cargo xtask header` makes of this
//! source; names and comments here are therefore written for readers of C.
//!
//! Not here: any logic of networking. Every function checks what it was given, calls `gannet`, and
//! turns the outcome into `errno` and a message.
//!
//! | file | job |
//! |---|---|
//! | `handle.rs` | handles that can be checked, though they look like pointers |
//! | `memory.rs` | texts, bytes and addresses that come from C and go to it |
//! | `error.rs` | errno, the message, and no panic across the border |
//! | `address.rs` | `gannet_address`: addresses from text |
//! | `builder.rs`, `host.rs` | hosts |
//! | `listener.rs`, `tcp.rs`, `tcp_info.rs`, `blocks.rs` | TCP, and data that is not copied |
//! | `udp.rs`, `batch.rs`, `groups.rs` | UDP, many datagrams at once, multicast groups |
//! | `option.rs` | options of all sockets |
//! | `poller.rs` | readiness |
#![deny(unsafe_code)]
#![allow(non_camel_case_types)]

pub mod address;
pub mod batch;
pub mod blocks;
pub mod builder;
pub mod error;
pub mod groups;
mod handle;
pub mod host;
pub mod listener;
mod memory;
pub mod option;
pub mod poller;
pub mod tcp;
pub mod tcp_info;
pub mod udp;
