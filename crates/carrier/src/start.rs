//! Another process starts a carrier, and waits until it is ready.

use crate::config::Config;
use crate::serve::{Trouble, serve};
use crate::{inherited, last_words};
use gannet::settings::{HANDOVER, Settings};
use gannet_local::{HostId, Network};
use rustix::fd::OwnedFd;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

/// The variable that names the carrier to the processes of its program.
const ATTACH: &str = "GANNET_ATTACH";
/// What a carrier says when it is ready.
const READY: &str = "ready\n";

/// A carrier that is ready, a child of this process.
#[derive(Debug)]
pub struct Started {
    /// The network.
    pub network: Network,
    /// The number of the program.
    pub host: HostId,
    /// The carrier's process.
    pub pid: u32,
    child: Child,
    /// What it writes on its standard error.
    errors: OwnedFd,
}

impl Started {
    /// Name and value of the variable by which the program's processes find their carrier.
    pub fn variable(&self) -> (&'static str, String) {
        let Started { network, host, .. } = self;
        (ATTACH, format!("{host:016x}:{network}"))
    }

    /// Why it has ended, in one line; none while it runs.
    pub fn how_it_ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(last_words::reason(status, &last_words::read(&self.errors)))
    }
}

/// Starts a carrier in a process of its own, in a session of its own: `program carrier ...`, whose
/// arguments [`carry`] reads. Returns when programs can attach.
///
/// # Errors
/// What the carrier says; that it could not be started.
pub fn start(program: &Path, config: &Config) -> Result<Started, Trouble> {
    let hint = "`gannet` as it was installed; more processes (ulimit -u)";
    let failed = |error| Trouble::new("cannot start the carrier", error, hint);
    let failed_with = |error: rustix::io::Errno| failed(error.into());
    let network = config
        .network()
        .map_err(|e| Trouble::from_io("cannot carry a program", &e))?;
    let errors = last_words::file().map_err(failed_with)?;
    let said_last = errors.try_clone().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(arguments(config))
        .env(HANDOVER, config.settings.handover())
        .env_remove("LD_PRELOAD")
        .env_remove(ATTACH)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(said_last);
    let mut child = command.spawn().map_err(failed)?;
    let pid = child.id();
    let mut said = String::new();
    let told = match child.stdout.take() {
        Some(mut pipe) => pipe.read_to_string(&mut said),
        None => Ok(0),
    };
    told.map_err(failed)?;
    if said == READY {
        return Ok(Started {
            network: network.with_carrier(pid),
            host: config.host,
            pid,
            child,
            errors,
        });
    }
    // It has ended, or is about to.
    let status = child.wait().map_err(failed)?;
    let why = last_words::reason(status, &last_words::read(&errors));
    match said.is_empty() {
        true => Err(Trouble::new("cannot start the carrier", why, hint)),
        false => Err(Trouble::told(said.trim_end().to_owned())),
    }
}

fn arguments(config: &Config) -> Vec<OsString> {
    let mut all = vec!["carrier".to_owned(), format!("{:016x}", config.host)];
    all.push(config.guardian.unwrap_or(0).to_string());
    all.push(config.name.clone());
    for (network, gateway) in &config.routes {
        all.push(format!("{network}={gateway}"));
    }
    all.into_iter().map(OsString::from).collect()
}

/// The carrier's process: `arguments` are those behind `carrier`. Says on its standard output that
/// it is ready, or why not, and closes it. To be called before the process opens anything: all
/// descriptors but the first three are closed, which are those of whoever started it.
pub fn carry(arguments: &[String]) -> ExitCode {
    inherited::close_all();
    last_words::end_with_every_panic();
    // Fails when it leads a session already, which is as good.
    let _ = rustix::process::setsid();
    // No file system is in use because of the carrier.
    let _ = std::env::set_current_dir("/");
    let config = match read(arguments) {
        Ok(config) => config,
        Err(trouble) => return say(&trouble),
    };
    let ready = || {
        let _ = std::io::stdout().write_all(READY.as_bytes());
        let _ = std::io::stdout().flush();
        close_output();
    };
    match serve(config, ready) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => say(&trouble),
    }
}

fn say(trouble: &Trouble) -> ExitCode {
    // Nobody else to tell.
    let _ = write!(std::io::stdout(), "{trouble}");
    ExitCode::FAILURE
}

/// Whoever waits for the end of the output must not wait for the carrier's.
fn close_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

fn read(arguments: &[String]) -> Result<Config, Trouble> {
    let hint = "`gannet run`, which starts it";
    let wrong = |why: &str| Trouble::new("cannot carry a program", why, hint);
    let [host, guardian, name, routes @ ..] = arguments else {
        return Err(wrong("arguments are missing"));
    };
    let settings = std::env::var(HANDOVER).unwrap_or_default();
    let settings =
        Settings::from_handover(&settings).map_err(|problem| Trouble::told(problem.to_string()))?;
    let mut config = Config::new(settings);
    let number = u64::from_str_radix(host, 16).ok().filter(|host| *host != 0);
    config.host = number.ok_or_else(|| wrong("the number of the program is none"))?;
    config.guardian = guardian.parse().ok().filter(|pid| *pid != 0);
    config.name.clone_from(name);
    for route in routes {
        let (network, gateway) = route
            .split_once('=')
            .ok_or_else(|| wrong("a route is no route"))?;
        config.routes.push((network.to_owned(), gateway.to_owned()));
    }
    Ok(config)
}
