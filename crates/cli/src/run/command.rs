//! The subcommand.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use gannet::settings::Assignment;
use gannet_bench::Problem;

use super::check::{Verdict, check};
use super::ending::{Failed, code_of};
use super::plan::Plan;
use super::{find, launch, library, place, static_program};
use crate::knobs::{self, Knobs};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network to join: programs of one network meet directly
    #[arg(long, value_name = "NAME")]
    net: Option<String>,
    /// The program's address in it, or `dhcp`; one that the kernel, another program or a neighbour
    /// has is refused (RFC 5227, RFC 4862)
    #[arg(long, value_name = "IP[/LEN]")]
    addr: Option<String>,
    /// The default router: an address, `link` (the kernel's there, or for IPv6 one that advertises
    /// itself, RFC 4861), `none`, or `auto`: what DHCP says
    #[arg(long, value_name = "IP")]
    gateway: Option<String>,
    /// What joins us to others: channel, packet:IF or tap:IF
    #[arg(long, value_name = "LINK")]
    link: Option<String>,
    #[command(flatten)]
    knobs: Knobs,
    /// Do not start a program that cannot be carried
    #[arg(long)]
    require: bool,
    /// Say what was carried, and what was left to the kernel and why
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    #[arg(value_name = "CMD")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
  gannet run -- redis-server
  gannet run -- redis-benchmark -t get,set
  gannet run --link packet:eth0 --addr 192.168.1.77/24 --require -- nginx
  gannet run --link packet:eth0 --addr 192.168.1.77/24 --gateway 192.168.1.1 -- curl example.org
Exit status: the program's; 128 and the number for a signal; 125 when gannet run fails, 126 when the
program cannot be executed, 127 when it is not found.";

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let plan = match prepare(arguments) {
        Ok(plan) => plan,
        Err(failed) => return end(&failed),
    };
    announce(&plan);
    match launch::start(&plan) {
        Ok(status) => code_of(status),
        Err(failed) => end(&failed),
    }
}

fn end(failed: &Failed) -> ExitCode {
    eprintln!("error: {}", failed.problem);
    ExitCode::from(failed.status)
}

/// Everything that is checked and decided before anything starts.
fn prepare(arguments: &Arguments) -> Result<Plan, Failed> {
    let settings = knobs::load(assignments(arguments))?;
    let words = arguments.command.clone();
    let found = find::find(
        words
            .first()
            .map_or_else(|| "".as_ref(), OsString::as_os_str),
    )?;
    let library = library::find();
    let verdict = check(&found, library.as_deref().ok());
    let program = found.path.clone();
    if let Some(verdict) = verdict.as_ref().filter(|_| arguments.require) {
        let what = format!("cannot carry {}", program.display());
        return Err(said(what, verdict).into());
    }
    let library = match verdict.as_ref().is_none_or(|verdict| verdict.preload) {
        true => Some(library?),
        false => None,
    };
    let loaded = library.as_deref().filter(|_| verdict.is_none());
    let loader = loaded.and_then(|library| static_program::loader(&found, library));
    if library.is_some() {
        place::check(&settings)?;
    }
    Ok(Plan {
        program,
        loader,
        words,
        settings,
        library,
        verdict,
        verbose: arguments.verbose,
    })
}

/// The options that are settings, the shorter names after `--set`.
fn assignments(arguments: &Arguments) -> Vec<Assignment> {
    let mut all = arguments.knobs.assignments();
    let named = [
        ("--net", "network", &arguments.net),
        ("--addr", "address", &arguments.addr),
        ("--gateway", "gateway", &arguments.gateway),
        ("--link", "link", &arguments.link),
    ];
    for (option, name, value) in named {
        let value = value.iter();
        all.extend(value.map(|value| Assignment::option(option, name, value)));
    }
    all
}

fn said(what: String, verdict: &Verdict) -> Problem {
    let Verdict {
        code, why, hint, ..
    } = verdict;
    Problem {
        what: format!("{what} ({code})"),
        why: why.clone(),
        hint: format!("{hint}; gannet explain {code}"),
    }
}

/// Why the program stays with the kernel, or, asked for, how it is carried.
fn announce(plan: &Plan) {
    let program = plan.program.display();
    if let Some(verdict) = &plan.verdict {
        let what = format!("{program} stays with the kernel");
        eprintln!("warning: {}", said(what, verdict));
    }
    if let Some(library) = plan.library.as_ref().filter(|_| plan.verbose) {
        let settings = &plan.settings;
        let (profile, origin) = settings.profile();
        eprintln!("gannet: {program} with {}", library.display());
        eprintln!(
            "gannet: network {}, link {}, address {}, profile {} ({origin})",
            settings.network(),
            settings.text(gannet::settings::Knob::Link),
            settings.text(gannet::settings::Knob::Address),
            profile.name
        );
    }
}
