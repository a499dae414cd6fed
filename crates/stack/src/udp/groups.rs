//! Multicast groups of sockets.

use core::net::{IpAddr, SocketAddr};

use gannet_link::Driver;

use super::api::Udp;
use super::socket::UdpId;
use crate::ip::Ip;
use crate::link::LinkId;

/// Why a group could not be joined or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The address is no group of a family that can be joined.
    NotAGroup,
    /// No link has the address that was given for it, or none can carry groups.
    NoLink,
    /// The socket is in the group on that link already.
    AlreadyJoined,
    /// The socket is not in the group on that link.
    NotJoined,
    /// The link has as many groups as it can have.
    TooMany,
    /// The id names no socket.
    Closed,
}

impl Udp {
    /// From now on the socket gets what is sent to its port at `group` by the link that has the
    /// address `interface` (unspecified: the one that a default route or the first address is on).
    /// Every source is taken.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn join_group<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        group: IpAddr,
        interface: IpAddr,
    ) -> Result<(), GroupError> {
        let socket = self.socket_mut(id).ok_or(GroupError::Closed)?;
        let IpAddr::V4(four) = group else {
            return Err(GroupError::NotAGroup);
        };
        if !four.is_multicast() {
            return Err(GroupError::NotAGroup);
        }
        let link = ip.group_link(interface).ok_or(GroupError::NoLink)?;
        if socket.groups.contains(&(link, group)) {
            return Err(GroupError::AlreadyJoined);
        }
        ip.join_group(link, four).map_err(|_| GroupError::TooMany)?;
        socket.groups.push((link, group));
        Ok(())
    }

    /// Takes back what [`Udp::join_group`] did.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn leave_group<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        group: IpAddr,
        interface: IpAddr,
    ) -> Result<(), GroupError> {
        let socket = self.socket_mut(id).ok_or(GroupError::Closed)?;
        let link = ip.group_link(interface).ok_or(GroupError::NoLink)?;
        let at = socket.groups.iter().position(|g| *g == (link, group));
        socket.groups.swap_remove(at.ok_or(GroupError::NotJoined)?);
        if let IpAddr::V4(four) = group {
            ip.leave_group(link, four);
        }
        Ok(())
    }

    /// The socket goes: it leaves its groups.
    pub(super) fn leave_all<D: Driver>(&mut self, ip: &mut Ip<D>, id: UdpId) {
        let groups = self.socket_mut(id).map(|s| core::mem::take(&mut s.groups));
        for (link, group) in groups.into_iter().flatten() {
            if let IpAddr::V4(four) = group {
                ip.leave_group(link, four);
            }
        }
    }

    /// What is sent to a group goes to one socket: that bound to the group, else to all addresses;
    /// and it must have joined the group on this link.
    pub(super) fn group_receiver(
        &self,
        link: LinkId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<u32> {
        let index = self.ports.receiver(&self.sockets, local, remote)?;
        let socket = self.sockets.get(index as usize)?.as_ref()?;
        socket.groups.contains(&(link, local.ip())).then_some(index)
    }
}
