//! Which process is at the other end of a Unix socket.

#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

/// Credentials as the kernel noted them: of a process that connected when it did, of one that
/// listens when it began to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process; 0 when it has no number in this process's PID namespace.
    pub pid: u32,
    /// The effective user, as this process's user namespace numbers it.
    pub uid: u32,
}

/// Those of the process at the other end of `fd` (`SO_PEERCRED`). (rustix has no value for a
/// process without a number.)
///
/// # Errors
/// What `getsockopt` says; `NOTCONN` when nothing is there.
pub fn of_peer(fd: impl AsFd) -> Result<Credentials, Errno> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: places of our own, as long as said.
    let got = unsafe {
        let place = (&raw mut found).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut len)
    };
    if got != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    if len as usize != size_of::<libc::ucred>() || found.uid == u32::MAX {
        return Err(Errno::NOTCONN);
    }
    Ok(Credentials {
        pid: u32::try_from(found.pid).unwrap_or(0),
        uid: found.uid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (a, _b) = crate::pair::sockets();
        let uid = rustix::process::geteuid().as_raw();
        let pid = std::process::id();
        assert_eq!(of_peer(&a), Ok(Credentials { pid, uid }));
        let alone = crate::network::stream_socket(rustix::net::SocketFlags::CLOEXEC).unwrap();
        assert_eq!(of_peer(&alone), Err(Errno::NOTCONN));
        assert!(of_peer(rustix::stdio::stdin()).is_err());
    }
}
