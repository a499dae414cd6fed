//! What programs need on the machine, and how it comes there.

use crate::case::Program;
use crate::place::is_root;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Asked by Debian's packages before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// What of a program is missing: why it cannot be checked, and what would help.
pub(crate) fn missing(program: &Program) -> Option<String> {
    let absent = program.needs.iter().find(|(what, _)| find(what).is_none());
    absent
        .map(|(what, package)| format!("`{what}` is missing; try: sudo apt-get install {package}"))
}

/// Installs what is missing, where that is possible. Services are not started.
pub(crate) fn install(programs: &[&Program]) {
    let needs = programs.iter().flat_map(|program| program.needs);
    let absent = needs.filter(|(what, _)| find(what).is_none());
    let mut packages: Vec<&str> = absent.map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() || !is_root() || find("apt-get").is_none() {
        return;
    }
    println!("== installing {}", packages.join(" "));
    let _policy = NoServices::new();
    apt(&["update"]);
    apt(&[
        &["install", "-y", "--no-install-recommends"],
        packages.as_slice(),
    ]
    .concat());
}

fn apt(arguments: &[&str]) {
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("RUNLEVEL", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Err(error) = command.status() {
        eprintln!("apt-get: {error}");
    }
}

/// While this lives, packages do not start their services.
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn new() -> Self {
        let is_ours = !Path::new(POLICY).exists();
        if is_ours {
            let written = std::fs::write(POLICY, "#!/bin/sh\nexit 101\n");
            let mode = std::fs::Permissions::from_mode(0o755);
            if let Err(error) = written.and_then(|()| std::fs::set_permissions(POLICY, mode)) {
                eprintln!("{POLICY}: {error}");
            }
        }
        Self { is_ours }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}

/// Where a program or file is. A `*` in a path stands for one folder.
pub(crate) fn find(what: &str) -> Option<PathBuf> {
    if let Some((before, after)) = what.split_once("/*/") {
        let folders = std::fs::read_dir(before).ok()?.flatten();
        let mut found: Vec<PathBuf> = folders
            .map(|folder| folder.path().join(after))
            .filter(|path| path.exists())
            .collect();
        found.sort();
        return found.pop();
    }
    if what.starts_with('/') {
        return Some(PathBuf::from(what)).filter(|path| path.exists());
    }
    // A user's path often lacks the folders of the system's programs.
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let mut paths = folders.map(|folder| Path::new(folder).join(what));
    paths.find(|path| path.is_file())
}

/// The version of a program; empty if it does not say.
pub(crate) fn version(program: &Program) -> String {
    let Some((name, arguments)) = program.version.split_first() else {
        return String::new();
    };
    let Some(path) = find(name) else {
        return String::new();
    };
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let said = output.map(|output| [output.stdout, output.stderr].concat());
    first_version(&String::from_utf8_lossy(&said.unwrap_or_default()))
}

/// The first word such as `1.2p3`: a digit, then a dot and another digit somewhere.
fn first_version(text: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let words = text.split(|c| !part(c));
    let numbers = words.map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()));
    let is_version = |word: &&str| {
        let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        word.split_once('.')
            .is_some_and(|(a, b)| digit(a) && digit(b))
    };
    let found = numbers.into_iter().find(is_version).unwrap_or_default();
    found.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_programs_say_them() {
        let rows = [
            ("iperf 3.12 (cJSON 1.7.15)\n", "3.12"),
            ("Redis server v=7.0.15 sha=00000000:0", "7.0.15"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("OpenSSH_9.2p1 Debian-2, OpenSSL 3.0.19", "9.2p1"),
            ("go version go1.26.8 linux/amd64", "1.26.8"),
            ("openjdk version \"17.0.15\" 2025-04-15", "17.0.15"),
            ("none", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(first_version(text), expected, "{text}");
        }
    }

    #[test]
    fn files_and_programs_are_found() {
        assert!(find("sh").is_some());
        assert!(find("/usr/*/sh").is_some() || find("/bin/sh").is_some());
        assert!(find("no-such-program").is_none());
        assert!(find("/no/*/such").is_none());
    }
}
