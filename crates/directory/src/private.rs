//! The user's directory: found, entered, checked and locked.

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a directory may vanish while it is entered.
pub const TRIES_MAX: u32 = 64;

/// A directory of this user's that was checked when it was opened.
#[derive(Debug)]
pub struct Private {
    /// Its descriptor.
    pub fd: OwnedFd,
    /// Where it is.
    pub path: PathBuf,
}

/// A place for the user's directory: what it goes into, and its name there.
#[derive(Debug)]
struct Candidate {
    base: PathBuf,
    name: String,
    /// The base has to be closed to others itself.
    private: bool,
}

impl Candidate {
    fn open(&self) -> io::Result<Private> {
        let base = match self.private {
            true => open_private_base(&self.base),
            false => open_base(&self.base),
        }?;
        let path = self.base.join(&self.name);
        let fd = enter(&base, OsStr::new(&self.name), &path)?;
        Ok(Private { fd, path })
    }
}

/// The user's directory: the first place that can be had and whose path is at most `longest` bytes.
///
/// # Errors
/// `PermissionDenied` when the last place belongs to another user or is open to others; as `mkdir`
/// and `open`.
pub fn open(longest: usize) -> io::Result<Private> {
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let all = candidates(uid, runtime, home, std::env::temp_dir());
    first(&all, longest)
}

fn first(all: &[Candidate], longest: usize) -> io::Result<Private> {
    let mut failed = io::Error::from(Errno::NAMETOOLONG);
    for candidate in all {
        let length = candidate.base.as_os_str().len() + 1 + candidate.name.len();
        if length > longest {
            continue;
        }
        match candidate.open() {
            Ok(private) => return Ok(private),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn candidates(
    uid: u32,
    runtime: Option<PathBuf>,
    home: Option<PathBuf>,
    temporary: PathBuf,
) -> Vec<Candidate> {
    let of = |base: PathBuf, name: &str, private| Candidate {
        base,
        name: name.to_owned(),
        private,
    };
    let absolute = |path: &PathBuf| path.is_absolute();
    let mut all = Vec::new();
    all.extend(
        runtime
            .filter(absolute)
            .map(|base| of(base, "gannet", true)),
    );
    if uid == 0 {
        all.push(of("/run".into(), "gannet", false));
    }
    all.push(of(format!("/run/user/{uid}").into(), "gannet", true));
    all.extend(home.filter(absolute).map(|base| of(base, ".gannet", false)));
    all.push(of(temporary, &format!("gannet-{uid}"), false));
    all
}

/// Opens, and makes if it is not there, the directory `name` in a directory that was checked.
///
/// # Errors
/// `PermissionDenied` when it belongs to another user or is open to others; as `mkdir`, `open`.
pub fn enter(parent: &impl AsFd, name: &OsStr, path: &Path) -> io::Result<OwnedFd> {
    // Another process may remove it between the two calls.
    for turn in 0..TRIES_MAX {
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

/// It vanished again. A process that waits for a directory's lock in the kernel gets it when the
/// directory has just been removed: several that come and go at once could keep one out for all of
/// its tries.
pub fn give_way(turn: u32) {
    if turn >= 4 {
        std::thread::sleep(Duration::from_micros(50 * u64::from(turn)));
    }
}

/// The lock of a directory: names are removed from it only by the process that holds this.
///
/// # Errors
/// `WOULDBLOCK` when another process holds it for long: it was stopped, and is not waited for; as
/// `flock`.
pub fn lock(directory: &OwnedFd) -> Result<Locked<'_>, Errno> {
    for turn in 0..TRIES_MAX {
        match rustix::fs::flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Locked(directory)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => give_way(turn),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::WOULDBLOCK)
}

/// See [`lock`].
#[derive(Debug)]
pub struct Locked<'a>(&'a OwnedFd);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens a directory that is there already and checks that it is this user's, closed to others.
///
/// # Errors
/// As [`enter`].
pub fn open_checked(path: &Path) -> io::Result<OwnedFd> {
    let flags = OPEN_DIRECTORY | OFlags::NOFOLLOW;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|error| about(path, error.into()))?;
    check_private(path, &rustix::fs::fstat(&fd)?)?;
    Ok(fd)
}

/// Opens the directory that the user's goes into: only its owner may be able to rename what is in
/// it.
///
/// # Errors
/// `PermissionDenied` when others may; as `open`.
pub fn open_base(path: &Path) -> io::Result<OwnedFd> {
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

fn check_private(path: &Path, stat: &Stat) -> io::Result<()> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(denied(
            path,
            "it belongs to another user",
            "remove it, or set XDG_RUNTIME_DIR to a private directory",
        ));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(denied(path, "it is open to other users", "chmod 700"));
    }
    Ok(())
}

fn denied(path: &Path, why: &str, remedy: &str) -> io::Error {
    let text = format!(
        "{} cannot be used\nwhy: {why}\ntry: {remedy}",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
