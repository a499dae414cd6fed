//! Verdicts on files made by hand, and on programs of this machine.

use super::*;
use crate::run::elf::tests::elf64;
use crate::run::find;
use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

fn file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn verdict_on(path: &Path) -> Option<Verdict> {
    let verdict = check(&find::find(path.as_os_str()).expect("it exists"), None);
    if let Some(verdict) = &verdict {
        assert!(crate::explain::is_known(verdict.code), "{}", verdict.code);
    }
    verdict
}

fn code(path: &Path) -> Option<&'static str> {
    verdict_on(path).map(|verdict| verdict.code)
}

fn machine() -> u16 {
    match elf::read(Path::new("/proc/self/exe")) {
        Ok(Image::Elf(elf)) => elf.machine,
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_made_by_hand() {
    let root = tempfile::tempdir().unwrap();
    let ours = machine();
    let glibc: (u32, &[u8]) = (3, b"/lib64/ld-linux-x86-64.so.2\0");
    let store: (u32, &[u8]) = (3, b"/nix/store/abc-glibc-2.40/lib/ld-linux-aarch64.so.1\0");
    let musl: (u32, &[u8]) = (3, b"/lib/ld-musl-x86_64.so.1\0");
    type Row<'a> = (&'a str, Vec<u8>, Option<(&'a str, bool)>);
    let rows: &[Row<'_>] = &[
        ("plain", elf64(ours, &[glibc]), None),
        ("store", elf64(ours, &[store]), None),
        ("static", elf64(ours, &[]), Some(("static-program", true))),
        ("ld-linux-x86-64.so.2", elf64(ours, &[]), None),
        ("musl", elf64(ours, &[musl]), Some(("other-libc", false))),
        (
            "alien",
            elf64(ours ^ 1, &[glibc]),
            Some(("other-machine", false)),
        ),
        (
            "cut",
            b"\x7fELF\x02\x01\x01".to_vec(),
            Some(("malformed-program", true)),
        ),
        ("text", b"echo".to_vec(), None),
    ];
    for (name, bytes, expected) in rows {
        let found = verdict_on(&file(root.path(), name, bytes));
        let found = found.map(|verdict| (verdict.code, verdict.preload));
        assert_eq!(found, *expected, "{name}");
    }
    let interpreter = root.path().join("static").display().to_string();
    let script = file(
        root.path(),
        "script",
        format!("#!{interpreter}\n").as_bytes(),
    );
    assert_eq!(code(&script), Some("static-program"), "of what runs it");
}

#[test]
fn programs_of_this_machine() {
    for name in ["true", "sh", "env"] {
        let found = find::find(OsStr::new(name)).expect("every machine has it");
        assert_eq!(check(&found, None), None, "{name}");
    }
}

/// Where there is a compiler that can.
#[test]
fn a_program_linked_statically() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("main.c");
    fs::write(&source, "int main(void) { return 7; }\n").unwrap();
    let program = root.path().join("main");
    let mut cc = Command::new("cc");
    cc.args(["-static", "-o"]).arg(&program).arg(&source);
    match cc.output() {
        Ok(output) if output.status.success() => {}
        other => return eprintln!("skipped: cc -static does not work here: {other:?}"),
    }
    assert_eq!(code(&program), Some("static-program"), "without a library");
    let library = file(root.path(), "library.so", b"");
    let found = find::find(program.as_os_str()).expect("it exists");
    let verdict = |found| check(found, Some(library.as_path()));
    let missing = verdict(&found).expect("without a loader");
    assert!(
        missing.why.contains("gannet-loader is missing"),
        "{missing:?}"
    );
    let loader = file(root.path(), "gannet-loader", b"");
    assert_eq!(verdict(&found), None, "with one");
    assert_eq!(static_program::loader(&found, &library), Some(loader));

    let whole = fs::read(&program).unwrap();
    let cut = file(root.path(), "cut", &whole[..whole.len() / 4]);
    let found = find::find(cut.as_os_str()).expect("it exists");
    let damaged = verdict(&found).expect("the end is missing");
    assert!(damaged.why.contains("the end of the file"), "{damaged:?}");
}

/// As root somebody else's program can be made; another user finds root's in the system.
#[test]
fn programs_that_change_who_they_are() {
    let root = tempfile::tempdir().unwrap();
    let glibc: (u32, &[u8]) = (3, b"/lib64/ld-linux-x86-64.so.2\0");
    let program = file(root.path(), "program", &elf64(machine(), &[glibc]));
    let mode = |mode| fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o4755);
    assert_eq!(code(&program), None, "the same user gains nothing");
    if !getuid().is_root() || rustix::thread::no_new_privs().unwrap_or(false) {
        return eprintln!("skipped: only root can make another user's program");
    }
    chown(&program, Some(65_534), Some(65_534)).unwrap();
    for (bits, expected) in [
        (0o4755, Some("setuid-program")),
        (0o2755, Some("setuid-program")),
        (0o2745, None),
        (0o755, None),
    ] {
        mode(bits);
        assert_eq!(code(&program), expected, "{bits:o}");
    }
}
