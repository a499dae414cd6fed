//! Datagrams of addresses of ours: a kernel socket that stands for them, and a hidden stream of
//! records to the carrier, which sends and receives them.
//!
//! ```text
//! bound to                     datagrams of ours         the kernel's
//! an address of ours           all                       none
//! a wildcard                   to and from our networks  all else
//! connected to one of ours     from there only           none
//! connected elsewhere          none                      all
//! ```
//! * this file: how a socket gets its side with us, and its names
//! * `send.rs`, `receive.rs`: datagrams; `control.rs`: what is told beside them
//! * `ready.rs`: what could be done now; `sleep.rs`: waiting for both sides
//! * `settings.rs`: options and groups
//!
//! Datagrams to loopback addresses stay with the kernel: both ends have sockets there.

mod control;
mod ready;
mod receive;
mod send;
mod settings;
mod sleep;

pub(crate) use ready::{is_at_kernel, next_len, pending_error, ready, ready_at_ours, watched};
pub(crate) use receive::{receive, receive_from, receive_message};
pub(crate) use send::{is_for_ours, send, send_file, send_message, send_to};
pub(crate) use settings::set as set_option;

use crate::errno::{self, Outcome};
use crate::object::{self, Found, Kind};
use crate::open::{self, Plain};
use crate::real;
use crate::state::{State, Whose};
use crate::wait;
use gannet_local::datagram::{Header, What};
use gannet_local::meet::{self, Wish};
use gannet_local::name::Target;
use gannet_local::slot::{self, OwnSlot, flags};
use libc::c_int;
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long the carrier may take to answer, milliseconds.
const PATIENCE: c_int = 5000;

/// How long it may take to free a port, milliseconds.
const AT_CLOSE: c_int = 100;

/// Only one thread at a time gives a socket its side with us.
static OPENING: Mutex<()> = Mutex::new(());

/// Around a fork: nobody else is inside while this is held.
pub(crate) fn quiesce() -> MutexGuard<'static, ()> {
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address that stands for any, of the family of `like`.
fn any(like: IpAddr) -> SocketAddr {
    match like {
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    }
}

/// `bind` to an address of ours.
pub(crate) fn bind(state: &State, fd: c_int, plain: Plain, to: SocketAddr) -> Outcome<()> {
    let _opening = quiesce();
    if object::find(fd).is_some() {
        return Err(libc::EINVAL);
    }
    open_side(state, fd, plain, to).map(drop)
}

/// `bind` of a kernel socket to a wildcard was done: it is open at our addresses too.
pub(crate) fn bound_everywhere(state: &State, fd: c_int) -> Outcome<()> {
    if state.settings().addresses.is_empty() {
        return Ok(());
    }
    let Some(plain) = open::plain(fd).filter(|plain| !plain.stream && object::fits(fd)) else {
        return Ok(());
    };
    let Some(name) = open::kernel_name(fd).filter(|name| name.port() != 0) else {
        return Ok(());
    };
    let _opening = quiesce();
    match open_side(state, fd, plain, name) {
        Ok(_) => Ok(()),
        Err(libc::EADDRINUSE) => Err(libc::EADDRINUSE),
        // Without the carrier the kernel's side is open all the same.
        Err(error) => {
            crate::note::has_no_side(state, fd, name, error);
            Ok(())
        }
    }
}

/// The object of a kernel socket that is about to speak to an address of ours.
fn side(state: &State, fd: c_int, plain: Plain) -> Outcome<Found> {
    let _opening = quiesce();
    if let Some(object) = object::find(fd) {
        return Ok(object);
    }
    if open::kernel_name(fd).is_none_or(|name| name.port() == 0) {
        bind_at_kernel(fd, plain)?;
    }
    let name = open::kernel_name(fd).ok_or(libc::EADDRNOTAVAIL)?;
    if !name.ip().is_unspecified() {
        // As the kernel says it of an address that cannot speak to the other.
        return Err(libc::EINVAL);
    }
    open_side(state, fd, plain, name)
}

/// The kernel chooses a port, which is ours too.
fn bind_at_kernel(fd: c_int, plain: Plain) -> Outcome<()> {
    let all = match plain.six {
        true => any(Ipv6Addr::UNSPECIFIED.into()),
        false => any(Ipv4Addr::UNSPECIFIED.into()),
    };
    let (storage, len) = crate::address::storage(all, plain.six);
    // SAFETY: a place of our own, as long as said.
    errno::of(unsafe { real::bind(fd, (&raw const storage).cast(), len) })?;
    Ok(())
}

/// Opens the stream to the carrier for `fd`, bound to `local` there.
fn open_side(state: &State, fd: c_int, plain: Plain, local: SocketAddr) -> Outcome<Found> {
    let wish = Wish {
        local,
        remote: any(local.ip()),
        kind: slot::Kind::Datagrams,
        socket: SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    };
    let (peers, holder) = (state.peers(), state.holder());
    let met = meet::prepare(peers, holder, wish, true).map_err(errno::raw)?;
    let slot = state.arena().own(met.slot);
    // Found by the program's descriptor, after `exec` too.
    // SAFETY: the program's descriptor.
    let inode = meet::inode(unsafe { BorrowedFd::borrow_raw(fd) });
    slot.set_inode(inode.unwrap_or(0));
    slot.set_flags(crate::listen::family_flags(plain));
    if !open::socket_flags(fd).contains(SocketFlags::NONBLOCK) {
        slot.clear_flags(flags::NONBLOCKING);
    }
    settings::copy_from_kernel(fd, &slot);
    let met = meet::connect(peers, holder, met, Target::Gateway(state.host()));
    let met = met.map_err(|error| match error {
        Errno::CONNREFUSED => libc::ENETUNREACH,
        error => errno::raw(error),
    })?;
    let object = object::new(Kind::Datagrams, met.slot);
    if let Err(error) = wait_for_answer(state, &object, met.fd.as_raw_fd()) {
        state.arena().let_go(holder, met.slot);
        state.arena().free(holder, met.slot);
        return Err(error);
    }
    let sets = crate::epoll::withdraw(fd);
    open::hide(&object, open::high_up(met.fd).into_raw_fd());
    object::put(fd, &object);
    crate::epoll::restore(state, fd, &object, sets);
    Ok(object)
}

/// The carrier binds a socket at once, or says why not.
fn wait_for_answer(state: &State, object: &Found, hidden: c_int) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    loop {
        wait::look_for_answer(state, object, hidden);
        if object.theirs().is_some() {
            return Ok(());
        }
        if slot.flags() & flags::BROKEN != 0 {
            return Err(match slot.take_error() {
                0 => libc::ENETUNREACH,
                error => error,
            });
        }
        match sleep::until_told(hidden, PATIENCE) {
            0 => return Err(libc::ENETUNREACH),
            -1 if errno::get() != libc::EINTR => return Err(errno::get()),
            _ => {}
        }
    }
}

/// The stream of records, and its descriptor. `None` when this process does not have it.
fn stream<'a>(state: &'a State, object: &'a Found) -> Option<gannet_local::Stream<'a>> {
    let hidden = object.hidden().next()?;
    Some(object.stream(state, hidden))
}

/// Which sides of a socket are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sides {
    ours: bool,
    kernels: bool,
}

fn sides(state: &State, object: &Found) -> Sides {
    let slot = state.arena().own(object.slot());
    let known = slot.flags();
    let alive = known & (flags::HUNG_UP | flags::BROKEN) == 0 && object.hidden().next().is_some();
    if known & flags::ELSEWHERE != 0 {
        return Sides {
            ours: false,
            kernels: true,
        };
    }
    Sides {
        ours: alive,
        kernels: !is_ours_alone(&slot) && !is_connected(&slot),
    }
}

/// Bound to an address of ours: the kernel's socket is bound nowhere.
fn is_ours_alone(slot: &OwnSlot<'_>) -> bool {
    !slot.local().ip().is_unspecified()
}

/// Connected to an address of ours.
fn is_connected(slot: &OwnSlot<'_>) -> bool {
    slot.flags() & flags::CONNECTED != 0
}

/// `connect` of a kernel socket to an address of ours.
pub(crate) fn connect(state: &State, fd: c_int, plain: Plain, to: SocketAddr) -> Outcome<()> {
    if !plain.six && to.is_ipv6() {
        return Err(libc::EAFNOSUPPORT);
    }
    let object = side(state, fd, plain)?;
    connect_to_ours(state, &object, to)
}

/// `connect` of a socket that has a side with us already. `to` is none for `AF_UNSPEC`, which
/// dissolves the connection.
pub(crate) fn connect_again(
    state: &State,
    object: &Found,
    fd: c_int,
    to: Option<SocketAddr>,
) -> Outcome<()> {
    let Some(to) = to else {
        return dissolve(state, object, fd);
    };
    let slot = state.arena().own(object.slot());
    let to = meet::plain(to);
    if state.whose(to.ip()) == Whose::Ours || is_ours_alone(&slot) && !to.ip().is_loopback() {
        if state.whose(to.ip()) != Whose::Ours {
            return Err(libc::ENETUNREACH);
        }
        if slot.flags() & flags::SIX == 0 && to.is_ipv6() {
            return Err(libc::EAFNOSUPPORT);
        }
        if slot.flags() & flags::ELSEWHERE != 0 {
            dissolve(state, object, fd)?;
        }
        return connect_to_ours(state, object, to);
    }
    if is_ours_alone(&slot) {
        return Err(libc::EINVAL);
    }
    let six = slot.flags() & flags::SIX != 0;
    let (storage, len) = crate::address::storage(to, six);
    // SAFETY: a place of our own, as long as said.
    errno::of(unsafe { real::connect(fd, (&raw const storage).cast(), len) })?;
    leave(state, object)?;
    slot.set_flags(flags::ELSEWHERE);
    Ok(())
}

fn connect_to_ours(state: &State, object: &Found, to: SocketAddr) -> Outcome<()> {
    if state.source_for(to.ip()).is_none() {
        return Err(libc::ENETUNREACH);
    }
    let slot = state.arena().own(object.slot());
    tell(state, object, to)?;
    slot.set_remote(to);
    slot.set_flags(flags::CONNECTED);
    Ok(())
}

fn dissolve(state: &State, object: &Found, fd: c_int) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    if slot.flags() & flags::ELSEWHERE != 0 {
        // SAFETY: all zero is a value of it, and means no address.
        let nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
        let len = size_of::<libc::sockaddr>() as libc::socklen_t;
        // SAFETY: a place of our own, as long as said.
        errno::of(unsafe { real::connect(fd, &raw const nowhere, len) })?;
        slot.clear_flags(flags::ELSEWHERE);
        return Ok(());
    }
    leave(state, object)
}

/// No longer connected to an address of ours.
fn leave(state: &State, object: &Found) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    if !is_connected(&slot) {
        return Ok(());
    }
    let nobody = any(slot.remote().ip());
    slot.clear_flags(flags::CONNECTED);
    slot.set_remote(nobody);
    tell(state, object, nobody)
}

/// Tells the carrier whom the socket is connected to.
fn tell(state: &State, object: &Found, peer: SocketAddr) -> Outcome<()> {
    let header = Header {
        what: What::Connect,
        ..Header::data(peer, 0)
    };
    send::record(state, object, &header)
}

/// Its name, where the kernel does not know it.
pub(crate) fn name(state: &State, object: &Found) -> Option<SocketAddr> {
    let slot = state.arena().own(object.slot());
    let (local, remote) = (slot.local(), slot.remote());
    if is_ours_alone(&slot) {
        return Some(local);
    }
    let source = state.source_for(remote.ip())?;
    is_connected(&slot).then(|| SocketAddr::new(source, local.port()))
}

/// The address it is connected to, if that is ours.
pub(crate) fn peer(state: &State, object: &Found) -> Option<SocketAddr> {
    let slot = state.arena().own(object.slot());
    is_connected(&slot).then(|| slot.remote())
}

/// `shutdown`.
pub(crate) fn shut(state: &State, object: &Found, fd: c_int, how: c_int) -> Outcome<()> {
    let (reading, writing) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return Err(libc::EINVAL),
    };
    let slot = state.arena().own(object.slot());
    // Of a socket that is not connected it only wakes those who wait, and is an error.
    // SAFETY: no pointers.
    let shut = errno::of(unsafe { real::shutdown(fd, how) });
    if reading {
        slot.say_receiver(slot::receiver::SHUT);
    }
    if writing {
        slot.set_flags(flags::SENDS_NO_MORE);
    }
    match peer(state, object) {
        Some(_) => Ok(()),
        None => shut.map(drop),
    }
}

/// The last descriptor of this process is closed; `last` of all processes. When this returns the
/// port is free, as after the kernel's `close`: the carrier is waited for, though not for long.
pub(crate) fn close(state: &State, object: &Found, hidden: c_int, last: bool) {
    if !last {
        return;
    }
    let stream = object.stream(state, hidden);
    stream.close(false);
    let gone = stream.slot().flags() & (flags::HUNG_UP | flags::BROKEN) != 0;
    if !gone && !object.spin.until(|| stream.is_forgotten()) {
        stream.slot().arm_reader();
        fence(SeqCst);
        if !stream.is_forgotten() {
            sleep::until_told(hidden, AT_CLOSE);
        }
    }
    if stream.is_forgotten() {
        state.arena().free(state.holder(), object.slot());
    }
}
