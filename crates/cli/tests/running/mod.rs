//! `gannet run` of programs in Python, for tests. Needs the library beside the command:
//! `cargo build -p gannet-preload`, which `cargo xtask test` does first.
#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod steps;
pub(crate) mod tables;
pub(crate) mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes so long.
const LONG: Duration = Duration::from_secs(60);

/// The command itself, without settings of whoever runs the test.
pub(crate) fn gannet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("GANNET_") {
            command.env_remove(variable);
        }
    }
    command.env("GANNET_CONFIG", "/dev/null");
    command.stdin(Stdio::null());
    command
}

/// The name of a network of this test's own.
pub(crate) fn network(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// `gannet run --net NETWORK`, or none if it cannot carry anything here.
pub(crate) fn run(network: &str) -> Option<Command> {
    let library = Path::new(env!("CARGO_BIN_EXE_gannet")).with_file_name("libgannet_preload.so");
    if !library.is_file() {
        eprintln!(
            "skipped: no {}: cargo build -p gannet-preload",
            library.display()
        );
        return None;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return None;
    }
    let mut command = gannet();
    command.env("GANNET_PRELOAD", library);
    command.args(["run", "--net", network]);
    Some(command)
}

/// A program that runs, and its standard output.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts `text`, a program in Python.
    pub(crate) fn python(mut command: Command, text: &str, words: &[&str]) -> Running {
        command.args(["--", "python3", "-c", text]).args(words);
        Running::start(command)
    }

    pub(crate) fn start(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, lines }
    }

    /// The next line it writes; nothing at its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("lines");
        line.trim_end().to_owned()
    }

    /// The next lines it writes must be these.
    pub(crate) fn expect(&mut self, lines: &[&str]) {
        for line in lines {
            let told = self.line();
            if told.is_empty() {
                let _ = self.child.kill();
                let mut errors = String::new();
                let mut pipe = self.child.stderr.take().expect("a pipe");
                let _ = pipe.read_to_string(&mut errors);
                panic!("{line:?}, not the end: {errors}");
            }
            assert_eq!(told, *line);
        }
    }

    /// The process of its carrier.
    pub(crate) fn carrier(&self) -> u32 {
        let children = children(self.child.id());
        let mut carriers = children.into_iter().filter(|pid| is_carrier(*pid));
        carriers.next_back().expect("it has a carrier")
    }

    /// Writes an empty line to its standard input, which must be a pipe.
    pub(crate) fn go_on(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(b"\n").expect("it reads");
    }

    /// What is left of its output, and how it ended.
    pub(crate) fn end(mut self) -> (Vec<String>, Output) {
        self.child.stdin.take();
        let rest = self.lines.lines().map_while(Result::ok).collect();
        let output = self.child.wait_with_output().expect("it ends");
        (rest, output)
    }
}

/// The processes that `parent` has started and not yet waited for.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("there is /proc");
    let names = entries.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid, 1)?.parse().ok()
}

/// A word of `/proc/PID/stat`, counted from the state.
pub(crate) fn stat(pid: u32, word: usize) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(word).map(str::to_owned)
}

fn is_carrier(pid: u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(b"carrier")
}

/// Waits for `done`; a failure after a time that only a hang takes.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
