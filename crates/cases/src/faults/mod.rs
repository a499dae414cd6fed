//! Two processes with a connection between them, and something bad that happens to one of them
//! in the middle of a transfer.
//!
//! * `scenarios.rs`: the list
//! * `transfer.rs`: the text, and the two who send and receive it
//! * `death.rs`: processes that are killed, crash, stop and go on
//! * `change.rs`: fork, exec, dup2, descriptors that run out

mod change;
mod death;
mod scenarios;
mod transfer;

pub(crate) use scenarios::{LIMIT, all};
pub(crate) use transfer::text;
