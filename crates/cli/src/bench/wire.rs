//! `gannet bench wire`: Gannet and the kernel over the same bad paths.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use gannet_bench::Problem;
use gannet_bench::environment::Environment;
use gannet_bench::report::wire;
use gannet_bench::role::Tcp;
use gannet_bench::run::interrupt::Interrupt;
use gannet_bench::run::wire_marks::{self, Options, Point, Results};
use gannet_bench::run::workers::Launcher;
use serde::Serialize;

use crate::choices;
use crate::compare::print_json;
use crate::progress::Bar;

/// Bytes of the checked transfers.
const GIBIBYTE: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Fewer points, seeds and seconds, and a shorter transfer
    #[arg(long)]
    quick: bool,
    /// Only this path, like 1:20 for 1 % loss and a round trip of 20 ms, or 1:20:100 with the rate
    /// in Mbit/s (may be given several times)
    #[arg(long, value_parser = point)]
    point: Vec<Point>,
    /// Only two flows through this bottleneck, written as for --point (several times)
    #[arg(long, value_parser = point)]
    shared: Vec<Point>,
    /// Only the checked transfers
    #[arg(long)]
    transfer: bool,
    /// Congestion control of both, by the kernel's name
    #[arg(long, default_value = "reno")]
    congestion: String,
    /// Most bytes of a send or receive buffer
    #[arg(long, default_value = "8M", value_parser = choices::size)]
    buffer: usize,
    /// How many seeds
    #[arg(long)]
    seeds: Option<u16>,
    /// Seconds of one run
    #[arg(long, value_parser = choices::seconds)]
    seconds: Option<f64>,
    /// Write down what passes the wires, a file for each run, in this folder
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Print JSON (schema gannet/bench-wire/1)
    #[arg(long)]
    json: bool,
}

fn point(text: &str) -> Result<Point, String> {
    let bad = || "a path is LOSS:TRIP or LOSS:TRIP:RATE, like 1:20:100 (percent, ms, Mbit/s)";
    let words: Vec<&str> = text.split(':').collect();
    let number = |text: &str, most: f64| -> Result<f64, String> {
        let parsed = text.parse().ok();
        let fits = parsed.filter(|n| (0.0..=most).contains(n));
        fits.ok_or_else(|| bad().to_owned())
    };
    let (loss, trip, rate) = match words.as_slice() {
        [loss, trip] => (loss, trip, None),
        [loss, trip, rate] => (loss, trip, Some(number(rate, 10_000.0)?)),
        _ => return Err(bad().to_owned()),
    };
    let mut point = Point::new(number(loss, 100.0)?, number(trip, 60_000.0)?);
    if let Some(rate) = rate {
        point.rate_mbit = (rate as u32).max(1);
    }
    Ok(point)
}

/// The schema `gannet/bench-wire/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    reached: bool,
    environment: Environment,
    #[serde(flatten)]
    results: Results,
}

impl Arguments {
    fn options(&self) -> Options {
        let chosen = self.transfer || !self.point.is_empty() || !self.shared.is_empty();
        let (points, shared) = match (chosen, self.quick) {
            (true, _) => (self.point.clone(), self.shared.clone()),
            (false, true) => (Point::few(), vec![Point::new(0.0, 20.0)]),
            (false, false) => (Point::all(), Point::shared()),
        };
        let bytes = if self.quick { GIBIBYTE / 32 } else { GIBIBYTE };
        let (seeds, seconds) = if self.quick { (3, 3.0) } else { (5, 10.0) };
        Options {
            points,
            shared,
            transfer: (self.transfer || !chosen).then_some(bytes),
            seeds: u64::from(self.seeds.unwrap_or(seeds)),
            seconds: self.seconds.unwrap_or(seconds),
            tcp: Tcp {
                congestion: self.congestion.clone(),
                buffer: self.buffer as u32,
            },
            traces: self.traces.clone(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let environment = Environment::record();
    let launcher = Launcher::new(Interrupt::install()?);
    let mut bar = Bar::new();
    let results = wire_marks::run(&launcher, &arguments.options(), &mut bar)?;
    drop(bar);
    let mut rows = results.points.iter().chain(&results.shared);
    let reached = rows.all(|row| row.reached);
    match arguments.json {
        true => print_json(&Document {
            schema: "gannet/bench-wire/1",
            reached,
            environment,
            results,
        })?,
        false => print!("{}", wire::render(&results)),
    }
    Ok(if reached {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points() {
        let given = point("0.1:20:50").unwrap();
        assert_eq!(given.model(), "rate=50mbit,delay=10ms,queue=bdp,loss=0.1%");
        assert_eq!(point("3:100").unwrap().rate_mbit, 50);
        for text in ["", "1", "1:x", "101:1", "1:1:1:1", "-1:1", "nan:1"] {
            assert!(point(text).is_err(), "{text}");
        }
    }
}
