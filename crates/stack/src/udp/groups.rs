//! Multicast groups of sockets.

use core::net::{IpAddr, SocketAddr};

use gannet_link::Driver;

use super::api::Udp;
use super::socket::{Socket, UdpId};
use crate::ip::{Interface, Ip};
use crate::link::LinkId;

/// Why a group could not be joined or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The address is no group.
    NotAGroup,
    /// No link that can carry groups is the one that was meant.
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
    /// From now on the socket gets what is sent to its port at `group` by the link that `interface`
    /// means. Every source is taken.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn join_group<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        group: IpAddr,
        interface: Interface,
    ) -> Result<(), GroupError> {
        let socket = self.socket_mut(id).ok_or(GroupError::Closed)?;
        if !group.is_multicast() {
            return Err(GroupError::NotAGroup);
        }
        let link = ip.group_link(group, interface).ok_or(GroupError::NoLink)?;
        if socket.groups.contains(&(link, group)) {
            return Err(GroupError::AlreadyJoined);
        }
        ip.join_group(link, group)
            .map_err(|_| GroupError::TooMany)?;
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
        interface: Interface,
    ) -> Result<(), GroupError> {
        let socket = self.socket_mut(id).ok_or(GroupError::Closed)?;
        let link = ip.group_link(group, interface).ok_or(GroupError::NoLink)?;
        let at = socket.groups.iter().position(|g| *g == (link, group));
        socket.groups.swap_remove(at.ok_or(GroupError::NotJoined)?);
        ip.leave_group(link, group);
        Ok(())
    }

    /// The socket goes: it leaves its groups.
    pub(super) fn leave_all<D: Driver>(&mut self, ip: &mut Ip<D>, id: UdpId) {
        let groups = self.socket_mut(id).map(|s| core::mem::take(&mut s.groups));
        for (link, group) in groups.into_iter().flatten() {
            ip.leave_group(link, group);
        }
    }

    /// What is sent to a group goes to one socket of those that have joined it on this link, or on
    /// any when we sent it ourselves: that bound to the group, else to all addresses.
    pub(super) fn group_receiver<D: Driver>(
        &self,
        ip: &Ip<D>,
        link: LinkId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<u32> {
        let looped = ip.is_loopback(link);
        let joined = |s: &Socket| {
            let mut groups = s.groups.iter();
            groups.any(|(on, group)| *group == local.ip() && (looped || *on == link))
        };
        let (ports, sockets) = (&self.ports, &self.sockets);
        ports.receiver_among(sockets, local, remote, joined)
    }
}
