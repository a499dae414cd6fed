//! Many seeds, on several threads; what they have in common is added up. A panic anywhere in a run
//! is a failure of that run and of no other.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::digest::Digest;
use crate::scenario::Scenario;
use crate::world::{self, Outcome, Silent, Witness};

/// Many runs together.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs.
    pub seeds: u64,
    /// The seeds that failed, with the first failure of each.
    pub failures: Vec<(u64, String)>,
    /// Virtual time of all, seconds.
    pub virtual_seconds: f64,
    /// Frames sent by hosts.
    pub frames: u64,
    /// Bytes of frames delivered over wires.
    pub wire_bytes: u64,
    /// Bytes that applications received.
    pub bytes: u64,
    /// Connections begun.
    pub connections: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// The digests of all runs, in the order of seeds.
    pub digest: u64,
    /// Faults injected and features exercised: how often, and in how many runs.
    pub counts: BTreeMap<String, (u64, u64)>,
}

/// Plays the scenario of a seed.
pub fn one(seed: u64) -> Outcome {
    play(&Scenario::generate(seed), &mut Silent)
}

/// Plays a scenario; a panic becomes a failure.
pub fn play(scenario: &Scenario, witness: &mut impl Witness) -> Outcome {
    catch_panics();
    IN_RUN.set(true);
    let played = catch_unwind(AssertUnwindSafe(|| world::run(scenario, witness)));
    IN_RUN.set(false);
    played.unwrap_or_else(|_| Outcome {
        seed: scenario.seed,
        failures: vec![format!("panic: {}", PANIC.take())],
        ..Outcome::default()
    })
}

/// Plays the seeds from `first` on, `count` of them, on `jobs` threads. `seen` is told of every
/// outcome, in no particular order.
pub fn many(first: u64, count: u64, jobs: usize, mut seen: impl FnMut(&Outcome)) -> Summary {
    let next = AtomicU64::new(0);
    let (send, receive) = mpsc::channel();
    let mut digests = vec![0; usize::try_from(count).unwrap_or_default()];
    let mut summary = Summary::default();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || send.send((index, one(first + index))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (index, outcome) in receive {
            seen(&outcome);
            if let Some(place) = digests.get_mut(index as usize) {
                *place = outcome.digest;
            }
            summary.add(&outcome);
        }
    });
    summary.failures.sort_unstable();
    let mut digest = Digest::new();
    digests.into_iter().for_each(|value| digest.number(value));
    summary.digest = digest.value();
    summary
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.virtual_seconds += outcome.ended_at.as_nanos() as f64 / 1e9;
        self.frames += outcome.frames;
        self.wire_bytes += outcome.wire_bytes;
        self.bytes += outcome.bytes;
        self.connections += outcome.connections;
        self.datagrams += outcome.datagrams;
        if let Some(failure) = outcome.failures.first() {
            self.failures.push((outcome.seed, failure.clone()));
        }
        for (name, count) in &outcome.counts {
            let (total, runs) = self.counts.entry(name.clone()).or_default();
            *total += count;
            *runs += 1;
        }
    }
}

thread_local! {
    static IN_RUN: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics within runs are kept for the report instead of being printed.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_RUN.get() {
                let payload = info.payload_as_str().unwrap_or("without words");
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                PANIC.set(format!("{payload} at {place}"));
            } else {
                usual(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_run() {
        let runs = || many(0, 40, 2, |_| ());
        let (a, b) = (runs(), runs());
        assert_eq!(a.failures, []);
        assert_eq!(a.digest, b.digest);
        assert_ne!(a.digest, many(1, 40, 1, |_| ()).digest);
    }
}
