//! `execve` of a static program: the loader is executed in its place.
//!
//! What is unusual stays with the kernel, which judges it: files that cannot be read, that run with
//! other rights (set-user-ID, capabilities), that are damaged. Scripts are followed to their
//! interpreter as the kernel does it. All of it may happen in a child that has its parent's memory,
//! so that strings and pointers lie in memory of their own, which the parent gives back.

use super::variables::{FILE, NAME};
use crate::border;
use crate::place;
use gannet_image::{HEAD, Image};
use libc::{c_char, c_int};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// How many scripts may run one another, as in the kernel.
const SCRIPTS_MAX: usize = 5;
/// Bytes for strings: a path up to four times, and what scripts name.
const STRINGS: usize = 5 * 4096;
/// Words before the program's own arguments.
const WORDS_MAX: usize = 2 * SCRIPTS_MAX + 1;

static LOADER: OnceLock<Option<CString>> = OnceLock::new();

/// Where the loader is, or that there is none: known before the program begins.
pub(crate) fn set_loader(loader: Option<CString>) {
    let _ = LOADER.set(loader);
}

/// What is executed in place of a static program.
pub(crate) struct TakeOver {
    memory: Memory,
    argv: *const *const c_char,
    variables: [*const c_char; 2],
    len: usize,
}

impl TakeOver {
    pub(crate) fn path(&self) -> *const c_char {
        let loader = LOADER.get().and_then(Option::as_ref);
        loader.map_or(std::ptr::null(), |path| path.as_ptr())
    }

    /// The arguments.
    pub(crate) fn argv(&self) -> *const *const c_char {
        self.argv
    }

    /// Strings that the environment needs.
    pub(crate) fn variables(&self) -> &[*const c_char] {
        self.variables.get(..self.len).unwrap_or(&[])
    }

    /// Its memory, for the parent to give back: address and length.
    pub(crate) fn into_memory(self) -> (usize, usize) {
        let memory = (self.memory.at, self.memory.len);
        std::mem::forget(self.memory);
        memory
    }
}

/// Memory of its own, zero at first.
struct Memory {
    at: usize,
    len: usize,
    used: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped below; what pointed there goes with it.
        let _ = unsafe { rustix::mm::munmap(self.at as *mut _, self.len) };
    }
}

impl Memory {
    fn new(pointers: usize) -> Option<Memory> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let len = STRINGS + pointers.checked_mul(size_of::<usize>())?;
        let null = std::ptr::null_mut();
        // SAFETY: new memory.
        let at = unsafe { rustix::mm::mmap_anonymous(null, len, access, MapFlags::PRIVATE) };
        Some(Memory {
            at: at.ok()?.addr(),
            len,
            used: 0,
        })
    }

    /// A string made of parts.
    fn add(&mut self, parts: &[&[u8]]) -> Option<*const c_char> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if self.used + len + 1 > STRINGS {
            return None;
        }
        let text = self.at + self.used;
        for part in parts {
            // SAFETY: room for them was found; a zero byte stays behind the last.
            unsafe {
                let to = (self.at + self.used) as *mut u8;
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            self.used += part.len();
        }
        self.used += 1;
        Some(text as *const c_char)
    }

    /// Where pointers begin.
    fn pointers(&self) -> *mut *const c_char {
        (self.at + STRINGS) as *mut _
    }
}

/// What is to be executed in place of `path`, if that is a static program or a script of one.
///
/// # Safety
/// As `execve`'s arguments.
pub(crate) unsafe fn take_over(
    path: *const c_char,
    argv: *const *const c_char,
) -> Option<TakeOver> {
    let loader = LOADER.get()?.as_ref()?;
    // SAFETY: as the caller says.
    let given = unsafe { place::string(path) }?;
    // SAFETY: as the caller says.
    let own = unsafe { border::program_if_named(path) };
    let path = own.unwrap_or(given);
    let mut head = [0; HEAD];
    let mut kind = look(path, &mut head)?;
    let count = match argv.is_null() {
        true => 0,
        // SAFETY: as the caller says.
        false => unsafe { place::strings(argv) }?,
    };
    let mut memory = Memory::new(count + WORDS_MAX + 1)?;
    let mut program = memory.add(&[path.to_bytes()])?;
    // Words that scripts put before the arguments, the last one first; its own path is the first.
    let mut words = [program; WORDS_MAX];
    let mut len = 0;
    while let Kind::Script(script) = kind {
        if len + 2 > WORDS_MAX {
            return None;
        }
        if len == 0 {
            len = 1;
        }
        if let Some(argument) = script.argument {
            *words.get_mut(len)? = memory.add(&[argument])?;
            len += 1;
        }
        program = memory.add(&[script.interpreter])?;
        *words.get_mut(len)? = program;
        len += 1;
        // SAFETY: just made.
        kind = look(unsafe { CStr::from_ptr(program) }, &mut head)?;
    }
    // This process may have other rights by now, or another root.
    rustix::fs::accessat(CWD, loader.as_c_str(), Access::EXEC_OK, AtFlags::EACCESS).ok()?;
    let pointers = memory.pointers();
    // SAFETY: room for the words, the arguments and a null pointer, which is there.
    unsafe {
        for (n, word) in words.iter().take(len).rev().enumerate() {
            pointers.add(n).write(*word);
        }
        let skipped = usize::from(len > 0).min(count);
        for n in skipped..count {
            pointers.add(len + n - skipped).write(*argv.add(n));
        }
    }
    // SAFETY: a string of `memory`.
    let name = unsafe { CStr::from_ptr(program) }.to_bytes();
    let file = memory.add(&[FILE.as_bytes(), name])?;
    let name = memory.add(&[NAME.as_bytes(), path.to_bytes()])?;
    Some(TakeOver {
        argv: pointers,
        memory,
        variables: [file, name],
        len: if len > 0 { 2 } else { 1 },
    })
}

/// The path that `execveat` means, if it is one that still leads to the same file once this image
/// is gone. `None`: for the kernel, as files without a name (`memfd_create`).
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn path_at(at: c_int, path: *const c_char, flags: usize) -> Option<CString> {
    if flags & !(libc::AT_EMPTY_PATH as usize) != 0 {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { place::string(path) }?;
    if at == libc::AT_FDCWD || path.to_bytes().starts_with(b"/") {
        return Some(path.to_owned()).filter(|path| !path.is_empty());
    }
    if path.is_empty() && flags == 0 {
        return None;
    }
    let link = format!("/proc/self/fd/{at}");
    let base = rustix::fs::readlinkat(CWD, &*link, Vec::new()).ok()?;
    let full = match path.is_empty() {
        true => base,
        false => CString::new([base.to_bytes(), b"/", path.to_bytes()].concat()).ok()?,
    };
    let meant = match path.is_empty() {
        true => rustix::fs::stat(&*link),
        // SAFETY: the caller's descriptor.
        false => rustix::fs::statat(
            unsafe { BorrowedFd::borrow_raw(at) },
            path,
            AtFlags::empty(),
        ),
    };
    let (found, meant) = (rustix::fs::stat(&*full).ok()?, meant.ok()?);
    ((found.st_dev, found.st_ino) == (meant.st_dev, meant.st_ino)).then_some(full)
}

enum Kind<'a> {
    Static,
    Script(gannet_image::Script<'a>),
}

/// What a file is. `None`: for the kernel.
fn look<'a>(path: &CStr, head: &'a mut [u8; HEAD]) -> Option<Kind<'a>> {
    // Before it is opened: a device may do something then.
    let stat = rustix::fs::stat(path).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let own = (rustix::process::geteuid(), rustix::process::getegid());
    let other_user = stat.st_mode & 0o4000 != 0 && stat.st_uid != own.0.as_raw();
    let other_group = stat.st_mode & 0o2010 == 0o2010 && stat.st_gid != own.1.as_raw();
    if other_user || other_group {
        return None;
    }
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = Closed(ManuallyDrop::new(
        rustix::fs::open(path, flags, Mode::empty()).ok()?,
    ));
    let file = &*file.0;
    let mut none = [0u8; 0];
    if !own.0.is_root()
        && rustix::fs::fgetxattr(file, c"security.capability", &mut none[..]).is_ok()
    {
        return None;
    }
    let (head, size) = read_head(file, head)?;
    if let Some(script) = gannet_image::script(head) {
        return Some(Kind::Script(script));
    }
    if is_ld_so(path) {
        return None;
    }
    Image::parse(head, size).ok().map(|_| Kind::Static)
}

/// A file that is closed past this library's `close`: in a child with its parent's memory, and
/// descriptors of its own, the number may be another thread's socket to that.
struct Closed(ManuallyDrop<OwnedFd>);

impl Drop for Closed {
    fn drop(&mut self) {
        // SAFETY: opened here, not used any more.
        unsafe { rustix::io::close(self.0.as_raw_fd()) };
    }
}

/// glibc's ld.so is static, too, and loads what it is asked to with this library.
fn is_ld_so(path: &CStr) -> bool {
    let name = path.to_bytes().rsplit(|byte| *byte == b'/').next();
    let name = name.unwrap_or(b"");
    [b"ld-linux".as_slice(), b"ld64.so", b"ld-2.", b"ld.so"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// The beginning of an ordinary file, and its size.
pub(super) fn read_head<'a>(file: &OwnedFd, head: &'a mut [u8; HEAD]) -> Option<(&'a [u8], u64)> {
    let size = rustix::fs::fstat(file).ok()?.st_size;
    let len = rustix::io::pread(file, &mut head[..], 0).ok()?;
    Some((head.get(..len)?, u64::try_from(size).ok()?))
}
