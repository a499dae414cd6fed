//! Sleeping until one of a socket's sides has something.
//!
//! Of several threads that wait one sleeps in the kernel, as with streams: see `lead.rs`.

use super::ready::{is_readable, watched};
use super::{sides, stream};
use crate::errno::{self, Outcome};
use crate::lead::{self, Lead};
use crate::object::Found;
use crate::poll::left;
use crate::real;
use crate::state::State;
use crate::wait;
use libc::{c_int, pollfd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::time::Instant;

/// Until the carrier tells something through `hidden`, or is gone; as `poll`.
pub(super) fn until_told(hidden: c_int, milliseconds: c_int) -> c_int {
    let mut entry = pollfd {
        fd: hidden,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: a place of our own.
    unsafe { real::poll_for_answer(&raw mut entry, 1, milliseconds) }
}

/// Waits once for a datagram; the caller looks again afterwards.
///
/// # Errors
/// `EAGAIN` after the deadline, `EINTR`.
pub(super) fn for_datagram(
    state: &State,
    object: &Found,
    fd: c_int,
    deadline: Option<Instant>,
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    let there = || sides(state, object).ours && is_readable(state, object);
    sleep(state, object, (fd, libc::POLLIN), deadline, &there, &|| {
        // Never disarmed: another process may sleep for the same socket.
        slot.arm_reader();
    })
}

/// Waits once for room in the stream of records.
///
/// # Errors
/// As [`for_datagram`].
pub(super) fn for_room(state: &State, object: &Found, deadline: Option<Instant>) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    let room = || stream(state, object).is_none_or(|stream| stream.readiness().writable);
    sleep(state, object, (-1, 0), deadline, &room, &|| {
        slot.arm_writer()
    })
}

fn sleep(
    state: &State,
    object: &Found,
    (fd, events): (c_int, i16),
    deadline: Option<Instant>,
    may: &dyn Fn() -> bool,
    arm: &dyn Fn(),
) -> Outcome<()> {
    let sides = sides(state, object);
    // No looking before: the carrier needs a core to bring what is waited for, perhaps this one.
    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Err(libc::EAGAIN);
    }
    let turn = lead::turn(object);
    let lead = Lead::take(object);
    arm();
    fence(SeqCst);
    if lead.is_none() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        return match sides.ours && may() {
            true => Ok(()),
            false => lead::follow(object, turn, left),
        };
    }
    match sides.ours && may() {
        true => Ok(()),
        false => {
            // A `shutdown` wakes through the kernel's socket, whether it is in use or not.
            let events = if sides.kernels {
                events
            } else {
                libc::POLLRDHUP
            };
            match in_kernel(state, object, (fd, events), deadline) {
                // As the kernel goes on with a `recv` that knows no time-out.
                Err(libc::EINTR) => wait::interrupted(deadline.is_none()),
                slept => slept,
            }
        }
    }
}

fn in_kernel(
    state: &State,
    object: &Found,
    (fd, events): (c_int, i16),
    deadline: Option<Instant>,
) -> Outcome<()> {
    let entry = |fd: c_int, events| pollfd {
        fd,
        events,
        revents: 0,
    };
    let hidden = watched(state, object).unwrap_or(-1);
    let mut both = [entry(fd, events), entry(hidden, libc::POLLIN)];
    let time = left(deadline);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: places of our own.
    let n = errno::of(unsafe { real::ppoll(both.as_mut_ptr(), 2, time, std::ptr::null()) })?;
    if both[1].revents != 0 {
        wait::take_wakes(state, object, hidden);
    }
    match n {
        0 => Err(libc::EAGAIN),
        _ => Ok(()),
    }
}
