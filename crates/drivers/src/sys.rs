//! Memory mappings: the unsafe system calls that several drivers need.

#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// What may be done with mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// A write faults.
    ReadOnly,
    /// Both.
    ReadWrite,
}

/// A shared mapping, unmapped on drop. Having one is safe; looking into it is the holder's
/// business.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range of the whole process, not tied to a thread; access through the pointer
// is governed by the holder's types.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives only the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd`, shared with everybody who has it mapped.
    ///
    /// # Errors
    /// As `mmap`: no memory, a seal that forbids writing, a descriptor that cannot be mapped, `len`
    /// of 0.
    pub(crate) fn shared(fd: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Mapping> {
        let protection = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a null hint lets the kernel choose fresh addresses, so no existing mapping is
        // touched.
        let raw = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                fd,
                0,
            )
        }?;
        let base = NonNull::new(raw.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// First byte, page-aligned.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes, as asked for.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Asks for huge pages. A wish: refusal is no error.
    pub(crate) fn wish_for_huge_pages(&self) {
        self.advise(Advice::LinuxHugepage);
    }

    /// Brings every page in for reading, so that a missing one is an error here and not a signal
    /// later.
    ///
    /// # Errors
    /// As `madvise(MADV_POPULATE_READ)` (Linux 5.14).
    pub(crate) fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping, alive; reading pages in changes no byte of it.
        unsafe {
            madvise(
                self.base.as_ptr().cast(),
                self.len,
                Advice::LinuxPopulateRead,
            )
        }?;
        Ok(())
    }

    fn advise(&self, advice: Advice) {
        // SAFETY: the range is this mapping, alive; this advice changes no byte of it.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `shared` with this length, unmapped only here; whoever looks into it
        // keeps it alive.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
