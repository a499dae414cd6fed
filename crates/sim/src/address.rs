//! Addresses of simulated hosts, and the form that the stack's calls want them in.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A host by its address.
pub type Host = Ipv4Addr;

/// A port of every address of a host.
pub fn any(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)
}

/// A port of a host.
pub fn of(host: Host, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(host, port)
}

/// What the stack says, in general form.
pub fn general(address: SocketAddrV4) -> SocketAddr {
    SocketAddr::V4(address)
}

/// On a network that all hosts share.
pub fn shared(host: usize) -> Host {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1)
}

/// Behind a router: each host has a network of its own.
pub fn routed(host: usize) -> Host {
    Ipv4Addr::new(10, 1, host as u8, 2)
}

/// The router's address on the network of a host.
pub fn router_for(host: usize) -> Host {
    Ipv4Addr::new(10, 1, host as u8, 1)
}

/// Which host has an address behind a router.
pub fn host_of(address: Host) -> Option<usize> {
    match address.octets() {
        [10, 1, host, 2] => Some(usize::from(host)),
        _ => None,
    }
}

/// A station address.
pub fn station(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, host as u8 + 1]
}
