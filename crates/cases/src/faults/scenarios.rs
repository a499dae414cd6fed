//! The list of scenarios.

use super::{change, death};
use crate::table::Case;
use std::time::Duration;

/// After this long a scenario hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Every scenario.
pub(crate) fn all() -> Vec<Case> {
    [death::CASES, change::CASES].concat()
}
