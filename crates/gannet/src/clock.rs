//! The only clock: read once per batch of work, and handed down as an argument.

use gannet_base::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// Now, by the monotonic clock.
#[inline]
pub(crate) fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos((now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64)
}

/// `after` as the kernel takes it.
pub(crate) fn timespec(after: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(after.subsec_nanos()),
    }
}

/// Nanoseconds since 1970, for captures.
pub(crate) fn wall_nanos() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}
