//! Files into streams: `sendfile`, and `splice` by way of a pipe.

use crate::errno::{self, Outcome};
use crate::object::{self, Found, Kind};
use crate::state::{self, State};
use crate::transfer::{self, Pieces};
use crate::{real, wait};
use gannet_local::Hindrance;
use gannet_local::slot::flags;
use libc::{c_int, c_uint, loff_t, off_t};
use rustix::fd::BorrowedFd;

/// Most bytes of one call, as the kernel has it.
const MOST: usize = 0x7fff_f000;
/// Bytes through the stack at once.
const CHUNK: usize = 64 << 10;

/// Sends bytes of a file: read straight into the ring.
///
/// # Safety
/// `offset` is null, or can be read and written.
pub(crate) unsafe fn send_file(
    state: &State,
    object: &Found,
    (out, from): (c_int, c_int),
    offset: *mut off_t,
    len: usize,
) -> Outcome<usize> {
    let len = len.min(MOST);
    // SAFETY: as the caller says.
    let start = unsafe { offset.as_ref() }.copied();
    let mut done = 0;
    let outcome = loop {
        if done >= len {
            break Ok(());
        }
        wait::look_for_answer(state, object, out);
        let at = start.map(|start| start as u64 + done as u64);
        // SAFETY: a descriptor the program gave us.
        let file = unsafe { BorrowedFd::borrow_raw(from) };
        match object.stream(state, out).fill(file, at, len - done) {
            Ok(0) => break Ok(()),
            Ok(n) => done += n,
            Err(Hindrance::Wait) => {
                let slot = state.arena().own(object.slot());
                if slot.flags() & flags::NONBLOCKING != 0 {
                    break Err(libc::EAGAIN);
                }
                let room = || object.stream(state, out).readiness().writable;
                if let Err(error) = wait::for_room(state, object, out, None, room) {
                    break Err(error);
                }
            }
            Err(Hindrance::File(error)) => break Err(errno::raw(error)),
            Err(hindrance) => {
                let refused = transfer::refused(state, object, out, hindrance, 0);
                break refused.and(Err(libc::EPIPE));
            }
        }
    };
    if let Some(start) = start {
        // SAFETY: not null, as the caller says.
        unsafe { *offset = start + done as off_t };
    }
    match outcome {
        Err(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

/// `splice` with a stream of ours at one end and a pipe at the other.
///
/// # Safety
/// The offsets are null, or can be read and written.
pub(crate) unsafe fn splice(
    (from, from_at): (c_int, *mut loff_t),
    (to, to_at): (c_int, *mut loff_t),
    len: usize,
    call: c_uint,
) -> Outcome<usize> {
    let state = state::get().ok_or(libc::EBADF)?;
    let stream = |fd| object::find(fd).filter(|object| object.kind() == Kind::Stream);
    let nonblocking = match call & libc::SPLICE_F_NONBLOCK {
        0 => 0,
        _ => libc::MSG_DONTWAIT,
    };
    if len == 0 {
        return Ok(0);
    }
    if stream(from).is_some() && stream(to).is_some() {
        // One side has to be a pipe.
        return Err(libc::EINVAL);
    }
    let mut bytes = vec![0u8; len.min(CHUNK)];
    if let Some(source) = stream(from) {
        if !from_at.is_null() {
            return Err(libc::EINVAL);
        }
        let pieces = Pieces::one(bytes.as_mut_ptr(), bytes.len());
        let peek = libc::MSG_PEEK | nonblocking;
        let there = transfer::receive(state, &source, from, &pieces, peek)?;
        // SAFETY: bytes of our own; nothing is taken that was not passed on.
        let written = unsafe { real::write(to, bytes.as_ptr().cast(), there) };
        let written = usize::try_from(written).map_err(|_| errno::get())?;
        let taken = Pieces::one(bytes.as_mut_ptr(), written);
        return transfer::receive(state, &source, from, &taken, libc::MSG_DONTWAIT);
    }
    let Some(target) = stream(to) else {
        return Err(libc::EINVAL);
    };
    if from < 0 {
        return Err(libc::EBADF);
    }
    if !to_at.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    if let Some(at) = unsafe { from_at.as_mut() } {
        let mut offset: off_t = *at;
        // SAFETY: a place of our own.
        let sent = unsafe { send_file(state, &target, (to, from), &raw mut offset, len) }?;
        *at = offset;
        return Ok(sent);
    }
    let ready = target.stream(state, to).readiness();
    if !ready.writable && nonblocking != 0 {
        return Err(libc::EAGAIN);
    }
    // SAFETY: bytes of our own.
    let got = unsafe { real::read(from, bytes.as_mut_ptr().cast(), bytes.len()) };
    let got = usize::try_from(got).map_err(|_| errno::get())?;
    let mut done = 0;
    while done < got {
        let rest = bytes.as_mut_ptr().wrapping_add(done);
        match transfer::send(state, &target, to, &Pieces::one(rest, got - done), 0) {
            Ok(n) => done += n,
            // What was taken out of the pipe has to go: it cannot be put back.
            Err(libc::EAGAIN) => {
                let room = || target.stream(state, to).readiness().writable;
                wait::for_room(state, &target, to, None, room)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
