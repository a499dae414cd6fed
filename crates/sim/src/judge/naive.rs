//! The plainest reading of what a host is handed: sums of IPv4 headers, and datagrams put together
//! from fragments. What the host makes of it is compared at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use gannet_wire::checksum::{pseudo_v4, pseudo_v6, sum};
use gannet_wire::{IpProtocol, ipv4, ipv6};

/// Datagrams that may be incomplete at a time.
const PARTS_MAX: usize = 64;

/// What one host was handed.
#[derive(Debug, Default)]
pub struct Naive {
    /// IPv4 headers with a wrong checksum, all else in order.
    pub wrong_headers: u64,
    /// Ports for which a whole datagram came in fragments.
    pub whole: BTreeSet<u16>,
    parts: BTreeMap<Key, Vec<Part>>,
}

/// Whose fragments belong together.
type Key = (IpAddr, IpAddr, u32);

/// A fragment.
#[derive(Debug)]
struct Part {
    offset: usize,
    more: bool,
    bytes: Vec<u8>,
}

impl Naive {
    /// An IP packet, perhaps with padding behind it.
    pub fn look_at(&mut self, packet: &[u8]) {
        let found = match packet.first() {
            Some(0x45) => self.four(packet),
            Some(first) if first >> 4 == 6 => six(packet),
            _ => None,
        };
        if let Some((key, part)) = found {
            self.part(key, part);
        }
    }

    fn four(&mut self, packet: &[u8]) -> Option<(Key, Part)> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if total < header.len() || total > packet.len() {
            return None;
        }
        let words = header
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = words.sum();
        if (sum & 0xffff) + (sum >> 16) != 0xffff {
            self.wrong_headers += 1;
            return None;
        }
        let place = u16::from_be_bytes([header[6], header[7]]);
        if place & 0x3fff == 0 || header[9] != IpProtocol::UDP.0 {
            return None;
        }
        let (header, _) = ipv4::Header::parse(packet).ok()?;
        let key = (header.src.into(), header.dst.into(), header.ident.into());
        let part = Part {
            offset: usize::from(place & 0x1fff) * 8,
            more: place & 0x2000 != 0,
            bytes: packet.get(20..total)?.to_vec(),
        };
        Some((key, part))
    }

    fn part(&mut self, key: Key, part: Part) {
        if self.parts.len() >= PARTS_MAX {
            self.parts.clear();
        }
        let parts = self.parts.entry(key).or_default();
        if parts.iter().any(|other| other.offset == part.offset) {
            return;
        }
        parts.push(part);
        parts.sort_by_key(|part| part.offset);
        let Some(bytes) = joined(parts) else {
            return;
        };
        self.parts.remove(&key);
        let len = bytes.len();
        let pseudo = match (key.0, key.1) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_v4(src, dst, IpProtocol::UDP, len as u16),
            (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_v6(src, dst, IpProtocol::UDP, len as u32),
            _ => return,
        };
        let right = pseudo.combine(sum(&bytes), false).finish() == 0;
        if let Some(port) = bytes.get(2..4).filter(|_| right) {
            self.whole.insert(u16::from_be_bytes([port[0], port[1]]));
        }
    }
}

fn six(packet: &[u8]) -> Option<(Key, Part)> {
    let (header, at) = ipv6::Header::parse(packet).ok()?;
    let payload = packet.get(at..at + usize::from(header.payload_len))?;
    let fragment: &[u8; 8] = payload.first_chunk()?;
    if header.next_header != IpProtocol::FRAGMENT || fragment[0] != IpProtocol::UDP.0 {
        return None;
    }
    let place = u16::from_be_bytes([fragment[2], fragment[3]]);
    let ident = u32::from_be_bytes([fragment[4], fragment[5], fragment[6], fragment[7]]);
    let part = Part {
        offset: usize::from(place & 0xfff8),
        more: place & 1 != 0,
        bytes: payload.get(8..)?.to_vec(),
    };
    Some(((header.src.into(), header.dst.into(), ident), part))
}

/// The whole, when nothing is missing and nothing overlaps.
fn joined(parts: &[Part]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        if part.offset != bytes.len() || part.more == last {
            return None;
        }
        bytes.extend_from_slice(&part.bytes);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    use gannet_stack::testing::packet;

    #[test]
    fn fragments_in_any_order_make_a_datagram() {
        let [from, to] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let ends = [(from, 7), (to, 4000)].map(|(ip, port)| std::net::SocketAddr::new(ip, port));
        let whole = packet::datagram(ends[0], ends[1], &[7; 3000]);
        let parts = packet::fragments(&whole, 9, 1000);
        for first in 0..parts.len() {
            let mut naive = Naive::default();
            for part in parts.iter().cycle().skip(first).take(parts.len()) {
                assert!(naive.whole.is_empty());
                naive.look_at(part);
            }
            assert!(naive.whole.contains(&4000));
        }
        let mut naive = Naive::default();
        let mut wrong = parts[0].clone();
        wrong[8] ^= 1;
        naive.look_at(&wrong);
        parts.iter().skip(1).for_each(|part| naive.look_at(part));
        assert_eq!((naive.wrong_headers, naive.whole.len()), (1, 0));
    }
}
