//! A router between links of bare IP: the hosts near it, and one link to the router that has the
//! others. It takes one off the time to live, and says so when a packet is too large for the next
//! link, or says nothing, as a black hole does.

use gannet_stack::testing::packet;
use gannet_wire::checksum::update_u16;
use gannet_wire::ipv4;

use crate::address;

/// Most bytes of a packet that an error quotes: header and 8 bytes.
const QUOTE: usize = ipv4::HEADER_LEN + 8;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const TIME_EXCEEDED: u8 = 11;

/// A router.
#[derive(Debug)]
pub struct Router {
    /// Which host is at which port.
    near: Vec<(usize, usize)>,
    /// The port that leads to all other hosts.
    far: Option<usize>,
    /// Says nothing about packets that are too large.
    silent: bool,
    /// Packets dropped: too large, time to live over, no way.
    pub drops: [u64; 3],
}

impl Router {
    /// With these hosts at these ports.
    pub fn new(near: Vec<(usize, usize)>, far: Option<usize>, silent: bool) -> Self {
        Router {
            near,
            far,
            silent,
            drops: [0; 3],
        }
    }

    /// A packet came in at `port`: what leaves, where. `mtu` tells what a port's link carries.
    pub fn forward(
        &mut self,
        port: usize,
        mut bytes: Vec<u8>,
        mtu: impl Fn(usize) -> Option<u32>,
    ) -> Option<(usize, Vec<u8>)> {
        // like other routers it looks at the header only
        let (header, _) = ipv4::Header::parse(&bytes).ok()?;
        let near = |host| self.near.iter().find(|(h, _)| *h == host).map(|(_, p)| *p);
        let out = address::host_of(header.dst.into())
            .and_then(near)
            .or(self.far);
        let Some(out) = out.filter(|out| *out != port) else {
            self.drops[2] += 1;
            return None;
        };
        if header.ttl <= 1 {
            self.drops[1] += 1;
            return self.error(port, &header, &bytes, (TIME_EXCEEDED, 0, [0; 4]));
        }
        let most = mtu(out).unwrap_or(u32::MAX);
        if bytes.len() as u64 > u64::from(most) {
            self.drops[0] += 1;
            if self.silent {
                return None;
            }
            let [_, _, a, b] = most.to_be_bytes();
            let kind = (UNREACHABLE, FRAGMENTATION_NEEDED, [0, 0, a, b]);
            return self.error(port, &header, &bytes, kind);
        }
        age(&mut bytes, header.ttl);
        Some((out, bytes))
    }

    /// An ICMP error back out of the port that the packet came in by.
    fn error(
        &self,
        port: usize,
        header: &ipv4::Header,
        bytes: &[u8],
        kind: (u8, u8, [u8; 4]),
    ) -> Option<(usize, Vec<u8>)> {
        let host = address::host_of(header.src.into())?;
        let quote = bytes.get(..QUOTE.min(bytes.len()))?;
        let from = address::router_for(host);
        Some((port, packet::icmp(from, header.src.into(), kind, quote)))
    }
}

/// Takes one off the time to live and mends the header checksum.
fn age(bytes: &mut [u8], ttl: u8) {
    let Some(header) = bytes.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else {
        return;
    };
    let old = u16::from_be_bytes([header[8], header[9]]);
    header[8] = ttl.wrapping_sub(1);
    let new = u16::from_be_bytes([header[8], header[9]]);
    let sum = u16::from_be_bytes([header[10], header[11]]);
    header[10..12].copy_from_slice(&update_u16(sum, old, new).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    use gannet_wire::IpProtocol;
    use gannet_wire::icmpv4::{Message, Quoted, Unreachable};

    fn from_0_to_1(len: usize) -> Vec<u8> {
        let (from, to) = (address::routed(0), address::routed(1));
        packet::packet(from, to, IpProtocol::UDP, &vec![7; len])
    }

    #[test]
    fn forwards_and_ages() {
        let mut router = Router::new(vec![(0, 0), (1, 1)], None, false);
        let bytes = from_0_to_1(100);
        let (port, out) = router.forward(0, bytes.clone(), |_| None).expect("a way");
        let (header, _) = ipv4::Header::parse(&out).expect("a right checksum");
        assert_eq!((port, header.ttl, out.len()), (1, 63, bytes.len()));
    }

    #[test]
    fn says_what_fits_or_is_silent() {
        let mut router = Router::new(vec![(0, 0)], Some(5), false);
        let (port, out) = router
            .forward(0, from_0_to_1(1400), |_| Some(1300))
            .expect("an error");
        let (header, at) = ipv4::Header::parse(&out).expect("sound");
        assert_eq!((port, IpAddr::V4(header.dst)), (0, address::routed(0)));
        let (message, len) = Message::parse(&out[at..]).expect("sound");
        let code = Unreachable::FRAGMENTATION_NEEDED;
        let next_hop_mtu = 1300;
        assert_eq!(
            message,
            Message::DestinationUnreachable { code, next_hop_mtu }
        );
        let quoted = Quoted::parse(&out[at + len..]).expect("a quote");
        assert_eq!(IpAddr::V4(quoted.ip.dst), address::routed(1));
        let mut silent = Router::new(vec![(0, 0)], Some(5), true);
        assert!(
            silent
                .forward(0, from_0_to_1(1400), |_| Some(1300))
                .is_none()
        );
        assert_eq!(silent.drops, [1, 0, 0]);
    }
}
