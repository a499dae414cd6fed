//! What a process can reach.

use core::time::Duration;

use gannet_base::Instant;
use gannet_stack::Stack;

use super::Ledger;
use crate::address::Family;
use crate::driver::SimDriver;

/// When who could not begin tries again.
pub(super) const LATER: Duration = Duration::from_millis(100);

/// What a process can reach: its host's stack, the time, and the ledger that everybody writes in.
pub struct Cx<'a> {
    /// The stack of its host.
    pub stack: &'a mut Stack<SimDriver>,
    /// The world's time.
    pub now: Instant,
    /// The host's time.
    pub host_now: Instant,
    /// What is written down.
    pub ledger: &'a mut Ledger,
}

impl Cx<'_> {
    /// Whether nothing can be begun yet, because the host still asks whether its IPv6 addresses are
    /// its own (RFC 4862).
    pub fn is_unsettled(&self, family: Family) -> bool {
        family == Family::V6 && self.stack.has_tentative_addresses()
    }
}
