//! Round-trip times.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::cpu_seconds;
use crate::role::{Load, Percentiles, Report};

/// Collects round-trip times after a warm-up. One look at the clock a round trip: the end of one is
/// the start of the next.
#[derive(Debug)]
pub struct Times {
    histogram: Option<Histogram<u64>>,
    load: Load,
    started: Instant,
    last: Instant,
    cpu: f64,
    all: u64,
}

/// Nanoseconds; anything longer counts as this.
const LONGEST: u64 = 10_000_000_000;

impl Times {
    /// Starts with the warm-up.
    pub fn start(load: &Load) -> Self {
        let started = Instant::now();
        // Three significant digits: 0.1 % of a round trip.
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).ok();
        let (load, cpu) = (*load, cpu_seconds());
        Self {
            histogram,
            load,
            started,
            last: started,
            cpu,
            all: 0,
        }
    }

    /// A round trip ended now; says whether the measured seconds are over.
    #[inline]
    pub fn finished_one(&mut self) -> bool {
        let now = Instant::now();
        let time = now.duration_since(self.last);
        self.last = now;
        self.all += 1;
        let elapsed = now.duration_since(self.started).as_secs_f64();
        if elapsed >= self.load.warm_up {
            self.record(time);
        }
        elapsed >= self.load.warm_up + self.load.seconds
    }

    fn record(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(LONGEST);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(nanoseconds.max(1));
        }
    }

    /// A round trip failed; the next starts now.
    pub fn lost_one(&mut self) -> bool {
        self.last = Instant::now();
        let elapsed = self.last.duration_since(self.started).as_secs_f64();
        elapsed >= self.load.warm_up + self.load.seconds
    }

    /// What was measured.
    pub fn report(&self) -> Report {
        let cpu_seconds = cpu_seconds() - self.cpu;
        let operations = self.histogram.as_ref().map_or(0, Histogram::len);
        let times = self
            .histogram
            .as_ref()
            .filter(|times| !times.is_empty())
            .map(|times| {
                let at = |share| times.value_at_quantile(share) as f64 * 1e-9;
                Percentiles {
                    p50: at(0.5),
                    p99: at(0.99),
                    p999: at(0.999),
                }
            });
        let size = self.load.size as u64;
        Report {
            bytes: operations * size,
            operations,
            seconds: self.load.seconds,
            cpu_seconds,
            all_bytes: self.all * size,
            all_operations: self.all,
            times,
            ..Report::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_in_seconds() {
        let mut times = Times::start(&Load {
            size: 2,
            seconds: 0.0,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        });
        for micros in 1..=1000 {
            times.record(Duration::from_micros(micros));
        }
        let report = times.report();
        let found = report.times.unwrap();
        for (is, should) in [
            (found.p50, 500e-6),
            (found.p99, 990e-6),
            (found.p999, 999e-6),
        ] {
            assert!((is / should - 1.0).abs() < 0.002, "{is} {should}");
        }
        assert_eq!((report.operations, report.bytes), (1000, 2000));
    }
}
