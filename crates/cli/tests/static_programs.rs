//! Static programs under `gannet run`: what they find out about themselves is what the kernel lets
//! them find out, and their sockets are carried. Needs the library and the loader beside the
//! command, and a compiler that links statically.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod running;
use running::wire::Wire;
use running::{network, run};

const WORDS: &str = include_str!("static_programs/words.c");
const THREADS: &str = include_str!("static_programs/threads.c");
const ADDRESSES: &str = include_str!("static_programs/addresses.c");

/// Compilers and options: fixed addresses, any address, another C library.
const WAYS: [(&str, &[&str]); 3] = [
    ("cc", &["-static", "-no-pie"]),
    ("cc", &["-static-pie"]),
    ("musl-gcc", &["-static", "-no-pie"]),
];

/// The program in each way in which it can be made here.
fn build(directory: &Path, source: &str) -> Vec<PathBuf> {
    let text = directory.join("main.c");
    fs::write(&text, source).unwrap();
    let make = |(n, (compiler, options)): (usize, &(&str, &[&str]))| {
        let program = directory.join(format!("program{n}"));
        let mut cc = Command::new(compiler);
        cc.args(["-O1", "-w", "-pthread", "-o"]).arg(&program);
        let made = cc.args(*options).arg(&text).output();
        made.is_ok_and(|made| made.status.success())
            .then_some(program)
    };
    let all: Vec<PathBuf> = WAYS.iter().enumerate().filter_map(make).collect();
    if all.is_empty() {
        eprintln!("skipped: no compiler links statically here");
    }
    all
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The same on the kernel and carried: status and standard output.
fn compare(network: &str, program: &Path, words: &[&str]) -> Option<Output> {
    let mut carried = run(network)?;
    let mut plain = Command::new(program);
    let expected = plain.args(words).env("KEPT", "yes").output().unwrap();
    carried.env("KEPT", "yes").args(["--require", "-v", "--"]);
    let found = carried.arg(program).args(words).output().unwrap();
    let errors = text(&found.stderr);
    assert_eq!(
        text(&found.stdout),
        text(&expected.stdout),
        "{program:?}: {errors}"
    );
    assert_eq!(
        found.status.code(),
        expected.status.code(),
        "{program:?}: {errors}"
    );
    Some(found)
}

#[test]
fn what_a_program_finds_out_about_itself() {
    let root = tempfile::tempdir().unwrap();
    let network = network("words");
    for program in build(root.path(), WORDS) {
        compare(&network, &program, &["a", "", "b c"]);
        let script = root.path().join("script");
        fs::write(
            &script,
            format!("#!{} one two\nignored\n", program.display()),
        )
        .unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        compare(&network, &script, &["three"]);
        // By another program, and by one of the same kind.
        let path = program.display().to_string();
        let again = format!("{path} x; sh -c '{path} y'; exec {} z", script.display());
        compare(&network, Path::new("/bin/sh"), &["-c", &again]);
    }
}

#[test]
fn threads_children_and_signals() {
    let root = tempfile::tempdir().unwrap();
    let network = network("threads");
    for program in build(root.path(), THREADS) {
        let Some(found) = compare(&network, &program, &[]) else {
            return;
        };
        assert_eq!(text(&found.stdout), "all right\n");
        let account = text(&found.stderr);
        let lines = ["listener", "stream to a program", "stream from a program"];
        for line in lines {
            assert!(account.contains(line), "{line}: {account}");
        }
    }
}

/// No name of the C library is there to be taken: it asks the kernel over netlink.
#[test]
fn a_program_finds_its_address_among_the_interfaces() {
    let (root, network) = (tempfile::tempdir().unwrap(), network("addresses"));
    let Some(wire) = Wire::new() else { return };
    let programs = build(root.path(), ADDRESSES);
    for (program, address) in programs
        .iter()
        .zip(["10.86.1.5", "fd00:86:1::5", "10.86.1.6"])
    {
        let Some(carried) = run(&network) else { return };
        let lines = |mut command: Command| -> Vec<String> {
            let output = command.arg(program).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            text(&output.stdout).lines().map(str::to_owned).collect()
        };
        let mut expected = lines(Wire::inside(&wire.ours, &Command::new("env")));
        let mask = match address.contains(':') {
            true => "ffff:ffff:ffff:ffff::",
            false => "255.255.255.0",
        };
        expected.push(format!("lo {address} {mask}"));
        let mut carried = Wire::inside(&wire.ours, &carried);
        carried.args(["--require", "--addr", address, "--"]);
        assert_eq!(lines(carried), expected, "{program:?}");
    }
}

/// The kernel judges it, as without Gannet.
#[test]
fn a_damaged_program() {
    let root = tempfile::tempdir().unwrap();
    let network = network("damaged");
    for program in build(root.path(), WORDS) {
        let whole = fs::read(&program).unwrap();
        let mut strange = whole.clone();
        // `e_phnum`, then the type of the first program header.
        strange[56..58].copy_from_slice(&[0xff, 0xff]);
        let start = &whole[..whole.len().min(200)];
        for (name, bytes) in [("cut", start), ("strange", &strange)] {
            let damaged = root.path().join(name);
            fs::write(&damaged, bytes).unwrap();
            fs::set_permissions(&damaged, fs::Permissions::from_mode(0o755)).unwrap();
            let script = format!("{} a; echo $?", damaged.display());
            compare(&network, Path::new("/bin/bash"), &["-c", &script]);
        }
    }
}
