//! TCP connections.
#![allow(unsafe_code)]

use crate::error::{Refusal, code_of, guarded, refuse, tell};
use crate::handle::{Kind, Table};
use crate::host::{HOSTS, gannet_host};
use crate::memory::{self, bytes, bytes_mut, patience, pieces, pieces_mut, put_address, text};
use gannet::{Connect, TcpStream};
use libc::{iovec, sockaddr, socklen_t, ssize_t};
use std::ffi::{c_char, c_int, c_void};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};

/// A TCP connection.
pub enum gannet_tcp {}

/// The connection, and what it cannot tell itself.
pub(crate) struct Stream {
    pub(crate) socket: TcpStream,
    pub(crate) nonblocking: AtomicBool,
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Stream {
        Stream {
            socket,
            nonblocking: AtomicBool::new(false),
        }
    }
}

impl Stream {
    pub(crate) fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
        self.nonblocking.store(on, Ordering::Relaxed);
        self.socket.set_nonblocking(on)
    }
}

pub(crate) static STREAMS: Table<Stream, gannet_tcp> = Table::new(Kind::Tcp);

/// How gannet_tcp_connect_with connects. Set it to zero, then what is to be different.
#[repr(C)]
pub struct gannet_connect_options {
    /// Address and port to come from; NULL: the host's choice. Port 0: a free one.
    pub from: *const sockaddr,
    /// Length of that.
    pub from_length: socklen_t,
    /// Longest wait in milliseconds; 0 or less: as long as TCP tries.
    pub timeout_ms: c_int,
    /// 1: returns at once, see gannet_tcp_connect_nonblocking.
    pub nonblocking: c_int,
}

/// Connects to `address` and waits until the connection is open.
///
/// Returns the connection; NULL with ECONNREFUSED when nobody listens there, EHOSTUNREACH when no
/// process of the network has the address, ENETUNREACH without a route, ETIMEDOUT.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_connect(
    host: *const gannet_host,
    address: *const sockaddr,
    length: socklen_t,
) -> *mut gannet_tcp {
    // SAFETY: the caller's promise; no options are allowed.
    unsafe { gannet_tcp_connect_with(host, address, length, std::ptr::null()) }
}

/// Begins to connect to `address` and returns at once; the connection has GANNET_NONBLOCKING set.
/// A poller tells what comes of it: writable when it is open, failed when it will not be, and then
/// gannet_tcp_take_error says why. Until then reading and writing fail with EAGAIN.
///
/// Returns the connection; NULL for what is known at once.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_connect_nonblocking(
    host: *const gannet_host,
    address: *const sockaddr,
    length: socklen_t,
) -> *mut gannet_tcp {
    let options = gannet_connect_options {
        from: std::ptr::null(),
        from_length: 0,
        timeout_ms: 0,
        nonblocking: 1,
    };
    // SAFETY: the caller's promise.
    unsafe { gannet_tcp_connect_with(host, address, length, &options) }
}

/// Connects to `address` as `options` say; NULL: as gannet_tcp_connect.
///
/// Returns the connection; NULL as there, and with EADDRNOTAVAIL when the address to come from is
/// not the host's, or its port is taken.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_connect_with(
    host: *const gannet_host,
    address: *const sockaddr,
    length: socklen_t,
    options: *const gannet_connect_options,
) -> *mut gannet_tcp {
    guarded(std::ptr::null_mut(), || {
        let host = HOSTS.get(host)?;
        // SAFETY: the caller's promise.
        let to = unsafe { memory::address(address, length) }?;
        let mut connect = Connect::new(&host);
        // SAFETY: the caller's promise.
        let Some(options) = (unsafe { options.as_ref() }) else {
            return STREAMS.insert(connect.to(to)?.into());
        };
        if !options.from.is_null() {
            // SAFETY: the caller's promise.
            let from = unsafe { memory::address(options.from, options.from_length) }?;
            connect = connect.from(from);
        }
        if options.nonblocking != 0 {
            return STREAMS.insert(Stream {
                socket: connect.begin(to)?,
                nonblocking: AtomicBool::new(true),
            });
        }
        if let Some(timeout) = patience(options.timeout_ms).filter(|t| !t.is_zero()) {
            connect = connect.timeout(timeout);
        }
        STREAMS.insert(connect.to(to)?.into())
    })
}

/// Whether the handshake of gannet_tcp_connect_nonblocking still goes on: 1 or 0, -1 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_is_connecting(tcp: *const gannet_tcp) -> c_int {
    guarded(-1, || Ok(STREAMS.get(tcp)?.socket.is_connecting().into()))
}

/// Reads up to `size` bytes.
///
/// Returns how many, 0 at the end of the stream; -1 with EAGAIN when there are none and it must not
/// wait (or has waited as long as GANNET_READ_TIMEOUT), ECONNRESET, ETIMEDOUT.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_read(
    tcp: *const gannet_tcp,
    buffer: *mut c_void,
    size: usize,
) -> ssize_t {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        // SAFETY: the caller's promise.
        let buffer = unsafe { bytes_mut(buffer, size) }?;
        Ok((&stream.socket).read(buffer)? as ssize_t)
    })
}

/// As gannet_tcp_read with `flags`: MSG_PEEK leaves the bytes to be read again. No other flag is
/// known (EOPNOTSUPP).
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_recv(
    tcp: *const gannet_tcp,
    buffer: *mut c_void,
    size: usize,
    flags: c_int,
) -> ssize_t {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        // SAFETY: the caller's promise.
        let buffer = unsafe { bytes_mut(buffer, size) }?;
        let read = match flags {
            0 => (&stream.socket).read(buffer)?,
            libc::MSG_PEEK => stream.socket.peek(buffer)?,
            _ => return Err(refuse(Refusal::FLAGS)),
        };
        Ok(read as ssize_t)
    })
}

/// As gannet_tcp_read into `count` pieces, one after the other.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_readv(
    tcp: *const gannet_tcp,
    list: *const iovec,
    count: c_int,
) -> ssize_t {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        // SAFETY: the caller's promise.
        let mut pieces = unsafe { pieces_mut(list, count) }?;
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Ok(0);
        }
        Ok((&stream.socket).read_vectored(&mut pieces)? as ssize_t)
    })
}

/// Writes `size` bytes: all of them, waiting for room as often as needed; fewer only when it must
/// not wait, or GANNET_WRITE_TIMEOUT has passed. No signal is ever raised.
///
/// Returns how many; -1 with EAGAIN when there was no room at all, EPIPE after gannet_tcp_shutdown
/// or when the connection has ended, ECONNRESET.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_write(
    tcp: *const gannet_tcp,
    data: *const c_void,
    size: usize,
) -> ssize_t {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, size) }?;
        Ok((&stream.socket).write(data)? as ssize_t)
    })
}

/// As gannet_tcp_write with `count` pieces, one after the other.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_writev(
    tcp: *const gannet_tcp,
    list: *const iovec,
    count: c_int,
) -> ssize_t {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        // SAFETY: the caller's promise.
        let pieces = unsafe { pieces(list, count) }?;
        Ok((&stream.socket).write_vectored(&pieces)? as ssize_t)
    })
}

/// Closes one direction or both: SHUT_RD, SHUT_WR, SHUT_RDWR. After SHUT_WR the peer reads the end
/// of the stream.
///
/// Returns 0; -1 with ENOTCONN when the connection has ended.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_shutdown(tcp: *const gannet_tcp, how: c_int) -> c_int {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(refuse(Refusal::DIRECTION)),
        };
        stream.socket.shutdown(how).map(|()| 0)
    })
}

/// Our address and port.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_local_address(
    tcp: *const gannet_tcp,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    guarded(-1, || {
        let local = STREAMS.get(tcp)?.socket.local_addr()?;
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, local) }.map(|()| 0)
    })
}

/// The peer's address and port.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_peer_address(
    tcp: *const gannet_tcp,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    guarded(-1, || {
        let peer = STREAMS.get(tcp)?.socket.peer_addr()?;
        // SAFETY: the caller's promise.
        unsafe { put_address(address, length, peer) }.map(|()| 0)
    })
}

/// Takes the error that the next call would report, as SO_ERROR does.
///
/// Returns 0 when there is none, else its number, which is also in errno, with
/// gannet_last_error; -1 with EBADF or EINVAL for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_take_error(tcp: *const gannet_tcp) -> c_int {
    guarded(-1, || {
        let error = STREAMS.get(tcp)?.socket.take_error()?;
        Ok(error.map_or(0, |error| tell(&error).max(code_of(&error))))
    })
}

/// Sets the congestion control of this connection by name: "cubic", "newreno", "bbr".
///
/// Returns 0; -1 with ENOENT when there is none of that name.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_set_congestion_control(
    tcp: *const gannet_tcp,
    name: *const c_char,
) -> c_int {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        // SAFETY: the caller's promise.
        let control = unsafe { text(name) }?.parse();
        let control = control.map_err(|_| refuse(Refusal::CONGESTION))?;
        stream.socket.set_congestion_control(control).map(|()| 0)
    })
}

/// Closes the connection: what was written still reaches the peer; bytes that nobody read make it a
/// reset. A call of another thread that is under way goes on, and the connection with it: end it
/// with gannet_tcp_shutdown first.
///
/// Returns 0; -1 with EBADF when it is none, or closed.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_close(tcp: *mut gannet_tcp) -> c_int {
    guarded(-1, || STREAMS.remove(tcp).map(|_| 0))
}
