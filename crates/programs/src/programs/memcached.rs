//! memcached, with the load generator and the conformance test of libmemcached.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::command::Running;
use crate::place::is_root;
use crate::stage::Stage;

pub(crate) const PROGRAM: Program = Program {
    name: "memcached",
    version: &["memcached", "--version"],
    needs: &[
        ("memcached", "memcached"),
        ("memcaslap", "libmemcached-tools"),
        ("memcping", "libmemcached-tools"),
        ("memccapable", "libmemcached-tools"),
    ],
    cases: &[
        Case::new("mixed get and set", 30, |stage| load(stage, &[])),
        Case::new("binary protocol", 30, |stage| load(stage, &["--binary"])),
        Case::new("every command", 60, commands),
    ],
};

/// A server that answers.
fn serve(stage: &Stage, port: &str) -> Result<Running, Fault> {
    let words = [
        "memcached",
        "-l",
        stage.host(),
        "-p",
        port,
        "-U",
        "0",
        "-t",
        "4",
    ];
    let user: &[&str] = if is_root() { &["-u", "nobody"] } else { &[] };
    let server = stage.server(&words).args(user).start()?;
    if stage.host().starts_with("127.") {
        // Asked before it listens anywhere, and after, a client would find the kernel's side only.
        stage.wait_for("the port", || listens(server.pid(), port).then_some(()))?;
    }
    let at = format!("--servers={}:{port}", stage.host());
    stage.wait_for("an answer", || stage.client(&["memcping", &at]).ok().ok())?;
    Ok(server)
}

/// Whether somebody listens on the port at the kernel of the process's name space.
fn listens(pid: i32, port: &str) -> bool {
    let all = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let port = port.parse::<u16>().map(|port| format!(":{port:04X}"));
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ends = |text: &&str| port.as_ref().is_ok_and(|port| text.ends_with(port));
        // (0A: LISTEN)
        words.get(1).is_some_and(ends) && words.get(3) == Some(&"0A")
    };
    all.lines().any(is_it)
}

/// memcaslap: nine gets for each set; it verifies a tenth of the values.
fn load(stage: &Stage, options: &[&str]) -> Checked {
    let port = stage.port()?;
    let _server = serve(stage, &port)?;
    let at = format!("{}:{port}", stage.host());
    let words = [
        "memcaslap",
        "-s",
        &at,
        "-x",
        "50000",
        "-T",
        "2",
        "-c",
        "16",
        "-v",
        "0.1",
    ];
    let out = stage.client(&words).args(options).ok()?;
    let count = |name: &str| {
        let line = out.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().parse::<u64>().ok()
    };
    let [gets, sets, misses, wrong] =
        ["cmd_get", "cmd_set", "get_misses", "verify_failed"].map(|name| count(name).unwrap_or(0));
    expect(gets > 0 && sets > 0 && wrong == 0 && misses < gets, || {
        format!("{gets} gets, {sets} sets, {misses} misses, {wrong} wrong values: {out}")
    })?;
    Ok(format!("{gets} gets, {sets} sets"))
}

/// memccapable: each command of both protocols, with its errors.
fn commands(stage: &Stage) -> Checked {
    let port = stage.port()?;
    let _server = serve(stage, &port)?;
    let out = stage
        .client(&["memccapable", "-h", stage.host(), "-p", &port])
        .ok()?;
    let passed = out.matches("[pass]").count();
    expect(passed > 20 && !out.contains("[FAIL]"), || out.clone())?;
    fine()
}
