//! Datagrams longer than the path's MTU.

use core::net::IpAddr;

use gannet_link::{Checksum, Driver};
use gannet_wire::{IpProtocol, ipv4, udp};

use super::super::blocks::Summing;
use super::super::socket::Socket;
use super::Target;
use crate::address;
use crate::ip::{Ip, Parts, Path};

/// Longest payload of an IPv6 packet, and longest IPv4 packet.
const PACKET_MAX: usize = 65_535;

/// Most payload of a datagram, in however many fragments.
pub(super) const fn payload_max(path: &Path) -> usize {
    let headers = match path.destination {
        IpAddr::V4(_) => ipv4::HEADER_LEN + udp::HEADER_LEN,
        IpAddr::V6(_) => udp::HEADER_LEN,
    };
    PACKET_MAX - headers
}

/// Sends one datagram in fragments; `false`: no room.
#[cold]
pub(super) fn send<D: Driver>(
    socket: &mut Socket,
    ip: &mut Ip<D>,
    target: &Target,
    payload: &[u8],
) -> bool {
    let id = target.path.link;
    // Devices cannot complete a checksum over several packets.
    let summing = match target.checksum {
        Checksum::None => Summing::No,
        Checksum::Partial | Checksum::Software => Summing::Yes,
    };
    let Some(link) = ip.links.get_mut(id) else {
        return false;
    };
    let Some(gathered) = socket.blocks.gather(id, link, payload, summing) else {
        return false;
    };
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    let mut header = udp::Header {
        src_port: target.from,
        dst_port: target.to,
        length: len,
        checksum: 0,
    };
    if summing == Summing::Yes {
        let (source, destination) = (target.path.source, target.path.destination);
        let pseudo = address::pseudo(source, destination, IpProtocol::UDP, len.into());
        let sum = pseudo.combine(header.sum(), false);
        header.checksum = udp::checksum_to_send(sum.combine(gathered.sum, false));
    }
    let mut transport = [0; udp::HEADER_LEN];
    let _ = header.emit(&mut transport);
    let parts = Parts {
        protocol: IpProtocol::UDP,
        transport: &transport,
        payload: gathered.ranges.get(..gathered.count).unwrap_or(&[]),
    };
    let how = (&target.path, target.resolution);
    let Ok(fragments) = ip.send_in_fragments(how, target.mtu, &parts) else {
        if let Some(link) = ip.links.get_mut(id) {
            socket.blocks.undo(id, link, &gathered);
        }
        return false;
    };
    // Each of them refers to one range, or to two where a block ends.
    socket.blocks.count_more(id, fragments);
    true
}

#[cfg(test)]
mod tests;
