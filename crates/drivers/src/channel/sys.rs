//! Memory files shared between two processes, and who is at the other end of a socket.
//!
//! The one who writes a file makes it, maps it, and then seals it: no shrinking or growing (a page
//! that vanished would kill its reader), no further writable mapping, no `write`, no hole, for
//! anybody, ever. The reader believes none of that before it has seen the seals itself.

#![allow(unsafe_code)]

use crate::sys::{Access, Mapping};
use gannet_link::Memory;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes in a huge page of the only size asked for.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// File system type of reserved huge pages (`linux/magic.h`).
const HUGETLBFS: u32 = 0x9584_58f6;

/// What the reader insists on.
const REQUIRED: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE);

/// A mapped memory file: writable if made here, read-only if received.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    mapping: Mapping,
    claimed: AtomicBool,
}

impl SharedMemory {
    /// A fresh file of `len` bytes, mapped writable and then sealed, with the descriptor to send.
    ///
    /// # Errors
    /// As `memfd_create`, `ftruncate`, `mmap` and `fcntl(F_ADD_SEALS)`; without enough free huge
    /// pages when they were asked for, `ENOMEM`.
    pub(crate) fn create(len: usize, huge: bool) -> io::Result<(SharedMemory, OwnedFd)> {
        let file = memory_file(huge)?;
        ftruncate(&file, len as u64)?;
        let mapping = Mapping::shared(file.as_fd(), len, Access::ReadWrite)?;
        fcntl_add_seals(&file, REQUIRED.union(SealFlags::SEAL))?;
        let memory = SharedMemory {
            mapping,
            claimed: AtomicBool::new(false),
        };
        Ok((memory, file))
    }

    /// Somebody else's file of exactly `len` bytes, mapped read-only.
    ///
    /// # Errors
    /// `InvalidData` when it is not a memory file, lacks a seal or has another size; as `mmap`.
    pub(crate) fn open(file: BorrowedFd<'_>, len: usize) -> io::Result<SharedMemory> {
        let seals = fcntl_get_seals(file).map_err(|_| refused("not a memory file"))?;
        if !seals.contains(REQUIRED) {
            return Err(refused("memory file without the seals it must have"));
        }
        let stat = fstat(file)?;
        if u64::try_from(stat.st_size) != Ok(len as u64) {
            return Err(refused("memory file of another size than announced"));
        }
        let mapping = Mapping::shared(file, len, Access::ReadOnly)?;
        if fstatfs(file)?.f_type as u32 == HUGETLBFS {
            // Only pages of the huge page file system can turn out to be missing later (its owner
            // need not have reserved them), and then a read is a signal. So all must come now.
            mapping.populate()?;
        }
        Ok(SharedMemory {
            mapping,
            claimed: AtomicBool::new(true),
        })
    }

    /// Asks for transparent huge pages; see [`super::HugePages`].
    pub(crate) fn wish_for_huge_pages(&self) {
        self.mapping.wish_for_huge_pages();
    }
}

/// An empty memory file that takes seals. Kernels before 6.3 do not know "never executable".
fn memory_file(huge: bool) -> io::Result<OwnedFd> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let name = c"gannet-channel";
    rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| rustix::fs::memfd_create(name, flags))
        .map_err(io::Error::from)
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

// SAFETY:
// * aligned and one allocation: a mapping made by the kernel, at least page-aligned, of `len`
//   bytes;
// * readable (writable, when made here) until dropped: unmapped only by `Mapping::drop`;
// * initialised: memory files read as zero until written;
// * never unmapped or shrunk by others: sealed against it, by us in `create`, checked in `open`;
// * `claim` is true at most once, and only for a file made here, whose one writable mapping is
//   ours: the file is sealed against further ones before its descriptor leaves `create`.
unsafe impl Memory for SharedMemory {
    fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    fn len(&self) -> usize {
        self.mapping.len()
    }

    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}

/// Who is at the other end of a Unix socket, as the kernel saw it when the two met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerCredentials {
    /// The process, 0 when it is not visible from here (another process namespace).
    pub(crate) pid: i32,
    /// The effective user.
    pub(crate) uid: u32,
}

/// Asks the kernel who is at the other end of `socket`.
///
/// Not through rustix, whose type has no room for "process 0".
///
/// # Errors
/// As `getsockopt(SO_PEERCRED)`.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<PeerCredentials> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open (borrowed), and `found` has room for `len` bytes, of which the
    // kernel fills at most that many with plain integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCredentials {
        pid: found.pid,
        uid: found.uid,
    })
}
