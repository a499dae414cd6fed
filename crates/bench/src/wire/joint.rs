//! Both ends and both paths: the loop.
//!
//! ```text
//! loop:  fetch from both ends -> push into the paths -> pop what is due -> send -> flush
//!        nothing due soon: sleep until a frame comes or shortly before the next is due
//!        due within the spin: read the clock until it is
//! ```

use std::num::NonZeroU64;
use std::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_drivers::wait;
use gannet_link::Medium;
use gannet_sim::buffer::Buffer;
use gannet_sim::path::{Model, Path};
use hdrhistogram::Histogram;

use super::end::{End, EndDrops, Place};
use super::report::{Late, SCHEMA, WayReport, WireReport};
use super::trace::Trace;
use crate::error::Problem;
use crate::limits::sys;
use crate::workload::cpu_seconds;

/// Longest sleep: how soon a request to stop is seen.
const NAP: Duration = Duration::from_millis(50);
/// Longest lateness that is told apart, microseconds.
const LATEST: u64 = 60_000_000;

/// Asks the kernel not to wake this thread up to 50 us late, and before others. Refusal is no
/// error: how late frames were is in the report.
fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = sys::run_first();
}

/// What the two ways are like.
#[derive(Clone, Debug, PartialEq)]
pub struct Models {
    /// From the left interface to the right one.
    pub left_to_right: Model,
    /// From the right interface to the left one.
    pub right_to_left: Model,
    /// Decides every random choice.
    pub seed: u64,
    /// How long before a frame is due the wire wakes up and reads the clock instead of sleeping.
    /// Default 20 us; costs as much of a core for each sleep. Zero: frames are late by a wake-up.
    pub spin: Duration,
}

impl Models {
    /// The default of `spin`.
    pub const SPIN: Duration = Duration::from_micros(20);

    /// The same both ways.
    pub fn both(model: Model, seed: u64) -> Self {
        Models {
            left_to_right: model.clone(),
            right_to_left: model,
            seed,
            spin: Self::SPIN,
        }
    }
}

/// One way: from an end to the other.
struct Way {
    path: Path,
    drops: EndDrops,
}

/// A wire at work.
pub struct Joint {
    ends: [End; 2],
    ways: [Way; 2],
    seed: u64,
    spin: Duration,
    began: std::time::Instant,
    cpu: f64,
    late: Histogram<u64>,
    packets: Vec<Buffer>,
    trace: Option<Trace>,
}

impl Joint {
    /// Opens both interfaces and begins.
    ///
    /// # Errors
    /// What, why, try.
    pub fn new(left: &Place, right: &Place, models: Models) -> Result<Self, Problem> {
        let Models {
            left_to_right,
            right_to_left,
            seed,
            spin,
        } = models;
        let late = Histogram::new_with_max(LATEST, 2)
            .map_err(|error| Problem::new("cannot keep times", error, "report it"))?;
        let mut seeds = Rng::new(seed);
        let mut way = |model| Way {
            path: Path::new(model, Medium::Ethernet, seeds.next_u64()),
            drops: EndDrops::default(),
        };
        let ways = [way(left_to_right), way(right_to_left)];
        let ends = [End::open(left)?, End::open(right)?];
        be_punctual();
        Ok(Joint {
            ends,
            ways,
            seed,
            spin,
            began: std::time::Instant::now(),
            cpu: cpu_seconds(),
            late,
            packets: Vec::new(),
            trace: None,
        })
    }

    /// Writes down what passes, in a file whose time began when this wire's did.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<Trace>) -> Self {
        self.trace = trace;
        self
    }

    /// Carries packets until `stop` says so, which is asked at least twenty times a second.
    ///
    /// # Errors
    /// When the kernel cannot wait for the interfaces.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) -> Result<(), Problem> {
        while !stop() {
            let came = self.fetch();
            let went = self.deliver();
            if !came && !went {
                self.rest().map_err(|error| {
                    Problem::new("cannot wait for packets", error, "look at the interfaces")
                })?;
            }
        }
        Ok(())
    }

    /// What happened so far.
    pub fn report(&mut self) -> WireReport {
        let [left, right] = &self.ends;
        let [there, back] = &mut self.ways;
        left.count_drops(&mut there.drops);
        right.count_drops(&mut back.drops);
        let quantile = |share| self.late.value_at_quantile(share);
        WireReport {
            schema: SCHEMA.to_owned(),
            seed: self.seed,
            seconds: self.began.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - self.cpu,
            late: Late {
                p50: quantile(0.5),
                p99: quantile(0.99),
                max: self.late.max(),
            },
            left_to_right: WayReport::new(&there.path, there.drops),
            right_to_left: WayReport::new(&back.path, back.drops),
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    /// Takes what came in; whether anything did.
    fn fetch(&mut self) -> bool {
        let mut any = false;
        for index in 0..2 {
            let now = self.now();
            let (Some(end), Some(way)) = (self.ends.get_mut(index), self.ways.get_mut(index))
            else {
                continue;
            };
            any |= end.receive(&mut way.drops, &mut self.packets);
            for packet in self.packets.drain(..) {
                if let Some(trace) = &mut self.trace {
                    trace.packet(index, "in", now - Instant::ZERO, &packet);
                }
                way.path.push(now, packet);
            }
        }
        any
    }

    /// Sends what is due; whether anything was.
    fn deliver(&mut self) -> bool {
        let mut any = false;
        let now = self.now();
        let [left, right] = &mut self.ends;
        let [there, back] = &mut self.ways;
        for (way, end, index) in [(there, right, 1), (back, left, 0)] {
            let mut some = false;
            while let Some(due) = way.path.next_at().filter(|due| *due <= now) {
                let Some(packet) = way.path.pop(now) else {
                    continue; // it was lost; the next one may be due
                };
                let late = (now - due).as_micros() as u64;
                self.late.saturating_record(late);
                if let Some(trace) = &mut self.trace {
                    trace.packet(index, "out", now - Instant::ZERO, &packet);
                }
                end.send(&packet, &mut way.drops);
                some = true;
            }
            if some {
                end.flush();
            }
            any |= some;
        }
        any
    }

    /// Waits for a frame to come or to be due.
    fn rest(&mut self) -> std::io::Result<()> {
        let next = self.ways.iter().filter_map(|way| way.path.next_at()).min();
        let left = next.map_or(NAP, |next| next - self.now());
        if left <= self.spin {
            while next.is_some_and(|next| self.now() < next) {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        let [a, b] = &mut self.ends;
        if a.arm() && b.arm() {
            let nap = left.saturating_sub(self.spin).min(NAP);
            wait::sleep(&[a.wake_fd(), b.wake_fd()], Some(nap))?;
        }
        Ok(())
    }
}
