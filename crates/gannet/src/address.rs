//! Addresses as people write them, and which of them this host can use.

use crate::error::fail;
use gannet_stack::address::{bits, contains};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};

/// An address with the length of its network prefix, written `10.0.0.1/24` or `fd00::1/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) address: IpAddr,
    /// 0 to 32, or 128 for IPv6.
    pub(crate) len: u8,
}

impl Prefix {
    /// Reads `10.0.0.1/24`; without a slash all bits count.
    pub(crate) fn parse(text: &str) -> io::Result<Prefix> {
        let (address, len) = text.split_once('/').unwrap_or((text, ""));
        let parsed: Option<(IpAddr, u8)> = address.parse().ok().and_then(|address| {
            let len = match len {
                "" if !text.contains('/') => bits(address),
                len => len.parse().ok()?,
            };
            Some((address, len))
        });
        match parsed {
            Some((address, len)) if len <= bits(address) => Ok(Prefix { address, len }),
            _ => Err(fail(
                libc::EINVAL,
                format!("{text:?} is no address with a prefix length"),
                "a number out of range, or another notation\ntry: 10.0.0.1/24",
            )),
        }
    }

    /// As [`Prefix::parse`], an address that a host can have.
    pub(crate) fn parse_own(text: &str) -> io::Result<Prefix> {
        let own = Prefix::parse(text)?;
        let refused = |why| {
            let why = format!("{why}\ntry: one host's address, such as 10.0.0.1/24");
            fail(libc::EINVAL, format!("be {text}"), why)
        };
        unusable(own.address, own.len).map_or(Ok(own), |why| Err(refused(why)))
    }

    /// Whether `other` is in the same network.
    pub(crate) fn contains(&self, other: IpAddr) -> bool {
        contains(self.address, self.len, other)
    }
}

/// Why no host can have this address, with this length of its network's prefix; `None`: one can.
pub(crate) fn unusable(address: IpAddr, len: u8) -> Option<&'static str> {
    let (number, is_limited_broadcast) = match address {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), ip.is_broadcast()),
        IpAddr::V6(ip) => (u128::from(ip), false),
    };
    let hosts = 1u128.checked_shl(u32::from(bits(address).saturating_sub(len)));
    let last = hosts.map_or(u128::MAX, |hosts| hosts - 1);
    // Of two addresses each is a host's (RFC 3021, RFC 6164).
    let is_network = last > 1 && number & last == 0;
    let is_broadcast = address.is_ipv4() && last > 1 && number & last == last;
    let first = (number >> bits(address).saturating_sub(8)) as u8;
    match address {
        _ if len == 0 => Some("a prefix of no bits takes every address for a neighbour's"),
        _ if address.is_unspecified() => Some("it stands for no address"),
        _ if address.is_loopback() => Some("it is a loopback address, which every host has"),
        _ if address.is_multicast() => Some("it is a multicast address, which names a group"),
        _ if is_limited_broadcast => Some("it is the limited broadcast address"),
        IpAddr::V4(_) if first == 0 => Some("0.0.0.0/8 names hosts of this network (RFC 1122)"),
        IpAddr::V4(_) if is_network => Some("it is the network's own address, not a host's"),
        IpAddr::V6(_) if is_network => {
            Some("it is the anycast address of the network's routers (RFC 4291)")
        }
        _ if is_broadcast => Some("it is the network's broadcast address"),
        _ => None,
    }
}

/// Whether the kernel of this network namespace has `address` on any interface; a link-local one
/// of IPv6 on the interface with the number `scope`.
pub(crate) fn is_kernels(address: IpAddr, scope: u32) -> bool {
    // To an address of its own the kernel speaks from that address, and only there.
    let (any, to): (SocketAddr, SocketAddr) = match address {
        IpAddr::V4(_) => (([0; 4], 0).into(), (address, 9).into()),
        IpAddr::V6(ip) => {
            let scope = if ip.is_unicast_link_local() { scope } else { 0 };
            let to = SocketAddrV6::new(ip, 9, 0, scope);
            ((Ipv6Addr::UNSPECIFIED, 0).into(), to.into())
        }
    };
    let own = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    own.is_ok_and(|own| own.ip() == address)
}

/// The addresses a name stands for, or a list of them.
pub(crate) fn resolve(to: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = to.to_socket_addrs()?.collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(fail(
            libc::EINVAL,
            "use an empty list of addresses",
            "no address to connect or bind to",
        )),
    }
}

/// The first address among those `to` stands for.
pub(crate) fn resolve_one(to: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let all = resolve(to)?;
    all.first()
        .copied()
        .ok_or_else(|| fail(libc::EINVAL, "use no address", "the list is empty"))
}

/// Tries `attempt` on each address in turn, as `std::net` does; the last error if none works.
pub(crate) fn first_that_works<T>(
    to: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in resolve(to)? {
        match attempt(address) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| fail(libc::EINVAL, "use no address", "the list is empty")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let prefix = Prefix::parse("10.1.2.3/24").unwrap();
        for (address, inside) in [("10.1.2.255", true), ("10.1.3.0", false)] {
            assert_eq!(prefix.contains(address.parse().unwrap()), inside);
        }
        assert!(
            Prefix::parse("1.2.3.4/0")
                .unwrap()
                .contains("255.255.255.255".parse().unwrap())
        );
        assert_eq!(Prefix::parse("1.2.3.4").unwrap().len, 32);
        for bad in ["", "10.1.2.3/33", "10.1.2/24", "10.1.2.3/", "a/b/c"] {
            let error = Prefix::parse(bad).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}");
            assert!(error.to_string().contains("try:"), "{error}");
        }
    }

    #[test]
    fn addresses_that_no_host_can_have() {
        for (text, part) in [
            ("10.1.2.0/24", "network's own"),
            ("10.1.2.255/24", "broadcast"),
            ("10.1.2.3/0", "no bits"),
            ("fd00::1/0", "no bits"),
            ("255.255.255.255/32", "limited broadcast"),
            ("224.0.0.5/24", "multicast"),
            ("ff02::1/64", "multicast"),
            ("0.0.0.0/24", "no address"),
            ("::/64", "no address"),
            ("0.1.2.3/24", "RFC 1122"),
            ("127.0.0.1/8", "loopback"),
            ("fd00::/64", "anycast"),
        ] {
            let error = Prefix::parse_own(text).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
            assert_eq!(lines.len(), 3, "{error}");
            assert!(lines[1].contains(part), "{text}: {error}");
        }
        for text in [
            "10.1.2.3/24",
            "10.1.2.0/31",
            "10.1.2.1/31",
            "10.1.2.0/32",
            "10.1.3.0/16",
            "fd00::/127",
            "fd00::/128",
            "fd00::ffff:ffff:ffff:ffff/64",
            "fe80::1/64",
        ] {
            assert!(Prefix::parse_own(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn addresses_of_the_kernel_are_known() {
        for (address, has) in [
            ("127.0.0.1", true),
            ("192.0.2.77", false),
            ("2001:db8::77", false),
            ("fe80::1234:5678", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_kernels(address.parse().unwrap(), 1), has, "{address}");
        }
    }

    #[test]
    fn both_families() {
        for text in ["127.0.0.1:80", "[::1]:80"] {
            assert_eq!(resolve_one(text).unwrap(), text.parse().unwrap());
        }
        let prefix = Prefix::parse("fd00::1/64").unwrap();
        assert!(prefix.contains("fd00::2".parse().unwrap()));
        assert!(!prefix.contains("fd00:0:0:1::2".parse().unwrap()));
        assert_eq!(Prefix::parse("fd00::1").unwrap().len, 128);
        assert!(Prefix::parse("fd00::1/129").is_err());
    }
}
