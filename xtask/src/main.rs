//! Project tasks: `cargo xtask test | ci | tidy | rfc | programs | header | install-c`.
//!
//! * `test.rs` and `test/`: the one test command, a list of steps with a table at the end
//! * `tidy.rs` and `tidy/`: rules about the source itself; their data is `xtask/structure.toml`
//! * `rfc.rs` and `rfc/`: quotes of RFC sentences in the code, checked against `specs/`
//! * `programs.rs`: builds and starts `crates/programs`, with its options
//! * `header.rs`: `include/gannet.h` from the source of `crates/capi`
//! * `install_c.rs`: header, libraries and pkg-config file for programs in C
//! * `symbols.rs`: the names of the C library that programs import, and who takes them
//! * `explain.rs`: an error in three lines: what, why, `try:`

#![forbid(unsafe_code)]

mod explain;
mod header;
mod install_c;
mod programs;
mod rfc;
mod symbols;
mod test;
mod tidy;

use explain::Explained;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [--quick] [--fail-fast]   every test, a table of times, `N passed, N failed`
cargo xtask test --step=NAME               one step of it, also of `ci`; may be repeated
cargo xtask test --beside                  what it starts as its second lane: see test/lanes.rs
cargo xtask programs [OPTION]...           Debian's programs, on the kernel and on Gannet: --help
cargo xtask ci [--fail-fast]               the same, and the steps that take longer
cargo xtask tidy [--source-only]           formatting, clippy, and the rules about the source
cargo xtask rfc [--missing] [--json]       RFC sentences quoted in the code against specs/
cargo xtask rfc extract FILE [text=..] [skip=..]   a new file of specs/ from an RFC
cargo xtask header [--check]               include/gannet.h from crates/capi; --check: is it so?
cargo xtask symbols [LIBRARY]              names that programs import against those we take
cargo xtask install-c PREFIX [--debug]     include/, lib/ and lib/pkgconfig/ below PREFIX";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = repository_root();
    let outcome = match words.split_first() {
        Some((&"test", options)) => test::run(&root, test::Extent::Usual, options),
        Some((&"ci", options)) => test::run(&root, test::Extent::Everything, options),
        Some((&"tidy", options)) => tidy::run(&root, options),
        Some((&"rfc", options)) => rfc::run(&root, options),
        Some((&"programs", options)) => programs::run(&root, options),
        Some((&"header", options)) => header::run(&root, options),
        Some((&"symbols", options)) => symbols::run(&root, options),
        Some((&"install-c", options)) => install_c::run(&root, options),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(explained) => {
            eprintln!("{explained}");
            ExitCode::FAILURE
        }
    }
}

/// The directory above this crate: every path in the reports is relative to it.
fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Refuses an option that a task does not know, so that a typing error never means "run less".
fn only_known(options: &[&str], known: &[&str]) -> Result<(), Explained> {
    match options.iter().find(|option| !known.contains(option)) {
        None => Ok(()),
        Some(unknown) => Err(Explained::new(
            format!("`{unknown}` is not an option of this task"),
            format!("it knows: {}", known.join(" ")),
            "cargo xtask",
        )),
    }
}
