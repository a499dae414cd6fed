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
mod printable;
mod progress;
mod run;
mod sim;
mod ss;

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
    /// Run a program over Gannet, unmodified
    Run(run::Arguments),
    /// Measure Gannet and the kernel side by side on this machine
    Compare(compare::Arguments),
    /// Measure one scenario, or the marks to reach
    Bench(bench::Arguments),
    /// Networks that follow from a seed
    Sim(sim::Arguments),
    /// The sockets of running programs
    Ss(ss::Arguments),
    /// What is set, who set it, and what could be
    Config(config::Arguments),
    /// What a code means: an errno, an exit status, a counter, why something stays with the kernel
    Explain(explain::Arguments),
    /// One side of a measurement, started by the others
    #[command(hide = true)]
    Worker,
    /// The process that carries a program, started by `run`
    #[command(hide = true)]
    Carrier {
        /// See `gannet_carrier::carry`
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misunderstood(&error),
    };
    let outcome = match arguments.command {
        Command::Run(arguments) => return run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Ss(arguments) => ss::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Worker => return gannet_bench::worker::main(),
        Command::Carrier { arguments } => return gannet_carrier::carry(&arguments),
    };
    match outcome {
        Ok(status) => status,
        Err(problem) => fail(&problem),
    }
}

/// Prints help, or what is wrong with the command line. The exit status is clap's, except that
/// `gannet run` keeps to the statuses that a program cannot be mistaken for.
fn misunderstood(error: &clap::Error) -> ExitCode {
    // nobody is left to be told
    let _ = error.print();
    let is_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_run => ExitCode::from(run::OWN_FAILURE),
        code => ExitCode::from(u8::try_from(code).unwrap_or(2)),
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
