//! The subcommand `bench`.

use super::pairs::{PAIRS, Plan};
use super::{single, subjects};
use crate::case::Fault;
use crate::mode::Mode;
use std::path::PathBuf;

/// How fast they are, paired with the kernel
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often each is run
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// About how long a run takes
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Only these: iperf3, redis, nginx, calls, idle
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only over this: loopback, veth
    #[arg(long, value_name = "PAIR")]
    pair: Option<String>,
    /// The results as JSON on standard output
    #[arg(long)]
    json: bool,
    /// The gannet command; else it is built
    #[arg(long, value_name = "PATH")]
    pub(crate) gannet: Option<PathBuf>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// What was measured and what could not be, as people read it and as JSON.
struct Found<'a> {
    options: &'a Options,
    values: Vec<serde_json::Value>,
    /// Whether everything could be measured.
    whole: bool,
}

impl Found<'_> {
    fn add<T: serde::Serialize>(
        &mut self,
        what: &str,
        outcome: Result<T, Fault>,
        lines: impl Fn(&T) -> String,
    ) {
        let value = match outcome {
            Ok(value) => {
                if !self.options.json {
                    print!("{}", lines(&value));
                }
                serde_json::json!({ "what": what, "found": value })
            }
            Err(Fault::Failed(why) | Fault::LeftOut(why)) => {
                eprintln!("{what}: not measured: {why}");
                self.whole = false;
                serde_json::json!({ "what": what, "not_measured": why })
            }
        };
        self.values.push(value);
    }
}

/// Measures; whether everything could be measured. Marks that are missed are no failure.
pub(crate) fn run(options: &Options, gannet: PathBuf, directory: PathBuf) -> bool {
    let plan = Plan {
        runs: options.runs.max(1),
        seconds: options.seconds.max(1),
        gannet,
        directory,
    };
    let mut found = Found {
        options,
        values: Vec::new(),
        whole: true,
    };
    for pair in PAIRS {
        let is_wanted = options.pair.as_ref().is_none_or(|name| name == pair.name);
        let all = subjects::ALL.iter();
        for subject in all.filter(|it| is_wanted && options.wants(it.name)) {
            let what = format!("{} over {}", subject.name, pair.name);
            found.add(&what, plan.compare(subject, pair), |all| {
                all.iter().map(super::pairs::Compared::lines).collect()
            });
        }
    }
    if options.wants("calls") {
        let calls = single::calls(&plan);
        found.add("calls", calls, |all| {
            all.iter().map(single::Calls::lines).collect()
        });
    }
    for mode in [Mode::Kernel, Mode::Gannet] {
        if options.wants("idle") {
            found.add("idle", single::idle(&plan, mode), single::Idle::lines);
        }
    }
    if options.json {
        let report = serde_json::json!({
            "schema": "gannet-programs-bench/1",
            "measured": found.values,
        });
        println!("{report:#}");
    }
    found.whole
}
