//! Multicast groups of sockets.

use core::net::{IpAddr, SocketAddr};

use gannet_link::{Driver, Endpoint, Frame, Space};

use super::api::Udp;
use super::input::strip;
use super::socket::{Socket, UdpId};
use super::sources::{Joined, Mode, SourceChange};
use crate::counters::DropReason;
use crate::ip::{Interface, Ip, Packet};
use crate::link::LinkId;

/// Why a group could not be joined or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The address is no group.
    NotAGroup,
    /// No link that can carry groups is the one that was meant.
    NoLink,
    /// The socket is in the group on that link, or has the source in its list, already.
    AlreadyJoined,
    /// The socket is not in the group on that link, or the source is not in its list.
    NotJoined,
    /// The address is no host's of the group's family.
    NotASource,
    /// The group was joined for all sources, and single ones were meant, or the other way round.
    OtherMode,
    /// The link has as many groups, or the list as many sources, as it can have.
    TooMany,
    /// The id names no socket.
    Closed,
}

impl Udp {
    /// From now on the socket gets what is sent to its port at `group` by the link that `interface`
    /// means, from every source.
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
        if socket.joined(link, group).is_some() {
            return Err(GroupError::AlreadyJoined);
        }
        ip.join_group(link, group)
            .map_err(|_| GroupError::TooMany)?;
        socket.groups.push(Joined::new(link, group, Mode::Exclude));
        Ok(())
    }

    /// Changes the sources that the socket takes of a group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn change_source<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        (group, source, change): (IpAddr, IpAddr, SourceChange),
        interface: Interface,
    ) -> Result<(), GroupError> {
        let socket = self.socket_mut(id).ok_or(GroupError::Closed)?;
        if !group.is_multicast() {
            return Err(GroupError::NotAGroup);
        }
        let link = ip.group_link(group, interface).ok_or(GroupError::NoLink)?;
        let at = match socket.joined(link, group) {
            Some(at) => at,
            None if change != SourceChange::Join => return Err(GroupError::NotJoined),
            None => {
                socket.groups.push(Joined::new(link, group, Mode::Include));
                socket.groups.len() - 1
            }
        };
        let joined = socket.groups.get_mut(at).ok_or(GroupError::NotJoined)?;
        let mut changed = joined.change(change, source);
        if changed.is_ok() && change == SourceChange::Join {
            let told = ip.join_source(link, group, source);
            changed = told.map_err(|_| GroupError::TooMany);
            if changed.is_err() {
                joined.change(SourceChange::Leave, source)?;
            }
        }
        if changed.is_ok() && change == SourceChange::Leave {
            ip.leave_source(link, group, source);
        }
        if joined.is_nothing() {
            socket.groups.swap_remove(at);
        }
        changed
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
        let at = socket.joined(link, group);
        let joined = socket.groups.swap_remove(at.ok_or(GroupError::NotJoined)?);
        leave(ip, &joined);
        Ok(())
    }

    /// The socket goes: it leaves its groups.
    pub(super) fn leave_all<D: Driver>(&mut self, ip: &mut Ip<D>, id: UdpId) {
        let groups = self.socket_mut(id).map(|s| core::mem::take(&mut s.groups));
        for joined in groups.into_iter().flatten() {
            leave(ip, &joined);
        }
    }

    /// What is sent to a group goes to every socket that has joined it on this link, or on any when
    /// we sent it ourselves, wants its source, and is bound to the group or to all addresses.
    pub(super) fn deliver_to_group<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        packet: &Packet,
        (local, remote): (SocketAddr, SocketAddr),
        frame: &mut Frame,
    ) -> Result<(), DropReason> {
        let looped = ip.is_loopback(packet.link);
        let wants = |s: &Socket| {
            let mut groups = s.groups.iter().filter(|j| looped || j.link == packet.link);
            groups.any(|j| j.group == local.ip() && j.wants(remote.ip()))
        };
        let next = |udp: &Self, from: u32| {
            let (ports, sockets) = (&udp.ports, &udp.sockets);
            ports.next_receiver(sockets, from, (local, remote), wants)
        };
        let first = self.ports.first(local.port());
        let mut found = next(self, first).ok_or(DropReason::UdpNoSocket)?;
        strip(frame);
        while let Some(other) = next(self, self.ports.behind(&self.sockets, found)) {
            // one more owner of the same bytes
            let shared = ip.endpoint(packet.link).is_some_and(|e| share(e, frame));
            let kept = match shared {
                true => self.enqueue(ip, packet, (found, remote), frame),
                false => Err(DropReason::NoMemory),
            };
            match kept {
                Ok(()) => self.notify(found),
                Err(reason) => {
                    ip.count_drop(reason);
                    if let Some(endpoint) = ip.endpoint(packet.link).filter(|_| shared) {
                        endpoint.release_frame(frame);
                    }
                }
            }
            found = other;
        }
        self.enqueue(ip, packet, (found, remote), frame)?;
        self.notify(found);
        Ok(())
    }
}

impl Socket {
    /// Where in its list the group stands.
    fn joined(&self, link: LinkId, group: IpAddr) -> Option<usize> {
        let mut groups = self.groups.iter();
        groups.position(|j| (j.link, j.group) == (link, group))
    }
}

/// One socket less wants what it was joined for.
fn leave<D: Driver>(ip: &mut Ip<D>, joined: &Joined) {
    let Joined { link, group, .. } = *joined;
    match joined.single() {
        None => ip.leave_group(link, group),
        Some(sources) => {
            for &source in sources {
                ip.leave_source(link, group, source);
            }
        }
    }
}

/// Whether what `frame` refers to has one more owner now.
fn share<D: Driver>(endpoint: &mut Endpoint<D>, frame: &Frame) -> bool {
    let pool = &mut endpoint.pool;
    for (n, &range) in frame.ranges().iter().enumerate() {
        if range.space != Space::Own || !pool.retain(range) {
            let before = frame.ranges().get(..n).unwrap_or(&[]);
            before.iter().for_each(|&range| pool.release(range));
            return false;
        }
    }
    true
}
