//! Multicast: the names of `std::net::UdpSocket`.

use super::UdpSocket;
use crate::error::{fail, time_to_live};
use crate::shard::Shard;
use gannet_stack::ip::Interface;
use gannet_stack::udp::{GroupError, SourceChange, UdpId, UdpOption};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
        self.change_group(*multiaddr, Where::At(*interface), "join", Change::Join)
    }

    /// Takes back what [`UdpSocket::join_multicast_v4`] did. Dropping the socket does it, too.
    ///
    /// # Errors
    /// `AddrNotAvailable` when the socket is not in that group there.
    pub fn leave_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.change_group(*multiaddr, Where::At(*interface), "leave", Change::Leave)
    }

    /// As [`UdpSocket::join_multicast_v4`] for IPv6. `interface` counts the host's links from 1, in
    /// the order in which they were given to the builder; 0: the one that leads to a default
    /// router, or the first with addresses of IPv6. Routers and switches are told by MLD.
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`].
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.change_group(*multiaddr, Where::Number(interface), "join", Change::Join)
    }

    /// Takes back what [`UdpSocket::join_multicast_v6`] did. Dropping the socket does it, too.
    ///
    /// # Errors
    /// `AddrNotAvailable` when the socket is not in that group there.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.change_group(*multiaddr, Where::Number(interface), "leave", Change::Leave)
    }

    /// From now on the socket gets what `source` sends to its port at `group`, beside what other
    /// sources send that it has joined so (RFC 3678). `interface` as for
    /// [`UdpSocket::join_multicast_v6`], for both families. At most ten sources of a group on a
    /// link.
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`]; `InvalidInput` when the group was joined for all
    /// sources, or `source` is no host of its family.
    pub fn join_multicast_source(
        &self,
        group: IpAddr,
        source: IpAddr,
        interface: u32,
    ) -> io::Result<()> {
        self.change_source(group, source, interface, SourceChange::Join)
    }

    /// Takes back what [`UdpSocket::join_multicast_source`] did; with the last source the group is
    /// left.
    ///
    /// # Errors
    /// `AddrNotAvailable` when it had not been joined.
    pub fn leave_multicast_source(
        &self,
        group: IpAddr,
        source: IpAddr,
        interface: u32,
    ) -> io::Result<()> {
        self.change_source(group, source, interface, SourceChange::Leave)
    }

    /// Nothing more from `source` of a group that was joined for all sources.
    ///
    /// # Errors
    /// `AddrNotAvailable` when the socket is not in the group; `InvalidInput` when it is for single
    /// sources; `AddrInUse` when `source` is blocked already.
    pub fn block_multicast_source(
        &self,
        group: IpAddr,
        source: IpAddr,
        interface: u32,
    ) -> io::Result<()> {
        self.change_source(group, source, interface, SourceChange::Block)
    }

    /// Takes back what [`UdpSocket::block_multicast_source`] did.
    ///
    /// # Errors
    /// `AddrNotAvailable` when it was not blocked.
    pub fn unblock_multicast_source(
        &self,
        group: IpAddr,
        source: IpAddr,
        interface: u32,
    ) -> io::Result<()> {
        self.change_source(group, source, interface, SourceChange::Unblock)
    }

    /// Whether what is sent to groups comes to this host's own sockets that are in them, too; so at
    /// first. One setting for IPv4 and IPv6.
    ///
    /// # Errors
    /// None.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.socket.group_loop.store(on, Ordering::Relaxed);
        self.socket.set_option(UdpOption::GroupLoop(on))
    }

    /// Whether what is sent to groups comes back.
    ///
    /// # Errors
    /// None.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        Ok(self.socket.group_loop.load(Ordering::Relaxed))
    }

    /// As [`UdpSocket::set_multicast_loop_v4`].
    ///
    /// # Errors
    /// None.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.set_multicast_loop_v4(on)
    }

    /// As [`UdpSocket::multicast_loop_v4`].
    ///
    /// # Errors
    /// None.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.multicast_loop_v4()
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

/// The link that is meant, as the application writes it.
#[derive(Clone, Copy)]
enum Where {
    At(Ipv4Addr),
    Number(u32),
}

impl Where {
    fn interface(self, shard: &Shard, group: IpAddr) -> Option<Interface> {
        match self {
            Where::At(address) => Some(IpAddr::V4(address).into()),
            Where::Number(0) if group.is_ipv4() => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into()),
            Where::Number(0) => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED).into()),
            Where::Number(number) => shard.stack.link_numbered(number).map(Interface::Link),
        }
    }
}

enum Change {
    Join,
    Leave,
    Source(SourceChange, IpAddr),
}

impl UdpSocket {
    fn change_source(
        &self,
        group: IpAddr,
        source: IpAddr,
        interface: u32,
        change: SourceChange,
    ) -> io::Result<()> {
        let what = match change {
            SourceChange::Join => "join a source of",
            SourceChange::Leave => "leave a source of",
            SourceChange::Block => "block a source of",
            SourceChange::Unblock => "unblock a source of",
        };
        let place = Where::Number(interface);
        self.change_group(group, place, what, Change::Source(change, source))
    }

    fn change_group(
        &self,
        group: impl Into<IpAddr>,
        place: Where,
        what: &str,
        change: Change,
    ) -> io::Result<()> {
        let (id, group): (UdpId, IpAddr) = (self.socket.id, group.into());
        let changed = self.socket.host.shared.call(|shard, _| {
            let interface = place.interface(shard, group).ok_or(GroupError::NoLink)?;
            match change {
                Change::Join => shard.stack.udp_join_group(id, group, interface),
                Change::Leave => shard.stack.udp_leave_group(id, group, interface),
                Change::Source(change, source) => {
                    let which = (group, source);
                    shard.stack.udp_change_source(id, which, change, interface)
                }
            }
        });
        changed.map_err(|error| failed(what, group, error))
    }
}

fn failed(what: &str, group: IpAddr, error: GroupError) -> io::Error {
    let (code, why) = match error {
        GroupError::NotAGroup => (libc::EINVAL, "it is no multicast group"),
        GroupError::NoLink => (
            libc::EADDRNOTAVAIL,
            "no link for groups is that interface\n\
             try: one of Host::addresses, 0.0.0.0, or for IPv6 0",
        ),
        GroupError::AlreadyJoined => (libc::EADDRINUSE, "the socket is in it already"),
        GroupError::NotJoined => (libc::EADDRNOTAVAIL, "the socket is not in it"),
        GroupError::TooMany => (libc::ENOBUFS, "the link has as many groups as it can have"),
        GroupError::NotASource => (libc::EINVAL, "the source is no host of its family"),
        GroupError::OtherMode => (
            libc::EINVAL,
            "it was joined for all sources, and this is about single ones, or the other way round",
        ),
        GroupError::Closed => (libc::EBADF, "the socket is closed"),
    };
    fail(code, format!("{what} the group {group}"), why)
}
