//! A network: the private directory in which its programs' sockets have their names.
//!
//! The directory is the authentication. It belongs to the network's user and is closed to others,
//! so that only processes of that user, and root's, can place a name in it or connect to one.
//! Processes of a program that cannot reach it (they changed their user, or their root directory)
//! have their carrier do it for them, see [`crate::service`].
//!
//! A name is free when no living socket has it: a process that was killed leaves its names behind.
//! Binding finds that out and removes them, under the lock of the directory.

use crate::credentials;
use crate::name::{self, Stem};
use gannet_directory::{Locked, enter, lock, open_checked};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest path of a network's directory, bytes: a name is added to it, and all of it must fit
/// into an address.
pub(crate) const PATH_MAX: usize = name::PATH_MAX - name::NAME_MAX - 1;
/// A dot, which no network of channels begins with, and 16 digits.
const OWN: usize = 17;
/// Names that [`Network::sweep`] looks at, at most.
const SWEPT_MAX: usize = 4096;

/// A network, as a process of one of its programs sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    path: [u8; PATH_MAX],
    len: usize,
    uid: u32,
    carrier: u32,
}

impl Network {
    /// The network `name` of this user, in this network namespace and PID namespace; its directory
    /// is made if it is not there.
    ///
    /// # Errors
    /// What keeps the directory from being made or used, in three lines if there is much to say.
    pub fn open(name: &str) -> io::Result<Network> {
        let base = gannet_directory::open(PATH_MAX - OWN - 1)?;
        let own = format!(".{:016x}", identity(name)?);
        let path = base.path.join(&own);
        enter(&base.fd, OsStr::new(&own), &path)?;
        let uid = rustix::process::geteuid().as_raw();
        let network = Self::at(path.as_os_str().as_bytes(), uid, 0);
        network.ok_or_else(|| Errno::NAMETOOLONG.into())
    }

    /// The network whose directory is `path`, of user `uid`. `carrier` is the process that answers
    /// this one's questions, 0 when that is not known.
    pub fn at(path: &[u8], uid: u32, carrier: u32) -> Option<Network> {
        let mut network = Network {
            path: [0; PATH_MAX],
            len: path.len(),
            uid,
            carrier,
        };
        let is_path = path.starts_with(b"/") && !path.contains(&0);
        let place = network.path.get_mut(..path.len()).filter(|_| is_path)?;
        place.copy_from_slice(path);
        Some(network)
    }

    /// The same, whose questions process `carrier` answers.
    #[must_use]
    pub fn with_carrier(self, carrier: u32) -> Network {
        Network { carrier, ..self }
    }

    /// Reads what [`std::fmt::Display`] wrote: user, carrier and path.
    pub fn parse(text: &str) -> Option<Network> {
        let mut parts = text.splitn(3, ':');
        let uid = parts.next()?.parse().ok()?;
        let carrier = parts.next()?.parse().ok()?;
        Self::at(parts.next()?.as_bytes(), uid, carrier)
    }

    /// The directory's path.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.len).unwrap_or(&[])
    }

    fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path()))
    }

    /// Whether this process sees the directory, and it is the user's own. Where it is not (another
    /// user, another root directory) the carrier is asked.
    pub(crate) fn is_visible(&self) -> bool {
        // The directory as it lies in itself: to get there it has to be open to this process.
        let mut inside = [0; PATH_MAX + 2];
        let Some(place) = inside.get_mut(..self.len + 2) else {
            return false;
        };
        place[..self.len].copy_from_slice(self.path());
        place[self.len..].copy_from_slice(b"/.");
        let stat = rustix::fs::statat(CWD, &*place, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| stat.st_mode & 0o077 == 0 && stat.st_uid == self.uid)
    }

    /// Whether the process at the other end of `fd` may open streams to the network's programs and
    /// ask its carriers: one of its user's, or root's. `fd` was connected or accepted.
    pub fn admits(&self, fd: impl AsFd) -> bool {
        let Ok(peer) = credentials::of_peer(fd) else {
            return false;
        };
        let own = || peer.uid == rustix::process::geteuid().as_raw();
        peer.uid == self.uid || peer.uid == 0 || is_in_user_namespace() && own()
    }

    /// Whether the process at the other end of `fd`, to which this one connected, is its carrier.
    pub(crate) fn is_carrier(&self, fd: impl AsFd) -> bool {
        let Ok(peer) = credentials::of_peer(fd) else {
            return false;
        };
        // In another PID namespace the number is 0, in another user namespace the user is another.
        match (self.carrier, peer.pid) {
            (0, _) | (_, 0) => peer.uid == self.uid,
            (carrier, pid) => carrier == pid && (peer.uid == self.uid || is_in_user_namespace()),
        }
    }

    /// Gives `fd` a name of the network's. One that a dead process left is taken over.
    ///
    /// # Errors
    /// `ADDRINUSE` when a living socket has it; `ACCESS` or `NOENT` when this process cannot reach
    /// the directory; what the kernel says.
    pub(crate) fn bind(&self, fd: impl AsFd, name: &SocketAddrUnix) -> Result<(), Errno> {
        let path = name.path_bytes().ok_or(Errno::INVAL)?;
        for _ in 0..2 {
            match rustix::net::bind(&fd, name) {
                Err(Errno::ADDRINUSE) if self.remove_stale(name) => {}
                // Whatever the process's file mode creation mask is, its user's others connect.
                Ok(()) => return rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR),
                Err(error) => return Err(error),
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// Takes a place for listener `fd`: alone, or as one of those that share it.
    ///
    /// # Errors
    /// As [`Network::bind`].
    pub(crate) fn take(&self, fd: impl AsFd, stem: &Stem, share: bool) -> Result<(), Errno> {
        let alone = stem.listener(self, 0)?;
        if !share {
            self.bind(&fd, &alone)?;
            if self.is_shared(stem)? {
                let _ = rustix::fs::unlink(alone.path_bytes().unwrap_or_default());
                return Err(Errno::ADDRINUSE);
            }
            return Ok(());
        }
        // Held until the name is there: the marker goes when no name is.
        let directory = self.directory()?;
        let locked = lock(&directory)?;
        if is_alive(&alone) {
            return Err(Errno::ADDRINUSE);
        }
        self.mark(stem)?;
        for n in 1..=name::SHARERS {
            let name = stem.listener(self, n)?;
            match bind_over(&fd, &name, &locked) {
                Err(Errno::ADDRINUSE) => {}
                other => return other,
            }
        }
        Err(Errno::ADDRINUSE)
    }

    fn mark(&self, stem: &Stem) -> Result<(), Errno> {
        let marker = stem.marker(self)?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = marker.path_bytes().unwrap_or_default();
        rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map(drop)
    }

    /// Whether living listeners share the place.
    fn is_shared(&self, stem: &Stem) -> Result<bool, Errno> {
        if !name::exists(&stem.marker(self)?) {
            return Ok(false);
        }
        let mut names = (1..=name::SHARERS).filter_map(|n| stem.listener(self, n).ok());
        Ok(names.any(|name| is_alive(&name)))
    }

    fn directory(&self) -> Result<OwnedFd, Errno> {
        let opened = open_checked(self.as_path());
        opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
    }

    /// Removes a name that no socket has any more. True when it is gone.
    pub fn remove_stale(&self, name: &SocketAddrUnix) -> bool {
        let Some(path) = name.path_bytes() else {
            return false;
        };
        if !is_stale(name) {
            return false;
        }
        let Ok(directory) = self.directory() else {
            return false;
        };
        // Another process may have removed it and have taken the name since: looked at again by
        // the only one that may remove now.
        let Ok(_locked) = lock(&directory) else {
            return false;
        };
        let removed = is_stale(name) && rustix::fs::unlink(path).is_ok();
        if let Some(stem) = name::name_in(self, name).and_then(Stem::of) {
            self.unmark(&stem);
        }
        removed
    }

    /// Removes the marker of a place that no listeners share any more.
    fn unmark(&self, stem: &Stem) {
        let Some(marker) = stem.marker(self).ok().filter(name::exists) else {
            return;
        };
        let mut names = (1..=name::SHARERS).filter_map(|n| stem.listener(self, n).ok());
        if !names.any(|name| name::exists(&name)) {
            let _ = rustix::fs::unlink(marker.path_bytes().unwrap_or_default());
        }
    }

    /// Removes all names that dead processes left.
    pub fn sweep(&self) {
        for name in self.names().into_iter().take(SWEPT_MAX) {
            let path = self.as_path().join(&name);
            match (name.get(..2), SocketAddrUnix::new(path)) {
                (Some("s-"), _) => self.sweep_marker(&name),
                (Some("h-" | "g-" | "l-" | "a-"), Ok(name)) => drop(self.remove_stale(&name)),
                _ => {}
            }
        }
    }

    fn sweep_marker(&self, name: &str) {
        let rest = name.strip_prefix('s').unwrap_or_default();
        let stem = Stem::of(&format!("l{rest}-0"));
        if let (Some(stem), Ok(directory)) = (stem, self.directory())
            && let Ok(_locked) = lock(&directory)
        {
            self.unmark(&stem);
        }
    }

    /// What lies in the directory: unsorted, nothing when it cannot be read.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.as_path()).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.into_string().ok()).collect()
    }

    /// The program `host` has the address `ip` for as long as the result lives.
    ///
    /// # Errors
    /// What binding a name says.
    pub fn claim(&self, ip: IpAddr, host: u64) -> Result<OwnedFd, Errno> {
        let fd = stream_socket(SocketFlags::CLOEXEC)?;
        self.bind(&fd, &name::claim(self, ip, host)?)?;
        Ok(fd)
    }

    /// Whether the program `host` may have connections from `ip`, as far as this process can see.
    pub(crate) fn has_claimed(&self, ip: IpAddr, host: u64) -> bool {
        name::claim(self, ip, host).is_ok_and(|claim| name::exists(&claim))
    }

    /// A carrier has ended: the directory goes with the last of them.
    pub fn leave(&self) {
        self.sweep();
        let _ = rustix::fs::rmdir(self.path());
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = String::from_utf8_lossy(self.path());
        write!(out, "{}:{}:{path}", self.uid, self.carrier)
    }
}

/// All networks of this user's: their directories.
///
/// # Errors
/// As [`Network::open`].
pub fn all() -> io::Result<Vec<Network>> {
    let base = gannet_directory::open(PATH_MAX - OWN - 1)?;
    let uid = rustix::process::geteuid().as_raw();
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&base.path)?.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_ours = name.len() == OWN && name.as_bytes().first() == Some(&b'.');
        if is_ours && open_checked(&path).is_ok() {
            all.extend(Network::at(path.as_os_str().as_bytes(), uid, 0));
        }
    }
    Ok(all)
}

/// Whether a name is there and no socket has it: a living one of the other type says so.
fn is_stale(name: &SocketAddrUnix) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let answer = probe.map(|probe| rustix::net::connect(&probe, name));
    answer == Ok(Err(Errno::CONNREFUSED))
}

/// Whether a living socket has a name.
fn is_alive(name: &SocketAddrUnix) -> bool {
    name::exists(name) && !is_stale(name)
}

/// Binds over a name that a dead process left.
fn bind_over(fd: impl AsFd, name: &SocketAddrUnix, _: &Locked<'_>) -> Result<(), Errno> {
    let path = name.path_bytes().ok_or(Errno::INVAL)?;
    if is_stale(name) {
        rustix::fs::unlink(path)?;
    }
    rustix::net::bind(&fd, name)?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)
}

/// Tells networks of one name apart: FNV-1a, 64 bits, of what must be the same for two programs to
/// meet.
fn identity(name: &str) -> io::Result<u64> {
    let spaces = ["net", "pid"].map(namespace);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |byte: u8| {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    };
    for space in spaces {
        space?.to_le_bytes().into_iter().for_each(&mut add);
    }
    name.bytes().for_each(&mut add);
    Ok(hash)
}

/// The number of a namespace of this process: no two living ones have the same.
fn namespace(kind: &str) -> io::Result<u64> {
    let stat = rustix::fs::stat(format!("/proc/self/ns/{kind}"));
    let failed = |error: Errno| {
        let why = format!("/proc/self/ns/{kind}: {error}");
        let text = format!("cannot tell which programs to meet\nwhy: {why}\ntry: mount /proc");
        io::Error::other(text)
    };
    stat.map(|stat| stat.st_ino).map_err(failed)
}

/// Whether users have other numbers here than where the machine began.
fn is_in_user_namespace() -> bool {
    // The initial user namespace, as Linux numbers it: PROC_USER_INIT_INO.
    const INITIAL: u64 = 0xefff_fffd;
    namespace("user").is_ok_and(|inode| inode != INITIAL)
}

/// Made anew with every socket: an unconnected one of the family.
pub(crate) fn stream_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

#[cfg(test)]
pub(crate) mod tests;
