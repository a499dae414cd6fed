//! Which epoll sets an object is in: a hint without a lock, since a lock of each object could not
//! be taken around a fork. A set that is named here and does not have the object has nothing to do.

use crate::object::{self, Kind};
use libc::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};

/// Sets that are noted one by one; an object in more of them is looked for in every set.
const NOTED: usize = 4;
/// No descriptor.
const NONE: c_int = -1;

/// See the module.
#[derive(Debug)]
pub(crate) struct Memberships {
    sets: [AtomicI32; NOTED],
    more: AtomicBool,
}

impl Memberships {
    pub(crate) const fn new() -> Memberships {
        Memberships {
            sets: [const { AtomicI32::new(NONE) }; NOTED],
            more: AtomicBool::new(false),
        }
    }

    /// The object is in the set with descriptor `set_fd`.
    pub(super) fn note(&self, set_fd: c_int) {
        let noted = self.sets.iter().any(|place| {
            let taken = place.compare_exchange(NONE, set_fd, AcqRel, Acquire);
            taken.is_ok() || taken == Err(set_fd)
        });
        if !noted {
            self.more.store(true, Release);
        }
    }

    /// The descriptors of all sets it may be in.
    pub(super) fn all(&self) -> impl Iterator<Item = c_int> + use<> {
        let sets = self.sets.each_ref().map(|place| place.load(Acquire));
        let more = self.more.load(Acquire).then(every_set);
        let others = more.into_iter().flatten();
        let others = others.filter(move |fd| !sets.contains(fd));
        sets.into_iter().filter(|fd| *fd != NONE).chain(others)
    }

    /// Whether it may be in several.
    pub(super) fn are_many(&self) -> bool {
        self.all().nth(1).is_some()
    }

    /// It is in none.
    pub(crate) fn clear(&self) {
        for place in &self.sets {
            place.store(NONE, Release);
        }
        self.more.store(false, Release);
    }
}

fn every_set() -> impl Iterator<Item = c_int> {
    let all = object::all();
    all.filter_map(|(fd, object)| (object.kind() == Kind::Epoll).then_some(fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_is_noted_once_and_clear_forgets_all() {
        let memberships = Memberships::new();
        for set in [7, 8, 7] {
            memberships.note(set);
        }
        assert_eq!(memberships.all().collect::<Vec<_>>(), [7, 8]);
        assert!(memberships.are_many());
        memberships.clear();
        assert_eq!(memberships.all().count(), 0);
    }

    #[test]
    fn beyond_the_noted_every_set_of_the_process_is_looked_at() {
        let memberships = Memberships::new();
        let last = object::TABLE as c_int - 1;
        object::put(last, &object::new(Kind::Epoll, u32::MAX));
        (1..=NOTED as c_int).for_each(|set| memberships.note(set));
        assert!(!memberships.all().any(|fd| fd == last));
        memberships.note(last);
        assert!(memberships.all().any(|fd| fd == last));
        object::take(last);
    }
}
