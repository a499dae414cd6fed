//! `gannet sim bugs`: mistakes made on purpose in the stack, and which judge finds each.

use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Args;
use gannet_bench::Problem;
use gannet_sim::bugs::{self, Hunt};
use serde::Serialize;

use crate::compare::print_json;

/// Fewer that are found is a failure.
const LEAST: usize = 55;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Most seeds played with each
    #[arg(long, default_value_t = 1500)]
    seeds: u64,
    /// Threads; as many as there are processors when not said
    #[arg(long)]
    jobs: Option<usize>,
    /// Only those whose names begin so
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON (schema gannet/sim-bugs/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    bugs: Vec<Row>,
    found: usize,
    least: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    what: &'static str,
    seed: Option<u64>,
    judge: Option<String>,
    played: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| available_parallelism().map_or(1, Into::into));
    let wanted = |name: &str| name.starts_with(&arguments.only);
    let hunts = bugs::hunt_all(wanted, arguments.seeds, jobs, |hunt| {
        if !arguments.json {
            println!("{}", line(hunt));
        }
    });
    let found = hunts.iter().filter(|hunt| hunt.found.is_some()).count();
    let enough = found >= LEAST.min(hunts.len());
    if arguments.json {
        print_json(&Document {
            schema: "gannet/sim-bugs/1",
            bugs: hunts.iter().map(row).collect(),
            found,
            least: LEAST,
        })?;
    } else {
        println!("found {found} of {}", hunts.len());
    }
    Ok(match enough {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn line(hunt: &Hunt) -> String {
    let (name, words) = (format!("{:?}", hunt.bug), hunt.bug.words());
    match &hunt.found {
        Some((seed, judge)) => format!("{name}: {words}: found at seed {seed}: {judge}"),
        None => format!("{name}: {words}: NOT FOUND in {} seeds", hunt.played),
    }
}

fn row(hunt: &Hunt) -> Row {
    Row {
        name: format!("{:?}", hunt.bug),
        what: hunt.bug.words(),
        seed: hunt.found.as_ref().map(|(seed, _)| *seed),
        judge: hunt.found.as_ref().map(|(_, judge)| judge.clone()),
        played: hunt.played,
    }
}
