//! All runs of a comparison, interleaved, within a time budget.
//!
//! ```text
//! for each scenario: for each pair: for each column: run it once       (A B C, A B C, ...)
//! ```
//!
//! The seconds of a run follow from what is left of the budget and from what a run was seen to cost
//! besides, so that the whole stays within its time on a slow machine, too.

use std::time::Instant;

use rustix::thread::sched_getaffinity;
use serde::{Deserialize, Serialize};

use super::namespaces::Namespaces;
use super::pair::{Ground, Outcome};
use super::plan::{self, Column, Contender, Link, Scenario};
use super::workers::Launcher;
use crate::error::Problem;
use crate::role::{Load, Workload};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// Over which links.
    pub links: Vec<Link>,
    /// Which conversations.
    pub workloads: Vec<Workload>,
    /// Only these sizes in bytes; all when empty.
    pub sizes: Vec<usize>,
    /// Only these contenders; all when empty.
    pub contenders: Vec<Contender>,
    /// Fewer sizes and less time.
    pub quick: bool,
    /// Check every byte.
    pub verify: bool,
    /// How often each contender runs.
    pub pairs: usize,
    /// Seconds that all runs together may take.
    pub budget: f64,
    /// Seconds of one run, instead of what the budget allows.
    pub seconds: Option<f64>,
}

/// Told what happens, to show it.
pub trait Progress {
    /// So many runs there will be.
    fn total(&mut self, runs: usize);
    /// This one begins.
    fn begin(&mut self, name: &str);
    /// It ended.
    fn done(&mut self);
}

/// Shows nothing.
impl Progress for () {
    fn total(&mut self, _: usize) {}
    fn begin(&mut self, _: &str) {}
    fn done(&mut self) {}
}

/// All outcomes of a scenario.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was run.
    pub scenario: Scenario,
    /// For each column its outcomes: as many for each, the i-th of all columns side by side in
    /// time.
    pub outcomes: Vec<(Column, Vec<Outcome>)>,
}

/// A link that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The link.
    pub link: Link,
    /// What, why, try.
    #[serde(flatten)]
    pub problem: Problem,
}

/// A run that failed, which ended its scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The link.
    pub link: Link,
    /// The conversation.
    pub workload: Workload,
    /// Bytes in a write, request or datagram.
    pub size_bytes: usize,
    /// The contender.
    pub column: Column,
    /// What, why, try.
    #[serde(flatten)]
    pub problem: Problem,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The scenarios that ran.
    pub measured: Vec<Measured>,
    /// The links that could not be measured.
    pub skipped: Vec<Skipped>,
    /// The runs that failed.
    pub failures: Vec<Failure>,
    /// Seconds of the shortest run, warm-up not counted.
    pub shortest_run: f64,
    /// Seconds that everything took.
    pub elapsed: f64,
}

/// Compares.
///
/// # Errors
/// When the user asked to stop. What fails otherwise is in the result, next to what did not fail.
pub fn run(
    launcher: &Launcher,
    options: &Options,
    progress: &mut impl Progress,
) -> Result<Comparison, Problem> {
    let started = Instant::now();
    let mut comparison = Comparison {
        shortest_run: f64::INFINITY,
        ..Comparison::default()
    };
    let (ground, links) = prepare(launcher, options, &mut comparison)?;
    let mut scenarios = plan::scenarios(&links, &options.workloads, options.quick);
    if !options.sizes.is_empty() {
        scenarios = chosen_sizes(&links, options);
    }
    scenarios
        .iter_mut()
        .for_each(|scenario| scenario.only(&options.contenders));
    let runs = scenarios
        .iter()
        .map(|scenario| scenario.columns.len() * options.pairs)
        .sum();
    progress.total(runs);
    let mut pace = Pace::new(options, runs);
    for scenario in scenarios {
        let measured = measure(&ground, options, scenario, &mut pace, progress);
        launcher.interrupt().check()?;
        match measured {
            Ok(measured) => comparison.measured.push(measured),
            Err(failure) => comparison.failures.push(*failure),
        }
    }
    comparison.shortest_run = if pace.shortest.is_finite() {
        pace.shortest
    } else {
        0.0
    };
    comparison.elapsed = started.elapsed().as_secs_f64();
    Ok(comparison)
}

fn chosen_sizes(links: &[Link], options: &Options) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for &link in links {
        for &workload in &options.workloads {
            if plan::sizes(link, workload, false).is_empty() {
                continue;
            }
            let sizes = options.sizes.iter();
            scenarios.extend(sizes.map(|&size| Scenario::new(link, workload, size)));
        }
    }
    scenarios
}

fn prepare(
    launcher: &Launcher,
    options: &Options,
    comparison: &mut Comparison,
) -> Result<(Ground, Vec<Link>), Problem> {
    let mut links = options.links.clone();
    let mut namespaces = None;
    if links.contains(&Link::Veth) {
        match Namespaces::make(launcher) {
            Ok(made) => namespaces = Some(made),
            Err(problem) => {
                launcher.interrupt().check()?;
                links.retain(|link| *link != Link::Veth);
                comparison.skipped.push(Skipped {
                    link: Link::Veth,
                    problem,
                });
            }
        }
    }
    Ok((
        Ground {
            launcher: launcher.clone(),
            cpus: two_cpus(),
            namespaces,
        },
        links,
    ))
}

/// The first two cores this process may use. With one, both sides share it, unpinned.
fn two_cpus() -> [Option<usize>; 2] {
    let Ok(allowed) = sched_getaffinity(None) else {
        return [None; 2];
    };
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    match (cpus.next(), cpus.next()) {
        (Some(first), Some(second)) => [Some(first), Some(second)],
        _ => [None; 2],
    }
}

fn measure(
    ground: &Ground,
    options: &Options,
    scenario: Scenario,
    pace: &mut Pace,
    progress: &mut impl Progress,
) -> Result<Measured, Box<Failure>> {
    let Scenario {
        link,
        workload,
        size,
        ref columns,
    } = scenario;
    let mut outcomes: Vec<_> = columns
        .iter()
        .map(|(column, _)| (*column, Vec::with_capacity(options.pairs)))
        .collect();
    for _ in 0..options.pairs {
        for ((column, way), (_, outcomes)) in columns.iter().zip(&mut outcomes) {
            progress.begin(&format!("{} {} {size} B", link.name(), workload.name()));
            let load = pace.load(size, options.verify);
            let begun = Instant::now();
            let outcome = ground.run(&scenario, *way, load).map_err(|problem| {
                let (column, size_bytes) = (*column, size);
                Box::new(Failure {
                    link,
                    workload,
                    size_bytes,
                    column,
                    problem,
                })
            })?;
            pace.took(begun.elapsed().as_secs_f64(), &load);
            outcomes.push(outcome);
            progress.done();
        }
    }
    Ok(Measured { scenario, outcomes })
}

/// How long each run may be.
struct Pace {
    until: Instant,
    budget: f64,
    runs_left: usize,
    fixed: Option<f64>,
    /// Seconds a run costs besides the measured ones and the warm-up: a slowly moving mean.
    overhead: f64,
    shortest: f64,
}

/// A run shorter than this says nothing; one longer than [`LONGEST`] says nothing more.
const SHORTEST: f64 = 0.05;
const LONGEST: f64 = 1.0;

impl Pace {
    fn new(options: &Options, runs: usize) -> Self {
        Self {
            until: Instant::now(),
            budget: options.budget,
            runs_left: runs,
            fixed: options.seconds,
            overhead: 0.05,
            shortest: f64::INFINITY,
        }
    }

    fn load(&mut self, size: usize, verify: bool) -> Load {
        let left = self.budget - self.until.elapsed().as_secs_f64();
        let each = left / self.runs_left.max(1) as f64 - self.overhead;
        // A fifth of a run is warm-up.
        let seconds = self.fixed.unwrap_or((each * 0.8).clamp(SHORTEST, LONGEST));
        self.shortest = self.shortest.min(seconds);
        Load {
            size,
            seconds,
            warm_up: (seconds * 0.25).clamp(0.02, 0.25),
            verify,
            bytes: None,
        }
    }

    fn took(&mut self, seconds: f64, load: &Load) {
        self.runs_left = self.runs_left.saturating_sub(1);
        let besides = (seconds - load.seconds - load.warm_up).max(0.0);
        self.overhead += (besides - self.overhead) * 0.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(budget: f64) -> Options {
        Options {
            links: vec![Link::Channel],
            workloads: vec![Workload::TcpStream],
            sizes: Vec::new(),
            contenders: Vec::new(),
            quick: true,
            verify: false,
            pairs: 5,
            budget,
            seconds: None,
        }
    }

    #[test]
    fn the_pace_keeps_the_budget() {
        for (budget, runs) in [(50.0, 155), (540.0, 700), (540.0, 10)] {
            let mut pace = Pace::new(&options(budget), runs);
            let mut spent = 0.0;
            for _ in 0..runs {
                // The budget shrinks by what a run took, as it would in time.
                let load = pace.load(1, false);
                let took = load.seconds + load.warm_up + 0.04;
                pace.budget -= took;
                spent += took;
                pace.took(took, &load);
            }
            assert!(spent <= budget, "{spent} of {budget}");
        }
    }

    #[test]
    fn a_run_is_never_too_short() {
        let mut pace = Pace::new(&options(0.0), 100);
        assert_eq!(pace.load(1, false).seconds, SHORTEST);
    }
}
