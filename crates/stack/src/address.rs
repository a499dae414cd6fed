//! Addresses of both families: what they mean, and networks of them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::num::NonZero;

use gannet_wire::IpProtocol;
use gannet_wire::checksum::{Sum, pseudo_v4, pseudo_v6};

/// Whether `address` is 255.255.255.255. IPv6 has no broadcasts.
#[inline]
pub fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(four) if four.is_broadcast())
}

/// Whether two addresses are of one family.
#[inline]
pub const fn same_family(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4()
}

/// The unspecified address of the family of `like`: 0.0.0.0 or `::`.
pub const fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Bits of an address of this family: 32 or 128.
pub const fn bits(of: IpAddr) -> u8 {
    match of {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Whether `address` is in the network of `of`, whose leading `prefix_len` bits are the network's.
#[inline]
pub const fn contains(of: IpAddr, prefix_len: u8, address: IpAddr) -> bool {
    match (of, address) {
        (IpAddr::V4(of), IpAddr::V4(address)) => {
            (of.to_bits() ^ address.to_bits()) & mask(prefix_len) == 0
        }
        (IpAddr::V6(of), IpAddr::V6(address)) => {
            let differ = of.to_bits() ^ address.to_bits();
            prefix_len == 0 || differ.leading_zeros() >= prefix_len as u32
        }
        _ => false,
    }
}

/// The leading bits that are the network's, of IPv4.
pub const fn mask(prefix_len: u8) -> u32 {
    match prefix_len {
        0 => 0,
        1..=31 => u32::MAX << (32 - prefix_len),
        _ => u32::MAX,
    }
}

/// 16 bytes that name an address: those of IPv4 mapped (RFC 4291 section 2.5.5.2).
pub fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    }
}

/// The sum over the pseudo-header of a packet between two addresses of one family: `len` bytes of
/// transport header and payload.
#[inline]
//= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
//# Any transport or other upper-layer protocol that includes the addresses from the IP header in
//# its checksum computation must be modified for use over IPv6, to include the 128-bit IPv6
//# addresses instead of 32-bit IPv4 addresses.
pub fn pseudo(source: IpAddr, destination: IpAddr, protocol: IpProtocol, len: u32) -> Sum {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let len = u16::try_from(len).unwrap_or(u16::MAX);
            pseudo_v4(source, destination, protocol, len)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            pseudo_v6(source, destination, protocol, len)
        }
        // nothing makes such a packet
        _ => Sum::new(),
    }
}

/// As packets know it: an IPv4-mapped address (`::ffff:a.b.c.d`) as the IPv4 address that it stands
/// for, any other of IPv6 without its zone, which [`zone`] tells.
pub fn unmapped(at: SocketAddr) -> SocketAddr {
    match at {
        SocketAddr::V6(_) => SocketAddr::new(at.ip().to_canonical(), at.port()),
        SocketAddr::V4(_) => at,
    }
}

/// The number of the zone, which is the link's, that an address means which is valid on one link
/// alone (RFC 4007, RFC 3493 section 3.3).
pub fn zone(at: SocketAddr) -> Option<NonZero<u32>> {
    match at {
        SocketAddr::V6(six) if is_of_one_link(*six.ip()) => NonZero::new(six.scope_id()),
        _ => None,
    }
}

/// The same with its zone, where it needs one.
pub fn zoned(at: SocketAddr, number: u32) -> SocketAddr {
    match at {
        SocketAddr::V6(six) if is_of_one_link(*six.ip()) => {
            SocketAddrV6::new(*six.ip(), six.port(), 0, number).into()
        }
        _ => at,
    }
}

/// Whether an address means somebody else on another link: link-local ones, of groups as well.
fn is_of_one_link(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_unicast_link_local() || (first == 0xff && second & 0xf <= 2)
}

/// `other` as a socket bound to `local` sees it: one of IPv6 sees hosts of IPv4 mapped (RFC 3493
/// section 3.7).
pub fn as_seen_from(local: IpAddr, other: SocketAddr) -> SocketAddr {
    match (local, other) {
        (IpAddr::V6(_), SocketAddr::V4(four)) => {
            SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port())
        }
        _ => other,
    }
}

/// Whether a socket bound to `bound`, `only_six` or not, takes what is for `address`.
pub const fn takes(bound: IpAddr, only_six: bool, address: IpAddr) -> bool {
    match (bound, address) {
        (IpAddr::V4(bound), IpAddr::V4(address)) => {
            bound.is_unspecified() || bound.to_bits() == address.to_bits()
        }
        (IpAddr::V6(bound), IpAddr::V6(address)) => {
            bound.is_unspecified() || bound.to_bits() == address.to_bits()
        }
        (IpAddr::V6(bound), IpAddr::V4(_)) => bound.is_unspecified() && !only_six,
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_both_families() {
        for (of, len, address, inside) in [
            ("10.1.2.3", 24, "10.1.2.255", true),
            ("10.1.2.3", 24, "10.1.3.0", false),
            ("10.1.2.3", 0, "255.255.255.255", true),
            ("2001:db8::1", 64, "2001:db8::ffff:1", true),
            ("2001:db8::1", 64, "2001:db8:0:1::1", false),
            ("2001:db8::1", 128, "2001:db8::1", true),
            ("2001:db8::1", 128, "2001:db8::", false),
            ("::", 0, "ffff::", true),
            ("::", 0, "1.2.3.4", false),
            ("0.0.0.0", 0, "::1", false),
        ] {
            let [of, address] = [of, address].map(|a| a.parse().expect("an address"));
            assert_eq!(contains(of, len, address), inside, "{of}/{len} {address}");
        }
    }
}
