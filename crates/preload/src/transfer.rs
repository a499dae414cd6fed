//! Bytes in and out of a stream, blocking or not, as the kernel's `recv` and `send` do it.

use crate::border;
use crate::errno::Outcome;
use crate::object::{Found, Object};
use crate::place;
use crate::state::State;
use crate::wait;
use gannet_local::slot::{flags, sent};
use gannet_local::{Hindrance, Opt, Span, Stream};
use libc::c_int;
use rustix::fd::BorrowedFd;

/// Most pieces of one call.
pub(crate) const PIECES: usize = libc::UIO_MAXIOV as usize;

/// Nothing is ever below: `mmap_min_addr`, or at least a page.
const LOWEST: usize = 4096;

/// Pieces of memory of one call, from the caller's array.
#[derive(Debug)]
pub(crate) enum Pieces {
    /// One.
    One([Span; 1]),
    /// Several.
    Many(Vec<Span>),
}

impl Pieces {
    pub(crate) fn one(first: *mut u8, len: usize) -> Pieces {
        Pieces::One([Span { first, len }])
    }

    /// From an `iovec` array.
    ///
    /// # Safety
    /// No other thread changes the array meanwhile.
    pub(crate) unsafe fn many(iov: *const libc::iovec, n: usize) -> Outcome<Pieces> {
        if n > PIECES {
            return Err(libc::EMSGSIZE);
        }
        if !place::can_read(iov, n) {
            return Err(libc::EFAULT);
        }
        let mut spans = Vec::with_capacity(n);
        let mut total = 0usize;
        for i in 0..n {
            // SAFETY: within the array.
            let entry = unsafe { *iov.add(i) };
            total = total
                .checked_add(entry.iov_len)
                .filter(|total| *total <= isize::MAX as usize)
                .ok_or(libc::EINVAL)?;
            spans.push(Span {
                first: entry.iov_base.cast(),
                len: entry.iov_len,
            });
        }
        Ok(Pieces::Many(spans))
    }

    pub(crate) fn spans(&self) -> &[Span] {
        match self {
            Pieces::One(one) => one,
            Pieces::Many(many) => many,
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.spans().iter().map(|span| span.len).sum()
    }

    /// Whether a piece has bytes but no place.
    pub(crate) fn has_null(&self) -> bool {
        self.spans()
            .iter()
            .any(|span| span.len > 0 && span.first.addr() < LOWEST)
    }

    /// The first `len` bytes.
    fn first(&self, mut len: usize) -> Vec<Span> {
        let cut = |span: &Span| {
            let n = span.len.min(len);
            len -= n;
            Span { len: n, ..*span }
        };
        self.spans().iter().map(cut).collect()
    }

    /// What follows after `done` bytes.
    pub(crate) fn after(&self, mut done: usize) -> Vec<Span> {
        let mut rest = Vec::new();
        for span in self.spans() {
            let skip = done.min(span.len);
            done -= skip;
            if skip < span.len {
                rest.push(Span {
                    first: span.first.wrapping_add(skip),
                    len: span.len - skip,
                });
            }
        }
        rest
    }
}

fn blocks(state: &State, object: &Object, call: c_int) -> bool {
    call & libc::MSG_DONTWAIT == 0
        && state.arena().own(object.slot()).flags() & flags::NONBLOCKING == 0
}

/// Receives. `call` are the flags of `recv`.
pub(crate) fn receive(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Outcome<usize> {
    let mut fd = fd;
    if call & libc::MSG_OOB != 0 {
        return receive_urgent(state, object, fd, pieces, call);
    }
    if call & libc::MSG_ERRQUEUE != 0 {
        let slot = state.arena().own(object.slot());
        return crate::error_queue::take(&slot).map(|_| 0);
    }
    if pieces.has_null() && call & libc::MSG_TRUNC == 0 {
        return Err(libc::EFAULT);
    }
    let keep = call & libc::MSG_PEEK != 0;
    let wanted = pieces.total();
    let mut done = 0;
    let is_rest = border::is_rest();
    loop {
        match receive_once(state, object, fd, pieces, (done, keep)) {
            Ok(n) => {
                done = if keep { n } else { done + n };
                if n == 0 || done >= wanted || done >= least(state, object, fd, wanted, call) {
                    return Ok(done);
                }
            }
            Err(Hindrance::Wait) => {}
            Err(_) if done > 0 || is_rest => return Ok(done),
            Err(hindrance) => return ended(state, object, fd, hindrance),
        }
        if !blocks(state, object, call) {
            wait::fruitless(state, object, fd);
            return match done {
                0 => nothing_now(state, object, fd),
                done => Ok(done),
            };
        }
        let more = if keep { done } else { 0 };
        if done > 0 && !keep && border::leaves_rest() {
            return Ok(done);
        }
        let waited = wait::for_bytes(state, object, fd, || {
            let stream = object.stream(state, fd);
            stream.waiting() > more as u64 || more == 0 && stream.readiness().readable
        });
        match waited {
            Err(_) if done > 0 || is_rest => return Ok(done),
            other => other?,
        }
        fd = object.descriptor(fd).unwrap_or(fd);
    }
}

/// With how many bytes a call that may wait is content.
fn least(state: &State, object: &Found, fd: c_int, wanted: usize, call: c_int) -> usize {
    if call & libc::MSG_WAITALL != 0 {
        return wanted;
    }
    match state.arena().own(object.slot()).flags() & flags::LOW_WATER {
        0 => 1,
        _ => object.stream(state, fd).low_water() as usize,
    }
}

/// What a call that does not block says when there is nothing.
fn nothing_now(state: &State, object: &Found, fd: c_int) -> Outcome<usize> {
    match receive_once(
        state,
        object,
        fd,
        &Pieces::one(std::ptr::null_mut(), 0),
        (0, true),
    ) {
        Err(Hindrance::Wait) | Ok(_) => Err(libc::EAGAIN),
        Err(hindrance) => ended(state, object, fd, hindrance),
    }
}

fn receive_once(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    (done, keep): (usize, bool),
) -> Result<usize, Hindrance> {
    if object.theirs().is_none() {
        wait::look_for_answer(state, object, fd);
    }
    let stream = object.stream(state, fd);
    if done == 0 || keep {
        // SAFETY: the program passed these places to be written.
        return unsafe { stream.receive(pieces.spans(), 0, keep) };
    }
    // SAFETY: as above.
    unsafe { stream.receive(&pieces.after(done), 0, keep) }
}

fn ended(state: &State, object: &Object, fd: c_int, hindrance: Hindrance) -> Outcome<usize> {
    let slot = state.arena().own(object.slot());
    let error = slot.take_error();
    if error != 0 {
        slot.set_flags(flags::TOLD);
        return Err(error);
    }
    if let Hindrance::File(error) = hindrance {
        return Err(crate::errno::raw(error));
    }
    if hindrance != Hindrance::Reset {
        return Ok(0);
    }
    // A reset is told once; then the stream is just over.
    match slot.set_flags(flags::TOLD) & flags::TOLD {
        0 => Err(object.stream(state, fd).reset_errno()),
        _ => Ok(0),
    }
}

/// Receives the byte that was marked as urgent.
fn receive_urgent(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Outcome<usize> {
    wait::look_for_answer(state, object, fd);
    let stream = object.stream(state, fd);
    let byte = match stream.receive_urgent(call & libc::MSG_PEEK != 0) {
        Ok(byte) => byte.ok_or(libc::EINVAL)?,
        Err(_) => return Err(libc::EDEADLK),
    };
    match pieces.spans().iter().find(|span| span.len > 0) {
        None => Ok(0),
        // SAFETY: the program passed this place to be written.
        Some(span) => unsafe { place::write(span.first, &byte) }.map(|()| 1),
    }
}

/// Sends bytes of which the last is urgent. Over TCP to elsewhere it is a byte like others, as RFC
/// 6093 advises.
fn send_urgent(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Outcome<usize> {
    let carried = state.arena().own(object.slot()).flags() & flags::CARRIED != 0;
    let last = pieces.spans().iter().rfind(|span| span.len > 0);
    let Some(last) = last.filter(|_| !carried) else {
        return send_text(state, object, fd, pieces, call);
    };
    // SAFETY: the program passed this place to be read.
    let byte = unsafe { last.first.add(last.len - 1).read() };
    let before = pieces.total() - 1;
    let text = Pieces::Many(pieces.first(before));
    if before > 0 {
        let sent = send_text(state, object, fd, &text, call)?;
        if sent < before {
            return Ok(sent);
        }
    }
    loop {
        wait::look_for_answer(state, object, fd);
        let stream = object.stream(state, fd);
        match stream.send_urgent(byte) {
            Ok(()) => {
                if !stream.can_tell() {
                    stream.wake();
                }
                return Ok(before + 1);
            }
            Err(Hindrance::Wait) if blocks(state, object, call) => {
                if before > 0 {
                    border::stay_here();
                }
                match wait_for_room(state, object, fd) {
                    Err(_) if before > 0 => return Ok(before),
                    other => other?,
                }
            }
            Err(_) if before > 0 => return Ok(before),
            Err(Hindrance::Wait) => return Err(libc::EAGAIN),
            Err(hindrance) => {
                return refused(state, object, fd, hindrance, call).map(|()| 1);
            }
        }
    }
}

/// Sends. `call` are the flags of `send`.
pub(crate) fn send(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Outcome<usize> {
    if call & libc::MSG_OOB != 0 && !pieces.has_null() {
        return send_urgent(state, object, fd, pieces, call);
    }
    let sent = send_text(state, object, fd, pieces, call)?;
    if call & libc::MSG_ZEROCOPY != 0 {
        let slot = state.arena().own(object.slot());
        if crate::error_queue::sent(&slot, call, sent) {
            crate::lead::tell_sets(state, object);
        }
    }
    Ok(sent)
}

fn send_text(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Outcome<usize> {
    if pieces.has_null() {
        return Err(libc::EFAULT);
    }
    let mut fd = fd;
    let wanted = pieces.total();
    note_more(state, object, call);
    let mut done = 0;
    let is_rest = border::is_rest();
    loop {
        if object.theirs().is_none() {
            wait::look_for_answer(state, object, fd);
        }
        let stream = object.stream(state, fd);
        let outcome = send_once(state, object, &stream, pieces, done);
        match outcome {
            Ok(n) => {
                done += n;
                if done >= wanted {
                    return Ok(done);
                }
                continue;
            }
            Err(Hindrance::Wait) => {}
            Err(_) if done > 0 || is_rest => return Ok(done),
            Err(hindrance) => {
                // As much as the other end's buffer would have taken before its reset.
                let lost = wanted.min(stream.capacity());
                return refused(state, object, fd, hindrance, call).map(|()| lost);
            }
        }
        if !blocks(state, object, call) {
            wait::fruitless(state, object, fd);
            return match done {
                0 => Err(libc::EAGAIN),
                done => Ok(done),
            };
        }
        if done > 0 && border::leaves_rest() {
            return Ok(done);
        }
        match wait_for_room(state, object, fd) {
            Err(_) if done > 0 || is_rest => return Ok(done),
            other => other?,
        }
        fd = object.descriptor(fd).unwrap_or(fd);
    }
}

/// `MSG_MORE` holds back what leaves the machine until a send without it; the carrier heeds that.
fn note_more(state: &State, object: &Object, call: c_int) {
    let slot = state.arena().own(object.slot());
    let known = slot.flags();
    match (call & libc::MSG_MORE != 0, known & flags::MORE != 0) {
        (true, false) if known & flags::CARRIED != 0 => {
            // As with a cork, which is more than Nagle's algorithm knows.
            slot.set(Opt::Corked, 1);
            slot.set_flags(flags::MORE);
        }
        (false, true) => slot.clear_flags(flags::MORE),
        _ => {}
    }
}

/// Sleeps until there is room, or the connection is open.
pub(crate) fn wait_for_room(state: &State, object: &Found, fd: c_int) -> Outcome<()> {
    let unanswered = object.theirs().is_none();
    let may = || {
        if unanswered {
            wait::look_for_answer(state, object, fd);
            return object.theirs().is_some();
        }
        object.stream(state, fd).readiness().writable
    };
    wait::for_room(state, object, fd, crate::options::send_timeout(fd), may)
}

fn send_once(
    state: &State,
    object: &Found,
    stream: &Stream<'_>,
    pieces: &Pieces,
    done: usize,
) -> Result<usize, Hindrance> {
    put(state, object, stream, || match done {
        // SAFETY: the program passed these places to be read.
        0 => unsafe { stream.send(pieces.spans()) },
        // SAFETY: as above.
        _ => unsafe { stream.send(&pieces.after(done)) },
    })
}

/// Sends up to `most` bytes of a file, which are read straight into the ring.
pub(crate) fn fill(
    state: &State,
    object: &Found,
    (out, from): (c_int, BorrowedFd<'_>),
    at: Option<u64>,
    most: usize,
) -> Result<usize, Hindrance> {
    wait::look_for_answer(state, object, out);
    let stream = object.stream(state, out);
    put(state, object, &stream, || stream.fill(from, at, most))
}

/// What goes before and after all that puts bytes into a stream.
fn put(
    state: &State,
    object: &Found,
    stream: &Stream<'_>,
    act: impl FnOnce() -> Result<usize, Hindrance>,
) -> Result<usize, Hindrance> {
    let slot = state.arena().own(object.slot());
    if object.theirs().is_none() && slot.flags() & flags::CARRIED != 0 {
        // The carrier has not opened the connection yet.
        let gone = slot.flags() & (flags::BROKEN | flags::HUNG_UP) != 0;
        return Err(if gone {
            Hindrance::Reset
        } else {
            Hindrance::Wait
        });
    }
    let sent = act();
    if sent.is_ok() && !stream.can_tell() {
        // The other end may have taken the stream up a moment ago and sleep by now; until its
        // memory is known nothing tells.
        stream.wake();
    }
    sent
}

/// What a send comes to that cannot be done: an errno, and the signal that goes with it. The first
/// after the other end has closed seems to succeed: over TCP it is answered by a reset, and there
/// are programs that say good-bye to somebody who has left.
pub(crate) fn refused(
    state: &State,
    object: &Object,
    fd: c_int,
    hindrance: Hindrance,
    call: c_int,
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    let error = slot.take_error();
    if error != 0 {
        slot.set_flags(flags::TOLD);
        return Err(error);
    }
    if let Hindrance::File(error) = hindrance {
        return Err(crate::errno::raw(error));
    }
    let own_end = slot.sent() & sent::FIN != 0;
    let stream = object.stream(state, fd);
    let reset = match own_end {
        true => stream.readiness_to_receive().failed,
        false => hindrance == Hindrance::Reset,
    };
    if reset && slot.set_flags(flags::TOLD) & flags::TOLD == 0 {
        return Err(match stream.reset_errno() {
            libc::EPIPE => not_connected(call),
            errno => errno,
        });
    }
    let late = hindrance == Hindrance::End && !own_end;
    if late {
        if slot.set_flags(flags::LOST) & flags::LOST == 0 {
            return Ok(());
        }
        slot.set_flags(flags::TOLD);
    }
    Err(not_connected(call))
}

/// The errno of a send on a socket that is not connected.
pub(crate) fn not_connected(call: c_int) -> c_int {
    if call & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: a signal to this thread, as the kernel would send it.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    libc::EPIPE
}
