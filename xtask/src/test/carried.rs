//! The cases under `gannet run`, which needs the command and the library that is loaded into
//! programs built first, beside the test.

use crate::explain::Explained;
use std::path::Path;
use std::process::Command;

/// The command and the library, the program of the cases linked statically, then the test that
/// compares with the kernel.
const RUNS: [&[&str]; 3] = [
    &[
        "build",
        "--locked",
        "--release",
        "-p",
        "gannet-cli",
        "-p",
        "gannet-preload",
    ],
    &[
        "rustc",
        "--locked",
        "--release",
        "-p",
        "gannet-cases",
        "--bin",
        "gannet-cases",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--",
        "-C",
        "target-feature=+crt-static",
    ],
    &[
        "test",
        "--locked",
        "--release",
        "-p",
        "gannet-cases",
        "--features",
        "carried",
        "--test",
        "differential",
        "--",
        "--nocapture",
    ],
];

/// Runs every case plainly and carried; true when nothing differs that is not listed.
pub(super) fn cases(root: &Path) -> Result<bool, Explained> {
    cargo(root, &RUNS)
}

/// Builds the library, and compares its names with those that programs import.
pub(super) fn symbols(root: &Path) -> Result<bool, Explained> {
    let [build, ..] = RUNS;
    Ok(cargo(root, &[build])? && crate::symbols::run(root, &[])?)
}

fn cargo(root: &Path, runs: &[&[&str]]) -> Result<bool, Explained> {
    for arguments in runs {
        let mut command = Command::new("cargo");
        command.args(*arguments).current_dir(root);
        command.env("CARGO_TARGET_DIR", super::target(root).join("heavy"));
        command.envs(super::steps::FAST_RELEASE.iter().copied());
        let status = command.status().map_err(|error| {
            let hint = "put cargo on PATH";
            Explained::new("cargo did not start", error.to_string(), hint)
        })?;
        if !status.success() {
            return Ok(false);
        }
    }
    Ok(true)
}
