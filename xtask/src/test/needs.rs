//! What the steps need on the machine. What can be installed is installed; the rest is explained.

use crate::explain::Explained;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Something without which a step cannot run. It is then left out, loudly.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// A file of the repository.
    File(&'static str),
    /// A file of the repository that holds a word.
    Text {
        file: &'static str,
        holds: &'static str,
    },
    /// A component of the nightly toolchain; added with rustup where there is a nightly.
    NightlyComponent(&'static str),
    /// A cargo subcommand that runs on the nightly toolchain; installed below `target/` where there
    /// is a nightly.
    NightlyTool(&'static str),
}

/// A program that tests call: (program, package that holds it, what for).
const TOOLS: [(&str, &str, &str); 4] = [
    (
        "ip",
        "iproute2",
        "tests make network namespaces and virtual Ethernet pairs with it",
    ),
    (
        "dnsmasq",
        "dnsmasq-base",
        "a test has it give a host an address by DHCP",
    ),
    (
        "cc",
        "gcc",
        "tests compile programs in C against the library for C",
    ),
    (
        "pkg-config",
        "pkg-config",
        "it tells those tests how, as it would tell a user",
    ),
];

/// Why a step cannot run here, if it cannot.
pub(super) fn unmet(root: &Path, needs: &[Need]) -> Option<String> {
    needs.iter().find_map(|need| match *need {
        Need::File(file) => (!root.join(file).exists()).then(|| format!("there is no {file}")),
        Need::Text { file, holds } => {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            (!text.contains(holds)).then(|| format!("no `{holds}` in {file}"))
        }
        Need::NightlyComponent(name) => nightly_component(name),
        Need::NightlyTool(name) => nightly_tool(root, name),
    })
}

/// Adds a component to the nightly toolchain; why that was not possible, if it was not.
fn nightly_component(name: &str) -> Option<String> {
    if !succeeds("rustup", &["run", "nightly", "rustc", "--version"]) {
        return Some("no nightly toolchain; try: rustup toolchain install nightly".to_owned());
    }
    let add = ["component", "add", "--toolchain", "nightly", name];
    (!succeeds("rustup", &add)).then(|| format!("try: rustup {}", add.join(" ")))
}

/// Installs a cargo subcommand beside the build; why that was not possible, if it was not.
fn nightly_tool(root: &Path, name: &str) -> Option<String> {
    let is_there = || {
        let mut command = nightly_cargo(root);
        command.args([name, "--version"]).stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if is_there() {
        return None;
    }
    println!("== needs: installing cargo-{name}");
    let mut install = nightly_cargo(root);
    install.args(["install", "--locked", "--root"]);
    install.arg(tools(root)).arg(format!("cargo-{name}"));
    let installed = install.status().is_ok_and(|status| status.success());
    let hint = || format!("no `cargo {name}`; try: cargo +nightly install cargo-{name}");
    (!installed || !is_there()).then(hint)
}

fn tools(root: &Path) -> PathBuf {
    root.join("target/tools")
}

/// Cargo of the nightly toolchain, with the subcommands that were installed beside the build.
pub(super) fn nightly_cargo(root: &Path) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(root);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(tools(root).join("bin"));
    if let Ok(path) = std::env::join_paths(own.chain(std::env::split_paths(&path))) {
        command.env("PATH", path);
    }
    // of a cargo that runs us, and would choose the toolchain
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

/// Installs what is missing where that is possible, and says what is still missing.
pub(super) fn missing_tools() -> Vec<Explained> {
    let absent: Vec<_> = TOOLS
        .iter()
        .filter(|(program, ..)| !on_path(program))
        .collect();
    if absent.is_empty() {
        return Vec::new();
    }
    if is_root() && on_path("apt-get") {
        println!("== needs: installing what the tests call");
        succeeds("apt-get", &["update"]);
    }
    absent
        .into_iter()
        .filter_map(|&(program, package, purpose)| {
            let install = ["install", "-y", "--no-install-recommends", package];
            if is_root() && on_path("apt-get") && succeeds("apt-get", &install) && on_path(program)
            {
                return None;
            }
            let what = format!("the program `{program}` is missing; tests that call it will fail");
            Some(Explained::new(
                what,
                purpose,
                format!("sudo apt-get install {package}"),
            ))
        })
        .collect()
}

fn on_path(program: &str) -> bool {
    // A user's PATH often lacks the folders of the system's programs.
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders
        .filter(|folder| !folder.is_empty())
        .any(|folder| Path::new(folder).join(program).is_file())
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_that_is_not_met_says_why() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let present = Need::Text {
            file: "Cargo.toml",
            holds: "xtask",
        };
        assert_eq!(unmet(root, &[Need::File("Cargo.toml"), present]), None);
        let gone = unmet(root, &[present, Need::File("gone")]);
        assert_eq!(gone.as_deref(), Some("there is no gone"));
        let word = Need::Text {
            file: "Cargo.toml",
            holds: "no such word",
        };
        assert!(unmet(root, &[word]).is_some());
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("cargo"));
        assert!(!on_path("no-such-program-anywhere"));
    }
}
