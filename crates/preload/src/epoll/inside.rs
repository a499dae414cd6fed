//! The entries of a set: what is in it, what may be ready, what is.

use super::{
    Bell, EDGE, ERR, Entry, HUP, Inside, MARK, MARK_MASK, ONCE, OUT, RDHUP, What, is_direct,
    kernel_control, ready_events, turns,
};
use crate::by_number::ByNumber;
use crate::errno::Outcome;
use crate::object::{self, Found, Kind, Object};
use crate::open::{HIGH, hide, high_up};
use crate::real;
use crate::state::State;
use crate::wait;
use gannet_local::{Watcher, bell};
use libc::{c_int, epoll_event};
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

/// What wake-ups look like at the socket behind a stream.
const WAKES: u32 = libc::EPOLLIN as u32 | RDHUP | EDGE;

/// What the kernel is asked about the socket behind datagrams of ours.
fn at_kernel(events: u32) -> u32 {
    events & OUT | libc::EPOLLIN as u32 | libc::EPOLLPRI as u32 | RDHUP | EDGE
}

/// What came of what the kernel told.
#[derive(Default)]
pub(super) struct Sorted {
    /// Events that are the program's own.
    pub(super) found: usize,
    /// Those of ours that other sets slept for too.
    pub(super) shared: Vec<Found>,
    /// A connection is left to another process.
    pub(super) left: bool,
}

impl Inside {
    pub(super) fn note_kernel(&mut self, fd: c_int, event: Option<epoll_event>) {
        self.others = true;
        match event {
            None => {
                self.entries.remove(fd as usize);
            }
            Some(event) => {
                let entry = Entry {
                    events: event.events,
                    data: event.u64,
                    what: What::Kernel,
                    queued: 0,
                    disabled: false,
                    told: 0,
                };
                self.entries.insert(fd as usize, entry);
            }
        }
    }

    pub(super) fn add(
        &mut self,
        state: &State,
        set_fd: c_int,
        fd: c_int,
        object: &Found,
        event: epoll_event,
    ) -> Outcome<()> {
        let add = |number, events, data| {
            kernel_control((set_fd, libc::EPOLL_CTL_ADD), number, events, data)
        };
        let mark = MARK | fd as u64;
        self.others |= object.kind() != Kind::Stream;
        let what = match object.kind() {
            Kind::Listener => {
                // The kernel's side as the program wants it, the others under our number.
                if !crate::poll::is_hung_up(fd) {
                    add(fd, event.events, event.u64)?;
                }
                for hidden in object.hidden() {
                    add(hidden, event.events, mark)?;
                }
                turns::come(state, object);
                What::Listener(object.clone())
            }
            Kind::Epoll => {
                add(fd, libc::EPOLLIN as u32, mark)?;
                self.nested.push(fd);
                What::Nested(object.clone())
            }
            Kind::Datagrams => {
                for hidden in object.hidden() {
                    add(hidden, libc::EPOLLIN as u32 | RDHUP | EDGE, mark)?;
                }
                // Both sides under our number: what is ready of either is told as one event.
                add(fd, at_kernel(event.events), mark)?;
                What::Stream(object.clone())
            }
            _ => {
                let before = self.dormant.remove(fd as usize);
                if !before.is_some_and(|before| before.is(object)) {
                    add(fd, WAKES, mark)?;
                }
                What::Stream(object.clone())
            }
        };
        let entry = Entry {
            events: event.events,
            data: event.u64,
            what,
            queued: 0,
            disabled: false,
            told: 0,
        };
        self.entries.insert(fd as usize, entry);
        self.watch(state, fd, object);
        self.queue(fd);
        object.in_sets.note(set_fd);
        Ok(())
    }

    /// Follows the news of a stream, if its other end is known.
    pub(super) fn watch(&mut self, state: &State, fd: c_int, object: &Found) {
        if !matches!(object.kind(), Kind::Stream | Kind::Datagrams) {
            return;
        }
        let slot = object.slot();
        match self.by_slot.insert(slot as usize, fd) {
            Some(before) if before == fd => return,
            Some(_) => {}
            None => self.direct += usize::from(is_direct(state, object)),
        }
        if let Some(theirs) = object.theirs_shared() {
            let own = state.shared_arena().clone();
            self.watcher
                .get_or_insert_with(|| Watcher::new(own, state.holder()))
                .add(slot, &theirs);
        }
    }

    pub(super) fn modify(
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
        entry.told = 0;
        if let What::Listener(object) = &entry.what {
            let modify = libc::EPOLL_CTL_MOD;
            match kernel_control((set_fd, modify), fd, event.events, event.u64) {
                // It listens at our side only.
                Err(libc::ENOENT) => {}
                other => drop(other?),
            }
            for hidden in object.hidden() {
                kernel_control((set_fd, modify), hidden, event.events, MARK | fd as u64)?;
            }
        }
        if let What::Stream(object) = &entry.what
            && object.kind() == Kind::Datagrams
        {
            let events = at_kernel(event.events);
            kernel_control((set_fd, libc::EPOLL_CTL_MOD), fd, events, MARK | fd as u64)?;
        }
        self.queue(fd);
        Ok(())
    }

    /// The program takes a descriptor out. One of a stream stays in the kernel's set: programs take
    /// theirs out and put them in again for each message, and what it may tell there is news to
    /// nobody else.
    pub(super) fn take_out(&mut self, state: &State, set_fd: c_int, fd: c_int) -> Option<()> {
        let entry = self.entries.get(fd as usize)?;
        let object = match &entry.what {
            What::Stream(object) if object.kind() == Kind::Stream => object.clone(),
            _ => return self.remove(state, set_fd, fd),
        };
        self.entries.remove(fd as usize);
        self.forget(state, &object);
        self.dormant.insert(fd as usize, object);
        Some(())
    }

    /// The stream is closed. `own`: the set is this process's, not that of the one it was forked
    /// from.
    pub(super) fn forget_dormant(&mut self, set_fd: c_int, object: &Found, own: bool) {
        let dormant = self.dormant.iter().filter(|(_, other)| other.is(object));
        let fds: Vec<usize> = dormant.map(|(fd, _)| fd).collect();
        for fd in fds {
            self.dormant.remove(fd);
            if own {
                let (delete, none) = (libc::EPOLL_CTL_DEL, std::ptr::null_mut());
                // SAFETY: no pointer is needed.
                unsafe { real::epoll_ctl(set_fd, delete, fd as c_int, none) };
            }
        }
    }

    pub(super) fn remove(&mut self, state: &State, set_fd: c_int, fd: c_int) -> Option<()> {
        let entry = self.entries.remove(fd as usize)?;
        self.nested.retain(|nested| *nested != fd);
        self.absent.retain(|(.., data)| *data != MARK | fd as u64);
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

    pub(super) fn forget(&mut self, state: &State, object: &Found) {
        if self.by_slot.remove(object.slot() as usize).is_none() {
            return;
        }
        self.direct -= usize::from(is_direct(state, object)).min(self.direct);
        if let (Some(watcher), Some(theirs)) = (&mut self.watcher, object.theirs()) {
            watcher.remove(object.slot(), theirs.host());
        } else {
            state.arena().own(object.slot()).set_watch(0);
        }
    }

    pub(super) fn queue(&mut self, fd: c_int) {
        if let Some(entry) = self.entries.get_mut(fd as usize)
            && entry.queued == 0
            && !matches!(entry.what, What::Kernel | What::Listener(_))
        {
            self.tickets += 1;
            entry.queued = self.tickets;
            self.candidates.push_back((fd, self.tickets));
        }
    }

    /// Makes candidates of what has news.
    pub(super) fn collect(&mut self) {
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
    pub(super) fn ready(
        &mut self,
        state: &State,
        events: &mut [epoll_event],
        only_look: bool,
    ) -> usize {
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
            let Some((fd, ticket)) = self.candidates.pop_front() else {
                break;
            };
            self.resolve(state, fd);
            let Some(entry) = self.entries.get_mut(fd as usize) else {
                continue;
            };
            if entry.queued != ticket {
                continue;
            }
            let (What::Stream(object) | What::Nested(object)) = &entry.what else {
                entry.queued = 0;
                continue;
            };
            let wanted = entry.events | HUP | ERR;
            let ready = ready_events(state, object, fd, wanted) & wanted;
            if entry.disabled || ready == 0 || entry.told == ready {
                entry.queued = 0;
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
                self.candidates.push_back((fd, ticket));
                continue;
            }
            if entry.events & ONCE != 0 {
                entry.disabled = true;
            }
            if entry.events & EDGE != 0 && is_hung_up(state, object) {
                entry.told = ready;
            }
            if entry.events & (ONCE | EDGE) != 0 {
                entry.queued = 0;
            } else {
                self.candidates.push_back((fd, ticket));
            }
        }
        found
    }

    /// Sorts what the kernel told, the first `told` of `events`: the program's own stay there, ours
    /// become candidates.
    pub(super) fn take(
        &mut self,
        (state, set_fd): (&State, c_int),
        told: usize,
        events: &mut [epoll_event],
    ) -> Sorted {
        let mut sorted = Sorted::default();
        for at in 0..told {
            let Some(&(mut event)) = events.get(at) else {
                break;
            };
            let number = event.u64;
            if number & MARK_MASK == MARK {
                let fd = (number & !MARK_MASK) as c_int;
                if self.bell == Bell::At(fd) {
                    // SAFETY: our own, open as long as the set is.
                    bell::silence(unsafe { BorrowedFd::borrow_raw(fd) });
                    continue;
                }
                let entry = self.entries.get(fd as usize);
                match entry.map(|entry| (&entry.what, entry.events, entry.data)) {
                    Some((What::Listener(listener), wanted, data)) => {
                        if turns::leaves(state, listener, wanted, &mut self.patience) {
                            sorted.left = true;
                            continue;
                        }
                        event.u64 = data;
                    }
                    Some((What::Stream(object), ..)) => {
                        let object = object.clone();
                        if event.events & OUT != 0 {
                            self.listen_to(set_fd, fd, WAKES);
                        }
                        let at = object.hidden().next().unwrap_or(fd);
                        wait::hear_answer(state, &object, at);
                        wait::take_wakes_alone(state, &object, at);
                        hear_hang_up(state, &object, (at, event.events));
                        look_again(state, (set_fd, fd), (&object, at));
                        self.watch_late(state, fd, &object);
                        self.queue(fd);
                        if event.events & libc::EPOLLIN as u32 != 0 && is_shared(&object) {
                            sorted.shared.push(object);
                        }
                        continue;
                    }
                    None => {
                        // Nobody's business in this set; but it will not be told again.
                        if let Some(object) = self.dormant.get(fd as usize).cloned() {
                            wait::hear_answer(state, &object, fd);
                            wait::take_wakes_alone(state, &object, fd);
                            hear_hang_up(state, &object, (fd, event.events));
                            look_again(state, (set_fd, fd), (&object, fd));
                            if is_shared(&object) {
                                sorted.shared.push(object);
                            }
                        }
                        continue;
                    }
                    _ => continue,
                }
            }
            if let Some(place) = events.get_mut(sorted.found) {
                *place = event;
                sorted.found += 1;
            }
        }
        sorted
    }

    /// A caller has taken wake-ups of ours from the kernel. They were meant for others, perhaps,
    /// who sleep on, and who woke them believes that they are awake: theirs is another sleep from
    /// now on, and what there is to tell is told to this caller. (Go's scheduler asks a set in
    /// which another thread sleeps, after each stop for the collector.)
    pub(super) fn in_place_of_sleepers(
        &mut self,
        (state, set_fd): (&State, c_int),
        events: &mut [epoll_event],
    ) -> usize {
        if self.sleepers == 0 {
            return 0;
        }
        if let Some(watcher) = &self.watcher {
            watcher.sleep_anew();
        }
        let found = self.ready(state, events, false);
        self.pass_on(set_fd, found == events.len());
        found
    }

    /// More is ready than the caller has room for: a sleeper is to have it.
    pub(super) fn pass_on(&mut self, set_fd: c_int, full: bool) {
        if let Some(&(fd, _)) = self.candidates.front()
            && full
        {
            self.rouse(set_fd, fd);
        }
    }

    /// Something was put into the set while others sleep on it, and may be ready: the kernel's
    /// socket behind it always is for writing, which ends one sleep.
    pub(super) fn rouse(&mut self, set_fd: c_int, fd: c_int) {
        if self.sleepers > 0 {
            self.listen_to(set_fd, fd, WAKES | OUT);
        }
    }

    /// What the kernel tells of the socket behind a stream.
    fn listen_to(&self, set_fd: c_int, fd: c_int, events: u32) {
        let what = self.entries.get(fd as usize).map(|entry| &entry.what);
        if let Some(What::Stream(object)) = what
            && object.kind() == Kind::Stream
        {
            let mark = MARK | fd as u64;
            let _ = kernel_control((set_fd, libc::EPOLL_CTL_MOD), fd, events, mark);
        }
    }

    /// Looks for the other end of a stream that was opened without waiting.
    pub(super) fn resolve(&mut self, state: &State, fd: c_int) {
        let object = match self.entries.get(fd as usize).map(|entry| &entry.what) {
            Some(What::Stream(object)) => object.clone(),
            _ => return,
        };
        if object.theirs().is_none() {
            let at = match object.kind() {
                Kind::Stream => Some(fd),
                Kind::Datagrams => object.hidden().next(),
                _ => None,
            };
            if let Some(at) = at {
                wait::hear_answer(state, &object, at);
            }
        }
        self.watch_late(state, fd, &object);
    }

    /// A stream whose other end became known only now has to be followed.
    pub(super) fn watch_late(&mut self, state: &State, fd: c_int, object: &Found) {
        if object.theirs().is_some() && state.arena().own(object.slot()).watch() == 0 {
            if self.by_slot.remove(object.slot() as usize).is_some() {
                self.direct -= usize::from(is_direct(state, object)).min(self.direct);
            }
            self.watch(state, fd, object);
        }
    }

    /// About to sleep. True when it would be wrong to.
    pub(super) fn arm(&mut self, set_fd: c_int) -> bool {
        self.sleepers += 1;
        if !self.absent.is_empty() {
            self.put_back(set_fd);
        }
        if self.bell == Bell::Untried && self.watcher.is_some() {
            self.bell = self.hang_bell(set_fd).map_or(Bell::None, Bell::At);
        }
        let news = self.watcher.as_mut().is_some_and(Watcher::arm);
        // Whoever saw nobody sleep has only left a candidate.
        news || !self.candidates.is_empty()
    }

    /// What wakes those who sleep on this set when any of its streams has news.
    fn hang_bell(&self, set_fd: c_int) -> Option<c_int> {
        let watcher = self.watcher.as_ref()?;
        let object = object::find(set_fd)?;
        // Of the process that this one was forked from.
        for bell in object.unhide() {
            object::take(bell);
            // SAFETY: hidden descriptors are ours.
            unsafe { real::close(bell) };
        }
        if bell::current_ringer().is_none() {
            let ringer = out_of_the_way(bell::ringer().ok()?)?.into_raw_fd();
            object::put(ringer, &object::new(Kind::Hidden, u32::MAX));
            bell::set_ringer(ringer);
        }
        let bell = out_of_the_way(watcher.make_bell()?)?.into_raw_fd();
        hide(&object, bell);
        let mark = MARK | bell as u64;
        let added = kernel_control(
            (set_fd, libc::EPOLL_CTL_ADD),
            bell,
            libc::EPOLLIN as u32,
            mark,
        );
        added.ok()?;
        watcher.hang_bell();
        Some(bell)
    }

    pub(super) fn disarm(&mut self) {
        self.sleepers = self.sleepers.saturating_sub(1);
        match (&self.watcher, self.sleepers) {
            (Some(watcher), 0) => watcher.disarm(),
            (Some(watcher), _) => watcher.sleep_anew(),
            (None, _) => {}
        }
    }
}

/// The answer to an opening that could not be followed yet stays in the socket `at`: the set is to
/// tell of it once more.
fn look_again(state: &State, (set_fd, fd): (c_int, c_int), (object, at): (&Object, c_int)) {
    if wait::is_half_open(state, object, at) {
        let (modify, mark) = (libc::EPOLL_CTL_MOD, MARK | fd as u64);
        let _ = kernel_control((set_fd, modify), at, WAKES, mark);
    }
}

/// The kernel tells a hang-up once, to a set perhaps while another thread takes the wake-ups out of
/// the socket, and may have stopped short of it. (While the answer to an opening is not read the
/// reader of that answer looks for a hang-up.)
fn hear_hang_up(state: &State, object: &Found, (at, events): (c_int, u32)) {
    let flags = state.arena().own(object.slot()).flags();
    let resolved = flags & gannet_local::slot::flags::RESOLVED != 0;
    if events & HUP != 0 && resolved && object.kind() == Kind::Stream {
        wait::hung_up(state, object, at);
    }
}

/// High up, or not at all: a program that may have few descriptors needs them itself.
fn out_of_the_way(fd: OwnedFd) -> Option<OwnedFd> {
    let high = high_up(fd);
    (high.as_raw_fd() >= HIGH && object::fits(high.as_raw_fd())).then_some(high)
}

/// Whether it is in several sets.
fn is_shared(object: &Found) -> bool {
    object.in_sets.are_many()
}

/// Whether nobody is at the other end of a stream any more.
fn is_hung_up(state: &State, object: &Found) -> bool {
    let gone = gannet_local::slot::flags::HUNG_UP;
    object.kind() == Kind::Stream && state.arena().own(object.slot()).flags() & gone != 0
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

impl Inside {
    /// A set that came with a fork is followed by this process for itself from now on.
    pub(super) fn make_own(&mut self, state: &State) {
        if self.holder == state.holder() {
            return;
        }
        // The parent's, which still uses it.
        std::mem::forget(self.watcher.take());
        self.bell = Bell::Untried;
        self.sleepers = 0;
        self.holder = state.holder();
        let streams: Vec<c_int> = self.by_slot.iter().map(|(_, fd)| *fd).collect();
        self.by_slot = ByNumber::default();
        self.direct = 0;
        for fd in streams {
            if let Some(What::Stream(object)) = self.entries.get(fd as usize).map(|e| &e.what) {
                let object = object.clone();
                self.watch(state, fd, &object);
                self.queue(fd);
            }
        }
    }

    pub(super) fn has_something(&self) -> bool {
        self.watcher.as_ref().is_some_and(Watcher::has_news)
    }
}
