//! Descriptors that a call needs for a moment, and of which the program does not know.

use crate::sandbox;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as one call needs.
const FOR_A_MOMENT: u64 = 4;

/// Does `work` although the program has as many descriptors as it may: the limit that can be raised
/// at will is raised meanwhile.
///
/// # Errors
/// `MFILE` where there is no room above the limit: then `work` was not done.
pub fn with_room<T>(work: impl FnOnce() -> T) -> Result<T, Errno> {
    let limit = getrlimit(Resource::Nofile);
    let (Some(current), false) = (limit.current, sandbox::is_on()) else {
        return Err(Errno::MFILE);
    };
    let more = current.saturating_add(FOR_A_MOMENT);
    let raised = Rlimit {
        current: Some(limit.maximum.map_or(more, |most| most.min(more))),
        ..limit
    };
    if raised == limit || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(Errno::MFILE);
    }
    let done = work();
    // It was allowed before, and less is always allowed.
    let _ = setrlimit(Resource::Nofile, limit);
    Ok(done)
}
