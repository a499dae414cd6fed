//! Programs in C against what `cargo xtask install-c` lays out: compiled with what pkg-config says,
//! with the shared library and with the static one, and run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command; its output, if it ended well.
fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}

/// Where everything is installed, once for all tests; the second is without the shared library.
fn installed() -> &'static [PathBuf; 2] {
    static PLACES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    PLACES.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let places = ["shared", "static"].map(|name| place.join(name));
        for place in &places {
            let mut install = Command::new(env!("CARGO"));
            install.current_dir(root());
            install.args([
                "run",
                "--quiet",
                "--locked",
                "-p",
                "xtask",
                "--",
                "install-c",
            ]);
            run(install.arg(place).arg("--debug"));
        }
        for name in ["libgannet.so", "libgannet.so.0"] {
            std::fs::remove_file(places[1].join("lib").join(name)).unwrap();
        }
        places
    })
}

/// What pkg-config says, word by word.
fn pkg_config(place: &Path, options: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", place.join("lib/pkgconfig"));
    let words = run(command.args(options).arg("gannet"));
    words.split_whitespace().map(str::to_owned).collect()
}

/// Builds `source` as `name` against the library in `place`.
fn compile(place: &Path, options: &[&str], source: &str, name: &str) -> PathBuf {
    let program = place.join(name);
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-g",
    ]);
    compiler.arg("-o").arg(&program).arg(root().join(source));
    run(compiler.args(pkg_config(place, options)).arg("-lpthread"));
    program
}

/// Builds and runs it, with the one library and with the other; what it printed.
fn with_both(source: &str, name: &str) -> [String; 2] {
    let [shared, fixed] = installed();
    let program = compile(shared, &["--cflags", "--libs"], source, name);
    let first = run(Command::new(program).env("LD_LIBRARY_PATH", shared.join("lib")));
    let program = compile(fixed, &["--static", "--cflags", "--libs"], source, name);
    [first, run(&mut Command::new(program))]
}

#[test]
fn the_example() {
    for out in with_both("examples/c/echo.c", "echo") {
        assert!(out.contains("bytes there and back, ESTABLISHED"), "{out}");
    }
}

#[test]
fn every_kind_of_call() {
    for out in with_both("crates/capi/tests/calls.c", "calls") {
        assert!(out.ends_with(" checks\n"), "{out}");
    }
}

/// The names of `text` that begin with `gannet_` and stand before a parenthesis.
fn functions_in(text: &str) -> BTreeSet<String> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(['*', '/']));
    let before = code.filter_map(|line| line.split_once('(').map(|(before, _)| before));
    let names = before.filter_map(|before| before.rsplit([' ', '*']).next());
    let names = names.filter(|name| name.starts_with("gannet_"));
    names.map(str::to_owned).collect()
}

#[test]
fn the_library_has_what_the_header_says_and_nothing_else() {
    let [place, _] = installed();
    let header = std::fs::read_to_string(place.join("include/gannet.h")).unwrap();
    let listed = run(Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(place.join("lib/libgannet.so")));
    let exported: BTreeSet<String> = listed.split_whitespace().map(str::to_owned).collect();
    let declared = functions_in(&header);
    assert!(declared.len() > 50, "{declared:?}");
    assert_eq!(exported, declared);
}
