//! The fuzz targets build, and each of them still reads its corpus without a complaint.

use super::needs::nightly_cargo;
use crate::explain::Explained;
use std::path::Path;
use std::process::Output;

/// Builds every target and plays its corpus; true when none complained.
pub(super) fn replay(root: &Path) -> Result<bool, Explained> {
    let built = fuzz(root, &["build", "--dev"])?;
    if !built.status.success() {
        eprint!("{}", String::from_utf8_lossy(&built.stderr));
        return Ok(false);
    }
    let list = fuzz(root, &["list"])?;
    let names = String::from_utf8_lossy(&list.stdout).into_owned();
    let mut all_well = list.status.success() && !names.is_empty();
    for name in names.split_whitespace() {
        let folder = root.join("fuzz/corpus").join(name);
        let inputs = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        println!("{name}: {inputs} inputs");
        if inputs == 0 {
            eprintln!("no input in fuzz/corpus/{name}");
            all_well = false;
            continue;
        }
        let played = fuzz(root, &["run", "--dev", name, "--", "-runs=0"])?;
        if !played.status.success() {
            eprint!("{}", String::from_utf8_lossy(&played.stderr));
            all_well = false;
        }
    }
    Ok(all_well)
}

fn fuzz(root: &Path, arguments: &[&str]) -> Result<Output, Explained> {
    let mut command = nightly_cargo(root);
    command.arg("fuzz").args(arguments);
    command.output().map_err(|error| {
        let hint = "put cargo and rustup on PATH";
        Explained::new("cargo fuzz did not start", error.to_string(), hint)
    })
}
