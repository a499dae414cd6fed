//! Both ends of a connection in 36 bytes: what tables of very many of them are made of.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::table::Pair;
use crate::hash::FourTuple;

/// The first bytes of both addresses of a pair of IPv4 (mapped, RFC 4291 section 2.5.5.2).
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Both ends. Those of IPv4 are mapped, which no packet of IPv6 can say: such addresses are dropped
/// before anybody looks here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends([u8; 36]);

impl Ends {
    /// Both as they are elsewhere.
    pub(super) fn pair(&self) -> Pair {
        let [l @ .., p0, p1, p2, p3] = self.0;
        let (local, remote) = l.split_at(16);
        let end = |bytes: &[u8], port: [u8; 2]| {
            let octets: [u8; 16] = bytes.try_into().unwrap_or([0; 16]);
            let address = IpAddr::V6(Ipv6Addr::from(octets)).to_canonical();
            SocketAddr::new(address, u16::from_be_bytes(port))
        };
        (end(local, [p0, p1]), end(remote, [p2, p3]))
    }
}

impl From<Pair> for Ends {
    #[inline]
    fn from((local, remote): Pair) -> Self {
        Ends(FourTuple { local, remote }.bytes())
    }
}

impl Hash for Ends {
    /// Twelve bytes for IPv4.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [
            m @ ..,
            a,
            b,
            c,
            d,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            e,
            f,
            g,
            h,
            i,
            j,
            k,
            l,
        ] = self.0;
        if m == MAPPED {
            state.write(&[a, b, c, d, e, f, g, h, i, j, k, l]);
        } else {
            state.write(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_come_back() {
        for (local, remote) in [
            ("10.1.2.3:80", "192.0.2.1:65535"),
            ("[2001:db8::1]:1", "[fe80::2]:443"),
        ] {
            let pair: Pair = [local, remote]
                .map(|a| a.parse().expect("an address"))
                .into();
            assert_eq!(Ends::from(pair).pair(), pair);
        }
    }
}
