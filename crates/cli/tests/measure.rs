//! The command from end to end: real workers, real sockets, real signals.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn gannet(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(arguments.split(' ')).stdin(Stdio::null());
    command
}

fn output(arguments: &str) -> Output {
    gannet(arguments).output().expect("the command starts")
}

fn json(arguments: &str) -> Value {
    let output = output(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const RUN: &str = "--seconds 0.05 --verify --json";

#[test]
fn every_stream_is_checked_byte_by_byte() {
    let scenarios = [
        ("tcp-stream", "bit/s", "64", 64),
        ("tcp-stream", "bit/s", "100K", 102_400),
        ("tcp-round-trip", "s", "1", 1),
        ("tcp-round-trip", "s", "70000", 70_000),
    ];
    for (scenario, unit, size, bytes) in scenarios {
        let document = json(&format!("bench {scenario} --size {size} {RUN}"));
        assert_eq!(document["schema"], "gannet/compare/1");
        let row = &document["results"][0];
        is_checked(row, unit, bytes, &["kernel", "gannet"]);
        assert!(row["ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["limit_share"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn every_datagram_is_checked_byte_by_byte() {
    let scenarios = [
        ("udp-stream", "datagram/s", "1K", 1024),
        ("udp-round-trip", "s", "64", 64),
    ];
    for (scenario, unit, size, bytes) in scenarios {
        let command = format!("bench {scenario} --size {size} {RUN}");
        let row = &json(&command)["results"][0];
        is_checked(row, unit, bytes, &["kernel", "gannet"]);
        assert!(row["ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
    }
}

fn is_checked(row: &Value, unit: &str, bytes: u64, contenders: &[&str]) {
    assert_eq!(
        (&row["unit"], &row["size_bytes"]),
        (&unit.into(), &bytes.into())
    );
    for contender in contenders {
        let figure = &row[contender];
        assert!(
            figure["median"].as_f64().unwrap() > 0.0,
            "{contender}: {row}"
        );
        assert!(
            figure["cpu_seconds"].as_f64().unwrap() > 0.0,
            "{contender}: {row}"
        );
        assert!(
            figure["verified_bytes"].as_u64().unwrap() >= bytes,
            "{contender}: {row}"
        );
    }
    assert!(row["limit"]["median"].as_f64().unwrap() > 0.0, "{row}");
}

#[test]
fn datagrams_are_accounted_for() {
    let document = json(&format!("bench udp-stream --size 128 {RUN}"));
    let row = &document["results"][0];
    for contender in ["kernel", "gannet"] {
        let count = |key: &str| row[contender][key].as_u64().unwrap();
        assert_eq!(count("sent"), count("delivered") + count("lost"));
        assert!(count("delivered") > 0);
    }
    assert_eq!(row["gannet"]["lost"], 0, "a channel loses nothing");
}

#[test]
fn idle_connections_cost_little() {
    let document = json("bench idle --connections 200 --seconds 0.1 --json");
    let row = &document["results"][0];
    assert_eq!(
        (&row["workload"], &row["unit"]),
        (&"tcp_idle".into(), &"core".into())
    );
    let kernel = &row["kernel"];
    assert!(kernel["median"].as_f64().unwrap() < 0.5, "{row}");
    assert!(kernel["memory_bytes"].as_u64().unwrap() > 100_000, "{row}");
}

#[test]
fn a_library_in_one_process() {
    let document = json(&format!(
        "bench tcp-stream --link in-process --size 16K {RUN}"
    ));
    let row = &document["results"][0];
    assert_eq!(row["link"], "in_process");
    assert!(row["smoltcp"]["verified_bytes"].as_u64().unwrap() > 0);
    assert!(row["gannet"]["verified_bytes"].as_u64().unwrap() > 0);
    assert!(row.get("kernel").is_none());
}

#[test]
fn pairs_and_choices() {
    let document = json(
        "compare --link channel --workload tcp-stream --size 4K --size 64K --pairs 3 \
         --seconds 0.02 --peer kernel --json",
    );
    let sizes: Vec<_> = document["results"].as_array().unwrap().iter().collect();
    assert_eq!(sizes.len(), 2);
    assert_eq!(document["method"]["pairs"], 3);
    let kernel = &sizes[0]["kernel"];
    let [min, median, max] = ["min", "median", "max"].map(|key| kernel[key].as_f64().unwrap());
    assert!(min <= median && median <= max);
    assert!(
        sizes[0].get("limit").is_none(),
        "only the kernel was chosen"
    );
    assert!(
        kernel.get("verified_bytes").is_none(),
        "nothing was verified"
    );
}

#[test]
fn the_table_is_for_people() {
    let output =
        output("compare --link channel --workload tcp-round-trip --size 64 --seconds 0.02");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["TCP round trip", "busy kernel", "Where Gannet loses", "CPU"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_missing_tool_is_three_lines_and_a_failure() {
    let mut command = gannet("bench tcp-stream --link veth --seconds 0.02 --json");
    let output = command.env("PATH", "").output().unwrap();
    assert!(!output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let skipped = &document["skipped"][0];
    assert_eq!(skipped["link"], "veth");
    for line in ["what", "why", "try"] {
        assert!(
            skipped[line].as_str().is_some_and(|text| !text.is_empty()),
            "{skipped}"
        );
    }
    assert_eq!(document["results"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_worker_without_a_parent_that_knows_it_ends() {
    let mut worker = gannet("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(worker.stdin.take());
    assert!(!worker.wait().unwrap().success());
}

#[test]
fn over_a_virtual_ethernet_as_root() {
    if !may_make_namespaces() {
        let document = output("bench tcp-stream --link veth --seconds 0.02 --json");
        assert!(
            !document.status.success(),
            "without the means it is a failure"
        );
        return;
    }
    let before = interfaces();
    for scenario in [
        "tcp-stream",
        "tcp-round-trip",
        "udp-stream",
        "udp-round-trip",
    ] {
        let document = json(&format!("bench {scenario} --link veth --size 512 {RUN}"));
        let rows = document["results"].as_array().unwrap();
        let directions: Vec<_> = rows.iter().map(|row| row["direction"].as_str()).collect();
        let all = ["to_kernel", "from_kernel", "gannet_to_gannet"].map(Some);
        assert_eq!(directions, all);
        for row in rows {
            assert_eq!(row["link"], "veth");
            for side in ["kernel", "gannet"] {
                assert!(row[side]["verified_bytes"].as_u64().unwrap() > 0, "{row}");
            }
        }
    }
    assert_eq!(
        interfaces(),
        before,
        "nothing of ours in the first namespace"
    );
}

#[test]
fn an_interrupt_ends_everything() {
    ends_everything(Signal::INT);
    ends_everything(Signal::TERM);
}

#[test]
fn a_kill_ends_everything() {
    ends_everything(Signal::KILL);
}

/// Starts a long comparison, waits until its workers and their namespaces are there, sends a
/// signal, and looks whether any of them is left.
fn ends_everything(signal: Signal) {
    let root = may_make_namespaces();
    let link = if root { "veth" } else { "channel" };
    let text = format!("compare --link {link} --workload tcp-stream --seconds 30");
    let mut command = gannet(&text);
    let mut comparison = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Two that hold the namespaces and two that talk.
    let expected = if root { 4 } else { 2 };
    let workers = wait_for(|| {
        let workers = children(&comparison);
        (workers.len() >= expected).then_some(workers)
    });
    let workers = workers.expect("workers start");
    kill_process(Pid::from_child(&comparison), signal).unwrap();
    let status = wait_for(|| comparison.try_wait().unwrap()).expect("it ends");
    assert!(!status.success());
    let gone = wait_for(|| workers.iter().all(|worker| is_gone(*worker)).then_some(()));
    assert!(gone.is_some(), "workers are left: {workers:?}");
}

fn may_make_namespaces() -> bool {
    rustix::process::geteuid().is_root() && Command::new("ip").arg("-V").output().is_ok()
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(value) = look() {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn children(of: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", of.id());
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Ended, or ended and not yet collected by whoever inherits it.
fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}

fn interfaces() -> Vec<String> {
    let directory = fs::read_dir("/sys/class/net").unwrap();
    let mut names: Vec<_> = directory
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.retain(|name| name.starts_with("gannet"));
    names
}
