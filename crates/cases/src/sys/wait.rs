//! `poll`, `select`, `epoll` and their families.

use super::Ret;
use crate::far::{self, Ask};
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use std::ptr::{null, null_mut};

/// Milliseconds as `struct timespec`.
pub(super) fn timespec_of(ms: i64) -> timespec {
    timespec {
        tv_sec: ms.div_euclid(1000),
        tv_nsec: ms.rem_euclid(1000) * 1_000_000,
    }
}

/// Milliseconds as `struct timeval`.
pub(super) fn timeval_of(ms: i64) -> timeval {
    timeval {
        tv_sec: ms.div_euclid(1000),
        tv_usec: ms.rem_euclid(1000) * 1000,
    }
}

fn pollfds(fds: &[(i32, i16)]) -> Vec<pollfd> {
    let entry = |&(fd, events): &(i32, i16)| pollfd {
        fd,
        events,
        revents: 0,
    };
    fds.iter().map(entry).collect()
}

/// `poll`: the result and each `revents`.
pub(crate) fn poll(fds: &[(i32, i16)], timeout_ms: i32) -> (Ret, Vec<i16>) {
    if let Some(theirs) = far::all(fds) {
        let answer = far::ask(&Ask::Poll(theirs, timeout_ms));
        let revents = answer.numbers.iter().map(|bits| *bits as i16);
        return (answer.ret(), revents.collect());
    }
    let mut entries = pollfds(fds);
    let ret = call!(poll(
        entries.as_mut_ptr(),
        entries.len() as nfds_t,
        timeout_ms
    ));
    (ret, entries.iter().map(|entry| entry.revents).collect())
}

/// `ppoll` with a set of signals that are blocked meanwhile.
pub(crate) fn ppoll(
    fds: &[(i32, i16)],
    timeout_ms: Option<i64>,
    blocked: Option<&[i32]>,
) -> (Ret, Vec<i16>) {
    let mut entries = pollfds(fds);
    let time = timeout_ms.map(timespec_of);
    let time = time.as_ref().map_or(null(), std::ptr::from_ref);
    let mask = blocked.map(signal_set);
    let mask = mask.as_ref().map_or(null(), std::ptr::from_ref);
    let count = entries.len() as nfds_t;
    let ret = call!(ppoll(entries.as_mut_ptr(), count, time, mask));
    (ret, entries.iter().map(|entry| entry.revents).collect())
}

/// A set of signals.
pub(super) fn signal_set(signals: &[i32]) -> sigset_t {
    // SAFETY: `sigset_t` is an array of numbers, for which zero is a value.
    let mut set: sigset_t = unsafe { std::mem::zeroed() };
    call!(sigemptyset(&mut set));
    for &signal in signals {
        call!(sigaddset(&mut set, signal));
    }
    set
}

/// The three sets of `select`.
#[derive(Clone, Default)]
pub(crate) struct Sets {
    pub(crate) read: Vec<i32>,
    pub(crate) write: Vec<i32>,
    pub(crate) except: Vec<i32>,
}

impl Sets {
    pub(crate) fn read(fds: &[i32]) -> Self {
        Self {
            read: fds.to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn write(fds: &[i32]) -> Self {
        Self {
            write: fds.to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn except(fds: &[i32]) -> Self {
        Self {
            except: fds.to_vec(),
            ..Self::default()
        }
    }

    fn highest(&self) -> i32 {
        let all = self.read.iter().chain(&self.write).chain(&self.except);
        all.copied().max().unwrap_or(-1)
    }

    fn as_sets(&self) -> [fd_set; 3] {
        [&self.read, &self.write, &self.except].map(|fds| {
            fds.iter().copied().for_each(far::here);
            // SAFETY: `fd_set` is an array of numbers, for which zero is a value.
            let mut set: fd_set = unsafe { std::mem::zeroed() };
            for &fd in fds.iter().filter(|fd| (0..1024).contains(*fd)) {
                // SAFETY: the descriptor is below `FD_SETSIZE`.
                unsafe { libc::FD_SET(fd, &mut set) };
            }
            set
        })
    }

    /// Those of them that are still in the sets.
    fn left_in(&self, sets: &[fd_set; 3]) -> Self {
        let keep = |fds: &[i32], set: &fd_set| -> Vec<i32> {
            // SAFETY: only descriptors below `FD_SETSIZE` are asked for.
            let is_set = |fd: i32| (0..1024).contains(&fd) && unsafe { libc::FD_ISSET(fd, set) };
            fds.iter().copied().filter(|&fd| is_set(fd)).collect()
        };
        Self {
            read: keep(&self.read, &sets[0]),
            write: keep(&self.write, &sets[1]),
            except: keep(&self.except, &sets[2]),
        }
    }
}

/// `select`: the result and what is left in the sets.
pub(crate) fn select(sets: &Sets, timeout_ms: Option<i64>) -> (Ret, Sets) {
    select_of(sets.highest() + 1, sets, timeout_ms)
}

/// `select` with a number of descriptors of one's own.
pub(crate) fn select_of(count: i32, sets: &Sets, timeout_ms: Option<i64>) -> (Ret, Sets) {
    let mut three = sets.as_sets();
    let [read, write, except] = &mut three;
    let mut time = timeout_ms.map(timeval_of);
    let time = time.as_mut().map_or(null_mut(), std::ptr::from_mut);
    let ret = call!(select(count, read, write, except, time));
    (ret, sets.left_in(&three))
}

/// `pselect` with a set of signals that are blocked meanwhile.
pub(crate) fn pselect(sets: &Sets, timeout_ms: i64, blocked: Option<&[i32]>) -> (Ret, Sets) {
    let mut three = sets.as_sets();
    let [read, write, except] = &mut three;
    let time = timespec_of(timeout_ms);
    let mask = blocked.map(signal_set);
    let mask = mask.as_ref().map_or(null(), std::ptr::from_ref);
    let count = sets.highest() + 1;
    let ret = call!(pselect(count, read, write, except, &time, mask));
    (ret, sets.left_in(&three))
}

pub(crate) fn epoll_create(size: i32) -> Ret {
    call!(epoll_create(size))
}

pub(crate) fn epoll_create1(flags: i32) -> Ret {
    call!(epoll_create1(flags))
}

/// `epoll_ctl` with events and data.
pub(crate) fn epoll_ctl(epoll: i32, operation: i32, fd: i32, events: i32, data: u64) -> Ret {
    far::all(&[(epoll, 0), (fd, 0)]);
    let mut event = epoll_event {
        events: events.cast_unsigned(),
        u64: data,
    };
    call!(epoll_ctl(epoll, operation, fd, &mut event))
}

/// `epoll_ctl` without an event.
pub(crate) fn epoll_ctl_null(epoll: i32, operation: i32, fd: i32) -> Ret {
    far::here(epoll);
    far::here(fd);
    call!(epoll_ctl(epoll, operation, fd, null_mut()))
}

/// `epoll_wait` for at most `most` events: the result, and data and events in order of data.
pub(crate) fn epoll_wait(epoll: i32, most: i32, timeout_ms: i32) -> (Ret, Vec<(u64, u32)>) {
    far::here(epoll);
    events_in(most, |room, count| {
        call!(epoll_wait(epoll, room, count, timeout_ms))
    })
}

/// `epoll_pwait` with a set of signals that are blocked meanwhile.
pub(crate) fn epoll_pwait(epoll: i32, timeout_ms: i32, blocked: &[i32]) -> (Ret, Vec<(u64, u32)>) {
    far::here(epoll);
    let mask = signal_set(blocked);
    events_in(8, |room, count| {
        call!(epoll_pwait(epoll, room, count, timeout_ms, &mask))
    })
}

fn events_in(most: i32, wait: impl Fn(*mut epoll_event, i32) -> Ret) -> (Ret, Vec<(u64, u32)>) {
    let places = usize::try_from(most).unwrap_or(0).clamp(1, 512);
    let mut events = vec![epoll_event { events: 0, u64: 0 }; places];
    // The call is told no more than there is room for.
    let ret = wait(events.as_mut_ptr(), most.min(512));
    let mut came: Vec<(u64, u32)> = events
        .iter()
        .take(ret.count())
        .map(|event| (event.u64, event.events))
        .collect();
    came.sort_unstable();
    (ret, came)
}
