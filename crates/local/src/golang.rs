//! What Go's executables look like: where their runtime makes its system calls.
//!
//! Since Go 1.19 nearly all system calls of Go's runtime and libraries are made by one function,
//! `Syscall6`, which begins by moving its arguments to where the kernel wants them, and a child is
//! made by another, `rawVforkSyscall`. (`src/internal/runtime/syscall/linux/asm_linux_amd64.s`, at
//! first in `src/runtime/internal/syscall`, and `src/syscall/asm_linux_amd64.s` of Go's
//! repository.) Both are found by their bytes: names may have been stripped.
//!
//! The same function says to `gannet run` whether a program can be carried, and to the library
//! where to take the calls over: what the one promises the other does. Files may be cut short,
//! damaged or hostile.

use rustix::fd::BorrowedFd;

/// `Syscall6` up to the behind of its `syscall`: an absolute jump fits exactly.
///
/// ```text
/// mov r10, rsi | mov rdx, rdi | mov rsi, rcx | mov rdi, rbx | syscall
/// ```
pub const CALL: [u8; 14] = [
    0x49, 0x89, 0xf2, 0x48, 0x89, 0xfa, 0x48, 0x89, 0xce, 0x48, 0x89, 0xdf, 0x0f, 0x05,
];

/// The end of what `rawVforkSyscall` does before its `syscall`, and what it does next.
///
/// ```text
/// mov r9, 0 | mov rax, [rsp + 8] | pop r12 | syscall | push r12
/// ```
pub const FORK: [u8; 18] = [
    0x49, 0xc7, 0xc1, 0, 0, 0, 0, 0x48, 0x8b, 0x44, 0x24, 0x08, 0x41, 0x5c, 0x0f, 0x05, 0x41, 0x54,
];

/// Bytes of `rawVforkSyscall` before [`FORK`]: with three arguments, two, and one (as Go's versions
/// have it).
const FORK_BEHIND: [usize; 3] = [29, 31, 33];

/// The linker begins functions at multiples of it.
const ALIGNMENT: u64 = 16;

/// Program headers that are looked at; programs have a dozen.
const HEADERS_MAX: u16 = 512;
/// Bytes of notes, entries of the dynamic section and names that are looked at.
const TABLE_MAX: u64 = 64 << 10;
/// Bytes of code that are looked at.
const CODE_MAX: u64 = 1 << 30;
/// Bytes of code that are read at once.
const CHUNK: usize = 256 << 10;

/// Where an executable can be read.
pub trait Source {
    /// Fills `to` from `offset`; how many bytes there were. Errors are ends.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> usize;
}

impl Source for BorrowedFd<'_> {
    fn read_at(&self, offset: u64, to: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(self, rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        done
    }
}

/// Where a Go program makes its system calls: addresses as the file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sites {
    /// Of [`CALL`].
    pub call: u64,
    /// Of [`FORK`]; none in a program that starts no others.
    pub fork: Option<u64>,
}

/// Why there is nothing to be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No executable for this kind of machine, or not one of the usual Go compiler's.
    NotGo,
    /// It does not load the C library: built without cgo. Its threads are not the C library's.
    NoCLibrary,
    /// The function that makes system calls is not in it: older than Go 1.19, or the runtime is a
    /// library of its own (`-linkshared`).
    NotFound,
    /// The function's bytes are there more than once.
    Ambiguous,
}

/// Looks through an executable.
///
/// # Errors
/// See [`Obstacle`].
pub fn find(file: &dyn Source) -> Result<Sites, Obstacle> {
    let segments = segments(file).ok_or(Obstacle::NotGo)?;
    if !segments.iter().any(|segment| is_go(file, segment)) {
        return Err(Obstacle::NotGo);
    }
    if !needs_c_library(file, &segments) {
        return Err(Obstacle::NoCLibrary);
    }
    let mut found = Found::default();
    let mut budget = CODE_MAX;
    for code in segments.iter().filter(|segment| segment.is_code()) {
        let size = code.size.min(budget);
        budget -= size;
        search(file, code, size, &mut found);
    }
    match (found.calls, found.forks) {
        ((0, _), _) => Err(Obstacle::NotFound),
        ((1, call), (0, _)) => Ok(Sites { call, fork: None }),
        ((1, call), (1, fork)) => Ok(Sites {
            call,
            fork: Some(fork),
        }),
        _ => Err(Obstacle::Ambiguous),
    }
}

/// A program header.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    size: u64,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const NOTE: u32 = 4;
const EXECUTABLE: u32 = 1;

impl Segment {
    fn is_code(&self) -> bool {
        self.kind == LOAD && self.flags & EXECUTABLE != 0
    }

    /// Where in the file an address is.
    fn offset_of(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address)?;
        let here = self.kind == LOAD && inside < self.size;
        here.then(|| self.offset.checked_add(inside)).flatten()
    }
}

/// The program headers of a file of 64 bits for x86-64.
fn segments(file: &dyn Source) -> Option<Vec<Segment>> {
    const HEADER: usize = 64;
    const ENTRY: u64 = 56;
    const X86_64: u16 = 62;
    let header = read(file, 0, HEADER as u64).filter(|bytes| bytes.len() == HEADER)?;
    let is_elf = header.starts_with(b"\x7fELF\x02\x01");
    let machine = u16_at(&header, 18)?;
    let entry = u16_at(&header, 54)?;
    if !is_elf || machine != X86_64 || u64::from(entry) != ENTRY {
        return None;
    }
    let offset = u64_at(&header, 32)?;
    let count = u16_at(&header, 56)?.min(HEADERS_MAX);
    let table = read(file, offset, u64::from(count) * ENTRY)?;
    let entries = table.chunks_exact(ENTRY as usize);
    entries
        .map(|entry| {
            Some(Segment {
                kind: u32_at(entry, 0)?,
                flags: u32_at(entry, 4)?,
                offset: u64_at(entry, 8)?,
                address: u64_at(entry, 16)?,
                size: u64_at(entry, 32)?,
            })
        })
        .collect()
}

/// Whether the notes have the identification that Go's linker writes.
fn is_go(file: &dyn Source, segment: &Segment) -> bool {
    /// `ELF_NOTE_GOBUILDID_TAG` of Go's linker.
    const BUILD: u32 = 4;
    if segment.kind != NOTE || segment.size > TABLE_MAX {
        return false;
    }
    let Some(notes) = read(file, segment.offset, segment.size) else {
        return false;
    };
    let mut rest = notes.as_slice();
    loop {
        let words = (u32_at(rest, 0), u32_at(rest, 4), u32_at(rest, 8));
        let (Some(name_len), Some(len), Some(kind)) = words else {
            return false;
        };
        let padded = |n: u32| n as usize + (4 - n as usize % 4) % 4;
        let name_end = 12 + name_len as usize;
        if kind == BUILD && rest.get(12..name_end) == Some(b"Go\0\0") {
            return true;
        }
        let next = 12 + padded(name_len) + padded(len);
        match rest.get(next..) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
}

/// Whether the loader is to bring the C library: then Go's threads are made by it.
fn needs_c_library(file: &dyn Source, segments: &[Segment]) -> bool {
    const NEEDED: u64 = 1;
    const NAMES: u64 = 5;
    let dynamic = segments.iter().find(|segment| segment.kind == DYNAMIC);
    let entries = dynamic.and_then(|at| read(file, at.offset, at.size.min(TABLE_MAX)));
    let Some(entries) = entries else {
        return false;
    };
    let pairs = || {
        let pairs = entries.chunks_exact(16);
        pairs.filter_map(|pair| Some((u64_at(pair, 0)?, u64_at(pair, 8)?)))
    };
    let names = pairs().find(|(tag, _)| *tag == NAMES).map(|(_, at)| at);
    let Some(names) = names.and_then(|at| segments.iter().find_map(|s| s.offset_of(at))) else {
        return false;
    };
    let needed = pairs().filter(|(tag, _)| *tag == NEEDED);
    needed.take(1 << 10).any(|(_, name)| {
        const NAME: &[u8] = b"libc.so.6\0";
        let at = names.saturating_add(name);
        read(file, at, NAME.len() as u64).is_some_and(|text| text == NAME)
    })
}

/// How often each was found, and where last.
#[derive(Debug, Default)]
struct Found {
    calls: (usize, u64),
    forks: (usize, u64),
}

/// Looks at every place where a function can begin.
fn search(file: &dyn Source, code: &Segment, size: u64, found: &mut Found) {
    const STEP: usize = ALIGNMENT as usize;
    /// As far as the longest pattern reaches from the beginning of a function.
    const REACH: usize = 64;
    let mut chunk = vec![0; CHUNK + REACH];
    let mut at = code.address.wrapping_neg() % ALIGNMENT;
    while at < size {
        let wanted = chunk.len().min((size - at) as usize);
        let (Some(place), Some(room)) = (code.offset.checked_add(at), chunk.get_mut(..wanted))
        else {
            return;
        };
        let n = file.read_at(place, room);
        let bytes = room.get(..n).unwrap_or(&[]);
        for start in (0..n.min(CHUNK)).step_by(STEP) {
            let address = code.address.wrapping_add(at).wrapping_add(start as u64);
            note(bytes.get(start..).unwrap_or(&[]), address, found);
        }
        if n < wanted {
            return;
        }
        at += CHUNK as u64;
    }
}

/// Whether one of the functions begins with these bytes.
fn note(bytes: &[u8], address: u64, found: &mut Found) {
    if bytes.starts_with(&CALL) {
        found.calls = (found.calls.0 + 1, address);
    }
    // mov rdi, [rsp + 16]: of all the functions few begin so.
    if !bytes.starts_with(&[0x48, 0x8b, 0x7c, 0x24, 0x10]) {
        return;
    }
    for behind in FORK_BEHIND {
        if bytes.get(behind..).is_some_and(|it| it.starts_with(&FORK)) {
            found.forks = (found.forks.0 + 1, address.wrapping_add(behind as u64));
        }
    }
}

fn read(file: &dyn Source, offset: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    let n = file.read_at(offset, &mut bytes);
    bytes.truncate(n);
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
