//! Ethernet (IEEE 802 EUI-48) addresses. IPv4 addresses are `core::net::Ipv4Addr`.

use core::fmt;

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
    fn kinds() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::BROADCAST.is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast() && MacAddr([2, 0, 0, 0, 0, 1]).is_local());
    }
}
