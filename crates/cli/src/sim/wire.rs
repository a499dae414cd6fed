//! `gannet sim wire`: an impaired wire between two interfaces, in real time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use gannet_bench::Problem;
use gannet_bench::run::interrupt::Interrupt;
use gannet_bench::wire::{Joint, Models, Place, Trace};
use gannet_sim::path::Model;

use crate::choices;
use crate::compare::print_json;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// One interface: IF, tap:NAME, netns:SPACE/IF or netns:SPACE/tap:NAME
    #[arg(long)]
    left: Place,
    /// The other interface
    #[arg(long)]
    right: Place,
    /// What both ways are like, like rate=100mbit,delay=25ms,queue=bdp,loss=1%
    #[arg(long, default_value = "")]
    model: String,
    /// What the way from left to right is like, instead
    #[arg(long)]
    left_to_right: Option<String>,
    /// What the way from right to left is like, instead
    #[arg(long)]
    right_to_left: Option<String>,
    /// Decides every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Microseconds before a frame is due during which the wire does not sleep
    #[arg(long, default_value_t = Models::SPIN.as_micros() as u64)]
    spin: u64,
    /// End after so many seconds instead of at Ctrl-C
    #[arg(long, value_parser = choices::seconds)]
    seconds: Option<f64>,
    /// Write down what passes, where it came in and where it went out (pcapng)
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Print JSON (schema gannet/wire/1)
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
A model is a list of words: rate=100mbit delay=25ms jitter=2ms mtu=1500 queue=bdp|2bdp|64K|100p
mark=30K codel[=5ms:100ms] loss=1% burst=0.1%:25%[:100%] ackloss=5% dup=0.1% reorder=1%:5ms
corrupt=0.01% unseen=0.01% flap=5s:200ms down=10s:1s at=10s:rate=5mbit|mtu=1280|delay=..|loss=..

Two namespaces and a bad path between them:
  ip netns add a; ip netns add b
  ip -n a link add eth0 type veth peer name far; ip -n b link add eth0 type veth peer name far
  ip -n a address add 10.0.0.1/24 dev eth0; ip -n b address add 10.0.0.2/24 dev eth0
  for n in a b; do ip -n $n link set eth0 up; ip -n $n link set far up; done
  gannet sim wire --left netns:a/far --right netns:b/far --model rate=20mbit,delay=25ms,loss=1%";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let model = |own: &Option<String>| -> Result<Model, Problem> {
        let text = own.as_ref().unwrap_or(&arguments.model);
        text.parse().map_err(|error: gannet_sim::path::ModelError| {
            Problem::new(error.what.clone(), &error.why, error.hint)
        })
    };
    let models = Models {
        left_to_right: model(&arguments.left_to_right)?,
        right_to_left: model(&arguments.right_to_left)?,
        seed: arguments.seed,
        spin: Duration::from_micros(arguments.spin),
    };
    let interrupt = Interrupt::install()?;
    let trace = arguments.pcap.as_deref().map(Trace::create).transpose()?;
    let joint = Joint::new(&arguments.left, &arguments.right, models)?;
    let mut joint = joint.with_trace(trace);
    let end = arguments
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    joint.run(|| interrupt.check().is_err() || end.is_some_and(|end| Instant::now() >= end))?;
    let report = joint.report();
    match arguments.json {
        true => print_json(&report)?,
        false => print!("{}", report.render()),
    }
    Ok(ExitCode::SUCCESS)
}
