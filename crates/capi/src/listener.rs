//! Sockets that wait for connections.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::handle::{Kind, Table};
use crate::host::{HOSTS, gannet_host};
use crate::memory::{self, check_place, put_address};
use crate::tcp::{STREAMS, gannet_tcp};
use gannet::{ListenOptions, TcpListener};
use libc::{sockaddr, socklen_t};
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, Ordering};

/// A socket that waits for TCP connections.
pub enum gannet_listener {}

/// For gannet_listen and gannet_udp_bind on `::`: IPv6 alone, as IPV6_V6ONLY.
pub const GANNET_ONLY_V6: c_uint = 1;

/// The socket, and what it cannot tell itself.
pub(crate) struct Listening {
    pub(crate) socket: TcpListener,
    pub(crate) nonblocking: AtomicBool,
}

pub(crate) static LISTENERS: Table<Listening, gannet_listener> = Table::new(Kind::Listener);

/// Waits for TCP connections at `address` (0.0.0.0: at all addresses of the host, `::`: at those of
/// both families; port 0: a free one). At most `backlog` wait to be accepted; 0 or less: 4096.
/// `flags` is 0 or GANNET_ONLY_V6. Connections in TIME-WAIT are no obstacle.
///
/// Returns the listener; NULL with EADDRINUSE, or EADDRNOTAVAIL when the host does not have the
/// address.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listen(
    host: *const gannet_host,
    address: *const sockaddr,
    length: socklen_t,
    backlog: c_int,
    flags: c_uint,
) -> *mut gannet_listener {
    guarded(std::ptr::null_mut(), || {
        let host = HOSTS.get(host)?;
        // SAFETY: the caller's promise.
        let at = unsafe { memory::address(address, length) }?;
        let mut options = ListenOptions::default();
        if let Some(backlog) = usize::try_from(backlog).ok().filter(|&n| n > 0) {
            options.backlog = backlog;
        }
        options.only_v6 = match flags {
            0 => false,
            GANNET_ONLY_V6 => true,
            _ => return Err(refuse(Refusal::FLAGS)),
        };
        LISTENERS.insert(Listening {
            socket: TcpListener::bind_with(&host, at, options)?,
            nonblocking: AtomicBool::new(false),
        })
    })
}

/// The next connection, and the address it comes from, unless `address` is NULL. Waits for one
/// unless the option GANNET_NONBLOCKING is set. The connection itself waits in its calls, whatever
/// the listener does.
///
/// Returns the connection; NULL with EAGAIN when there is none, ECONNABORTED when it ended
/// meanwhile.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_accept(
    listener: *const gannet_listener,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> *mut gannet_tcp {
    guarded(std::ptr::null_mut(), || {
        let listener = LISTENERS.get(listener)?;
        check_place(address, length)?;
        let (stream, from) = listener.socket.accept()?;
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, from) }?;
        STREAMS.insert(stream.into())
    })
}

/// Where it listens: the port, if it was 0.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listener_address(
    listener: *const gannet_listener,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    guarded(-1, || {
        let local = LISTENERS.get(listener)?.socket.local_addr()?;
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, local) }.map(|()| 0)
    })
}

/// Closes it. Connections that nobody has accepted are reset. A thread that waits in gannet_accept
/// goes on waiting, and the listener with it: use GANNET_NONBLOCKING and a poller where that
/// matters.
///
/// Returns 0; -1 with EBADF when it is none, or closed.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_listener_close(listener: *mut gannet_listener) -> c_int {
    guarded(-1, || LISTENERS.remove(listener).map(|_| 0))
}

impl Listening {
    pub(crate) fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
        self.nonblocking.store(on, Ordering::Relaxed);
        self.socket.set_nonblocking(on)
    }
}
