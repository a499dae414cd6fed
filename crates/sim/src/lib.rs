//! Whole hosts in virtual time: the same stack code that talks to real networks, joined by
//! simulated links, driven by simulated applications, and judged after every event. One seed
//! decides everything, so every run can be replayed.
//!
//! What it does not do: read a clock, call the operating system, decide anything by chance.
//!
//! | file | job |
//! |---|---|
//! | `path/` | one direction of a link: rate, delay, queue, faults |
//! | `driver.rs` | a host's network interface |
//! | `node/` | hosts, switch, router |
//! | `app/` | what the processes of hosts do, and what they are handed |
//! | `scenario/` | what a run is, and how it follows from a seed |
//! | `world/` | the loop over events |
//! | `judge/` | passive observers that know the rules of TCP |
//! | `schedule.rs`, `clock.rs` | what happens next; what a host believes the time to be |
//! | `buffer.rs` | the bytes of a frame, and who found them sound |
//! | `packet.rs`, `address.rs`, `pattern.rs` | frames parsed, addresses, the bytes that are sent |
//! | `trace.rs` | what passed, in lines and as a capture |
//! | `sweep.rs` | many seeds on several threads |
//! | `bugs.rs` | planted bugs: what the judges find |
//! | `digest.rs` | one number that says whether two runs were the same |

#![forbid(unsafe_code)]

pub mod address;
pub mod app;
pub mod buffer;
#[cfg(feature = "planted-bugs")]
pub mod bugs;
pub mod clock;
pub mod digest;
pub mod driver;
pub mod judge;
pub mod node;
pub mod packet;
pub mod path;
pub mod pattern;
pub mod scenario;
pub mod schedule;
pub mod sweep;
pub mod trace;
pub mod world;
