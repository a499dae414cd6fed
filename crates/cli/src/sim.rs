//! `gannet sim`: networks that follow from a seed. One file for each subcommand.

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
    /// Join two interfaces by an impaired wire, in real time (needs root)
    Wire(wire::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    match &arguments.what {
        What::Wire(arguments) => wire::run(arguments),
    }
}
