//! Debian's programs, unmodified, on the kernel and on Gannet: what works, and how fast.
//!
//! * `programs/`: one file per program, its checks; sources of our own are in `peers/`
//! * `case.rs`: what a check is; `stage.rs`: what it has at hand; `command.rs`: one command of it
//! * `mode.rs`: the three modes, and the one place that knows `gannet run`
//! * `place.rs`: name spaces, and what went over their kernel; `family.rs`: processes we started
//! * `check.rs`: runs the checks; `report.rs`: tables, JSON, `docs/compatibility.md`
//! * `known.rs`: what does not work, from `known.toml`; `install.rs`: packages
//! * `interrupt.rs`: signals that end us, after we have ended what we started
//!
//! Whether something was carried by Gannet is not asked of Gannet: in mode `gannet` a check also
//! fails when the kernel of its name space counted a connection or a datagram.

#![forbid(unsafe_code)]

mod case;
mod check;
mod command;
mod family;
mod install;
mod interrupt;
mod known;
mod mode;
mod place;
mod programs;
mod report;
mod stage;

use case::Program;
use check::Plan;
use clap::Parser;
use known::Known;
use mode::Mode;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs Debian's programs on the kernel and on Gannet, and says what works
#[derive(Debug, Parser)]
#[command(name = "gannet-programs", version)]
struct Options {
    /// Only this program; may be repeated
    #[arg(long = "program", value_name = "NAME")]
    programs: Vec<String>,
    /// Only checks whose name holds this
    #[arg(long, value_name = "TEXT")]
    check: Option<String>,
    /// Where: kernel, gannet, veth
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kernel")]
    modes: Vec<Mode>,
    /// Less data, fewer connections
    #[arg(long)]
    quick: bool,
    /// The results as JSON on standard output
    #[arg(long)]
    json: bool,
    /// All modes, and write docs/compatibility.md
    #[arg(long, conflicts_with_all = ["programs", "check", "modes", "quick"])]
    write_matrix: bool,
    /// The names of programs and checks, and no more
    #[arg(long)]
    list: bool,
    /// Install nothing
    #[arg(long)]
    no_install: bool,
    /// Leave the folder with outputs and configurations
    #[arg(long)]
    keep: bool,
    /// The gannet command; else it is built
    #[arg(long, value_name = "PATH")]
    gannet: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(lines) => {
            eprintln!("{lines}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is as it should be; or what, why and what to try.
fn run(options: &Options) -> Result<bool, String> {
    let programs = chosen(&options.programs)?;
    if options.list {
        print_list(&programs);
        return Ok(true);
    }
    let known = Known::read(programs::is_check).map_err(|why| {
        format!("known.toml cannot be used\n  why: {why}\n  try: cargo xtask programs --list")
    })?;
    let modes = if options.write_matrix {
        Mode::ALL.to_vec()
    } else {
        options.modes.clone()
    };
    prepare().map_err(|why| format!("the run cannot start\n  why: {why}\n  try: sudo"))?;
    if !options.no_install {
        install::install(&programs);
    }
    let gannet = match &options.gannet {
        Some(path) => path.clone(),
        None if modes.iter().all(|mode| *mode == Mode::Kernel) => PathBuf::new(),
        None => build_gannet()?,
    };
    let directory = std::env::temp_dir().join(format!("gannet-programs-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("shared"))
        .map_err(|why| format!("no folder to work in\n  why: {why}\n  try: TMPDIR=..."))?;
    let plan = Plan {
        modes,
        programs,
        check: options.check.clone(),
        quick: options.quick,
        gannet,
        directory: directory.clone(),
    };
    let rows = plan.run(&known, |row| match options.json {
        true => eprintln!("{}", row.line()),
        false => println!("{}", row.line()),
    });
    match options.keep {
        true => eprintln!("outputs are in {}", directory.display()),
        false => check::remove(&directory),
    }
    match options.json {
        true => println!("{}", report::json(&rows)),
        false => print!("{}", report::table(&rows)),
    }
    if options.write_matrix && !interrupt::came() {
        report::write_matrix(&rows).map_err(|why| {
            format!("the matrix was not written\n  why: {why}\n  try: git status")
        })?;
    }
    Ok(!rows.iter().any(report::Row::is_failure) && !rows.is_empty() && !interrupt::came())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Program>, String> {
    let all = programs::ALL;
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|it| it.name == **name))
    {
        let known: Vec<&str> = all.iter().map(|program| program.name).collect();
        let known = known.join(" ");
        return Err(format!(
            "`{name}` is no program that is checked\n  why: it knows {known}\n  try: --list"
        ));
    }
    let wanted = |program: &&&Program| names.is_empty() || names.iter().any(|n| n == program.name);
    Ok(all.iter().filter(wanted).copied().collect())
}

fn print_list(programs: &[&Program]) {
    for program in programs {
        for case in program.cases {
            let modes: Vec<&str> = case.modes.iter().map(|mode| mode.name()).collect();
            println!("{:<10} {:<24} {}", program.name, case.name, modes.join(" "));
        }
    }
}

/// Signals, orphans, and as many descriptors as there may be.
fn prepare() -> std::io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    interrupt::watch()?;
    family::adopt_orphans()?;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Builds the gannet command and its libraries beside this program, in the same profile.
fn build_gannet() -> Result<PathBuf, String> {
    let broken = |why: String| format!("gannet was not built\n  why: {why}\n  try: --gannet PATH");
    let own = std::env::current_exe().map_err(|why| broken(why.to_string()))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "-p", "gannet-cli"]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = command
        .current_dir(root)
        .status()
        .map_err(|why| broken(why.to_string()))?;
    match status.success() {
        true => Ok(folder.join("gannet")),
        false => Err(broken(status.to_string())),
    }
}
