//! Listeners in the epoll sets of several processes: each connection is to be taken by another one.

use super::sets::inside_its_sets;
use super::{EDGE, EXCLUSIVE, Inside, MARK, ONCE, kernel_control};
use crate::object::Found;
use crate::state::State;
use gannet_local::{Patience, Turns};
use libc::c_int;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// This process waits for connections, with a set.
pub(super) fn come(state: &State, listener: &Found) {
    Turns::at(state.arena(), listener.slot()).come(state.holder());
}

/// Whether the connection that a set of this process has found is left to another process, for the
/// moment. `events`: how the listener is in the set; what is told only once is not kept back.
pub(super) fn leaves(
    state: &State,
    listener: &Found,
    events: u32,
    patience: &mut Patience,
) -> bool {
    let turns = Turns::at(state.arena(), listener.slot());
    turns.come(state.holder());
    if events & (EDGE | ONCE) != 0 || !turns.has_others(state.holder()) {
        return false;
    }
    let now = now();
    turns.leaves(state.holder(), now) && patience.lasts(now)
}

/// This process took a connection, of the listener under `fd`: others are to be woken for the next.
pub(crate) fn taken(state: &State, listener: &Found, fd: c_int) {
    let turns = Turns::at(state.arena(), listener.slot());
    turns.come(state.holder());
    // Whoever is alone, as most are, pays for nothing more.
    if turns.has_others(state.holder()) {
        turns.taken(state.holder(), now());
        inside_its_sets(listener, |inside, set_fd| {
            inside.queue_up(set_fd, fd, listener);
        });
    }
}

impl Inside {
    /// The kernel wakes the first of those who wait for themselves alone (`EPOLLEXCLUSIVE`), in the
    /// order in which they came: who has been served goes to the end.
    fn queue_up(&mut self, set_fd: c_int, fd: c_int, listener: &Found) {
        let entry = self.entries.get(fd as usize);
        let Some(entry) = entry.filter(|entry| entry.is_of(listener)) else {
            return;
        };
        if entry.events & EXCLUSIVE == 0 {
            return;
        }
        let (events, data) = (entry.events, MARK | fd as u64);
        for hidden in listener.hidden() {
            if kernel_control((set_fd, libc::EPOLL_CTL_DEL), hidden, events, data).is_ok() {
                self.absent.push((hidden, events, data));
            }
        }
        self.put_back(set_fd);
    }

    /// Puts those into the kernel's set again that were taken out to be the last. Where it has no
    /// room for them now, that is tried at each wait, and none is long.
    pub(super) fn put_back(&mut self, set_fd: c_int) {
        self.absent.retain(|&(hidden, events, data)| {
            let outcome = kernel_control((set_fd, libc::EPOLL_CTL_ADD), hidden, events, data);
            matches!(outcome, Err(libc::ENOSPC | libc::ENOMEM))
        });
        self.deaf |= !self.absent.is_empty();
    }
}

fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}
