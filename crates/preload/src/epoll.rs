//! Epoll sets that hold descriptors of ours beside the kernel's.
//!
//! The set's descriptor is a real one. The kernel's descriptors are in it as the program put them;
//! ours are in it too, so that their wake-ups end a sleep, but edge-triggered and under a number
//! that tells them apart. What is ready of ours is found out in user space: [`Watcher`] says which
//! streams have news, and only those, and those that were ready the last time, are looked at. When
//! something of ours is found the kernel is asked too, without sleeping: always while its
//! descriptors in the set have something now and then, else every so often.

mod inside;
mod memberships;
mod sets;
mod turns;

pub(crate) use memberships::Memberships;
pub(crate) use sets::{
    closed, lock_sets, look_again, other_end_known, quiesce, register_at_kernel, registrations,
    restore, set_closed, withdraw,
};
pub(crate) use turns::taken;

use crate::by_number::ByNumber;
use crate::errno::{self, Outcome};
use crate::lead::SLICE;
use crate::object::{self, Found, Kind, Object};
use crate::place;
use crate::real;
use crate::state::State;
use gannet_local::{Patience, Readiness, Spin, Watcher};
use inside::Sorted;
use libc::{c_int, epoll_event};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The number under which descriptors of ours are in the kernel's set: no pointer and no small
/// number looks like this.
const MARK: u64 = 0xfa6d_9a11_0000_0000;
const MARK_MASK: u64 = 0xffff_ffff_0000_0000;
/// Waits that found something, for each time the kernel is asked that had nothing for long.
const KERNEL_TURN: u32 = 8;
/// Questions without an answer that make it long.
const QUIET: u32 = 64;

const IN: u32 = libc::EPOLLIN as u32 | libc::EPOLLRDNORM as u32;
const OUT: u32 = libc::EPOLLOUT as u32 | libc::EPOLLWRNORM as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// An epoll set.
#[derive(Debug)]
pub(crate) struct Set {
    inside: Mutex<Inside>,
    spin: Spin,
    waits: AtomicU32,
    /// Questions to the kernel since it had something of its own.
    quiet: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct Inside {
    /// Everything in the set, by descriptor.
    entries: ByNumber<Entry>,
    /// Descriptors of streams in the set, by slot.
    by_slot: ByNumber<c_int>,
    /// Streams that the program took out and the kernel still has in its set.
    dormant: ByNumber<Found>,
    /// Sets in the set.
    nested: Vec<c_int>,
    watcher: Option<Watcher>,
    bell: Bell,
    /// Descriptors of ours to look at.
    candidates: VecDeque<(c_int, u64)>,
    /// The ticket that was given out last.
    tickets: u64,
    sleepers: u32,
    /// A stream is in it that nothing wakes: it does not sleep for long.
    deaf: bool,
    /// Sides of listeners that the kernel's set lacks just now: number, events, data.
    absent: Vec<(c_int, u32, u64)>,
    patience: Patience,
    /// The kernel's descriptors have been in it, or listeners, or sets.
    others: bool,
    /// Streams to other programs, which are worth looking for; the carrier's are not, it may need
    /// this core.
    direct: usize,
    /// The process that made it: a child of it has the kernel's set in common with its parent.
    holder: usize,
}

/// What wakes those who sleep on a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Bell {
    /// Nobody has slept on it yet.
    #[default]
    Untried,
    /// None was to be had: the streams wake.
    None,
    /// This hidden descriptor.
    At(c_int),
}

#[derive(Debug)]
struct Entry {
    events: u32,
    data: u64,
    what: What,
    /// Its ticket among the candidates, 0 when it is not there. (A descriptor that left the set and
    /// came back must not be looked at twice: a program takes a second event for further bytes.)
    queued: u64,
    /// After a one-shot event: until it is set anew.
    disabled: bool,
    /// Of an edge-triggered stream whose other end hung up: what was told of it. It may be found
    /// out more than once, and changes no more.
    told: u32,
}

#[derive(Debug)]
enum What {
    /// The kernel's, in its set as the program put it.
    Kernel,
    /// A stream or datagrams of ours.
    Stream(Found),
    /// A listener: the kernel tells of all its sides.
    Listener(Found),
    /// A set that has ours in it.
    Nested(Found),
}

thread_local! {
    /// How many sets this thread is inside of, or about to be.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// How often a set that somebody is inside of is tried again.
const TRIES: u32 = 64;

/// Nobody else is inside while this is held.
struct Locked<'a>(MutexGuard<'a, Inside>);

impl std::ops::Deref for Locked<'_> {
    type Target = Inside;

    fn deref(&self) -> &Inside {
        &self.0
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inside {
        &mut self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get().saturating_sub(1));
    }
}

/// `epoll_ctl` of the kernel.
fn kernel_control(
    (set_fd, what): (c_int, c_int),
    fd: c_int,
    events: u32,
    data: u64,
) -> Outcome<c_int> {
    let mut event = epoll_event { events, u64: data };
    // SAFETY: a place of our own.
    errno::of(unsafe { real::epoll_ctl(set_fd, what, fd, &raw mut event) })
}

/// What a stream is ready for, as epoll says it.
pub(crate) fn events_of(ready: Readiness) -> u32 {
    let mut events = 0;
    if ready.readable {
        events |= IN;
    }
    if ready.writable {
        events |= OUT;
    }
    if ready.ended {
        events |= RDHUP | IN;
    }
    if ready.hung_up {
        events |= HUP;
    }
    if ready.failed {
        events |= ERR;
    }
    if ready.urgent {
        events |= libc::EPOLLPRI as u32;
    }
    events
}

/// What an object of ours is ready for now, as epoll says it. Not for listeners. Whether a stream
/// that is being opened has been answered is to be looked for before: a set that finds out has to
/// follow its news from then on.
pub(crate) fn ready_events(state: &State, object: &Found, fd: c_int, wanted: u32) -> u32 {
    match object.kind() {
        Kind::Stream => {
            let unopened = object.theirs().is_none() && is_carried(state, object);
            let stream = object.stream(state, fd);
            let mut ready = events_of(match wanted & OUT {
                0 => stream.readiness_to_receive(),
                _ => stream.readiness(),
            });
            let flags = state.arena().own(object.slot()).flags();
            if flags & gannet_local::slot::flags::ERROR_QUEUE != 0 {
                ready |= ERR;
            }
            if unopened && ready & (HUP | ERR) == 0 {
                0
            } else {
                ready
            }
        }
        Kind::Datagrams => crate::datagrams::ready(state, object, fd),
        Kind::Epoll => object.set().map_or(0, |set| set.ready_itself(state)),
        Kind::Bound | Kind::Listener | Kind::Hidden | Kind::Netlink | Kind::Free => 0,
    }
}

/// Whether a stream leads to another program, which is worth looking for. The carrier may need this
/// core to bring what is waited for.
pub(crate) fn is_direct(state: &State, object: &Object) -> bool {
    object.kind() == Kind::Stream && !is_carried(state, object)
}

fn is_carried(state: &State, object: &Object) -> bool {
    let flags = state.arena().own(object.slot()).flags();
    flags & gannet_local::slot::flags::CARRIED != 0
}

impl Set {
    /// An empty set.
    pub(crate) fn new(holder: usize) -> Set {
        let mut inside = Inside::default();
        inside.holder = holder;
        Set {
            inside: Mutex::new(inside),
            spin: Spin::new(object::spin_time()),
            waits: AtomicU32::new(0),
            quiet: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> Locked<'_> {
        INSIDE.set(INSIDE.get() + 1);
        Locked(self.inside.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, unless another thread is inside.
    fn try_lock(&self) -> Option<Locked<'_>> {
        let inside = match self.inside.try_lock() {
            Ok(inside) => inside,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        INSIDE.set(INSIDE.get() + 1);
        Some(Locked(inside))
    }

    /// The same, but not for ever if a handler of a signal has interrupted this very thread inside
    /// of a set, which looks for itself then.
    fn lock_in_call(&self) -> Option<Locked<'_>> {
        if INSIDE.get() == 0 {
            return Some(self.lock());
        }
        (0..TRIES).find_map(|_| {
            let inside = self.try_lock();
            if inside.is_none() {
                rustix::thread::sched_yield();
            }
            inside
        })
    }

    /// Whether something of ours in it is ready: what a set around it, or a poll, asks.
    fn ready_itself(&self, state: &State) -> u32 {
        let mut events = [epoll_event { events: 0, u64: 0 }; 1];
        let mut inside = self.lock();
        let found = inside.ready(state, &mut events, true);
        if found > 0 { IN } else { 0 }
    }
}

/// `epoll_ctl` on a set. `event` is null only where the kernel allows it.
///
/// # Safety
/// `event` can be read unless null.
pub(crate) unsafe fn control(
    state: &State,
    set_fd: c_int,
    set: &Set,
    what: c_int,
    (fd, event): (c_int, *mut epoll_event),
) -> Outcome<()> {
    if object::find(fd).is_some_and(|other| other.set().is_some_and(|it| std::ptr::eq(&*it, set))) {
        return Err(libc::EINVAL);
    }
    if object::is_hidden(fd) {
        return Err(libc::EBADF);
    }
    // Before this set is locked: the lock of a set in it is another's outer one if the program is
    // about to make a circle, which the kernel turns down.
    let found = object::find(fd).filter(|object| match object.kind() {
        Kind::Epoll => is_mixed(object),
        // The kernel answers for it until it listens or connects.
        Kind::Bound | Kind::Netlink => false,
        _ => true,
    });
    let mut inside = set.lock();
    inside.make_own(state);
    let Some(object) = found else {
        // SAFETY: as the caller says.
        errno::of(unsafe { real::epoll_ctl(set_fd, what, fd, event) })?;
        // SAFETY: the kernel has read it.
        let event = (what != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        inside.note_kernel(fd, event);
        return Ok(());
    };
    if what == libc::EPOLL_CTL_DEL {
        return inside.take_out(state, set_fd, fd).ok_or(libc::ENOENT);
    }
    // SAFETY: any bytes are an event.
    let event = unsafe { place::read(event) }?;
    match what {
        libc::EPOLL_CTL_ADD => {
            let known = inside.entries.get(fd as usize);
            if known.is_some_and(|entry| entry.is_of(&object)) {
                return Err(libc::EEXIST);
            }
            if known.is_some() {
                inside.remove(state, set_fd, fd);
            }
            inside.add(state, set_fd, fd, &object, event)?;
            inside.rouse(set_fd, fd);
            Ok(())
        }
        libc::EPOLL_CTL_MOD => {
            inside.modify(set_fd, fd, &object, event)?;
            inside.rouse(set_fd, fd);
            Ok(())
        }
        _ => Err(libc::EINVAL),
    }
}

fn is_mixed(object: &Found) -> bool {
    object.set().is_some_and(|set| !is_the_kernels(&set))
}

impl Entry {
    fn is_of(&self, object: &Found) -> bool {
        match &self.what {
            What::Kernel => false,
            What::Stream(other) | What::Listener(other) | What::Nested(other) => other.is(object),
        }
    }
}

/// `epoll_wait`: what is ready of ours, and of the kernel's.
pub(crate) fn wait(
    state: &State,
    set_fd: c_int,
    set: &Set,
    events: &mut [epoll_event],
    (timeout, mask): (Option<Duration>, *const libc::sigset_t),
) -> Outcome<usize> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let has_looked = crate::border::has_looked();
    set.lock().make_own(state);
    let mut asked = false;
    loop {
        let found = ready_now(state, set_fd, set, events);
        if found > 0 && asked {
            return Ok(found);
        }
        if found > 0 {
            return among_others(state, set_fd, set, (events, found), mask);
        }
        let now = (0, mask);
        let left = match left_until(deadline, timeout) {
            Some(0) => {
                let found = ask_kernel(state, set_fd, set, events, now)?;
                return Ok(match found {
                    0 => ready_now(state, set_fd, set, events),
                    found => found,
                });
            }
            left => left,
        };
        let streams = set.lock().direct > 0;
        if streams && !has_looked && set.spin.is_worth_it() {
            let found = ask_kernel(state, set_fd, set, events, now)?;
            if found > 0 {
                return Ok(found);
            }
            asked = true;
            if set.spin.look_for(|| set.lock().has_something()) {
                continue;
            }
        }
        let found = sleep(state, set_fd, set, events, (left.unwrap_or(-1), mask))?;
        if found > 0 {
            return Ok(found);
        }
    }
}

/// What is ready of ours. If it is more than there is room for, a sleeper is to have the rest.
fn ready_now(state: &State, set_fd: c_int, set: &Set, events: &mut [epoll_event]) -> usize {
    let mut inside = set.lock();
    let found = inside.ready(state, events, false);
    inside.pass_on(set_fd, found == events.len());
    found
}

/// Something of ours is ready: the kernel's get their turn too, in every wait as long as they have
/// something now and then, else in one of [`KERNEL_TURN`]. (A question costs 50 to 70 ns.)
fn among_others(
    state: &State,
    set_fd: c_int,
    set: &Set,
    (events, found): (&mut [epoll_event], usize),
    mask: *const libc::sigset_t,
) -> Outcome<usize> {
    let turn = set.waits.fetch_add(1, Relaxed);
    let quiet = set.quiet.load(Relaxed);
    let ask = turn.is_multiple_of(KERNEL_TURN) || quiet < QUIET && set.lock().others;
    match events.get_mut(found..) {
        Some(rest) if ask && !rest.is_empty() => {
            let more = ask_kernel(state, set_fd, set, rest, (0, mask)).unwrap_or(0);
            let quiet = if more > 0 { 0 } else { (quiet + 1).min(QUIET) };
            set.quiet.store(quiet, Relaxed);
            Ok(found + more)
        }
        _ => Ok(found),
    }
}

/// Milliseconds left, rounded up.
fn left_until(deadline: Option<Instant>, timeout: Option<Duration>) -> Option<c_int> {
    timeout?;
    let left = deadline.map_or(Duration::MAX, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    });
    Some(c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX))
}

fn sleep(
    state: &State,
    set_fd: c_int,
    set: &Set,
    events: &mut [epoll_event],
    (timeout, mask): (c_int, *const libc::sigset_t),
) -> Outcome<usize> {
    let (news, deaf) = {
        let mut inside = set.lock();
        (inside.arm(set_fd), inside.deaf)
    };
    let slice = SLICE.as_millis() as c_int;
    let timeout = match timeout {
        _ if news => 0,
        longer if deaf && !(0..slice).contains(&longer) => slice,
        timeout => timeout,
    };
    let told = told_by_kernel(set_fd, events, (timeout, mask));
    set.lock().disarm();
    Ok(sort(state, set_fd, set, told?, events))
}

/// What the kernel has to tell now: the timeout is 0.
fn ask_kernel(
    state: &State,
    set_fd: c_int,
    set: &Set,
    events: &mut [epoll_event],
    now: (c_int, *const libc::sigset_t),
) -> Outcome<usize> {
    let told = told_by_kernel(set_fd, events, now)?;
    Ok(sort(state, set_fd, set, told, events))
}

fn told_by_kernel(
    set_fd: c_int,
    events: &mut [epoll_event],
    (timeout, mask): (c_int, *const libc::sigset_t),
) -> Outcome<usize> {
    let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    // SAFETY: the caller's places; the mask is the caller's.
    let told = unsafe { real::epoll_pwait(set_fd, events.as_mut_ptr(), most, timeout, mask) };
    errno::of(told).map(|told| told as usize)
}

/// Keeps the program's own of what the kernel told a caller that does not sleep any more.
fn sort(state: &State, set_fd: c_int, set: &Set, told: usize, events: &mut [epoll_event]) -> usize {
    if told == 0 {
        return 0;
    }
    let mut inside = set.lock();
    let Sorted {
        mut found,
        shared,
        left,
    } = inside.take((state, set_fd), told, events);
    if found < told
        && let Some(rest) = events.get_mut(found..)
    {
        found += inside.in_place_of_sleepers((state, set_fd), rest);
    }
    drop(inside);
    for object in shared {
        look_again(&object, false);
    }
    if left && found == 0 {
        // Whoever is to have it may need this core.
        rustix::thread::sched_yield();
    }
    found
}

/// A set for a new epoll descriptor.
pub(crate) fn created(fd: c_int) {
    let Some(state) = crate::state::get().filter(|_| object::fits(fd)) else {
        return;
    };
    let object = object::new(Kind::Epoll, u32::MAX);
    object.set_set(Arc::new(Set::new(state.holder())));
    object::put(fd, &object);
    let mut sets = lock_sets();
    if !sets.contains(&fd) {
        sets.push(fd);
    }
}

/// Whether `set` can be left to the kernel as it is.
pub(crate) fn is_the_kernels(set: &Set) -> bool {
    let inside = set.lock();
    !inside
        .entries
        .iter()
        .any(|(_, entry)| !matches!(entry.what, What::Kernel))
}
