//! `gannet sim speed`: how much faster than real time a bulk transfer over 10 Mb/s and 50 ms of
//! round trip is played on one core.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use gannet_bench::Problem;
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
    /// Judge every segment, too (slower)
    #[arg(long)]
    judge: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let mut scenario = Scenario::speed(arguments.seconds);
    if arguments.judge {
        scenario.judges = Judges::All;
    }
    let began = Instant::now();
    let outcome = sweep::play(&scenario, &mut Silent);
    let real = began.elapsed().as_secs_f64();
    if let Some(failure) = outcome.failures.first() {
        let hint = "run `gannet sim run` to see what else fails";
        return Err(Problem::new("the transfer failed", failure.clone(), hint));
    }
    // TIME-WAIT costs nothing and does not count
    let seconds = arguments.seconds as f64;
    let ratio = seconds / real;
    let per_frame = real * 1e9 / outcome.frames as f64;
    println!("10 Mb/s, 50 ms: {seconds} s of virtual time in {real:.3} s on one core");
    println!("{} frames, {per_frame:.0} ns each", outcome.frames);
    println!("{ratio:.0} times real time (mark: {MARK})");
    Ok(match ratio >= MARK {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
