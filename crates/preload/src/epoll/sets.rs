//! All sets of this process: which of them an object is in.

use super::{Entry, Locked, Set, What};
use crate::object::{self, Found, Object};
use crate::real;
use crate::state::State;
use libc::{c_int, epoll_event};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Does something inside each set of this process that `object` is in.
pub(super) fn inside_its_sets(object: &Object, mut work: impl FnMut(&mut Locked<'_>, c_int)) {
    for set_fd in object.in_sets.all() {
        let set = object::find(set_fd).and_then(|found| found.set());
        if let Some(set) = set
            && let Some(mut inside) = set.lock_in_call()
        {
            work(&mut inside, set_fd);
        }
    }
}

/// The other end of a stream became known: the sets it is in follow its news from now on. Who
/// sleeps on one of them has to know, since nothing wakes him for a stream he did not follow.
pub(crate) fn other_end_known(state: &State, object: &Object) {
    inside_its_sets(object, |inside, set_fd| {
        if let Some(&fd) = inside.by_slot.get(object.slot() as usize)
            && let Some(found) = object::find(fd)
        {
            inside.watch_late(state, fd, &found);
            inside.queue(fd);
            inside.rouse(set_fd, fd);
        }
    });
}

/// The sets of this process that `object` is in look at it again, those that sleep too: something
/// became of it that no wake-up tells. With `deaf` none ever will.
pub(crate) fn look_again(object: &Object, deaf: bool) {
    inside_its_sets(object, |inside, set_fd| {
        inside.deaf |= deaf;
        if let Some(&fd) = inside.by_slot.get(object.slot() as usize) {
            inside.queue(fd);
            inside.rouse(set_fd, fd);
        }
    });
}

/// Where a kernel descriptor is registered.
#[derive(Debug, Default)]
pub(crate) struct Registered(Vec<(c_int, epoll_event)>);

/// Takes the kernel descriptor `fd` out of all sets: it is about to become one of ours. The kernel
/// says whether it really is in them (a closed descriptor's number may have been used again).
pub(crate) fn withdraw(fd: c_int) -> Registered {
    let mut all = Registered::default();
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
pub(crate) fn restore(state: &State, fd: c_int, object: &Found, all: Registered) {
    for (set_fd, event) in all.0 {
        if let Some(set) = object::find(set_fd).and_then(|found| found.set()) {
            let _ = set.lock().add(state, set_fd, fd, object, event);
        }
    }
}

/// Where the descriptors of an object are registered: set, descriptor, event.
pub(crate) fn registrations(object: &Found) -> Vec<(c_int, c_int, epoll_event)> {
    let mut all = Vec::new();
    for set_fd in object.in_sets.all() {
        let Some(set) = object::find(set_fd).and_then(|found| found.set()) else {
            continue;
        };
        for (fd, entry) in set.lock().entries.iter() {
            if entry.is_of(object) {
                let (events, u64) = (entry.events, entry.data);
                all.push((set_fd, fd as c_int, epoll_event { events, u64 }));
            }
        }
    }
    all
}

/// The descriptors are the kernel's now.
pub(crate) fn register_at_kernel(all: Vec<(c_int, c_int, epoll_event)>) {
    for (set_fd, fd, event) in all {
        let Some(set) = object::find(set_fd).and_then(|found| found.set()) else {
            continue;
        };
        let (events, data) = (event.events, event.u64);
        if super::kernel_control((set_fd, libc::EPOLL_CTL_ADD), fd, events, data).is_ok() {
            set.lock().note_kernel(fd, Some(event));
        }
    }
}

/// The set with descriptor `fd` is gone.
pub(crate) fn set_closed(fd: c_int) {
    lock_sets().retain(|set| *set != fd);
}

/// Around a fork: no other thread is inside a set while this is held.
pub(crate) fn quiesce() -> Quiet {
    let numbers = lock_sets();
    let mut sets: Vec<Arc<Set>> = Vec::with_capacity(numbers.len());
    for set in numbers.iter().filter_map(|fd| object::find(*fd)?.set()) {
        // (A set has several numbers after `dup`.)
        if !sets.iter().any(|other| Arc::ptr_eq(other, &set)) {
            sets.push(set);
        }
    }
    let insides = lock_all(&sets);
    // SAFETY: the sets are kept alive beside their guards, which are dropped first.
    let insides = unsafe { std::mem::transmute::<Vec<Locked<'_>>, Vec<Locked<'static>>>(insides) };
    Quiet {
        _insides: insides,
        _sets: sets,
        _numbers: numbers,
    }
}

/// Locks all of them. Another thread may be inside an outer set and wait for one in it, in an order
/// that cannot be known from here: so this thread waits for one set only while it has none.
fn lock_all(sets: &[Arc<Set>]) -> Vec<Locked<'_>> {
    let mut awaited = 0;
    loop {
        let Some(first) = sets.get(awaited) else {
            return Vec::new();
        };
        let mut locked = Vec::with_capacity(sets.len());
        locked.push(first.lock());
        let mut others = (0..sets.len()).filter(|n| *n != awaited);
        let busy = others.find(|&n| match sets.get(n).and_then(|set| set.try_lock()) {
            Some(inside) => {
                locked.push(inside);
                false
            }
            None => true,
        });
        match busy {
            None => return locked,
            Some(busy) => awaited = busy,
        }
    }
}

/// See [`quiesce`]. Fields are dropped in this order.
pub(crate) struct Quiet {
    _insides: Vec<Locked<'static>>,
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
    let sets = object.in_sets.all();
    object.in_sets.clear();
    for set_fd in sets {
        let Some(set) = object::find(set_fd).and_then(|found| found.set()) else {
            continue;
        };
        let mut inside = set.lock();
        let own = inside.holder == state.holder();
        inside.forget_dormant(set_fd, object, own);
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
