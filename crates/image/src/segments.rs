//! The ELF headers of a static program. What the kernel would run and this page refuses stays with
//! the kernel; so the checks are as strict as what linkers write allows.

use crate::HEAD;
use object::LittleEndian as Le;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_R, PF_W, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD,
    ProgramHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader};
use std::fmt;

/// Most segments of a program; linkers write two to six.
pub const SEGMENTS_MAX: usize = 16;
/// Most program headers that are looked at.
const HEADERS_MAX: usize = 64;
const PAGE: u64 = 4096;
/// The end of what a process has of the address space.
const TOP: u64 = (1 << 47) - PAGE;
/// Lowest address that is mapped for a program: below lies what `vm.mmap_min_addr` keeps free.
const BOTTOM: u64 = 1 << 16;
/// Most memory from a program's first segment to the end of its last.
const SPAN_MAX: u64 = 1 << 40;
/// Largest alignment that is kept.
const ALIGN_MAX: u64 = 1 << 30;

/// Why a file is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no ELF file.
    Other,
    /// It names an interpreter: the kernel loads it with that.
    Dynamic,
    /// For another processor or word size, or no program at all.
    Alien,
    /// Its headers contradict themselves, or ask for what no linker writes.
    Malformed(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Other => f.write_str("it is no ELF file"),
            Refusal::Dynamic => f.write_str("it is dynamic"),
            Refusal::Alien => f.write_str("it is for another processor, or no program"),
            Refusal::Malformed(why) => f.write_str(why),
        }
    }
}

/// A piece of memory that the program wants, by the addresses that the file gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Its first byte, anywhere in a page.
    pub address: u64,
    /// Where that is in the file.
    pub offset: u64,
    /// So many bytes come from the file.
    pub in_file: u64,
    /// So many there are in all, the rest zero.
    pub in_memory: u64,
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// It may be executed.
    pub execute: bool,
}

/// A static program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its addresses are final; else they count from wherever it is put.
    pub is_fixed: bool,
    /// Where it begins.
    pub entry: u64,
    /// Where its program headers are in memory, or 0: for `AT_PHDR`.
    pub headers: u64,
    /// How many of them there are.
    pub headers_len: u64,
    /// What its place must be a multiple of.
    pub align: u64,
    /// Its stack is to be executable.
    pub executable_stack: bool,
    segments: [Segment; SEGMENTS_MAX],
    len: usize,
}

const NO_SEGMENT: Segment = Segment {
    address: 0,
    offset: 0,
    in_file: 0,
    in_memory: 0,
    read: false,
    write: false,
    execute: false,
};

fn malformed<T>(why: &'static str) -> Result<T, Refusal> {
    Err(Refusal::Malformed(why))
}

impl Image {
    /// Reads the headers of a file of `size` bytes which begins with `head`.
    ///
    /// # Errors
    /// Why it is not to be loaded.
    pub fn parse(head: &[u8], size: u64) -> Result<Image, Refusal> {
        let head = head.get(..HEAD).unwrap_or(head);
        if !head.starts_with(b"\x7fELF") {
            return Err(Refusal::Other);
        }
        // 64 bits, little-endian.
        if head.get(4..6) != Some(&[2, 1]) {
            return Err(Refusal::Alien);
        }
        let Ok(header) = FileHeader64::<Le>::parse(head) else {
            return malformed("its ELF header is cut short or damaged");
        };
        let kind = header.e_type(Le);
        if header.e_machine(Le) != EM_X86_64 || !matches!(kind, ET_EXEC | ET_DYN) {
            return Err(Refusal::Alien);
        }
        let Ok(all) = header.program_headers(Le, head) else {
            return malformed("its program headers do not lie at its beginning");
        };
        if all.is_empty() || all.len() > HEADERS_MAX {
            return malformed("it has no program headers, or too many");
        }
        if all.iter().any(|header| header.p_type(Le) == PT_INTERP) {
            return Err(Refusal::Dynamic);
        }
        let mut image = Image {
            is_fixed: kind == ET_EXEC,
            entry: header.e_entry(Le),
            headers: 0,
            headers_len: all.len() as u64,
            align: PAGE,
            executable_stack: true,
            segments: [NO_SEGMENT; SEGMENTS_MAX],
            len: 0,
        };
        for header in all {
            image.add(header, size)?;
        }
        image.finish(header.e_phoff(Le))
    }

    fn add(&mut self, header: &ProgramHeader64<Le>, size: u64) -> Result<(), Refusal> {
        let flags = header.p_flags(Le).0;
        match header.p_type(Le) {
            PT_GNU_STACK => self.executable_stack = flags & PF_X.0 != 0,
            PT_LOAD if header.p_memsz(Le) == 0 => {}
            PT_LOAD => {
                let segment = Segment {
                    address: header.p_vaddr(Le),
                    offset: header.p_offset(Le),
                    in_file: header.p_filesz(Le),
                    in_memory: header.p_memsz(Le),
                    read: flags & PF_R.0 != 0,
                    write: flags & PF_W.0 != 0,
                    execute: flags & PF_X.0 != 0,
                };
                check(&segment, size)?;
                if self
                    .segments()
                    .last()
                    .is_some_and(|last| segment.pages().0 < last.pages().1)
                {
                    return malformed("its segments overlap, or are in disorder");
                }
                let Some(place) = self.segments.get_mut(self.len) else {
                    return malformed("it has too many segments");
                };
                *place = segment;
                self.len += 1;
                let align = header.p_align(Le);
                if align.is_power_of_two() && align <= ALIGN_MAX {
                    self.align = self.align.max(align);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, headers_at: u64) -> Result<Image, Refusal> {
        let (first, end) = self.span();
        if self.len == 0 {
            return malformed("it has no segment to load");
        }
        if self.is_fixed && first < BOTTOM {
            return malformed("it is to lie at address 0");
        }
        if end - first > SPAN_MAX {
            return malformed("its segments lie too far apart");
        }
        let has_entry = |segment: &Segment| {
            let end = segment.address + segment.in_memory;
            segment.execute && (segment.address..end).contains(&self.entry)
        };
        if !self.segments().iter().any(has_entry) {
            return malformed("it begins outside of its code");
        }
        let has_headers = |segment: &&Segment| {
            let end = segment.offset + segment.in_file;
            (segment.offset..end).contains(&headers_at)
        };
        let with_headers = self.segments().iter().find(has_headers);
        self.headers = with_headers.map_or(0, |it| it.address + (headers_at - it.offset));
        Ok(self)
    }

    /// The memory that it wants, in order, nowhere overlapping.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.segments.get(..self.len).unwrap_or(&[])
    }

    /// From its first page to the end of its last.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        let all = self.segments();
        let first = all.first().map_or(0, |segment| segment.pages().0);
        (first, all.last().map_or(0, |segment| segment.pages().1))
    }
}

impl Segment {
    /// The pages that it lies in: from, to.
    #[must_use]
    pub fn pages(&self) -> (u64, u64) {
        let end = self.address + self.in_memory;
        (self.address & !(PAGE - 1), end.next_multiple_of(PAGE))
    }
}

fn check(segment: &Segment, size: u64) -> Result<(), Refusal> {
    let &Segment {
        address,
        offset,
        in_file,
        in_memory,
        ..
    } = segment;
    if in_file > in_memory {
        return malformed("a segment is longer in the file than in memory");
    }
    if address.checked_add(in_memory).is_none_or(|end| end > TOP) {
        return malformed("a segment ends beyond the address space");
    }
    if offset.checked_add(in_file).is_none_or(|end| end > size) {
        return malformed("a segment ends beyond the end of the file");
    }
    if address % PAGE != offset % PAGE {
        return malformed("a segment's place in memory does not fit the one in the file");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
