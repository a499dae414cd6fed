//! `gannet bench attacks`: what hostile packets cost, against ordinary ones.

use std::process::ExitCode;

use clap::Args;
use gannet_bench::Problem;
use gannet_bench::in_process::attacks::{self, Kind, Row};
use gannet_bench::statistics::Summary;
use serde::Serialize;

use crate::compare::print_json;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Send the packets: what runs under valgrind
    #[arg(long, hide = true)]
    inside: Option<String>,
    /// How many
    #[arg(long, hide = true, default_value_t = 1)]
    packets: u32,
    /// Write the packets, and no more
    #[arg(long, hide = true)]
    dry: bool,
    /// Print JSON (schema gannet/attacks/1)
    #[arg(long)]
    json: bool,
}

/// The schema `gannet/attacks/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    reached: bool,
    rows: Vec<Row>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    if let Some(name) = &arguments.inside {
        let kind = Kind::named(name).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            Problem::new(format!("no packets are called {name}"), "not known", known)
        })?;
        attacks::run(kind, arguments.packets, arguments.dry)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = attacks::count(&Kind::ALL, |name| eprintln!("counting {name} ..."))?;
    let reached = rows.iter().all(|row| row.reached);
    match arguments.json {
        true => print_json(&Document {
            schema: "gannet/attacks/1",
            reached,
            rows,
        })?,
        false => render(&rows),
    }
    Ok(match reached {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn render(rows: &[Row]) {
    println!("instructions and processor time of one packet; mark: at most 3 times the ordinary");
    println!(
        "{:<15} {:>12} {:>8} {:>7}  {:<10} {:>6}  {:<21}",
        "packets", "instructions", "ns", "answers", "ordinary", "times", "times by clock"
    );
    for row in rows {
        let middle = row.nanoseconds.map_or(f64::NAN, |n| n.median);
        let against = row.ordinary.map_or("", Kind::name);
        let times = row.times.map_or(String::new(), |t| format!("{t:.2}"));
        let clock = row.times_by_clock.map_or(String::new(), spread);
        let mark = if row.reached { "" } else { "  missed" };
        println!(
            "{:<15} {:>12.0} {middle:>8.0} {:>7.2}  {against:<10} {times:>6}  {clock}{mark}",
            row.cost.kind.name(),
            row.cost.instructions.unwrap_or(f64::NAN),
            row.cost.answers,
        );
    }
}

fn spread(of: Summary) -> String {
    format!("{:.2} ({:.2} to {:.2})", of.median, of.min, of.max)
}
