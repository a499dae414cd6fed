//! `gannet sim speed`: how much faster than real time a bulk transfer over 10 Mb/s and 50 ms of
//! round trip is played on one core.
//!
//! Judged is the CPU time that the run took: on a core that others use, too, more time passes. What
//! passed is printed beside it.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use gannet_bench::Problem;
use gannet_bench::workload::cpu_seconds;
use gannet_sim::scenario::{Judges, Scenario};
use gannet_sim::sweep;
use gannet_sim::world::Silent;

/// The mark.
const MARK: f64 = 1000.0;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Virtual seconds of transfer
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Only with these judges; one run with each when not said
    #[arg(long, value_enum)]
    judges: Option<Watch>,
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Watch {
    /// Every byte that is received, and the end
    Contents,
    /// Also every segment, and the stack and its memory after every event, as in `gannet sim run`
    All,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let seconds = arguments.seconds;
    println!("10 Mb/s, 50 ms: {seconds} s of virtual time on one core");
    println!(
        "judged           frames   CPU s  ns/frame  x real time (mark: {MARK})  time passed, s"
    );
    let both = [Watch::Contents, Watch::All];
    let chosen = arguments.judges.as_ref().map(core::slice::from_ref);
    let mut best = 0_f64;
    for watch in chosen.unwrap_or(&both) {
        best = best.max(measure(seconds, *watch)?);
    }
    Ok(match best >= MARK {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Plays once and prints a line; how many times real time that was.
fn measure(seconds: u64, watch: Watch) -> Result<f64, Problem> {
    let mut scenario = Scenario::speed(seconds);
    let name;
    (name, scenario.judges) = match watch {
        Watch::Contents => ("contents", Judges::Contents),
        Watch::All => ("everything", Judges::All),
    };
    let (began, used) = (Instant::now(), cpu_seconds());
    let outcome = sweep::play(&scenario, &mut Silent);
    let (cpu, passed) = (cpu_seconds() - used, began.elapsed().as_secs_f64());
    if let Some(failure) = outcome.failures.first() {
        let hint = "run `gannet sim run` to see what else fails";
        return Err(Problem::new("the transfer failed", failure.clone(), hint));
    }
    // TIME-WAIT costs nothing and does not count
    let ratio = seconds as f64 / cpu;
    let frames = outcome.frames;
    let each = cpu * 1e9 / frames as f64;
    println!("{name:<12} {frames:>10} {cpu:>7.3} {each:>9.0} {ratio:>26.0} {passed:>15.3}");
    Ok(ratio)
}
