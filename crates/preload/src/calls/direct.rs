//! `syscall`: programs that number their calls themselves mean the same sockets. Node closes every
//! descriptor that way. What comes by the border has a number, too.
//!
//! What is called here by the C library's names is this library's, as for everybody else in the
//! process.

use crate::{object, real};
use libc::{c_int, c_long, c_uint, c_void};

/// Whether call `n` is one that streams have an opinion of, and its first argument is ours; calls
/// that concern several descriptors count as such.
fn is_for_us(n: c_long, first: usize) -> bool {
    match n {
        libc::SYS_close_range | libc::SYS_execve => true,
        libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 => true,
        libc::SYS_splice | libc::SYS_sendfile => true,
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_connect | libc::SYS_listen => {
            true
        }
        libc::SYS_bind | libc::SYS_sendmsg | libc::SYS_recvmsg | libc::SYS_epoll_ctl => true,
        libc::SYS_socket | libc::SYS_setsockopt | libc::SYS_sendto | libc::SYS_sendmmsg => true,
        libc::SYS_epoll_create1 => true,
        _ => object::is_ours(first as c_int),
    }
}

/// The C library takes its arguments as they come: seven words are in the same places, used or not.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall(
    n: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    if n != libc::SYS_futex
        && is_for_us(n, a)
        // SAFETY: as the caller says.
        && let Some(done) = unsafe { by_number(n, (a, b, c, d, e, f)) }
    {
        return done;
    }
    // SAFETY: passed on.
    unsafe { real::syscall(n, a, b, c, d, e, f) }
}

/// Arguments of a call.
pub(crate) type Words = (usize, usize, usize, usize, usize, usize);

/// Call `n` by its name, with errno where it fails. `None`: no name of it is taken.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn by_number(n: c_long, words: Words) -> Option<c_long> {
    // SAFETY: as the caller says.
    let done = unsafe { bytes(n, words) };
    // SAFETY: as the caller says.
    let done = done.or_else(|| unsafe { sockets(n, words) });
    // SAFETY: as the caller says.
    let done = done.or_else(|| unsafe { sets(n, words) });
    // SAFETY: as the caller says.
    done.or_else(|| unsafe { descriptors(n, words) })
}

/// # Safety
/// As the call's.
unsafe fn bytes(n: c_long, (a, b, c, d, e, f): Words) -> Option<c_long> {
    let fd = a as c_int;
    let place = b as *mut c_void;
    // SAFETY: as the caller says.
    let done = unsafe {
        match n {
            libc::SYS_read => libc::read(fd, place, c),
            libc::SYS_write => libc::write(fd, place, c),
            libc::SYS_readv => libc::readv(fd, b as *const _, c as c_int),
            libc::SYS_writev => libc::writev(fd, b as *const _, c as c_int),
            libc::SYS_recvfrom => {
                libc::recvfrom(fd, place, c, d as c_int, e as *mut _, f as *mut _)
            }
            libc::SYS_sendto => libc::sendto(fd, place, c, d as c_int, e as *const _, f as c_uint),
            libc::SYS_recvmsg => libc::recvmsg(fd, b as *mut _, c as c_int),
            libc::SYS_sendmsg => libc::sendmsg(fd, b as *const _, c as c_int),
            // An offset of 64 bits is in one word; the other one counts for nothing.
            libc::SYS_preadv2 => {
                super::io::preadv2(fd, b as *const _, c as c_int, d as libc::off_t, f as c_int)
            }
            libc::SYS_pwritev2 => {
                super::io::pwritev2(fd, b as *const _, c as c_int, d as libc::off_t, f as c_int)
            }
            libc::SYS_sendfile => libc::sendfile(fd, b as c_int, c as *mut _, d),
            libc::SYS_splice => {
                libc::splice(fd, b as *mut _, c as c_int, d as *mut _, e, f as c_uint)
            }
            _ => return None,
        }
    };
    Some(done as c_long)
}

/// # Safety
/// As the call's.
unsafe fn sockets(n: c_long, (a, b, c, d, e, _): Words) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as the caller says.
    let done = unsafe {
        match n {
            libc::SYS_socket => libc::socket(fd, b as c_int, c as c_int),
            libc::SYS_bind => libc::bind(fd, b as *const _, c as c_uint),
            libc::SYS_listen => libc::listen(fd, b as c_int),
            libc::SYS_connect => libc::connect(fd, b as *const _, c as c_uint),
            libc::SYS_accept => libc::accept(fd, b as *mut _, c as *mut _),
            libc::SYS_accept4 => libc::accept4(fd, b as *mut _, c as *mut _, d as c_int),
            libc::SYS_shutdown => libc::shutdown(fd, b as c_int),
            libc::SYS_getsockname => libc::getsockname(fd, b as *mut _, c as *mut _),
            libc::SYS_getpeername => libc::getpeername(fd, b as *mut _, c as *mut _),
            libc::SYS_getsockopt => {
                libc::getsockopt(fd, b as c_int, c as c_int, d as *mut _, e as *mut _)
            }
            libc::SYS_setsockopt => {
                libc::setsockopt(fd, b as c_int, c as c_int, d as *const _, e as c_uint)
            }
            libc::SYS_recvmmsg => {
                libc::recvmmsg(fd, b as *mut _, c as c_uint, d as c_int, e as *mut _)
            }
            libc::SYS_sendmmsg => libc::sendmmsg(fd, b as *mut _, c as c_uint, d as c_int),
            _ => return None,
        }
    };
    Some(c_long::from(done))
}

/// # Safety
/// As the call's.
unsafe fn descriptors(n: c_long, (a, b, c, ..): Words) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as the caller says.
    let done = unsafe {
        match n {
            libc::SYS_close => libc::close(fd),
            libc::SYS_close_range => libc::close_range(a as c_uint, b as c_uint, c as c_int),
            libc::SYS_dup => libc::dup(fd),
            libc::SYS_dup2 => libc::dup2(fd, b as c_int),
            libc::SYS_dup3 => libc::dup3(fd, b as c_int, c as c_int),
            libc::SYS_fcntl => libc::fcntl(fd, b as c_int, c),
            libc::SYS_ioctl => libc::ioctl(fd, b as libc::Ioctl, c),
            libc::SYS_execve => libc::execve(a as *const _, b as *const _, c as *const _),
            _ => return None,
        }
    };
    Some(c_long::from(done))
}

/// # Safety
/// As the call's.
unsafe fn sets(n: c_long, (a, b, c, d, e, f): Words) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as the caller says.
    let done = unsafe {
        match n {
            libc::SYS_poll => libc::poll(a as *mut _, b as libc::nfds_t, c as c_int),
            // The kernel writes back what is left of the time, which nobody may count on.
            libc::SYS_ppoll => {
                libc::ppoll(a as *mut _, b as libc::nfds_t, c as *const _, d as *const _)
            }
            libc::SYS_select => {
                libc::select(fd, b as *mut _, c as *mut _, d as *mut _, e as *mut _)
            }
            libc::SYS_pselect6 => {
                // Its sixth argument points to the mask and the mask's size.
                let mask = (f as *const *const libc::sigset_t).as_ref();
                let mask = mask.map_or(std::ptr::null(), |mask| *mask);
                let (read, write, except) = (b as *mut _, c as *mut _, d as *mut _);
                libc::pselect(fd, read, write, except, e as *const _, mask)
            }
            libc::SYS_epoll_create1 => libc::epoll_create1(fd),
            libc::SYS_epoll_ctl => libc::epoll_ctl(fd, b as c_int, c as c_int, d as *mut _),
            libc::SYS_epoll_wait => libc::epoll_wait(fd, b as *mut _, c as c_int, d as c_int),
            libc::SYS_epoll_pwait => {
                libc::epoll_pwait(fd, b as *mut _, c as c_int, d as c_int, e as *const _)
            }
            libc::SYS_epoll_pwait2 => {
                // The C library's binding has no name for it in every version.
                let (events, time) = (b as *mut _, d as *const _);
                super::multiplex::epoll_pwait2(fd, events, c as c_int, time, e as *const _)
            }
            _ => return None,
        }
    };
    Some(c_long::from(done))
}
