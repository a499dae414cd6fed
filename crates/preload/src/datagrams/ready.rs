//! What could be done with a socket now.

use super::{is_connected, is_ours_alone, sides, stream};
use crate::errno::Outcome;
use crate::object::Found;
use crate::real;
use crate::state::State;
use gannet_local::Hindrance;
use gannet_local::slot::{flags, receiver};
use libc::c_int;

const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32;

/// What is ready, as epoll says it; both sides are asked.
pub(crate) fn ready(state: &State, object: &Found, fd: c_int) -> u32 {
    let ours = ready_at_ours(state, object);
    let sides = sides(state, object);
    if !sides.kernels || ours & IN != 0 {
        return ours;
    }
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: a place of our own.
    unsafe { real::poll(&raw mut entry, 1, 0) };
    // The bits of poll and epoll have the same values.
    let mut kernels = entry.revents as u16 as u32;
    if kernels & libc::EPOLLIN as u32 != 0 {
        kernels |= IN;
    }
    match sides.ours {
        true => ours | kernels & !OUT,
        false => kernels | if kernels & OUT != 0 { OUT } else { 0 },
    }
}

/// What is ready of our side alone.
pub(crate) fn ready_at_ours(state: &State, object: &Found) -> u32 {
    let slot = state.arena().own(object.slot());
    let sides = sides(state, object);
    if !sides.ours {
        // Nobody carries it any more: calls say so rather than wait.
        let over = !sides.kernels;
        return if over {
            IN | OUT | libc::EPOLLERR as u32
        } else {
            0
        };
    }
    let Some(stream) = stream(state, object) else {
        return 0;
    };
    let mut events = match look(state, object) {
        Ok(_) => IN,
        Err(Hindrance::Wait) => 0,
        Err(_) => IN | libc::EPOLLRDHUP as u32,
    };
    if slot.error() != 0 {
        events |= libc::EPOLLERR as u32;
    }
    let no_more = slot.flags() & flags::SENDS_NO_MORE != 0;
    if stream.readiness().writable || no_more {
        events |= OUT;
    }
    if no_more && slot.receiver() & receiver::SHUT != 0 {
        events |= libc::EPOLLHUP as u32;
    }
    events
}

/// Length of the next datagram. What the carrier tells beside datagrams is taken out before.
fn look(state: &State, object: &Found) -> Result<usize, Hindrance> {
    let stream = stream(state, object).ok_or(Hindrance::Wait)?;
    while let Some(told) = stream.take_unless_data() {
        super::receive::heed(state, object, &told);
    }
    stream.peek_record().map(|header| header.len as usize)
}

/// Whether a datagram (or the end) is there.
pub(super) fn is_readable(state: &State, object: &Found) -> bool {
    let slot = state.arena().own(object.slot());
    look(state, object) != Err(Hindrance::Wait) || slot.error() != 0
}

/// `FIONREAD`: length of the next datagram of ours, if there is one.
pub(crate) fn next_len(state: &State, object: &Found) -> Option<usize> {
    match sides(state, object).ours {
        true => look(state, object).ok(),
        false => None,
    }
}

/// `SO_ERROR`, if there is one of ours.
pub(crate) fn pending_error(state: &State, object: &Found) -> Option<c_int> {
    let _ = next_len(state, object);
    match state.arena().own(object.slot()).take_error() {
        0 => None,
        error => Some(error),
    }
}

/// Whether the kernel's side can have something.
pub(crate) fn is_at_kernel(state: &State, object: &Found) -> bool {
    sides(state, object).kernels
}

/// The hidden descriptor that wakes, while our side is in use.
pub(crate) fn watched(state: &State, object: &Found) -> Option<c_int> {
    match sides(state, object).ours {
        true => object.hidden().next(),
        false => None,
    }
}

/// What a call says that neither side can serve.
pub(super) fn dead(state: &State, object: &Found) -> Outcome<()> {
    let sides = sides(state, object);
    let slot = state.arena().own(object.slot());
    let lost = !sides.ours && (is_ours_alone(&slot) || is_connected(&slot));
    match lost && !sides.kernels {
        true => Err(libc::ENETDOWN),
        false => Ok(()),
    }
}
