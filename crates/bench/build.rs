//! Records which compiler and which commit a binary was built from, so that figures can be compared
//! later.
//!
//! Reads `.git` as text (no git program is run) and asks the compiler for its version. Nothing here
//! can fail the build: what is unknown stays unset, and the environment record says "unknown".

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(version) = compiler_version() {
        println!("cargo::rustc-env=GANNET_BENCH_RUSTC={version}");
    }
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=GANNET_BENCH_COMMIT={commit}");
    }
}

fn compiler_version() -> Option<String> {
    let compiler = std::env::var_os("RUSTC")?;
    let output = Command::new(compiler).arg("-V").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn commit() -> Option<String> {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).join("../..");
    let directory = git_directory(&root.join(".git"))?;
    let head_file = directory.join("HEAD");
    println!("cargo::rerun-if-changed={}", head_file.display());
    let head = std::fs::read_to_string(head_file).ok()?;
    let Some(reference) = head.trim().strip_prefix("ref: ") else {
        return checked(&head);
    };
    // A linked work tree keeps HEAD to itself and shares the branches with the main one.
    let common = match std::fs::read_to_string(directory.join("commondir")) {
        Ok(text) => directory.join(text.trim()),
        Err(_) => directory,
    };
    let loose = common.join(reference);
    if let Ok(text) = std::fs::read_to_string(&loose) {
        println!("cargo::rerun-if-changed={}", loose.display());
        return checked(&text);
    }
    let packed = std::fs::read_to_string(common.join("packed-refs")).ok()?;
    packed
        .lines()
        .find_map(|line| checked(line.strip_suffix(reference)?))
}

/// `.git` is a directory in a clone and a file that names one in a linked work tree.
fn git_directory(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let text = std::fs::read_to_string(dot_git).ok()?;
    Some(PathBuf::from(text.trim().strip_prefix("gitdir: ")?))
}

/// Only hexadecimal digits may reach the binary, whatever the file held.
fn checked(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = text.len() >= 40 && text.chars().all(|c| c.is_ascii_hexdigit());
    fits.then(|| text.to_owned())
}
