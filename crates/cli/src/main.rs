//! The `gannet` command. One file for each subcommand; this one reads the command line and turns
//! the outcome into an exit status.
//!
//! Every subcommand prints for people or, with `--json`, for programs, and fails with a non-zero
//! status in both. An error is three lines on the standard error: what, why, and what to try.
#![forbid(unsafe_code)]

mod bench;
mod choices;
mod compare;
mod config;
mod explain;
mod knobs;
mod progress;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gannet_bench::Problem;

/// User-level networking for Linux.
#[derive(Debug, Parser)]
#[command(name = "gannet", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure Gannet and the kernel side by side on this machine
    Compare(compare::Arguments),
    /// Measure one scenario, or the marks to reach
    Bench(bench::Arguments),
    /// Networks that follow from a seed
    Sim(sim::Arguments),
    /// What is set, who set it, and what could be
    Config(config::Arguments),
    /// What a code means: an errno, an exit status, a counter, why something stays with the kernel
    Explain(explain::Arguments),
    /// One side of a measurement, started by the others
    #[command(hide = true)]
    Worker,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Worker => return gannet_bench::worker::main(),
    };
    match outcome {
        Ok(status) => status,
        Err(problem) => fail(&problem),
    }
}

fn fail(problem: &Problem) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
