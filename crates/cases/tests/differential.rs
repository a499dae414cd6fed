//! Every case and every fault on the kernel and carried by `gannet run`: the same, except where
//! `differences.toml` says why not. `cargo xtask test --step=cases` builds what this needs beside
//! this test: `gannet` and `libgannet_preload.so`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of what cargo built.
fn built() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_gannet-cases"));
    program.parent().expect("a folder").to_owned()
}

/// `differences.toml`.
#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    difference: Vec<Difference>,
}

/// One row of it.
#[derive(Deserialize)]
struct Difference {
    case: String,
    /// What is observed under `gannet run`.
    gannet: String,
    reason: String,
}

/// Observations by name.
type Observed = BTreeMap<String, String>;

fn observe(mut command: Command, arguments: &[&str]) -> Observed {
    let output = command
        .args(arguments)
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let line = |line: &str| {
        let (name, observed) = line.split_once('\t')?;
        Some((name.to_owned(), observed.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn plain(arguments: &[&str]) -> Observed {
    observe(Command::new(env!("CARGO_BIN_EXE_gannet-cases")), arguments)
}

fn carried(network: &str, arguments: &[&str]) -> Observed {
    carried_at(network, &[], arguments)
}

fn carried_at(network: &str, options: &[&str], arguments: &[&str]) -> Observed {
    let mut command = Command::new(built().join("gannet"));
    let network = format!("{network}{}", std::process::id());
    command.args(["run", "--require", "--net", &network]);
    command.args(options).arg("--");
    command.arg(env!("CARGO_BIN_EXE_gannet-cases"));
    observe(command, arguments)
}

/// What is not as it should be, line by line.
fn compare(kernel: &Observed, gannet: &Observed, listed: &[Difference]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, expected) in kernel {
        let found = gannet.get(name).map_or("nothing", String::as_str);
        let row = listed.iter().find(|row| row.case == *name);
        match row {
            None if found != expected => {
                findings.push(format!("{name}\n  kernel: {expected}\n  gannet: {found}"))
            }
            Some(_) if found == expected => {
                findings.push(format!("{name}: no longer differs; take it off the list"));
            }
            Some(row) if row.gannet != found => findings.push(format!(
                "{name}\n  listed: {}\n  gannet: {found}",
                row.gannet
            )),
            _ => {}
        }
    }
    findings
}

#[test]
fn a_carried_program_observes_what_the_kernel_shows() {
    let list = include_str!("../differences.toml");
    let listed: Listed = toml::from_str(list).expect("differences.toml");
    let (mut kernel, mut gannet) = (plain(&[]), carried("cases", &[]));
    kernel.extend(plain(&["faults"]));
    gannet.extend(carried("faults", &["faults"]));
    assert!(kernel.len() >= 500, "{}", kernel.len());
    judge(&kernel, &gannet, &listed);
}

/// Datagrams to loopback addresses stay with the kernel: the same cases at an address of ours.
#[test]
fn datagrams_of_ours_are_as_the_kernels() {
    let list = include_str!("../differences-udp.toml");
    let listed: Listed = toml::from_str(list).expect("differences-udp.toml");
    let ours = "10.86.0.5";
    let wanted = ["--only", "udp", "--only", "recvmsg/IP_"];
    let at_ours = [&["--v4", ours][..], &wanted].concat();
    let gannet = carried_at("udp", &["--addr", ours], &at_ours);
    let kernel = plain(&wanted);
    assert!(kernel.len() >= 60, "{}", kernel.len());
    judge(&kernel, &gannet, &listed);
}

fn judge(kernel: &Observed, gannet: &Observed, listed: &Listed) {
    let mut findings = compare(kernel, gannet, &listed.difference);
    for row in &listed.difference {
        if !kernel.contains_key(&row.case) {
            findings.push(format!("{}: listed, and no such case", row.case));
        }
        if row.reason.len() < 20 {
            findings.push(format!("{}: listed without a reason", row.case));
        }
    }
    println!(
        "{} cases, {} listed as different",
        kernel.len(),
        listed.difference.len()
    );
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
