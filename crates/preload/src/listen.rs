//! Listening: what `listen` and `accept` do. Sockets at one address of ours begin in `bound.rs`.

use crate::errno::{self, Outcome};
use crate::object::{self, Found, Kind};
use crate::open::{Plain, hide, high_up, kernel_name, option, plain, socket_flags};
use crate::real;
use crate::state::{State, Whose};
use crate::{bound, options, wait};
use gannet_local::Opt;
use gannet_local::meet;
use gannet_local::name::{Family, Place};
use gannet_local::service::{self, Question};
use gannet_local::slot::{self, State as Standing, flags};
use libc::c_int;
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags};
use std::net::{IpAddr, SocketAddr};

/// Takes the place of a listener, alone or as one of those that sockets with `SO_REUSEPORT` share.
pub(crate) fn take(
    state: &State,
    family: Family,
    place: Place,
    port: u16,
    share: bool,
) -> Outcome<OwnedFd> {
    let network = state.peers().network();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let at = (family, place, port);
    meet::bind((network, state.host()), at, share, flags).map_err(errno::raw)
}

/// Closes a listener of ours that was never one of the program's.
pub(crate) fn give_back(state: &State, listener: OwnedFd) {
    let name = rustix::net::getsockname(&listener).ok();
    drop(listener);
    if let Some(name) = name.and_then(|name| SocketAddrUnix::try_from(name).ok()) {
        state.peers().network().remove_stale(&name);
    }
}

/// A slot for a socket that listens or is bound.
pub(crate) fn new_slot(
    state: &State,
    fd: c_int,
    plain: Plain,
    local: SocketAddr,
    kind: slot::Kind,
) -> Outcome<u32> {
    let arena = state.arena();
    let n = arena.allocate(state.holder(), 0).ok_or(libc::ENOBUFS)?;
    let slot = arena.own(n);
    slot.set_kind(kind);
    slot.set_local(local);
    // SAFETY: the program's descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    slot.set_inode(meet::inode(borrowed).map_err(errno::raw)?);
    slot.set_flags(family_flags(plain));
    options::copy_from_kernel(fd, &slot);
    if socket_flags(fd).contains(SocketFlags::NONBLOCK) {
        slot.set_flags(flags::NONBLOCKING);
    }
    Ok(n)
}

pub(crate) fn family_flags(plain: Plain) -> u32 {
    match (plain.six, plain.six_only) {
        (false, _) => 0,
        (true, false) => flags::SIX | flags::DUAL,
        (true, true) => flags::SIX,
    }
}

/// `listen`. True when the socket is ours (too) and everything was done.
pub(crate) fn listen(state: &State, fd: c_int, backlog: c_int) -> Outcome<bool> {
    let outcome = begin(state, fd, backlog);
    if let Some(object) = object::find(fd).filter(|_| outcome == Ok(true)) {
        // (a negative one is as long as may be)
        let length = (backlog as u32).min(LONGEST_QUEUE);
        state.arena().own(object.slot()).set(Opt::Backlog, length);
    }
    outcome
}

/// Linux's `net.core.somaxconn`, where nobody has set it.
const LONGEST_QUEUE: u32 = 4096;

fn begin(state: &State, fd: c_int, backlog: c_int) -> Outcome<bool> {
    if let Some(object) = object::find(fd) {
        return match object.kind() {
            Kind::Bound => bound::listen(state, &object, fd, backlog).map(|()| true),
            Kind::Listener => Ok(true),
            Kind::Stream => Err(libc::EINVAL),
            Kind::Datagrams => Err(libc::EOPNOTSUPP),
            _ => Ok(false),
        };
    }
    let Some(plain) = plain(fd).filter(|plain| plain.stream && object::fits(fd)) else {
        return Ok(false);
    };
    let name = kernel_name(fd);
    let open = name.is_none_or(|name| name.ip().is_unspecified() || is_shared(state, name.ip()));
    if !open {
        return Ok(false);
    }
    // Our side first: whoever finds the kernel's open must find ours open too. (Of a socket
    // without a port only the kernel can say which it is.)
    let ports = |name: &SocketAddr| name.port() != 0;
    let early = match name.filter(ports) {
        Some(name) => Some((take_places(state, fd, plain, name, backlog)?, name)),
        None => None,
    };
    // SAFETY: no pointers.
    errno::of(unsafe { real::listen(fd, backlog) })?;
    if let Some(name) = kernel_name(fd) {
        let hidden = match early {
            Some((hidden, before)) if before == name => hidden,
            // A socket that was shut down listens elsewhere now.
            _ => take_places(state, fd, plain, name, backlog)?,
        };
        listen_at_both(state, fd, plain, name, hidden)?;
    }
    Ok(true)
}

/// A descriptor came from a process that knows nothing of us, or is part of another program: if it
/// listens at the kernel where the network's programs would look for it, it listens for them too,
/// unless that other program still does.
pub(crate) fn adopt(state: &State, fd: c_int) {
    let listens = || option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1);
    let Some(plain) = plain(fd).filter(|plain| plain.stream && object::fits(fd) && listens())
    else {
        return;
    };
    let shared = |name: &SocketAddr| name.ip().is_unspecified() || is_shared(state, name.ip());
    if let Some(name) = kernel_name(fd).filter(shared)
        && let Ok(hidden) = take_places(state, fd, plain, name, LONGEST_QUEUE as c_int)
    {
        // The kernel's side works all the same.
        let _ = listen_at_both(state, fd, plain, name, hidden);
    }
}

fn is_shared(state: &State, ip: IpAddr) -> bool {
    state.whose(ip) == Whose::Loopback
}

pub(crate) fn start(fd: impl AsFd, backlog: c_int) -> Outcome<()> {
    // A queue that is too short would turn away what TCP would only delay.
    let backlog = backlog.clamp(1024, 65_535);
    rustix::net::listen(fd, backlog).map_err(errno::raw)
}

/// The places where a socket that listens at the kernel listens for the network's programs too.
fn take_places(
    state: &State,
    fd: c_int,
    plain: Plain,
    name: SocketAddr,
    backlog: c_int,
) -> Outcome<Vec<OwnedFd>> {
    let family = match (plain.six, name.ip()) {
        (false, _) | (true, IpAddr::V4(_)) => Family::Four,
        (true, _) if plain.six_only || !name.ip().is_unspecified() => Family::Six,
        _ => Family::Both,
    };
    let share = option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Some(1);
    let everywhere = name.ip().is_unspecified();
    let mut places = vec![(family, Place::At(name.ip()))];
    if everywhere {
        places = vec![(family, Place::Loopback)];
        places.push((family, Place::All(state.host())));
        // By these other programs of the network find it without a carrier in between.
        places.extend(bound::own_places(state, plain));
    }
    places.truncate(object::HIDDEN);
    let mut hidden = Vec::new();
    for (family, place) in places {
        match take(state, family, place, name.port(), share) {
            Ok(listener) => {
                start(&listener, backlog)?;
                hidden.push(listener);
            }
            // Another program of the network has it: the kernel's side is open all the same.
            Err(libc::EADDRINUSE) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hidden)
}

/// The socket `fd` listens at the kernel, and at `hidden`.
fn listen_at_both(
    state: &State,
    fd: c_int,
    plain: Plain,
    name: SocketAddr,
    hidden: Vec<OwnedFd>,
) -> Outcome<()> {
    if hidden.is_empty() {
        return Ok(());
    }
    let n = new_slot(state, fd, plain, name, slot::Kind::Listener)?;
    let object = object::new(Kind::Listener, n);
    for listener in hidden {
        hide(&object, high_up(listener).into_raw_fd());
    }
    set_kernel_nonblocking(fd);
    let sets = crate::epoll::withdraw(fd);
    object::put(fd, &object);
    crate::epoll::restore(state, fd, &object, sets);
    announce(state, n);
    Ok(())
}

/// A listener of ours never blocks in the kernel's `accept`: it waits for all its sides at once.
fn set_kernel_nonblocking(fd: c_int) {
    // SAFETY: no pointers.
    unsafe {
        let now = real::fcntl(fd, libc::F_GETFL, 0);
        real::fcntl(fd, libc::F_SETFL, (now | libc::O_NONBLOCK) as usize);
    }
}

/// Tells the carrier, which listens at the links: but not of what no link leads to.
pub(crate) fn announce(state: &State, n: u32) {
    let slot = state.arena().own(n);
    slot.set_state(Standing::Listen);
    if slot.local().ip().is_loopback() {
        return;
    }
    let network = state.peers().network();
    let _ = service::ask(network, state.host(), &Question::Listen(n));
    // Not when the first connection comes: a busy carrier answers late.
    let _ = state.peers().keep(state.settings().gateway);
}

/// A listener is gone: the carrier listens for it no more when this returns.
pub(crate) fn withdraw(state: &State) {
    let network = state.peers().network();
    let _ = service::ask(network, state.host(), &Question::Look);
}

/// `accept4` of a listener of ours: the new descriptor and its other end's address.
pub(crate) fn accept(state: &State, object: &Found, fd: c_int, wanted: c_int) -> Outcome<Accepted> {
    let blocks = state.arena().own(object.slot()).flags() & flags::NONBLOCKING == 0;
    let deadline = crate::poll::deadline_of(options::receive_timeout(fd));
    loop {
        if object.kind() != Kind::Listener {
            // Shut down by another thread.
            return Err(libc::EINVAL);
        }
        let once = accept_once(state, object, fd, wanted);
        if let Some(taken) =
            once.inspect_err(|error| crate::note::not_accepted(state, object, *error))?
        {
            return Ok(taken);
        }
        if !blocks {
            return Err(libc::EAGAIN);
        }
        match crate::poll::wait_for_listener(state, object, fd, deadline) {
            Err(libc::EINTR) => wait::interrupted(deadline.is_none())?,
            other => other?,
        }
    }
}

/// `shutdown` of a listener: it listens no more, and is the kernel's alone from now on or bound to
/// its address of ours. Whoever waits in `accept` wakes, whoever was not accepted sees a reset.
pub(crate) fn end_listening(state: &State, object: &Found, fd: c_int, how: c_int) -> c_int {
    if how == libc::SHUT_WR {
        // The kernel's listeners have nothing to write either.
        return 0;
    }
    let slot = state.arena().own(object.slot());
    let blocks = slot.flags() & flags::NONBLOCKING == 0;
    let alone = bound::is_alone(fd).then(|| bound::Before::of(&slot));
    object.become_kind(Kind::Bound);
    for hidden in object.hidden() {
        // SAFETY: no pointers.
        unsafe { real::shutdown(hidden, libc::SHUT_RDWR) };
    }
    let is_it = |other: &Found| std::ptr::eq::<object::Object>(&**other, &**object);
    let descriptors: Vec<c_int> = object::all()
        .filter_map(|(fd, other)| is_it(&other).then_some(fd))
        .collect();
    for &descriptor in &descriptors {
        object::take(descriptor);
    }
    crate::calls::fds::finish(state, object, fd);
    // SAFETY: no pointers.
    let ended = unsafe {
        let now = real::fcntl(fd, libc::F_GETFL, 0) & !libc::O_NONBLOCK;
        let now = if blocks { now } else { now | libc::O_NONBLOCK };
        real::fcntl(fd, libc::F_SETFL, now as usize);
        if alone.is_none() {
            real::shutdown(fd, how)
        } else {
            0
        }
    };
    if let Some(before) = alone {
        before.bind_again(state, &descriptors);
    }
    ended
}

/// What was accepted.
pub(crate) enum Accepted {
    /// A stream of ours, with the address of its other end, and whether the socket is IPv6.
    Ours(c_int, SocketAddr, bool),
    /// A connection of the kernel's: nothing of ours.
    Kernels,
}

fn accept_once(
    state: &State,
    object: &Found,
    fd: c_int,
    wanted: c_int,
) -> Outcome<Option<Accepted>> {
    let mut socket = SocketFlags::empty();
    if wanted & libc::SOCK_CLOEXEC != 0 {
        socket |= SocketFlags::CLOEXEC;
    }
    if wanted & libc::SOCK_NONBLOCK != 0 {
        socket |= SocketFlags::NONBLOCK;
    }
    for hidden in object.hidden() {
        // SAFETY: hidden descriptors are open while the object has them.
        let listener = unsafe { BorrowedFd::borrow_raw(hidden) };
        match meet::accept(state.peers(), state.holder(), listener, socket) {
            Ok(met) => {
                crate::epoll::taken(state, object, fd);
                return accepted(state, object, met).map(Some);
            }
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(errno::raw(error)),
        }
    }
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: a place of our own.
    match unsafe { real::poll(&raw mut entry, 1, 0) } {
        1 if entry.revents & libc::POLLIN != 0 => Ok(Some(Accepted::Kernels)),
        _ => Ok(None),
    }
}

fn accepted(state: &State, listener: &Found, met: meet::Met) -> Outcome<Accepted> {
    let fd = met.fd.into_raw_fd();
    if !object::fits(fd) {
        // SAFETY: ours, just made.
        unsafe { real::close(fd) };
        crate::note::too_high(state, listener);
        return Err(libc::EMFILE);
    }
    let slot = state.arena().own(met.slot);
    let parent = state.arena().own(listener.slot());
    slot.set_flags(parent.flags() & (flags::SIX | flags::DUAL));
    slot.inherit_options(*parent);
    let object = object::new(Kind::Stream, met.slot);
    if let Some(theirs) = met.theirs {
        if theirs.host() == state.settings().gateway {
            slot.set_flags(flags::CARRIED);
        }
        object.set_theirs(theirs);
    }
    if let Some(stale) = object::put(fd, &object) {
        crate::calls::fds::finish(state, &stale, fd);
    }
    let six = slot.flags() & flags::SIX != 0;
    Ok(Accepted::Ours(fd, slot.remote(), six))
}
