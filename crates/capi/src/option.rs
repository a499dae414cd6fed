//! Options: one pair of functions for all kinds of sockets.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::handle::Kind;
use crate::listener::{LISTENERS, Listening};
use crate::memory::put;
use crate::tcp::{STREAMS, Stream};
use crate::udp::{Datagrams, SOCKETS};
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// 1: calls fail with EAGAIN rather than waiting; 0: they wait. All sockets.
pub const GANNET_NONBLOCKING: c_int = 1;
/// Longest wait of reading, in milliseconds; 0: for ever. TCP, UDP.
pub const GANNET_READ_TIMEOUT: c_int = 2;
/// Longest wait of writing, in milliseconds; 0: for ever. TCP, UDP.
pub const GANNET_WRITE_TIMEOUT: c_int = 3;
/// 1: small writes leave at once. TCP.
pub const GANNET_NODELAY: c_int = 4;
/// Closing waits so many milliseconds for the peer to acknowledge everything; 0: it resets the
/// connection; -1, the default: neither. TCP.
pub const GANNET_LINGER: c_int = 5;
/// Probes a silent peer after so many milliseconds; 0: never. TCP, only to be set.
pub const GANNET_KEEPALIVE: c_int = 6;
/// Gives up when data stays unacknowledged for so many milliseconds; 0: after a number of
/// retransmissions. TCP, only to be set.
pub const GANNET_USER_TIMEOUT: c_int = 7;
/// How many bytes may be written and not yet acknowledged, or taken by the link. TCP, UDP.
pub const GANNET_SEND_BUFFER: c_int = 8;
/// How many bytes may wait to be read. TCP, UDP.
pub const GANNET_RECEIVE_BUFFER: c_int = 9;
/// How many routers a packet may pass, 1 to 255. TCP, UDP, and a listener's connections to come.
pub const GANNET_TTL: c_int = 10;
/// Type of service of packets: Differentiated Services in the upper six bits. TCP, UDP, listeners.
pub const GANNET_TOS: c_int = 11;
/// Longest segment in bytes. TCP; listeners (0: no limit). Only to be set.
pub const GANNET_MAX_SEGMENT: c_int = 12;
/// 1: datagrams may go to broadcast addresses. UDP.
pub const GANNET_BROADCAST: c_int = 13;
/// How many routers datagrams to groups may pass; 1 by default. UDP.
pub const GANNET_MULTICAST_TTL: c_int = 14;
/// 1, the default: what is sent to groups comes back to sockets of this host. UDP.
pub const GANNET_MULTICAST_LOOP: c_int = 15;
/// How many connections may bring data in their SYN (TCP Fast Open) at a time; 0, the default:
/// none. Listeners, only to be set.
pub const GANNET_FAST_OPEN: c_int = 16;

/// Sets an option of a gannet_tcp, gannet_listener or gannet_udp: `option` is one of the GANNET_
/// numbers above, which say what `value` means and who has the option.
///
/// Returns 0; -1 with ENOPROTOOPT when sockets of this kind do not have it, EINVAL for a value out
/// of range, EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_set_option(socket: *const c_void, option: c_int, value: i64) -> c_int {
    guarded(-1, || {
        match Kind::of(socket) {
            Some(Kind::Tcp) => set_tcp(&*STREAMS.get(socket.cast())?, option, value),
            Some(Kind::Udp) => set_udp(&*SOCKETS.get(socket.cast())?, option, value),
            Some(Kind::Listener) => set_listener(&*LISTENERS.get(socket.cast())?, option, value),
            _ => Err(no_socket(socket)),
        }?;
        Ok(0)
    })
}

/// Writes the value of an option to `*value`.
///
/// Returns 0; -1 as gannet_set_option, and with ENOPROTOOPT for options that can only be set.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_get_option(
    socket: *const c_void,
    option: c_int,
    value: *mut i64,
) -> c_int {
    guarded(-1, || {
        let found = match Kind::of(socket) {
            Some(Kind::Tcp) => get_tcp(&*STREAMS.get(socket.cast())?, option),
            Some(Kind::Udp) => get_udp(&*SOCKETS.get(socket.cast())?, option),
            Some(Kind::Listener) => get_listener(&*LISTENERS.get(socket.cast())?, option),
            _ => Err(no_socket(socket)),
        }?;
        // SAFETY: the caller's promise.
        unsafe { put(value, found) }.map(|()| 0)
    })
}

/// What is wrong with a socket that is none.
pub(crate) fn no_socket(socket: *const c_void) -> io::Error {
    refuse(match socket.is_null() {
        true => Refusal::NULL,
        false => Refusal::NO_SOCKET,
    })
}

fn set_tcp(stream: &Stream, option: c_int, value: i64) -> io::Result<()> {
    let socket = &stream.socket;
    match option {
        GANNET_NONBLOCKING => stream.set_nonblocking(value != 0),
        GANNET_READ_TIMEOUT => socket.set_read_timeout(time(value)?),
        GANNET_WRITE_TIMEOUT => socket.set_write_timeout(time(value)?),
        GANNET_NODELAY => socket.set_nodelay(value != 0),
        GANNET_LINGER if value < 0 => socket.set_linger(None),
        GANNET_LINGER => socket.set_linger(Some(time(value)?.unwrap_or(Duration::ZERO))),
        GANNET_KEEPALIVE => socket.set_keepalive(time(value)?),
        GANNET_USER_TIMEOUT => socket.set_user_timeout(time(value)?),
        GANNET_SEND_BUFFER => socket.set_send_buffer(number(value)?),
        GANNET_RECEIVE_BUFFER => socket.set_receive_buffer(number(value)?),
        GANNET_TTL => socket.set_ttl(number(value)?),
        GANNET_TOS => socket.set_tos(number(value)?),
        GANNET_MAX_SEGMENT => socket.set_max_segment(number(value)?),
        _ => Err(refuse(Refusal::OPTION)),
    }
}

fn get_tcp(stream: &Stream, option: c_int) -> io::Result<i64> {
    let socket = &stream.socket;
    Ok(match option {
        GANNET_NONBLOCKING => stream.nonblocking.load(Ordering::Relaxed).into(),
        GANNET_READ_TIMEOUT => milliseconds(socket.read_timeout()?),
        GANNET_WRITE_TIMEOUT => milliseconds(socket.write_timeout()?),
        GANNET_NODELAY => socket.nodelay()?.into(),
        GANNET_LINGER => match socket.linger()? {
            None => -1,
            some => milliseconds(some),
        },
        GANNET_SEND_BUFFER => socket.info()?.send_buffer.into(),
        GANNET_RECEIVE_BUFFER => socket.info()?.receive_buffer.into(),
        GANNET_TTL => socket.ttl()?.into(),
        GANNET_TOS => socket.tos()?.into(),
        _ => return Err(refuse(Refusal::OPTION)),
    })
}

fn set_listener(listener: &Listening, option: c_int, value: i64) -> io::Result<()> {
    let socket = &listener.socket;
    match option {
        GANNET_NONBLOCKING => listener.set_nonblocking(value != 0),
        GANNET_TTL => socket.set_ttl(number(value)?),
        GANNET_TOS => socket.set_tos(number(value)?),
        GANNET_MAX_SEGMENT => socket.set_max_segment(Some(number(value)?).filter(|&n| n > 0)),
        GANNET_FAST_OPEN => socket.set_fast_open(number(value)?),
        _ => Err(refuse(Refusal::OPTION)),
    }
}

fn get_listener(listener: &Listening, option: c_int) -> io::Result<i64> {
    Ok(match option {
        GANNET_NONBLOCKING => listener.nonblocking.load(Ordering::Relaxed).into(),
        GANNET_TTL => listener.socket.ttl()?.into(),
        _ => return Err(refuse(Refusal::OPTION)),
    })
}

fn set_udp(udp: &Datagrams, option: c_int, value: i64) -> io::Result<()> {
    let socket = &udp.socket;
    match option {
        GANNET_NONBLOCKING => udp.set_nonblocking(value != 0),
        GANNET_READ_TIMEOUT => socket.set_read_timeout(time(value)?),
        GANNET_WRITE_TIMEOUT => socket.set_write_timeout(time(value)?),
        GANNET_SEND_BUFFER => socket.set_send_buffer(number(value)?),
        GANNET_RECEIVE_BUFFER => socket.set_receive_buffer(number(value)?),
        GANNET_TTL => socket.set_ttl(number(value)?),
        GANNET_TOS => socket.set_tos(number(value)?),
        GANNET_BROADCAST => socket.set_broadcast(value != 0),
        GANNET_MULTICAST_TTL => socket.set_multicast_ttl_v4(number(value)?),
        GANNET_MULTICAST_LOOP => socket.set_multicast_loop_v4(value != 0),
        _ => Err(refuse(Refusal::OPTION)),
    }
}

fn get_udp(udp: &Datagrams, option: c_int) -> io::Result<i64> {
    let socket = &udp.socket;
    Ok(match option {
        GANNET_NONBLOCKING => udp.nonblocking.load(Ordering::Relaxed).into(),
        GANNET_READ_TIMEOUT => milliseconds(socket.read_timeout()?),
        GANNET_WRITE_TIMEOUT => milliseconds(socket.write_timeout()?),
        GANNET_TTL => socket.ttl()?.into(),
        GANNET_BROADCAST => socket.broadcast()?.into(),
        GANNET_MULTICAST_TTL => socket.multicast_ttl_v4()?.into(),
        GANNET_MULTICAST_LOOP => socket.multicast_loop_v4()?.into(),
        _ => return Err(refuse(Refusal::OPTION)),
    })
}

/// Milliseconds, 0 for none.
fn time(value: i64) -> io::Result<Option<Duration>> {
    let time = number::<u64>(value).map(Duration::from_millis)?;
    Ok(Some(time).filter(|time| !time.is_zero()))
}

fn milliseconds(time: Option<Duration>) -> i64 {
    time.map_or(0, |time| {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
    })
}

fn number<T: TryFrom<i64>>(value: i64) -> io::Result<T> {
    T::try_from(value).map_err(|_| refuse(Refusal::NEGATIVE))
}
