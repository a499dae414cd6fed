//! The requests of `/dev/net/tun`.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

fn call<T>(fd: BorrowedFd<'_>, number: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: `fd` is open while borrowed; the callers below pair each request number with the type
    // that the kernel reads and writes for it, which `argument` is, exclusively borrowed.
    match unsafe { libc::ioctl(fd.as_raw_fd(), number, argument as *mut T) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Makes the device `name` (the kernel chooses when it is empty, and fills in a `%d`) of the kind
/// that `flags` say, or attaches to it; its name.
pub(super) fn attach(fd: BorrowedFd<'_>, name: &str, flags: libc::c_int) -> io::Result<String> {
    // SAFETY: `ifreq` is plain data, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let room = request.ifr_name.len() - 1; // the last byte stays 0
    if name.len() > room || name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // `struct ifreq`, in and out.
    call(fd, libc::TUNSETIFF, &mut request)?;
    Ok(name_of(&request))
}

/// Name and flags of the device that `fd` is attached to; `EBADFD` when it is gone.
pub(super) fn attached(fd: BorrowedFd<'_>) -> io::Result<(String, libc::c_int)> {
    // SAFETY: `ifreq` is plain data, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // `struct ifreq`, out.
    call(fd, libc::TUNGETIFF, &mut request)?;
    // SAFETY: the request succeeded, so the kernel wrote this member; any bits are an integer.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok((name_of(&request), flags))
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|&c| c as u8);
    let name: Vec<u8> = bytes.take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}

/// Sets the number of bytes in the header in front of each frame.
pub(super) fn set_header(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let mut bytes = bytes as libc::c_int;
    // `int`, in.
    call(fd, libc::TUNSETVNETHDRSZ, &mut bytes)
}

/// Tells the kernel what it may leave to us: a combination of `TUN_F_*`.
pub(super) fn set_offload(fd: BorrowedFd<'_>, features: libc::c_uint) -> io::Result<()> {
    // SAFETY: `fd` is open while borrowed; the argument of this request is a number, not an
    // address.
    let result = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(features),
        )
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
