//! Every case and every fault on the kernel and carried by `gannet run`: the same, except where
//! `differences.toml` says why not, and at an address of ours `differences-own.toml`.
//! `cargo xtask test --step=cases` builds what this needs beside this test: `gannet` and
//! `libgannet_preload.so`, and the program once more, linked statically.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What differs wherever a program is.
const EVERYWHERE: &str = include_str!("../differences.toml");
/// What differs at an address of ours.
const AT_OURS: &str = include_str!("../differences-own.toml");

/// The folder of what cargo built.
fn built() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_gannet-cases"));
    program.parent().expect("a folder").to_owned()
}

/// A list of differences.
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

/// What is not as it should be: which case, and how.
fn compare(kernel: &Observed, gannet: &Observed, listed: &[Difference]) -> Vec<(String, String)> {
    let mut findings = Vec::new();
    for (name, expected) in kernel {
        let found = gannet.get(name).map_or("nothing", String::as_str);
        let row = listed.iter().find(|row| row.case == *name);
        let finding = match row {
            None if found != expected => {
                format!("{name}\n  kernel: {expected}\n  gannet: {found}")
            }
            Some(_) if found == expected => {
                format!("{name}: no longer differs; take it off the list")
            }
            Some(row) if row.gannet != found => {
                format!("{name}\n  listed: {}\n  gannet: {found}", row.gannet)
            }
            _ => continue,
        };
        findings.push((name.clone(), finding));
    }
    findings
}

/// What the kernel shows of every case and fault, found out once.
fn kernel() -> &'static Observed {
    static KERNEL: OnceLock<Observed> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let mut all = plain(&[]);
        all.extend(plain(&["faults"]));
        assert!(all.len() >= 500, "{}", all.len());
        all
    })
}

fn listed(list: &str) -> Vec<Difference> {
    toml::from_str::<Listed>(list).expect("a list").difference
}

#[test]
fn a_carried_program_observes_what_the_kernel_shows() {
    let mut gannet = carried("cases", &[]);
    gannet.extend(carried("faults", &["faults"]));
    judge(kernel(), &gannet, &listed(EVERYWHERE), &|only| {
        [plain(only), carried("again", only)]
    });
}

/// The program linked statically, if it was built: for a target of its own, as cargo calls it.
fn linked_statically() -> Option<PathBuf> {
    let profile = built();
    let name = Path::new("x86_64-unknown-linux-gnu").join(profile.file_name()?);
    let program = profile.with_file_name("").join(name).join("gannet-cases");
    program.is_file().then_some(program)
}

/// ld.so brings no library into it, and it has a C library of its own.
#[test]
fn a_static_program_observes_what_the_kernel_shows() {
    let Some(program) = linked_statically() else {
        return eprintln!(
            "skipped: cargo rustc -p gannet-cases --bin gannet-cases --target \
             x86_64-unknown-linux-gnu -- -C target-feature=+crt-static"
        );
    };
    let observe = |network: &str, arguments: &[&str]| {
        let mut command = Command::new(built().join("gannet"));
        let network = format!("static-{network}{}", std::process::id());
        command.args(["run", "--require", "--net", &network, "--"]);
        command.arg(&program);
        observe(command, arguments)
    };
    let mut gannet = observe("cases", &[]);
    gannet.extend(observe("faults", &["faults"]));
    judge(kernel(), &gannet, &listed(EVERYWHERE), &|only| {
        [plain(only), observe("again", only)]
    });
}

/// Loopback addresses are the kernel's too: the same cases at an address that is ours alone.
#[test]
fn at_an_address_of_ours_it_is_what_the_kernel_shows() {
    let (four, six) = ("10.86.0.5", "fd00:86::5");
    let at_four = ["--addr", four];
    let mut gannet = carried_at("four", &at_four, &["--v4", four]);
    gannet.extend(carried_at("ends", &at_four, &["faults", "--v4", four]));
    let only_six = ["--v6", six, "--only", "ipv6"];
    gannet.extend(carried_at("six", &["--addr", six], &only_six));
    let mut rows = listed(AT_OURS);
    for row in listed(EVERYWHERE) {
        if rows.iter().all(|other| other.case != row.case) {
            rows.push(row);
        }
    }
    judge(kernel(), &gannet, &rows, &|only| {
        let own = ["--v4", four];
        [
            plain(only),
            carried_at("again4", &at_four, &[only, &own].concat()),
        ]
    });
}

/// With room for few streams, so that whatever is not given back is missed at once.
#[test]
fn what_is_closed_is_given_back() {
    let few = ["--set", "streams=64"];
    let gannet = carried_at("few", &few, &["--only", "churn/"]);
    assert!(gannet.len() >= 8, "{}", gannet.len());
    for (name, observed) in &gannet {
        assert_eq!(kernel().get(name), Some(observed), "{name}");
    }
}

/// Each process that sleeps on a listener has its turn (the kernel always wakes the same one).
#[test]
fn connections_are_spread_over_the_processes_that_accept() {
    let observed = carried("spread", &["--stage", "spread"]);
    let count = observed["spread"].split(' ').map(str::parse::<usize>);
    let count: Vec<usize> = count.map(|count| count.expect("a number")).collect();
    assert_eq!(count.iter().sum::<usize>(), 64, "{count:?}");
    assert!(count.iter().all(|&count| count >= 8), "{count:?}");
}

/// Two programs, each with an address of its own: one end of every connection in each.
struct Pair {
    network: String,
    carried: bool,
    /// Of the program that makes the cases, and of the other.
    addresses: [&'static str; 2],
    /// What the other's end does.
    side: &'static str,
}

impl Pair {
    fn program(&self, at: &str) -> Command {
        let cases = env!("CARGO_BIN_EXE_gannet-cases");
        if !self.carried {
            return Command::new(cases);
        }
        let mut command = Command::new(built().join("gannet"));
        command.args(["run", "--require", "--net", &self.network]);
        command.args(["--addr", at, "--", cases]);
        command
    }

    /// `only`: further arguments, which cases.
    fn observe(&self, only: &[&str]) -> Observed {
        let [ours, theirs] = self.addresses;
        // It ends when its standard input does.
        let mut other = self
            .program(theirs)
            .args(["peer", &self.network])
            .stdin(Stdio::piped())
            .spawn()
            .expect("the other program starts");
        let peer = ["--peer", &self.network, "--peer-v4", theirs];
        let side = ["--v4", ours, "--peer-side", self.side];
        let observed = observe(self.program(ours), &[&peer[..], &side, only].concat());
        drop(other.stdin.take());
        let ended = other.wait().expect("the other program ends");
        assert!(ended.success(), "{ended:?}");
        observed
    }
}

/// The kernel's connections go out from 127.0.0.1 wherever in 127.0.0.0/8 they go to.
fn two_programs(side: &'static str, on_kernel: [&'static str; 2]) {
    let pair = move |carried: bool, addresses| Pair {
        network: format!("{side}{}{carried}", std::process::id()),
        carried,
        addresses,
        side,
    };
    let carried = pair(true, ["10.86.0.7", "10.86.0.8"]);
    let kernel = std::thread::spawn(move || pair(false, on_kernel).observe(&[]));
    let gannet = carried.observe(&[]);
    let kernel = kernel.join().expect("the kernel's side");
    assert!(kernel.len() >= 200, "{}", kernel.len());
    let mut rows = listed(EVERYWHERE);
    rows.extend(listed(AT_OURS));
    // Most of the lists is about things that happen within one program.
    rows.retain(|row| {
        let differs = kernel.get(&row.case) != gannet.get(&row.case);
        differs && gannet.get(&row.case) == Some(&row.gannet)
    });
    judge(&kernel, &gannet, &rows, &|only| {
        [pair(false, on_kernel).observe(only), carried.observe(only)]
    });
}

#[test]
fn two_programs_of_which_the_other_accepts() {
    two_programs("accepts", ["127.0.0.1", "127.0.0.2"]);
}

#[test]
fn two_programs_of_which_the_other_connects() {
    two_programs("connects", ["127.0.0.2", "127.0.0.1"]);
}

/// Both worlds once more, with arguments that name one case.
type Again<'a> = &'a dyn Fn(&[&str]) -> [Observed; 2];

/// A case that differed is made twice more in both worlds, alone: several tests share the machine,
/// and what a case sees within its 40 ms may come later then. One that hangs, or differs again,
/// differs.
fn judge(kernel: &Observed, gannet: &Observed, listed: &[Difference], again: Again<'_>) {
    let mut findings = Vec::new();
    for (name, finding) in compare(kernel, gannet, listed) {
        let hangs = gannet.get(&name).is_some_and(|seen| seen.contains("hang"));
        let faults = name.starts_with("faults/").then_some("faults");
        let only: Vec<&str> = faults.into_iter().chain(["--only", &name]).collect();
        let differs = || {
            let [kernel, gannet] = again(&only);
            let found = compare(&kernel, &gannet, listed);
            found.iter().any(|(other, _)| *other == name) || !kernel.contains_key(&name)
        };
        if hangs || differs() || differs() {
            findings.push(finding);
        } else {
            println!("once only: {finding}");
        }
    }
    for row in listed {
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
        listed.len()
    );
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
