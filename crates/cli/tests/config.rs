//! `gannet config` and `gannet explain` from end to end.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The command with a directory of settings of its own, and none of ours.
fn gannet(home: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GANNET_") {
            command.env_remove(name);
        }
    }
    command.env("XDG_CONFIG_HOME", home).stdin(Stdio::null());
    command.envs(environment.iter().copied());
    command.args(arguments).output().expect("it starts")
}

fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(text.lines().count(), 3, "{text}");
    text
}

#[test]
fn values_are_shown_with_their_origin() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("gannet")).unwrap();
    let file = home.path().join("gannet/config.toml");
    fs::write(&file, "[tcp]\nsack = false\n").unwrap();
    let environment = [("GANNET_TCP_NODELAY", "off"), ("GANNET_PROFILE", "latency")];
    let arguments = ["config", "show", "--set", "tcp.congestion=bbr"];
    let out = text(&gannet(home.path(), &arguments, &environment));
    assert!(
        out.starts_with("profile latency (variable GANNET_PROFILE)\n"),
        "{out}"
    );
    let line = |name: &str| {
        let found = out
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        found
            .unwrap_or_else(|| panic!("{name} in {out}"))
            .to_owned()
    };
    let place = format!("{} line 2", file.display());
    for (name, value, origin) in [
        ("tcp.congestion", "bbr", "option --set"),
        ("tcp.sack", "false", &place),
        ("tcp.nodelay", "false", "variable GANNET_TCP_NODELAY"),
        ("spin", "200us", "profile latency"),
        ("tcp.initial_rto", "1s", "default"),
    ] {
        let line = line(name);
        assert!(
            line.contains(&format!(" {value} ")) && line.contains(origin),
            "{line}"
        );
    }
    let arguments = [
        "config",
        "show",
        "--json",
        "--profile",
        "many",
        "stream.buffer",
        "tcp",
    ];
    let out = text(&gannet(home.path(), &arguments, &environment));
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], "gannet/config/1");
    assert_eq!(document["profile"]["name"], "many");
    let row = &document["settings"][0];
    assert_eq!(
        (&row["name"], &row["value"]),
        (&"stream.buffer".into(), &"64K".into())
    );
    assert_eq!(
        (&row["number"], &row["unit"]),
        (&65_536.into(), &"bytes".into())
    );
    assert_eq!(row["origin"]["kind"], "profile");
    assert!(document["settings"].as_array().unwrap().len() > 20);
    let out = text(&gannet(
        home.path(),
        &["config", "show", "tcp.min_rto"],
        &[],
    ));
    assert!(
        out.contains("GANNET_TCP_MIN_RTO") && out.contains("1ms to 1min"),
        "{out}"
    );
}

#[test]
fn mistakes_are_named() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, what, hint) in [
        (
            &["config", "show", "tcp.rto"][..],
            "cannot show \"tcp.rto\"",
            "tcp.initial_rto",
        ),
        (
            &["config", "show", "--set", "spim=1us"],
            "(option --set)",
            "try: spin",
        ),
        (
            &["config", "show", "--profile", "fast"],
            "(option --profile)",
            "gannet config profiles",
        ),
        (
            &["explain", "ECONREFUSED"],
            "cannot explain",
            "gannet explain ECONNREFUSED",
        ),
    ] {
        let text = error(&gannet(home.path(), arguments, &[]));
        assert!(text.contains(what) && text.contains(hint), "{text}");
    }
    let named = [("GANNET_CONFIG", "/nowhere/config.toml")];
    let text = error(&gannet(home.path(), &["config", "show"], &named));
    assert!(text.contains("no such file"), "{text}");
}

#[test]
fn profiles_say_why() {
    let home = tempfile::tempdir().unwrap();
    let out = text(&gannet(home.path(), &["config", "profiles", "--json"], &[]));
    let document: Value = serde_json::from_str(&out).unwrap();
    let all = document["profiles"].as_array().unwrap();
    let names: Vec<&str> = all.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(
        names,
        ["default", "latency", "throughput", "many", "lan-kernel"]
    );
    let out = text(&gannet(home.path(), &["config", "profiles"], &[]));
    assert!(out.contains("lan-kernel: peers"), "{out}");
}

#[test]
fn codes_are_explained() {
    let home = tempfile::tempdir().unwrap();
    for (code, part) in [
        ("104", "ECONNRESET (104): errors of calls"),
        ("ip-checksum", "The header checksum is wrong."),
        ("static-program", "linked statically"),
        ("address-not-ours", "none of Gannet's networks"),
        ("127", "was not found"),
        ("range_bounds", "outside the segment"),
    ] {
        let out = text(&gannet(home.path(), &["explain", code], &[]));
        assert!(out.contains(part) && out.contains("try: "), "{out}");
    }
    let out = text(&gannet(
        home.path(),
        &["explain", "--json", "no_memory"],
        &[],
    ));
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], "gannet/explain/1");
    let kinds: Vec<&Value> = (0..2).map(|n| &document["entries"][n]["kind"]).collect();
    assert_eq!(kinds, ["drop", "tcp_count"]);
    let out = text(&gannet(home.path(), &["explain"], &[]));
    assert!(out.lines().count() > 150, "all of them");
}
