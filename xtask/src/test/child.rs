//! One run of cargo: its output is passed on line by line while results are counted.

use super::report::Outcome;
use super::steps::Cargo;
use crate::explain::Explained;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a silent run is checked against its limit.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Lines that are kept for the end.
const FINDINGS: usize = 20;

/// Runs cargo and says how it went.
pub(super) fn run(root: &Path, cargo: &Cargo) -> Result<Outcome, Explained> {
    let mut command = command(root, cargo);
    println!("== {}", words(cargo));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| {
        Explained::new(
            "cargo did not start",
            error.to_string(),
            "put cargo and rustup on PATH",
        )
    })?;
    let lines = read_lines(&mut child);
    let counted = follow(&mut child, &lines, cargo.limit);
    let status = child.wait().map_err(|error| {
        Explained::new(
            "cargo was lost",
            error.to_string(),
            "run the test command again",
        )
    })?;
    let note = match counted.ran_out {
        true => format!("ended after {} min", cargo.limit.as_secs() / 60),
        false if status.success() => String::new(),
        false => status.to_string(),
    };
    let least = u64::from(!note.is_empty());
    Ok(Outcome {
        passed: counted.passed,
        failed: counted.failed.max(least),
        note,
        findings: counted.findings,
    })
}

fn command(root: &Path, cargo: &Cargo) -> Command {
    let mut command = match cargo.toolchain {
        None => Command::new("cargo"),
        Some(toolchain) => {
            let mut command = Command::new("rustup");
            command.args(["run", toolchain, "cargo"]);
            // Left by the cargo that started this program; they would pin its toolchain.
            for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
                command.env_remove(name);
            }
            command
        }
    };
    command
        .args(cargo.arguments)
        .current_dir(root)
        .stdin(Stdio::null());
    command.envs(cargo.environment.iter().copied());
    if let Some(folder) = cargo.target {
        command.env("CARGO_TARGET_DIR", super::target(root).join(folder));
    }
    command
}

/// The run as one would type it.
fn words(cargo: &Cargo) -> String {
    let mut words: Vec<String> = cargo
        .environment
        .iter()
        .map(|(name, value)| format!("{name}='{value}'"))
        .collect();
    words.push("cargo".to_owned());
    words.extend(cargo.toolchain.map(|toolchain| format!("+{toolchain}")));
    words.extend(
        cargo
            .arguments
            .iter()
            .map(|argument| (*argument).to_owned()),
    );
    words.join(" ")
}

fn read_lines(child: &mut Child) -> Receiver<String> {
    let (send, receive) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut bytes = Vec::new();
            while reader
                .read_until(b'\n', &mut bytes)
                .is_ok_and(|length| length > 0)
            {
                let line = String::from_utf8_lossy(&bytes).into_owned();
                bytes.clear();
                if send.send(line).is_err() {
                    return;
                }
            }
        });
    }
    receive
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    passed: u64,
    failed: u64,
    ran_out: bool,
    findings: Vec<String>,
}

/// Passes lines on until the output ends or the time is over.
fn follow(child: &mut Child, lines: &Receiver<String>, limit: Duration) -> Counted {
    let started = Instant::now();
    let mut counted = Counted::default();
    loop {
        match lines.recv_timeout(LOOK_AGAIN) {
            Ok(line) => {
                print!("{line}");
                count(&mut counted, &line);
            }
            Err(RecvTimeoutError::Disconnected) => return counted,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if started.elapsed() > limit && !counted.ran_out {
            counted.ran_out = true;
            // The first of them first, so that it starts no more.
            let child = child.id();
            kill(std::iter::once(child).chain(descendants(child)));
        }
    }
}

/// Adds up a line such as `test result: ok. 12 passed; 0 failed; 0 ignored; ...`, and keeps those
/// that name what failed: `test a ... FAILED`, and the checks of programs.
fn count(counted: &mut Counted, line: &str) {
    let is_finding = line.split_whitespace().any(|word| word == "FAILED");
    if is_finding && counted.findings.len() < FINDINGS {
        counted.findings.push(line.trim_end().to_owned());
    }
    let Some((_, results)) = line.split_once("test result: ") else {
        return;
    };
    let number = |word: &str| {
        let (before, _) = results.split_once(word)?;
        before
            .trim_end()
            .rsplit([' ', ';'])
            .next()?
            .parse::<u64>()
            .ok()
    };
    counted.passed += number(" passed").unwrap_or(0);
    counted.failed += number(" failed").unwrap_or(0);
}

/// Ends everything that a process started: a hanging test outlives the cargo that started it.
pub(super) fn end_descendants(of: u32) {
    kill(descendants(of).into_iter());
}

/// What a process started, and what that started, parents before their children.
fn descendants(of: u32) -> Vec<u32> {
    let mut found = children_of(of);
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(children_of(parent));
        at += 1;
    }
    found
}

fn kill(processes: impl Iterator<Item = u32>) {
    let words: Vec<String> = processes.map(|process| process.to_string()).collect();
    if !words.is_empty() {
        // The program rather than a system call, because this crate has no unsafe code.
        let mut command = Command::new("kill");
        // Those that have ended meanwhile are none of a reader's business.
        command.arg("-KILL").args(&words).stderr(Stdio::null());
        drop(command.status());
    }
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes
        .filter(|&process| parent_of(process) == Some(parent))
        .collect()
}

/// Fourth field of `/proc/PID/stat`; the second, the name, is in brackets and may hold blanks.
fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let lines = [
            "running 3 tests\n",
            "test a ... ok\n",
            "test b ... FAILED\n",
            "gannet   nginx      reload    FAILED     1.0 s  no answer\n",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
            "noise test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\n",
            "test result: none of a number passed; x failed\n",
        ];
        let mut counted = Counted::default();
        lines.iter().for_each(|line| count(&mut counted, line));
        assert_eq!(
            counted,
            Counted {
                passed: 15,
                failed: 2,
                ran_out: false,
                findings: vec![
                    "test b ... FAILED".to_owned(),
                    "gannet   nginx      reload    FAILED     1.0 s  no answer".to_owned(),
                ],
            }
        );
    }

    #[test]
    fn a_run_that_hangs_is_ended_with_all_it_started() {
        let mut child = Command::new("sh")
            .args(["-c", "echo started; sleep 600 & sleep 600; echo over"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let lines = read_lines(&mut child);
        // The output only ends when the last process that holds the pipe is gone.
        let counted = follow(&mut child, &lines, Duration::from_millis(300));
        assert!(counted.ran_out);
        assert!(!child.wait().expect("an exit status").success());
    }
}
