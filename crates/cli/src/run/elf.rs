//! What an executable file says of itself. Files may be cut short, damaged or hostile: only the
//! headers are read, and of those only as much as a program can need.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use object::elf::{ET_DYN, ET_EXEC, FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

/// What stands in a file that can be executed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Image {
    Elf(Elf),
    /// The interpreter of its first line, and what is handed to it.
    Script(PathBuf, String),
    /// Neither: for the kernel to judge.
    Other,
    /// It begins like an ELF file and is none that can run.
    Malformed(String),
}

/// An ELF executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elf {
    /// 64 bits.
    pub(super) wide: bool,
    /// `e_machine`.
    pub(super) machine: u16,
    /// The program that loads it: none for a static one.
    pub(super) interpreter: Option<PathBuf>,
}

/// Bytes of a script's first line that the kernel looks at.
const LINE_MAX: u64 = 256;
/// Program headers that are looked at; programs have a dozen.
const HEADERS_MAX: usize = 512;
/// Bytes of the longest path that the kernel takes.
const PATH_MAX: u64 = 4096;

/// Reads the headers of `path`, an ordinary file.
pub(super) fn read(path: &Path) -> io::Result<Image> {
    let file = File::open(path)?;
    let mut start = Vec::new();
    (&file).take(LINE_MAX).read_to_end(&mut start)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return Ok(script(line));
    }
    if !start.starts_with(b"\x7fELF") {
        return Ok(Image::Other);
    }
    let cache = ReadCache::new(file);
    let elf = match start.get(4) {
        Some(1) => inspect::<FileHeader32<Endianness>>(&cache),
        _ => inspect::<FileHeader64<Endianness>>(&cache),
    };
    Ok(match elf {
        Ok(elf) => Image::Elf(elf),
        Err(why) => Image::Malformed(why),
    })
}

/// The first line of a script, without `#!`: the interpreter, and one argument with all the rest.
fn script(line: &[u8]) -> Image {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let line = line.trim_ascii();
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
    if interpreter.is_empty() {
        return Image::Other;
    }
    let rest = String::from_utf8_lossy(rest.trim_ascii()).into_owned();
    Image::Script(path_of(interpreter), rest)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

fn inspect<H: FileHeader<Endian = Endianness>>(data: &ReadCache<File>) -> Result<Elf, String> {
    let say = |error: object::Error| error.to_string();
    let header = H::parse(data).map_err(say)?;
    let endian = header.endian().map_err(say)?;
    if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
        return Err("it is an object file or a core, not a program".to_owned());
    }
    if header.phnum(endian, data).map_err(say)? as usize > HEADERS_MAX {
        return Err(format!("it has more than {HEADERS_MAX} program headers"));
    }
    let mut elf = Elf {
        wide: header.is_class_64(),
        machine: header.e_machine(endian).0,
        interpreter: None,
    };
    for segment in header.program_headers(endian, data).map_err(say)? {
        let size: u64 = segment.p_filesz(endian).into();
        match segment.p_type(endian) {
            PT_INTERP if size > PATH_MAX => {
                return Err("the name of its loader is too long".to_owned());
            }
            PT_INTERP => {
                let name = segment.interpreter(endian, data).map_err(say)?;
                elf.interpreter = name.map(path_of);
            }
            _ => {}
        }
    }
    Ok(elf)
}

#[cfg(test)]
pub(in crate::run) mod tests;
