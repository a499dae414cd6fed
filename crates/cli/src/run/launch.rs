//! Starts the program and waits for it. Signals of the terminal reach the whole process group, the
//! program too, so that they only must not end this process first; SIGTERM is handed on.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use gannet_bench::Problem;
use gannet_carrier::{Config, Inherited, Started};
use gannet_local::service::{self, Question};

use super::account::Account;
use super::ending::Failed;
use super::plan::Plan;

/// Starts what `plan` says, behind its carrier; how it ended.
///
/// # Errors
/// What keeps the carrier from beginning; those of `execve` and `fork`.
pub(super) fn start(plan: &Plan) -> Result<ExitStatus, Failed> {
    let inherited = Inherited::list();
    let carrier = carrier(plan)?;
    let verbose = carrier.as_ref().filter(|_| plan.verbose);
    let account = verbose.and_then(Account::open);
    let ended = begin(plan, carrier, inherited);
    if let Some(account) = account.filter(|_| ended.is_ok()) {
        eprint!("{}", account.text());
    }
    ended.map_err(|error| Failed::starting(&plan.program.display().to_string(), &error))
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
    let name = plan.program.file_name().unwrap_or_default();
    config.name = name.to_string_lossy().into_owned();
    match gannet_carrier::start(&own, &config) {
        Ok(started) => Ok(Some(started)),
        Err(trouble) => Err(Problem::new(what(), trouble, "gannet config show").into()),
    }
}

fn begin(plan: &Plan, carrier: Option<Started>, inherited: Inherited) -> io::Result<ExitStatus> {
    let asked_to_end = catch_signals()?;
    let mut command = Command::new(plan.loader.as_ref().unwrap_or(&plan.program));
    if let Some((name, arguments)) = plan.words.split_first() {
        command.arg0(name).args(arguments);
    }
    command.envs(plan.environment());
    command.envs(carrier.as_ref().map(Started::variable));
    let child = command.spawn()?;
    let program = plan.program.display().to_string();
    let carrier = carrier.and_then(|started| Watched::new(started, program));
    inherited.close();
    let_go_of_the_standard_ones();
    wait(child, asked_to_end, carrier)
}

/// The program has them now, and it alone says when a pipe ends. Messages still go to the standard
/// error.
fn let_go_of_the_standard_ones() {
    let null = || File::options().read(true).write(true).open("/dev/null");
    if let (Ok(input), Ok(output)) = (null(), null()) {
        let _ = rustix::stdio::dup2_stdin(input);
        let _ = rustix::stdio::dup2_stdout(output);
    }
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

/// A carrier that is not to end before this process does.
struct Watched {
    started: Started,
    ends: OwnedFd,
    program: String,
}

impl Watched {
    /// None without a descriptor for it.
    fn new(started: Started, program: String) -> Option<Watched> {
        let pid = i32::try_from(started.pid).ok().and_then(Pid::from_raw)?;
        let ends = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Watched {
            started,
            ends,
            program,
        })
    }

    /// Says why it has ended, if it has.
    fn tell(&mut self) {
        let Some(why) = self.started.how_it_ended() else {
            return;
        };
        let what = format!("the carrier of {} has ended (no-carrier)", self.program);
        let hint = "start the program anew; gannet explain no-carrier";
        eprintln!("error: {}", Problem::new(what, why, hint));
    }

    /// The program has ended. If it did because of the carrier, that is about to end as well: its
    /// sockets are closed before its process is over.
    fn tell_at_last(&mut self) {
        let Started { network, host, .. } = self.started;
        if service::tell(&network, host, &Question::Look) == Err(Errno::CONNREFUSED) {
            let soon = Timespec {
                tv_sec: 5,
                tv_nsec: 0,
            };
            let _ = poll(&mut [PollFd::new(&self.ends, PollFlags::IN)], Some(&soon));
        }
        self.tell();
    }
}

/// Waits for `child`, and passes on every SIGTERM. Should the carrier end first, that is said at
/// once, and the program is waited for all the same: it decides what becomes of it.
fn wait(
    mut child: Child,
    mut asked_to_end: UnixStream,
    mut carrier: Option<Watched>,
) -> io::Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
    // without one the program still runs, and nobody else waits for it
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return child.wait();
    };
    loop {
        let mut all = vec![
            PollFd::new(&handle, PollFlags::IN),
            PollFd::from_borrowed_fd(asked_to_end.as_fd(), PollFlags::IN),
        ];
        let carriers = carrier.iter().map(|carrier| &carrier.ends);
        all.extend(carriers.map(|ends| PollFd::new(ends, PollFlags::IN)));
        match poll(&mut all, None) {
            Err(Errno::INTR) => continue,
            outcome => outcome?,
        };
        let said = |n: usize| all.get(n).is_some_and(|fd| !fd.revents().is_empty());
        let (ended, asked, alone) = (said(0), said(1), said(2));
        if asked {
            let mut bytes = [0; 64];
            while asked_to_end.read(&mut bytes).is_ok_and(|len| len > 0) {}
            // it may have ended meanwhile
            let _ = pidfd_send_signal(&handle, Signal::TERM);
        }
        if alone {
            carrier.take().iter_mut().for_each(Watched::tell);
        }
        if ended {
            carrier.iter_mut().for_each(Watched::tell_at_last);
            return child.wait();
        }
    }
}
