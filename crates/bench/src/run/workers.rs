//! One worker process: this program again, with a role on its standard input and its events on its
//! output.
//!
//! A worker ends by itself after its report. It is killed (by its own process id, which cannot be
//! another's: it is not reaped before) when it does not, and the kernel kills it when this process
//! dies.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::interrupt::Interrupt;
use crate::error::Problem;
use crate::role::{Event, Job, Report, Role};
use crate::wire::WireReport;

/// The hidden subcommand that runs [`crate::worker::main`].
pub const SUBCOMMAND: &str = "worker";

/// How workers are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    interrupt: Interrupt,
}

/// Where a worker runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spot {
    /// The core.
    pub cpu: Option<usize>,
    /// The process whose network namespace to enter.
    pub namespace: Option<u32>,
    /// Whether it goes before all ordinary programs.
    pub urgent: bool,
}

impl Launcher {
    /// Starts this very program, even when its file has been replaced meanwhile.
    pub fn new(interrupt: Interrupt) -> Self {
        Self::of("/proc/self/exe", interrupt)
    }

    /// Starts another program that has the subcommand.
    pub fn of(program: impl Into<PathBuf>, interrupt: Interrupt) -> Self {
        Self {
            program: program.into(),
            interrupt,
        }
    }

    /// Whether the user asked to stop.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Starts a worker that may live for `deadline` seconds.
    ///
    /// # Errors
    /// When no process can be started.
    pub fn start(&self, spot: Spot, deadline: f64, job: Job) -> Result<Worker, Problem> {
        self.interrupt.check()?;
        let mut command = Command::new(&self.program);
        command
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Ctrl-C comes to this process alone, which ends the others in good order.
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| cannot("start a worker", error))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let interrupt = self.interrupt.clone();
        let until = Instant::now() + Duration::from_secs_f64(deadline + 1.0);
        let mut worker = Worker {
            child,
            input,
            output,
            buffer: Vec::new(),
            interrupt,
            until,
        };
        let Spot {
            cpu,
            namespace,
            urgent,
        } = spot;
        let role = Role {
            parent: std::process::id(),
            urgent,
            cpu,
            namespace,
            deadline,
            job,
        };
        let line = serde_json::to_string(&role).map_err(|error| cannot("write a role", error))?;
        worker.tell(&line)?;
        Ok(worker)
    }
}

/// A running worker. Dropping it ends it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    buffer: Vec<u8>,
    interrupt: Interrupt,
    until: Instant,
}

impl Worker {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the address at which a server listens.
    ///
    /// # Errors
    /// What the worker says, or that it is late or gone, or that the user asked to stop.
    pub fn listening(&mut self) -> Result<std::net::SocketAddr, Problem> {
        match self.next()? {
            Event::Listening(at) => Ok(at),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Waits until everything is set up.
    ///
    /// # Errors
    /// As for [`Worker::listening`].
    pub fn ready(&mut self) -> Result<(), Problem> {
        match self.next()? {
            Event::Ready => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// When it is gone.
    pub fn go(&mut self) -> Result<(), Problem> {
        self.tell("go")
    }

    /// Waits for its report.
    ///
    /// # Errors
    /// As for [`Worker::listening`].
    pub fn report(&mut self) -> Result<Report, Problem> {
        match self.next()? {
            Event::Report(report) => Ok(report),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Waits for the report of a wire.
    ///
    /// # Errors
    /// As for [`Worker::listening`].
    pub fn wire_report(&mut self) -> Result<WireReport, Problem> {
        match self.next()? {
            Event::Wire(report) => Ok(*report),
            other => Err(out_of_turn(&other)),
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), Problem> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        let told = input.write_all(format!("{line}\n").as_bytes());
        told.map_err(|error| match self.next() {
            // It has said why it is gone.
            Err(problem) => problem,
            Ok(_) => cannot("talk to a worker", error),
        })
    }

    fn next(&mut self) -> Result<Event, Problem> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event = serde_json::from_slice(&line);
                return match event.map_err(|error| cannot("understand a worker", error))? {
                    Event::Failed(problem) => Err(problem),
                    event => Ok(event),
                };
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Result<(), Problem> {
        self.interrupt.check()?;
        let Some(output) = &mut self.output else {
            return Err(cannot("hear a worker", "its output is closed"));
        };
        // Rarely enough not to disturb what is measured; a signal ends the wait anyway.
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: 200_000_000,
        };
        let mut descriptors = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut descriptors, Some(&tick)) {
            // Late is only who has nothing to say.
            Ok(0) if Instant::now() >= self.until => {
                return Err(cannot(
                    "wait for a worker",
                    "it did not answer before its deadline",
                ));
            }
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(cannot("hear a worker", error)),
        }
        let mut bytes = [0; 4096];
        let count = output
            .read(&mut bytes)
            .map_err(|error| cannot("hear a worker", error))?;
        self.buffer
            .extend_from_slice(bytes.get(..count).unwrap_or_default());
        if count > 0 {
            return Ok(());
        }
        let status = self
            .child
            .wait()
            .map_err(|error| cannot("wait for a worker", error))?;
        self.interrupt.check()?;
        Err(cannot(
            "hear a worker",
            format!("it ended without a report: {status}"),
        ))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends at once: after a report anyway, and before one because its input is closed.
        for _ in 0..400 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn out_of_turn(event: &Event) -> Problem {
    cannot("follow a worker", format!("it said {event:?} out of turn"))
}

fn cannot(what: &str, error: impl std::fmt::Display) -> Problem {
    let hint = "run it again with fewer other programs; if it stays, report it with this text";
    Problem::new(format!("cannot {what}"), error, hint)
}
