//! Files made by hand, real programs, and damaged ones.

use super::*;
use crate::run::elf::Image::{Malformed, Other, Script};
use gannet_base::Rng;
use std::fs;

/// An ELF file of 64 bits with these segments: type and contents.
pub(in crate::run) fn elf64(machine: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(3_u16.to_le_bytes()); // ET_DYN
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend([0; 8]); // entry
    file.extend(64_u64.to_le_bytes()); // program headers
    file.extend([0; 8 + 4]);
    for half in [64_u16, 56, segments.len() as u16, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    let mut at = (64 + 56 * segments.len()) as u64;
    for (kind, contents) in segments {
        let len = contents.len() as u64;
        file.extend(kind.to_le_bytes());
        file.extend(4_u32.to_le_bytes());
        for word in [at, 0, 0, len, len, 4] {
            file.extend(word.to_le_bytes());
        }
        at += len;
    }
    segments
        .iter()
        .for_each(|(_, contents)| file.extend(*contents));
    file
}

/// An ELF file of 32 bits without segments.
fn elf32(machine: u16) -> Vec<u8> {
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(2_u16.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend([0; 16]);
    for half in [52_u16, 32, 0, 40, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file
}

const INTERP: u32 = 3;

fn image(bytes: &[u8]) -> Image {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, bytes).unwrap();
    read(&file).unwrap()
}

#[test]
fn programs() {
    let program = |interpreter: Option<&str>| {
        Image::Elf(Elf {
            wide: true,
            machine: 62,
            interpreter: interpreter.map(PathBuf::from),
        })
    };
    let loader: (u32, &[u8]) = (INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
    type Row<'a> = (&'a [(u32, &'a [u8])], Image);
    let rows: &[Row<'_>] = &[
        (&[], program(None)),
        (
            &[(1, b"code"), loader],
            program(Some("/lib64/ld-linux-x86-64.so.2")),
        ),
    ];
    for (segments, expected) in rows {
        assert_eq!(image(&elf64(62, segments)), *expected);
    }
    let Image::Elf(small) = image(&elf32(3)) else {
        panic!("an ELF file");
    };
    assert_eq!((small.wide, small.machine), (false, 3));
}

#[test]
fn files_that_are_none() {
    let long = vec![b'/'; 5000];
    let mut object = elf64(62, &[]);
    object[16] = 1;
    let mut class = elf64(62, &[]);
    class[4] = 9;
    let mut many = elf64(62, &[]);
    many[56..58].copy_from_slice(&60_000_u16.to_le_bytes());
    let mut far = elf64(62, &[]);
    far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    far[56] = 1;
    let unended = elf64(62, &[(INTERP, b"/lib/ld-linux.so.2")]);
    let long = elf64(62, &[(INTERP, &long)]);
    for (n, file) in [object, class, many, far, unended, long, b"\x7fELF".to_vec()]
        .iter()
        .enumerate()
    {
        assert!(
            matches!(image(file), Malformed(why) if !why.is_empty()),
            "{n}"
        );
    }
    for file in [&b""[..], b"echo", b"#!", b"#! \n/bin/sh", b"\x7fEL", b"MZ"] {
        assert_eq!(image(file), Other);
    }
}

#[test]
fn scripts() {
    let long = format!("#!/{}\n", "x".repeat(1000));
    for (text, interpreter, argument) in [
        ("#!/bin/sh", "/bin/sh", ""),
        ("#! /bin/sh -e -x \nexit", "/bin/sh", "-e -x"),
        ("#!\t/usr/bin/env\tpython3\r\n", "/usr/bin/env", "python3"),
        (&long, &long[2..256], ""),
    ] {
        let expected = Script(interpreter.into(), argument.to_owned());
        assert_eq!(image(text.as_bytes()), expected);
    }
}

/// This test is a program itself.
#[test]
fn a_real_program() {
    let Ok(Image::Elf(elf)) = read(Path::new("/proc/self/exe")) else {
        panic!("an ELF file");
    };
    assert_eq!(elf.wide, cfg!(target_pointer_width = "64"));
}

/// Whatever is damaged, the answer comes soon and is one of the known ones.
#[test]
fn damaged_files_are_no_danger() {
    let whole = elf64(62, &[(INTERP, b"/lib64/ld-linux-x86-64.so.2\0")]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut rng = Rng::new(3);
    let mut malformed = 0;
    for _ in 0..2000 {
        let mut file = whole.clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(file.len() as u64) as usize;
            file[at] = rng.below(256) as u8;
        }
        file.truncate(rng.below(file.len() as u64 * 2) as usize);
        fs::write(&path, &file).unwrap();
        malformed += usize::from(matches!(read(&path).unwrap(), Malformed(_)));
    }
    assert!(malformed > 100, "{malformed}");
}
