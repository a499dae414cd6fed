//! `cargo xtask test` and `cargo xtask ci`: every step runs, every failure is seen.
//!
//! * `test/steps.rs`: the list of steps, as data; a new step is one entry there
//! * `test/needs.rs`: what a step needs on the machine, and how it comes there
//! * `test/child.rs`: one cargo run: output passed on, results counted, a limit on its time
//! * `test/corpora.rs`: the fuzz targets play their corpora
//! * `test/carried.rs`: the cases under `gannet run`
//! * `test/digest.rs`: debug and release code play the same simulation
//! * `test/report.rs`: the table at the end and the last line, `N passed, N failed`

mod carried;
mod child;
mod corpora;
mod digest;
mod needs;
mod report;
mod steps;

use crate::explain::Explained;
use crate::only_known;
use report::{Outcome, Row};
use std::path::Path;
use std::time::Instant;
use steps::{Cost, Job, Step};

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

/// Runs the steps; true when none failed.
pub(crate) fn run(root: &Path, extent: Extent, options: &[&str]) -> Result<bool, Explained> {
    let (chosen, options) = chosen_steps(options)?;
    only_known(&options, &["--quick", "--fail-fast", "--step=NAME"])?;
    let quick = options.contains(&"--quick");
    let fail_fast = options.contains(&"--fail-fast");
    for tool in needs::missing_tools() {
        eprintln!("{tool}");
    }
    let mut rows: Vec<Row> = Vec::new();
    for step in steps::ALL {
        if !chosen.is_empty() && !chosen.contains(&step.name) {
            continue;
        }
        let skipped = match (step.cost, extent) {
            (Cost::Slow, _) if quick && chosen.is_empty() => Some("left out by --quick"),
            (Cost::Extra, Extent::Usual) if chosen.is_empty() => Some("part of `cargo xtask ci`"),
            _ if fail_fast && rows.iter().any(Row::is_failure) => Some("left out by --fail-fast"),
            _ => None,
        };
        let row = match skipped {
            Some(why) => Row::skipped(step.name, why),
            None => run_step(root, step)?,
        };
        rows.push(row);
    }
    report::print(&rows);
    Ok(!rows.iter().any(Row::is_failure))
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
