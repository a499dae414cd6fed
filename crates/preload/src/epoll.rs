//! Epoll sets that hold descriptors of ours beside the kernel's.
//!
//! The set's descriptor is a real one. The kernel's descriptors are in it as the program put them;
//! ours are in it too, so that their wake-ups end a sleep, but edge-triggered and under a number
//! that tells them apart. What is ready of ours is found out in user space: [`Watcher`] says which
//! streams have news, and only those, and those that were ready the last time, are looked at. A
//! wait that finds something of ours asks the kernel only now and then.

use crate::by_number::ByNumber;
use crate::errno::{self, Outcome};
use crate::object::{self, Found, Kind, Object};
use crate::real;
use crate::state::State;
use crate::wait;
use gannet_local::{Readiness, Spin, Watcher};
use libc::{c_int, epoll_event};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number under which descriptors of ours are in the kernel's set: no pointer and no small
/// number looks like this.
const MARK: u64 = 0xfa6d_9a11_0000_0000;
const MARK_MASK: u64 = 0xffff_ffff_0000_0000;
/// Waits that found something of ours, for each time the kernel is asked.
const KERNEL_TURN: u32 = 8;
/// Events taken from the kernel at once.
const AT_ONCE: usize = 256;

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
}

#[derive(Debug, Default)]
pub(crate) struct Inside {
    /// Everything in the set, by descriptor.
    entries: ByNumber<Entry>,
    /// Descriptors of streams in the set, by slot.
    by_slot: ByNumber<c_int>,
    /// Sets in the set.
    nested: Vec<c_int>,
    watcher: Option<Watcher>,
    /// Descriptors of ours to look at.
    candidates: VecDeque<c_int>,
    sleepers: u32,
    /// The process that made it: a child of it has the kernel's set in common with its parent.
    holder: usize,
}

#[derive(Debug)]
struct Entry {
    events: u32,
    data: u64,
    what: What,
    /// In the candidates already.
    queued: bool,
    /// After a one-shot event: until it is set anew.
    disabled: bool,
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
    events
}

/// What an object of ours is ready for now, as epoll says it. Not for listeners.
pub(crate) fn ready_events(state: &State, object: &Found, fd: c_int) -> u32 {
    match object.kind() {
        Kind::Stream => {
            if object.theirs().is_none() {
                wait::look_for_answer(state, object, fd);
            }
            let unopened = object.theirs().is_none() && is_carried(state, object);
            let ready = events_of(object.stream(state, fd).readiness());
            if unopened && ready & (HUP | ERR) == 0 {
                0
            } else {
                ready
            }
        }
        Kind::Datagrams => crate::datagrams::ready(state, object),
        Kind::Epoll => object.set().map_or(0, |set| set.ready_itself(state)),
        Kind::Bound => OUT | HUP,
        Kind::Listener | Kind::Hidden | Kind::Free => 0,
    }
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
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut inside = set.lock();
    inside.make_own(state);
    let found = object::find(fd).filter(|object| object.kind() != Kind::Epoll || is_mixed(object));
    let Some(object) = found else {
        // SAFETY: as the caller says.
        errno::of(unsafe { real::epoll_ctl(set_fd, what, fd, event) })?;
        // SAFETY: the kernel has read it.
        let event = (what != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        inside.note_kernel(fd, event);
        return Ok(());
    };
    if set_fd == fd {
        return Err(libc::EINVAL);
    }
    if what == libc::EPOLL_CTL_DEL {
        return inside.remove(state, set_fd, fd).ok_or(libc::ENOENT);
    }
    if event.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not null.
    let event = unsafe { event.read_unaligned() };
    match what {
        libc::EPOLL_CTL_ADD => {
            let known = inside.entries.get(fd as usize);
            if known.is_some_and(|entry| entry.is_of(&object)) {
                return Err(libc::EEXIST);
            }
            if known.is_some() {
                inside.remove(state, set_fd, fd);
            }
            inside.add(state, set_fd, fd, &object, event)
        }
        libc::EPOLL_CTL_MOD => inside.modify(set_fd, fd, &object, event),
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
            What::Stream(other) | What::Listener(other) | What::Nested(other) => {
                std::ptr::eq::<Object>(&**other, &**object)
            }
        }
    }
}

impl Inside {
    fn note_kernel(&mut self, fd: c_int, event: Option<epoll_event>) {
        match event {
            None => {
                self.entries.remove(fd as usize);
            }
            Some(event) => {
                let entry = Entry {
                    events: event.events,
                    data: event.u64,
                    what: What::Kernel,
                    queued: false,
                    disabled: false,
                };
                self.entries.insert(fd as usize, entry);
            }
        }
    }

    fn add(
        &mut self,
        state: &State,
        set_fd: c_int,
        fd: c_int,
        object: &Found,
        event: epoll_event,
    ) -> Outcome<()> {
        let marked = |number: c_int, events: u32| {
            let mut event = epoll_event {
                events,
                u64: MARK | number as u64,
            };
            // SAFETY: a place of our own.
            errno::of(unsafe {
                real::epoll_ctl(set_fd, libc::EPOLL_CTL_ADD, number, &raw mut event)
            })
        };
        let what = match object.kind() {
            Kind::Listener => {
                // The kernel's side as the program wants it, the others under our number.
                let mut plain = event;
                // SAFETY: a place of our own.
                errno::of(unsafe {
                    real::epoll_ctl(set_fd, libc::EPOLL_CTL_ADD, fd, &raw mut plain)
                })?;
                for hidden in object.hidden() {
                    let mut event = epoll_event {
                        events: event.events,
                        u64: MARK | fd as u64,
                    };
                    // SAFETY: as above.
                    errno::of(unsafe {
                        real::epoll_ctl(set_fd, libc::EPOLL_CTL_ADD, hidden, &raw mut event)
                    })?;
                }
                What::Listener(object.clone())
            }
            Kind::Epoll => {
                marked(fd, libc::EPOLLIN as u32)?;
                self.nested.push(fd);
                What::Nested(object.clone())
            }
            Kind::Datagrams => {
                for hidden in object.hidden() {
                    let mut event = epoll_event {
                        events: libc::EPOLLIN as u32 | RDHUP | EDGE,
                        u64: MARK | fd as u64,
                    };
                    // SAFETY: as above.
                    errno::of(unsafe {
                        real::epoll_ctl(set_fd, libc::EPOLL_CTL_ADD, hidden, &raw mut event)
                    })?;
                }
                let mut plain = event;
                plain.events &= !OUT;
                // SAFETY: as above.
                errno::of(unsafe {
                    real::epoll_ctl(set_fd, libc::EPOLL_CTL_ADD, fd, &raw mut plain)
                })?;
                What::Stream(object.clone())
            }
            _ => {
                marked(fd, libc::EPOLLIN as u32 | RDHUP | EDGE)?;
                What::Stream(object.clone())
            }
        };
        let entry = Entry {
            events: event.events & !EXCLUSIVE,
            data: event.u64,
            what,
            queued: false,
            disabled: false,
        };
        self.entries.insert(fd as usize, entry);
        self.watch(state, fd, object);
        self.queue(fd);
        note_membership(object, set_fd);
        Ok(())
    }

    /// Follows the news of a stream, if its other end is known.
    fn watch(&mut self, state: &State, fd: c_int, object: &Found) {
        if !matches!(object.kind(), Kind::Stream | Kind::Datagrams) {
            return;
        }
        let slot = object.slot();
        if self.by_slot.insert(slot as usize, fd) == Some(fd) {
            return;
        }
        if let Some(theirs) = object.theirs_shared() {
            let own = state.shared_arena().clone();
            self.watcher
                .get_or_insert_with(|| Watcher::new(own, state.holder()))
                .add(slot, &theirs);
        }
    }

    fn modify(
        &mut self,
        set_fd: c_int,
        fd: c_int,
        object: &Found,
        event: epoll_event,
    ) -> Outcome<()> {
        let entry = self
            .entries
            .get_mut(fd as usize)
            .filter(|entry| entry.is_of(object))
            .ok_or(libc::ENOENT)?;
        entry.events = event.events;
        entry.data = event.u64;
        entry.disabled = false;
        if let What::Listener(object) = &entry.what {
            let mut plain = event;
            // SAFETY: a place of our own.
            errno::of(unsafe { real::epoll_ctl(set_fd, libc::EPOLL_CTL_MOD, fd, &raw mut plain) })?;
            for hidden in object.hidden() {
                let mut event = epoll_event {
                    events: event.events,
                    u64: MARK | fd as u64,
                };
                // SAFETY: as above.
                errno::of(unsafe {
                    real::epoll_ctl(set_fd, libc::EPOLL_CTL_MOD, hidden, &raw mut event)
                })?;
            }
        }
        self.queue(fd);
        Ok(())
    }

    fn remove(&mut self, state: &State, set_fd: c_int, fd: c_int) -> Option<()> {
        let entry = self.entries.remove(fd as usize)?;
        self.nested.retain(|nested| *nested != fd);
        // SAFETY: no pointers that matter.
        unsafe { real::epoll_ctl(set_fd, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        match entry.what {
            What::Kernel => {}
            What::Stream(object) | What::Listener(object) | What::Nested(object) => {
                for hidden in object.hidden() {
                    // SAFETY: as above.
                    unsafe {
                        real::epoll_ctl(set_fd, libc::EPOLL_CTL_DEL, hidden, std::ptr::null_mut())
                    };
                }
                self.forget(state, &object);
            }
        }
        Some(())
    }

    fn forget(&mut self, state: &State, object: &Found) {
        if self.by_slot.remove(object.slot() as usize).is_none() {
            return;
        }
        if let (Some(watcher), Some(theirs)) = (&mut self.watcher, object.theirs()) {
            watcher.remove(object.slot(), theirs.host());
        } else {
            state.arena().own(object.slot()).set_watch(0);
        }
    }

    fn queue(&mut self, fd: c_int) {
        if let Some(entry) = self.entries.get_mut(fd as usize)
            && !entry.queued
            && !matches!(entry.what, What::Kernel | What::Listener(_))
        {
            entry.queued = true;
            self.candidates.push_back(fd);
        }
    }

    /// Makes candidates of what has news.
    fn collect(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        if !watcher.has_news() {
            return;
        }
        let mut found = Vec::new();
        if watcher.collect(&mut found) {
            for slot in found {
                if let Some(&fd) = self.by_slot.get(slot as usize) {
                    self.queue(fd);
                }
            }
        } else {
            let all: Vec<c_int> = self.by_slot.iter().map(|(_, fd)| *fd).collect();
            for fd in all {
                self.queue(fd);
            }
        }
    }

    /// Writes what is ready of ours to `events`. With `only_look` nothing is used up.
    fn ready(&mut self, state: &State, events: &mut [epoll_event], only_look: bool) -> usize {
        self.collect();
        for at in 0..self.nested.len() {
            if let Some(&fd) = self.nested.get(at) {
                self.queue(fd);
            }
        }
        let mut found = 0;
        for _ in 0..self.candidates.len() {
            if found == events.len() {
                break;
            }
            let Some(fd) = self.candidates.pop_front() else {
                break;
            };
            self.resolve(state, fd);
            let Some(entry) = self.entries.get_mut(fd as usize) else {
                continue;
            };
            let (What::Stream(object) | What::Nested(object)) = &entry.what else {
                entry.queued = false;
                continue;
            };
            let wanted = entry.events | HUP | ERR;
            let ready = ready_events(state, object, fd) & wanted;
            if entry.disabled || ready == 0 {
                entry.queued = false;
                continue;
            }
            if let Some(place) = events.get_mut(found) {
                *place = epoll_event {
                    events: ready,
                    u64: entry.data,
                };
                found += 1;
            }
            if only_look {
                self.candidates.push_back(fd);
                continue;
            }
            if entry.events & ONCE != 0 {
                entry.disabled = true;
            }
            if entry.events & (ONCE | EDGE) != 0 {
                entry.queued = false;
            } else {
                self.candidates.push_back(fd);
            }
        }
        found
    }

    /// Sorts what the kernel told: the program's own go to `events`, ours become candidates.
    fn take(&mut self, state: &State, told: &[epoll_event], events: &mut [epoll_event]) -> usize {
        let mut found = 0;
        for event in told {
            let mut event = *event;
            let number = event.u64;
            if number & MARK_MASK == MARK {
                let fd = (number & !MARK_MASK) as c_int;
                match self
                    .entries
                    .get(fd as usize)
                    .map(|entry| (&entry.what, entry.data))
                {
                    Some((What::Listener(_), data)) => event.u64 = data,
                    Some((What::Stream(object), _)) => {
                        let object = object.clone();
                        let at = object.hidden().next().unwrap_or(fd);
                        wait::take_wakes(state, &object, at);
                        self.watch_late(state, fd, &object);
                        self.queue(fd);
                        continue;
                    }
                    _ => continue,
                }
            }
            if let Some(place) = events.get_mut(found) {
                *place = event;
                found += 1;
            }
        }
        found
    }

    /// Looks for the other end of a stream that was opened without waiting.
    fn resolve(&mut self, state: &State, fd: c_int) {
        let object = match self.entries.get(fd as usize).map(|entry| &entry.what) {
            Some(What::Stream(object)) if object.theirs().is_none() => object.clone(),
            _ => return,
        };
        if object.kind() == Kind::Stream {
            wait::look_for_answer(state, &object, fd);
        }
        self.watch_late(state, fd, &object);
    }

    /// A stream whose other end became known only now has to be followed.
    fn watch_late(&mut self, state: &State, fd: c_int, object: &Found) {
        if object.theirs().is_some() && state.arena().own(object.slot()).watch() == 0 {
            self.by_slot.remove(object.slot() as usize);
            self.watch(state, fd, object);
        }
    }

    /// About to sleep. True when it would be wrong to.
    fn arm(&mut self) -> bool {
        self.sleepers += 1;
        self.watcher.as_mut().is_some_and(Watcher::arm)
    }

    fn disarm(&mut self) {
        self.sleepers = self.sleepers.saturating_sub(1);
        if self.sleepers == 0
            && let Some(watcher) = &self.watcher
        {
            watcher.disarm();
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let holder = crate::state::get().map(State::holder);
        if holder != Some(self.holder) {
            // The parent's, which still uses it.
            std::mem::forget(self.watcher.take());
        }
    }
}

fn note_membership(object: &Found, set_fd: c_int) {
    let mut sets = object
        .in_sets
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if !sets.contains(&set_fd) {
        sets.push(set_fd);
    }
}

/// The other end of a stream became known: the sets it is in follow its news from now on. They
/// find out when they are woken; here only streams that a call of another kind resolved.
pub(crate) fn other_end_known(state: &State, object: &Object) {
    let sets = object
        .in_sets
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for set_fd in sets {
        let Some(set) = object::find(set_fd).and_then(|found| found.set()) else {
            continue;
        };
        // Somebody inside the set finds out by himself.
        let Ok(mut inside) = set.inside.try_lock() else {
            continue;
        };
        if let Some(&fd) = inside.by_slot.get(object.slot() as usize)
            && let Some(found) = object::find(fd)
        {
            inside.watch_late(state, fd, &found);
            inside.queue(fd);
        }
    }
}

/// Where a kernel descriptor is registered.
#[derive(Debug, Default)]
pub(crate) struct Memberships(Vec<(c_int, epoll_event)>);

/// Takes the kernel descriptor `fd` out of all sets: it is about to become one of ours. The kernel
/// says whether it really is in them (a closed descriptor's number may have been used again).
pub(crate) fn withdraw(fd: c_int) -> Memberships {
    let mut all = Memberships::default();
    for set_fd in lock_sets().iter().copied() {
        let Some(set) = object::find(set_fd).and_then(|found| found.set()) else {
            continue;
        };
        let mut inside = set.lock();
        let Some(Entry {
            what: What::Kernel,
            events,
            data,
            ..
        }) = inside.entries.get(fd as usize)
        else {
            continue;
        };
        let event = epoll_event {
            events: *events,
            u64: *data,
        };
        let delete = libc::EPOLL_CTL_DEL;
        // SAFETY: no pointer is needed.
        let gone = unsafe { real::epoll_ctl(set_fd, delete, fd, std::ptr::null_mut()) };
        inside.entries.remove(fd as usize);
        if gone == 0 {
            all.0.push((set_fd, event));
        }
    }
    all
}

/// Puts `fd`, which stands for `object` now, into the sets it was in before.
pub(crate) fn restore(state: &State, fd: c_int, object: &Found, all: Memberships) {
    for (set_fd, event) in all.0 {
        if let Some(set) = object::find(set_fd).and_then(|found| found.set()) {
            let _ = set.lock().add(state, set_fd, fd, object, event);
        }
    }
}

/// The set with descriptor `fd` is gone.
pub(crate) fn set_closed(fd: c_int) {
    lock_sets().retain(|set| *set != fd);
}

/// Around a fork: nobody else is inside a set while this is held.
pub(crate) fn quiesce() -> Quiet {
    let numbers = lock_sets();
    let sets: Vec<Arc<Set>> = numbers
        .iter()
        .filter_map(|fd| object::find(*fd)?.set())
        .collect();
    let insides = sets
        .iter()
        .map(|set| {
            let guard = set.lock();
            // SAFETY: the set is kept alive beside its guard, which is dropped first.
            unsafe { std::mem::transmute::<MutexGuard<'_, Inside>, MutexGuard<'static, _>>(guard) }
        })
        .collect();
    Quiet {
        _insides: insides,
        _sets: sets,
        _numbers: numbers,
    }
}

/// See [`quiesce`]. Fields are dropped in this order.
pub(crate) struct Quiet {
    _insides: Vec<MutexGuard<'static, Inside>>,
    _sets: Vec<Arc<Set>>,
    _numbers: MutexGuard<'static, Vec<c_int>>,
}

static SETS: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// The descriptors of all sets.
pub(crate) fn lock_sets() -> MutexGuard<'static, Vec<c_int>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last descriptor of `object` is being closed: sets forget it, as the kernel's do.
pub(crate) fn closed(state: &State, object: &Found) {
    let sets = std::mem::take(
        &mut *object
            .in_sets
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    );
    for set_fd in sets {
        let Some(set) = object::find(set_fd).and_then(|found| found.set()) else {
            continue;
        };
        let mut inside = set.lock();
        let fds = inside
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_of(object));
        let fds: Vec<c_int> = fds.map(|(fd, _)| fd as c_int).collect();
        for fd in fds {
            match inside.holder == state.holder() {
                true => inside.remove(state, set_fd, fd).unwrap_or(()),
                // The parent's set: it goes on without this process.
                false => drop(inside.entries.remove(fd as usize)),
            }
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
    set.lock().make_own(state);
    loop {
        let mut found = set.lock().ready(state, events, false);
        let ask = found == 0 || set.waits.fetch_add(1, Relaxed).is_multiple_of(KERNEL_TURN);
        if ask && found < events.len() {
            found += ask_kernel(state, set_fd, set, &mut events[found..], (0, mask))?;
            if found == 0 {
                found = set.lock().ready(state, events, false);
            }
        }
        if found > 0 || timeout == Some(Duration::ZERO) {
            return Ok(found);
        }
        let left = match left_until(deadline, timeout) {
            Some(0) => return Ok(0),
            left => left,
        };
        let streams = set.lock().watcher.is_some();
        if streams && set.spin.until(|| set.lock().has_something()) {
            continue;
        }
        found = sleep(state, set_fd, set, events, (left.unwrap_or(-1), mask))?;
        if found > 0 {
            return Ok(found);
        }
    }
}

impl Inside {
    /// A set that came with a fork is followed by this process for itself from now on.
    fn make_own(&mut self, state: &State) {
        if self.holder == state.holder() {
            return;
        }
        // The parent's, which still uses it.
        std::mem::forget(self.watcher.take());
        self.holder = state.holder();
        let streams: Vec<c_int> = self.by_slot.iter().map(|(_, fd)| *fd).collect();
        self.by_slot = ByNumber::default();
        for fd in streams {
            if let Some(What::Stream(object)) = self.entries.get(fd as usize).map(|e| &e.what) {
                let object = object.clone();
                self.watch(state, fd, &object);
                self.queue(fd);
            }
        }
    }

    fn has_something(&self) -> bool {
        self.watcher.as_ref().is_some_and(Watcher::has_news)
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
    let news = set.lock().arm();
    let start = Instant::now();
    let timeout = if news { 0 } else { timeout };
    let found = ask_kernel(state, set_fd, set, events, (timeout, mask));
    if !news {
        set.spin.slept(start.elapsed());
    }
    set.lock().disarm();
    found
}

fn ask_kernel(
    state: &State,
    set_fd: c_int,
    set: &Set,
    events: &mut [epoll_event],
    (timeout, mask): (c_int, *const libc::sigset_t),
) -> Outcome<usize> {
    let mut told = [epoll_event { events: 0, u64: 0 }; AT_ONCE];
    let most = events.len().min(AT_ONCE) as c_int;
    // SAFETY: places of our own; the mask is the caller's.
    let n =
        errno::of(unsafe { real::epoll_pwait(set_fd, told.as_mut_ptr(), most, timeout, mask) })?;
    let told = told.get(..n as usize).unwrap_or(&[]);
    Ok(set.lock().take(state, told, events))
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
