//! `cargo xtask install-c PREFIX`: what a program in C needs, as packages have it.
//!
//! ```text
//! PREFIX/include/gannet.h
//! PREFIX/lib/libgannet.a
//! PREFIX/lib/libgannet.so -> libgannet.so.0 -> libgannet.so.0.1.0
//! PREFIX/lib/pkgconfig/gannet.pc
//! ```

use crate::explain::Explained;
use crate::{header, only_known};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What cargo calls the library; see `crates/capi/Cargo.toml`.
const BUILT: &str = "libgannet_c";
/// The name that programs look for, as `crates/capi/build.rs` has it.
const SONAME: &str = "libgannet.so.0";
const TEMPLATE: &str = "crates/capi/gannet.pc.in";

/// Builds the libraries in release code (`--debug`: in debug code) and lays everything out.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool, Explained> {
    let Some((prefix, options)) = options.split_first().filter(|(p, _)| !p.starts_with('-')) else {
        let why = "it needs the folder to install into";
        return Err(Explained::new(
            "cannot install",
            why,
            "cargo xtask install-c /usr/local",
        ));
    };
    only_known(options, &["--debug"])?;
    let prefix = std::path::absolute(prefix).map_err(|error| failed(prefix, &error))?;
    let built = build(root, options.contains(&"--debug"))?;
    lay_out(root, &built, &prefix).map_err(|error| failed(&prefix.display(), &error))?;
    println!("installed below {}", prefix.display());
    println!(
        "try: PKG_CONFIG_PATH={}/lib/pkgconfig pkg-config --libs gannet",
        prefix.display()
    );
    Ok(true)
}

fn failed(place: &dyn std::fmt::Display, error: &io::Error) -> Explained {
    let what = format!("cannot install below {place}");
    Explained::new(what, error.to_string(), "a folder that you may write to")
}

/// Builds the library; the folder it lies in.
fn build(root: &Path, debug: bool) -> Result<PathBuf, Explained> {
    let mut command = Command::new(env!("CARGO"));
    // Beside a library for Rust the compiler leaves out the whole-program optimisation.
    let kinds = "--crate-type=cdylib,staticlib";
    command
        .current_dir(root)
        .args(["rustc", "--locked", "-p", "gannet-capi", "--lib", kinds]);
    command.args((!debug).then_some("--release"));
    let status = command.status();
    if !status.is_ok_and(|status| status.success()) {
        let why = "cargo build failed";
        return Err(Explained::new(
            "cannot build the library for C",
            why,
            "see above",
        ));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), |dir| root.join(dir));
    Ok(target.join(if debug { "debug" } else { "release" }))
}

fn lay_out(root: &Path, built: &Path, prefix: &Path) -> io::Result<()> {
    let lib = prefix.join("lib");
    let version = version(root)?;
    let real = format!("libgannet.so.{version}");
    std::fs::create_dir_all(prefix.join("include"))?;
    std::fs::create_dir_all(lib.join("pkgconfig"))?;
    std::fs::copy(root.join(header::PATH), prefix.join("include/gannet.h"))?;
    replace(&built.join(format!("{BUILT}.so")), &lib.join(&real))?;
    replace(&built.join(format!("{BUILT}.a")), &lib.join("libgannet.a"))?;
    link(&real, &lib.join(SONAME))?;
    link(SONAME, &lib.join("libgannet.so"))?;
    let template = std::fs::read_to_string(root.join(TEMPLATE))?;
    let text = template
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@VERSION@", &version);
    std::fs::write(lib.join("pkgconfig/gannet.pc"), text)
}

/// Copies to a new file: a program that has the old one mapped keeps it.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    remove(to)?;
    std::fs::copy(from, to).map(drop)
}

fn link(to: &str, at: &Path) -> io::Result<()> {
    remove(at)?;
    std::os::unix::fs::symlink(to, at)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The version of the workspace.
fn version(root: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let table: toml::Table = text.parse().map_err(io::Error::other)?;
    let version = table.get("workspace").and_then(|w| w.get("package"));
    let version = version
        .and_then(|p| p.get("version"))
        .and_then(toml::Value::as_str);
    let none = || io::Error::other("Cargo.toml names no workspace.package.version");
    version.map(str::to_owned).ok_or_else(none)
}
