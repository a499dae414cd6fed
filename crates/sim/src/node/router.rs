//! A router between links of bare IP: the hosts near it, and one link to the router that has the
//! others. It takes one off the time to live, and says so when a packet is too large for the next
//! link, or says nothing, as a black hole does.

use std::net::IpAddr;

use gannet_stack::testing::packet;
use gannet_wire::checksum::update_u16;
use gannet_wire::{ipv4, ipv6};

use crate::address::{self, Family};
use crate::buffer::Buffer;

/// Most bytes of a packet that an error quotes: header and 8 bytes; over IPv6 what fits into the
/// least MTU (RFC 4443 section 2.4 (c)).
const QUOTE_V4: usize = ipv4::HEADER_LEN + 8;
const QUOTE_V6: usize = ipv6::MIN_MTU as usize - ipv6::HEADER_LEN - 8;

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
        mut bytes: Buffer,
        mtu: impl Fn(usize) -> Option<u32>,
    ) -> Option<(usize, Buffer)> {
        // like other routers it looks at the header only
        let head = Head::parse(&bytes)?;
        if head.stays_on_link() {
            return None;
        }
        let near = |host| self.near.iter().find(|(h, _)| *h == host).map(|(_, p)| *p);
        let out = address::host_of(head.dst).and_then(near).or(self.far);
        let Some(out) = out.filter(|out| *out != port) else {
            self.drops[2] += 1;
            return None;
        };
        if head.hops <= 1 {
            self.drops[1] += 1;
            return self.error(port, &head, &bytes, Error::TimeExceeded);
        }
        let most = mtu(out).unwrap_or(u32::MAX);
        if bytes.len() as u64 > u64::from(most) {
            self.drops[0] += 1;
            if self.silent {
                return None;
            }
            return self.error(port, &head, &bytes, Error::TooBig(most));
        }
        head.age(&mut bytes);
        Some((out, bytes))
    }

    /// An ICMP error back out of the port that the packet came in by.
    fn error(
        &self,
        port: usize,
        head: &Head,
        bytes: &[u8],
        error: Error,
    ) -> Option<(usize, Buffer)> {
        let host = address::host_of(head.src)?;
        let from = head.family().router_for(host);
        let quote = |most: usize| bytes.get(..most.min(bytes.len())).unwrap_or_default();
        let packet = match (from, head.src) {
            (IpAddr::V6(router), IpAddr::V6(to)) => {
                packet::icmp_six(router, to, error.six(), quote(QUOTE_V6))
            }
            _ => packet::icmp(from, head.src, error.four(), quote(QUOTE_V4)),
        };
        Some((port, packet.into()))
    }
}

/// What a router tells a sender.
#[derive(Clone, Copy)]
enum Error {
    /// The packet does not fit into the next link, which takes so much.
    TooBig(u32),
    /// It has travelled too far.
    TimeExceeded,
}

impl Error {
    /// RFC 792, RFC 1191: type, code, and what follows the checksum.
    fn four(self) -> (u8, u8, [u8; 4]) {
        match self {
            Error::TooBig(mtu) => {
                let [_, _, a, b] = mtu.to_be_bytes();
                (3, 4, [0, 0, a, b])
            }
            Error::TimeExceeded => (11, 0, [0; 4]),
        }
    }

    /// RFC 4443 sections 3.2 and 3.3.
    fn six(self) -> (u8, u8, [u8; 4]) {
        match self {
            Error::TooBig(mtu) => (2, 0, mtu.to_be_bytes()),
            Error::TimeExceeded => (3, 0, [0; 4]),
        }
    }
}

/// What a router looks at.
struct Head {
    src: IpAddr,
    dst: IpAddr,
    hops: u8,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Head> {
        match bytes.first()? >> 4 {
            4 => {
                let (header, _) = ipv4::Header::parse(bytes).ok()?;
                Some(Head {
                    src: header.src.into(),
                    dst: header.dst.into(),
                    hops: header.ttl,
                })
            }
            _ => {
                let (header, _) = ipv6::Header::parse(bytes).ok()?;
                Some(Head {
                    src: header.src.into(),
                    dst: header.dst.into(),
                    hops: header.hop_limit,
                })
            }
        }
    }

    fn family(&self) -> Family {
        match self.src {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// Whether it is for a group, or for neighbours only (RFC 4291 section 2.5.6).
    fn stays_on_link(&self) -> bool {
        let of_link = |address| match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        self.dst.is_multicast() || of_link(self.dst) || of_link(self.src)
    }

    /// Takes one off the time to live; IPv4's header checksum is mended.
    fn age(&self, bytes: &mut [u8]) {
        let hops = self.hops.wrapping_sub(1);
        if let (Family::V6, Some(at)) = (self.family(), bytes.get_mut(7)) {
            *at = hops;
            return;
        }
        let Some(header) = bytes.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else {
            return;
        };
        let old = u16::from_be_bytes([header[8], header[9]]);
        header[8] = hops;
        let new = u16::from_be_bytes([header[8], header[9]]);
        let sum = u16::from_be_bytes([header[10], header[11]]);
        header[10..12].copy_from_slice(&update_u16(sum, old, new).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::icmpv4::{Message, Quoted, Unreachable};
    use gannet_wire::{IpProtocol, icmpv6};

    fn from_0_to_1(len: usize) -> Buffer {
        let (from, to) = (Family::V4.routed(0), Family::V4.routed(1));
        packet::packet(from, to, IpProtocol::UDP, &vec![7; len]).into()
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
        assert_eq!((port, IpAddr::V4(header.dst)), (0, Family::V4.routed(0)));
        let (message, len) = Message::parse(&out[at..]).expect("sound");
        let code = Unreachable::FRAGMENTATION_NEEDED;
        let next_hop_mtu = 1300;
        assert_eq!(
            message,
            Message::DestinationUnreachable { code, next_hop_mtu }
        );
        let quoted = Quoted::parse(&out[at + len..]).expect("a quote");
        assert_eq!(IpAddr::V4(quoted.ip.dst), Family::V4.routed(1));
        let mut silent = Router::new(vec![(0, 0)], Some(5), true);
        assert!(
            silent
                .forward(0, from_0_to_1(1400), |_| Some(1300))
                .is_none()
        );
        assert_eq!(silent.drops, [1, 0, 0]);
    }

    #[test]
    fn ipv6_likewise() {
        let six = |address: IpAddr| match address {
            IpAddr::V6(six) => six,
            IpAddr::V4(_) => unreachable!(),
        };
        let [from, to] = [0, 1].map(|host| six(Family::V6.routed(host)));
        let bytes = |len: usize| packet::six(from, to, (IpProtocol::UDP, 64), &vec![7; len]);
        let mut router = Router::new(vec![(0, 0), (1, 1)], None, false);
        let (port, out) = router
            .forward(0, bytes(100).into(), |_| None)
            .expect("a way");
        let (header, _) = ipv6::Header::parse(&out).expect("sound");
        assert_eq!((port, header.hop_limit, out.len()), (1, 63, 140));
        let (port, out) = router
            .forward(0, bytes(1400).into(), |_| Some(1300))
            .expect("an error");
        let (header, at) = ipv6::Header::parse(&out).expect("sound");
        assert_eq!((port, header.dst, out.len()), (0, from, 1280));
        let (message, _) =
            icmpv6::Message::parse(&out[at..], header.src, header.dst).expect("a checksum");
        assert_eq!(message, icmpv6::Message::PacketTooBig { mtu: 1300 });
        // neighbours' affairs go no further
        let group = "ff02::1".parse().expect("an address");
        let bytes = packet::six(from, group, (IpProtocol::UDP, 64), b"to all");
        assert!(router.forward(0, bytes.into(), |_| None).is_none());
    }
}
