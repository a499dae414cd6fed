//! Readiness of many sockets.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::handle::{Kind, Table};
use crate::host::{HOSTS, gannet_host};
use crate::listener::LISTENERS;
use crate::memory::patience;
use crate::option::no_socket;
use crate::tcp::STREAMS;
use crate::udp::SOCKETS;
use gannet::{Interest, Poller};
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;

/// Waits for many sockets of one host.
pub enum gannet_poller {}

/// There is something to read or to accept, the end of the stream, or an error.
pub const GANNET_READABLE: c_uint = 1;
/// There is room to write, a connection that was being opened is open, or an error.
pub const GANNET_WRITABLE: c_uint = 2;
/// The socket has failed: gannet_tcp_take_error says why. Told whether asked for or not.
pub const GANNET_FAILED: c_uint = 4;

/// A socket that is ready.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gannet_event {
    /// As given to gannet_poller_add.
    pub token: u64,
    /// GANNET_READABLE, GANNET_WRITABLE, GANNET_FAILED.
    pub ready: c_uint,
}

static POLLERS: Table<Poller, gannet_poller> = Table::new(Kind::Poller);

/// A poller for sockets of `host`; it watches nothing yet.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_new(host: *const gannet_host) -> *mut gannet_poller {
    guarded(std::ptr::null_mut(), || {
        POLLERS.insert(Poller::new(&*HOSTS.get(host)?))
    })
}

/// Watches `socket`, a gannet_tcp, gannet_listener or gannet_udp, for `interest`: GANNET_READABLE,
/// GANNET_WRITABLE, both, or 0 for failures alone. Its events carry `token`.
///
/// Returns 0; -1 with EEXIST when it is watched already, EINVAL for a socket of another host,
/// EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_add(
    poller: *const gannet_poller,
    socket: *const c_void,
    token: u64,
    interest: c_uint,
) -> c_int {
    change(poller, socket, Change::Add(token, interest))
}

/// Changes what is asked of `socket`.
///
/// Returns 0; -1 with ENOENT when it is not watched, EINVAL, EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_modify(
    poller: *const gannet_poller,
    socket: *const c_void,
    token: u64,
    interest: c_uint,
) -> c_int {
    change(poller, socket, Change::Modify(token, interest))
}

/// No longer watches `socket`; closing a socket does that, too.
///
/// Returns 0; -1 with ENOENT when it is not watched, EINVAL, EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_remove(
    poller: *const gannet_poller,
    socket: *const c_void,
) -> c_int {
    change(poller, socket, Change::Remove)
}

#[derive(Clone, Copy)]
enum Change {
    Add(u64, c_uint),
    Modify(u64, c_uint),
    Remove,
}

impl Change {
    fn apply(self, poller: &Poller, source: &impl gannet::Source) -> io::Result<()> {
        match self {
            Change::Add(token, interest) => poller.add(source, token, wanted(interest)?),
            Change::Modify(token, interest) => poller.modify(source, token, wanted(interest)?),
            Change::Remove => poller.delete(source),
        }
    }
}

fn wanted(interest: c_uint) -> io::Result<Interest> {
    match interest {
        0 => Ok(Interest::NONE),
        GANNET_READABLE => Ok(Interest::READABLE),
        GANNET_WRITABLE => Ok(Interest::WRITABLE),
        3 => Ok(Interest::READABLE | Interest::WRITABLE),
        _ => Err(refuse(Refusal::NEGATIVE)),
    }
}

fn change(poller: *const gannet_poller, socket: *const c_void, change: Change) -> c_int {
    guarded(-1, || {
        let poller = POLLERS.get(poller)?;
        match Kind::of(socket) {
            Some(Kind::Tcp) => change.apply(&poller, &STREAMS.get(socket.cast())?.socket),
            Some(Kind::Udp) => change.apply(&poller, &SOCKETS.get(socket.cast())?.socket),
            Some(Kind::Listener) => change.apply(&poller, &LISTENERS.get(socket.cast())?.socket),
            _ => Err(no_socket(socket)),
        }?;
        Ok(0)
    })
}

/// Waits until a watched socket is ready, gannet_poller_wake is called, or `timeout` milliseconds
/// have passed (0: does not wait; negative: for ever). Level-triggered: a socket is told of for as
/// long as it is ready. A signal handler does not end the wait.
///
/// Returns how many events were written to `events`, at most `most`; 0 when time is up or somebody
/// woke it; -1 on failure.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_poller_wait(
    poller: *const gannet_poller,
    events: *mut gannet_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    guarded(-1, || {
        let poller = POLLERS.get(poller)?;
        let most = usize::try_from(most).ok().filter(|&n| n > 0);
        let most = most.ok_or_else(|| refuse(Refusal::NEGATIVE))?;
        if events.is_null() {
            return Err(refuse(Refusal::NULL));
        }
        let mut found = Vec::new();
        poller.wait_for_some(&mut found, most, patience(timeout))?;
        for (at, event) in found.iter().enumerate() {
            let bit = |on: bool, bit| if on { bit } else { 0 };
            let ready = bit(event.readable, GANNET_READABLE)
                | bit(event.writable, GANNET_WRITABLE)
                | bit(event.failed, GANNET_FAILED);
            let event = gannet_event {
                token: event.token,
                ready,
            };
            // SAFETY: no more than `most`; the caller's promise.
            unsafe { events.add(at).write_unaligned(event) };
        }
        Ok(found.len() as c_int)
    })
}

/// From now on gannet_poller_wait ends, without an event, also when `descriptor`, one of the
/// kernel's, can be read: until it is closed, or the poller is. A program with an event loop of its
/// own gives its epoll descriptor, sleeps here, and asks its loop without waiting whenever this
/// returns.
///
/// Returns 0; -1 with EBADF, or EPERM for one that cannot be waited for.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_add_descriptor(
    poller: *const gannet_poller,
    descriptor: c_int,
) -> c_int {
    guarded(-1, || {
        let poller = POLLERS.get(poller)?;
        poller.add_descriptor(borrow(descriptor)?).map(|()| 0)
    })
}

fn borrow<'a>(descriptor: c_int) -> io::Result<BorrowedFd<'a>> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: not -1; used for one system call, which fails when it is not open.
    Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Ends a gannet_poller_wait of another thread, or the next one.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_wake(poller: *const gannet_poller) -> c_int {
    guarded(-1, || {
        POLLERS.get(poller)?.waker().wake();
        Ok(0)
    })
}

/// Closes the poller; the sockets that it watched are as before.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_poller_close(poller: *mut gannet_poller) -> c_int {
    guarded(-1, || POLLERS.remove(poller).map(|_| 0))
}
