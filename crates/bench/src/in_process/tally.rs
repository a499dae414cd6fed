//! What arrived of a stream within one process, and whether it still moves.

use std::fmt;

use crate::error::Problem;
use crate::pattern;
use crate::role::{Load, Report};
use crate::workload::{Clock, cpu_seconds};

/// Looks without a byte after which the stack is taken for stuck.
const PATIENCE: u32 = 10_000_000;

/// The reader's accounts.
#[derive(Debug)]
pub(super) struct Tally {
    verify: bool,
    read: u64,
    over: bool,
    idle: u32,
    begin: f64,
    clock: Clock,
}

impl Tally {
    /// Starts the clock.
    pub(super) fn start(load: &Load) -> Self {
        Self {
            verify: load.verify,
            read: 0,
            over: false,
            idle: 0,
            begin: cpu_seconds(),
            clock: Clock::start(load),
        }
    }

    /// `count` bytes were read, of which `seen` is a copy; all of them when they are verified.
    ///
    /// # Errors
    /// Says which byte is wrong.
    #[inline]
    pub(super) fn received(&mut self, count: usize, seen: &[u8]) -> Result<(), String> {
        if self.verify {
            let bytes = seen.get(..count).ok_or("a piece was not seen whole")?;
            if let Some(at) = pattern::first_difference(self.read, bytes) {
                return Err(format!("byte {at} is wrong"));
            }
        }
        self.read += count as u64;
        self.over |= self.clock.count(count as u64);
        self.idle = 0;
        Ok(())
    }

    /// A round of writing and reading has ended: whether the measured seconds are over.
    ///
    /// # Errors
    /// When nothing has moved for very long.
    #[inline]
    pub(super) fn is_over(&mut self) -> Result<bool, String> {
        self.idle += 1;
        if self.idle > PATIENCE {
            return Err("it stands still".to_owned());
        }
        Ok(self.over)
    }

    /// What was measured.
    pub(super) fn report(self) -> Report {
        Report {
            verified_bytes: if self.verify { self.read } else { 0 },
            ..self.clock.report(cpu_seconds() - self.begin)
        }
    }
}

/// A problem of the library `who`, which the option `without` leaves out.
pub(super) fn broken(who: &str, why: impl fmt::Display, without: &str) -> Problem {
    Problem::new(format!("{who} cannot carry the stream"), why, without)
}
