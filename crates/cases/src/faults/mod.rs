//! Two processes with a connection between them, and something bad that happens to one of them
//! in the middle of a transfer.
//!
//! * `transfer.rs`: the text, and the two who send and receive it
//! * `death.rs`: processes that are killed, crash, stop and go on
//! * `change.rs`: fork, exec, dup2, descriptors that run out

mod change;
mod death;
mod transfer;

use crate::table::Case;
use std::time::Duration;

pub(crate) use transfer::text;

/// After this long a scenario hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Every scenario.
pub(crate) fn all() -> Vec<Case> {
    [death::CASES, change::CASES].concat()
}
