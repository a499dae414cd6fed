//! `send`, `recv` and their families.

use super::{Addr, Ret};
use crate::far::{self, Answer, Ask};
use crate::show::text_of;
use libc::c_void;
use std::fmt;

/// What a receiving call gave: its result, and the bytes that are now in the buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) ret: Ret,
    pub(crate) data: Vec<u8>,
}

impl Got {
    /// From a buffer and how much of it the call says it filled (with `MSG_TRUNC` more than all).
    pub(super) fn of(ret: Ret, mut buffer: Vec<u8>) -> Self {
        buffer.truncate(ret.count());
        Self { ret, data: buffer }
    }

    /// From what the helper received.
    pub(super) fn far(answer: Answer) -> Self {
        let ret = answer.ret();
        let data = answer.bytes;
        Self { ret, data }
    }
}

impl fmt::Display for Got {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ret {
            Ret::Value(_) if !self.data.is_empty() => {
                write!(out, "{} {}", self.ret, text_of(&self.data))
            }
            _ => write!(out, "{}", self.ret),
        }
    }
}

pub(crate) fn send(fd: i32, data: &[u8], flags: i32) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Send(fd, data.to_vec(), flags)) {
        return answer.ret();
    }
    call!(send(fd, data.as_ptr().cast::<c_void>(), data.len(), flags))
}

pub(crate) fn sendto(fd: i32, data: &[u8], flags: i32, to: Addr) -> Ret {
    far::here(fd);
    let bytes = data.as_ptr().cast::<c_void>();
    call!(sendto(fd, bytes, data.len(), flags, to.pointer(), to.len))
}

/// `sendto` without an address.
pub(crate) fn sendto_nobody(fd: i32, data: &[u8], flags: i32) -> Ret {
    far::here(fd);
    let bytes = data.as_ptr().cast::<c_void>();
    call!(sendto(fd, bytes, data.len(), flags, std::ptr::null(), 0))
}

/// `recv` of at most `len` bytes.
pub(crate) fn recv(fd: i32, len: usize, flags: i32) -> Got {
    if let Some(answer) = far::one(fd, |fd| Ask::Recv(fd, len, flags)) {
        return Got::far(answer);
    }
    let mut buffer = vec![0_u8; len];
    let ret = call!(recv(fd, buffer.as_mut_ptr().cast::<c_void>(), len, flags));
    Got::of(ret, buffer)
}

/// `recvfrom` of at most `len` bytes with room for any address.
pub(crate) fn recvfrom(fd: i32, len: usize, flags: i32) -> (Got, Addr) {
    far::here(fd);
    recvfrom_in(fd, len, flags, Addr::room().len)
}

/// `recvfrom` of at most `len` bytes with room of `room` bytes for the address.
pub(crate) fn recvfrom_in(fd: i32, len: usize, flags: i32, room: u32) -> (Got, Addr) {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let mut from = Addr::room();
    let mut room = room;
    let bytes = buffer.as_mut_ptr().cast::<c_void>();
    let ret = call!(recvfrom(
        fd,
        bytes,
        len,
        flags,
        from.pointer_mut(),
        &mut room
    ));
    (Got::of(ret, buffer), from.cut(room))
}

// What a program built with _FORTIFY_SOURCE imports in place of the plain names.
mod fortified {
    use libc::{c_int, c_void, pollfd, size_t, sockaddr, socklen_t, ssize_t};

    // SAFETY: the signatures of glibc's bits/socket2.h, bits/unistd.h and bits/poll2.h.
    unsafe extern "C" {
        pub(super) fn __recv_chk(
            fd: c_int,
            buffer: *mut c_void,
            len: size_t,
            room: size_t,
            flags: c_int,
        ) -> ssize_t;
        pub(super) fn __recvfrom_chk(
            fd: c_int,
            buffer: *mut c_void,
            len: size_t,
            room: size_t,
            flags: c_int,
            from: *mut sockaddr,
            from_len: *mut socklen_t,
        ) -> ssize_t;
        pub(super) fn __read_chk(
            fd: c_int,
            buffer: *mut c_void,
            len: size_t,
            room: size_t,
        ) -> ssize_t;
        pub(super) fn __poll_chk(
            fds: *mut pollfd,
            count: libc::nfds_t,
            timeout: c_int,
            room: size_t,
        ) -> c_int;
    }
}

/// `__recv_chk`.
pub(crate) fn recv_checked(fd: i32, len: usize, flags: i32) -> Got {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let bytes = buffer.as_mut_ptr().cast::<c_void>();
    // SAFETY: `buffer` has `len` bytes and lives across the call.
    let value = unsafe { fortified::__recv_chk(fd, bytes, len, len, flags) };
    Got::of(Ret::of(value as i64), buffer)
}

/// `__recvfrom_chk`.
pub(crate) fn recvfrom_checked(fd: i32, len: usize, flags: i32) -> (Got, Addr) {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let bytes = buffer.as_mut_ptr().cast::<c_void>();
    let mut from = Addr::room();
    let mut room = from.len;
    let name = from.pointer_mut();
    // SAFETY: `buffer` has `len` bytes, `from` has `room` bytes, both live across the call.
    let value = unsafe { fortified::__recvfrom_chk(fd, bytes, len, len, flags, name, &mut room) };
    (Got::of(Ret::of(value as i64), buffer), from.cut(room))
}

/// `__read_chk`.
pub(crate) fn read_checked(fd: i32, len: usize) -> Got {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let bytes = buffer.as_mut_ptr().cast::<c_void>();
    // SAFETY: `buffer` has `len` bytes and lives across the call.
    let value = unsafe { fortified::__read_chk(fd, bytes, len, len) };
    Got::of(Ret::of(value as i64), buffer)
}

/// `__poll_chk` on one descriptor; the result and `revents`.
pub(crate) fn poll_checked(fd: i32, events: i16, timeout_ms: i32) -> (Ret, i16) {
    far::here(fd);
    let mut one = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let room = size_of::<libc::pollfd>();
    // SAFETY: one `pollfd`, which lives across the call.
    let value = unsafe { fortified::__poll_chk(&mut one, 1, timeout_ms, room) };
    (Ret::of(i64::from(value)), one.revents)
}
