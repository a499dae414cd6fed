//! Debian's programs, unmodified, on the kernel and on Gannet: what works, and how fast.
//!
//! * `programs/`: one file per program, its checks; sources of our own are in `peers/`
//! * `case.rs`: what a check is; `stage.rs`: what it has at hand; `command.rs`: one command of it
//! * `mode.rs`: the three modes, and the one place that knows `gannet run`
//! * `place.rs`: name spaces, and what went over their kernel; `family.rs`: processes we started
//! * `check.rs`: runs the checks; `report.rs`: tables, JSON, `docs/compatibility.md`
//! * `known.rs`: what does not work, from `known.toml`; `install.rs`: packages
//! * `bench/`: how fast they are, paired with the kernel
//! * `interrupt.rs`: signals that end us, after we have ended what we started
//!
//! Whether something was carried by Gannet is not asked of Gannet: in mode `gannet` a check also
//! fails when the kernel of its name space counted a connection or a datagram.

#![forbid(unsafe_code)]

mod bench;
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
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
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

/// Tasks beside checking.
#[derive(Debug, clap::Subcommand)]
enum Task {
    /// How fast they are, paired with the kernel
    Bench(bench::Options),
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
    prepare().map_err(|why| format!("the run cannot start\n  why: {why}\n  try: sudo"))?;
    if !options.no_install {
        install::install(&programs);
    }
    let folder = Folder::new(options.keep)
        .map_err(|why| format!("no folder to work in\n  why: {why}\n  try: TMPDIR=..."))?;
    match &options.task {
        None => check(options, programs, &folder),
        Some(Task::Bench(bench)) => {
            let gannet = gannet(bench.gannet.as_ref())?;
            Ok(bench::run(bench, gannet, folder.path.clone()))
        }
    }
}

/// The folder of a run.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new(keep: bool) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("gannet-programs-{}", std::process::id()));
        std::fs::create_dir_all(path.join("shared"))?;
        Ok(Self { path, keep })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        match self.keep {
            true => eprintln!("outputs are in {}", self.path.display()),
            false => check::remove(&self.path),
        }
    }
}

fn check(
    options: &Options,
    programs: Vec<&'static Program>,
    folder: &Folder,
) -> Result<bool, String> {
    let known = Known::read(programs::is_check).map_err(|why| {
        format!("known.toml cannot be used\n  why: {why}\n  try: cargo xtask programs --list")
    })?;
    let all = || Mode::ALL.to_vec();
    let modes = if options.write_matrix {
        all()
    } else {
        options.modes.clone()
    };
    let is_kernel = |mode: &Mode| matches!(mode, Mode::Kernel | Mode::KernelVeth);
    let gannet = match modes.iter().all(is_kernel) {
        true => PathBuf::new(),
        false => gannet(options.gannet.as_ref())?,
    };
    let plan = Plan {
        modes,
        programs,
        check: options.check.clone(),
        quick: options.quick,
        gannet,
        directory: folder.path.clone(),
    };
    let rows = plan.run(&known, |row| match options.json {
        true => eprintln!("{}", row.line()),
        false => println!("{}", row.line()),
    });
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

/// The command of `--gannet`; else it is built with its library, beside this program and in the
/// same profile.
fn gannet(named: Option<&PathBuf>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        let broken = |why| {
            format!(
                "no command {}\n  why: {why}\n  try: --gannet PATH",
                path.display()
            )
        };
        return path.canonicalize().map_err(broken);
    }
    let broken = |why: String| format!("gannet was not built\n  why: {why}\n  try: --gannet PATH");
    let own = std::env::current_exe().map_err(|why| broken(why.to_string()))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "--locked",
        "-p",
        "gannet-cli",
        "-p",
        "gannet-preload",
    ]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command
        .current_dir(root)
        .status()
        .map_err(|why| broken(why.to_string()))?;
    match status.success() {
        true => Ok(folder.join("gannet")),
        false => Err(broken(status.to_string())),
    }
}
