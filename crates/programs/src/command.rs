//! One command of a check: started in its place, its output in files, its time limited.

use crate::case::Fault;
use crate::family;
use crate::interrupt;
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often something is looked at that nobody reports.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a server may take to say that it is ready.
const READY: Duration = Duration::from_secs(20);
/// How long a server may take to end when asked to.
const TO_END: Duration = Duration::from_secs(5);

/// A command that is not started yet.
pub(crate) struct Cmd {
    words: Vec<String>,
    /// How many of the words put it in its place.
    wrapping: usize,
    directory: PathBuf,
    /// Path without extension of the files that take its output.
    output: PathBuf,
    environment: Vec<(String, String)>,
    input: Stdio,
    deadline: Instant,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    what: String,
}

impl Cmd {
    /// A command whose first words put it in its place.
    pub(crate) fn new(
        wrapping: Vec<String>,
        words: &[&str],
        output: PathBuf,
        deadline: Instant,
    ) -> Self {
        let count = wrapping.len();
        let words = words.iter().map(|word| (*word).to_owned());
        let directory = output.parent().map_or(PathBuf::new(), Path::to_path_buf);
        Self {
            words: wrapping.into_iter().chain(words).collect(),
            wrapping: count,
            directory,
            output,
            environment: Vec::new(),
            input: Stdio::null(),
            deadline,
        }
    }

    /// More words.
    pub(crate) fn args(mut self, words: &[&str]) -> Self {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// A variable of its environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What it reads.
    pub(crate) fn input(mut self, text: &str) -> Result<Self, Fault> {
        let path = self.output.with_extension("in");
        std::fs::write(&path, text)?;
        self.input = File::open(path)?.into();
        Ok(self)
    }

    /// What it reads is given later, by [`Running::feed`].
    pub(crate) fn interactive(mut self) -> Self {
        self.input = Stdio::piped();
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Result<Running, Fault> {
        let out = self.output.with_extension("out");
        let err = self.output.with_extension("err");
        let (program, arguments) = self.words.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.directory)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .stdin(self.input)
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .process_group(0);
        let what = self
            .words
            .get(self.wrapping..)
            .unwrap_or_default()
            .join(" ");
        let child = command
            .spawn()
            .map_err(|error| Fault::Failed(format!("`{program}` did not start: {error}")))?;
        Ok(Running {
            child,
            out,
            err,
            what,
            deadline: self.deadline,
            over: false,
        })
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Result<Finished, Fault> {
        self.start()?.finish()
    }

    /// Runs it to its end, which must be status 0, and gives its standard output.
    pub(crate) fn ok(self) -> Result<String, Fault> {
        self.run()?.ok()
    }
}

impl Finished {
    /// The standard output of a command that ended with status 0.
    pub(crate) fn ok(self) -> Result<String, Fault> {
        match self.status.success() {
            true => Ok(self.stdout),
            false => Err(self.fault("")),
        }
    }

    /// A failure: what was run, how it ended, its last words.
    pub(crate) fn fault(&self, why: &str) -> Fault {
        let words = last_words(&self.stderr, &self.stdout);
        let what = shortened(&self.what);
        Fault::Failed(format!("`{what}`: {why}{} {words}", self.status))
    }
}

/// A command that runs. Ends with this value.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    what: String,
    deadline: Instant,
    over: bool,
}

impl Running {
    /// Waits until it has said something that a server says once it serves.
    pub(crate) fn ready(self, text: &str) -> Result<Self, Fault> {
        self.said_until(text, self.deadline.min(Instant::now() + READY))?;
        Ok(self)
    }

    /// Waits until it has said something, for as long as the check may take.
    pub(crate) fn said(&self, text: &str) -> Result<(), Fault> {
        self.said_until(text, self.deadline)
    }

    fn said_until(&self, text: &str, limit: Instant) -> Result<(), Fault> {
        loop {
            if self.output().contains(text) || self.errors().contains(text) {
                return Ok(());
            }
            let gone = family::is_gone(self.pid());
            if gone || Instant::now() > limit || interrupt::came() {
                let how = if gone { "ended" } else { "is alive" };
                let words = last_words(&self.errors(), &self.output());
                let what = shortened(&self.what);
                return Err(format!("`{what}` did not say `{text}` and {how}: {words}").into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// What it said so far.
    pub(crate) fn output(&self) -> String {
        read(&self.out)
    }

    /// Its complaints so far.
    pub(crate) fn errors(&self) -> String {
        read(&self.err)
    }

    /// The process that was started: the program itself, or what put it in its place.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Gives it something to read.
    pub(crate) fn feed(&mut self, text: &str) -> Result<(), Fault> {
        let input = self.child.stdin.as_mut().ok_or("no pipe to write to")?;
        input.write_all(text.as_bytes())?;
        Ok(input.flush()?)
    }

    /// A fault with its last words if it has ended.
    pub(crate) fn goes_on(&mut self) -> Result<(), Fault> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let words = last_words(&self.errors(), &self.output());
        let what = shortened(&self.what);
        Err(format!("`{what}` ended early ({status}): {words}").into())
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Result<Finished, Fault> {
        drop(self.child.stdin.take());
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.over = true;
                return Ok(Finished {
                    status,
                    stdout: self.output(),
                    stderr: self.errors(),
                    what: self.what.clone(),
                });
            }
            if Instant::now() > self.deadline {
                let words = last_words(&self.errors(), &self.output());
                let what = shortened(&self.what);
                return Err(format!("`{what}` was not over at the time limit: {words}").into());
            }
            if interrupt::came() {
                return Err("interrupted".into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        if self.over || self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        family::signal_group(self.pid(), Signal::TERM);
        let limit = Instant::now() + TO_END;
        while Instant::now() < limit {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        for member in family::descendants(self.pid()) {
            family::signal(member.pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines that say something.
fn last_words(errors: &str, output: &str) -> String {
    let of = |text: &str| {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let from = lines.len().saturating_sub(3);
        lines.get(from..).unwrap_or_default().join(" / ")
    };
    let words = of(errors);
    let words = if words.is_empty() { of(output) } else { words };
    words.chars().take(300).collect()
}

fn shortened(what: &str) -> String {
    what.chars().take(80).collect()
}
