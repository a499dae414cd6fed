//! The cases under `gannet run`, which needs the command and the library that is loaded into
//! programs built first, beside the test.

use crate::explain::Explained;
use std::path::Path;
use std::process::Command;

/// The command, the library, then the test that compares with the kernel.
const RUNS: [&[&str]; 2] = [
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
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    for arguments in RUNS {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(root);
        command.env("CARGO_TARGET_DIR", target.join("heavy"));
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
