//! Sockets made, connected, asked, closed.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use gannet_link::Driver;

use super::ports::{NONE, Ports};
use super::socket::{BindError, Binding, Socket, UdpError, UdpId, UdpOption, UdpStatus};
use crate::address;
use crate::config::{Config, UdpConfig};
use crate::counters::DropReason;
use crate::hash::{HashKey, Purpose};
use crate::ip::Ip;
use crate::link::LinkId;

/// First ephemeral port, as Linux has it.
const EPHEMERAL_FIRST: u16 = 32_768;
/// Number of ephemeral ports.
const EPHEMERAL_COUNT: u16 = 28_232;
/// Most sockets; ids stay below.
const SOCKETS_MAX: usize = 1 << 20;
/// Most sockets whose blocks are looked after in one poll.
const BUSY_QUOTA: usize = 256;

/// All UDP of a host.
pub struct Udp {
    pub(super) sockets: Vec<Option<Socket>>,
    free: Vec<u32>,
    pub(super) ports: Ports,
    /// Sockets whose readiness may have changed.
    ready: VecDeque<UdpId>,
    /// Sockets with blocks under way.
    busy: VecDeque<u32>,
    generation: u32,
    key: HashKey,
    /// Ephemeral ports chosen so far.
    chosen: u64,
    config: UdpConfig,
}

impl Udp {
    /// No sockets.
    pub fn new(config: &Config) -> Self {
        Udp {
            sockets: Vec::new(),
            free: Vec::new(),
            ports: Ports::new(),
            ready: VecDeque::new(),
            busy: VecDeque::new(),
            generation: 0,
            key: HashKey::new(config.secret),
            chosen: 0,
            config: config.udp.clone(),
        }
    }

    /// A socket on `local` (address 0.0.0.0: every address of ours; port 0: any free one). A socket
    /// on 0.0.0.0 and one on an address may share a port; the latter gets what is for its address.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind<D: Driver>(
        &mut self,
        ip: &Ip<D>,
        local: SocketAddr,
        how: Binding,
    ) -> Result<UdpId, BindError> {
        let local = SocketAddr::new(local.ip(), local.port()); // without a zone
        let address = local.ip();
        let several = address.is_unspecified() || address.is_multicast();
        if !several && !ip.is_local(address) && !ip.is_broadcast(address) {
            return Err(BindError::AddressNotAvailable);
        }
        let local = match local.port() {
            0 => self.ephemeral(address).ok_or(BindError::AddressInUse)?,
            _ if self.ports.taken(&self.sockets, local, how.shared)
                || self.ports.shadowed(&self.sockets, local, how) =>
            {
                return Err(BindError::AddressInUse);
            }
            _ => local,
        };
        if self.free.is_empty() && self.sockets.len() >= SOCKETS_MAX {
            return Err(BindError::TooManySockets);
        }
        self.generation = self.generation.wrapping_add(1);
        let mut socket = Socket::new(self.generation, local, &self.config);
        (socket.only_six, socket.shared) = (how.only_six, how.shared);
        socket.next = self.ports.first(local.port());
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.sockets.push(None);
                self.sockets.len() as u32 - 1
            }
        };
        if let Some(place) = self.sockets.get_mut(index as usize) {
            *place = Some(socket);
        }
        self.ports.set_first(local.port(), index);
        Ok(UdpId {
            index,
            generation: self.generation,
        })
    }

    /// A free port: from a place that nobody else can foresee, upwards (RFC 6056 section 3.3.1).
    fn ephemeral(&mut self, address: IpAddr) -> Option<SocketAddr> {
        self.chosen = self.chosen.wrapping_add(1);
        let start = self
            .key
            .hash(Purpose::PortOffset, &self.chosen.to_le_bytes());
        for step in 0..EPHEMERAL_COUNT {
            let at = (start.wrapping_add(u64::from(step)) % u64::from(EPHEMERAL_COUNT)) as u16;
            let port = EPHEMERAL_FIRST + at;
            if self.ports.first(port) == NONE {
                return Some(SocketAddr::new(address, port));
            }
        }
        None
    }

    /// From now on the socket talks to `remote` alone; `None`: to everybody again. What arrived
    /// before stays readable.
    ///
    /// # Errors
    /// [`UdpError::Closed`], [`UdpError::InvalidDestination`], [`UdpError::NoRoute`].
    pub fn connect<D: Driver>(
        &mut self,
        ip: &Ip<D>,
        id: UdpId,
        remote: Option<SocketAddr>,
    ) -> Result<(), UdpError> {
        let socket = self.socket_mut(id).ok_or(UdpError::Closed)?;
        let Some(remote) = remote else {
            (socket.remote, socket.source, socket.cached) = (None, None, None);
            return Ok(());
        };
        let zone = ip.zone_of(remote).map_err(|_| UdpError::NoRoute)?;
        let remote = address::unmapped(remote);
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(UdpError::InvalidDestination);
        }
        let bound = Some(socket.local.ip()).filter(|a| !a.is_unspecified());
        let path = ip.path_in(zone, bound, remote.ip());
        let path = path.map_err(|_| UdpError::NoRoute)?;
        (socket.remote, socket.zone) = (Some(remote), zone);
        socket.source = Some(path.source);
        socket.cached = None;
        socket.error = None;
        Ok(())
    }

    /// Closes the socket. What was sent goes on its way; what was not read is thrown away.
    pub fn close<D: Driver>(&mut self, ip: &mut Ip<D>, id: UdpId) {
        if self.socket(id).is_none() {
            return;
        }
        self.leave_all(ip, id);
        for index in 0..ip.links.len() {
            let Some((link, entry)) = ip.links.at_mut(index) else {
                break;
            };
            if let Some(socket) = self.socket_mut(id) {
                socket.queue.forget(link, &mut entry.endpoint);
                socket.blocks.abandon(link, entry);
            }
        }
        self.unlink(id);
    }

    /// Takes the socket out of its port's list and frees its place.
    fn unlink(&mut self, id: UdpId) {
        let place = self.sockets.get_mut(id.index as usize);
        let Some(socket) = place.and_then(Option::take) else {
            return;
        };
        let port = socket.local.port();
        let mut at = self.ports.first(port);
        if at == id.index {
            self.ports.set_first(port, socket.next);
        } else {
            while let Some(Some(other)) = self.sockets.get_mut(at as usize) {
                if other.next == id.index {
                    other.next = socket.next;
                    break;
                }
                at = other.next;
            }
        }
        self.busy.retain(|&i| i != id.index);
        self.free.push(id.index);
    }

    /// What can be done with a socket right now; `None` when the id names none.
    pub fn status(&self, id: UdpId) -> Option<UdpStatus> {
        let socket = self.socket(id)?;
        Some(UdpStatus {
            readable: !socket.queue.is_empty() || socket.error.is_some(),
            writable: !socket.blocked || socket.error.is_some(),
            error: socket.error,
            unread: socket.queue.bytes(),
            dropped: socket.dropped,
        })
    }

    /// Our end and, when connected, the peer's; `None` when the id names none.
    pub fn addresses(&self, id: UdpId) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let socket = self.socket(id)?;
        let own = socket.source.unwrap_or(socket.local.ip());
        let local = SocketAddr::new(own, socket.local.port());
        let seen = |other| address::as_seen_from(socket.local.ip(), other);
        Some((seen(local), socket.remote.map(seen)))
    }

    /// Sets one option; `false` when the id names no socket.
    pub fn set_option(&mut self, id: UdpId, option: UdpOption) -> bool {
        let Some(socket) = self.socket_mut(id) else {
            return false;
        };
        match option {
            UdpOption::ReceiveBuffer(bytes) => socket.queue.set_limit(bytes),
            UdpOption::WhenFull(choice) => socket.when_full = choice,
            UdpOption::SendBuffer(bytes) => socket.blocks.set_limit(bytes),
            UdpOption::OnlySix(only) => socket.only_six = only,
            UdpOption::GroupLoop(looped) => socket.group_loop = looped,
            UdpOption::Broadcast(allowed) => socket.broadcast = allowed,
            UdpOption::PathMtu(choice) => socket.path_mtu = choice,
            UdpOption::TimeToLive(hops) => socket.ttl = hops.max(1),
            UdpOption::GroupTimeToLive(hops) => socket.group_ttl = hops,
            UdpOption::GroupLink(link) => socket.group_link = link,
            UdpOption::TypeOfService(tos) => socket.tos = tos,
        }
        // The next datagram looks its path up anew, with the new setting.
        socket.cached = None;
        true
    }

    /// Takes the error that the next call would report.
    pub fn take_error(&mut self, id: UdpId) -> Option<UdpError> {
        self.socket_mut(id)?.error.take()
    }

    /// Sockets whose readiness may have changed since the last call, each once.
    pub fn take_ready(&mut self) -> Option<UdpId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(socket) = self.socket_mut(id) {
                socket.listed = false;
                return Some(id);
            }
        }
        None
    }

    /// Number of sockets.
    pub fn sockets(&self) -> usize {
        self.sockets.len() - self.free.len()
    }

    #[inline]
    pub(super) fn socket(&self, id: UdpId) -> Option<&Socket> {
        let socket = self.sockets.get(id.index as usize)?.as_ref()?;
        (socket.generation == id.generation).then_some(socket)
    }

    #[inline]
    pub(super) fn socket_mut(&mut self, id: UdpId) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(id.index as usize)?.as_mut()?;
        (socket.generation == id.generation).then_some(socket)
    }

    /// Puts a socket on the list of changed ones.
    #[inline]
    pub(super) fn notify(&mut self, index: u32) {
        let Some(Some(socket)) = self.sockets.get_mut(index as usize) else {
            return;
        };
        if !socket.listed {
            socket.listed = true;
            let generation = socket.generation;
            self.ready.push_back(UdpId { index, generation });
        }
    }

    /// Remembers that a socket has blocks under way, or waits for room.
    #[inline]
    pub(super) fn look_after(&mut self, index: u32) {
        let Some(Some(socket)) = self.sockets.get_mut(index as usize) else {
            return;
        };
        if !socket.busy {
            socket.busy = true;
            self.busy.push_back(index);
        }
    }

    /// Takes back blocks that came back to their links, and wakes senders that waited for that.
    pub(crate) fn poll<D: Driver>(&mut self, ip: &mut Ip<D>) {
        for _ in 0..self.busy.len().min(BUSY_QUOTA) {
            let Some(index) = self.busy.pop_front() else {
                break;
            };
            let Some(Some(socket)) = self.sockets.get_mut(index as usize) else {
                continue;
            };
            take_back(socket, ip);
            let woken = socket.blocked && can_send(socket, ip);
            if woken {
                socket.blocked = false;
            }
            if socket.blocked || !socket.blocks.is_empty() {
                self.busy.push_back(index);
            } else {
                socket.busy = false;
            }
            if woken {
                self.notify(index);
            }
        }
    }

    /// Nothing goes to `link` any more: what was sent is out of our hands, and sockets connected
    /// through it are told. What arrived can still be read.
    pub(crate) fn link_lost<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId) {
        for index in 0..self.sockets.len() {
            let Some(Some(socket)) = self.sockets.get_mut(index) else {
                continue;
            };
            if let Some(entry) = ip.links.get_mut(link) {
                socket.blocks.abandon(link, entry);
            }
            let cached = socket.cached.take_if(|c| c.path.link == link);
            if cached.is_some() {
                if socket.remote.is_some() {
                    socket.error = Some(UdpError::LinkGone);
                }
                socket.blocked = false;
                self.notify(index as u32);
            }
        }
    }

    /// Whether datagrams that came by `link` wait to be read.
    pub(crate) fn has_unread(&self, link: LinkId) -> bool {
        let mut sockets = self.sockets.iter().flatten();
        sockets.any(|s| s.queue.holds(link))
    }

    /// The link goes: what came by it and was not read is lost.
    pub(crate) fn link_removed<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId) {
        let Some(endpoint) = ip.endpoint(link) else {
            return;
        };
        let sockets = self.sockets.iter_mut().flatten();
        let lost = sockets.map(|s| s.queue.forget(link, endpoint)).sum();
        ip.drops.add_many(DropReason::UdpLinkGone, lost);
    }
}

fn take_back<D: Driver>(socket: &mut Socket, ip: &mut Ip<D>) {
    let mut at = 0;
    while let Some(id) = socket.blocks.link_at(at) {
        if let Some(link) = ip.links.get_mut(id) {
            socket.blocks.reclaim(id, link);
        }
        at += 1;
    }
}

/// Whether the next datagram would find room.
fn can_send<D: Driver>(socket: &mut Socket, ip: &mut Ip<D>) -> bool {
    let Some(id) = socket.cached.map(|c| c.path.link) else {
        return true;
    };
    match ip.links.get_mut(id) {
        Some(link) => socket.blocks.has_room(id, link, socket.wanted),
        None => true,
    }
}
