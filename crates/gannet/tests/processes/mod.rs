//! Runs a part of a test in another process: the test binary starts itself again and asks for the
//! test `role`, which finds out from the environment what it is to be.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const ROLE: &str = "GANNET_TEST_ROLE";
const NETWORK: &str = "GANNET_TEST_NETWORK";
/// Marks our lines among those of the test harness.
const MARK: &str = "@ ";

/// The other process. Killed when dropped.
pub(crate) struct Other {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts `role` in the network `network`, and waits until it is ready.
    pub(crate) fn start(role: &str, network: &str) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(NETWORK, network)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut other = Other {
            child,
            input,
            lines,
        };
        assert_eq!(other.hear(), "ready", "{role}");
        other
    }

    /// The next thing it says.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("the other process ended").unwrap();
            if let Some((_, said)) = line.split_once(MARK) {
                return said.to_owned();
            }
        }
    }

    /// Tells it to go on.
    pub(crate) fn tell(&mut self, word: &str) {
        writeln!(self.input.as_mut().unwrap(), "{word}").unwrap();
    }

    /// As if somebody did `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it come to its end, and checks that this is a good one.
    pub(crate) fn end(mut self) {
        self.input = None;
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the other process: {status}");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What this process is to be, and in which network; `None` in the first one.
pub(crate) fn role() -> Option<(String, String)> {
    Some((std::env::var(ROLE).ok()?, std::env::var(NETWORK).unwrap()))
}

/// Says something to the process that started this one.
pub(crate) fn say(word: impl std::fmt::Display) {
    println!("\n{MARK}{word}");
    std::io::stdout().flush().unwrap();
}

/// Waits until the other process says something, or wants this one to end (`None`).
pub(crate) fn listen() -> Option<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let word = line.trim().to_owned();
    (!word.is_empty()).then_some(word)
}

/// A network of its own for each test.
pub(crate) fn network(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}
