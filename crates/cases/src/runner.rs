//! Runs a case in a process of its own, so that a crash or a hang is an observation like another.

use crate::sys::{self, End, Ret};
use crate::table::Case;
use crate::talk::{Addresses, Talk};
use std::time::{Duration, Instant};

/// After this long a case hangs. Two thousand connections in turn need seconds on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

/// Runs one case; what it observed.
pub(crate) fn observe(case: &Case, at: Addresses, limit: Duration) -> String {
    let [from, to] = sys::pipe();
    let run = case.run;
    let pid = sys::fork(|| {
        sys::lead_group();
        sys::no_core_files();
        sys::default_signal(libc::SIGPIPE);
        // Rust's own handler looks for an overflown stack first.
        sys::default_signal(libc::SIGSEGV);
        let talk = Talk::new(at, to);
        run(&talk);
        talk.end()
    });
    sys::make_leader(pid);
    sys::close(to);
    let (mut text, end) = listen(from, pid, limit);
    // The case, if it hangs, and whatever it left behind.
    sys::kill(-pid, libc::SIGKILL);
    if end == End::Not {
        sys::waitpid(pid, 0);
    }
    sys::close(from);
    let outcome = match end {
        _ if text.ends_with('\n') => return text.trim_end().to_owned(),
        End::Signal(signal) => format!("signal {signal}"),
        End::Exit(status) => format!("exit {status}"),
        End::Not => "hang".to_owned(),
    };
    if !text.is_empty() {
        text.push_str("; ");
    }
    text + &outcome
}

/// Reads until the observation is complete, the process is gone or the time is over.
fn listen(from: i32, pid: i32, limit: Duration) -> (String, End) {
    let started = Instant::now();
    let mut text = Vec::new();
    let mut end = End::Not;
    while started.elapsed() < limit {
        let (ready, _) = sys::poll(&[(from, libc::POLLIN)], 50);
        if ready == Ret::Value(1) {
            let got = sys::read(from, 4096);
            text.extend_from_slice(&got.data);
            if got.data.is_empty() || text.ends_with(b"\n") {
                end = end_of(pid, started, limit);
                break;
            }
            continue;
        }
        end = sys::waitpid(pid, libc::WNOHANG);
        if end != End::Not {
            break;
        }
    }
    (String::from_utf8_lossy(&text).into_owned(), end)
}

/// Waits for the end of a process that has said all it will say.
fn end_of(pid: i32, started: Instant, limit: Duration) -> End {
    while started.elapsed() < limit {
        match sys::waitpid(pid, libc::WNOHANG) {
            End::Not => crate::talk::pause(1),
            end => return end,
        }
    }
    End::Not
}
