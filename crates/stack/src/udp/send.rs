//! Datagrams leave.

mod fragmented;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use gannet_base::Instant;
use gannet_link::slot::flags;
use gannet_link::{Checksum, Driver, Slot};
use gannet_wire::{IpProtocol, udp};

use super::api::Udp;
use super::blocks::{Gathered, Summing};
use super::socket::{Cached, PathMtuDiscovery, Socket, UdpError, UdpId};
use crate::address;
use crate::counters::DropReason;
use crate::ip::{Ip, Path, Resolution};
use crate::link::LinkId;

/// Longest packet, super-datagrams included.
const PACKET_MAX: usize = 65_535;
/// Most datagrams in a super-datagram that an interface has to cut; Linux's `UDP_MAX_SEGMENTS`.
const SEGMENTS_MAX: usize = 64;

/// Where datagrams go and what one frame of that link takes.
struct Target {
    path: Path,
    resolution: Resolution,
    from: u16,
    to: u16,
    /// Most payload of one datagram.
    datagram_max: usize,
    /// Most payload of one datagram that leaves whole.
    whole_max: usize,
    /// Longest packet.
    mtu: u32,
    /// Most payload of one frame, and most datagrams.
    frame_max: usize,
    segments_max: usize,
    checksum: Checksum,
}

impl Udp {
    /// Sends one datagram, to `to` or, if that is `None`, to the connected peer. Its length.
    ///
    /// # Errors
    /// See [`UdpError`].
    #[inline]
    pub fn send_to<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: UdpId,
        data: &[u8],
        to: Option<SocketAddr>,
    ) -> Result<usize, UdpError> {
        self.send_batch(ip, now, id, to, (data, data.len()))
            .map(|_| data.len())
    }

    /// Sends the datagrams that lie back to back in `data`, `size` bytes each, the last perhaps
    /// shorter; how many were taken, at least one. On links that carry super-datagrams they leave
    /// up to 64 KiB at a time.
    ///
    /// # Errors
    /// See [`UdpError`]; nothing was taken then.
    pub fn send_batch<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: UdpId,
        to: Option<SocketAddr>,
        (data, size): (&[u8], usize),
    ) -> Result<usize, UdpError> {
        let socket = self.socket_mut(id).ok_or(UdpError::Closed)?;
        let mut target = target(socket, ip, now, to)?;
        let size = size.min(data.len());
        if size > target.datagram_max {
            return Err(UdpError::TooLarge);
        }
        if size > target.whole_max {
            target.segments_max = 1;
        }
        let mut taken = 0;
        let mut rest = data;
        loop {
            let (frame, later) = rest.split_at(target.frame_len(rest.len(), size));
            let sent = match size > target.whole_max && frame.len() > target.whole_max {
                true => fragmented::send(socket, ip, &target, frame),
                false => send_frame(socket, ip, &target, (frame, size)),
            };
            if sent {
                taken += frame.len().div_ceil(size.max(1)).max(1);
                rest = later;
            } else if frame.len() > size {
                // No room for so many; perhaps for half.
                target.frame_max = frame.len() / 2;
            } else {
                break;
            }
            if rest.is_empty() {
                break;
            }
        }
        let gone = data.len() - rest.len();
        if taken > 0 && target.path.destination.is_multicast() && socket.group_loop {
            loop_back(
                socket,
                ip,
                &target,
                (data.get(..gone).unwrap_or(data), size),
            );
        }
        if taken == 0 {
            socket.blocked = true;
            socket.wanted = size.max(1);
        }
        self.look_after(id.index);
        match taken {
            0 => Err(UdpError::WouldBlock),
            taken => Ok(taken),
        }
    }

    /// Sends datagrams of any sizes to any destinations; how many were taken, at least one. Each
    /// leaves in a frame of its own ([`Udp::send_batch`] joins those of one size to one
    /// destination).
    ///
    /// # Errors
    /// See [`UdpError`]; that of the first datagram, nothing was taken then.
    pub fn send_many<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: UdpId,
        datagrams: &[(&[u8], SocketAddr)],
    ) -> Result<usize, UdpError> {
        for (taken, (data, to)) in datagrams.iter().enumerate() {
            match self.send_to(ip, now, id, data, Some(*to)) {
                Ok(_) => {}
                Err(error) if taken == 0 => return Err(error),
                Err(_) => return Ok(taken),
            }
        }
        Ok(datagrams.len())
    }
}

impl Target {
    /// How many of `len` bytes go into the next frame: whole datagrams of `size`.
    #[inline]
    fn frame_len(&self, len: usize, size: usize) -> usize {
        let most = (self.frame_max / size.max(1)).clamp(1, self.segments_max);
        len.min(most * size)
    }
}

/// Where a datagram goes. Reports, once, what went wrong earlier.
#[inline]
fn target<D: Driver>(
    socket: &mut Socket,
    ip: &mut Ip<D>,
    now: Instant,
    to: Option<SocketAddr>,
) -> Result<Target, UdpError> {
    if let Some(error) = socket.error.take() {
        return Err(error);
    }
    let (to, zone) = match to {
        Some(to) => {
            let zone = ip.zone_of(to).map_err(|_| UdpError::NoRoute)?;
            (address::unmapped(to), zone)
        }
        None => (socket.remote.ok_or(UdpError::NotConnected)?, socket.zone),
    };
    if to.port() == 0 || to.ip().is_unspecified() {
        return Err(UdpError::InvalidDestination);
    }
    let mut path = cached_path(socket, ip, to.ip(), zone)?;
    let resolution = ip.resolve(now, &mut path);
    if resolution == Resolution::Failed {
        return Err(UdpError::HostUnreachable);
    }
    if resolution == Resolution::Pending {
        path = ip.held_path(&path);
    }
    along(socket, ip, (path, resolution), to.port())
}

/// What one frame along a path takes.
#[inline]
fn along<D: Driver>(
    socket: &Socket,
    ip: &Ip<D>,
    (path, resolution): (Path, Resolution),
    to_port: u16,
) -> Result<Target, UdpError> {
    let link = ip.links.get(path.link).ok_or(UdpError::LinkGone)?;
    let capabilities = link.endpoint.capabilities();
    let block = link.endpoint.pool.block_bytes() as usize;
    let room = match capabilities.gather {
        // The first range may be what is left of a block.
        2.. => (usize::from(capabilities.gather) - 1) * block,
        _ => block - 1,
    };
    let many = capabilities.udp_segmentation && resolution == Resolution::Ready;
    let headers = path.ip_header_len() + udp::HEADER_LEN;
    let mtu = match socket.path_mtu {
        PathMtuDiscovery::Probe => capabilities.mtu,
        _ => path.mtu,
    };
    let whole_max = (mtu as usize).saturating_sub(headers).min(room);
    let datagram_max = match socket.path_mtu {
        PathMtuDiscovery::Do | PathMtuDiscovery::Probe => whole_max,
        PathMtuDiscovery::Want | PathMtuDiscovery::Dont => fragmented::payload_max(&path).min(room),
    };
    Ok(Target {
        path,
        resolution,
        from: socket.local.port(),
        to: to_port,
        datagram_max,
        whole_max,
        mtu,
        frame_max: if many {
            (PACKET_MAX - headers).min(room)
        } else {
            1
        },
        segments_max: match capabilities.checksum {
            Checksum::None => usize::MAX,
            Checksum::Partial => SEGMENTS_MAX,
            Checksum::Software => 1,
        },
        checksum: capabilities.checksum,
    })
}

/// The path used last, unless the destination or the world has changed.
#[inline]
fn cached_path<D: Driver>(
    socket: &mut Socket,
    ip: &mut Ip<D>,
    destination: IpAddr,
    zone: Option<LinkId>,
) -> Result<Path, UdpError> {
    let epoch = ip.neighbour_epoch();
    if let Some(Cached { path, epoch: then }) = &socket.cached
        && path.destination == destination
        && *then == epoch
        && zone.is_none_or(|zone| zone == path.link)
    {
        return Ok(*path);
    }
    if !socket.broadcast && ip.is_broadcast(destination) {
        return Err(UdpError::NotPermitted);
    }
    let bound = Some(socket.local.ip()).filter(|a| ip.is_local(*a));
    let source = socket.source.or(bound);
    let mut path = match destination {
        group if group.is_multicast() => {
            let source = source.filter(|s| address::same_family(*s, group));
            let own = source.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            let link = zone
                .or(socket.group_link)
                .or_else(|| ip.group_link(group, own.into()));
            let path = link.and_then(|link| ip.group_path(link, group, socket.group_ttl));
            let path = path.ok_or(UdpError::NoRoute)?;
            Path {
                source: source.unwrap_or(path.source),
                ..path
            }
        }
        _ => {
            let path = ip.path_in(zone, source, destination);
            let mut path = path.map_err(|_| UdpError::NoRoute)?;
            if socket.ttl != Path::TTL {
                // else what routers advise
                path.ttl = socket.ttl;
            }
            path
        }
    };
    path.tos = socket.tos;
    path.flow_label = ip.flow_label(&path, socket.local.port());
    path.may_be_cut = socket.path_mtu == PathMtuDiscovery::Dont;
    socket.cached = Some(Cached { path, epoch });
    Ok(path)
}

/// Sends one frame with one or many datagrams of `size`; `false`: no room.
#[inline]
fn send_frame<D: Driver>(
    socket: &mut Socket,
    ip: &mut Ip<D>,
    target: &Target,
    (payload, size): (&[u8], usize),
) -> bool {
    let id = target.path.link;
    let Some(link) = ip.links.get_mut(id) else {
        return false;
    };
    let summing = match target.checksum {
        Checksum::Software => Summing::Yes,
        Checksum::Partial | Checksum::None => Summing::No,
    };
    let Some(gathered) = socket.blocks.gather(id, link, payload, summing) else {
        return false;
    };
    let mut slot = Slot::new();
    let written = write(ip, target, &mut slot, &gathered, payload.len());
    if payload.len() > size {
        slot.set_gso_size(size as u16);
        slot.set_flags(slot.flags() | flags::GSO_UDP);
    }
    let ranges = gathered.ranges.get(..gathered.count).unwrap_or(&[]);
    let complete = written.is_some() && ranges.iter().all(|&r| slot.push_range(r));
    if complete && target.resolution == Resolution::Pending {
        ip.hold(&target.path, &slot);
        return true;
    }
    if complete && ip.send(&target.path, &slot).is_ok() {
        return true;
    }
    if let Some(link) = ip.links.get_mut(id) {
        socket.blocks.undo(id, link, &gathered);
    }
    false
}

/// What was sent to a group comes to our own sockets, too. What does not fit now is lost, as on any
/// link.
#[cold]
fn loop_back<D: Driver>(
    socket: &mut Socket,
    ip: &mut Ip<D>,
    target: &Target,
    (data, size): (&[u8], usize),
) {
    let Some(path) = ip.group_path_back(&target.path) else {
        return;
    };
    let Ok(target) = along(socket, ip, (path, Resolution::Ready), target.to) else {
        return;
    };
    let mut rest = data;
    loop {
        let (datagram, later) = rest.split_at(size.max(1).min(rest.len()));
        if !send_frame(socket, ip, &target, (datagram, size)) {
            return ip.count_drop(DropReason::LinkFull);
        }
        rest = later;
        if rest.is_empty() {
            return;
        }
    }
}

/// Writes the headers into `slot`.
#[inline]
fn write<D: Driver>(
    ip: &mut Ip<D>,
    target: &Target,
    slot: &mut Slot,
    gathered: &Gathered,
    len: usize,
) -> Option<()> {
    let path = &target.path;
    let total = u16::try_from(udp::HEADER_LEN + len).ok()?;
    let (bytes, at) = ip.write_header(path, slot, IpProtocol::UDP, udp::HEADER_LEN, len)?;
    let mut header = udp::Header {
        src_port: target.from,
        dst_port: target.to,
        length: total,
        checksum: 0,
    };
    let pseudo = || address::pseudo(path.source, path.destination, IpProtocol::UDP, total.into());
    match target.checksum {
        // Zero: none was computed; on a channel memory does not flip bits.
        Checksum::None => {}
        Checksum::Partial => header.checksum = pseudo().fold(),
        Checksum::Software => {
            let sum = pseudo().combine(header.sum(), false);
            //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.4
            //# An application MAY optionally be able to control whether a UDP checksum will be
            //# generated, but it MUST default to checksumming on.
            header.checksum = udp::checksum_to_send(sum.combine(gathered.sum, false));
        }
    }
    header.emit(bytes)?;
    match target.checksum {
        Checksum::None => slot.set_flags(flags::CSUM_VALID),
        Checksum::Partial => {
            slot.set_flags(flags::CSUM_PARTIAL);
            slot.set_checksum_place(at as u16, udp::CHECKSUM_OFFSET as u16);
        }
        Checksum::Software => {}
    }
    Some(())
}
