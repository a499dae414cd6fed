//! Datagrams in: from whichever side has one.

use super::{control, is_connected, ready, sides, sleep, stream};
use crate::errno::{self, Outcome};
use crate::object::Found;
use crate::place;
use crate::poll::deadline_of;
use crate::state::State;
use crate::transfer::Pieces;
use crate::{address, options, real};
use gannet_local::datagram::{Header, What};
use gannet_local::options::Opt;
use gannet_local::slot::{flags, receiver};
use gannet_local::{Hindrance, Record};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// Calls that look at our side first, for each that looks at the kernel's first.
const KERNEL_TURN: u32 = 16;

/// `recv`, `read`.
pub(crate) fn receive(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Outcome<usize> {
    let mut message = nothing_wanted();
    take(state, object, fd, (pieces, call), &mut message)
}

/// `recvfrom`.
///
/// # Safety
/// As `recvfrom`.
pub(crate) unsafe fn receive_from(
    state: &State,
    object: &Found,
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    (from, len): (*mut sockaddr, *mut socklen_t),
) -> Outcome<usize> {
    let mut message = nothing_wanted();
    if !from.is_null() {
        message.msg_name = from.cast();
        // SAFETY: any bytes are a length.
        message.msg_namelen = unsafe { place::read(len) }?;
        if (message.msg_namelen as c_int) < 0 {
            return Err(libc::EINVAL);
        }
    }
    let n = take(state, object, fd, (pieces, call), &mut message)?;
    if !from.is_null() {
        // SAFETY: the program named the place for it.
        unsafe { place::write(len, &message.msg_namelen) }?;
    }
    Ok(n)
}

/// `recvmsg`.
///
/// # Safety
/// As `recvmsg`.
pub(crate) unsafe fn receive_message(
    state: &State,
    object: &Found,
    fd: c_int,
    message: *mut libc::msghdr,
    call: c_int,
) -> Outcome<usize> {
    // SAFETY: as the caller says.
    let message = unsafe { place::borrow(message) }?;
    // SAFETY: as the caller says.
    let pieces = unsafe { Pieces::many(message.msg_iov, message.msg_iovlen) }?;
    take(state, object, fd, (&pieces, call), message)
}

fn nothing_wanted() -> libc::msghdr {
    // SAFETY: all zero is a value of it: no name, no pieces, no control data.
    unsafe { std::mem::zeroed() }
}

fn take(
    state: &State,
    object: &Found,
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    message: &mut libc::msghdr,
) -> Outcome<usize> {
    if call & (libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 {
        return at_kernel(fd, (pieces, call), message);
    }
    if pieces.has_null() {
        return Err(libc::EFAULT);
    }
    let slot = state.arena().own(object.slot());
    let blocks = call & libc::MSG_DONTWAIT == 0 && slot.flags() & flags::NONBLOCKING == 0;
    let mut deadline = None;
    let turn = object.fruitless.fetch_add(1, Relaxed);
    let kernel_first = turn % KERNEL_TURN == KERNEL_TURN - 1;
    loop {
        let first = match kernel_first {
            true => kernels_next(state, object, fd, (pieces, call), message),
            false => None,
        };
        let found = first
            .or_else(|| ours_next(state, object, (pieces, call), message))
            .or_else(|| kernels_next(state, object, fd, (pieces, call), message));
        if let Some(outcome) = found {
            return outcome;
        }
        if slot.receiver() & receiver::SHUT != 0 {
            return Ok(0);
        }
        ready::dead(state, object)?;
        if !blocks {
            return Err(libc::EAGAIN);
        }
        deadline = deadline.or_else(|| deadline_of(options::receive_timeout(fd)));
        sleep::for_datagram(state, object, fd, deadline)?;
    }
}

/// The next datagram of the kernel's, if there is one.
fn kernels_next(
    state: &State,
    object: &Found,
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    message: &mut libc::msghdr,
) -> Option<Outcome<usize>> {
    if !sides(state, object).kernels {
        return None;
    }
    match at_kernel(fd, (pieces, call | libc::MSG_DONTWAIT), message) {
        Err(libc::EAGAIN) => None,
        outcome => Some(outcome),
    }
}

fn at_kernel(
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    message: &mut libc::msghdr,
) -> Outcome<usize> {
    let entry = |span: &gannet_local::Span| libc::iovec {
        iov_base: span.first.cast(),
        iov_len: span.len,
    };
    let mut one = [entry(&gannet_local::Span {
        first: std::ptr::null_mut(),
        len: 0,
    })];
    let mut many;
    let iov = match pieces.spans() {
        [span] => {
            one[0] = entry(span);
            &mut one[..]
        }
        spans => {
            many = spans.iter().map(entry).collect::<Vec<_>>();
            &mut many[..]
        }
    };
    let before = (message.msg_iov, message.msg_iovlen);
    message.msg_iov = iov.as_mut_ptr();
    message.msg_iovlen = iov.len() as _;
    // SAFETY: the caller's places.
    let got = unsafe { real::recvmsg(fd, std::ptr::from_mut(message), call) };
    (message.msg_iov, message.msg_iovlen) = before;
    usize::try_from(got).map_err(|_| errno::get())
}

/// The next datagram of ours, if there is one.
fn ours_next(
    state: &State,
    object: &Found,
    (pieces, call): (&Pieces, c_int),
    message: &mut libc::msghdr,
) -> Option<Outcome<usize>> {
    if !sides(state, object).ours {
        return None;
    }
    let slot = state.arena().own(object.slot());
    let keep = call & libc::MSG_PEEK != 0;
    loop {
        if let Some(error) = Some(slot.take_error()).filter(|error| *error != 0) {
            return Some(Err(error));
        }
        let stream = stream(state, object)?;
        // SAFETY: the program passed these places to be written.
        match unsafe { stream.receive_record(pieces.spans(), keep) } {
            Ok(record) if record.header.what == What::Data => {
                return Some(Ok(tell(state, object, &record, call, message)));
            }
            Ok(record) if !keep => heed(state, object, &record.header),
            Ok(_) => {
                if let Some(told) = stream.take_unless_data() {
                    heed(state, object, &told);
                }
            }
            Err(Hindrance::Wait) => return None,
            Err(Hindrance::File(Errno::FAULT)) => return Some(Err(libc::EFAULT)),
            Err(_) if slot.receiver() & receiver::SHUT != 0 => return Some(Ok(0)),
            // Nobody carries it any more: the kernel's side goes on.
            Err(_) => {
                slot.set_flags(flags::HUNG_UP);
                return None;
            }
        }
    }
}

/// Address, flags and control data of a datagram; gives what the call is to return.
fn tell(
    state: &State,
    object: &Found,
    record: &Record,
    call: c_int,
    message: &mut libc::msghdr,
) -> usize {
    let slot = state.arena().own(object.slot());
    let six = slot.flags() & flags::SIX != 0;
    let whole = record.header.len as usize;
    if !message.msg_name.is_null() {
        let (name, len) = (message.msg_name.cast(), &raw mut message.msg_namelen);
        // SAFETY: the caller's place. The length was checked, or is the message's own.
        let _ = unsafe { address::give(record.header.address, six, name, len) };
    }
    message.msg_flags = 0;
    if record.copied < whole {
        message.msg_flags |= libc::MSG_TRUNC;
    }
    // SAFETY: the caller's place.
    unsafe { control::write(state, &slot, &record.header, message) };
    match call & libc::MSG_TRUNC {
        0 => record.copied,
        _ => whole,
    }
}

/// The carrier tells something beside datagrams.
pub(super) fn heed(state: &State, object: &Found, told: &Header) {
    if told.what != What::Error {
        return;
    }
    let slot = state.arena().own(object.slot());
    let errno = told.code as c_int;
    // Without a connection errors on the way are nobody's, unless they are asked for; what was
    // wrong with the call itself is told late rather than never.
    let of_the_call = matches!(
        errno,
        libc::EACCES | libc::EPERM | libc::EMSGSIZE | libc::EADDRNOTAVAIL | libc::ENETUNREACH
    );
    let asked = is_connected(&slot) || slot.is_on(Opt::RecvError);
    if asked || of_the_call {
        slot.set_error(errno);
    }
}
