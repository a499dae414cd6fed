//! Where names live: one directory per network, private to the user.
//!
//! ```text
//! the user's directory, see gannet_directory
//!   <network>/
//!     <name>.sock     the listening socket
//!     <name>.lock     locked by the process that has the name, for as long as it lives
//! ```
//! The lock decides who has a name, not the socket: the kernel lets go of it the moment its holder
//! dies, however that happened. So whoever gets the lock may remove the socket it finds: nobody
//! listens there. (Connecting to see whether somebody answers would be a guess about a moment that
//! has passed.)

use gannet_directory::{Private, TRIES_MAX, enter, give_way, open_base};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes in the longest name.
pub const NAME_MAX: usize = 64;

/// The name of a host or of a network, fit to be a file's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: u8,
}

impl Name {
    /// Checks a name: 1 to 64 bytes, no slash, no control character, no dot in front.
    ///
    /// # Errors
    /// `InvalidInput` that names the name.
    pub fn new(name: &str) -> io::Result<Name> {
        Self::parse(name.as_bytes()).ok_or_else(|| {
            let why = "1 to 64 bytes, no '/', no control character, no '.' in front";
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name:?} cannot be a name: {why}"),
            )
        })
    }

    /// The same for bytes that somebody sent.
    pub(crate) fn parse(name: &[u8]) -> Option<Name> {
        let text = std::str::from_utf8(name).ok()?;
        let fits = (1..=NAME_MAX).contains(&name.len());
        let bad = |c: char| c == '/' || c.is_control();
        if !fits || text.starts_with('.') || text.contains(bad) {
            return None;
        }
        let mut bytes = [0; NAME_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Name {
            bytes,
            len: name.len() as u8,
        })
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or(&[]);
        std::str::from_utf8(bytes).unwrap_or("")
    }

    fn file(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.as_str())
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// An open network directory. The last one to leave a network removes it (see `Claim`); whoever
/// still has it open then makes it anew.
#[derive(Debug)]
pub struct Directory {
    parent: OwnedFd,
    network: Name,
    fd: Mutex<Arc<OwnedFd>>,
    path: PathBuf,
}

impl Directory {
    /// The directory of `network`, made if it is not there, in the user's private directory.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be one; `PermissionDenied` when a directory on the way
    /// belongs to somebody else or is open to others; as `mkdir` and `open`.
    pub fn open(network: &str) -> io::Result<Directory> {
        let network = Name::new(network)?;
        // Sockets with longer paths are reached by way of the descriptor.
        Self::descend(gannet_directory::open(usize::MAX)?, network)
    }

    /// The same below a runtime directory of the caller's choice.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn open_below(runtime: &Path, network: &str) -> io::Result<Directory> {
        let network = Name::new(network)?;
        let base = open_base(runtime)?;
        let path = runtime.join("gannet");
        let fd = enter(&base, OsStr::new("gannet"), &path)?;
        Self::descend(Private { fd, path }, network)
    }

    fn descend(base: Private, network: Name) -> io::Result<Directory> {
        let Private { fd: parent, path } = base;
        let path = path.join(network.as_str());
        let fd = enter(&parent, OsStr::new(network.as_str()), &path)?;
        Ok(Directory {
            parent,
            network,
            fd: Mutex::new(Arc::new(fd)),
            path,
        })
    }

    /// The directory as it is now: made anew if it was removed after it was opened.
    fn fd(&self) -> io::Result<Arc<OwnedFd>> {
        let mut fd = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        if rustix::fs::fstat(&**fd)?.st_nlink == 0 {
            let name = OsStr::new(self.network.as_str());
            *fd = Arc::new(enter(&self.parent, name, &self.path)?);
        }
        Ok(fd.clone())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket address of `name`. A path too long for one is shortened by way of the
    /// descriptor, which is also the directory that was checked.
    pub(crate) fn address(&self, name: &Name) -> io::Result<SocketAddrUnix> {
        let file = name.file(".sock");
        SocketAddrUnix::new(self.path.join(&file)).or_else(|_| {
            let short = format!("/proc/self/fd/{}/{file}", self.fd()?.as_raw_fd());
            SocketAddrUnix::new(short).map_err(io::Error::from)
        })
    }

    /// Takes `name` for as long as the claim lives, and clears away what a dead owner left.
    ///
    /// # Errors
    /// `AddrInUse` when a living process has it; as `open`, `flock`, `unlink`.
    pub(crate) fn claim(&self, name: &Name) -> io::Result<Claim> {
        // A lock on a file that its owner has just removed locks nothing: look, and try again.
        for turn in 0..TRIES_MAX {
            let fd = self.fd()?;
            let lock = match open_lock(&fd, name) {
                Ok(lock) => lock,
                Err(Errno::NOENT) => {
                    // removed this instant
                    give_way(turn);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(error.into()),
            }
            if is_current(&fd, name, &lock)? {
                let name = *name;
                remove(&fd, &name.file(".sock"))?;
                return Ok(Claim {
                    _lock: lock,
                    directory: fd,
                    path: self.path.clone(),
                    name,
                });
            }
        }
        let path = self.path.display();
        Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("the name {name:?} in {path} belongs to a living process"),
        ))
    }
}

fn open_lock(directory: &OwnedFd, name: &Name) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::openat(directory, name.file(".lock"), flags, mode)
}

/// Whether the file behind `lock` still has the lock file's name.
fn is_current(directory: &OwnedFd, name: &Name, lock: &OwnedFd) -> io::Result<bool> {
    let ours = rustix::fs::fstat(lock)?;
    match rustix::fs::statat(directory, name.file(".lock"), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn remove(directory: &OwnedFd, file: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, file, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A name that this process has. Dropped, it is free again and nothing is left of it.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Closed after the files are removed, so that nobody can claim in between.
    _lock: OwnedFd,
    directory: Arc<OwnedFd>,
    path: PathBuf,
    name: Name,
}

impl Drop for Claim {
    fn drop(&mut self) {
        for suffix in [".sock", ".lock"] {
            let _ = remove(&self.directory, &self.name.file(suffix));
        }
        // fails while others are in the network
        let _ = rustix::fs::rmdir(&self.path);
    }
}

#[cfg(test)]
mod tests;
