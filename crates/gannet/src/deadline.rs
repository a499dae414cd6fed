//! Time-outs of sockets: how long a call may wait, kept where several threads can change it.

use crate::clock;
use crate::error::zero_timeout;
use crate::waiting::{Habit, Patience};
use gannet_base::Instant;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A time-out that a socket's handles share; nanoseconds, 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    /// Sets it; zero is an error, as in std.
    pub(crate) fn set(&self, after: Option<Duration>) -> io::Result<()> {
        let nanos = match after {
            Some(Duration::ZERO) => return Err(zero_timeout()),
            Some(after) => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
            None => 0,
        };
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }

    /// As it was set.
    pub(crate) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

/// The time by which something must have happened.
pub(crate) fn deadline(after: Option<Duration>) -> Instant {
    after.map_or(Instant::FAR_FUTURE, |after| clock::now() + after)
}

/// How a socket's calls wait.
#[derive(Debug, Default)]
pub(crate) struct Manners {
    pub(crate) nonblocking: AtomicBool,
    pub(crate) read: Timeout,
    pub(crate) write: Timeout,
    read_habit: Habit,
    write_habit: Habit,
}

impl Manners {
    #[inline]
    pub(crate) fn reading(&self) -> (Patience, &Habit) {
        (self.patience(&self.read), &self.read_habit)
    }

    #[inline]
    pub(crate) fn writing(&self) -> (Patience, &Habit) {
        (self.patience(&self.write), &self.write_habit)
    }

    #[inline]
    fn patience(&self, timeout: &Timeout) -> Patience {
        if self.nonblocking.load(Ordering::Relaxed) {
            return Patience::None;
        }
        match timeout.get() {
            None => Patience::Until(Instant::FAR_FUTURE),
            after => Patience::Until(deadline(after)),
        }
    }
}
