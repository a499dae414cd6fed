//! `gannet sim run`: many seeds, a summary, and for each failure the line that replays it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Instant;

use clap::Args;
use gannet_bench::Problem;
use gannet_sim::sweep::{self, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::compare::print_json;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many seeds
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads; as many as there are processors when not said
    #[arg(long)]
    jobs: Option<usize>,
    /// Print JSON (schema gannet/sim/1)
    #[arg(long)]
    json: bool,
    /// Fail unless the digest of all runs is this one, as printed by another run
    #[arg(long, value_name = "HEX")]
    expect: Option<String>,
    /// Print the digest alone
    #[arg(long)]
    digest: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    first: u64,
    seeds: u64,
    failures: Vec<Failure<'a>>,
    digest: String,
    virtual_seconds: f64,
    real_seconds: f64,
    frames: u64,
    wire_bytes: u64,
    bytes: u64,
    connections: u64,
    datagrams: u64,
    counts: &'a BTreeMap<String, (u64, u64)>,
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    seed: u64,
    what: &'a str,
    replay: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| available_parallelism().map_or(1, Into::into));
    let began = Instant::now();
    let bar = bar(arguments.seeds);
    let mut failed = 0_u64;
    let summary = sweep::many(arguments.from, arguments.seeds, jobs, |outcome| {
        if let Some(failure) = outcome.failures.first() {
            failed += 1;
            let seed = outcome.seed;
            bar.suspend(|| eprintln!("gannet sim replay {seed}   # {failure}"));
            bar.set_message(format!("{failed} failed"));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let real = began.elapsed().as_secs_f64();
    let digest = format!("{:016x}", summary.digest);
    match (arguments.json, arguments.digest) {
        (true, _) => print_json(&document(arguments, &summary, &digest, real))?,
        (_, true) => println!("{digest}"),
        _ => print(&summary, &digest, real),
    }
    let other = arguments
        .expect
        .as_ref()
        .filter(|expected| **expected != digest);
    if let Some(expected) = other {
        return Err(Problem::new(
            "the runs were not the same as before",
            format!("their digest is {digest}, not {expected}"),
            "compare `gannet sim replay SEED --trace` of both builds",
        ));
    }
    Ok(match summary.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn bar(seeds: u64) -> ProgressBar {
    let bar = ProgressBar::new(seeds);
    let style = "{bar:30} {pos}/{len} seeds, {eta} left {msg}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

fn document<'a>(
    arguments: &Arguments,
    summary: &'a Summary,
    digest: &str,
    real_seconds: f64,
) -> Document<'a> {
    let failures = summary.failures.iter().map(|(seed, what)| Failure {
        seed: *seed,
        what,
        replay: format!("gannet sim replay {seed}"),
    });
    Document {
        schema: "gannet/sim/1",
        first: arguments.from,
        seeds: summary.seeds,
        failures: failures.collect(),
        digest: digest.to_owned(),
        virtual_seconds: summary.virtual_seconds,
        real_seconds,
        frames: summary.frames,
        wire_bytes: summary.wire_bytes,
        bytes: summary.bytes,
        connections: summary.connections,
        datagrams: summary.datagrams,
        counts: &summary.counts,
    }
}

fn print(summary: &Summary, digest: &str, real: f64) {
    let Summary {
        seeds,
        failures,
        virtual_seconds,
        frames,
        wire_bytes,
        bytes,
        connections,
        datagrams,
        digest: _,
        counts,
    } = summary;
    println!("what was exercised (times, runs):");
    for (name, (total, runs)) in counts {
        println!("  {name:<34} {total:>12} {runs:>7}");
    }
    println!("{connections} connections, {datagrams} datagrams, {bytes} bytes received");
    println!("{frames} frames sent, {wire_bytes} bytes over wires");
    let ratio = virtual_seconds / real.max(1e-9);
    println!("{virtual_seconds:.0} s of virtual time in {real:.1} s: {ratio:.0} times real time");
    println!("digest {digest}");
    println!("{seeds} seeds, {} failed", failures.len());
    for (seed, failure) in failures {
        println!("gannet sim replay {seed}   # {failure}");
    }
}
