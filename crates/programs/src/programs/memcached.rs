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
    stage.wait_for_listener(server.pid(), stage.host(), port)?;
    let at = format!("--servers={}:{port}", stage.host());
    stage.wait_for("an answer", || stage.client(&["memcping", &at]).ok().ok())?;
    Ok(server)
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
