//! Ethernet (IEEE 802 EUI-48) addresses. IPv4 addresses are `core::net::Ipv4Addr`.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// An Ethernet address in transmission order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff, every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// 00:00:00:00:00:00, the "not known" of an ARP request.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether this is the broadcast address.
    pub const fn is_broadcast(self) -> bool {
        matches!(self.0, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    }

    /// Whether the group bit is set: multicast, and broadcast too.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this can be the address of one station: neither zero nor a group address.
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && !matches!(self.0, [0, 0, 0, 0, 0, 0])
    }

    /// Whether the locally-administered bit is set.
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// The Ethernet group of an IPv4 group (RFC 1112 section 6.4): 01:00:5e and its low 23 bits.
    pub const fn of_group_v4(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The Ethernet group of an IPv6 group (RFC 2464 section 7): 33:33 and its low 32 bits.
    pub const fn of_group_v6(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// The six octets in transmission order.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

/// The text was not six hexadecimal octets separated by colons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ethernet address (expected six octets like 02:00:5e:10:00:01)")
    }
}

impl core::error::Error for ParseMacError {}

impl core::str::FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseMacError)?;
            let hex = part.bytes().all(|b| b.is_ascii_hexdigit());
            if !hex || part.is_empty() || part.len() > 2 {
                return Err(ParseMacError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        if parts.next().is_some() {
            Err(ParseMacError)
        } else {
            Ok(Self(octets))
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_both_ways() {
        let mac = MacAddr([2, 0, 0x5e, 0x10, 0, 0xff]);
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        assert_eq!("02:00:5e:10:00:ff".parse(), Ok(mac));
        assert_eq!("2:0:5E:10:0:fF".parse(), Ok(mac));
        for bad in [
            "",
            "02",
            "02:00:5e:10:00",
            "02:00:5e:10:00:ff:01",
            "g2:00:5e:10:00:ff",
            "+2:0:0:0:0:0",
        ] {
            assert_eq!(bad.parse::<MacAddr>(), Err(ParseMacError), "{bad:?}");
        }
    }

    #[test]
    fn rfc1112_section_6_4_and_rfc2464_section_7_groups() {
        let mac = |group: &str| MacAddr::of_group_v4(group.parse().unwrap()).to_string();
        assert_eq!(mac("224.0.0.1"), "01:00:5e:00:00:01");
        assert_eq!(mac("239.255.1.2"), "01:00:5e:7f:01:02");
        let mac = |group: &str| MacAddr::of_group_v6(group.parse().unwrap()).to_string();
        assert_eq!(mac("ff02::1:ff28:9c5a"), "33:33:ff:28:9c:5a");
    }

    #[test]
    fn kinds() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::BROADCAST.is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast() && MacAddr([2, 0, 0, 0, 0, 1]).is_local());
    }
}
