//! The processes that this one started, their children, and what they use.
//!
//! This process is made the one to which orphans come, so that a daemon, or a server that replaced
//! itself by a new one, is still found below it.

use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Orphans of the family come to this process.
pub(crate) fn adopt_orphans() -> std::io::Result<()> {
    let me = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(me))?)
}

/// One process, as `/proc` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: i32,
    pub(crate) name: String,
    parent: i32,
    is_zombie: bool,
    /// Time it used, in ticks of the kernel's clock.
    ticks: u64,
}

/// `/proc/PID/stat`: pid (name) state parent ...; the name may hold blanks and brackets.
fn member(stat: &str) -> Option<Member> {
    let (before, after) = stat.rsplit_once(')')?;
    let (pid, name) = before.split_once(" (")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // Fields 14 and 15 of proc(5); the first after the name is field 3.
    let field = |number: usize| fields.get(number - 3);
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    Some(Member {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        parent: field(4)?.parse().ok()?,
        is_zombie: *field(3)? == "Z",
        ticks: ticks(14)?.wrapping_add(ticks(15)?),
    })
}

/// All living descendants of a process, without itself.
pub(crate) fn descendants(of: i32) -> Vec<Member> {
    let mut found = with_the_dead(of);
    found.retain(|member| !member.is_zombie);
    found
}

/// All descendants of a process, those included that ended and that nobody waited for.
fn with_the_dead(of: i32) -> Vec<Member> {
    let mut children: BTreeMap<i32, Vec<Member>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(member) = member(&stat) {
            children.entry(member.parent).or_default().push(member);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        for member in children.remove(&parent).unwrap_or_default() {
            next.push(member.pid);
            found.push(member);
        }
    }
    found
}

/// All that this process started and that still lives.
pub(crate) fn living() -> Vec<Member> {
    descendants(own_pid())
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether a process has ended, waited for or not.
pub(crate) fn is_gone(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    member(&stat).is_none_or(|member| member.is_zombie)
}

/// Sends a signal to a process; nothing if it is gone.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// Waits until the family is gone, ends who does not go, and names them.
pub(crate) fn end_all(patience: Duration) -> Vec<String> {
    let deadline = Instant::now() + patience;
    while !living().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        reap();
    }
    let mut names = Vec::new();
    for _ in 0..50 {
        let left = living();
        if left.is_empty() {
            break;
        }
        for member in left {
            signal(member.pid, Signal::KILL);
            names.push(member.name);
        }
        std::thread::sleep(Duration::from_millis(20));
        reap();
    }
    reap();
    names.sort();
    names.dedup();
    names
}

/// Takes the status of the dead. Only while nobody waits for a child of its own.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// What processes use together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Memory in bytes that only they use, or their share of what they share (PSS).
    pub(crate) memory: u64,
    /// Processor time they used so far, in seconds.
    pub(crate) seconds: f64,
}

/// What all use that this process started, except one process and what that one started.
pub(crate) fn usage(except: Option<i32>) -> Usage {
    let except: Vec<i32> = except
        .into_iter()
        .flat_map(|pid| descendants(pid).into_iter().map(|it| it.pid).chain([pid]))
        .collect();
    let mut members = with_the_dead(own_pid());
    members.retain(|member| !except.contains(&member.pid));
    let memory = members.iter().map(|member| memory(member.pid)).sum();
    let ticks: u64 = members.iter().map(|member| member.ticks).sum();
    Usage {
        memory,
        seconds: seconds(ticks),
    }
}

/// Processor time of all that this process started and that has ended and was waited for.
pub(crate) fn seconds_of_the_dead() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, after)| after);
    // Fields 16 and 17 of proc(5); the first after the name is field 3.
    let fields = fields.split_whitespace().skip(13).take(2);
    seconds(fields.filter_map(|field| field.parse::<u64>().ok()).sum())
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64
}

/// Proportional share: memory that several processes map counts once in their sum.
fn memory(pid: i32) -> u64 {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_with_an_odd_name() {
        let stat = "12 (a b) c) S 7 12 12 0 -1 4194304 1 2 3 4 50 60 0 0 20 0 1 0 5 6 7";
        let expected = Member {
            pid: 12,
            name: "a b) c".to_owned(),
            parent: 7,
            is_zombie: false,
            ticks: 110,
        };
        assert_eq!(member(stat), Some(expected));
        assert_eq!(member("12 (a"), None);
    }

    #[test]
    fn a_child_is_found_and_its_memory_counted() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("a pid");
        assert!(living().iter().any(|member| member.pid == pid));
        assert!(usage(None).memory > usage(Some(pid)).memory);
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert!(!living().iter().any(|member| member.pid == pid));
    }
}
