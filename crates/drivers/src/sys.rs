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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::io::Errno;
    use rustix::mm::{MprotectFlags, mprotect};
    use std::os::fd::AsFd;

    /// S11: whoever maps a sealed file cannot write it, and cannot make the mapping writable.
    #[test]
    fn s11_the_peers_half_cannot_be_written() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(c"test", flags).unwrap();
        ftruncate(&file, 8192).unwrap();
        let own = Mapping::shared(file.as_fd(), 8192, Access::ReadWrite).unwrap();
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE;
        fcntl_add_seals(&file, seals).unwrap();
        let error = Mapping::shared(file.as_fd(), 8192, Access::ReadWrite).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let peer = Mapping::shared(file.as_fd(), 8192, Access::ReadOnly).unwrap();
        // SAFETY: the range is the mapping `peer`, alive; nobody holds a reference into it.
        let made = unsafe {
            mprotect(
                peer.base().as_ptr().cast(),
                peer.len(),
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        };
        assert_eq!(made, Err(Errno::ACCESS));
        // SAFETY: both mappings are alive and at least a byte long; the write is through the one
        // that may write, and no reference to the byte exists.
        let seen = unsafe {
            own.base().as_ptr().write_volatile(7);
            peer.base().as_ptr().read_volatile()
        };
        assert_eq!(seen, 7, "it is the same memory");
        peer.populate().unwrap();
    }
}
