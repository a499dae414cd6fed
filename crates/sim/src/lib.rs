//! Whole hosts in virtual time: the same stack code that talks to real networks, joined by
//! simulated links, driven by simulated applications, and judged after every event. One seed
//! decides everything, so every run can be replayed.
//!
//! What it does not do: read a clock, call the operating system, decide anything by chance.
//!
//! | file | job |
//! |---|---|
//! | `digest.rs` | one number that says whether two runs were the same |

#![forbid(unsafe_code)]

pub mod digest;
pub mod path;
