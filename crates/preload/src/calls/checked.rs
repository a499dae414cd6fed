//! What programs import instead that were compiled with checks (`_FORTIFY_SOURCE`).

use super::io::{read, recv, recvfrom};
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: as the caller says.
    unsafe { read(fd, to, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    call: c_int,
) -> ssize_t {
    check(len, room);
    // SAFETY: as the caller says.
    unsafe { recv(fd, to, len, call) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    call: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: as the caller says.
    unsafe { recvfrom(fd, to, len, call, from, from_len) }
}

/// What the C library's checked functions do: a call that would overflow its buffer ends the
/// program.
pub(super) fn check(len: size_t, room: size_t) {
    if len > room {
        let _ = rustix::io::write(
            rustix::stdio::stderr(),
            b"*** buffer overflow detected ***: terminated\n",
        );
        std::process::abort();
    }
}
