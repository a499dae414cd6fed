//! Waiting for another core without ever sleeping.

use std::hint::spin_loop;
use std::io;

/// Turns after which the other side is taken for dead: some tens of seconds, never reached in a
/// healthy run.
const PATIENCE: u64 = 4_000_000_000;

/// Looks again and again until there is something to see.
///
/// # Errors
/// `TimedOut` when nothing comes for very long.
#[inline]
pub(super) fn until<T>(mut look: impl FnMut() -> Option<T>) -> io::Result<T> {
    for _ in 0..PATIENCE {
        if let Some(value) = look() {
            return Ok(value);
        }
        spin_loop();
    }
    Err(io::ErrorKind::TimedOut.into())
}
