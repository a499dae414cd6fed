//! Descriptors themselves: `close`, `dup`, `fcntl`, `ioctl`.

use crate::border;
use crate::errno::{self, Outcome, give};
use crate::fresh;
use crate::object::{self, Found, Kind, Object};
use crate::place;
use crate::real::{self, tail};
use crate::state::{self, State};
use crate::{epoll, listen, open};
use gannet_local::slot::{self, flags};
use libc::{c_int, c_uint, c_ulong};
use rustix::fd::{FromRawFd, IntoRawFd, OwnedFd};

/// Whether the next byte is the one that was marked as urgent.
const SIOCATMARK: c_ulong = 0x8905;

/// A descriptor of `object` went away, number `fd`; if it was the last of this process, what it
/// stood for is let go of. To be called before the kernel closes it.
pub(crate) fn finish(state: &State, object: &Found, fd: c_int) {
    if object.descriptors() > 0 {
        return;
    }
    epoll::closed(state, object);
    let arena = state.arena();
    match object.kind() {
        // As at the kernel, a call that sleeps goes on, and the stream ends when it returns.
        Kind::Stream if object.has_sleepers() && keep(object, fd) => {}
        Kind::Stream => end_stream(state, object, fd),
        Kind::Listener | Kind::Bound | Kind::Datagrams => {
            let last = arena.is_last(state.holder(), object.slot());
            // The carrier has a part in it, which is to end with it.
            let kept = arena.own(object.slot()).flags() & flags::KEPT != 0;
            for hidden in object.unhide() {
                object::take(hidden);
                if object.kind() == Kind::Datagrams {
                    crate::datagrams::close(state, object, hidden, last);
                }
                // SAFETY: hidden descriptors are ours, and this was the last to know of it.
                let hidden = unsafe { OwnedFd::from_raw_fd(hidden) };
                listen::give_back(state, hidden);
            }
            match last && object.kind() != Kind::Datagrams {
                true => {
                    let slot = arena.own(object.slot());
                    let listened = slot.state() == slot::State::Listen;
                    let listened = listened && !slot.local().ip().is_loopback();
                    arena.free(state.holder(), object.slot());
                    if listened && !kept {
                        listen::withdraw(state);
                    }
                }
                false => {
                    arena.let_go(state.holder(), object.slot());
                }
            }
            if last && kept {
                listen::withdraw(state);
            }
        }
        Kind::Epoll => {
            epoll::set_closed(fd);
            for bell in object.unhide() {
                object::take(bell);
                // SAFETY: hidden descriptors are ours.
                unsafe { real::close(bell) };
            }
        }
        Kind::Hidden | Kind::Netlink | Kind::Free => {}
    }
}

fn end_stream(state: &State, object: &Object, fd: c_int) {
    let arena = state.arena();
    let slot = arena.own(object.slot());
    if !arena.is_last(state.holder(), object.slot()) {
        return;
    }
    crate::wait::look_for_answer(state, object, fd);
    let stream = object.stream(state, fd);
    stream.close(slot.aborts());
    let generation = slot.generation();
    let forgotten = object.theirs().is_some() && stream.is_forgotten();
    arena.let_go(state.holder(), object.slot());
    match object.theirs_shared() {
        _ if forgotten => {
            arena.free_use(state.holder(), object.slot(), generation);
        }
        theirs => {
            if let Some(theirs) = theirs {
                state.lingering().add(arena, object.slot(), theirs);
            }
            // The other end may be killed, and its carrier too, before it has read everything.
            if arena.must_ask_for_sweep() {
                super::tell_carrier(state);
            }
        }
    }
    state.lingering().collect(arena, state.holder());
}

/// Keeps the socket behind `fd` for those who sleep. False when there is no descriptor left.
fn keep(object: &Found, fd: c_int) -> bool {
    // SAFETY: no pointers; the program's descriptor, closed only after this.
    let kept = unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if kept < 0 {
        return false;
    }
    // SAFETY: just made, nobody else's.
    let kept = open::high_up(unsafe { OwnedFd::from_raw_fd(kept) }).into_raw_fd();
    open::hide(object, kept);
    true
}

/// The last call that slept for a stream has returned, and its descriptors are closed.
pub(crate) fn finish_late(object: &Object) {
    for kept in object.unhide() {
        object::take(kept);
        if let Some(state) = state::get() {
            end_stream(state, object, kept);
        }
        // SAFETY: hidden descriptors are ours.
        unsafe { real::close(kept) };
    }
}

fn forget(fd: c_int) {
    if let (Some(state), Some(object)) = (state::get(), object::take(fd)) {
        finish(state, &object, fd);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if !object::is_ours(fd) {
        return tail!(close(fd));
    }
    let _busy = border::enter();
    if object::is_hidden(fd) {
        return give(Err(libc::EBADF));
    }
    forget(fd);
    // SAFETY: no pointers.
    unsafe { real::close(fd) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, how: c_int) -> c_int {
    let _busy = border::enter();
    if state::get().is_none() || first > last {
        // SAFETY: no pointers.
        return unsafe { real::close_range(first, last, how) };
    }
    let inside = |fd: c_int| (first..=last).contains(&(fd as c_uint));
    let ours: Vec<(c_int, bool)> = object::all()
        .filter(|(fd, _)| inside(*fd))
        .map(|(fd, object)| (fd, object.kind() == Kind::Hidden))
        .collect();
    let only_marks = how & libc::CLOSE_RANGE_CLOEXEC as c_int != 0;
    let mut from = first;
    for (fd, hidden) in ours {
        if !hidden {
            if !only_marks {
                forget(fd);
            }
            continue;
        }
        let fd = fd as c_uint;
        if from < fd {
            // SAFETY: no pointers.
            let closed = unsafe { real::close_range(from, fd - 1, how) };
            if closed != 0 {
                return closed;
            }
        }
        from = fd + 1;
    }
    if from > last {
        return 0;
    }
    // SAFETY: no pointers.
    unsafe { real::close_range(from, last, how) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: no pointers.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// After the kernel made `new` of `fd`.
fn duplicated(fd: c_int, new: c_int) -> c_int {
    fresh::forget(fd);
    if new < 0 || new == fd {
        return new;
    }
    if let Some(object) = object::find(fd) {
        if !object::fits(new) {
            // SAFETY: just made.
            unsafe { real::close(new) };
            return give(Err(libc::EMFILE));
        }
        object::put(new, &object);
        if object.kind() == Kind::Epoll {
            epoll::lock_sets().push(new);
        }
    }
    new
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    let _busy = border::enter();
    // SAFETY: no pointers.
    duplicated(fd, unsafe { real::dup(fd) })
}

/// What stood at `to` goes, if `fd` is there at all.
fn make_way(fd: c_int, to: c_int) {
    if fd != to
        && object::is_ours(to)
        // SAFETY: no pointers.
        && unsafe { real::fcntl(fd, libc::F_GETFD, 0) } >= 0
    {
        match object::is_hidden(to) {
            true => crate::open::move_hidden(to),
            false => forget(to),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    let _busy = border::enter();
    make_way(fd, to);
    // SAFETY: no pointers.
    duplicated(fd, unsafe { real::dup2(fd, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, how: c_int) -> c_int {
    let _busy = border::enter();
    if fd != to && how & !libc::O_CLOEXEC == 0 {
        make_way(fd, to);
    }
    // SAFETY: no pointers.
    duplicated(fd, unsafe { real::dup3(fd, to, how) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    if !object::is_ours(fd) {
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            fresh::forget(fd);
        }
        return tail!(fcntl(fd, command, argument));
    }
    let _busy = border::enter();
    control(fd, command, argument)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: passed on.
    unsafe { fcntl(fd, command, argument) }
}

fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: passed on.
    let pass = |argument| unsafe { real::fcntl(fd, command, argument) };
    let (Some(state), Some(object)) = (state::get(), object::find(fd)) else {
        return pass(argument);
    };
    match (command, object.kind()) {
        (_, Kind::Hidden) => give(Err(libc::EBADF)),
        (libc::F_DUPFD | libc::F_DUPFD_CLOEXEC, _) => duplicated(fd, pass(argument)),
        (_, Kind::Epoll | Kind::Netlink | Kind::Free) => pass(argument),
        (libc::F_SETFL, kind) => {
            let wanted = argument as c_int & libc::O_NONBLOCK != 0;
            let physical = match kind {
                Kind::Listener => argument | libc::O_NONBLOCK as usize,
                _ => argument,
            };
            let set = pass(physical);
            if set >= 0 {
                set_nonblocking(state, &object, wanted);
            }
            set
        }
        (libc::F_GETFL, Kind::Listener) => {
            let got = pass(argument);
            match is_nonblocking(state, &object) {
                true => got,
                false => got & !libc::O_NONBLOCK,
            }
        }
        _ => pass(argument),
    }
}

fn is_nonblocking(state: &State, object: &Found) -> bool {
    state.arena().own(object.slot()).flags() & flags::NONBLOCKING != 0
}

fn set_nonblocking(state: &State, object: &Found, wanted: bool) {
    let slot = state.arena().own(object.slot());
    match wanted {
        true => {
            slot.set_flags(flags::NONBLOCKING);
        }
        false => slot.clear_flags(flags::NONBLOCKING),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    if object::is_ours(fd) {
        let _busy = border::enter();
        if let (Some(state), Some(object)) = (state::get(), object::find(fd))
            // SAFETY: as the caller says.
            && let Some(outcome) = unsafe { ioctl_of_ours(state, &object, fd, (request, argument)) }
        {
            return give(outcome);
        }
    }
    // SAFETY: passed on.
    unsafe {
        super::interfaces::ioctl(fd, request, argument)
            .unwrap_or_else(|| real::ioctl(fd, request, argument))
    }
}

/// The C library's asks the kernel without a call that could be taken.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    let mut mark: c_int = 0;
    // SAFETY: a place of our own.
    match unsafe { ioctl(fd, SIOCATMARK, (&raw mut mark).addr()) } {
        0 => mark,
        failed => failed,
    }
}

/// `None`: the kernel's to answer.
///
/// # Safety
/// As `ioctl`.
unsafe fn ioctl_of_ours(
    state: &State,
    object: &Found,
    fd: c_int,
    (request, argument): (c_ulong, usize),
) -> Option<Outcome<c_int>> {
    let place = argument as *mut c_int;
    let kind = object.kind();
    if !matches!(
        kind,
        Kind::Stream | Kind::Listener | Kind::Bound | Kind::Datagrams
    ) {
        return None;
    }
    let give = |value: u64| {
        // SAFETY: the program named the place for it.
        Some(unsafe { place::write(place, &(value as c_int)) }.map(|()| 0))
    };
    match request {
        libc::FIONBIO => {
            // SAFETY: any bytes are a number.
            let wanted = match unsafe { place::read(place) } {
                Ok(value) => value != 0,
                Err(error) => return Some(Err(error)),
            };
            if kind == Kind::Listener {
                set_nonblocking(state, object, wanted);
                return Some(Ok(0));
            }
            // SAFETY: passed on.
            let set = unsafe { real::ioctl(fd, request, argument) };
            if set == 0 {
                set_nonblocking(state, object, wanted);
            }
            Some(errno::of(set))
        }
        libc::FIONREAD if kind == Kind::Datagrams => {
            give(crate::datagrams::next_len(state, object)? as u64)
        }
        libc::FIONREAD if kind == Kind::Listener => Some(Err(libc::EINVAL)),
        libc::FIONREAD if kind == Kind::Stream => {
            crate::wait::look_for_answer(state, object, fd);
            give(object.stream(state, fd).waiting())
        }
        libc::TIOCOUTQ if kind == Kind::Listener => Some(Err(libc::EINVAL)),
        libc::TIOCOUTQ if kind == Kind::Stream => {
            crate::wait::look_for_answer(state, object, fd);
            give(object.stream(state, fd).unread())
        }
        SIOCATMARK if kind == Kind::Stream => {
            give(u64::from(object.stream(state, fd).is_at_mark()))
        }
        _ => None,
    }
}
