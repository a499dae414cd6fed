//! All sets of this process: which of them an object is in.

use super::{Entry, Locked, Set, What};
use crate::object::{self, Found, Object};
use crate::real;
use crate::state::State;
use libc::{c_int, epoll_event};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) fn note_membership(object: &Found, set_fd: c_int) {
    let mut sets = object
        .in_sets
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if !sets.contains(&set_fd) {
        sets.push(set_fd);
    }
}

/// Does something inside each set of this process that `object` is in.
pub(super) fn inside_its_sets(object: &Object, mut work: impl FnMut(&mut Locked<'_>, c_int)) {
    let sets = object
        .in_sets
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for set_fd in sets {
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

/// Where the descriptors of an object are registered: set, descriptor, event.
pub(crate) fn registrations(object: &Found) -> Vec<(c_int, c_int, epoll_event)> {
    let sets = object
        .in_sets
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let mut all = Vec::new();
    for set_fd in sets {
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
            unsafe { std::mem::transmute::<Locked<'_>, Locked<'static>>(guard) }
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
