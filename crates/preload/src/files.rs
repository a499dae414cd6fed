//! Files into streams: `sendfile`; pipes into streams and out of them: `splice`.

use crate::border;
use crate::errno::{self, Outcome};
use crate::object::{self, Found, Kind};
use crate::place;
use crate::state::{self, State};
use crate::transfer::{self, Pieces};
use crate::{open, real};
use gannet_local::Hindrance;
use gannet_local::slot::flags;
use libc::{c_int, c_short, c_uint, loff_t, off_t};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::SocketFlags;
use std::io::IoSlice;

/// Most bytes of one call, as the kernel has it.
const MOST: usize = 0x7fff_f000;
/// Bytes out of a stream at once.
const CHUNK: usize = 64 << 10;
/// As much as fits into a pipe that can be written.
const PAGE: usize = 4096;

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
    // SAFETY: a descriptor the program gave us.
    let file = unsafe { BorrowedFd::borrow_raw(from) };
    // SAFETY: as the caller says.
    let start = unsafe { offset.as_ref() }.copied();
    if start.is_none() && rustix::fs::seek(file, SeekFrom::Current(0)) == Err(Errno::SPIPE) {
        // A pipe, a socket: the kernel sends files only.
        return Err(libc::EINVAL);
    }
    let mut done = 0;
    let outcome = loop {
        if done >= len {
            break Ok(());
        }
        let at = start.map(|start| start as u64 + done as u64);
        match transfer::fill(state, object, (out, file), at, len - done) {
            Ok(0) => break Ok(()),
            Ok(n) => done += n,
            Err(Hindrance::Wait) if is_nonblocking(state, object) => break Err(libc::EAGAIN),
            Err(Hindrance::Wait) => {
                if done > 0 {
                    border::stay_here();
                }
                if let Err(error) = transfer::wait_for_room(state, object, out) {
                    break Err(error);
                }
            }
            Err(hindrance) => break cannot(state, object, out, hindrance),
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

fn is_nonblocking(state: &State, object: &Found) -> bool {
    state.arena().own(object.slot()).flags() & flags::NONBLOCKING != 0
}

fn cannot(state: &State, object: &Found, out: c_int, hindrance: Hindrance) -> Outcome<()> {
    match hindrance {
        Hindrance::File(error) => Err(errno::raw(error)),
        other => transfer::refused(state, object, out, other, 0).and(Err(libc::EPIPE)),
    }
}

/// `splice` with a stream of ours at one end and a pipe at the other.
///
/// # Safety
/// No other thread uses the offsets meanwhile.
pub(crate) unsafe fn splice(
    (from, from_at): (c_int, *mut loff_t),
    (to, to_at): (c_int, *mut loff_t),
    len: usize,
    call: c_uint,
) -> Outcome<usize> {
    let state = state::get().ok_or(libc::EBADF)?;
    let stream = |fd| object::find(fd).filter(|object| object.kind() == Kind::Stream);
    let waits = call & libc::SPLICE_F_NONBLOCK == 0;
    if len == 0 {
        return Ok(0);
    }
    if from < 0 || to < 0 {
        return Err(libc::EBADF);
    }
    let is_there = |at: *mut loff_t| at.is_null() || place::can_write(at, 1);
    if !is_there(from_at) || !is_there(to_at) {
        return Err(libc::EFAULT);
    }
    match (stream(from), stream(to)) {
        (Some(source), None) if from_at.is_null() => {
            take_out(state, &source, (from, to), len, waits)
        }
        (None, Some(target)) if to_at.is_null() => {
            // SAFETY: as the caller says.
            let Some(at) = (unsafe { from_at.as_mut() }) else {
                return put_in(state, &target, (from, to), len, waits);
            };
            let mut offset: off_t = *at;
            // SAFETY: a place of our own.
            let sent = unsafe { send_file(state, &target, (to, from), &raw mut offset, len) }?;
            *at = offset;
            Ok(sent)
        }
        // One side has to be a pipe, and a stream has no offsets.
        _ => Err(libc::EINVAL),
    }
}

/// The pipe behind `fd`.
fn pipe<'a>(fd: c_int) -> Outcome<BorrowedFd<'a>> {
    // SAFETY: a descriptor the program gave us.
    let pipe = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(pipe).map_err(errno::raw)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => Ok(pipe),
        _ => Err(libc::EINVAL),
    }
}

/// Out of a stream: no more than the pipe has room for, since this thread may be the one that
/// empties it. Nothing is taken that was not passed on.
fn take_out(
    state: &State,
    source: &Found,
    (from, to): (c_int, c_int),
    len: usize,
    waits: bool,
) -> Outcome<usize> {
    let target = pipe(to)?;
    let waits = waits && !open::socket_flags(to).contains(SocketFlags::NONBLOCK);
    let mut bytes = vec![0u8; len.min(CHUNK)];
    let peek = libc::MSG_PEEK | if waits { 0 } else { libc::MSG_DONTWAIT };
    let written = loop {
        let pieces = Pieces::one(bytes.as_mut_ptr(), bytes.len());
        let there = transfer::receive(state, source, from, &pieces, peek)?;
        let there = bytes.get(..there).unwrap_or_default();
        if there.is_empty() {
            return Ok(0);
        }
        match write_at_once(target, there) {
            Err(libc::EAGAIN) if waits => drop(poll(to, libc::POLLOUT, -1)?),
            other => break other?,
        }
    };
    let taken = Pieces::one(bytes.as_mut_ptr(), written);
    transfer::receive(state, source, from, &taken, libc::MSG_DONTWAIT)
}

/// Writes as much as a pipe takes without a wait.
fn write_at_once(to: BorrowedFd<'_>, bytes: &[u8]) -> Outcome<usize> {
    // (An offset of -1 is the place where the file is.)
    let (pieces, at) = ([IoSlice::new(bytes)], u64::MAX);
    match rustix::io::pwritev2(to, &pieces, at, ReadWriteFlags::NOWAIT) {
        // Kernels before 6.4 know that of files only.
        Err(Errno::OPNOTSUPP) => {}
        other => return other.map_err(errno::raw),
    }
    let mut done = 0;
    for page in bytes.chunks(PAGE) {
        let fd = rustix::fd::AsRawFd::as_raw_fd(&to);
        if poll(fd, libc::POLLOUT, 0)? & libc::POLLOUT == 0 {
            break;
        }
        match rustix::io::write(to, page) {
            Ok(n) => done += n,
            Err(_) if done > 0 => break,
            Err(error) => return Err(errno::raw(error)),
        }
    }
    match done {
        0 => Err(libc::EAGAIN),
        done => Ok(done),
    }
}

/// Into a stream: read straight into the ring, so that what there is no room for stays in the pipe.
fn put_in(
    state: &State,
    target: &Found,
    (from, to): (c_int, c_int),
    len: usize,
    waits: bool,
) -> Outcome<usize> {
    let source = pipe(from)?;
    let mut done = 0;
    while done < len {
        // A read of an empty pipe would wait, and hold the stream's lock meanwhile.
        let there = poll(from, libc::POLLIN, if waits && done == 0 { -1 } else { 0 })?;
        if there == 0 {
            break;
        }
        match transfer::fill(state, target, (to, source), None, len - done) {
            Ok(0) => return Ok(done),
            Ok(n) => done += n,
            Err(_) if done > 0 => break,
            Err(Hindrance::Wait) if waits && !is_nonblocking(state, target) => {
                transfer::wait_for_room(state, target, to)?;
            }
            Err(Hindrance::Wait) => break,
            Err(hindrance) => cannot(state, target, to, hindrance)?,
        }
    }
    match done {
        0 => Err(libc::EAGAIN),
        done => Ok(done),
    }
}

fn poll(fd: c_int, events: c_short, most: c_int) -> Outcome<c_short> {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: a place of our own.
    errno::of(unsafe { real::poll(&raw mut entry, 1, most) })?;
    Ok(entry.revents)
}
