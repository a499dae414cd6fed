//! `cargo xtask programs`: `crates/programs` in release code, with its own options.

use crate::explain::Explained;
use std::path::Path;
use std::process::Command;

/// Builds and runs it; true when every check holds.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool, Explained> {
    let build = [
        "run",
        "--quiet",
        "--release",
        "--locked",
        "-p",
        "gannet-programs",
        "--",
    ];
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let mut command = Command::new("cargo");
    command
        .args(build)
        .args(options)
        .current_dir(root)
        .envs(crate::test::fast_release())
        // Where the steps of the test command build it as well.
        .env("CARGO_TARGET_DIR", base.join("heavy"));
    match command.status() {
        Ok(status) => Ok(status.success()),
        Err(error) => Err(Explained::new(
            "cargo did not start",
            error.to_string(),
            "put cargo on PATH",
        )),
    }
}
