//! What comes from C, checked as far as it can be, and what goes to it. The callers promise what
//! C's own functions ask for: pointers that are not null lead to as much memory as is said.
#![allow(unsafe_code)]

use crate::error::{Refusal, refuse};
use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

/// A text.
///
/// # Safety
/// Null, or the address of a text with a zero at its end that nobody changes during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> io::Result<&'a str> {
    if text.is_null() {
        return Err(refuse(Refusal::NULL));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| refuse(Refusal::NOT_TEXT))
}

/// Two texts.
///
/// # Safety
/// As [`text`], for each.
pub(crate) unsafe fn texts<'a>(
    (one, two): (*const c_char, *const c_char),
) -> io::Result<(&'a str, &'a str)> {
    // SAFETY: the caller's promise.
    unsafe { Ok((text(one)?, text(two)?)) }
}

/// Bytes to be read.
///
/// # Safety
/// Null, or the address of `len` bytes that nobody changes during `'a`.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> io::Result<&'a [u8]> {
    check(at, len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise; not null, and not longer than anything can be.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// Bytes to be written.
///
/// # Safety
/// Null, or the address of `len` bytes that nobody else uses during `'a`.
pub(crate) unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize) -> io::Result<&'a mut [u8]> {
    check(at, len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `bytes`; bytes of C have a value, if not a meaning, before they are written.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len) })
}

fn check(at: *const c_void, len: usize) -> io::Result<()> {
    if at.is_null() && len > 0 {
        return Err(refuse(Refusal::NULL));
    }
    match isize::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(refuse(Refusal::NEGATIVE)),
    }
}

/// Most pieces of a gathering or scattering call: Linux's IOV_MAX.
const PIECES_MAX: usize = 1024;

/// Pieces to be read.
///
/// # Safety
/// As [`bytes`], for the list and for each piece.
pub(crate) unsafe fn pieces<'a>(
    list: *const libc::iovec,
    count: c_int,
) -> io::Result<Vec<IoSlice<'a>>> {
    // SAFETY: the caller's promise.
    let list = unsafe { entries(list, count) }?;
    // SAFETY: the caller's promise.
    let piece = |e: &libc::iovec| unsafe { bytes(e.iov_base, e.iov_len) };
    list.iter().map(|e| piece(e).map(IoSlice::new)).collect()
}

/// Pieces to be written.
///
/// # Safety
/// As [`bytes_mut`], for each piece; as [`bytes`] for the list. No two overlap.
pub(crate) unsafe fn pieces_mut<'a>(
    list: *const libc::iovec,
    count: c_int,
) -> io::Result<Vec<IoSliceMut<'a>>> {
    // SAFETY: the caller's promise.
    let list = unsafe { entries(list, count) }?;
    // SAFETY: the caller's promise.
    let piece = |e: &libc::iovec| unsafe { bytes_mut(e.iov_base, e.iov_len) };
    list.iter().map(|e| piece(e).map(IoSliceMut::new)).collect()
}

/// # Safety
/// Null, or the address of `count` entries that nobody changes during `'a`.
unsafe fn entries<'a>(list: *const libc::iovec, count: c_int) -> io::Result<&'a [libc::iovec]> {
    let count = usize::try_from(count).ok().filter(|&n| n <= PIECES_MAX);
    let count = count.ok_or_else(|| refuse(Refusal::NEGATIVE))?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(refuse(Refusal::NULL));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Puts `value` where a caller wants it.
///
/// # Safety
/// Null, or the address of a `T` to be written.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> io::Result<()> {
    if place.is_null() {
        return Err(refuse(Refusal::NULL));
    }
    // SAFETY: the caller's promise.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// The first bytes of `value`, as many as the caller knows of: fields that a later version adds are
/// at the end.
///
/// # Safety
/// Null, or the address of `size` bytes to be written. `T` has no padding.
pub(crate) unsafe fn put_first<T: Copy>(place: *mut T, size: usize, value: T) -> io::Result<()> {
    if place.is_null() {
        return Err(refuse(Refusal::NULL));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: not longer than either; the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast(), known);
        place.cast::<u8>().add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// An address.
///
/// # Safety
/// Null, or the address of `len` bytes.
pub(crate) unsafe fn address(at: *const sockaddr, len: socklen_t) -> io::Result<SocketAddr> {
    if at.is_null() {
        return Err(refuse(Refusal::NULL));
    }
    let len = len as usize;
    if len < size_of::<sa_family_t>() {
        return Err(refuse(Refusal::SHORT_ADDRESS));
    }
    // SAFETY: at least as long as the family.
    let family = unsafe { at.cast::<sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: as long as that.
            let four = unsafe { at.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(four.sin_port)).into())
        }
        AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: as long as that.
            let six = unsafe { at.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
            let (port, flow) = (u16::from_be(six.sin6_port), u32::from_be(six.sin6_flowinfo));
            Ok(SocketAddrV6::new(ip, port, flow, six.sin6_scope_id).into())
        }
        AF_INET | AF_INET6 => Err(refuse(Refusal::SHORT_ADDRESS)),
        _ => Err(refuse(Refusal::FAMILY)),
    }
}

/// Whether [`put_address`] will have a place to write to, before anything is taken that would then
/// be lost.
pub(crate) fn check_place(at: *mut sockaddr, len: *mut socklen_t) -> io::Result<()> {
    match !at.is_null() && len.is_null() {
        true => Err(refuse(Refusal::NULL)),
        false => Ok(()),
    }
}

/// Writes an address as accept(2) does: as much as there is room for, and its length. A null `at`
/// is for callers who do not care.
///
/// # Safety
/// `at` is null, or `len` the address of a number, and `at` that of so many bytes.
pub(crate) unsafe fn put_address(
    at: *mut sockaddr,
    len: *mut socklen_t,
    address: SocketAddr,
) -> io::Result<()> {
    check_place(at, len)?;
    if at.is_null() {
        return Ok(());
    }
    let (bytes, full) = encode(address);
    // SAFETY: the caller's promise.
    let room = unsafe { len.read_unaligned() } as usize;
    let known = bytes.get(..full.min(room)).unwrap_or_default();
    // SAFETY: no more than there is room for; the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(known.as_ptr(), at.cast(), known.len());
        len.write_unaligned(full as socklen_t);
    }
    Ok(())
}

/// An address as C has it, and its length.
fn encode(address: SocketAddr) -> ([u8; 28], usize) {
    let mut out = [0; 28];
    let (family, len) = match address {
        SocketAddr::V4(_) => (AF_INET, size_of::<sockaddr_in>()),
        SocketAddr::V6(_) => (AF_INET6, size_of::<sockaddr_in6>()),
    };
    let mut write = |at: usize, field: &[u8]| {
        if let Some(place) = out.get_mut(at..at + field.len()) {
            place.copy_from_slice(field);
        }
    };
    write(0, &(family as sa_family_t).to_ne_bytes());
    write(2, &address.port().to_be_bytes());
    match address {
        SocketAddr::V4(four) => write(4, &four.ip().octets()),
        SocketAddr::V6(six) => {
            write(4, &six.flowinfo().to_be_bytes());
            write(8, &six.ip().octets());
            write(24, &six.scope_id().to_ne_bytes());
        }
    }
    (out, len)
}

/// Milliseconds as C's poll(2) has them: negative is for ever.
pub(crate) fn patience(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code_of;

    #[test]
    fn addresses_there_and_back() {
        for text in ["10.1.2.3:4567", "[fd00::1]:80", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            let (bytes, len) = encode(address);
            let at = bytes.as_ptr().cast();
            // SAFETY: so many bytes.
            let back = unsafe { super::address(at, len as socklen_t) };
            assert_eq!(back.unwrap(), address);
            // SAFETY: as above.
            let short = unsafe { super::address(at, len as socklen_t - 1) };
            assert_eq!(code_of(&short.unwrap_err()), libc::EINVAL);
        }
        let unix = (libc::AF_UNIX as sa_family_t).to_ne_bytes();
        // SAFETY: two bytes.
        let unix = unsafe { super::address(unix.as_ptr().cast(), 2) };
        assert_eq!(code_of(&unix.unwrap_err()), libc::EAFNOSUPPORT);
    }

    #[test]
    fn a_small_place_takes_what_it_can() {
        let mut place = [0xee_u8; 28];
        let mut len: socklen_t = 4;
        let address = "10.1.2.3:4567".parse().unwrap();
        // SAFETY: four bytes and more.
        unsafe { put_address(place.as_mut_ptr().cast(), &mut len, address) }.unwrap();
        assert_eq!((len, place[3], place[4]), (16, 0xd7, 0xee));
        // SAFETY: null is allowed.
        unsafe { put_address(std::ptr::null_mut(), std::ptr::null_mut(), address) }.unwrap();
    }

    #[test]
    fn null_and_lengths() {
        let null = std::ptr::null_mut();
        // SAFETY: null is allowed.
        unsafe {
            assert!(bytes(null, 0).unwrap().is_empty());
            for error in [
                bytes(null, 1).unwrap_err(),
                text(std::ptr::null()).unwrap_err(),
                pieces(std::ptr::null(), 1).unwrap_err(),
                pieces(std::ptr::null(), -1).unwrap_err(),
                pieces_mut(std::ptr::null(), 2000).unwrap_err(),
                bytes_mut(std::ptr::without_provenance_mut(8), usize::MAX).unwrap_err(),
            ] {
                assert_eq!(code_of(&error), libc::EINVAL);
            }
        }
        assert_eq!(patience(-1), None);
        assert_eq!(patience(20), Some(Duration::from_millis(20)));
    }
}
