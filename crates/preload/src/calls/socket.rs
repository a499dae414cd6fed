//! `bind`, `listen`, `connect`, `accept`, names, `shutdown`.

use crate::border;
use crate::disconnect::disconnect;
use crate::errno::{self, Outcome, give};
use crate::fresh;
use crate::listen::{self as listening, Accepted};
use crate::object::{self, Found, Kind};
use crate::open;
use crate::real::{self, tail};
use crate::state::{self, State, Whose};
use crate::{address, bound, datagrams, lead, note, wait, wishes};
use gannet_local::meet;
use gannet_local::slot::{self, flags};
use libc::{c_int, sockaddr, socklen_t};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

/// To note what will never be ours, and sockets that ask for addresses.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let _busy = border::enter();
    // SAFETY: no pointers.
    let fd = unsafe { real::socket(domain, kind, protocol) };
    wishes::forget(fd);
    fresh::remember(fd, domain, kind);
    if domain == libc::AF_NETLINK
        && let Some(state) = state::get()
    {
        crate::netlink::made(state, fd, protocol);
    }
    if let Some(state) = state::get().filter(|state| state.arena().log_wanted())
        && fd >= 0
    {
        note::made(state, fd, domain, kind);
    }
    fd
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let _busy = border::enter();
    // SAFETY: as the caller says.
    let bound = unsafe { bind_somewhere(fd, to, len) };
    if bound == 0
        && let Some(state) = state::get().filter(|state| state.arena().log_wanted())
    {
        note::bound(state, fd);
    }
    bound
}

/// # Safety
/// As `bind`.
unsafe fn bind_somewhere(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    if let Some(state) = state::get() {
        // SAFETY: as the caller says.
        if let Some(outcome) = unsafe { bind_ours(state, fd, to, len) } {
            return give(outcome.map(|()| 0));
        }
    }
    // SAFETY: passed on.
    let bound = unsafe { real::bind(fd, to, len) };
    if bound == 0
        && let Some(state) = state::get()
        // SAFETY: as the caller says.
        && let Ok(Some(to)) = unsafe { address::read(to, len) }
        && meet::plain(to).ip().is_unspecified()
    {
        return give(datagrams::bound_everywhere(state, fd).map(|()| 0));
    }
    bound
}

unsafe fn bind_ours(
    state: &State,
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> Option<Outcome<()>> {
    if let Some(object) = object::find(fd) {
        match object.kind() {
            Kind::Bound if bound::give_up(state, &object, fd) => {}
            Kind::Stream | Kind::Listener | Kind::Bound | Kind::Datagrams => {
                return Some(Err(libc::EINVAL));
            }
            _ => {}
        }
    }
    // SAFETY: as the caller says.
    let named = unsafe { address::read(to, len) }.ok()??;
    let to = meet::plain(named);
    match state.whose(to.ip()) {
        Whose::Ours => fits(fd, named, len).then(|| bound::bind(state, fd, to)),
        Whose::Loopback | Whose::Kernel => {
            let taken = fits(fd, named, len) && bound::occupied(state, fd, to);
            taken.then_some(Err(libc::EADDRINUSE))
        }
    }
}

/// Whether a socket can have such an address at all. If not, the kernel says what is wrong.
fn fits(fd: c_int, named: SocketAddr, len: socklen_t) -> bool {
    let Some(plain) = open::plain(fd) else {
        return false;
    };
    let mapped = named.is_ipv6() && meet::plain(named).is_ipv4();
    let family = named.is_ipv6() == plain.six && !(mapped && plain.six_only);
    family && len as usize <= size_of::<libc::sockaddr_storage>()
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let _busy = border::enter();
    let Some(state) = state::get() else {
        // SAFETY: no pointers.
        return unsafe { real::listen(fd, backlog) };
    };
    let news = note::is_news(state, fd);
    let outcome = match listening::listen(state, fd, backlog) {
        // SAFETY: no pointers.
        Ok(false) => errno::of(unsafe { real::listen(fd, backlog) }).map(drop),
        other => other.map(drop),
    };
    if news {
        note::listened(state, fd, outcome);
    }
    give(outcome.map(|()| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: as the caller says.
    let ours = border::answer(|| unsafe { connect_somewhere(fd, to, len) });
    if let Some(outcome) = ours {
        return give(outcome.map(|()| 0));
    }
    tail!(connect(fd, to, len))
}

/// # Safety
/// As `connect`.
unsafe fn connect_somewhere(fd: c_int, to: *const sockaddr, len: socklen_t) -> Option<Outcome<()>> {
    let state = state::get()?;
    // SAFETY: as the caller says.
    let parsed = unsafe { address::read(to, len) };
    if let Some(object) = object::find(fd).filter(|o| o.kind() == Kind::Datagrams)
        && let Ok(parsed) = parsed
        // SAFETY: as the caller says.
        && (parsed.is_some() || unsafe { address::is_unspecified(to, len) })
    {
        return Some(datagrams::connect_again(state, &object, fd, parsed));
    }
    if let Ok(Some(to)) = parsed
        && let Some(outcome) = connect_ours(state, fd, to)
    {
        return Some(outcome);
    }
    if let Some(object) = object::find(fd).filter(|o| o.kind() == Kind::Stream)
        // SAFETY: as the caller says.
        && unsafe { address::is_unspecified(to, len) }
    {
        return Some(disconnect(state, &object, fd));
    }
    connect_oddly(fd, parsed)
}

pub(super) fn connect_ours(state: &State, fd: c_int, to: SocketAddr) -> Option<Outcome<()>> {
    let news = note::is_news(state, fd);
    let outcome = open::connect(state, fd, to);
    match &outcome {
        Some(Err(border::WOULD_SLEEP)) => {}
        Some(outcome) if news => note::connected(state, fd, to, outcome),
        None if news => note::connects_at_kernel(state, fd, to),
        _ => {}
    }
    outcome
}

/// `connect` of a stream of ours to something that is no address.
fn connect_oddly(fd: c_int, to: Outcome<Option<SocketAddr>>) -> Option<Outcome<()>> {
    let object = object::find(fd)?;
    if object.kind() != Kind::Stream {
        return None;
    }
    Some(match to {
        Err(error) => Err(error),
        Ok(None) => Err(libc::EAFNOSUPPORT),
        Ok(Some(_)) => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller says.
    unsafe { accept4(fd, to, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
    wanted: c_int,
) -> c_int {
    // SAFETY: as the caller says.
    let ours = border::by_name(fd, || unsafe { accept_ours(fd, to, len, wanted) });
    if let Some(outcome) = ours {
        return give(outcome);
    }
    tail!(accept4(fd, to, len, wanted))
}

/// # Safety
/// As `accept4`.
unsafe fn accept_ours(
    fd: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
    wanted: c_int,
) -> Option<Outcome<c_int>> {
    let (state, object) = (state::get()?, object::find(fd)?);
    match object.kind() {
        Kind::Listener => {}
        Kind::Datagrams => return Some(Err(libc::EOPNOTSUPP)),
        Kind::Stream => return Some(Err(libc::EINVAL)),
        _ => return None,
    }
    if wanted & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Some(Err(libc::EINVAL));
    }
    loop {
        match listening::accept(state, &object, fd, wanted) {
            Err(error) => return Some(Err(error)),
            Ok(Accepted::Ours(new, remote, six)) => {
                note::accepted(state, new);
                // SAFETY: as the caller says.
                return Some(unsafe { address::give(remote, six, to, len) }.map(|()| new));
            }
            Ok(Accepted::Kernels) => {
                // SAFETY: passed on.
                let new = unsafe { real::accept4(fd, to, len, wanted) };
                let blocks = state.arena().own(object.slot()).flags() & flags::NONBLOCKING == 0;
                // Another thread may have been faster.
                if new < 0 && errno::get() == libc::EAGAIN && blocks {
                    continue;
                }
                note::accepted_at_kernel(state, new);
                return Some(errno::of(new));
            }
        }
    }
}

fn names(fd: c_int) -> Option<(&'static State, Found)> {
    let state = state::get()?;
    let object = object::find(fd)?;
    matches!(object.kind(), Kind::Stream | Kind::Bound).then_some((state, object))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockname(
    fd: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let _busy = border::enter();
    if let (Some(state), Some(object)) = (state::get(), object::find(fd))
        && object.kind() == Kind::Datagrams
        && let Some(name) = datagrams::name(state, &object)
    {
        let six = state.arena().own(object.slot()).flags() & flags::SIX != 0;
        // SAFETY: as the caller says.
        return give(unsafe { give_name(name, six, to, len) }.map(|()| 0));
    }
    let found = names(fd).or_else(|| {
        let (state, object) = (state::get()?, object::find(fd)?);
        // A listener of ours alone is not bound at the kernel.
        let ours = object.kind() == Kind::Listener
            && open::kernel_name(fd).is_none_or(|name| name.port() == 0);
        ours.then_some((state, object))
    });
    let Some((state, object)) = found else {
        // SAFETY: passed on.
        return unsafe { real::getsockname(fd, to, len) };
    };
    let slot = state.arena().own(object.slot());
    if object.kind() == Kind::Stream {
        wait::look_for_answer(state, &object, fd);
    }
    let six = slot.flags() & flags::SIX != 0;
    // SAFETY: as the caller says.
    give(unsafe { give_name(slot.local(), six, to, len) }.map(|()| 0))
}

/// # Safety
/// As [`address::give`]; a null place is an error here.
unsafe fn give_name(
    name: SocketAddr,
    six: bool,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<()> {
    if to.is_null() || len.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: as the caller says.
    unsafe { address::give(name, six, to, len) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let _busy = border::enter();
    if let (Some(state), Some(object)) = (state::get(), object::find(fd))
        && object.kind() == Kind::Datagrams
        && let Some(name) = datagrams::peer(state, &object)
    {
        let six = state.arena().own(object.slot()).flags() & flags::SIX != 0;
        // SAFETY: as the caller says.
        return give(unsafe { give_name(name, six, to, len) }.map(|()| 0));
    }
    let Some((state, object)) = names(fd) else {
        // SAFETY: passed on.
        return unsafe { real::getpeername(fd, to, len) };
    };
    let slot = state.arena().own(object.slot());
    if object.kind() == Kind::Stream {
        wait::look_for_answer(state, &object, fd);
    }
    let open = object.kind() == Kind::Stream && slot.state() == slot::State::Established;
    if !open || object.stream(state, fd).readiness().hung_up {
        return give(Err(libc::ENOTCONN));
    }
    let six = slot.flags() & flags::SIX != 0;
    // SAFETY: as the caller says.
    give(unsafe { give_name(slot.remote(), six, to, len) }.map(|()| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let _busy = border::enter();
    let (Some(state), Some(object)) = (state::get(), object::find(fd)) else {
        // SAFETY: no pointers.
        return unsafe { real::shutdown(fd, how) };
    };
    match object.kind() {
        Kind::Stream => give(shut(state, &object, fd, how).map(|()| 0)),
        Kind::Datagrams => give(datagrams::shut(state, &object, fd, how).map(|()| 0)),
        Kind::Listener if !(libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how) => {
            give(Err(libc::EINVAL))
        }
        Kind::Listener => listening::end_listening(state, &object, fd, how),
        // SAFETY: no pointers.
        _ => unsafe { real::shutdown(fd, how) },
    }
}

fn shut(state: &State, object: &Found, fd: c_int, how: c_int) -> Outcome<()> {
    let (reading, writing) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return Err(libc::EINVAL),
    };
    wait::look_for_answer(state, object, fd);
    let stream = object.stream(state, fd);
    if stream.readiness().hung_up {
        return Err(libc::ENOTCONN);
    }
    if writing {
        stream.finish();
        if object.theirs().is_none() {
            stream.wake();
        }
    }
    let slot = stream.slot();
    if reading {
        // TCP tells the other end nothing of this; what still comes can be read.
        slot.say_receiver(slot::receiver::SHUT);
    }
    fence(SeqCst);
    let over = slot.sent() & slot::sent::FIN != 0;
    // Whoever sleeps in a read of it wakes, in whatever process. No wake-up comes through the
    // socket any more then; so not where nobody sleeps and more is to be sent.
    let deaf = reading && (over || slot.reader_armed() != 0);
    if deaf {
        slot.set_flags(flags::DEAF);
        // SAFETY: no pointers.
        unsafe { real::shutdown(fd, libc::SHUT_RD) };
    }
    lead::stir(object);
    crate::epoll::look_again(object, deaf && !over);
    Ok(())
}
