//! Sleeping on one stream until something can be done.
//!
//! A sleeper sleeps in a blocking `recv` of the Unix socket that takes nothing away: the kernel
//! then treats signals, `SA_RESTART`, time-outs and cancellation as for any socket. Of several
//! threads that wait for the same socket one (the leader) sleeps there and takes the wake-up away;
//! the others sleep on a word and are woken by the leader.

use crate::errno::{self, Outcome};
use crate::object::Object;
use crate::real;
use crate::state::State;
use gannet_local::slot::OwnSlot;
use gannet_local::{Drained, drain, sandbox};
use libc::c_int;
use rustix::fd::BorrowedFd;
use rustix::thread::futex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Bytes, or the end.
    Bytes,
    /// Room.
    Room,
    /// The answer to an opening.
    Answer,
}

/// After how many fruitless calls that do not block the kernel is asked whether the other end is
/// still there.
const ASK_AFTER: u32 = 64;

/// Longest sleep of a wait that has an end.
const SLICE: Duration = Duration::from_millis(50);

/// Waits once; the caller looks again afterwards. `may` says whether it need not wait.
pub(crate) fn wait(
    state: &State,
    object: &Object,
    fd: c_int,
    what: For,
    mut may: impl FnMut() -> bool,
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    // The carrier needs a core to bring what is waited for: perhaps this one.
    let carried = slot.flags() & gannet_local::slot::flags::CARRIED != 0;
    if !carried && object.spin.until(&mut may) {
        return Ok(());
    }
    arm(&slot, what);
    fence(SeqCst);
    let slept = match may() {
        true => Ok(()),
        false => sleep(state, object, fd),
    };
    disarm(&slot, what);
    slept
}

/// As [`wait`], for a time at most: then `EAGAIN`. The kernel's time-out of receiving is not ours
/// here, so the sleep is a `poll`, which no signal restarts; nor does one restart a call with a
/// time-out at the kernel.
pub(crate) fn wait_at_most(
    state: &State,
    object: &Object,
    fd: c_int,
    what: For,
    (most, mut may): (Duration, impl FnMut() -> bool),
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    arm(&slot, what);
    fence(SeqCst);
    let began = Instant::now();
    let slept = loop {
        if may() {
            break Ok(());
        }
        let left = most.saturating_sub(began.elapsed());
        if left.is_zero() {
            break Err(libc::EAGAIN);
        }
        // A thread that sleeps in `recv` may take away the byte that was to wake this one.
        match sleep_in_poll(fd, left.min(SLICE)) {
            Ok(()) if object.leader.load(Acquire) == 0 => take_wakes(state, object, fd),
            Ok(()) => {}
            Err(error) => break Err(error),
        }
    };
    disarm(&slot, what);
    slept
}

/// Sleeps for a time at most, or until something can be read.
fn sleep_in_poll(fd: c_int, most: Duration) -> Outcome<()> {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let most = c_int::try_from(most.as_millis().max(1)).unwrap_or(c_int::MAX);
    // SAFETY: a place of our own.
    errno::of(unsafe { real::poll(&raw mut entry, 1, most) }).map(|_| ())
}

fn arm(slot: &OwnSlot<'_>, what: For) {
    match what {
        For::Room => slot.arm_writer(),
        For::Bytes | For::Answer => slot.arm_reader(),
    }
}

fn disarm(slot: &OwnSlot<'_>, what: For) {
    match what {
        For::Room => slot.disarm_writer(),
        For::Bytes | For::Answer => slot.disarm_reader(),
    }
}

fn sleep(state: &State, object: &Object, fd: c_int) -> Outcome<()> {
    let turn = object.turn.load(Acquire);
    if object
        .leader
        .compare_exchange(0, 1, AcqRel, Acquire)
        .is_err()
    {
        return follow(object, turn);
    }
    let got = sleep_in_kernel(fd);
    let slept = match got {
        0 => {
            hung_up(state, object, fd);
            Ok(())
        }
        -1 => match errno::get() {
            libc::ECONNRESET => {
                hung_up(state, object, fd);
                Ok(())
            }
            error => Err(error),
        },
        _ => {
            take_wakes(state, object, fd);
            Ok(())
        }
    };
    object.leader.store(0, SeqCst);
    object.turn.fetch_add(1, SeqCst);
    let _ = futex::wake(&object.turn, futex::Flags::PRIVATE, u32::MAX >> 1);
    slept
}

/// Whether a call that a signal interrupted goes on: when every handler asks for it. Which signal
/// it was cannot be known here, and `ppoll` itself never goes on.
pub(crate) fn handlers_restart() -> bool {
    // What a program does to itself: runtimes have handlers for these.
    let own = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    (1..=64)
        .filter(|signal| !own.contains(signal))
        .all(|signal| {
            // SAFETY: all zero is a value of it.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: a place of our own; nothing is set.
            let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
            let handled =
                action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
            asked != 0 || !handled || action.sa_flags & libc::SA_RESTART != 0
        })
}

/// As `recv` of one byte that stays there.
fn sleep_in_kernel(fd: c_int) -> libc::ssize_t {
    if sandbox::is_on() {
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: a place of our own.
        return unsafe { real::poll(&raw mut entry, 1, -1) } as libc::ssize_t;
    }
    let mut byte = 0u8;
    // SAFETY: one byte of our own.
    unsafe { real::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) }
}

fn follow(object: &Object, turn: u32) -> Outcome<()> {
    match futex::wait(&object.turn, futex::Flags::PRIVATE, turn, None) {
        Err(rustix::io::Errno::INTR) => Err(libc::EINTR),
        _ => Ok(()),
    }
}

/// Takes the wake-ups out of the socket, unless a sleeping leader is to find them.
pub(crate) fn take_wakes(state: &State, object: &Object, fd: c_int) {
    let slot = state.arena().own(object.slot());
    if slot.flags() & gannet_local::slot::flags::RESOLVED == 0 {
        // What lies there may be the answer to our opening.
        return look_for_answer(state, object, fd);
    }
    // SAFETY: a descriptor the program gave us.
    if drain(unsafe { BorrowedFd::borrow_raw(fd) }) == Drained::HungUp {
        hung_up(state, object, fd);
    }
}

fn hung_up(state: &State, object: &Object, fd: c_int) {
    object.stream(state, fd).hung_up();
}

/// Finds out what became of the stream's opening, and maps the other end's arena.
pub(crate) fn look_for_answer(state: &State, object: &Object, fd: c_int) {
    use gannet_local::slot::flags::BROKEN;
    if object.theirs().is_some() || state.arena().own(object.slot()).flags() & BROKEN != 0 {
        return;
    }
    // SAFETY: a descriptor the program gave us.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    match gannet_local::meet::resolve(state.peers(), object.slot(), borrowed) {
        gannet_local::meet::Answer::Open(theirs) => {
            object.set_theirs(theirs);
            crate::epoll::other_end_known(state, object);
        }
        gannet_local::meet::Answer::Refused(_) => hung_up(state, object, fd),
        gannet_local::meet::Answer::NotYet => {}
    }
}

/// A call that does not block found nothing: now and then the kernel is asked whether the other
/// end is still there.
pub(crate) fn fruitless(state: &State, object: &Object, fd: c_int) {
    use std::sync::atomic::Ordering::Relaxed;
    let n = object.fruitless.fetch_add(1, Relaxed);
    if n.is_multiple_of(ASK_AFTER) && object.leader.load(Acquire) == 0 {
        take_wakes(state, object, fd);
    }
}
