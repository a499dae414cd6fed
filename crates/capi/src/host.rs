//! Hosts.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::handle::{Kind, Table};
use crate::memory::put_address;
use gannet::Host;
use libc::{sockaddr, sockaddr_storage, socklen_t, ssize_t};
use std::ffi::c_int;
use std::net::SocketAddr;

/// A host: links with addresses and a TCP/IP stack of its own, inside this process.
pub enum gannet_host {}

pub(crate) static HOSTS: Table<Host, gannet_host> = Table::new(Kind::Host);

/// Writes the host's addresses (with port 0) to `addresses`, at most `most` of them.
///
/// Returns how many there are, which may be more; -1 on failure.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_host_addresses(
    host: *const gannet_host,
    addresses: *mut sockaddr_storage,
    most: usize,
) -> ssize_t {
    guarded(-1, || {
        let all = HOSTS.get(host)?.addresses();
        if addresses.is_null() && most > 0 {
            return Err(refuse(Refusal::Null));
        }
        for (at, &address) in all.iter().take(most).enumerate() {
            let mut len = size_of::<sockaddr_storage>() as socklen_t;
            // SAFETY: there is room for `most`, by the caller's promise.
            let place = unsafe { addresses.add(at) }.cast::<sockaddr>();
            // SAFETY: as above.
            unsafe { put_address(place, &mut len, SocketAddr::new(address, 0)) }?;
        }
        Ok(all.len() as ssize_t)
    })
}

/// Number of TCP connections in any state, TIME-WAIT included; -1 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_host_connections(host: *const gannet_host) -> ssize_t {
    guarded(-1, || Ok(HOSTS.get(host)?.connections() as ssize_t))
}

/// Number of TCP connections that were closed here and whose peer has not acknowledged everything
/// yet; -1 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_host_undelivered(host: *const gannet_host) -> ssize_t {
    guarded(-1, || Ok(HOSTS.get(host)?.undelivered() as ssize_t))
}

/// Closes the handle. The host ends with the last of its sockets, after what was written has
/// reached its peers (or gannet_builder_linger has passed).
///
/// Returns 0; -1 with EBADF when it is none, or closed.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_host_close(host: *mut gannet_host) -> c_int {
    guarded(-1, || HOSTS.remove(host).map(|_| 0))
}
