//! Where names live: one directory per network, private to the user.
//!
//! ```text
//! $XDG_RUNTIME_DIR/gannet/<network>/        else  <tmp>/gannet-<uid>/<network>/
//!     <name>.sock     the listening socket
//!     <name>.lock     locked by the process that has the name, for as long as it lives
//! ```
//! The lock decides who has a name, not the socket: the kernel lets go of it the moment its holder
//! dies, however that happened. So whoever gets the lock may remove the socket it finds: nobody
//! listens there. (Connecting to see whether somebody answers would be a guess about a moment that
//! has passed.)
//!
//! Every directory from the runtime directory down is opened without following links, then checked
//! through its descriptor: a directory, ours, closed to others.

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    /// The directory of `network`, made if it is not there: below `$XDG_RUNTIME_DIR` when that is a
    /// directory of this user, else below the system's temporary directory.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be one; `PermissionDenied` when a directory on the way
    /// belongs to somebody else or is open to others; as `mkdir` and `open`.
    pub fn open(network: &str) -> io::Result<Directory> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute() && open_private_base(path).is_ok());
        match runtime {
            Some(runtime) => Self::open_below(&runtime, network),
            None => {
                let own = format!("gannet-{}", rustix::process::geteuid().as_raw());
                Self::descend(&std::env::temp_dir(), &own, network)
            }
        }
    }

    /// The same below a runtime directory of the caller's choice.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn open_below(runtime: &Path, network: &str) -> io::Result<Directory> {
        Self::descend(runtime, "gannet", network)
    }

    fn descend(base: &Path, first: &str, network: &str) -> io::Result<Directory> {
        let network = Name::new(network)?;
        let fd = open_base(base)?;
        let path = base.join(first);
        let parent = enter(&fd, OsStr::new(first), &path)?;
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
        for turn in 0..LOCK_TRIES {
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

/// How often a file or directory may vanish under us before we give up.
const LOCK_TRIES: u32 = 64;

/// It vanished again. Who waits for a directory's lock in the kernel gets it when the directory has
/// just been removed: several that come and go at once could keep one out for all of its tries.
fn give_way(turn: u32) {
    if turn >= 4 {
        std::thread::sleep(Duration::from_micros(50 * u64::from(turn)));
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

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens the directory that ours goes into: nobody but its owner may be able to rename ours.
fn open_base(path: &Path) -> io::Result<OwnedFd> {
    let fd = rustix::fs::openat(CWD, path, OPEN_DIRECTORY, Mode::empty())
        .map_err(|error| about(path, error.into()))?;
    let stat = rustix::fs::fstat(&fd)?;
    let trusted = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
    let sticky = stat.st_mode & 0o1000 != 0;
    if !trusted || (stat.st_mode & 0o022 != 0 && !sticky) {
        let why = "others may rename what is in it";
        return Err(denied(
            path,
            why,
            "set XDG_RUNTIME_DIR to a private directory",
        ));
    }
    Ok(fd)
}

/// As [`open_base`], and the directory is this user's own.
fn open_private_base(path: &Path) -> io::Result<OwnedFd> {
    let fd = open_base(path)?;
    check_private(path, &rustix::fs::fstat(&fd)?)?;
    Ok(fd)
}

/// Makes the directory `name` in `parent` if it is not there, and opens it.
fn enter(parent: &impl AsFd, name: &OsStr, path: &Path) -> io::Result<OwnedFd> {
    // Somebody who leaves may remove it between the two calls.
    for turn in 0..LOCK_TRIES {
        match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(about(path, error.into())),
        }
        let flags = OPEN_DIRECTORY | OFlags::NOFOLLOW;
        match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(fd) => {
                check_private(path, &rustix::fs::fstat(&fd)?)?;
                return Ok(fd);
            }
            Err(Errno::NOENT) => give_way(turn),
            Err(error) => return Err(about(path, error.into())),
        }
    }
    Err(about(path, Errno::NOENT.into()))
}

fn check_private(path: &Path, stat: &Stat) -> io::Result<()> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(denied(
            path,
            "it belongs to another user",
            "remove it, or set XDG_RUNTIME_DIR",
        ));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(denied(path, "it is open to other users", "chmod 700"));
    }
    Ok(())
}

fn denied(path: &Path, why: &str, remedy: &str) -> io::Error {
    let text = format!("{} cannot be used: {why}; try: {remedy}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
