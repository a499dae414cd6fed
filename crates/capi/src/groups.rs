//! Multicast groups of UDP sockets.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::memory::text;
use crate::udp::{SOCKETS, gannet_udp};
use std::ffi::{c_char, c_int};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// The socket gets what is sent to `group` ("239.1.2.3", "ff02::1:3") at its port. `interface` says
/// by which link: of IPv4 the host's address on it ("10.0.0.1"), of IPv6 its number, counted from 1
/// ("2"); NULL: the host's choice.
///
/// Returns 0; -1 with EINVAL for no group, ENODEV or EADDRNOTAVAIL for no such link, EADDRINUSE
/// when it is in that group there.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_join(
    udp: *const gannet_udp,
    group: *const c_char,
    interface: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(udp, (group, interface), true) }
}

/// Takes back what gannet_udp_join did; closing the socket does it, too.
///
/// Returns 0; -1 with EADDRNOTAVAIL when the socket is not in that group there.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_leave(
    udp: *const gannet_udp,
    group: *const c_char,
    interface: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(udp, (group, interface), false) }
}

/// # Safety
/// As for the functions above.
unsafe fn change(
    udp: *const gannet_udp,
    (group, interface): (*const c_char, *const c_char),
    join: bool,
) -> c_int {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        let group = unsafe { ip(group) }?;
        let interface = match interface.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { text(interface) }?),
        };
        let bad = |_| refuse(Refusal::GROUP);
        match group {
            IpAddr::V4(group) => {
                let at = interface.map(|i| i.parse::<Ipv4Addr>().map_err(|_| bad(())));
                let at = at.transpose()?.unwrap_or(Ipv4Addr::UNSPECIFIED);
                match join {
                    true => udp.socket.join_multicast_v4(&group, &at),
                    false => udp.socket.leave_multicast_v4(&group, &at),
                }
            }
            IpAddr::V6(group) => {
                let at = interface.map(|i| i.parse::<u32>().map_err(|_| bad(())));
                let at = at.transpose()?.unwrap_or(0);
                match join {
                    true => udp.socket.join_multicast_v6(&group, at),
                    false => udp.socket.leave_multicast_v6(&group, at),
                }
            }
        }
        .map(|()| 0)
    })
}

/// The socket gets what `source` sends to `group` at its port, by the link with the number
/// `interface`, counted from 1 (0: the host's choice), beside what other sources send that it has
/// joined so (RFC 3678).
///
/// Returns 0; -1 as gannet_udp_join.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_join_source(
    udp: *const gannet_udp,
    group: *const c_char,
    source: *const c_char,
    interface: u32,
) -> c_int {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        let (group, source) = unsafe { (ip(group)?, ip(source)?) };
        let done = udp.socket.join_multicast_source(group, source, interface);
        done.map(|()| 0)
    })
}

/// Takes back what gannet_udp_join_source did.
///
/// Returns 0; -1 with EADDRNOTAVAIL when it was not done.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_leave_source(
    udp: *const gannet_udp,
    group: *const c_char,
    source: *const c_char,
    interface: u32,
) -> c_int {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        // SAFETY: the caller's promise.
        let (group, source) = unsafe { (ip(group)?, ip(source)?) };
        let done = udp.socket.leave_multicast_source(group, source, interface);
        done.map(|()| 0)
    })
}

/// # Safety
/// As [`text`].
unsafe fn ip(address: *const c_char) -> io::Result<IpAddr> {
    // SAFETY: the caller's promise.
    let parsed = unsafe { text(address) }?.parse();
    parsed.map_err(|_| refuse(Refusal::GROUP))
}
