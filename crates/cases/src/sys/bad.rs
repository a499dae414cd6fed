//! The calls with addresses at which there is no memory.

use super::{Addr, Ret};
use crate::far;
use libc::{c_void, iovec};
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// An address in the first page, which the kernel never maps, unless [`nowhere_is`] says another.
static NOWHERE: AtomicUsize = AtomicUsize::new(8);

/// A page of memory.
const PAGE: usize = 4096;

/// Kinds of places at which there is no memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nowhere {
    /// Far from all that is mapped.
    Far,
    /// A page that may not be touched.
    Closed,
    /// The end of a page behind which one may not be touched.
    Edge,
    /// No address of a processor.
    High,
    /// The last bytes of all.
    Last,
}

/// What the calls of this module take for nowhere from now on.
pub(crate) fn nowhere_is(kind: Nowhere) {
    let pages = page_and_hole();
    let at = match kind {
        Nowhere::Far => 0x0bad_0000_0000,
        Nowhere::Closed => pages.addr() + PAGE,
        Nowhere::Edge => pages.addr() + PAGE - 1,
        Nowhere::High => 1 << 47,
        Nowhere::Last => usize::MAX - 3,
    };
    NOWHERE.store(at, Relaxed);
}

/// A page of memory, and one that may not be touched.
fn page_and_hole() -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, the second page of which is not used.
    unsafe {
        let pages = libc::mmap(null_mut(), 2 * PAGE, access, flags, -1, 0);
        libc::mprotect(pages.byte_add(PAGE), PAGE, libc::PROT_NONE);
        pages
    }
}

fn nowhere<T>() -> *mut T {
    std::ptr::without_provenance_mut(NOWHERE.load(Relaxed))
}

/// `recv` of `len` bytes to the last byte of a page and behind it.
pub(crate) fn recv_over_edge(fd: i32, len: usize) -> Ret {
    far::here(fd);
    let at = page_and_hole().wrapping_byte_add(PAGE - 1);
    call!(recv(fd, at, len, 0))
}

/// `send` of a page and what is behind it.
pub(crate) fn send_over_edge(fd: i32) -> Ret {
    far::here(fd);
    call!(send(fd, page_and_hole(), PAGE + 1, 0))
}

/// A good piece and one that is nowhere.
fn half_bad(good: &mut [u8; 4]) -> [iovec; 2] {
    let piece = |iov_base| iovec {
        iov_base,
        iov_len: 4,
    };
    [piece(good.as_mut_ptr().cast()), piece(nowhere())]
}

/// `readv` into a good piece and one that cannot be written: how many bytes.
pub(crate) fn readv_half_bad(fd: i32) -> Ret {
    far::here(fd);
    let mut good = [0u8; 4];
    let iov = half_bad(&mut good);
    call!(readv(fd, iov.as_ptr(), 2))
}

/// `recvfrom` with an address that cannot be written.
pub(crate) fn recvfrom_bad(fd: i32) -> Ret {
    far::here(fd);
    let mut room = [0u8; 9];
    let mut len = 16;
    let bytes = room.as_mut_ptr().cast::<c_void>();
    call!(recvfrom(fd, bytes, 9, 0, nowhere(), &mut len))
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
    let iov = half_bad(&mut good);
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
