//! Memory of several processes: a sealed memory file, mapped for writing by the processes of one
//! program, read-only by everybody else.
//!
//! Words are reached as atomics; bytes are copied in and out by code that never makes a reference
//! to them, so that another process which writes at the same time can make the bytes wrong, but
//! not the program.

#![allow(unsafe_code)]

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What `statfs` says of a memory file: `TMPFS_MAGIC`.
const TMPFS: u64 = 0x0102_1994;

/// A mapping of a memory file.
#[derive(Debug)]
pub(crate) struct Mapping {
    first: NonNull<u8>,
    len: usize,
    writable: bool,
    /// No other mapping of it can be written.
    alone: bool,
}

// SAFETY: the memory is reached only through atomics and copies of bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Makes and maps a memory file of `len` zero bytes that can never become shorter or longer. With
/// `alone` nobody else can ever map it for writing.
pub(crate) fn create(name: &str, len: u64, alone: bool) -> Result<(OwnedFd, Mapping), Errno> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    let mut mapping = Mapping::new(&file, true)?;
    if alone {
        rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE)?;
        mapping.alone = true;
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL)?;
    Ok((file, mapping))
}

impl Mapping {
    /// Maps the whole file, which must be sealed against shrinking: a file that shrinks would kill
    /// whoever looks at it.
    ///
    /// # Errors
    /// `INVAL` for a file that is not sealed or is empty; what `mmap` says.
    pub(crate) fn new(file: impl AsFd, writable: bool) -> Result<Mapping, Errno> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        let len = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        // Of huge pages there may be none left when one is looked at, which kills as well.
        let is_plain = rustix::fs::fstatfs(&file)?.f_type as u64 == TMPFS;
        if !seals.contains(SealFlags::SHRINK) || len == 0 || !is_plain {
            return Err(Errno::INVAL);
        }
        let access = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping, nowhere in particular; the file keeps its length.
        let first =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, &file, 0) }?;
        let first = NonNull::new(first.cast::<u8>()).ok_or(Errno::NOMEM)?;
        // SAFETY: the range was just mapped. A core file without it is wanted, not needed.
        let _ = unsafe { rustix::mm::madvise(first.as_ptr().cast(), len, Advice::LinuxDontDump) };
        Ok(Mapping {
            first,
            len,
            writable,
            alone: false,
        })
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
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
        assert!(at.is_multiple_of(4) && at <= self.len - 4, "a word inside");
        // SAFETY: aligned and inside, the mapping lives as long as `self`.
        unsafe { self.first.add(at).cast::<AtomicU32>().as_ref() }
    }

    /// The 64-bit word at byte `at`; see [`Mapping::word`].
    ///
    /// # Panics
    /// As there.
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at <= self.len - 8, "a word inside");
        // SAFETY: aligned and inside, the mapping lives as long as `self`.
        unsafe { self.first.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// Copies `len` bytes from `from` to byte `at`.
    ///
    /// # Safety
    /// `from` can be read for `len` bytes.
    ///
    /// # Panics
    /// When the place is outside or not writable: a mistake of this crate.
    pub(crate) unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        assert!(
            self.writable && at <= self.len && len <= self.len - at,
            "a place inside"
        );
        // SAFETY: inside, checked above; the caller vouches for the source. The two cannot overlap
        // in a way that matters: the memory is nobody's Rust object.
        unsafe { std::ptr::copy(from, self.first.as_ptr().add(at), len) }
    }

    /// Copies `len` bytes from byte `at` to `to`.
    ///
    /// # Safety
    /// `to` can be written for `len` bytes.
    ///
    /// # Panics
    /// When the place is outside: a mistake of this crate.
    pub(crate) unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        assert!(at <= self.len && len <= self.len - at, "a place inside");
        // SAFETY: inside, checked above; the caller vouches for the target.
        unsafe { std::ptr::copy(self.first.as_ptr().add(at), to, len) }
    }

    /// The `len` bytes at byte `at`, to be written by this process, which alone can: `None` when
    /// others can too.
    ///
    /// # Safety
    /// Nobody in this process reaches these bytes otherwise while the slice is in use.
    ///
    /// # Panics
    /// When the place is outside: a mistake of this crate.
    #[expect(clippy::mut_from_ref, reason = "as the safety section says")]
    pub(crate) unsafe fn place(&self, at: usize, len: usize) -> Option<&mut [u8]> {
        assert!(at <= self.len && len <= self.len - at, "a place inside");
        if !self.alone {
            return None;
        }
        // SAFETY: inside; sealed, so that no other process writes here; the caller vouches for
        // this one.
        Some(unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().add(at), len) })
    }

    /// Reads up to `len` bytes of `file` (at `offset`, or where it stands) to byte `at`, without a
    /// copy in between.
    ///
    /// # Panics
    /// When the place is outside or not writable: a mistake of this crate.
    pub(crate) fn fill(
        &self,
        at: usize,
        len: usize,
        file: impl AsFd,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        assert!(
            self.writable && at <= self.len && len <= self.len - at,
            "a place inside"
        );
        // SAFETY: inside, checked above; only the kernel writes through this slice, and what it
        // held before is not looked at.
        let place = unsafe {
            std::slice::from_raw_parts_mut(
                self.first
                    .as_ptr()
                    .add(at)
                    .cast::<std::mem::MaybeUninit<u8>>(),
                len,
            )
        };
        let (filled, _) = match offset {
            Some(offset) => rustix::io::pread(file, place, offset)?,
            None => rustix::io::read(file, place)?,
        };
        Ok(filled.len())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped only here; nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.len) };
    }
}
