//! UDP sockets.
#![allow(unsafe_code)]

use crate::error::{Refusal, code_of, guarded, refuse, tell};
use crate::handle::{Kind, Table};
use crate::host::{HOSTS, gannet_host};
use crate::listener::GANNET_ONLY_V6;
use crate::memory::{self, bytes, bytes_mut, check_place, put_address};
use gannet::UdpSocket;
use libc::{sockaddr, socklen_t, ssize_t};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// A UDP socket.
pub enum gannet_udp {}

/// For gannet_udp_bind: together with others that are bound so to the same address and port, as
/// SO_REUSEADDR. Each gets what is sent to the groups it has joined.
pub const GANNET_SHARED: c_uint = 2;

/// The socket, and what it cannot tell itself.
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    pub(crate) nonblocking: AtomicBool,
}

impl Datagrams {
    pub(crate) fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
        self.nonblocking.store(on, Ordering::Relaxed);
        self.socket.set_nonblocking(on)
    }
}

pub(crate) static SOCKETS: Table<Datagrams, gannet_udp> = Table::new(Kind::Udp);

/// A socket at `address` (0.0.0.0: at all addresses of the host, `::`: at those of both families;
/// port 0: a free one). `flags` is 0, GANNET_ONLY_V6 or GANNET_SHARED.
///
/// Returns the socket; NULL with EADDRINUSE, or EADDRNOTAVAIL when the host does not have the
/// address.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_bind(
    host: *const gannet_host,
    address: *const sockaddr,
    length: socklen_t,
    flags: c_uint,
) -> *mut gannet_udp {
    guarded(std::ptr::null_mut(), || {
        let host = HOSTS.get(host)?;
        // SAFETY: the caller's promise.
        let at = unsafe { memory::address(address, length) }?;
        let socket = match flags {
            0 => UdpSocket::bind(&host, at)?,
            GANNET_ONLY_V6 => UdpSocket::bind_only_v6(&host, at)?,
            GANNET_SHARED => UdpSocket::bind_shared(&host, at)?,
            _ => return Err(refuse(Refusal::FLAGS)),
        };
        SOCKETS.insert(Datagrams {
            socket,
            nonblocking: AtomicBool::new(false),
        })
    })
}

/// From now on the socket talks to `address` alone: gannet_udp_send and gannet_udp_recv work,
/// others' datagrams are not taken.
///
/// Returns 0; -1 with ENETUNREACH, EHOSTUNREACH, EINVAL when it is no host.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_connect(
    udp: *const gannet_udp,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        let to = unsafe { memory::address(address, length) }?;
        udp.socket.connect(to).map(|()| 0)
    })
}

/// Sends one datagram to the connected peer.
///
/// Returns its length; -1 with EDESTADDRREQ when the socket is not connected, EMSGSIZE, EAGAIN,
/// ECONNREFUSED when an earlier one met nobody.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_send(
    udp: *const gannet_udp,
    data: *const c_void,
    size: usize,
) -> ssize_t {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        Ok(udp.socket.send(unsafe { bytes(data, size) }?)? as ssize_t)
    })
}

/// Sends one datagram to `address`.
///
/// Returns its length; -1 with EMSGSIZE, EAGAIN, ENETUNREACH, EHOSTUNREACH, EACCES for a broadcast
/// address without GANNET_BROADCAST.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_sendto(
    udp: *const gannet_udp,
    data: *const c_void,
    size: usize,
    address: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        let (data, to) = unsafe { (bytes(data, size)?, memory::address(address, length)?) };
        Ok(udp.socket.send_to(data, to)? as ssize_t)
    })
}

/// Receives one datagram; what does not fit into `size` bytes is lost. `flags` is 0, or MSG_PEEK to
/// leave it to be received again.
///
/// Returns the bytes written to `buffer`; -1 with EAGAIN, ECONNREFUSED when an earlier one of ours
/// met nobody.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_recv(
    udp: *const gannet_udp,
    buffer: *mut c_void,
    size: usize,
    flags: c_int,
) -> ssize_t {
    let (nobody, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the caller's promise; null is for callers who do not care who sent it.
    unsafe { gannet_udp_recvfrom(udp, buffer, size, flags, nobody, nowhere) }
}

/// As gannet_udp_recv, and who sent it, unless `address` is NULL.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_recvfrom(
    udp: *const gannet_udp,
    buffer: *mut c_void,
    size: usize,
    flags: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        let buffer = unsafe { bytes_mut(buffer, size) }?;
        check_place(address, length)?;
        let (received, from) = match flags {
            0 => udp.socket.recv_from(buffer)?,
            libc::MSG_PEEK => udp.socket.peek_from(buffer)?,
            _ => return Err(refuse(Refusal::FLAGS)),
        };
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, from) }?;
        Ok(received as ssize_t)
    })
}

/// The socket's address and port.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_local_address(
    udp: *const gannet_udp,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    guarded(-1, || {
        let local = SOCKETS.get(udp)?.socket.local_addr()?;
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, local) }.map(|()| 0)
    })
}

/// The connected peer's address and port; -1 with ENOTCONN without one.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_peer_address(
    udp: *const gannet_udp,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    guarded(-1, || {
        let peer = SOCKETS.get(udp)?.socket.peer_addr()?;
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, peer) }.map(|()| 0)
    })
}

/// Takes the error that the next call would report, as gannet_tcp_take_error.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_udp_take_error(udp: *const gannet_udp) -> c_int {
    guarded(-1, || {
        let error = SOCKETS.get(udp)?.socket.take_error()?;
        Ok(error.map_or(0, |error| tell(&error).max(code_of(&error))))
    })
}

/// How many datagrams were lost so far because too many bytes waited to be received; -1 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_udp_dropped(udp: *const gannet_udp) -> i64 {
    guarded(-1, || {
        let dropped = SOCKETS.get(udp)?.socket.dropped()?;
        Ok(i64::try_from(dropped).unwrap_or(i64::MAX))
    })
}

/// Closes the socket. A call of another thread that is under way goes on, and the socket with it.
///
/// Returns 0; -1 with EBADF when it is none, or closed.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_udp_close(udp: *mut gannet_udp) -> c_int {
    guarded(-1, || SOCKETS.remove(udp).map(|_| 0))
}
