//! Processes whose carrier has ended before them. They are told from others by the memory that all
//! processes of a program have mapped for writing, and that no carrier answers for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gannet_bench::Problem;
use serde::Serialize;

use super::socket::Process;

/// A program without its carrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Gone {
    /// Its number.
    host: String,
    processes: Vec<Process>,
}

/// All of them, of processes that this user may look at, in this network namespace: carriers of
/// others cannot be seen from here. `known` says which carriers run.
pub(super) fn programs(known: impl Fn() -> BTreeSet<u64>) -> Vec<Gone> {
    let before = known();
    let mut gone = candidates(&before);
    if !gone.is_empty() {
        // Who began or ended in between is no such program.
        let now = known();
        gone.retain(|host, processes| {
            processes.retain(|process| Process::of(process.pid) == *process);
            !now.contains(host) && !processes.is_empty()
        });
    }
    let program = |(host, processes)| Gone {
        host: format!("{host:016x}"),
        processes,
    };
    gone.into_iter().map(program).collect()
}

fn candidates(known: &BTreeSet<u64>) -> BTreeMap<u64, Vec<Process>> {
    let mut gone: BTreeMap<u64, Vec<Process>> = BTreeMap::new();
    let own = fs::read_link("/proc/self/ns/net").ok();
    for pid in pids() {
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            continue;
        };
        let Some(host) = maps
            .lines()
            .find_map(program_of)
            .filter(|h| !known.contains(h))
        else {
            continue;
        };
        let process = Process::of(pid);
        // `gannet run -v` has it, too.
        let is_program = !matches!(process.name.as_str(), "gannet" | "");
        if is_program && fs::read_link(format!("/proc/{pid}/ns/net")).ok() == own {
            gone.entry(host).or_default().push(process);
        }
    }
    gone
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir(Path::new("/proc")).into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut all: Vec<u32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    all.sort_unstable();
    all
}

/// The number of the program that a line of `/proc/PID/maps` is about: memory that the process
/// writes, which other programs' is not.
fn program_of(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    let access = words.nth(1)?;
    let name = words.nth(3)?.strip_prefix("/memfd:")?;
    let start = gannet_local::file_name(0);
    let number = name.strip_prefix(start.trim_end_matches('0'))?;
    let host = u64::from_str_radix(number, 16).ok()?;
    (access.starts_with("rw") && gannet_local::file_name(host) == name).then_some(host)
}

impl Gone {
    /// For people: what, why, and what to do.
    pub(super) fn problem(&self) -> Problem {
        let each = |process: &Process| format!("{} ({})", process.pid, process.name);
        let first = self.processes.iter().take(8).map(each);
        let more = match self.processes.len() {
            0..=8 => "",
            _ => ", ...",
        };
        let list = first.collect::<Vec<_>>().join(", ");
        Problem::new(
            format!("the carrier of {list}{more} has ended (no-carrier)"),
            "it was killed or failed; what went through it has ended",
            "start the program anew; the system's log; gannet explain no-carrier",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_names_the_program() {
        let name = gannet_local::file_name(0xab);
        for (line, host) in [
            (
                format!("7f00-7f10 rw-s 00000000 00:01 77 /memfd:{name} (deleted)"),
                Some(0xab),
            ),
            (
                format!("7f00-7f10 r--s 00000000 00:01 77 /memfd:{name} (deleted)"),
                None,
            ),
            (
                "7f00-7f10 rw-s 00000000 00:01 77 /memfd:gannet-arena-x (deleted)".into(),
                None,
            ),
            (
                "7f00-7f10 rw-s 00000000 00:01 77 /memfd:else (deleted)".into(),
                None,
            ),
            ("7f00-7f10 rw-p 00000000 00:00 0 [heap]".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(program_of(&line), host, "{line}");
        }
    }
}
