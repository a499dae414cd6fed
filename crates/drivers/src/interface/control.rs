//! One interface, to look at and to set up.

use super::{explain, sys};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

/// A network interface of the namespace that the calling thread was in when this was made.
///
/// Every error names the operation, the interface and the cause.
#[derive(Debug)]
pub struct Interface {
    /// Any socket of the namespace: the requests go through it.
    socket: OwnedFd,
    name: String,
}

/// Work that an interface may do for its users (`ethtool -K`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// `rx`: checks checksums.
    ReceiveChecksum,
    /// `tx`: completes checksums.
    SendChecksum,
    /// `tso`: cuts TCP super-segments.
    TcpSegmentation,
    /// `gso`: the kernel cuts them, as late as possible.
    LateSegmentation,
    /// `gro`: the kernel joins segments that came in.
    ReceiveMerging,
}

impl Interface {
    /// The interface `name`.
    ///
    /// # Errors
    /// `ENODEV` when there is none of that name.
    pub fn open(name: &str) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|e| explain("open a control socket for", name, e.into()))?;
        let name = name.to_owned();
        let interface = Interface { socket, name };
        interface.index()?;
        Ok(interface)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, which stays when the name changes.
    ///
    /// # Errors
    /// `ENODEV` when it went away.
    pub fn index(&self) -> io::Result<i32> {
        sys::index(self.socket.as_fd(), &self.name).map_err(|e| self.failed("find", e))
    }

    /// Largest IP packet in bytes.
    ///
    /// # Errors
    /// `ENODEV` when it went away.
    pub fn mtu(&self) -> io::Result<u32> {
        sys::mtu(self.socket.as_fd(), &self.name).map_err(|e| self.failed("read the MTU of", e))
    }

    /// Sets the MTU in bytes.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EINVAL` beyond what the kind of interface can do.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        sys::set_mtu(self.socket.as_fd(), &self.name, mtu)
            .map_err(|e| self.failed(&format!("set an MTU of {mtu} on"), e))
    }

    /// Its Ethernet address.
    ///
    /// # Errors
    /// `ENODEV` when it went away.
    pub fn hardware_address(&self) -> io::Result<[u8; 6]> {
        sys::hardware(self.socket.as_fd(), &self.name)
            .map(|(_, address)| address)
            .map_err(|e| self.failed("read the hardware address of", e))
    }

    /// Whether it is up and has a carrier.
    ///
    /// # Errors
    /// `ENODEV` when it went away.
    pub fn is_running(&self) -> io::Result<bool> {
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(self.flags()? & both == both)
    }

    /// Brings it up.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN.
    pub fn up(&self) -> io::Result<()> {
        let flags = self.flags()? | libc::IFF_UP;
        sys::set_flags(self.socket.as_fd(), &self.name, flags).map_err(|e| self.failed("start", e))
    }

    /// Takes it down.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN.
    pub fn down(&self) -> io::Result<()> {
        let flags = self.flags()? & !libc::IFF_UP;
        sys::set_flags(self.socket.as_fd(), &self.name, flags).map_err(|e| self.failed("stop", e))
    }

    /// Gives the kernel's side of it an IPv4 address; `prefix` bits of it name the network.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN; `EINVAL` for a prefix above 32 or an unfit address.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let failed = |e| self.failed(&format!("set the address {address}/{prefix} on"), e);
        let unused = 32_u32.checked_sub(u32::from(prefix));
        let Some(unused) = unused else {
            return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
        };
        let mask = u32::MAX.checked_shl(unused).unwrap_or(0);
        sys::set_address(self.socket.as_fd(), &self.name, address).map_err(failed)?;
        sys::set_netmask(self.socket.as_fd(), &self.name, Ipv4Addr::from(mask)).map_err(failed)
    }

    /// Lets the interface do this work, or leaves it to whoever sends and receives.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN; `EOPNOTSUPP` for what this kind of interface cannot change.
    pub fn set_offload(&self, offload: Offload, on: bool) -> io::Result<()> {
        // `<linux/ethtool.h>`: ETHTOOL_SRXCSUM, STXCSUM, STSO, SGSO, SGRO.
        let command = match offload {
            Offload::ReceiveChecksum => 0x15,
            Offload::SendChecksum => 0x17,
            Offload::TcpSegmentation => 0x1f,
            Offload::LateSegmentation => 0x24,
            Offload::ReceiveMerging => 0x2c,
        };
        sys::ethtool(self.socket.as_fd(), &self.name, command, u32::from(on))
            .map(drop)
            .map_err(|e| self.failed(&format!("switch {offload:?} of"), e))
    }

    fn flags(&self) -> io::Result<sys::Flags> {
        sys::flags(self.socket.as_fd(), &self.name).map_err(|e| self.failed("read the state of", e))
    }

    fn failed(&self, operation: &str, cause: io::Error) -> io::Error {
        explain(operation, &self.name, cause)
    }
}
