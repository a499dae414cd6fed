//! What is no pair of throughputs: a call that is not ours, and connections that do nothing.

use super::pairs::{Plan, median};
use crate::case::Fault;
use crate::mode::Mode;
use crate::programs::redis;
use crate::stage::{Stage, peer};
use serde::Serialize;
use std::time::Duration;

/// Calls of one loop.
const CALLS: &str = "10000000";

/// What a call on a file costs, in nanoseconds.
#[derive(Debug, Serialize)]
pub(super) struct Calls {
    what: &'static str,
    /// The most that it may cost more.
    mark: f64,
    kernel: Vec<f64>,
    gannet: Vec<f64>,
}

impl Calls {
    /// What it costs more, at the median.
    fn more(&self) -> f64 {
        let pairs = self.kernel.iter().zip(&self.gannet);
        median(pairs.map(|(kernel, gannet)| gannet - kernel).collect())
    }

    /// Lines for people.
    pub(super) fn lines(&self) -> String {
        let word = if self.more() < self.mark {
            "met"
        } else {
            "MISSED"
        };
        format!(
            "{} of a file: {:+.1} ns with the library, mark {} {word}\n  kernel {:.1} ns, \
             gannet {:.1} ns\n",
            self.what,
            self.more(),
            self.mark,
            median(self.kernel.clone()),
            median(self.gannet.clone())
        )
    }
}

/// Reads of a file, with and without the library.
pub(super) fn calls(plan: &Plan) -> Result<Vec<Calls>, Fault> {
    let mut found = Vec::new();
    for what in ["read", "pread"] {
        let (mut kernel, mut gannet) = (Vec::new(), Vec::new());
        for _ in 0..plan.runs {
            for (mode, times) in [(Mode::Kernel, &mut kernel), (Mode::Gannet, &mut gannet)] {
                let limit = Duration::from_secs(60);
                times.push(plan.on_stage(mode, limit, |stage| time_of(stage, what))?);
            }
        }
        found.push(Calls {
            what,
            mark: 15.0,
            kernel,
            gannet,
        });
    }
    Ok(found)
}

fn time_of(stage: &Stage, what: &str) -> Result<f64, Fault> {
    let program = stage.once("file-reads", |path| {
        let build = ["gcc", "-O2", "-o", path, &peer("file_reads.c")];
        stage.plain(&build).ok()?;
        Ok(())
    })?;
    let file = stage.write("file", "some bytes of a file\n")?;
    let out = stage.server(&[&program, what, &file, CALLS]).ok()?;
    let time = out.trim().parse::<f64>();
    time.map_err(|_| Fault::Failed(format!("no time: {out}")))
}

/// What idle connections cost.
#[derive(Debug, Serialize)]
pub(super) struct Idle {
    mode: Mode,
    connections: u64,
    /// Mebibytes of everything on the server's side.
    mebibytes: f64,
    /// Of these, there without connections.
    mebibytes_before: f64,
    /// Seconds of processor time in ten seconds.
    processor_seconds: f64,
}

impl Idle {
    /// Lines for people.
    pub(super) fn lines(&self) -> String {
        let Self {
            mode,
            connections,
            mebibytes,
            mebibytes_before,
            processor_seconds,
        } = self;
        let word = if *mebibytes < 200.0 { "met" } else { "MISSED" };
        format!(
            "{connections} idle connections, {mode}: {mebibytes:.0} MiB (without them \
             {mebibytes_before:.0}), {processor_seconds:.2} s of processor time in 10 s, mark 200 \
             MiB {word}\n"
        )
    }
}

/// Idle connections to Redis: memory of the server and what carries it, and what they use.
pub(super) fn idle(plan: &Plan, mode: Mode) -> Result<Idle, Fault> {
    let connections = 10_000;
    let time = Duration::from_secs(10);
    let limit = Duration::from_secs(120);
    let idle = plan.on_stage(mode, limit, |stage| {
        redis::hold_idle(stage, connections, time)
    })?;
    let mebibytes = |bytes: u64| bytes as f64 / 1_048_576.0;
    Ok(Idle {
        mode,
        connections,
        mebibytes: mebibytes(idle.after),
        mebibytes_before: mebibytes(idle.before),
        processor_seconds: idle.seconds,
    })
}
