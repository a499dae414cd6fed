//! Sleeping on one stream until something can be done.
//!
//! A sleeper sleeps in a blocking `recv` of the Unix socket that takes nothing away: the kernel
//! then treats signals, `SA_RESTART`, time-outs and cancellation as for any socket. Of several
//! threads that wait for the same socket one sleeps there: see `lead.rs`. Who waits for room sleeps
//! in `poll` and not for long, since nothing wakes him when another thread ends his direction.

use crate::border;
use crate::errno::{self, Outcome};
use crate::lead::{self, Lead, SLICE};
use crate::object::{Asleep, Object};
use crate::real;
use crate::state::State;
use gannet_local::slot::{OwnSlot, flags};
use gannet_local::{Drained, drain, sandbox};
use libc::{c_int, c_short};
use rustix::fd::BorrowedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

/// After how many fruitless calls that do not block the kernel is asked whether the other end is
/// still there.
const ASK_AFTER: u32 = 64;

/// How long to sleep for room where the other end cannot wake this one.
const DEAF_SLICE: Duration = Duration::from_millis(1);

/// Waits once for bytes; the caller looks again afterwards. `may` says whether it need not wait.
pub(crate) fn for_bytes(
    state: &State,
    object: &Object,
    fd: c_int,
    mut may: impl FnMut() -> bool,
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    if is_found(&slot, object, &mut may) {
        return Ok(());
    }
    let asleep = Asleep::on(object, fd).ok_or(libc::EBADF)?;
    let turn = lead::turn(object);
    let lead = Lead::take(object);
    slot.arm_reader();
    fence(SeqCst);
    let slept = match (may(), &lead) {
        (true, _) => Ok(()),
        (false, Some(_)) => sleep(state, object, asleep.descriptor()),
        (false, None) => lead::follow(object, turn, None),
    };
    slot.disarm_reader();
    slept
}

/// Looks before sleeping. The carrier needs a core to bring what is waited for: perhaps this one.
fn is_found(slot: &OwnSlot<'_>, object: &Object, may: &mut impl FnMut() -> bool) -> bool {
    let has_looked = border::has_looked();
    slot.flags() & flags::CARRIED == 0 && !has_looked && object.spin.until(may)
}

/// As [`for_bytes`], for room or for the answer to an opening; for a time at most, if one is given:
/// then `EAGAIN`. The kernel's time-out of receiving is not ours here, so the sleep is a `poll`,
/// which no signal restarts; nor does one restart a call with a time-out at the kernel.
pub(crate) fn for_room(
    state: &State,
    object: &Object,
    fd: c_int,
    most: Option<Duration>,
    mut may: impl FnMut() -> bool,
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    if is_found(&slot, object, &mut may) {
        return Ok(());
    }
    let asleep = Asleep::on(object, fd).ok_or(libc::EBADF)?;
    // An answer comes as bytes do.
    slot.arm_writer();
    slot.arm_reader();
    let began = Instant::now();
    let slept = loop {
        let turn = lead::turn(object);
        let lead = Lead::take(object);
        fence(SeqCst);
        if may() {
            break Ok(());
        }
        let left = most.map(|most| most.saturating_sub(began.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break Err(libc::EAGAIN);
        }
        let slice = left.unwrap_or(SLICE).min(SLICE);
        let slept = match &lead {
            Some(_) => sleep_in_poll(state, object, asleep.descriptor(), slice),
            None => lead::follow(object, turn, Some(slice)),
        };
        match slept {
            Ok(()) | Err(libc::EAGAIN) => {}
            Err(libc::EINTR) => match interrupted(most.is_none()) {
                Ok(()) => {}
                error => break error,
            },
            Err(error) => break Err(error),
        }
    };
    slot.disarm_writer();
    slot.disarm_reader();
    slept
}

/// Sleeps for a time at most, or until something can be read, which is taken out.
fn sleep_in_poll(state: &State, object: &Object, fd: c_int, most: Duration) -> Outcome<()> {
    let deaf = is_deaf(state, object);
    let (events, most) = match deaf {
        true => (0, DEAF_SLICE.min(most)),
        false => (libc::POLLIN, most),
    };
    if poll_one(fd, events, most)? != 0 {
        take_wakes(state, object, fd);
        lead::tell_sets(state, object);
    }
    Ok(())
}

fn poll_one(fd: c_int, events: c_short, most: Duration) -> Outcome<c_short> {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let most = c_int::try_from(most.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX);
    // SAFETY: a place of our own.
    errno::of(unsafe { real::poll(&raw mut entry, 1, most) })?;
    Ok(entry.revents)
}

/// Whether the socket was shut down for reading, so that no wake-up comes through it.
pub(crate) fn is_deaf(state: &State, object: &Object) -> bool {
    state.arena().own(object.slot()).flags() & flags::DEAF != 0
}

/// Sleeps as the one who has the lead.
fn sleep(state: &State, object: &Object, fd: c_int) -> Outcome<()> {
    let got = sleep_in_kernel(fd);
    if got < 0 && errno::get() != libc::ECONNRESET {
        return Err(errno::get());
    }
    take_wakes(state, object, fd);
    lead::tell_sets(state, object);
    Ok(())
}

/// What becomes of a call whose sleep a signal ended. `may_restart`: it knows no time-out.
pub(crate) fn interrupted(may_restart: bool) -> Outcome<()> {
    match may_restart {
        // Once the handler has run.
        true if border::is_raised() => Err(border::RESTART),
        true if handlers_restart() => Ok(()),
        _ => Err(libc::EINTR),
    }
}

/// Whether a call that a signal interrupted goes on where there is no border: when every handler
/// asks for it. Which signal it was cannot be known here, and `ppoll` itself never goes on.
fn handlers_restart() -> bool {
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
        let slept = unsafe { real::poll(&raw mut entry, 1, -1) };
        if slept < 0
            && errno::get() == libc::EINTR
            && let Err(error) = interrupted(true)
        {
            errno::set(error);
        }
        return slept as libc::ssize_t;
    }
    let mut byte = 0u8;
    // SAFETY: one byte of our own.
    unsafe { real::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) }
}

/// Takes the wake-ups out of the socket. Only for who has the lead.
pub(crate) fn take_wakes(state: &State, object: &Object, fd: c_int) {
    if state.arena().own(object.slot()).flags() & flags::RESOLVED == 0 {
        // What lies there may be the answer to our opening.
        return look_for_answer(state, object, fd);
    }
    // SAFETY: a descriptor the program gave us.
    let drained = drain(unsafe { BorrowedFd::borrow_raw(fd) });
    if drained == Drained::HungUp && (!is_deaf(state, object) || is_hung_up(fd)) {
        hung_up(state, object, fd);
    }
}

/// Takes the wake-ups out unless another thread has the lead, who will do it.
pub(crate) fn take_wakes_alone(state: &State, object: &Object, fd: c_int) {
    Lead::with(object, || take_wakes(state, object, fd));
}

/// Whether the other end's last descriptor is closed.
fn is_hung_up(fd: c_int) -> bool {
    poll_one(fd, 0, Duration::ZERO).is_ok_and(|revents| revents & libc::POLLHUP != 0)
}

/// The other end's last descriptor is closed.
pub(crate) fn hung_up(state: &State, object: &Object, fd: c_int) {
    object.stream(state, fd).hung_up();
}

/// Finds out what became of the stream's opening, and maps the other end's arena. The sets that it
/// is in follow it from then on.
pub(crate) fn look_for_answer(state: &State, object: &Object, fd: c_int) {
    if object.theirs().is_none() && hear_answer(state, object, fd) {
        crate::epoll::other_end_known(state, object);
    }
}

/// The same without a word to the sets: for who is inside of one. Whether the other end is known
/// since this call.
pub(crate) fn hear_answer(state: &State, object: &Object, fd: c_int) -> bool {
    let slot = state.arena().own(object.slot());
    if object.theirs().is_some() || slot.flags() & flags::BROKEN != 0 {
        return false;
    }
    if slot.flags() & flags::RESOLVED != 0 {
        // Another process has heard it: nothing is taken out of the socket.
        return ask(state, object, fd);
    }
    // The answer is a wake-up too.
    let mut open = false;
    Lead::with(object, || open = ask(state, object, fd));
    open
}

fn ask(state: &State, object: &Object, fd: c_int) -> bool {
    // SAFETY: a descriptor the program gave us.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    match gannet_local::meet::resolve(state.peers(), object.slot(), borrowed) {
        gannet_local::meet::Answer::Open(theirs) => {
            object.set_theirs(theirs);
            // What told of both, the answer and a hang-up behind it, may have been another's.
            if is_hung_up(fd) {
                hung_up(state, object, fd);
            }
            return true;
        }
        gannet_local::meet::Answer::Refused(_) => hung_up(state, object, fd),
        gannet_local::meet::Answer::NotYet => {}
    }
    false
}

/// Whether the opening is answered, and the memory of the other end not known yet: no event tells
/// of that, so a call that is about to sleep looks again. Each look waits a little.
pub(crate) fn is_half_open(state: &State, object: &Object, fd: c_int) -> bool {
    if object.theirs().is_some() {
        return false;
    }
    // SAFETY: a descriptor the program gave us.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    gannet_local::meet::is_answered(state.peers(), object.slot(), borrowed)
}

/// A call that does not block found nothing: now and then the kernel is asked whether the other
/// end is still there. Wake-ups stay where they are: they may be somebody else's.
pub(crate) fn fruitless(state: &State, object: &Object, fd: c_int) {
    use std::sync::atomic::Ordering::Relaxed;
    let n = object.fruitless.fetch_add(1, Relaxed);
    if !n.is_multiple_of(ASK_AFTER) {
        return;
    }
    look_for_answer(state, object, fd);
    if is_hung_up(fd) {
        hung_up(state, object, fd);
    }
}
