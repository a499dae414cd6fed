//! Addresses of simulated hosts: each has one of each family that its world speaks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A host by its address.
pub type Host = IpAddr;

/// Which version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// All addresses of a host.
    pub fn unspecified(self) -> Host {
        match self {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// A port of every address of a host.
    pub fn any(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.unspecified(), port)
    }

    /// On a network that all hosts share.
    pub fn shared(self, host: usize) -> Host {
        let last = host as u8 + 1;
        match self {
            Family::V4 => Ipv4Addr::new(10, 0, 0, last).into(),
            Family::V6 => six([SHARED, 0], last),
        }
    }

    /// Behind a router: each host has a network of its own.
    pub fn routed(self, host: usize) -> Host {
        match self {
            Family::V4 => Ipv4Addr::new(10, 1, host as u8, 2).into(),
            Family::V6 => six([ROUTED, host as u16], 2),
        }
    }

    /// The router's address on the network of a host.
    pub fn router_for(self, host: usize) -> Host {
        match self {
            Family::V4 => Ipv4Addr::new(10, 1, host as u8, 1).into(),
            Family::V6 => six([ROUTED, host as u16], 1),
        }
    }

    /// How many bits of a host's address name its network.
    pub fn prefix_len(self) -> u8 {
        match self {
            Family::V4 => 24,
            Family::V6 => 64,
        }
    }
}

/// Networks that all hosts share, and those behind routers (RFC 4193).
const SHARED: u16 = 0;
const ROUTED: u16 = 1;

fn six([kind, network]: [u16; 2], last: u8) -> Host {
    Ipv6Addr::new(0xfd00, kind, 0, network, 0, 0, 0, last.into()).into()
}

/// Which host has an address behind a router.
pub fn host_of(address: Host) -> Option<usize> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 1, host, 2] => Some(usize::from(host)),
            _ => None,
        },
        IpAddr::V6(address) => match address.segments() {
            [0xfd00, ROUTED, 0, host, 0, 0, 0, 2] => Some(usize::from(host)),
            _ => None,
        },
    }
}

/// A station address.
pub fn station(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, host as u8 + 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_router_every_host_is_found_by_its_address() {
        for family in [Family::V4, Family::V6] {
            for host in [0, 1, 200] {
                assert_eq!(host_of(family.routed(host)), Some(host));
                assert_eq!(host_of(family.router_for(host)), None);
                assert_eq!(host_of(family.shared(host)), None);
            }
        }
    }
}
