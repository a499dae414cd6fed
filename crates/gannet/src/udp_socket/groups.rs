//! Multicast: the names of `std::net::UdpSocket`, for IPv4.
//!
//! What std has and this does not: `set_multicast_loop_v4` (what is sent to a group never comes
//! back to this host) and IPv6.

use super::UdpSocket;
use crate::error::{fail, time_to_live};
use gannet_stack::udp::{GroupError, UdpOption};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;

impl UdpSocket {
    /// From now on the socket gets what is sent to its port at the group `multiaddr` by the link
    /// that has the address `interface` (0.0.0.0: the one that leads to the default gateway, or the
    /// first), from whatever source. Routers and switches are told by IGMP.
    ///
    /// # Errors
    /// `InvalidInput` when it is no group; `AddrNotAvailable` when no Ethernet or TUN link has the
    /// interface's address; `AddrInUse` when the socket is in the group already.
    pub fn join_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        let (id, group, at) = (
            self.socket.id,
            IpAddr::V4(*multiaddr),
            IpAddr::V4(*interface),
        );
        let shared = &self.socket.host.shared;
        let joined = shared.call(|shard, _| shard.stack.udp_join_group(id, group, at));
        joined.map_err(|error| failed("join", multiaddr, error))
    }

    /// Takes back what [`UdpSocket::join_multicast_v4`] did. Dropping the socket does it, too.
    ///
    /// # Errors
    /// `AddrNotAvailable` when the socket is not in that group there.
    pub fn leave_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        let (id, group, at) = (
            self.socket.id,
            IpAddr::V4(*multiaddr),
            IpAddr::V4(*interface),
        );
        let shared = &self.socket.host.shared;
        let left = shared.call(|shard, _| shard.stack.udp_leave_group(id, group, at));
        left.map_err(|error| failed("leave", multiaddr, error))
    }

    /// Sets the time to live of what is sent to groups; 1 at first, so that it stays on the link.
    ///
    /// # Errors
    /// `InvalidInput` when it is 0 or above 255.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        let hops = time_to_live(ttl)?;
        self.socket.group_ttl.store(hops, Ordering::Relaxed);
        self.socket.set_option(UdpOption::GroupTimeToLive(hops))
    }

    /// The time to live of what is sent to groups.
    ///
    /// # Errors
    /// None.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        Ok(self.socket.group_ttl.load(Ordering::Relaxed).into())
    }
}

fn failed(what: &str, group: &Ipv4Addr, error: GroupError) -> io::Error {
    let (code, why) = match error {
        GroupError::NotAGroup => (libc::EINVAL, "it is no multicast group"),
        GroupError::NoLink => (
            libc::EADDRNOTAVAIL,
            "no link has the interface's address\ntry: one of Host::addresses, or 0.0.0.0",
        ),
        GroupError::AlreadyJoined => (libc::EADDRINUSE, "the socket is in it already"),
        GroupError::NotJoined => (libc::EADDRNOTAVAIL, "the socket is not in it"),
        GroupError::TooMany => (libc::ENOBUFS, "the link has as many groups as it can have"),
        GroupError::Closed => (libc::EBADF, "the socket is closed"),
    };
    fail(code, format!("{what} the group {group}"), why)
}
