//! Socket addresses as the bytes that the calls read and write.

use libc::{AF_INET, AF_INET6, sockaddr, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// As long as `struct sockaddr_storage`.
const STORAGE: usize = 128;

/// An address, and how many of its bytes count.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Addr {
    bytes: [u8; STORAGE],
    /// What is given as length, or what came back as length.
    pub(crate) len: socklen_t,
}

impl Addr {
    /// Zeros: room for an address of any family.
    pub(crate) fn room() -> Self {
        Self {
            bytes: [0; STORAGE],
            len: STORAGE as socklen_t,
        }
    }

    /// `struct sockaddr_in`.
    pub(crate) fn v4(ip: Ipv4Addr, port: u16) -> Self {
        let mut address = Self::family_only(AF_INET, 16);
        address.bytes[2..4].copy_from_slice(&port.to_be_bytes());
        address.bytes[4..8].copy_from_slice(&ip.octets());
        address
    }

    /// `struct sockaddr_in6`.
    pub(crate) fn v6(ip: Ipv6Addr, port: u16) -> Self {
        let mut address = Self::family_only(AF_INET6, 28);
        address.bytes[2..4].copy_from_slice(&port.to_be_bytes());
        address.bytes[8..24].copy_from_slice(&ip.octets());
        address
    }

    /// From bytes that travelled.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut address = Self::room();
        for (place, byte) in address.bytes.iter_mut().zip(bytes) {
            *place = *byte;
        }
        address.len = socklen_t::try_from(bytes.len()).unwrap_or(socklen_t::MAX);
        address
    }

    /// All bytes, whatever its length says.
    pub(crate) fn whole(&self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    /// As many bytes as its length says.
    pub(crate) fn cut_bytes(&self) -> Vec<u8> {
        let mut bytes = self.whole();
        bytes.resize(self.len as usize, 0);
        bytes
    }

    /// A family and nothing else, of a length.
    pub(crate) fn family_only(family: i32, len: socklen_t) -> Self {
        let mut address = Self::room();
        let family = u16::try_from(family).unwrap_or(u16::MAX);
        address.bytes[0..2].copy_from_slice(&family.to_ne_bytes());
        address.len = len;
        address
    }

    /// The same address, said to be of another length.
    pub(crate) fn cut(mut self, len: socklen_t) -> Self {
        self.len = len;
        self
    }

    /// The same address with another port.
    pub(crate) fn with_port(mut self, port: u16) -> Self {
        self.bytes[2..4].copy_from_slice(&port.to_be_bytes());
        self
    }

    /// The same bytes with these where `struct sockaddr_in` has its address.
    pub(crate) fn with_v4_octets(mut self, ip: Ipv4Addr) -> Self {
        self.bytes[4..8].copy_from_slice(&ip.octets());
        self
    }

    /// The same port at another IPv4 address.
    pub(crate) fn at_v4(self, ip: Ipv4Addr) -> Self {
        Self::v4(ip, self.port())
    }

    pub(crate) fn port(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    pub(crate) fn family(&self) -> i32 {
        i32::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// The IP address, for the two families that have one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self.family() {
            AF_INET => {
                let octets: [u8; 4] = self.bytes[4..8].try_into().ok()?;
                Some(IpAddr::V4(octets.into()))
            }
            AF_INET6 => {
                let octets: [u8; 16] = self.bytes[8..24].try_into().ok()?;
                Some(IpAddr::V6(octets.into()))
            }
            _ => None,
        }
    }

    pub(super) fn pointer(&self) -> *const sockaddr {
        self.bytes.as_ptr().cast()
    }

    pub(super) fn pointer_mut(&mut self) -> *mut sockaddr {
        self.bytes.as_mut_ptr().cast()
    }
}
