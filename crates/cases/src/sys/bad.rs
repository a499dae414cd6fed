//! The calls with addresses at which there is no memory.

use super::{Addr, Ret};
use crate::far;
use libc::{c_void, iovec};
use std::ptr::null_mut;

/// An address in the first page, which the kernel maps for nobody.
const NOWHERE: usize = 8;

fn nowhere<T>() -> *mut T {
    std::ptr::without_provenance_mut(NOWHERE)
}

/// `bind` to an address that cannot be read.
pub(crate) fn bind_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(bind(fd, nowhere(), 16))
}

/// `connect` to an address that cannot be read.
pub(crate) fn connect_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(connect(fd, nowhere(), 16))
}

/// `accept` with an address that cannot be written.
pub(crate) fn accept_bad(fd: i32) -> Ret {
    far::here(fd);
    let mut len = 16;
    call!(accept(fd, nowhere(), &mut len))
}

/// `accept` with a length that cannot be read.
pub(crate) fn accept_bad_len(fd: i32) -> Ret {
    far::here(fd);
    let mut address = Addr::room();
    call!(accept(fd, address.pointer_mut(), nowhere()))
}

/// `getsockname` into an address that cannot be written.
pub(crate) fn getsockname_bad(fd: i32) -> Ret {
    far::here(fd);
    let mut len = 16;
    call!(getsockname(fd, nowhere(), &mut len))
}

/// `getsockname` with a length that cannot be read.
pub(crate) fn getsockname_bad_len(fd: i32) -> Ret {
    far::here(fd);
    let mut address = Addr::room();
    call!(getsockname(fd, address.pointer_mut(), nowhere()))
}

/// `getpeername` into an address that cannot be written.
pub(crate) fn getpeername_bad(fd: i32) -> Ret {
    far::here(fd);
    let mut len = 16;
    call!(getpeername(fd, nowhere(), &mut len))
}

/// `send` of bytes that cannot be read.
pub(crate) fn send_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(send(fd, nowhere::<c_void>(), 4, 0))
}

/// `sendto` an address that cannot be read.
pub(crate) fn sendto_bad(fd: i32) -> Ret {
    far::here(fd);
    let bytes = b"abc";
    call!(sendto(fd, bytes.as_ptr().cast(), 3, 0, nowhere(), 16))
}

/// `write` of bytes that cannot be read.
pub(crate) fn write_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(write(fd, nowhere::<c_void>(), 4))
}

/// `recv` into bytes that cannot be written.
pub(crate) fn recv_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(recv(fd, nowhere::<c_void>(), 4, 0))
}

/// `read` into bytes that cannot be written.
pub(crate) fn read_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(read(fd, nowhere::<c_void>(), 4))
}

/// `readv` with a list that cannot be read.
pub(crate) fn readv_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(readv(fd, nowhere(), 1))
}

/// `writev` with a good piece and one that cannot be read.
pub(crate) fn writev_half_bad(fd: i32) -> Ret {
    far::here(fd);
    let mut good = *b"good";
    let iov = [
        iovec {
            iov_base: good.as_mut_ptr().cast(),
            iov_len: 4,
        },
        iovec {
            iov_base: nowhere(),
            iov_len: 4,
        },
    ];
    call!(writev(fd, iov.as_ptr(), 2))
}

/// `sendmsg` with a header that cannot be read.
pub(crate) fn sendmsg_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(sendmsg(fd, nowhere(), 0))
}

/// `recvmsg` with a header that cannot be read.
pub(crate) fn recvmsg_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(recvmsg(fd, nowhere(), 0))
}

/// `setsockopt` of a value that cannot be read.
pub(crate) fn setsockopt_bad(fd: i32, level: i32, name: i32) -> Ret {
    far::here(fd);
    call!(setsockopt(fd, level, name, nowhere::<c_void>(), 4))
}

/// `getsockopt` into a value that cannot be written.
pub(crate) fn getsockopt_bad(fd: i32, level: i32, name: i32) -> Ret {
    far::here(fd);
    let mut len = 4;
    call!(getsockopt(fd, level, name, nowhere::<c_void>(), &mut len))
}

/// `getsockopt` with a length that cannot be read.
pub(crate) fn getsockopt_bad_len(fd: i32, level: i32, name: i32) -> Ret {
    far::here(fd);
    let mut value = 0_i32;
    let room = (&raw mut value).cast::<c_void>();
    call!(getsockopt(fd, level, name, room, nowhere()))
}

/// `poll` of a list that cannot be read.
pub(crate) fn poll_bad() -> Ret {
    call!(poll(nowhere(), 1, 0))
}

/// `select` of a set that cannot be read.
pub(crate) fn select_bad(fd: i32) -> Ret {
    far::here(fd);
    call!(select(
        fd + 1,
        nowhere(),
        null_mut(),
        null_mut(),
        null_mut()
    ))
}

/// `epoll_ctl` with an event that cannot be read.
pub(crate) fn epoll_ctl_bad(epoll: i32, fd: i32) -> Ret {
    far::here(epoll);
    far::here(fd);
    call!(epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, nowhere()))
}

/// `epoll_wait` into events that cannot be written.
pub(crate) fn epoll_wait_bad(epoll: i32) -> Ret {
    far::here(epoll);
    call!(epoll_wait(epoll, nowhere(), 1, 1000))
}

/// `ioctl` into a number that cannot be written.
pub(crate) fn ioctl_bad(fd: i32, request: u64) -> Ret {
    far::here(fd);
    call!(ioctl(fd, request, nowhere::<i32>()))
}

/// `sendfile` with an offset that cannot be read.
pub(crate) fn sendfile_bad(to: i32, from: i32) -> Ret {
    far::here(to);
    far::here(from);
    call!(sendfile(to, from, nowhere(), 4))
}

/// `socketpair` into numbers that cannot be written.
pub(crate) fn socketpair_bad() -> Ret {
    call!(socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, nowhere()))
}
