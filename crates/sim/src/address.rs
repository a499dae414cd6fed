//! Addresses of simulated hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A host by its address.
pub type Host = IpAddr;

/// A port of every address of a host.
pub fn any(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)
}

/// On a network that all hosts share.
pub fn shared(host: usize) -> Host {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1).into()
}

/// Behind a router: each host has a network of its own.
pub fn routed(host: usize) -> Host {
    Ipv4Addr::new(10, 1, host as u8, 2).into()
}

/// The router's address on the network of a host.
pub fn router_for(host: usize) -> Host {
    Ipv4Addr::new(10, 1, host as u8, 1).into()
}

/// Which host has an address behind a router.
pub fn host_of(address: Host) -> Option<usize> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 1, host, 2] => Some(usize::from(host)),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// A station address.
pub fn station(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, host as u8 + 1]
}
