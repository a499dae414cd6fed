//! Starts the program and waits for it. Signals of the terminal reach the whole process group, the
//! program too, so that they only must not end this process first; SIGTERM is handed on.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use gannet_bench::Problem;
use gannet_carrier::{Config, Started};

use super::account::Account;
use super::ending::Failed;
use super::plan::Plan;

/// Starts what `plan` says, behind its carrier; how it ended.
///
/// # Errors
/// What keeps the carrier from beginning; those of `execve` and `fork`.
pub(super) fn start(plan: &Plan) -> Result<ExitStatus, Failed> {
    let carrier = carrier(plan)?;
    let verbose = carrier.as_ref().filter(|_| plan.verbose);
    let account = verbose.and_then(Account::open);
    let started = begin(plan, carrier.as_ref());
    if let Some(account) = account.filter(|_| started.is_ok()) {
        eprint!("{}", account.text());
    }
    started.map_err(|error| Failed::starting(&plan.program.display().to_string(), &error))
}

/// The carrier, unless nothing is carried. It is ready then, and stays for as long as this process
/// or any of the program lives.
fn carrier(plan: &Plan) -> Result<Option<Started>, Failed> {
    if plan.library.is_none() {
        return Ok(None);
    }
    let what = || format!("cannot carry {}", plan.program.display());
    let own = std::env::current_exe()
        .map_err(|error| Problem::new(what(), error, "gannet from where it is installed"))?;
    let mut config = Config::new(plan.settings.clone());
    config.guardian = Some(std::process::id());
    match gannet_carrier::start(&own, &config) {
        Ok(started) => Ok(Some(started)),
        Err(trouble) => Err(Problem::new(what(), trouble, "gannet config show").into()),
    }
}

fn begin(plan: &Plan, carrier: Option<&Started>) -> io::Result<ExitStatus> {
    let asked_to_end = catch_signals()?;
    let mut command = Command::new(&plan.program);
    if let Some((name, arguments)) = plan.words.split_first() {
        command.arg0(name).args(arguments);
    }
    command.envs(plan.environment());
    command.envs(carrier.map(Started::variable));
    let child = command.spawn()?;
    wait(child, asked_to_end)
}

/// From now on SIGTERM writes a byte, and the signals of a terminal do nothing here. Handlers are
/// not inherited by the program.
fn catch_signals() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGTERM, write)?;
    for signal in [SIGINT, SIGQUIT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(read)
}

/// Waits for `child`, and passes on every SIGTERM.
fn wait(mut child: Child, mut asked_to_end: UnixStream) -> io::Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
    // without one the program still runs, and nobody else waits for it
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return child.wait();
    };
    loop {
        let mut both = [
            PollFd::new(&handle, PollFlags::IN),
            PollFd::from_borrowed_fd(asked_to_end.as_fd(), PollFlags::IN),
        ];
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome?,
        };
        let [ended, asked] = both.map(|fd| !fd.revents().is_empty());
        if ended {
            return child.wait();
        }
        if asked {
            let mut bytes = [0; 64];
            while asked_to_end.read(&mut bytes).is_ok_and(|len| len > 0) {}
            // it may have ended meanwhile
            let _ = pidfd_send_signal(&handle, Signal::TERM);
        }
    }
}
