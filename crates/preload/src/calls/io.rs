//! Bytes: `read`, `write`, `recv`, `send` and their relatives.

use super::multiplex::of_timespec;
use crate::border::{self, answer, by_name, in_parts};
use crate::errno::{Outcome, give, give_len};
use crate::object::{self, Found, Kind};
use crate::place;
use crate::poll::deadline_of;
use crate::real::{of_libc, tail, unless_foreign};
use crate::state::{self, State};
use crate::transfer::{self, Pieces};
use crate::{address, control, datagrams, error_queue, netlink, note};
use libc::{c_int, c_uint, c_void, off_t, size_t, sockaddr, socklen_t, ssize_t};
use std::time::Instant;

/// The stream behind `fd`.
#[inline]
pub(super) fn stream(fd: c_int) -> Option<(&'static State, Found)> {
    let object = object::find(fd)?;
    Some((state::get()?, object))
}

/// The datagrams behind `fd`.
#[inline]
fn datagrams_of(fd: c_int) -> Option<(&'static State, Found)> {
    stream(fd).filter(|(_, object)| object.kind() == Kind::Datagrams)
}

/// The datagrams behind `fd`, also if only this call makes it one with a side of ours.
///
/// # Safety
/// The address can be read for its length, or is null.
unsafe fn sides(
    fd: c_int,
    to: (*const sockaddr, socklen_t),
) -> Option<Outcome<(&'static State, Found)>> {
    if object::is_ours(fd) {
        return datagrams_of(fd).map(Ok);
    }
    if to.0.is_null() {
        return None;
    }
    let state = state::get()?;
    // SAFETY: as the caller says.
    let side = unsafe { datagrams::is_for_ours(state, fd, to) };
    if state.arena().log_wanted()
        // SAFETY: as the caller says.
        && let Ok(Some(to)) = unsafe { address::read(to.0, to.1) }
    {
        note::sent(state, fd, to, matches!(side, Some(Ok(_))));
    }
    let side = side?;
    Some(side.map(|object| (state, object)))
}

fn name_of(message: &libc::msghdr) -> (*const sockaddr, socklen_t) {
    (message.msg_name.cast_const().cast(), message.msg_namelen)
}

/// Whether one of several messages on a kernel socket names an address of ours. Then the socket
/// has a side with us now.
///
/// # Safety
/// As `sendmmsg`.
unsafe fn any_for_ours(fd: c_int, messages: *mut libc::mmsghdr, n: c_uint) -> bool {
    if messages.is_null() || state::get().is_none() {
        return false;
    }
    (0..n).any(|i| {
        // SAFETY: within the caller's array.
        let to = name_of(unsafe { &(*messages.add(i as usize)).msg_hdr });
        // SAFETY: as the caller says.
        matches!(unsafe { sides(fd, to) }, Some(Ok(_)))
    })
}

fn receive(
    (state, object): &(&'static State, Found),
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Option<Outcome<usize>> {
    match object.kind() {
        Kind::Stream => Some(transfer::receive(state, object, fd, pieces, call)),
        Kind::Datagrams => Some(datagrams::receive(state, object, fd, pieces, call)),
        Kind::Listener => Some(Err(libc::ENOTCONN)),
        Kind::Hidden => Some(Err(libc::EBADF)),
        Kind::Netlink => netlink::receive_bytes(state, object, fd, pieces, call),
        _ => None,
    }
}

/// As [`receive`]; but to read nothing succeeds, as the kernel's `read` does.
fn read_some(
    found: &(&'static State, Found),
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Option<Outcome<usize>> {
    let transfers = matches!(found.1.kind(), Kind::Stream | Kind::Datagrams);
    if transfers && pieces.total() == 0 {
        return Some(Ok(0));
    }
    receive(found, fd, pieces, call)
}

fn send(
    (state, object): &(&'static State, Found),
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Option<Outcome<usize>> {
    match object.kind() {
        Kind::Stream => Some(transfer::send(state, object, fd, pieces, call)),
        Kind::Datagrams => datagrams::send(state, object, fd, pieces, call),
        Kind::Listener => Some(Err(transfer::not_connected(call))),
        Kind::Hidden => Some(Err(libc::EBADF)),
        Kind::Netlink => {
            // SAFETY: the program passed these places to be read.
            unsafe { netlink::sends(object, pieces) };
            None
        }
        _ => None,
    }
}

/// What a call at `place` has done, of which something is `done`, with the rest of it at the
/// border, which may fail.
fn and_rest(fd: c_int, (place, done): (usize, usize), rest: impl FnOnce() -> ssize_t) -> ssize_t {
    border::begin_rest([fd as usize, place.wrapping_add(done)]);
    let rest = rest();
    border::end_rest();
    done as ssize_t + rest.max(0)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    unless_foreign!(read_ours, read(fd, to, len))
}

/// # Safety
/// As `read`.
#[inline(never)]
unsafe fn read_ours(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    let ours = by_name(fd, || {
        let found = stream(fd)?;
        read_some(&found, fd, &Pieces::one(to.cast(), len), 0)
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(read(fd, to, len))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    unless_foreign!(write_ours, write(fd, from, len))
}

/// # Safety
/// As `write`.
#[inline(never)]
unsafe fn write_ours(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    let (ours, is_left) = in_parts(fd, || {
        let found = stream(fd)?;
        send(&found, fd, &Pieces::one(from.cast_mut().cast(), len), 0)
    });
    match ours {
        Some(Ok(done)) if is_left => {
            // SAFETY: what is left of the caller's place.
            let rest = || unsafe { of_libc::write(fd, from.byte_add(done), len - done) };
            return and_rest(fd, (from as usize, done), rest);
        }
        Some(outcome) => return give_len(outcome),
        None => {}
    }
    tail!(write(fd, from, len))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn readv(fd: c_int, iov: *const libc::iovec, n: c_int) -> ssize_t {
    unless_foreign!(readv_ours, readv(fd, iov, n))
}

/// # Safety
/// As `readv`.
#[inline(never)]
unsafe fn readv_ours(fd: c_int, iov: *const libc::iovec, n: c_int) -> ssize_t {
    let ours = by_name(fd, || {
        let found = stream(fd)?;
        // SAFETY: as the caller says.
        unsafe { vectored(&found, fd, (iov, n), read_some) }
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(readv(fd, iov, n))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn writev(fd: c_int, iov: *const libc::iovec, n: c_int) -> ssize_t {
    unless_foreign!(writev_ours, writev(fd, iov, n))
}

/// # Safety
/// As `writev`.
#[inline(never)]
unsafe fn writev_ours(fd: c_int, iov: *const libc::iovec, n: c_int) -> ssize_t {
    let ours = by_name(fd, || {
        let found = stream(fd)?;
        // SAFETY: as the caller says.
        unsafe { vectored(&found, fd, (iov, n), send) }
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(writev(fd, iov, n))
}

/// The flags of `recv` and `send` for those of `preadv2`, where a stream is read or written: it
/// has no offsets, and -1 stands for none.
fn without_offset(offset: off_t, how: c_int) -> Outcome<c_int> {
    match (offset, how & !libc::RWF_NOWAIT) {
        (-1, 0) if how != 0 => Ok(libc::MSG_DONTWAIT),
        (-1, 0) => Ok(0),
        (-1, _) => Err(libc::EOPNOTSUPP),
        _ => Err(libc::ESPIPE),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    iov: *const libc::iovec,
    n: c_int,
    offset: off_t,
    how: c_int,
) -> ssize_t {
    let ours = by_name(fd, || {
        let found = stream(fd)?;
        // SAFETY: as the caller says.
        unsafe { at(&found, fd, (iov, n), (offset, how), read_some) }
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(preadv2(fd, iov, n, offset, how))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    iov: *const libc::iovec,
    n: c_int,
    offset: off_t,
    how: c_int,
) -> ssize_t {
    let ours = by_name(fd, || {
        let found = stream(fd)?;
        // SAFETY: as the caller says.
        unsafe { at(&found, fd, (iov, n), (offset, how), send) }
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(pwritev2(fd, iov, n, offset, how))
}

/// # Safety
/// The array can be read.
unsafe fn at(
    found: &(&'static State, Found),
    fd: c_int,
    (iov, n): (*const libc::iovec, c_int),
    (offset, how): (off_t, c_int),
    transfer: Transfer,
) -> Option<Outcome<usize>> {
    let pieces = usize::try_from(n).map_err(|_| libc::EINVAL);
    // SAFETY: as the caller says.
    let pieces = pieces.and_then(|n| unsafe { Pieces::many(iov, n) });
    let call = without_offset(offset, how);
    match call.and_then(|call| Ok((call, pieces?))) {
        Ok((call, pieces)) => transfer(found, fd, &pieces, call),
        Err(error) if found.1.kind() == Kind::Stream => Some(Err(error)),
        Err(_) => None,
    }
}

type Transfer = fn(&(&'static State, Found), c_int, &Pieces, c_int) -> Option<Outcome<usize>>;

/// # Safety
/// The array can be read.
unsafe fn vectored(
    found: &(&'static State, Found),
    fd: c_int,
    (iov, n): (*const libc::iovec, c_int),
    transfer: Transfer,
) -> Option<Outcome<usize>> {
    let Ok(n) = usize::try_from(n) else {
        return Some(Err(libc::EINVAL));
    };
    // SAFETY: as the caller says.
    match unsafe { Pieces::many(iov, n) } {
        // `readv` and `writev` say it differently from `recvmsg` and `sendmsg`.
        Err(libc::EMSGSIZE) => Some(Err(libc::EINVAL)),
        Err(error) => Some(Err(error)),
        Ok(pieces) => transfer(found, fd, &pieces, 0),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recv(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    call: c_int,
) -> ssize_t {
    unless_foreign!(recv_ours, recv(fd, to, len, call))
}

/// # Safety
/// As `recv`.
#[inline(never)]
unsafe fn recv_ours(fd: c_int, to: *mut c_void, len: size_t, call: c_int) -> ssize_t {
    let (ours, is_left) = in_parts(fd, || {
        let found = stream(fd)?;
        receive(&found, fd, &Pieces::one(to.cast(), len), call)
    });
    match ours {
        Some(Ok(done)) if is_left => {
            // SAFETY: what is left of the caller's place.
            let rest = || unsafe { of_libc::recv(fd, to.byte_add(done), len - done, call) };
            return and_rest(fd, (to as usize, done), rest);
        }
        Some(outcome) => return give_len(outcome),
        None => {}
    }
    tail!(recv(fd, to, len, call))
}

#[unsafe(export_name = "send")]
unsafe extern "C-unwind" fn send_bytes(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    call: c_int,
) -> ssize_t {
    let (ours, is_left) = in_parts(fd, || {
        let found = stream(fd)?;
        send(&found, fd, &Pieces::one(from.cast_mut().cast(), len), call)
    });
    match ours {
        Some(Ok(done)) if is_left => {
            // SAFETY: what is left of the caller's place.
            let rest = || unsafe { of_libc::send(fd, from.byte_add(done), len - done, call) };
            return and_rest(fd, (from as usize, done), rest);
        }
        Some(outcome) => return give_len(outcome),
        None => {}
    }
    tail!(send(fd, from, len, call))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    call: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    let ours = by_name(fd, || {
        if let Some((state, object)) = datagrams_of(fd) {
            let pieces = Pieces::one(to.cast(), len);
            let from = (from, from_len);
            // SAFETY: as the caller says.
            let got = unsafe { datagrams::receive_from(state, &object, fd, (&pieces, call), from) };
            return Some(got);
        }
        let found = stream(fd)?;
        let outcome = receive(&found, fd, &Pieces::one(to.cast(), len), call)?;
        if found.1.kind() == Kind::Netlink {
            // SAFETY: as the caller says.
            unsafe { netlink::give_sender(from, from_len) };
            return Some(outcome);
        }
        // A stream has no address to tell: the kernel leaves the length at 0.
        if outcome.is_ok() && !from.is_null() && !from_len.is_null() {
            // SAFETY: the caller's place.
            unsafe { *from_len = 0 };
        }
        Some(outcome)
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(recvfrom(fd, to, len, call, from, from_len))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    call: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let pieces = Pieces::one(from.cast_mut().cast(), len);
    if object::is_ours(fd) || !to.is_null() || call & libc::MSG_FASTOPEN != 0 {
        // SAFETY: as the caller says.
        let ours = answer(|| unsafe { send_to(fd, (&pieces, call), (to, to_len)) });
        if let Some(outcome) = ours {
            return give_len(outcome);
        }
    }
    tail!(sendto(fd, from, len, call, to, to_len))
}

/// # Safety
/// As `sendto`.
unsafe fn send_to(
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    to: (*const sockaddr, socklen_t),
) -> Option<Outcome<usize>> {
    // SAFETY: as the caller says.
    match unsafe { sides(fd, to) } {
        Some(Err(error)) => return Some(Err(error)),
        Some(Ok((state, object))) => {
            // SAFETY: as the caller says.
            return unsafe { datagrams::send_to(state, &object, fd, (pieces, call), to) };
        }
        None => {}
    }
    // SAFETY: as the caller says.
    if let Some(Err(error)) = unsafe { super::fast_open::connect(fd, to, call) } {
        return Some(Err(error));
    }
    send(&stream(fd)?, fd, pieces, call)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut libc::msghdr, call: c_int) -> ssize_t {
    let ours = by_name(fd, || {
        if let Some((state, object)) = datagrams_of(fd) {
            // SAFETY: as the caller says.
            return Some(unsafe { datagrams::receive_message(state, &object, fd, message, call) });
        }
        let found = stream(fd)?;
        // SAFETY: as the caller says.
        unsafe {
            match found.1.kind() {
                Kind::Stream => Some(receive_message(&found, fd, message, call)),
                Kind::Netlink => netlink::receive_message(found.0, &found.1, fd, message, call),
                _ => None,
            }
        }
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    if object::is_ours(fd) {
        return tail!(recvmsg(fd, message, call));
    }
    // SAFETY: passed on.
    unsafe { crate::passing::recvmsg(fd, message, call) }
}

/// The place, if it can be read.
fn readable<T>(place: *const T) -> Option<*const T> {
    place::can_read(place, 1).then_some(place)
}

/// # Safety
/// As `recvmsg`.
unsafe fn receive_message(
    found: &(&'static State, Found),
    fd: c_int,
    message: *mut libc::msghdr,
    call: c_int,
) -> Outcome<usize> {
    // SAFETY: as the caller says.
    let message = unsafe { place::borrow(message) }?;
    let (state, object) = found;
    let slot = state.arena().own(object.slot());
    if call & libc::MSG_ERRQUEUE != 0 {
        // SAFETY: as the caller says.
        return unsafe { error_queue::receive(&slot, message) };
    }
    // SAFETY: as the caller says.
    let pieces = unsafe { Pieces::many(message.msg_iov, message.msg_iovlen) }?;
    let n = receive(found, fd, &pieces, call).unwrap_or(Err(libc::ENOTCONN))?;
    message.msg_namelen = 0;
    message.msg_flags = call & libc::MSG_CMSG_CLOEXEC;
    let left = || object.stream(state, fd).waiting();
    // SAFETY: as the caller says.
    unsafe { control::write_of_stream(&slot, left, message) };
    Ok(n)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const libc::msghdr,
    call: c_int,
) -> ssize_t {
    // SAFETY: as the caller says.
    let told = unsafe { readable(message).and_then(|place| place.as_ref()) };
    let to = told.map_or((std::ptr::null(), 0), name_of);
    if object::is_ours(fd) || !to.0.is_null() || call & libc::MSG_FASTOPEN != 0 {
        // SAFETY: as the caller says.
        let ours = answer(|| unsafe { send_message_to(fd, message, told, to, call) });
        if let Some(outcome) = ours {
            return give_len(outcome);
        }
    }
    // SAFETY: passed on.
    unsafe { crate::passing::sendmsg(fd, message, call) }
}

/// # Safety
/// As `sendmsg`; `told` is the message, unless it cannot be one.
unsafe fn send_message_to(
    fd: c_int,
    message: *const libc::msghdr,
    told: Option<&libc::msghdr>,
    to: (*const sockaddr, socklen_t),
    call: c_int,
) -> Option<Outcome<usize>> {
    // SAFETY: as the caller says.
    match unsafe { sides(fd, to) } {
        Some(Err(error)) => return Some(Err(error)),
        Some(Ok((state, object))) => {
            let Some(told) = told else {
                return Some(Err(libc::EFAULT));
            };
            // SAFETY: as the caller says.
            let sent = unsafe { datagrams::send_message(state, &object, fd, told, call) };
            if let Some(sent) = sent {
                return Some(sent);
            }
        }
        None => {}
    }
    // SAFETY: as the caller says.
    if let Some(Err(error)) = unsafe { super::fast_open::connect(fd, to, call) } {
        return Some(Err(error));
    }
    let found = stream(fd)?;
    // SAFETY: as the caller says.
    unsafe {
        match found.1.kind() {
            Kind::Stream => Some(send_message(&found, fd, message, call)),
            Kind::Netlink => {
                netlink::sends_message(&found.1, message);
                None
            }
            _ => None,
        }
    }
}

/// # Safety
/// As `sendmsg`.
unsafe fn send_message(
    found: &(&'static State, Found),
    fd: c_int,
    message: *const libc::msghdr,
    call: c_int,
) -> Outcome<usize> {
    // SAFETY: as the caller says.
    let Some(message) = (unsafe { readable(message).and_then(|place| place.as_ref()) }) else {
        return Err(libc::EFAULT);
    };
    // SAFETY: as the caller says.
    let pieces = unsafe { Pieces::many(message.msg_iov, message.msg_iovlen) }?;
    send(found, fd, &pieces, call).unwrap_or(Err(libc::EPIPE))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    n: c_uint,
    call: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    if !object::is_ours(fd) {
        return tail!(recvmmsg(fd, messages, n, call, timeout));
    }
    // The time-out is looked at between messages, as the kernel does it.
    // SAFETY: as the caller says.
    let wait = match unsafe { timeout.as_ref() }.map(of_timespec).transpose() {
        Ok(wait) => wait,
        Err(error) => return give(Err(error)),
    };
    let deadline = deadline_of(wait);
    let mut call = call;
    let mut done = 0;
    while done < n {
        // SAFETY: within the caller's array.
        let message = unsafe { messages.add(done as usize) };
        // SAFETY: as the caller says.
        let got = unsafe {
            recvmsg(
                fd,
                &raw mut (*message).msg_hdr,
                call & !libc::MSG_WAITFORONE,
            )
        };
        if got < 0 {
            return if done > 0 { done as c_int } else { -1 };
        }
        // SAFETY: within the caller's array.
        unsafe { (*message).msg_len = got as c_uint };
        done += 1;
        if call & libc::MSG_WAITFORONE != 0 {
            call |= libc::MSG_DONTWAIT;
        }
        let late = deadline.is_some_and(|deadline| deadline <= Instant::now());
        if late || got == 0 && datagrams_of(fd).is_none() {
            break;
        }
    }
    done as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    n: c_uint,
    call: c_int,
) -> c_int {
    let ours = object::is_ours(fd) || call & libc::MSG_FASTOPEN != 0 || {
        let _busy = border::enter();
        // SAFETY: as the caller says.
        unsafe { any_for_ours(fd, messages, n) }
    };
    if !ours {
        return tail!(sendmmsg(fd, messages, n, call));
    }
    let mut done = 0;
    while done < n {
        // SAFETY: within the caller's array.
        let message = unsafe { messages.add(done as usize) };
        // SAFETY: as the caller says.
        let sent = unsafe { sendmsg(fd, &raw const (*message).msg_hdr, call) };
        if sent < 0 {
            return if done > 0 { done as c_int } else { -1 };
        }
        // SAFETY: within the caller's array.
        unsafe { (*message).msg_len = sent as c_uint };
        done += 1;
    }
    done as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    iov: *const libc::iovec,
    n: c_int,
    offset: off_t,
    how: c_int,
) -> ssize_t {
    // SAFETY: passed on.
    unsafe { preadv2(fd, iov, n, offset, how) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    iov: *const libc::iovec,
    n: c_int,
    offset: off_t,
    how: c_int,
) -> ssize_t {
    // SAFETY: passed on.
    unsafe { pwritev2(fd, iov, n, offset, how) }
}
