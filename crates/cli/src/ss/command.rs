//! The subcommand.

use std::process::ExitCode;

use clap::Args;
use gannet_bench::Problem;

use super::filter::Filter;
use super::find::Found;
use super::socket::Socket;
use super::{find, print};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// TCP sockets
    #[arg(short, long)]
    pub(super) tcp: bool,
    /// UDP sockets
    #[arg(short, long)]
    pub(super) udp: bool,
    /// Only sockets that listen
    #[arg(short, long)]
    listening: bool,
    /// Those that listen and those that do not, and those in TIME-WAIT
    #[arg(short, long)]
    all: bool,
    /// Of IPv4
    #[arg(short = '4', long)]
    ipv4: bool,
    /// Of IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Numbers, no names: always so
    #[arg(short, long)]
    numeric: bool,
    /// Which processes have them
    #[arg(short, long)]
    pub(super) processes: bool,
    /// What TCP knows of each connection
    #[arg(short, long)]
    pub(super) info: bool,
    /// Memory of each socket
    #[arg(short, long)]
    pub(super) memory: bool,
    /// No line of titles
    #[arg(short = 'H', long)]
    pub(super) no_header: bool,
    /// Print JSON (schema gannet/ss/1)
    #[arg(long)]
    pub(super) json: bool,
    /// Which sockets, as for ss: `state established`, `dport = :80`, `src 10.0.0.0/8`, with `and`,
    /// `or`, `not` and parentheses
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

const EXAMPLES: &str = "\
  gannet ss -tlnp
  gannet ss -ti state established '( dport = :6379 or sport = :6379 )'";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let filter = Filter::parse(&arguments.filter)?;
    let Found { mut sockets, gone } = find::look()?;
    sockets.retain(|socket| is_wanted(arguments, &filter, socket));
    sockets.sort_by_key(|socket| (socket.kind.clone(), socket.local, socket.peer));
    match arguments.json {
        true => print::json(&sockets, &gone),
        false => print::table((arguments, filter.names_one_state()), &sockets, &gone),
    }
}

fn is_wanted(arguments: &Arguments, filter: &Filter, socket: &Socket) -> bool {
    let both = arguments.tcp == arguments.udp;
    let kind = both || arguments.tcp == (socket.kind == "tcp");
    let listens = matches!(socket.state.as_str(), "LISTEN" | "UNCONN");
    let passes = matches!(socket.state.as_str(), "TIME-WAIT" | "SYN-RECV");
    let state = match (arguments.all || filter.names_states(), arguments.listening) {
        (true, _) => true,
        (false, true) => listens,
        (false, false) => !listens && !passes,
    };
    let family = match (arguments.ipv4, arguments.ipv6) {
        (true, false) => socket.local.is_ipv4() || socket.both_families,
        (false, true) => socket.local.is_ipv6(),
        _ => true,
    };
    kind && state && family && filter.takes(socket)
}
