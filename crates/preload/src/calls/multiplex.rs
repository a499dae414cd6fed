//! `poll`, `select`, `epoll`.

use crate::border::{self, by_name, wait, wait_by_name};
use crate::errno::{Outcome, give};
use crate::object::{self, Kind};
use crate::place;
use crate::poll::deadline_of;
use crate::real::{self, tail};
use crate::{epoll, poll as polling, state};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use std::sync::Arc;
use std::time::Duration;

/// The caller's entries.
///
/// # Safety
/// No other thread uses the entries meanwhile.
unsafe fn entries<'a>(fds: *mut pollfd, n: nfds_t) -> Option<&'a mut [pollfd]> {
    if n > 1 << 20 || !place::can_write(fds, n as usize) {
        return None;
    }
    // SAFETY: they are there, and the caller's.
    Some(unsafe { std::slice::from_raw_parts_mut(fds, n as usize) })
}

#[unsafe(export_name = "poll")]
unsafe extern "C-unwind" fn poll_(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
    let mut is_ours = false;
    let ours = wait(|| {
        let state = state::get()?;
        // SAFETY: as the caller says.
        let entries = unsafe { entries(fds, n) }.filter(|all| polling::concerns_us(all))?;
        is_ours = true;
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let deadline = deadline_of(timeout);
        Some(polling::poll(state, entries, deadline, std::ptr::null()))
    });
    if let Some(outcome) = ours {
        return give(outcome);
    }
    tail!(if !is_ours, poll(fds, n, timeout))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    n: nfds_t,
    timeout: c_int,
    room: libc::size_t,
) -> c_int {
    super::checked::check(n as usize * size_of::<pollfd>(), room);
    // SAFETY: passed on.
    unsafe { poll_(fds, n, timeout) }
}

pub(super) fn of_timespec(time: &timespec) -> Outcome<Duration> {
    let nanoseconds = u32::try_from(time.tv_nsec)
        .ok()
        .filter(|n| *n < 1_000_000_000);
    let seconds = u64::try_from(time.tv_sec).ok();
    match (seconds, nanoseconds) {
        (Some(seconds), Some(nanoseconds)) => Ok(Duration::new(seconds, nanoseconds)),
        _ => Err(libc::EINVAL),
    }
}

/// A length of time, none where the place is null.
///
/// # Safety
/// As [`place::read`].
pub(super) unsafe fn duration(time: *const timespec) -> Outcome<Option<Duration>> {
    if time.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says; any bytes are numbers.
    unsafe { place::read(time) }
        .and_then(|time| of_timespec(&time))
        .map(Some)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    n: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let mut is_ours = false;
    let ours = wait(|| {
        let state = state::get()?;
        // SAFETY: as the caller says.
        let entries = unsafe { entries(fds, n) }.filter(|all| polling::concerns_us(all))?;
        is_ours = true;
        // SAFETY: as the caller says.
        let timeout = unsafe { duration(timeout) };
        let poll = |timeout| polling::poll(state, entries, deadline_of(timeout), mask);
        Some(timeout.and_then(poll))
    });
    if let Some(outcome) = ours {
        return give(outcome);
    }
    tail!(if !is_ours, ppoll(fds, n, timeout, mask))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    n: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: libc::size_t,
) -> c_int {
    super::checked::check(n as usize * size_of::<pollfd>(), room);
    // SAFETY: passed on.
    unsafe { ppoll(fds, n, timeout, mask) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn select(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let sets = [read, write, except];
    let mut is_ours = false;
    let ours = wait(|| {
        // SAFETY: as the caller says.
        let outcome = unsafe { select_ours(n, sets, timeout) };
        is_ours = outcome.is_some();
        outcome
    });
    if let Some(outcome) = ours {
        return give(outcome);
    }
    tail!(if !is_ours, select(n, read, write, except, timeout))
}

/// # Safety
/// As `select`.
unsafe fn select_ours(
    n: c_int,
    sets: [*mut fd_set; 3],
    timeout: *mut timeval,
) -> Option<Outcome<c_int>> {
    let state = state::get()?;
    let n = polling::within(n);
    // SAFETY: as the caller says.
    if !unsafe { polling::select_concerns_us(n, sets) } {
        return None;
    }
    if !timeout.is_null() && !place::can_write(timeout, 1) {
        return Some(Err(libc::EFAULT));
    }
    // SAFETY: it is there, and the caller's.
    let time = unsafe { timeout.as_mut() };
    let wait = time.as_ref().map(|time| {
        let seconds = u64::try_from(time.tv_sec);
        let micros = u64::try_from(time.tv_usec);
        match (seconds, micros) {
            (Ok(seconds), Ok(micros)) => {
                Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
            }
            _ => Err(libc::EINVAL),
        }
    });
    let wait = match wait.transpose() {
        Ok(wait) => wait,
        Err(error) => return Some(Err(error)),
    };
    let deadline = deadline_of(wait);
    // SAFETY: as the caller says.
    let found = unsafe { polling::select(state, n, sets, deadline, std::ptr::null()) };
    if let (Some(time), Some(deadline)) = (time, deadline) {
        // As Linux does: what is left of the time.
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        time.tv_sec = left.as_secs() as libc::time_t;
        time.tv_usec = left.subsec_micros().into();
    }
    Some(found)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pselect(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [read, write, except];
    let mut is_ours = false;
    let ours =
        wait(|| {
            let state = state::get()?;
            let n = polling::within(n);
            // SAFETY: as the caller says.
            if !unsafe { polling::select_concerns_us(n, sets) } {
                return None;
            }
            is_ours = true;
            // SAFETY: as the caller says.
            let wait = unsafe { duration(timeout) };
            // SAFETY: as the caller says.
            Some(wait.and_then(|wait| unsafe {
                polling::select(state, n, sets, deadline_of(wait), mask)
            }))
        });
    if let Some(outcome) = ours {
        return give(outcome);
    }
    tail!(if !is_ours, pselect(n, read, write, except, timeout, mask))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        return give(Err(libc::EINVAL));
    }
    // SAFETY: no pointers.
    unsafe { epoll_create1(0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create1(how: c_int) -> c_int {
    let _busy = border::enter();
    // SAFETY: no pointers.
    let fd = unsafe { real::epoll_create1(how) };
    if fd >= 0 {
        epoll::created(fd);
    }
    fd
}

fn set_of(fd: c_int) -> Option<Arc<epoll::Set>> {
    let object = object::find(fd)?;
    if object.kind() != Kind::Epoll {
        return None;
    }
    object.set()
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_ctl(
    set_fd: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let ours = by_name(set_fd, || {
        let (state, set) = (state::get()?, set_of(set_fd)?);
        // SAFETY: as the caller says.
        Some(unsafe { epoll::control(state, set_fd, &set, what, (fd, event)) })
    });
    if let Some(outcome) = ours {
        return give(outcome.map(|()| 0));
    }
    tail!(epoll_ctl(set_fd, what, fd, event))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_wait(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { epoll_pwait(set_fd, events, most, timeout, std::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let timeout_time = u64::try_from(timeout).ok().map(Duration::from_millis);
    // SAFETY: as the caller says.
    match wait_by_name(set_fd, || unsafe {
        wait_ours(set_fd, events, most, (timeout_time, mask))
    }) {
        Some(outcome) => give(outcome),
        None => tail!(epoll_pwait(set_fd, events, most, timeout, mask)),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_pwait2(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as the caller says.
    let time = match unsafe { duration(timeout) } {
        Ok(time) => time,
        Err(error) => return give(Err(error)),
    };
    // SAFETY: as the caller says.
    match wait_by_name(set_fd, || unsafe {
        wait_ours(set_fd, events, most, (time, mask))
    }) {
        Some(outcome) => give(outcome),
        None => tail!(epoll_pwait2(set_fd, events, most, timeout, mask)),
    }
}

/// As many events as the kernel lets one call ask for (`EP_MAX_EVENTS`).
const MOST_EVENTS: usize = c_int::MAX as usize / size_of::<epoll_event>();

/// Events that are looked for whether there is memory for them: callers with more have it.
const LOOKED_AT: usize = 1024;

/// For how many of `most` events there is memory; `None` for not even one.
fn room_for(events: *mut epoll_event, most: usize) -> Option<usize> {
    let mut room = most;
    while !place::can_write(events, room.min(LOOKED_AT)) {
        room = room.min(LOOKED_AT) / 2;
        if room == 0 {
            return None;
        }
    }
    Some(room)
}

/// `None`: no set that was made here.
///
/// # Safety
/// As `epoll_wait`.
unsafe fn wait_ours(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    how: (Option<Duration>, *const sigset_t),
) -> Option<Outcome<c_int>> {
    let state = state::get()?;
    let set = set_of(set_fd)?;
    // Of other numbers the kernel says what is wrong.
    let most = usize::try_from(most).ok();
    let most = most.filter(|n| (1..=MOST_EVENTS).contains(n))?;
    // Also a set in which nothing is ours yet: another thread may put something of ours into it
    // while this one sleeps.
    let Some(most) = room_for(events, most) else {
        return Some(Err(libc::EFAULT));
    };
    // SAFETY: as the caller says; only what is found is written.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most) };
    Some(epoll::wait(state, set_fd, &set, events, how).map(|n| n as c_int))
}
