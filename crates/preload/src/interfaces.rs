//! Interfaces and their addresses, as programs look for them that bind each address they find
//! (name servers, DHCP servers, NTP): the kernel's, and those of the carried program. An address
//! of a link stands at its interface, one of a network of programs at the loopback interface.

use crate::state::State;
use libc::{c_char, c_int, sockaddr};
use rustix::fd::AsRawFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, socket_with};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether the kernel of this network namespace has `address`: to one of its own it speaks from
/// that address.
pub(crate) fn is_kernels(address: IpAddr) -> bool {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let Ok(socket) = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None) else {
        return false;
    };
    let own = connect(&socket, &SocketAddr::new(address, 9)).and_then(|()| getsockname(&socket));
    let own = own.ok().and_then(|own| SocketAddr::try_from(own).ok());
    own.is_some_and(|own| own.ip() == address)
}

/// The number of an interface.
pub(crate) fn index_of(interface: &CStr) -> Option<u32> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    // SAFETY: all zeros are a request.
    let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
    asked.ifr_name = name_of(interface);
    let (fd, place) = (socket.ok()?, (&raw mut asked).addr());
    // SAFETY: a place of our own, as the request wants it.
    let found = unsafe { crate::real::ioctl(fd.as_raw_fd(), libc::SIOCGIFINDEX, place) };
    // SAFETY: a number in each of its forms, written by the kernel or by us.
    let index = unsafe { asked.ifr_ifru.ifru_ifindex };
    (found == 0).then_some(index as u32)
}

/// An address of the program's, with the bits of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

/// The addresses of the program.
pub(crate) fn own(state: &State) -> impl Iterator<Item = Own> + '_ {
    let settings = state.settings();
    settings.addresses.iter().map(|&address| Own {
        address,
        bits: settings.bits_of(address),
    })
}

impl Own {
    pub(crate) fn mask(self) -> IpAddr {
        match self.address {
            IpAddr::V4(_) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(self.bits.into()));
                Ipv4Addr::from(mask.unwrap_or(0)).into()
            }
            IpAddr::V6(_) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(self.bits.into()));
                Ipv6Addr::from(mask.unwrap_or(0)).into()
            }
        }
    }

    /// The broadcast address of its network, which IPv6 has not.
    pub(crate) fn broadcast(self) -> Option<IpAddr> {
        match (self.address, self.mask()) {
            (IpAddr::V4(own), IpAddr::V4(mask)) if self.bits < 31 => {
                Some(Ipv4Addr::from(u32::from(own) | !u32::from(mask)).into())
            }
            _ => None,
        }
    }
}

/// The bytes of `struct sockaddr` for an address without a port.
pub(crate) fn write(address: IpAddr, to: &mut libc::sockaddr_storage) {
    let to: *mut libc::sockaddr_storage = to;
    let place = SocketAddr::new(address, 0);
    let (storage, len) = crate::address::storage(place, address.is_ipv6());
    // SAFETY: both have room for every address, and do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const storage).cast::<u8>(),
            to.cast::<u8>(),
            len as usize,
        );
    }
}

/// The address in a `struct sockaddr`; none of another family.
///
/// # Safety
/// Null, or of the length that its family has.
pub(crate) unsafe fn read(address: *const sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    unsafe {
        match c_int::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// A name of an interface as `struct ifreq` has it.
pub(crate) fn name_of(interface: &CStr) -> [c_char; libc::IFNAMSIZ] {
    let mut name = [0; libc::IFNAMSIZ];
    let bytes = interface.to_bytes().iter().take(libc::IFNAMSIZ - 1);
    for (to, from) in name.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let own = |text: &str, bits| Own {
            address: text.parse().unwrap(),
            bits,
        };
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(own("10.1.2.3", 24).mask(), ip("255.255.255.0"));
        assert_eq!(own("10.1.2.3", 24).broadcast(), Some(ip("10.1.2.255")));
        assert_eq!(own("10.1.2.3", 32).mask(), ip("255.255.255.255"));
        assert_eq!(own("10.1.2.3", 31).broadcast(), None);
        assert_eq!(own("10.1.2.3", 0).mask(), ip("0.0.0.0"));
        assert_eq!(own("fd00::1", 64).mask(), ip("ffff:ffff:ffff:ffff::"));
        assert_eq!(own("fd00::1", 64).broadcast(), None);
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["10.1.2.3", "fd00::1"] {
            let address: IpAddr = text.parse().unwrap();
            // SAFETY: all zeros are an address of no family.
            let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
            write(address, &mut storage);
            // SAFETY: written just now.
            let back = unsafe { read((&raw const storage).cast()) };
            assert_eq!(back, Some(address));
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(std::ptr::null()) }, None);
    }

    #[test]
    fn the_kernels_own_addresses() {
        for (text, has) in [
            ("127.0.0.1", true),
            ("192.0.2.77", false),
            ("2001:db8::7", false),
        ] {
            assert_eq!(is_kernels(text.parse().unwrap()), has, "{text}");
        }
    }
}
