//! Sleeping until one of a socket's sides has something.
//!
//! Of several threads that wait one (the leader) sleeps in the kernel and takes the wake-up away;
//! the others sleep on a word and are woken by the leader, as with streams.

use super::ready::{is_readable, watched};
use super::{sides, stream};
use crate::errno::{self, Outcome};
use crate::object::Found;
use crate::poll::left;
use crate::real;
use crate::state::State;
use crate::wait;
use libc::{c_int, pollfd};
use rustix::thread::futex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
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
    unsafe { real::poll(&raw mut entry, 1, milliseconds) }
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
    let turn = object.turn.load(Acquire);
    if object
        .leader
        .compare_exchange(0, 1, AcqRel, Acquire)
        .is_err()
    {
        return follow(object, turn, deadline);
    }
    arm();
    fence(SeqCst);
    let slept = match sides.ours && may() {
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
                Err(libc::EINTR) if deadline.is_none() && wait::handlers_restart() => Ok(()),
                slept => slept,
            }
        }
    };
    object.leader.store(0, SeqCst);
    object.turn.fetch_add(1, SeqCst);
    let _ = futex::wake(&object.turn, futex::Flags::PRIVATE, u32::MAX >> 1);
    slept
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

fn follow(object: &Found, turn: u32, deadline: Option<Instant>) -> Outcome<()> {
    let time = left(deadline).map(|time| rustix::time::Timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_nsec,
    });
    match futex::wait(&object.turn, futex::Flags::PRIVATE, turn, time.as_ref()) {
        Err(rustix::io::Errno::INTR) => Err(libc::EINTR),
        Err(rustix::io::Errno::TIMEDOUT) => Err(libc::EAGAIN),
        _ => Ok(()),
    }
}
