//! `gannet sim`: networks that follow from a seed. One file for each subcommand.

#[cfg(feature = "planted-bugs")]
mod bugs;
mod replay;
mod run;
mod speed;
mod wire;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gannet_bench::Problem;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Play many seeds in virtual time and judge every event
    Run(run::Arguments),
    /// Play one seed again and show what happens
    Replay(replay::Arguments),
    /// Measure virtual time against real time
    Speed(speed::Arguments),
    /// Make mistakes in the stack on purpose and see which are found
    #[cfg(feature = "planted-bugs")]
    Bugs(bugs::Arguments),
    /// Join two interfaces by an impaired wire, in real time (needs root)
    Wire(wire::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    match &arguments.what {
        What::Run(arguments) => run::run(arguments),
        What::Replay(arguments) => replay::run(arguments),
        What::Speed(arguments) => speed::run(arguments),
        #[cfg(feature = "planted-bugs")]
        What::Bugs(arguments) => bugs::run(arguments),
        What::Wire(arguments) => wire::run(arguments),
    }
}
