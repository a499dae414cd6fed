//! Memory of several processes: a sealed memory file, mapped for writing by the processes of one
//! program, read-only by every other.
//!
//! Its head is mapped at once, its rings in chunks, each when the first of its slots is used: a
//! process has as much address space as it has sockets. No descriptor is kept for that, which the
//! program would meet: a chunk begins as a second mapping of the head and is moved to its place in
//! the file. (A file that was opened for reading only cannot be moved in so; its descriptor is
//! kept.)
//!
//! Words are reached as atomics; bytes are copied in and out by code that never makes a reference
//! to them, so that another process which writes at the same time can make the bytes wrong, but
//! not the program.

#![allow(unsafe_code)]

mod chunks;
mod ring;

pub(crate) use ring::Ring;

use crate::layout::Geometry;
use chunks::Chunks;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, MprotectFlags, MremapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// What `statfs` says of a memory file: `TMPFS_MAGIC`.
const TMPFS: u64 = 0x0102_1994;

/// What this process maps from now on is locked into memory at once, all of it, as `mlockall`
/// with `MCL_FUTURE` asks. Rings would take their whole memory by that.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// This process has called `mlockall`, with `MCL_FUTURE` or without, or `munlockall`: what is
/// mapped from now on is locked page by page, when it is touched.
pub fn lock_future(locked: bool) {
    LOCKED.store(locked, Relaxed);
}

/// A mapping of a memory file.
#[derive(Debug)]
pub(crate) struct Mapping {
    first: NonNull<u8>,
    /// Length of what is mapped from the beginning.
    head: usize,
    geometry: Geometry,
    chunks: Chunks,
    writable: bool,
    /// Of a file that is open for reading only.
    file: Option<OwnedFd>,
    /// No other mapping of it can be written, and all of this one is there from the beginning.
    alone: bool,
}

// SAFETY: the memory is reached only through atomics and copies of bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Makes and maps a memory file of zero bytes that can never become shorter or longer. With `alone`
/// no other process can ever map it for writing, and neither can this one later.
pub(crate) fn create(
    name: &str,
    geometry: Geometry,
    alone: bool,
) -> Result<(OwnedFd, Mapping), Errno> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, geometry.len())?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    let head = match alone {
        true => usize::try_from(geometry.len()).map_err(|_| Errno::NOMEM)?,
        false => geometry.head_len(),
    };
    let mut mapping = Mapping::of(&file, geometry, head, true)?;
    if alone {
        rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE)?;
        mapping.alone = true;
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL)?;
    Ok((file, mapping))
}

/// Checks that a file can be mapped without danger; gives its length. It must be sealed against
/// shrinking: a file that shrinks would kill a process that looks at it.
///
/// # Errors
/// `INVAL` for a file that is not sealed or is empty.
pub(crate) fn check(file: impl AsFd) -> Result<u64, Errno> {
    let seals = rustix::fs::fcntl_get_seals(&file)?;
    let len = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    // Of huge pages there may be none left when one is looked at, which kills as well.
    let is_plain = rustix::fs::fstatfs(&file)?.f_type as u64 == TMPFS;
    match seals.contains(SealFlags::SHRINK) && len > 0 && is_plain {
        true => Ok(len),
        false => Err(Errno::INVAL),
    }
}

impl Mapping {
    /// Maps the head of a file, which was checked and is as long as `geometry` says: for writing
    /// the own program's, else that part of it which other programs are to read.
    ///
    /// # Errors
    /// What `mmap` says.
    pub(crate) fn new(
        file: impl AsFd,
        geometry: Geometry,
        writable: bool,
    ) -> Result<Mapping, Errno> {
        let head = match writable {
            true => geometry.head_len(),
            false => geometry.shared_len(),
        };
        Mapping::of(file, geometry, head, writable)
    }

    fn of(
        file: impl AsFd,
        geometry: Geometry,
        head: usize,
        writable: bool,
    ) -> Result<Mapping, Errno> {
        let file = file.as_fd();
        let mode = rustix::fs::fcntl_getfl(file)? & OFlags::RWMODE;
        let kept = match mode == OFlags::RDONLY {
            true => Some(rustix::io::fcntl_dupfd_cloexec(file, 0)?),
            false => None,
        };
        let chunks = Chunks::new(geometry)?;
        Ok(Mapping {
            first: map(file, 0, head, writable)?,
            head,
            geometry,
            chunks,
            writable,
            file: kept,
            alone: false,
        })
    }

    /// Whether this process alone can write here, see [`create`].
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether this process may write here.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The 32-bit word at byte `at`. Storing into it is for writable mappings only.
    ///
    /// # Panics
    /// When `at` is not aligned or outside: offsets come from this crate's layout alone.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at <= self.head - 4, "a word inside");
        // SAFETY: aligned and inside, the mapping lives as long as `self`.
        unsafe { self.first.add(at).cast::<AtomicU32>().as_ref() }
    }

    /// The 64-bit word at byte `at`; see [`Mapping::word`].
    ///
    /// # Panics
    /// When `at` is not aligned or outside: offsets come from this crate's layout alone.
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at <= self.head - 8, "a word inside");
        // SAFETY: aligned and inside, the mapping lives as long as `self`.
        unsafe { self.first.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// The ring of slot `n`, mapped now if none of its chunk was used before.
    ///
    /// # Errors
    /// `NOMEM` when the process may have no more address space or mappings, `PERM` when it has
    /// given up the calls that are needed; what `mremap` says.
    #[inline]
    pub(crate) fn ring(&self, n: u32) -> Result<Ring<'_>, Errno> {
        let n = n & (self.geometry.slots - 1);
        let (chunk, at) = self.chunks.place(n);
        let first = match NonNull::new(chunk.load(Acquire)) {
            Some(first) => first,
            None => self.map_chunk(n)?,
        };
        // SAFETY: a chunk has the rings of all its slots, and stays mapped as long as `self`.
        Ok(unsafe { Ring::new(first.add(at), self.geometry.ring_len(), self.writable) })
    }

    #[cold]
    fn map_chunk(&self, n: u32) -> Result<NonNull<u8>, Errno> {
        let (slot, len) = self.chunks.around(n);
        let offset = self.geometry.bytes_of(slot);
        if offset + len <= self.head {
            // SAFETY: inside of what is mapped already.
            let first = unsafe { self.first.add(offset) };
            return Ok(self.chunks.keep(n, first).unwrap_or(first));
        }
        let first = self.map_at(offset, len)?;
        match self.chunks.keep(n, first) {
            None => Ok(first),
            Some(other) => {
                // SAFETY: made above, and nothing has heard of it: another thread was faster.
                let _ = unsafe { rustix::mm::munmap(first.as_ptr().cast(), len) };
                Ok(other)
            }
        }
    }

    /// Maps `len` bytes of the file from `offset` on.
    fn map_at(&self, offset: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        if crate::sandbox::is_on() {
            return Err(Errno::PERM);
        }
        if let Some(file) = &self.file {
            return map(file.as_fd(), offset as u64, len, self.writable);
        }
        let head = self.first.as_ptr().cast();
        // SAFETY: a length of 0 leaves the head as it is and maps it a second time, elsewhere.
        let first = unsafe { rustix::mm::mremap(head, 0, len, MremapFlags::MAYMOVE) }?;
        // SAFETY: just made, and nothing refers to it: it may be moved within the file.
        let moved = unsafe { move_to(first, offset, len, self.writable) };
        if let Err(error) = moved {
            // SAFETY: as above.
            let _ = unsafe { rustix::mm::munmap(first, len) };
            return Err(error);
        }
        not_dumped(first, len);
        NonNull::new(first.cast::<u8>()).ok_or(Errno::NOMEM)
    }
}

/// Maps `len` bytes of `file` from `offset` on.
fn map(
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    writable: bool,
) -> Result<NonNull<u8>, Errno> {
    let late = LOCKED.load(Relaxed);
    let access = match (late, writable) {
        (true, _) => ProtFlags::empty(),
        (false, true) => ProtFlags::READ | ProtFlags::WRITE,
        (false, false) => ProtFlags::READ,
    };
    let (null, flags) = (std::ptr::null_mut(), MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: a fresh mapping, nowhere in particular; the file keeps its length.
    let first = unsafe { rustix::mm::mmap(null, len, access, flags, file, offset) }?;
    if late {
        // SAFETY: just mapped.
        unsafe { lock_on_fault(first, len, writable) }.inspect_err(|_| {
            // SAFETY: as above, and nothing refers to it.
            let _ = unsafe { rustix::mm::munmap(first, len) };
        })?;
    }
    not_dumped(first, len);
    NonNull::new(first.cast::<u8>()).ok_or(Errno::NOMEM)
}

/// A mapping that was made without access, so that the kernel does not fill it at once.
///
/// # Safety
/// Such a mapping, `len` long, to which nothing refers.
unsafe fn lock_on_fault(at: *mut c_void, len: usize, writable: bool) -> Result<(), Errno> {
    let access = match writable {
        true => MprotectFlags::READ | MprotectFlags::WRITE,
        false => MprotectFlags::READ,
    };
    // SAFETY: as the caller says.
    unsafe {
        // Beyond the limit of locked memory it stays unlocked.
        if rustix::mm::mlock_with(at, len, MlockFlags::ONFAULT).is_err() {
            let _ = rustix::mm::munlock(at, len);
        }
        rustix::mm::mprotect(at, len, access)
    }
}

/// Moves a second mapping of a file's beginning to byte `offset` of the file.
///
/// # Safety
/// Such a mapping, `len` long, to which nothing refers.
unsafe fn move_to(
    first: *mut c_void,
    offset: usize,
    len: usize,
    writable: bool,
) -> Result<(), Errno> {
    let late = LOCKED.load(Relaxed);
    if late {
        // SAFETY: as the caller says.
        unsafe { rustix::mm::mprotect(first, len, MprotectFlags::empty()) }?;
    }
    // SAFETY: as the caller says. `MAP_NONBLOCK`: pages are taken when they are touched.
    let moved = unsafe { libc::remap_file_pages(first, len, 0, offset / PAGE, libc::MAP_NONBLOCK) };
    if moved != 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        return Err(error.map_or(Errno::NOMEM, Errno::from_raw_os_error));
    }
    match late {
        // SAFETY: as the caller says.
        true => unsafe { lock_on_fault(first, len, writable) },
        false => Ok(()),
    }
}

/// The unit in which `remap_file_pages` counts. Layouts are multiples of it.
const PAGE: usize = 4096;

/// A core file without it is wanted, not needed.
fn not_dumped(first: *mut c_void, len: usize) {
    // SAFETY: a mapping of this module's, whose content stays.
    let _ = unsafe { rustix::mm::madvise(first, len, Advice::LinuxDontDump) };
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let head = self.head;
        self.chunks.drain(|slot, first, len| {
            if self.geometry.bytes_of(slot) + len > head {
                // SAFETY: mapped in `map_at`, unmapped only here; nothing refers to it any more.
                let _ = unsafe { rustix::mm::munmap(first.cast(), len) };
            }
        });
        // SAFETY: mapped in `of`, unmapped only here; nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), head) };
    }
}

#[cfg(test)]
mod tests;
