//! Clients on links: what they send goes out, what comes for them is handed in, and what they are
//! granted becomes the link's address and routes.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use gannet_base::{Instant, Rng};
use gannet_link::{Arena, Driver, Frame, Medium, RxChecksum, Slot};
use gannet_wire::checksum::{self, pseudo_v4};
use gannet_wire::dhcpv4::{CLIENT_PORT, MAX_LEN, SERVER_PORT};
use gannet_wire::{EtherType, IpProtocol, MacAddr, udp};

use super::client::{Action, Client, Destination, Refused, StateName};
use super::lease::Lease;
use crate::config::{ClientIdentifier, Config, DhcpConfig};
use crate::counters::DropReason;
use crate::ip::{Ip, Packet, Path, Resolution, Route, link_header};
use crate::link::{LinkAddress, LinkId};

/// The longest datagram that is looked at.
const DATAGRAM_MAX: usize = 1500;

/// The DHCP clients of a host, one at most on a link.
pub struct Dhcp {
    clients: Vec<(LinkId, Client)>,
    config: DhcpConfig,
    rng: Rng,
    /// A lease came or went, and nobody asked since.
    changed: bool,
}

impl Dhcp {
    /// No clients.
    pub fn new(config: &Config) -> Self {
        Dhcp {
            clients: Vec::new(),
            config: config.dhcp.clone(),
            rng: Rng::new(config.seed),
            changed: false,
        }
    }

    /// Begins to look for an address for `link`, `previous` first if it is given; `false` without
    /// the link, or if it is no Ethernet.
    pub(crate) fn start<D: Driver>(
        &mut self,
        ip: &Ip<D>,
        link: LinkId,
        previous: Option<Ipv4Addr>,
        identifier: Option<ClientIdentifier>,
    ) -> bool {
        let capabilities = ip.links.get(link).map(|l| l.endpoint.capabilities());
        let Some(capabilities) = capabilities.filter(|c| c.medium == Medium::Ethernet) else {
            return false;
        };
        let mac = MacAddr(capabilities.hardware_address);
        let seed = self.rng.next_u64();
        let client = Client::new(self.config.clone(), (mac, identifier), seed, previous);
        self.forget(link);
        self.clients.push((link, client));
        true
    }

    /// The link is gone, and its client with it.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.clients.retain(|(id, _)| *id != link);
    }

    /// What a link's client was granted.
    pub(crate) fn lease(&self, link: LinkId) -> Option<&Lease> {
        self.client(link)?.lease()
    }

    /// What a link's client does.
    pub(crate) fn state(&self, link: LinkId) -> Option<StateName> {
        self.client(link).map(Client::state)
    }

    /// Gives a link's address back; `false` when it has no client.
    pub(crate) fn release(&mut self, link: LinkId) -> bool {
        let found = self.clients.iter_mut().find(|(id, _)| *id == link);
        found.map(|(_, client)| client.release()).is_some()
    }

    /// Whether a lease came or went since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    fn client(&self, link: LinkId) -> Option<&Client> {
        let found = self.clients.iter().find(|(id, _)| *id == link);
        found.map(|(_, client)| client)
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.clients.iter().filter_map(|(_, c)| c.due()).min()
    }

    /// Takes a datagram that is a client's; `frame` is the IP payload, and is released then.
    #[inline]
    pub(crate) fn arrives<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        frame: &mut Frame,
    ) -> bool {
        if self.clients.is_empty() {
            return false;
        }
        self.take(ip, now, packet, frame)
    }

    fn take<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        frame: &mut Frame,
    ) -> bool {
        let client = self.clients.iter_mut().find(|(id, _)| *id == packet.link);
        let (Some((_, client)), Some(endpoint)) = (client, ip.endpoint(packet.link)) else {
            return false;
        };
        let mut buffer = [0; DATAGRAM_MAX];
        let len = endpoint.peek(frame, &mut buffer);
        let datagram = buffer.get(..len).unwrap_or(&[]);
        let Ok((header, at)) = udp::Header::parse(datagram) else {
            return false;
        };
        if (header.src_port, header.dst_port) != (SERVER_PORT, CLIENT_PORT) {
            return false;
        }
        endpoint.release_frame(frame);
        let datagram = datagram.get(..usize::from(header.length)).unwrap_or(&[]);
        let vouched = frame.checksum() == RxChecksum::Valid || !header.has_checksum();
        if !vouched && !sum_is_right(packet, datagram) {
            ip.count_drop(DropReason::UdpChecksum);
            return true;
        }
        match client.arrives(now, datagram.get(at..).unwrap_or(&[])) {
            Ok(()) => {}
            Err(Refused::Malformed) => ip.count_drop(DropReason::DhcpMalformed),
            Err(Refused::Unexpected) => ip.count_drop(DropReason::DhcpUnexpected),
        }
        true
    }

    /// Does what the clients want done by now.
    pub(crate) fn poll<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant) {
        for (link, client) in &mut self.clients {
            while let Some(address) = ip.take_conflict(*link) {
                client.conflict(address);
            }
            let mut buffer = [0; MAX_LEN];
            while let Some(action) = client.poll(now, &mut buffer) {
                let message = |len| buffer.get(..len).unwrap_or(&[]);
                match action {
                    Action::Send { len, to } => send(ip, now, *link, to, message(len)),
                    Action::Probe(address) => ip.probe(*link, address),
                    Action::Use(lease) => {
                        self.changed = true;
                        take_up(ip, *link, &lease);
                    }
                    Action::Stop(lease) => {
                        self.changed = true;
                        lay_down(ip, *link, &lease);
                    }
                }
            }
        }
    }
}

fn sum_is_right(packet: &Packet, datagram: &[u8]) -> bool {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (packet.source, packet.destination) else {
        return false;
    };
    let pseudo = pseudo_v4(from, to, IpProtocol::UDP, datagram.len() as u16);
    pseudo.combine(checksum::sum(datagram), false).finish() == 0
}

/// The link has an address from now on, and a default route if there is a router.
fn take_up<D: Driver>(ip: &mut Ip<D>, link: LinkId, lease: &Lease) {
    ip.forget_probes(link);
    let address = LinkAddress {
        address: lease.address.into(),
        prefix_len: lease.prefix_len,
    };
    if !ip.has_address(link, address) {
        ip.add_address(link, address);
    }
    ip.limit_mtu(link, lease.mtu.map(u32::from));
    match lease.routers.first() {
        Some(&router) => ip.add_route(default_route(link, router)),
        None => {
            ip.remove_route(Ipv4Addr::UNSPECIFIED.into(), 0, link);
        }
    }
}

fn lay_down<D: Driver>(ip: &mut Ip<D>, link: LinkId, lease: &Lease) {
    ip.remove_address(link, lease.address.into());
    ip.remove_route(Ipv4Addr::UNSPECIFIED.into(), 0, link);
    ip.limit_mtu(link, None);
}

fn default_route(link: LinkId, router: Ipv4Addr) -> Route {
    Route {
        network: Ipv4Addr::UNSPECIFIED.into(),
        prefix_len: 0,
        gateway: Some(router.into()),
        link,
    }
}

/// Sends one message, or counts why not: the client will try again.
fn send<D: Driver>(ip: &mut Ip<D>, now: Instant, link: LinkId, to: Destination, message: &[u8]) {
    let path = match to {
        Destination::Broadcast { from } => broadcast_path(ip, link, from),
        Destination::Server { from, server } => ip.path(Some(from.into()), server.into()).ok(),
    };
    let Some(mut path) = path else {
        ip.count_drop(DropReason::NoRoute);
        return;
    };
    let resolution = ip.resolve(now, &mut path);
    if resolution == Resolution::Failed {
        ip.count_drop(DropReason::NeighbourFailed);
        return;
    }
    let held = resolution == Resolution::Pending;
    let path = if held { ip.held_path(&path) } else { path };
    if let Err(reason) = send_along(ip, &path, held, message) {
        ip.count_drop(reason);
    }
}

fn send_along<D: Driver>(
    ip: &mut Ip<D>,
    path: &Path,
    held: bool,
    message: &[u8],
) -> Result<(), DropReason> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (path.source, path.destination) else {
        return Err(DropReason::NoRoute);
    };
    let mut arena = Arena::new();
    let endpoint = ip.endpoint(path.link).ok_or(DropReason::NoRoute)?;
    let range = endpoint.pool.reserve_whole(&mut arena, message.len());
    let range = range.ok_or(DropReason::NoMemory)?;
    endpoint.pool.close(&mut arena);
    if let Some(bytes) = endpoint.pool.bytes_mut(range) {
        bytes.copy_from_slice(message);
    }
    let length = (udp::HEADER_LEN + message.len()) as u16;
    let mut header = udp::Header {
        src_port: CLIENT_PORT,
        dst_port: SERVER_PORT,
        length,
        checksum: 0,
    };
    let sum = pseudo_v4(from, to, IpProtocol::UDP, length).combine(header.sum(), false);
    header.checksum = udp::checksum_to_send(sum.combine(checksum::sum(message), false));
    let mut slot = Slot::new();
    let place = ip.write_header(
        path,
        &mut slot,
        IpProtocol::UDP,
        udp::HEADER_LEN,
        message.len(),
    );
    let written = place.and_then(|(bytes, _)| header.emit(bytes)).is_some();
    let outcome = match written && slot.push_range(range) {
        false => Err(DropReason::LinkFull),
        true if held => {
            ip.hold(path, &slot);
            Ok(())
        }
        true => ip.send(path, &slot).map_err(|_| DropReason::LinkFull),
    };
    if let Some(endpoint) = ip.endpoint(path.link) {
        endpoint.release(range);
    }
    outcome
}

/// The way to every station of a link, for who has no address yet.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//# MUST NOT be sent, except as a source address as part of an initialization procedure by which the
//# host learns its own IP address.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//# It MUST NOT be sent, except as a source address as part of an initialization procedure by which
//# the host learns its full IP address.
fn broadcast_path<D: Driver>(ip: &Ip<D>, link: LinkId, from: Ipv4Addr) -> Option<Path> {
    let entry = ip.links.get(link)?;
    Some(Path {
        link,
        source: from.into(),
        destination: Ipv4Addr::BROADCAST.into(),
        next_hop: Ipv4Addr::BROADCAST.into(),
        mtu: entry.endpoint.capabilities().mtu,
        header: Some(link_header(entry, MacAddr::BROADCAST, EtherType::IPV4)),
        ttl: Path::TTL,
        flow_label: 0,
        tos: 0,
        may_be_cut: false,
    })
}
