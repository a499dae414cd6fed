//! `cargo xtask test` and `cargo xtask ci`: every step runs, every failure is seen.
//!
//! * `test/steps.rs`: the list of steps, as data; a new step is one entry there
//! * `test/needs.rs`: what a step needs on the machine, and how it comes there
//! * `test/lanes.rs`: the steps that run beside the others
//! * `test/child.rs`: one cargo run: output passed on, results counted, a limit on its time
//! * `test/corpora.rs`: the fuzz targets play their corpora
//! * `test/carried.rs`: the cases under `gannet run`
//! * `test/digest.rs`: debug and release code play the same simulation
//! * `test/report.rs`: the table at the end and the last line, `N passed, N failed`

mod carried;
mod child;
mod corpora;
mod digest;
mod lanes;
mod needs;
mod report;
mod steps;

use crate::explain::Explained;
use crate::only_known;
use report::{Outcome, Row};
use std::path::{Path, PathBuf};
use std::time::Instant;
use steps::{Cost, Job, Lane, Step};

/// How much runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// `cargo xtask test`: under 30 minutes on two cores.
    Usual,
    /// `cargo xtask ci`: everything.
    Everything,
}

/// The environment of release builds without the whole-program optimisation.
pub(crate) fn fast_release() -> impl Iterator<Item = (&'static str, &'static str)> {
    steps::FAST_RELEASE.iter().copied()
}

/// Why a step after a failure did not run.
const LEFT_OUT: &str = "left out by --fail-fast";

/// What the caller wants.
struct Wish<'a> {
    /// Steps by name; all that belong to the extent where there is none.
    chosen: Vec<&'a str>,
    quick: bool,
    fail_fast: bool,
    extent: Extent,
}

impl Wish<'_> {
    /// The steps to be seen in the table, in order.
    fn steps(&self) -> impl Iterator<Item = &'static Step> {
        let named = |step: &&Step| self.chosen.is_empty() || self.chosen.contains(&step.name);
        steps::ALL.iter().filter(named)
    }

    /// Why a step does not run, if it does not.
    fn left_out(&self, step: &Step) -> Option<&'static str> {
        match (step.cost, self.extent) {
            _ if !self.chosen.is_empty() => None,
            (Cost::Slow, _) if self.quick => Some("left out by --quick"),
            (Cost::Extra, Extent::Usual) => Some("part of `cargo xtask ci`"),
            _ => None,
        }
    }

    /// The steps of the second lane: none where steps are chosen.
    fn beside(&self) -> impl Iterator<Item = &'static Step> {
        let whole = self.chosen.is_empty();
        self.steps()
            .filter(move |step| whole && step.lane == Lane::Beside && self.left_out(step).is_none())
    }
}

/// Runs the steps; true when none failed.
pub(crate) fn run(root: &Path, extent: Extent, options: &[&str]) -> Result<bool, Explained> {
    let (chosen, options) = chosen_steps(options)?;
    only_known(
        &options,
        &["--quick", "--fail-fast", "--step=NAME", lanes::OPTION],
    )?;
    let wish = Wish {
        chosen,
        quick: options.contains(&"--quick"),
        fail_fast: options.contains(&"--fail-fast"),
        extent,
    };
    if options.contains(&lanes::OPTION) {
        return lanes::serve(root, &wish);
    }
    for tool in needs::missing_tools() {
        eprintln!("{tool}");
    }
    let started = Instant::now();
    let mut beside = match wish.beside().next() {
        Some(_) => Some(lanes::Beside::start(root, &wish)?),
        None => None,
    };
    let rows = first_lane(root, &wish, beside.as_mut())?;
    let of_beside = beside.map_or_else(Vec::new, lanes::Beside::finish);
    let rows = lanes::merge(rows, of_beside, &wish);
    report::print(&rows, started.elapsed());
    Ok(!rows.iter().any(Row::is_failure))
}

/// The steps that are not in the second lane.
fn first_lane(
    root: &Path,
    wish: &Wish,
    mut beside: Option<&mut lanes::Beside>,
) -> Result<Vec<Row>, Explained> {
    let mut rows: Vec<Row> = Vec::new();
    for step in wish.steps() {
        if wish.beside().any(|other| other.name == step.name) {
            continue;
        }
        let failed = || {
            let there = beside.as_deref().is_some_and(lanes::Beside::has_failed);
            there || rows.iter().any(Row::is_failure)
        };
        let row = match wish.left_out(step) {
            Some(why) => Row::skipped(step.name, why),
            None if wish.fail_fast && failed() => Row::skipped(step.name, LEFT_OUT),
            None => run_step(root, step)?,
        };
        if let (true, Some(beside)) = (wish.fail_fast && row.is_failure(), beside.as_mut()) {
            beside.stop();
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Where cargo builds.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// The steps of `--step=NAME`, and the other options.
fn chosen_steps<'a>(options: &[&'a str]) -> Result<(Vec<&'a str>, Vec<&'a str>), Explained> {
    let (chosen, others): (Vec<&str>, Vec<&str>) = options
        .iter()
        .partition(|option| option.starts_with("--step="));
    let chosen: Vec<&str> = chosen
        .into_iter()
        .filter_map(|option| option.strip_prefix("--step="))
        .collect();
    let known: Vec<&str> = steps::ALL.iter().map(|step| step.name).collect();
    only_known(&chosen, &known)?;
    Ok((chosen, others))
}

fn run_step(root: &Path, step: &Step) -> Result<Row, Explained> {
    println!("\n== {}: {}", step.name, step.why);
    let started = Instant::now();
    if let Some(why) = needs::unmet(root, step.needs) {
        eprintln!("!! {} DID NOT RUN: {why}", step.name);
        return Ok(Row::skipped(step.name, why));
    }
    let outcome = match &step.job {
        Job::Inside(task) => match task(root) {
            Ok(true) => Outcome::passed(0),
            Ok(false) => Outcome::failed("see above"),
            Err(explained) => {
                eprintln!("{explained}");
                Outcome::failed("see above")
            }
        },
        Job::Cargo(command) => child::run(root, command)?,
    };
    Ok(Row::done(step.name, outcome, started.elapsed()))
}
