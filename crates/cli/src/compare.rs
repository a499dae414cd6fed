//! `gannet compare`: everything, side by side, in one table.

use std::process::ExitCode;

use clap::Args;
use gannet_bench::Problem;
use gannet_bench::environment::Environment;
use gannet_bench::report::json::Document;
use gannet_bench::report::table;
use gannet_bench::run::compare::{self, Options};
use gannet_bench::run::interrupt::Interrupt;
use gannet_bench::run::workers::Launcher;
use serde::Serialize;

use crate::choices::{self, Link, Peer, Workload};
use crate::progress::Bar;

/// Seconds for all runs; what is around them has the rest of the minute, or of the ten.
const QUICK: f64 = 48.0;
const FULL: f64 = 540.0;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Fewer sizes, under a minute
    #[arg(long)]
    quick: bool,
    /// Print JSON (schema gannet/compare/1)
    #[arg(long)]
    json: bool,
    /// Check every byte (costs speed)
    #[arg(long)]
    verify: bool,
    /// Only over this link (may be given several times)
    #[arg(long, value_enum)]
    link: Vec<Link>,
    /// Only this conversation (may be given several times)
    #[arg(long, value_enum)]
    workload: Vec<Workload>,
    /// Only this size, like 64, 16K or 1M (may be given several times)
    #[arg(long, value_parser = choices::size)]
    size: Vec<usize>,
    /// Only this contender (may be given several times)
    #[arg(long, value_enum)]
    peer: Vec<Peer>,
    /// Interleaved runs of each contender
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,
    /// Seconds of each run, instead of as long as the time allows
    #[arg(long, value_parser = choices::seconds)]
    seconds: Option<f64>,
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            links: choices::or_all(&self.link),
            workloads: choices::or_all(&self.workload),
            sizes: self.size.clone(),
            contenders: self.peer.iter().copied().map(Into::into).collect(),
            quick: self.quick,
            verify: self.verify,
            pairs: usize::from(self.pairs),
            budget: if self.quick { QUICK } else { FULL },
            seconds: self.seconds,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let document = measure(&arguments.options())?;
    match arguments.json {
        true => print_json(&document)?,
        false => print!("{}", table::render(&document)),
    }
    Ok(status(&document))
}

/// Measures with progress shown and Ctrl-C caught.
pub(crate) fn measure(options: &Options) -> Result<Document, Problem> {
    let environment = Environment::record();
    let launcher = Launcher::new(Interrupt::install()?);
    let mut bar = Bar::new();
    let comparison = compare::run(&launcher, options, &mut bar)?;
    drop(bar);
    Ok(Document::new(environment, options, &comparison))
}

/// A run that failed is a failure of the whole, although the rest is printed. So is having measured
/// nothing.
pub(crate) fn status(document: &Document) -> ExitCode {
    for failure in &document.failures {
        eprintln!("error: {}", failure.problem);
    }
    match document.failures.is_empty() && !document.results.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Problem> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Problem::new("cannot write JSON", error, "leave out --json"))?;
    println!("{text}");
    Ok(())
}
