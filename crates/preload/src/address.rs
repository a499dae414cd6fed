//! Socket addresses as the C library's callers pass them.

use crate::errno::Outcome;
use crate::place;
use libc::{c_int, sockaddr, socklen_t};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Reads an address. `None` for families that are not IP.
///
/// # Safety
/// Nothing else uses the place meanwhile.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Outcome<Option<SocketAddr>> {
    if !place::can_read(address.cast::<u8>(), len as usize) {
        // The kernel says that.
        return Ok(None);
    }
    let range = size_of::<libc::sa_family_t>()..=size_of::<libc::sockaddr_storage>();
    if !range.contains(&(len as usize)) {
        return Err(libc::EINVAL);
    }
    // SAFETY: long enough, checked above.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if len as usize >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as the caller says.
            Ok(unsafe { read_as_four(address, len) })
        }
        // Without the scope, as RFC 2133 had it, is enough.
        libc::AF_INET6 if len >= 24 => {
            let mut v6 = libc::sockaddr_in6 {
                sin6_family: 0,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
                sin6_scope_id: 0,
            };
            let len = (len as usize).min(size_of::<libc::sockaddr_in6>());
            // SAFETY: at most what both have.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    address.cast::<u8>(),
                    (&raw mut v6).cast::<u8>(),
                    len,
                );
            }
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            let scope = v6.sin6_scope_id;
            Ok(Some(SocketAddrV6::new(ip, port, 0, scope).into()))
        }
        libc::AF_INET | libc::AF_INET6 => Err(libc::EINVAL),
        _ => Ok(None),
    }
}

/// Whether an address is `AF_UNSPEC`.
///
/// # Safety
/// `address` can be read for `len` bytes, or is null.
pub(crate) unsafe fn is_unspecified(address: *const sockaddr, len: socklen_t) -> bool {
    if (len as usize) < size_of::<libc::sa_family_t>() {
        return false;
    }
    // SAFETY: long enough; any bytes are a number.
    let family = unsafe { place::read(address.cast::<libc::sa_family_t>()) };
    family.is_ok_and(|family| c_int::from(family) == libc::AF_UNSPEC)
}

/// Reads an address as IPv4's whatever family it names: what `sendto` does with `AF_UNSPEC`.
///
/// # Safety
/// `address` can be read for `len` bytes.
pub(crate) unsafe fn read_as_four(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if (len as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: long enough; any bytes are an address.
    let v4 = unsafe { place::read(address.cast::<libc::sockaddr_in>()) }.ok()?;
    let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
    Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
}

/// Room for any IP address.
pub(crate) union Storage {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// An address as the kernel writes it, for a socket made as IPv6 (`six`) or IPv4.
pub(crate) fn storage(address: SocketAddr, six: bool) -> (Storage, socklen_t) {
    let port = address.port().to_be();
    match address {
        SocketAddr::V4(v4) if !six => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port,
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            (Storage { v4 }, size_of::<libc::sockaddr_in>() as socklen_t)
        }
        _ => {
            let (ip, scope) = match address {
                SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
                SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
            };
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: ip.octets(),
                },
                sin6_scope_id: scope,
            };
            (Storage { v6 }, size_of::<libc::sockaddr_in6>() as socklen_t)
        }
    }
}

/// Gives an address to a caller: as much of it as there is room for, and its whole length.
///
/// # Safety
/// The program named the places for it.
pub(crate) unsafe fn give(
    address: SocketAddr,
    six: bool,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<()> {
    if to.is_null() {
        return Ok(());
    }
    let (storage, whole) = storage(address, six);
    // SAFETY: the program named both places for it.
    unsafe {
        let room = place::read(len)?;
        if (room as c_int) < 0 {
            return Err(libc::EINVAL);
        }
        place::write_first(to.cast(), &storage, room.min(whole) as usize)?;
        place::write(len, &whole)
    }
}
