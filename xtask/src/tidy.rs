//! `cargo xtask tidy`: style and structure are tests.
//!
//! * `tidy/structure.rs`: the data (`xtask/structure.toml`, `xtask/budgets.toml`) as types
//! * `tidy/source.rs`: one file: text, text without comments and strings, syntax tree, test lines
//! * `tidy/size.rs`: lengths of functions, files and lines, numbers of arguments, the ratchet
//! * `tidy/layout.rs`: file names, tables of contents, where `unsafe` may live
//! * `tidy/direction.rs`: which module may name which
//! * `tidy/purity.rs`: no clock and no operating system in the sans-IO crates
//! * `tidy/words.rs`: words and paths that do not belong in a tracked file
//! * `tidy/evidence.rs`: the list of bad input (`xtask/robustness.toml`) and the tests that show it
//! * `tidy/pages.rs`: the files that ARCHITECTURE.md names exist

mod direction;
mod evidence;
mod layout;
mod pages;
mod purity;
mod size;
pub(crate) mod source;
mod structure;
mod words;

use crate::explain::Explained;
use crate::only_known;
use source::Source;
use std::fmt;
use std::path::Path;
use std::process::Command;
use structure::{Budgets, Structure};

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
    remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            message,
            remedy,
        } = self;
        write!(out, "{path}:{line}: [{rule}] {message}\n    try: {remedy}")
    }
}

/// Runs every check; true when nothing was found.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool, Explained> {
    only_known(options, &["--source-only"])?;
    let structure = Structure::load(root)?;
    let budgets = Budgets::load(root)?;
    let evidence = evidence::Evidence::load(root)?;
    let files = source::tracked_files(root)?;
    let mut findings = check_all(&files, &structure, &budgets);
    findings.extend(evidence::check(&files, &evidence));
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    if options.contains(&"--source-only") {
        return Ok(findings.is_empty());
    }
    let formatted = cargo(root, &["fmt", "--all", "--check"])?;
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    let linted = cargo(root, &clippy)?;
    Ok(findings.is_empty() && formatted && linted)
}

/// Every rule over every file, sorted by place.
fn check_all(files: &[Source], structure: &Structure, budgets: &Budgets) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(words::check(file));
        findings.extend(layout::check(file, structure));
        findings.extend(purity::check(file, structure));
        findings.extend(direction::check(file, &structure.modules));
    }
    findings.extend(layout::check_whole(files));
    findings.extend(pages::check(files));
    findings.extend(direction::check_table(&structure.modules));
    findings.extend(size::check(files, budgets));
    findings.sort();
    findings
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<bool, Explained> {
    println!("tidy: cargo {}", arguments.join(" "));
    match Command::new("cargo")
        .args(arguments)
        .current_dir(root)
        .status()
    {
        Ok(status) => Ok(status.success()),
        Err(error) => Err(Explained::new(
            "cargo did not start",
            error.to_string(),
            "install the Rust toolchain and put its bin directory on PATH",
        )),
    }
}
