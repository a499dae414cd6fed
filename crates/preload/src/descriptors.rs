//! Descriptors that calls need for a moment, and of which the program does not know.

use crate::errno::Outcome;
use gannet_local::sandbox;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as one call needs.
const FOR_A_MOMENT: u64 = 4;

/// Does `work` although the program has as many descriptors as it may: the limit that can be raised
/// at will is raised meanwhile.
///
/// # Errors
/// `EMFILE` where there is no room above it; what `work` says.
pub(crate) fn with_room<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let limit = getrlimit(Resource::Nofile);
    let (Some(current), false) = (limit.current, sandbox::is_on()) else {
        return Err(libc::EMFILE);
    };
    let more = current.saturating_add(FOR_A_MOMENT);
    let raised = Rlimit {
        current: Some(limit.maximum.map_or(more, |most| most.min(more))),
        ..limit
    };
    if raised == limit || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(libc::EMFILE);
    }
    let done = work();
    // It was allowed before, and less is always allowed.
    let _ = setrlimit(Resource::Nofile, limit);
    done
}
