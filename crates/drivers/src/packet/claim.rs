//! What several users of one interface must not share: an address, a DHCP client identifier.
//!
//! Packet sockets of one interface do not receive each other's frames, so ARP and neighbour
//! discovery find no conflict between two programs on it. Each claim is therefore a listening Unix
//! socket with an abstract name, which lives in the interface's network namespace and ends with its
//! process:
//!
//! ```text
//! gannet/claim/<interface>/<what>/<random>
//! ```
//! The random part keeps a name from being taken beforehand. A claim counts if the kernel names a
//! holder that may have one: root, the same user, or a process with CAP_NET_RAW.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{bind, connect, listen, socket_with};
use rustix::process::getuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::channel::{PeerCredentials, peer_credentials};

/// Connections that wait at a claim: none is accepted, each is one look by another claimant.
const BACKLOG: i32 = 4096;
/// Claims that are looked at.
const LOOKS_MAX: usize = 1024;
const CAP_NET_RAW: u32 = 13;

/// A claim, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    /// Open for as long.
    _held: OwnedFd,
}

/// The process that has what was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number; 0 where it cannot be seen from here.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(f, "a process of user {}", self.uid),
            pid => write!(f, "process {pid} of user {}", self.uid),
        }
    }
}

impl Claim {
    /// Claims `what` on an interface of this network namespace. Of two that claim it at the same
    /// time neither may get it.
    ///
    /// # Errors
    /// The holder; or what the kernel says about interfaces and sockets.
    pub fn take(interface: &str, what: &str) -> io::Result<Result<Claim, Holder>> {
        Claim::take_on(interface_number(interface)?, what)
    }

    fn take_on(index: u32, what: &str) -> io::Result<Result<Claim, Holder>> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let nonce = u64::from_ne_bytes(random);
        let prefix = format!("gannet/claim/{index}/{what}/");
        let own = format!("{prefix}{nonce:016x}");
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(own.as_bytes())?)?;
        listen(&socket, BACKLOG)?;
        // Bound before the look at others: of two, one sees the other at least.
        let others = names(&prefix).filter(|name| *name != own);
        match others.take(LOOKS_MAX).find_map(|name| holder(&name)) {
            Some(holder) => Ok(Err(holder)),
            None => Ok(Ok(Claim { _held: socket })),
        }
    }
}

/// The number of an interface of this network namespace.
///
/// # Errors
/// `NotFound` when there is none of that name.
pub fn interface_number(name: &str) -> io::Result<u32> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(rustix::net::netdevice::name_to_index(socket, name)?)
}

/// The abstract names of this network namespace that begin with `prefix`; none where the kernel's
/// table cannot be read.
fn names(prefix: &str) -> impl Iterator<Item = String> {
    let table = std::fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    let mut found = Vec::new();
    for line in table.split(|byte| *byte == b'\n') {
        // Names of others need not be text.
        let line = String::from_utf8_lossy(line);
        if let Some((_, name)) = line.split_once(" @")
            && name.starts_with(prefix)
        {
            found.push(name.to_owned());
        }
    }
    found.into_iter()
}

/// The process that listens under `name`, if it may hold a claim.
fn holder(name: &str) -> Option<Holder> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    connect(&socket, &address).ok()?;
    let PeerCredentials { pid, uid } = peer_credentials(socket.as_fd()).ok()?;
    let trusted = uid == 0 || uid == getuid().as_raw() || may_use_interfaces(pid);
    trusted.then_some(Holder { pid, uid })
}

/// Whether a process has CAP_NET_RAW.
fn may_use_interfaces(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    capabilities(&status).is_some_and(|all| all >> CAP_NET_RAW & 1 == 1)
}

fn capabilities(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let effective = lines.find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(effective.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has this number.
    const NONE: u32 = u32::MAX;

    #[test]
    fn of_two_claims_the_second_names_the_first() {
        let what = format!("10.0.0.1-{}", std::process::id());
        let first = Claim::take_on(NONE, &what).unwrap().expect("free");
        let holder = Claim::take_on(NONE, &what).unwrap().unwrap_err();
        assert_eq!(holder.pid, std::process::id() as i32);
        assert_eq!(holder.uid, getuid().as_raw());
        let _other = Claim::take_on(NONE, &format!("{what}0"))
            .unwrap()
            .expect("another");
        let _other = Claim::take_on(NONE - 1, &what)
            .unwrap()
            .expect("another interface");
        drop(first);
        Claim::take_on(NONE, &what).unwrap().expect("free again");
    }

    #[test]
    fn only_the_effective_capabilities_count() {
        let status = "Name:\tx\nCapPrm:\t0000000000002000\nCapEff:\t0000000000002001\n";
        assert_eq!(capabilities(status), Some(0x2001));
        assert_eq!(capabilities("CapEff:\tx"), None);
        assert!(!may_use_interfaces(0));
    }

    /// A user without rights keeps no address from others.
    #[test]
    fn a_claim_of_another_user_does_not_count() {
        if !getuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let what = format!("10.0.0.2-{}", std::process::id());
        let name = format!("gannet/claim/{NONE}/{what}/0");
        let script = "import os, socket, sys\n\
            os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
            s = socket.socket(socket.AF_UNIX); s.bind(b'\\0' + sys.argv[1].encode())\n\
            s.listen(); print('ready', flush=True); sys.stdin.read()\n";
        let squatter = std::process::Command::new("python3")
            .args(["-c", script, &name])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut squatter) = squatter else {
            eprintln!("skipped: there is no python3");
            return;
        };
        let mut ready = [0; 6];
        let out = squatter.stdout.as_mut().unwrap();
        std::io::Read::read_exact(out, &mut ready).unwrap();
        assert!(names(&format!("gannet/claim/{NONE}/{what}/")).any(|other| other == name));
        let taken = Claim::take_on(NONE, &what).unwrap();
        drop(squatter.stdin.take());
        squatter.wait().unwrap();
        taken.expect("not kept from it");
    }
}
