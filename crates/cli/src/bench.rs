//! `gannet bench`: one scenario at choice, or the marks.

mod attacks;
mod wire;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gannet_bench::Problem;
use gannet_bench::in_process::instructions;
use gannet_bench::report::{marks, table};
use gannet_bench::role;
use gannet_bench::run::compare::Options;
use gannet_bench::run::plan;
use serde::Serialize;

use crate::choices::{self, Link, Peer};
use crate::compare::{measure, print_json, status};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A TCP stream, one way
    TcpStream(Scenario),
    /// TCP: one request and its answer at a time
    TcpRoundTrip(Scenario),
    /// UDP datagrams, one way
    UdpStream(Scenario),
    /// UDP: one datagram and its answer at a time
    UdpRoundTrip(Scenario),
    /// TCP connections that carry nothing: their memory and processor time
    Idle(Idle),
    /// The marks to reach, with what is measured now
    Marks(Marks),
    /// Gannet and the kernel over the same bad paths (needs root)
    Wire(wire::Arguments),
    /// What hostile packets cost, against ordinary ones (needs valgrind)
    Attacks(attacks::Arguments),
    /// Instructions for each segment, counted by valgrind: the same number every time
    Instructions(Instructions),
}

#[derive(Debug, Args)]
struct Scenario {
    /// Bytes in a write, request or datagram, like 64, 16K or 1M
    #[arg(long, default_value = "1K", value_parser = choices::size)]
    size: Vec<usize>,
    /// What joins the two ends
    #[arg(long, value_enum, default_value = "channel")]
    link: Link,
    /// Only this contender (may be given several times)
    #[arg(long, value_enum)]
    peer: Vec<Peer>,
    /// Seconds of each run
    #[arg(long, default_value = "1", value_parser = choices::seconds)]
    seconds: f64,
    /// Runs of each contender
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,
    /// Check every byte (costs speed)
    #[arg(long)]
    verify: bool,
    /// Print JSON (schema gannet/compare/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Idle {
    /// How many
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=25_000))]
    connections: u32,
    /// Seconds of each run
    #[arg(long, default_value = "1", value_parser = choices::seconds)]
    seconds: f64,
    /// Print JSON (schema gannet/compare/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Marks {
    /// Less time for each run
    #[arg(long)]
    quick: bool,
    /// Print JSON (schema gannet/marks/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Instructions {
    /// Do the work itself: what runs under valgrind
    #[arg(long, hide = true)]
    inside: Option<String>,
    /// How often
    #[arg(long, hide = true, default_value_t = 1)]
    segments: u32,
    /// Print JSON (schema gannet/instructions/1)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    match &arguments.what {
        What::TcpStream(scenario) => one(role::Workload::TcpStream, scenario),
        What::TcpRoundTrip(scenario) => one(role::Workload::TcpRoundTrip, scenario),
        What::UdpStream(scenario) => one(role::Workload::UdpStream, scenario),
        What::UdpRoundTrip(scenario) => one(role::Workload::UdpRoundTrip, scenario),
        What::Idle(idle) => one(
            role::Workload::TcpIdle,
            &Scenario {
                size: vec![idle.connections as usize],
                link: Link::Channel,
                peer: Vec::new(),
                seconds: idle.seconds,
                pairs: 1,
                verify: false,
                json: idle.json,
            },
        ),
        What::Marks(arguments) => marks(arguments),
        What::Wire(arguments) => wire::run(arguments),
        What::Attacks(arguments) => attacks::run(arguments),
        What::Instructions(arguments) => count(arguments),
    }
}

fn one(workload: role::Workload, scenario: &Scenario) -> Result<ExitCode, Problem> {
    let document = measure(&Options {
        links: vec![scenario.link.into()],
        workloads: vec![workload],
        sizes: scenario.size.clone(),
        contenders: scenario.peer.iter().copied().map(Into::into).collect(),
        quick: false,
        verify: scenario.verify,
        pairs: usize::from(scenario.pairs),
        budget: 0.0,
        seconds: Some(scenario.seconds),
    })?;
    match scenario.json {
        true => print_json(&document)?,
        false => print!("{}", table::render(&document)),
    }
    Ok(status(&document))
}

/// The schema `gannet/marks/1`.
#[derive(Debug, Serialize)]
struct MarksDocument {
    schema: &'static str,
    reached: bool,
    marks: Vec<marks::Mark>,
}

fn marks(arguments: &Marks) -> Result<ExitCode, Problem> {
    let mut workloads = choices::or_all::<choices::Workload, _>(&[]);
    workloads.push(role::Workload::TcpIdle);
    let document = measure(&Options {
        links: vec![plan::Link::Channel, plan::Link::Veth, plan::Link::InProcess],
        workloads,
        sizes: Vec::new(),
        contenders: Vec::new(),
        // The sizes of the quick run are those of the marks.
        quick: true,
        verify: false,
        pairs: 5,
        budget: if arguments.quick { 48.0 } else { 170.0 },
        seconds: None,
    })?;
    let marks = marks::marks(&document);
    let reached = marks.iter().all(marks::Mark::is_reached);
    match arguments.json {
        true => print_json(&MarksDocument {
            schema: "gannet/marks/1",
            reached,
            marks,
        })?,
        false => {
            print!("{}", marks::render(&marks));
            document
                .skipped
                .iter()
                .for_each(|skipped| println!("\n{}", skipped.problem));
        }
    }
    let measured = status(&document);
    Ok(if reached { measured } else { ExitCode::FAILURE })
}

/// The schema `gannet/instructions/1`.
#[derive(Debug, Serialize)]
struct InstructionsDocument {
    schema: &'static str,
    counts: Vec<instructions::Count>,
}

fn count(arguments: &Instructions) -> Result<ExitCode, Problem> {
    if let Some(name) = &arguments.inside {
        let work = instructions::Work::named(name).ok_or_else(|| {
            let known = instructions::Work::ALL
                .map(instructions::Work::name)
                .join(", ");
            Problem::new(format!("no work is called {name}"), "not known", known)
        })?;
        instructions::run(work, arguments.segments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let counts = instructions::count(|name| eprintln!("counting {name} ..."))?;
    if arguments.json {
        print_json(&InstructionsDocument {
            schema: "gannet/instructions/1",
            counts,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("instructions, both ends together, over a channel in one process");
    for count in counts {
        println!("  {:<14} {:>8.0}", count.work.name(), count.instructions);
    }
    Ok(ExitCode::SUCCESS)
}
