//! `gannet sim replay`: one seed again, with everything that can be said about it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use gannet_bench::Problem;
use gannet_sim::scenario::Scenario;
use gannet_sim::sweep;
use gannet_sim::trace::{Both, Capture, Lines};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seed
    seed: u64,
    /// Print every frame that hosts send and get
    #[arg(long)]
    trace: bool,
    /// Write what passes one host's interface, with virtual time, as pcapng
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The host of --pcap
    #[arg(long, default_value_t = 0)]
    host: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let scenario = Scenario::generate(arguments.seed);
    let mut out = std::io::stdout().lock();
    // a reader that has gone needs no more lines
    let _ = write!(out, "{scenario}");
    let lines = arguments.trace.then_some(Lines(&mut out));
    let capture = arguments
        .pcap
        .is_some()
        .then(|| Capture::of(arguments.host));
    let mut witness = Both(lines, capture);
    let outcome = sweep::play(&scenario, &mut witness);
    let Both(_, capture) = witness;
    if let (Some(path), Some(capture)) = (&arguments.pcap, capture) {
        std::fs::write(path, capture.bytes).map_err(|error| {
            let what = format!("cannot write {}", path.display());
            Problem::new(what, error, "name a file in a folder that you may write to")
        })?;
    }
    for failure in &outcome.failures {
        let _ = writeln!(out, "failed: {failure}");
    }
    let (at, frames) = (outcome.ended_at, outcome.frames);
    let _ = writeln!(
        out,
        "ended at {at}, {frames} frames, digest {:016x}",
        outcome.digest
    );
    Ok(match outcome.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
