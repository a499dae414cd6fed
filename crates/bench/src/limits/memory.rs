//! The memory both processes of a limit share.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags};

/// A memory file of `length` bytes that nobody can shrink or grow.
///
/// # Errors
/// Those of `memfd_create`, `ftruncate` and sealing.
pub fn memory_file(length: usize) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("gannet-limit", flags)?);
    file.set_len(length as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}
