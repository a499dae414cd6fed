//! Addresses from text, for programs that have no use for getaddrinfo(3).
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::memory::{put_address, text};
use libc::{sockaddr, sockaddr_storage, socklen_t};
use std::ffi::{c_char, c_int};
use std::net::SocketAddr;

/// Reads `text`, `10.0.0.1:80` or `[fd00::1]:80`, into `*address` and its length into `*length`.
/// No name service is asked.
///
/// Returns 0; -1 with EINVAL when it is no address with a port.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_address(
    text: *const c_char,
    address: *mut sockaddr_storage,
    length: *mut socklen_t,
) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller's promise.
        let text = unsafe { self::text(text) }?;
        let read: SocketAddr = text.parse().map_err(|_| refuse(Refusal::NO_ADDRESS))?;
        // SAFETY: the caller's promise: a storage is as long as any address.
        unsafe {
            crate::memory::put(length, size_of::<sockaddr_storage>() as socklen_t)?;
            put_address(address.cast::<sockaddr>(), length, read)?;
        }
        Ok(0)
    })
}
