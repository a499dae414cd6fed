//! The same seeds are the same runs in debug and in release code: the digest of the one is what the
//! other has to come to.

use crate::explain::Explained;
use std::path::Path;
use std::process::Command;

/// Seeds that both builds play.
const SEEDS: &str = "300";

/// Plays the seeds in both builds; true when the digests are the same.
pub(super) fn compare(root: &Path) -> Result<bool, Explained> {
    let debug = simulate(root, &[], &["--digest"])?;
    let Some(digest) = debug.split_whitespace().last().map(str::to_owned) else {
        return Ok(false);
    };
    println!("debug: {digest}");
    let release = simulate(root, &["--release"], &["--digest", "--expect", &digest])?;
    println!("release: {}", release.trim());
    Ok(release.split_whitespace().last() == Some(digest.as_str()))
}

fn simulate(root: &Path, build: &[&str], options: &[&str]) -> Result<String, Explained> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "-p", "gannet-cli"]);
    command
        .args(build)
        .args(["--", "sim", "run", "--seeds", SEEDS]);
    command.args(options).current_dir(root);
    if build.contains(&"--release") {
        command.envs(super::steps::FAST_RELEASE.iter().copied());
        command.env("CARGO_TARGET_DIR", super::target(root).join("heavy"));
    }
    let output = command.output().map_err(|error| {
        let hint = "put cargo on PATH";
        Explained::new("cargo did not start", error.to_string(), hint)
    })?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
