//! Datagrams and ICMP errors arrive.

use core::net::SocketAddr;

use gannet_base::Instant;
use gannet_link::{Arena, Driver, Endpoint, Frame, Range, RxChecksum, Space};
use gannet_wire::icmpv4::Unreachable;
use gannet_wire::{IpProtocol, udp};

use super::api::Udp;
use super::queue::datagrams;
use super::socket::{Socket, UdpError, WhenFull};
use crate::address;
use crate::counters::DropReason;
use crate::icmp::{Report, ReportKind};
use crate::ip::{Ip, Packet};

/// Payload up to this many bytes that arrived in our own segment is moved into a shared block, so
/// that it does not keep a whole one.
const TINY: usize = 256;
/// Ranges of an entry: those of a frame and one for what came inline.
const RANGES: usize = 9;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Queued, or dropped for a reason that is counted.
    Done,
    /// Nobody listens at its port; the frame is as it was.
    NoSocket,
}

impl Udp {
    /// A datagram arrives; `frame` is the IP payload, and its ranges are kept or released here,
    /// unless nobody listens.
    #[inline]
    pub(crate) fn arrives<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        packet: &Packet,
        frame: &mut Frame,
    ) -> Delivery {
        let Err(reason) = self.deliver(ip, packet, frame) else {
            return Delivery::Done;
        };
        ip.count_drop(reason);
        if reason == DropReason::UdpNoSocket {
            return Delivery::NoSocket;
        }
        if let Some(endpoint) = ip.endpoint(packet.link) {
            endpoint.release_frame(frame);
        }
        Delivery::Done
    }

    #[inline]
    fn deliver<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        packet: &Packet,
        frame: &mut Frame,
    ) -> Result<(), DropReason> {
        let header = header(ip, packet, frame)?;
        verify(ip, packet, &header, frame)?;
        let local = SocketAddr::new(packet.destination, header.dst_port);
        let remote = SocketAddr::new(packet.source, header.src_port);
        // Behind the datagram there may be more of the IP packet: not ours (RFC 768 has no name for
        // it).
        frame.truncate(usize::from(header.length));
        let found = if ip.is_local(packet.destination) {
            self.ports.receiver(&self.sockets, local, remote)
        } else if packet.destination.is_multicast() {
            return self.deliver_to_group(ip, packet, (local, remote), frame);
        } else {
            self.broadcast_receiver(local, remote)
        };
        let index = found.ok_or(DropReason::UdpNoSocket)?;
        strip(frame);
        self.enqueue(ip, packet, (index, remote), frame)?;
        self.notify(index);
        Ok(())
    }

    /// A broadcast goes to one socket: that bound to the broadcast address, else to all addresses.
    fn broadcast_receiver(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let index = self.ports.receiver(&self.sockets, local, remote)?;
        let socket = self.sockets.get(index as usize)?.as_ref()?;
        let bound = socket.local.ip();
        (bound.is_unspecified() || bound == local.ip()).then_some(index)
    }

    /// Puts the payload, which is all that is left of `frame`, into a socket's queue.
    #[inline]
    pub(super) fn enqueue<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        packet: &Packet,
        (index, from): (u32, SocketAddr),
        frame: &mut Frame,
    ) -> Result<(), DropReason> {
        let len = frame.len() as u32;
        let size = match frame.gso_size() {
            size if size > 0 && frame.is_gso_udp() => u32::from(size),
            _ => len,
        };
        let place = self.sockets.get_mut(index as usize);
        let socket = place
            .and_then(Option::as_mut)
            .ok_or(DropReason::UdpNoSocket)?;
        let space = frame.ranges().first().map_or(Space::Own, |r| r.space);
        if !socket.queue.has_room(len, space) {
            make_room(ip, socket, len, size, space)?;
        }
        let from = address::as_seen_from(socket.local.ip(), from);
        let from = address::zoned(from, packet.link.zone());
        let link = ip.links.get_mut(packet.link).ok_or(DropReason::NoMemory)?;
        let kept = keep(&mut link.endpoint, &mut link.small, frame, space)?;
        let ranges = kept.ranges.get(..kept.count).unwrap_or(&[]);
        socket
            .queue
            .push((from, packet.link), (len, size), space, ranges);
        Ok(())
    }

    /// An ICMP error about a datagram. Only a connected socket can tell that it sent it.
    pub(crate) fn icmp_error<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, report: &Report) {
        let found = self
            .ports
            .receiver(&self.sockets, report.local, report.remote);
        let place = found.and_then(|index| self.sockets.get_mut(index as usize));
        let Some(socket) = place.and_then(Option::as_mut) else {
            ip.count_drop(DropReason::IcmpForeignQuote);
            return;
        };
        let connected = socket.remote == Some(report.remote);
        match report.kind {
            ReportKind::FragmentationNeeded(mtu) if connected => {
                ip.reduce_mtu(report.remote.ip(), u32::from(mtu), now);
            }
            //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.3
            //# UDP MUST pass to the application layer all ICMP error messages that it receives from
            //# the IP layer.
            ReportKind::Unreachable(code) if connected => {
                socket.error = Some(match Unreachable(code) {
                    Unreachable::PORT | Unreachable::PROTOCOL => UdpError::Refused,
                    _ => UdpError::HostUnreachable,
                });
                if let Some(index) = found {
                    self.notify(index);
                }
            }
            _ => ip.count_drop(DropReason::IcmpForeignQuote),
        }
    }
}

/// The queue is full: lets go of the oldest datagrams if the socket wants that, else of the one
/// that has come.
#[cold]
fn make_room<D: Driver>(
    ip: &mut Ip<D>,
    socket: &mut Socket,
    len: u32,
    size: u32,
    space: Space,
) -> Result<(), DropReason> {
    if socket.when_full == WhenFull::DropOldest && socket.queue.could_hold(len, space) {
        while !socket.queue.has_room(len, space) {
            let Some(lost) = socket.queue.drop_oldest(&mut ip.links) else {
                break;
            };
            socket.dropped += lost;
            ip.drops.add_many(DropReason::UdpReceiveOld, lost);
        }
    }
    if socket.queue.has_room(len, space) {
        return Ok(());
    }
    socket.dropped += datagrams(len, size);
    Err(DropReason::UdpReceiveFull)
}

/// Takes the header off.
#[inline]
pub(super) fn strip(frame: &mut Frame) {
    frame.strip(udp::HEADER_LEN);
}

/// The header, from wherever it lies.
#[inline]
//= https://www.rfc-editor.org/rfc/rfc768
//# The UDP module must be able to determine the source and destination internet addresses and the
//# protocol field from the internet header.
fn header<D: Driver>(
    ip: &mut Ip<D>,
    packet: &Packet,
    frame: &Frame,
) -> Result<udp::Header, DropReason> {
    let mut buffer = [0; udp::HEADER_LEN];
    let head = frame.head();
    let bytes = if head.len() >= udp::HEADER_LEN {
        head
    } else {
        let endpoint = ip.endpoint(packet.link).ok_or(DropReason::UdpLength)?;
        let n = endpoint.peek(frame, &mut buffer);
        buffer.get(..n).unwrap_or(&[])
    };
    let parsed = udp::Header::parse_split(bytes, frame.len());
    parsed.map(|(h, _)| h).map_err(|_| DropReason::UdpLength)
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.4
//# If a UDP datagram is received with a checksum that is non-zero and invalid, UDP MUST silently
//# discard the datagram.
#[inline]
//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.4
//# A host MUST implement the facility to generate and validate UDP checksums.
fn verify<D: Driver>(
    ip: &mut Ip<D>,
    packet: &Packet,
    header: &udp::Header,
    frame: &mut Frame,
) -> Result<(), DropReason> {
    if frame.checksum() == RxChecksum::Valid {
        return Ok(());
    }
    if !header.has_checksum() {
        //= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
        //# IPv6 receivers must discard UDP packets containing a zero checksum
        return match packet.source.is_ipv6() {
            true => Err(DropReason::UdpChecksum),
            false => Ok(()),
        };
    }
    frame.truncate(usize::from(header.length));
    let (source, destination) = (packet.source, packet.destination);
    let pseudo = address::pseudo(source, destination, IpProtocol::UDP, header.length.into());
    let sum = ip.frame_sum(packet.link, frame).combine(pseudo, false);
    match sum.finish() {
        0 => Ok(()),
        _ if planted!(NoUdpChecksum) => Ok(()),
        _ => Err(DropReason::UdpChecksum),
    }
}

/// Payload that stays after the frame is gone.
struct Kept {
    ranges: [Range; RANGES],
    count: usize,
}

/// The payload's ranges; inline bytes, and tiny payloads in our own segment, move to the arena.
#[inline]
fn keep<D: Driver>(
    endpoint: &mut Endpoint<D>,
    arena: &mut Arena,
    frame: &Frame,
    space: Space,
) -> Result<Kept, DropReason> {
    let mut kept = Kept {
        ranges: [Range::EMPTY; RANGES],
        count: 0,
    };
    let tiny = space == Space::Own && frame.len() <= TINY;
    let moved = if tiny {
        frame.len()
    } else {
        frame.head().len()
    };
    if moved > 0 {
        let range = endpoint.pool.reserve_whole(arena, moved);
        let range = range.ok_or(DropReason::NoMemory)?;
        let mut buffer = [0; TINY];
        let bytes = buffer.get_mut(..moved).unwrap_or(&mut []);
        endpoint.peek(frame, bytes);
        if let Some(to) = endpoint.pool.bytes_mut(range) {
            to.copy_from_slice(bytes);
        }
        kept.push(range);
    }
    for &range in frame.ranges() {
        if tiny || range.len == 0 {
            endpoint.release(range);
        } else {
            kept.push(range);
        }
    }
    Ok(kept)
}

impl Kept {
    #[inline]
    fn push(&mut self, range: Range) {
        if let Some(place) = self.ranges.get_mut(self.count) {
            *place = range;
            self.count += 1;
        }
    }
}
