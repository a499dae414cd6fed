//! Addresses as people write them, and which of them this host can use.

use crate::error::fail;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};

/// An address with the length of its network prefix, written `10.0.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) address: Ipv4Addr,
    /// 0 to 32.
    pub(crate) len: u8,
}

impl Prefix {
    /// Reads `10.0.0.1/24`; without a slash all 32 bits count.
    pub(crate) fn parse(text: &str) -> io::Result<Prefix> {
        let (address, len) = text.split_once('/').unwrap_or((text, "32"));
        match (address.parse(), len.parse()) {
            (Ok(address), Ok(len)) if len <= 32 => Ok(Prefix { address, len }),
            _ => Err(fail(
                libc::EINVAL,
                format!("{text:?} is no IPv4 address with a prefix length"),
                "a number out of range, or another notation\ntry: 10.0.0.1/24",
            )),
        }
    }

    /// Whether `other` is in the same network.
    pub(crate) fn contains(&self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(self.len))
            .unwrap_or_default();
        (self.address.to_bits() ^ other.to_bits()) & mask == 0
    }
}

/// The address a name stands for, or a list of them: every IPv4 one.
pub(crate) fn resolve(to: impl ToSocketAddrs) -> io::Result<Vec<SocketAddrV4>> {
    let mut found = Vec::new();
    let mut other = None;
    for address in to.to_socket_addrs()? {
        match address {
            SocketAddr::V4(address) => found.push(address),
            SocketAddr::V6(_) => other = Some(address),
        }
    }
    match (found.is_empty(), other) {
        (false, _) => Ok(found),
        (true, Some(six)) => Err(fail(
            libc::EOPNOTSUPP,
            format!("use {six}"),
            "IPv6 is not supported yet",
        )),
        (true, None) => Err(fail(
            libc::EINVAL,
            "use an empty list of addresses",
            "no address to connect or bind to",
        )),
    }
}

/// The first IPv4 address among those `to` stands for.
pub(crate) fn resolve_one(to: impl ToSocketAddrs) -> io::Result<SocketAddrV4> {
    let all = resolve(to)?;
    all.first()
        .copied()
        .ok_or_else(|| fail(libc::EINVAL, "use no address", "the list is empty"))
}

/// Tries `attempt` on each address in turn, as `std::net` does; the last error if none works.
pub(crate) fn first_that_works<T>(
    to: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddrV4) -> io::Result<T>,
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
                .contains(Ipv4Addr::BROADCAST)
        );
        assert_eq!(Prefix::parse("1.2.3.4").unwrap().len, 32);
        for bad in [
            "",
            "10.1.2.3/33",
            "10.1.2/24",
            "::1/64",
            "10.1.2.3/",
            "a/b/c",
        ] {
            let error = Prefix::parse(bad).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}");
            assert!(error.to_string().contains("try:"), "{error}");
        }
    }

    #[test]
    fn six_is_refused_with_a_reason() {
        let error = resolve("[::1]:80").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("[::1]:80"));
        assert_eq!(
            resolve_one("127.0.0.1:80").unwrap(),
            "127.0.0.1:80".parse().unwrap()
        );
    }
}
