//! Many datagrams with one call.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::memory::{self, bytes, bytes_mut, put_address};
use crate::udp::{SOCKETS, gannet_udp};
use gannet::Datagram;
use libc::{sockaddr, sockaddr_storage, socklen_t};
use std::ffi::{c_int, c_void};

/// Most datagrams that one call receives.
const PLACES_MAX: usize = 64;

/// Where one of many datagrams lies.
#[repr(C)]
pub struct gannet_datagram {
    /// Its first byte in the buffer.
    pub offset: usize,
    /// Number of bytes.
    pub length: usize,
    /// Who sent it.
    pub from: sockaddr_storage,
    /// Length of that address.
    pub from_length: socklen_t,
}

/// Sends the datagrams that lie back to back in `data`, `size` bytes each (the last may be
/// shorter), to `address`, or to the connected peer when that is NULL.
///
/// Returns how many were sent, at least one; -1 as gannet_udp_sendto, and with EINVAL when `size`
/// is 0.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_send_batch(
    udp: *const gannet_udp,
    data: *const c_void,
    total: usize,
    size: usize,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        if size == 0 {
            return Err(refuse(Refusal::NEGATIVE));
        }
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, total) }?;
        let sent = match address.is_null() {
            true => udp.socket.send_batch(data, size)?,
            false => {
                // SAFETY: the caller's promise.
                let to = unsafe { memory::address(address, length) }?;
                udp.socket.send_batch_to(data, size, to)?
            }
        };
        Ok(c_int::try_from(sent).unwrap_or(c_int::MAX))
    })
}

/// Fills `buffer` back to back with as many datagrams as are there and fit, and says in `places`,
/// of which there are `most`, where each lies. At most 64 with one call. Waits for the first.
///
/// Returns how many came; -1 as gannet_udp_recv.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_udp_recv_batch(
    udp: *const gannet_udp,
    buffer: *mut c_void,
    size: usize,
    places: *mut gannet_datagram,
    most: c_int,
) -> c_int {
    guarded(-1, || {
        let udp = SOCKETS.get(udp)?;
        let most = usize::try_from(most).ok().filter(|&n| n > 0);
        let most = most.ok_or_else(|| refuse(Refusal::NEGATIVE))?;
        if places.is_null() {
            return Err(refuse(Refusal::NULL));
        }
        // SAFETY: the caller's promise.
        let buffer = unsafe { bytes_mut(buffer, size) }?;
        let mut found = [Datagram::EMPTY; PLACES_MAX];
        let room = found.get_mut(..most.min(PLACES_MAX)).unwrap_or_default();
        let came = udp.socket.recv_batch(buffer, room)?;
        for (at, datagram) in found.iter().take(came).enumerate() {
            // SAFETY: no more than `most` came; the caller's promise.
            unsafe {
                let place = places.add(at);
                (&raw mut (*place).offset).write_unaligned(datagram.offset);
                (&raw mut (*place).length).write_unaligned(datagram.len);
                let len = &raw mut (*place).from_length;
                len.write_unaligned(size_of::<sockaddr_storage>() as socklen_t);
                put_address((&raw mut (*place).from).cast(), len, datagram.from)?;
            }
        }
        Ok(came as c_int)
    })
}
