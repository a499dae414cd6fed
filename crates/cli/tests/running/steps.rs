//! Kills processes at a system call, or some instructions behind it: `steps.py`, which uses ptrace.

use super::Running;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The process that steps others.
pub(crate) struct Steps(Running);

impl Steps {
    /// `None` where this process may not trace others.
    pub(crate) fn new() -> Option<Steps> {
        let mut command = Command::new("python3");
        command.args(["-c", include_str!("steps.py")]);
        command.stdin(Stdio::piped());
        let mut steps = Running::start(command);
        assert_eq!(steps.line(), "ready");
        let mut steps = Steps(steps);
        let mut idle = Command::new("sleep").arg("60").spawn().expect("it starts");
        let outcome = steps.walk(idle.id(), 0, 0);
        let _ = idle.kill();
        let _ = idle.wait();
        if outcome != "there" {
            eprintln!("skipped: no right to trace processes: {outcome}");
            return None;
        }
        Some(steps)
    }

    /// Kills a process after so many beginnings and ends of calls, and instructions.
    pub(crate) fn walk(&mut self, pid: u32, calls: usize, steps: usize) -> String {
        self.ask(&format!("walk\t{pid}\t{calls}\t{steps}"))
    }

    /// Kills `victim`, and likewise the next child of `parent`.
    pub(crate) fn child(
        &mut self,
        (parent, victim): (u32, u32),
        calls: usize,
        steps: usize,
    ) -> String {
        self.ask(&format!("child\t{parent}\t{victim}\t{calls}\t{steps}"))
    }

    /// Starts `command`; kills it likewise, or its child number `which`. Says also what became of
    /// the others: `over` or `hangs`.
    pub(crate) fn start(
        &mut self,
        command: &Command,
        which: usize,
        calls: usize,
        steps: usize,
    ) -> String {
        let word = |word: &OsStr| word.to_str().expect("text").replace('\t', " ");
        let mut text = format!("start\t{which}\t{calls}\t{steps}");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => text += &format!("\t+{}={}", word(name), word(value)),
                None => text += &format!("\t-{}", word(name)),
            }
        }
        for each in std::iter::once(command.get_program()).chain(command.get_args()) {
            text += &format!("\t{}", word(each));
        }
        self.ask(&text)
    }

    fn ask(&mut self, line: &str) -> String {
        let stdin = self.0.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{line}").expect("it reads");
        let said = self.0.line();
        if said.is_empty() {
            let mut errors = String::new();
            let pipe = self.0.child.stderr.as_mut().expect("a pipe");
            let _ = pipe.read_to_string(&mut errors);
            panic!("the tracer has ended: {line}: {errors}");
        }
        said
    }
}
