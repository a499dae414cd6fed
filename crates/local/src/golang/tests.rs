//! Executables made by hand, damaged ones, and one of this machine's Go, if it has it.

use super::*;
use std::process::Command;

struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn read_at(&self, offset: u64, to: &mut [u8]) -> usize {
        let from = usize::try_from(offset).ok().and_then(|at| self.0.get(at..));
        let from = from.unwrap_or(&[]);
        let n = from.len().min(to.len());
        to[..n].copy_from_slice(&from[..n]);
        n
    }
}

const GO_NOTE: &[u8] = b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd";
const GNU_NOTE: &[u8] = b"\x04\0\0\0\x03\0\0\0\x03\0\0\0GNU\0abc\0";
/// Where the code is, and the rest.
const CODE: u64 = 0x40_1000;
const DATA: u64 = 0x60_0000;

/// What a file is made of.
#[derive(Clone)]
struct Parts {
    notes: Vec<u8>,
    library: &'static [u8],
    code: Vec<u8>,
}

impl Parts {
    fn usual() -> Parts {
        let mut code = vec![0xcc; 600];
        code[160..174].copy_from_slice(&CALL);
        code[320..349].copy_from_slice(&fork_head(29));
        code[349..367].copy_from_slice(&FORK);
        Parts {
            notes: [GNU_NOTE, GO_NOTE].concat(),
            library: b"\0libc.so.6\0",
            code,
        }
    }

    fn file(&self) -> Vec<u8> {
        let headers = 64 + 56 * 4;
        let notes_at = headers as u64;
        let names_at = notes_at + self.notes.len() as u64;
        let dynamic_at = names_at + self.library.len() as u64;
        let dynamic: Vec<u8> = [1, 1, 5, DATA + names_at, 0, 0_u64]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let code_at = dynamic_at + dynamic.len() as u64;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(18, 0);
        file.extend(62_u16.to_le_bytes());
        file.resize(32, 0);
        file.extend(64_u64.to_le_bytes());
        file.resize(54, 0);
        file.extend([56, 0, 4, 0]);
        file.resize(64, 0);
        let rows = [
            (LOAD, 4, 0, DATA, code_at),
            (NOTE, 4, notes_at, DATA + notes_at, self.notes.len() as u64),
            (
                DYNAMIC,
                6,
                dynamic_at,
                DATA + dynamic_at,
                dynamic.len() as u64,
            ),
            (LOAD, 5, code_at, CODE, self.code.len() as u64),
        ];
        for (kind, flags, offset, address, size) in rows {
            file.extend(kind.to_le_bytes());
            file.extend(u32::to_le_bytes(flags));
            for word in [offset, address, address, size, size, 0x1000] {
                file.extend(word.to_le_bytes());
            }
        }
        for part in [&self.notes, self.library, &dynamic, &self.code] {
            file.extend(part);
        }
        file
    }

    fn find(&self) -> Result<Sites, Obstacle> {
        find(&Bytes(&self.file()))
    }
}

/// The beginning of `rawVforkSyscall`, so long.
fn fork_head(len: usize) -> Vec<u8> {
    let mut head = vec![0x48, 0x8b, 0x7c, 0x24, 0x10];
    head.resize(len, 0x90);
    head
}

#[test]
fn both_functions_are_found() {
    let sites = Sites {
        call: CODE + 160,
        fork: Some(CODE + 349),
    };
    assert_eq!(Parts::usual().find(), Ok(sites));
}

#[test]
fn older_forks_are_found() {
    for len in FORK_BEHIND {
        let mut parts = Parts::usual();
        parts.code[320..].fill(0xcc);
        parts.code[400..400 + len].copy_from_slice(&fork_head(len));
        parts.code[400 + len..418 + len].copy_from_slice(&FORK);
        let fork = parts.find().map(|sites| sites.fork);
        assert_eq!(fork, Ok(Some(CODE + 400 + len as u64)), "{len}");
    }
}

#[test]
fn a_program_that_starts_no_others() {
    let mut parts = Parts::usual();
    parts.code[320] = 0x90;
    assert_eq!(parts.find().map(|sites| sites.fork), Ok(None));
}

#[test]
fn what_is_in_the_way() {
    let change = |how: fn(&mut Parts)| {
        let mut parts = Parts::usual();
        how(&mut parts);
        parts.find()
    };
    assert_eq!(
        change(|parts| parts.notes = GNU_NOTE.to_vec()),
        Err(Obstacle::NotGo)
    );
    assert_eq!(
        change(|parts| parts.library = b"\0libm.so.6\0"),
        Err(Obstacle::NoCLibrary)
    );
    assert_eq!(
        change(|parts| parts.code[160] ^= 1),
        Err(Obstacle::NotFound)
    );
    let again = change(|parts| parts.code[480..494].copy_from_slice(&CALL));
    assert_eq!(again, Err(Obstacle::Ambiguous));
    // Not where a function begins.
    assert!(change(|parts| parts.code[481..495].copy_from_slice(&CALL)).is_ok());
}

/// At every place of the pieces in which the code is read.
#[test]
fn found_wherever_it_is() {
    for at in [CHUNK - 16, CHUNK, CHUNK + 16, 2 * CHUNK - 16] {
        let mut parts = Parts::usual();
        parts.code = vec![0x90; 3 * CHUNK];
        parts.code[at..at + 14].copy_from_slice(&CALL);
        let call = parts.find().map(|sites| sites.call);
        assert_eq!(call, Ok(CODE + at as u64), "{at}");
    }
}

/// Cut short at every length, and with every byte of the headers wrong: any answer, no panic, and
/// never one that lies outside the code.
#[test]
fn damaged_files() {
    let file = Parts::usual().file();
    let whole = find(&Bytes(&file));
    for len in 0..file.len() {
        let cut = find(&Bytes(&file[..len]));
        assert!(cut.is_err() || cut == whole || cut.is_ok_and(|sites| sites.fork.is_none()));
    }
    for at in 0..file.len() - 600 {
        for wrong in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] = wrong;
            let _ = find(&Bytes(&damaged));
        }
    }
}

/// Headers that lie on each other, and point beyond everything.
#[test]
fn headers_that_overlap() {
    let file = Parts::usual().file();
    for wrong in [0, 64, u64::MAX, u64::MAX - 8, 1 << 63] {
        for header in 0..4 {
            for field in [8, 16, 32] {
                let mut damaged = file.clone();
                let at = 64 + 56 * header + field;
                damaged[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
                let _ = find(&Bytes(&damaged));
            }
        }
    }
    // The code twice: its functions are there twice.
    let mut twice = file.clone();
    let code = file[64 + 56 * 3..64 + 56 * 4].to_vec();
    twice[64..64 + 56].copy_from_slice(&code);
    assert!(find(&Bytes(&twice)).is_err());
    // As many headers as can be said.
    let mut many = file.clone();
    many[56..58].copy_from_slice(&[0xff, 0xff]);
    let _ = find(&Bytes(&many));
}

#[test]
fn notes_that_never_end() {
    for notes in [
        vec![0; 64],
        vec![0xff; 64],
        b"\0\0\0\0\xfc\xff\xff\xff\x04\0\0\0".to_vec(),
    ] {
        let mut parts = Parts::usual();
        parts.notes = notes;
        assert_eq!(parts.find(), Err(Obstacle::NotGo));
    }
}

/// Where there is a Go that can: with the C library and without.
#[cfg(target_arch = "x86_64")]
#[test]
fn programs_of_this_machines_go() {
    use std::os::fd::AsFd;
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("main.go");
    let text = "package main\nimport \"C\"\nimport \"os/exec\"\n\
        func main() { exec.Command(\"true\").Run() }\n";
    for (cgo, text) in [("1", text), ("0", "package main\nfunc main() {}\n")] {
        std::fs::write(&source, text).unwrap();
        let program = root.path().join("main");
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(&program).arg(&source);
        go.env("CGO_ENABLED", cgo).env("GO111MODULE", "off");
        match go.output() {
            Ok(output) if output.status.success() => {}
            other => return eprintln!("skipped: go build does not work here: {other:?}"),
        }
        let file = std::fs::File::open(&program).unwrap();
        let found = find(&file.as_fd());
        match cgo {
            "1" => assert!(found.is_ok_and(|sites| sites.fork.is_some()), "{found:?}"),
            _ => assert_eq!(found, Err(Obstacle::NoCLibrary)),
        }
    }
}
