//! Hosts.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::handle::{Kind, Table};
use crate::memory::{patience, put_address, put_first};
use gannet::{Counts, Host};
use libc::{sockaddr, sockaddr_storage, socklen_t, ssize_t};
use std::ffi::c_int;
use std::net::SocketAddr;
use std::time::Duration;

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
            return Err(refuse(Refusal::NULL));
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

/// Waits until a DHCP server has granted an address to a link whose address is "dhcp", at most so
/// many milliseconds (negative: for ever), and writes it to `address`, with port 0, unless that is
/// NULL.
///
/// Returns 0; -1 with EAGAIN when there was none in time.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_host_wait_for_lease(
    host: *const gannet_host,
    at_most: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    const FOR_EVER: Duration = Duration::from_secs(1 << 32);
    guarded(-1, || {
        let at_most = patience(at_most).unwrap_or(FOR_EVER);
        let lease = HOSTS.get(host)?.wait_for_lease(at_most)?;
        let granted = SocketAddr::new(lease.address.into(), 0);
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, granted) }.map(|()| 0)
    })
}

/// What gannet_host_count tells, since the host was made. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gannet_counts {
    /// Packets of TCP that arrived.
    pub tcp_packets_in: u64,
    /// Their bytes.
    pub tcp_bytes_in: u64,
    /// Packets of TCP that left; one may be as long as many of the wire's.
    pub tcp_packets_out: u64,
    /// Their bytes.
    pub tcp_bytes_out: u64,
    /// Packets of UDP that arrived.
    pub udp_packets_in: u64,
    /// Their bytes.
    pub udp_bytes_in: u64,
    /// Packets of UDP that left.
    pub udp_packets_out: u64,
    /// Their bytes.
    pub udp_bytes_out: u64,
    /// Packets thrown away, for whatever reason.
    pub dropped: u64,
}

const _: () = assert!(size_of::<gannet_counts>() == 9 * 8);

/// Counts of the host: writes the first `size` bytes of what this version knows to `*counts`;
/// `size` is sizeof *counts.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_host_count(
    host: *const gannet_host,
    counts: *mut gannet_counts,
    size: usize,
) -> c_int {
    guarded(-1, || {
        let Counts { passed, dropped } = HOSTS.get(host)?.counts();
        let told = gannet_counts {
            tcp_packets_in: passed.tcp.packets_in,
            tcp_bytes_in: passed.tcp.bytes_in,
            tcp_packets_out: passed.tcp.packets_out,
            tcp_bytes_out: passed.tcp.bytes_out,
            udp_packets_in: passed.udp.packets_in,
            udp_bytes_in: passed.udp.bytes_in,
            udp_packets_out: passed.udp.packets_out,
            udp_bytes_out: passed.udp.bytes_out,
            dropped: dropped.iter().map(|(_, count)| count).sum(),
        };
        // SAFETY: the caller's promise; the structure has no padding.
        unsafe { put_first(counts, size, told) }.map(|()| 0)
    })
}

/// Closes the handle. The host ends with the last of its sockets, after what was written has
/// reached its peers (or gannet_builder_linger has passed).
///
/// Returns 0; -1 with EBADF when it is none, or closed.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_host_close(host: *mut gannet_host) -> c_int {
    guarded(-1, || HOSTS.remove(host).map(|_| 0))
}
