//! TCP/IP and UDP/IP without clock or operating system: time is an argument, packets go in and out.
//!
//! What it does not do: read a clock, call the operating system, allocate per packet, know a driver.
//!
//! | file | job |
//! |---|---|
//! | `hash.rs` | keyed hashing of flows: tables, sequence numbers, ports |
//! | `timer.rs` | the timing wheel that holds every timer of a host |
//! | `tcp/` | TCP |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod hash;
pub mod tcp;
pub mod timer;
