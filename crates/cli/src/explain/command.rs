//! The subcommand.

use std::process::ExitCode;

use clap::Args;
use gannet::settings::closest;
use gannet_bench::Problem;
use serde::Serialize;

use super::entry::{Entry, Kind, catalogue, look_up};
use crate::compare::print_json;

#[derive(Debug, Args)]
#[command(after_help = "Codes: ECONNRESET, 104, ip_checksum, static-program, address-not-ours ...")]
pub(crate) struct Arguments {
    /// An errno (name or number), an exit status, a counter, or why something stays with the
    /// kernel; without one: all codes
    code: Option<String>,
    /// Print JSON (schema gannet/explain/1)
    #[arg(long)]
    json: bool,
}

/// The schema `gannet/explain/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    entries: Vec<Entry>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let all = catalogue();
    let entries = match &arguments.code {
        None => all,
        Some(code) => found(&all, code)?,
    };
    if arguments.json {
        print_json(&Document {
            schema: "gannet/explain/1",
            entries,
        })?;
    } else if arguments.code.is_none() {
        list(&entries);
    } else {
        entries.iter().for_each(print);
    }
    Ok(ExitCode::SUCCESS)
}

fn found(all: &[Entry], code: &str) -> Result<Vec<Entry>, Problem> {
    let entries = look_up(all, code);
    if !entries.is_empty() {
        return Ok(entries);
    }
    let near = closest(code, all.iter().map(|entry| &*entry.code));
    let hint = near.unwrap_or("without a code, for a list of all");
    Err(Problem::new(
        format!("cannot explain {code:?}"),
        "no code has that name or number",
        format!("gannet explain {hint}"),
    ))
}

fn print(entry: &Entry) {
    let number = entry.number.map(|n| format!(" ({n})")).unwrap_or_default();
    println!("{}{number}: {}", entry.code, entry.kind.words());
    println!("    {}", entry.meaning);
    if !entry.causes.is_empty() {
        println!("    causes: {}", entry.causes);
    }
    println!("    try: {}", entry.hint);
}

fn list(entries: &[Entry]) {
    for (kind, words) in Kind::ALL {
        println!("{words}:");
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            println!("    {:28} {}", entry.code, entry.meaning);
        }
    }
}
