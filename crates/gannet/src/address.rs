//! Addresses as people write them, and which of them this host can use.

use crate::error::fail;
use gannet_stack::address::{bits, contains};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

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

    /// Whether `other` is in the same network.
    pub(crate) fn contains(&self, other: IpAddr) -> bool {
        contains(self.address, self.len, other)
    }
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
