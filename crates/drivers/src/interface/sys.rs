//! The `SIOC*IF*` requests on any socket of the interface's network namespace.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Flags of an interface: `IFF_UP`, `IFF_RUNNING` ...
pub(crate) type Flags = i32;

/// An empty request about the interface `name`.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data (arrays of characters, integers, socket addresses, and a
    // pointer that only `ethtool` uses); all zeros is a valid value of every union member.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let bytes = name.as_bytes();
    let room = request.ifr_name.len() - 1; // the last byte stays 0
    if bytes.is_empty() || bytes.len() > room || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn call(fd: BorrowedFd<'_>, number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: `fd` is open for as long as it is borrowed; every request number of this file reads
    // and writes exactly one `ifreq`, which `request` is, exclusively borrowed. `SIOCETHTOOL` also
    // follows the pointer in it: `ethtool`, its only user, answers for what that points to.
    match unsafe { libc::ioctl(fd.as_raw_fd(), number as _, request as *mut libc::ifreq) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The index of the interface `name`.
pub(crate) fn index(fd: BorrowedFd<'_>, name: &str) -> io::Result<i32> {
    let mut request = request(name)?;
    call(fd, libc::SIOCGIFINDEX, &mut request)?;
    // SAFETY: the request succeeded, so the kernel wrote this member; any bits are an integer.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// The name of the interface `index`; `ENODEV` when there is none (any more).
pub(crate) fn name(fd: BorrowedFd<'_>, index: i32) -> io::Result<String> {
    let mut request = request("?")?;
    request.ifr_ifru.ifru_ifindex = index;
    call(fd, libc::SIOCGIFNAME, &mut request)?;
    let bytes = request.ifr_name.iter().map(|&c| c as u8);
    let name: Vec<u8> = bytes.take_while(|&c| c != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// The flags of the interface `name`.
pub(crate) fn flags(fd: BorrowedFd<'_>, name: &str) -> io::Result<Flags> {
    let mut request = request(name)?;
    call(fd, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the request succeeded, so the kernel wrote this member; any bits are an integer.
    Ok(Flags::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// Replaces the flags of the interface `name`.
pub(crate) fn set_flags(fd: BorrowedFd<'_>, name: &str, flags: Flags) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    call(fd, libc::SIOCSIFFLAGS, &mut request)
}

/// The MTU of the interface `name` in bytes.
pub(crate) fn mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let mut request = request(name)?;
    call(fd, libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: the request succeeded, so the kernel wrote this member; any bits are an integer.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.max(0) as u32)
}

/// Sets the MTU of the interface `name`.
pub(crate) fn set_mtu(fd: BorrowedFd<'_>, name: &str, mtu: u32) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu.min(i32::MAX as u32) as i32;
    call(fd, libc::SIOCSIFMTU, &mut request)
}

/// The hardware type (`ARPHRD_ETHER` ...) and the first six bytes of the hardware address.
pub(crate) fn hardware(fd: BorrowedFd<'_>, name: &str) -> io::Result<(u16, [u8; 6])> {
    let mut request = request(name)?;
    call(fd, libc::SIOCGIFHWADDR, &mut request)?;
    // SAFETY: the request succeeded, so the kernel wrote this member; plain data, any bits.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let mut bytes = [0; 6];
    for (to, &from) in bytes.iter_mut().zip(&address.sa_data) {
        *to = from as u8;
    }
    Ok((address.sa_family, bytes))
}

/// Sets the IPv4 address of the interface `name`.
pub(crate) fn set_address(fd: BorrowedFd<'_>, name: &str, address: Ipv4Addr) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_addr = socket_address(address);
    call(fd, libc::SIOCSIFADDR, &mut request)
}

/// Sets the netmask that belongs to the IPv4 address of the interface `name`.
pub(crate) fn set_netmask(fd: BorrowedFd<'_>, name: &str, mask: Ipv4Addr) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_netmask = socket_address(mask);
    call(fd, libc::SIOCSIFNETMASK, &mut request)
}

/// `struct ethtool_value` of `<linux/ethtool.h>`: a command and its one argument.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// Carries out the ethtool command `command` on the interface `name`; the value afterwards.
pub(crate) fn ethtool(fd: BorrowedFd<'_>, name: &str, command: u32, value: u32) -> io::Result<u32> {
    let mut argument = EthtoolValue { command, value };
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut argument).cast();
    // The commands of `control.rs` read and write one `ethtool_value`, which `argument` is; it
    // outlives the call.
    call(fd, libc::SIOCETHTOOL, &mut request)?;
    Ok(argument.value)
}

/// `struct sockaddr_in` in the shape of `struct sockaddr`: port (2 bytes), address, zeros.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut sa_data = [0; 14];
    for (to, from) in sa_data.iter_mut().skip(2).zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data,
    }
}
