//! What is measured, and when: a warm-up that counts for nothing, then the measured seconds.
//!
//! The clock is read once for every 64 KiB that went by. At a read a write it would cost more than
//! a small write.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::role::{Load, Report};

/// CPU seconds that all threads of this process have used, in the kernel and outside.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Bytes between two looks at the clock.
const LOOK: u64 = 64 * 1024;

/// Counts what goes by.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    load: Load,
    started: Instant,
    bytes: u64,
    operations: u64,
    next_look: u64,
    /// When the warm-up ended.
    from: Option<Mark>,
    /// The last look.
    to: Mark,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    bytes: u64,
    operations: u64,
}

impl Clock {
    /// Starts with the warm-up.
    pub fn start(load: &Load) -> Self {
        let started = Instant::now();
        let to = Mark {
            at: started,
            bytes: 0,
            operations: 0,
        };
        let from = (load.warm_up <= 0.0).then_some(to);
        Self {
            load: *load,
            started,
            bytes: 0,
            operations: 0,
            next_look: LOOK,
            from,
            to,
        }
    }

    /// Counts one operation of so many bytes; says whether the measured seconds are over.
    #[inline]
    pub fn count(&mut self, bytes: u64) -> bool {
        self.count_many(1, bytes)
    }

    /// Counts operations with so many bytes in all; says whether the measured seconds are over.
    #[inline]
    pub fn count_many(&mut self, operations: u64, bytes: u64) -> bool {
        self.bytes += bytes;
        self.operations += operations;
        self.bytes >= self.next_look && self.look()
    }

    /// Whether the measured seconds are over, when nothing has gone by.
    pub fn is_over(&mut self) -> bool {
        self.look()
    }

    /// The last byte has gone by.
    pub fn end(&mut self) {
        self.look();
    }

    /// Seconds since the start, as of the last look.
    pub fn elapsed(&self) -> f64 {
        self.to.at.duration_since(self.started).as_secs_f64()
    }

    fn look(&mut self) -> bool {
        self.next_look = self.bytes + LOOK;
        self.to = Mark {
            at: Instant::now(),
            bytes: self.bytes,
            operations: self.operations,
        };
        let elapsed = self.elapsed();
        if self.from.is_none() && elapsed >= self.load.warm_up {
            self.from = Some(self.to);
        }
        elapsed >= self.load.warm_up + self.load.seconds
    }

    /// What was measured up to the last look, with the CPU seconds since the start.
    pub fn report(&self, cpu_seconds: f64) -> Report {
        let Self {
            load: _,
            started,
            bytes,
            operations,
            next_look: _,
            from,
            to,
        } = *self;
        // A run in which nothing came after the warm-up (a slow machine, a short run) is measured
        // from its start.
        let from = from.filter(|from| from.at < to.at && from.operations < to.operations);
        let from = from.unwrap_or(Mark {
            at: started,
            bytes: 0,
            operations: 0,
        });
        Report {
            bytes: to.bytes - from.bytes,
            operations: to.operations - from.operations,
            seconds: to.at.duration_since(from.at).as_secs_f64(),
            cpu_seconds,
            all_bytes: bytes,
            all_operations: operations,
            ..Report::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_does_not_count() {
        let load = Load {
            size: 1,
            seconds: 1e9,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        let mut clock = Clock::start(&load);
        clock.from = None;
        clock.load.warm_up = 1e-9;
        assert!(!clock.count(LOOK)); // ends the warm-up
        assert!(!clock.count_many(3, 2 * LOOK));
        let report = clock.report(0.5);
        assert_eq!((report.bytes, report.operations), (2 * LOOK, 3));
        assert_eq!((report.all_bytes, report.all_operations), (3 * LOOK, 4));
        assert_eq!(report.cpu_seconds, 0.5);
    }

    #[test]
    fn a_run_within_its_warm_up_counts_whole() {
        let load = Load {
            size: 1,
            seconds: 1e9,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        let mut clock = Clock::start(&load);
        clock.from = None;
        clock.count(LOOK);
        clock.end();
        assert_eq!(clock.report(0.0).bytes, LOOK);
    }

    #[test]
    fn over_when_the_seconds_are() {
        let load = Load {
            size: 1,
            seconds: 0.0,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        let mut clock = Clock::start(&load);
        assert!(
            !clock.count(LOOK - 1),
            "the clock is not read for every byte"
        );
        assert!(clock.count(1));
    }

    #[test]
    fn cpu_time_advances() {
        let before = cpu_seconds();
        let mut word = 0u64;
        for index in 0..2_000_000u64 {
            word = std::hint::black_box(word ^ index);
        }
        assert!(cpu_seconds() > before);
    }
}
