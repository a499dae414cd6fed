//! Opening streams: what `connect` does for addresses of ours, and what the kernel says of a
//! socket. `listen.rs` is the other side.

use crate::errno::{self, Outcome};
use crate::fresh;
use crate::object::{self, Found, Kind};
use crate::real;
use crate::state::{State, Whose};
use crate::{address, bound, listen, options, wait};
use gannet_local::meet::{self, Wish};
use gannet_local::name::Target;
use gannet_local::slot::{self, State as Standing, flags};
use gannet_local::{bell, with_room};
use libc::c_int;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What the kernel says of a socket of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    /// `AF_INET6`.
    pub(crate) six: bool,
    /// `SOCK_STREAM`, TCP; else `SOCK_DGRAM`, UDP.
    pub(crate) stream: bool,
    /// `IPV6_V6ONLY`.
    pub(crate) six_only: bool,
}

pub(crate) fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: places of our own.
    let got = unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (got == 0).then_some(value)
}

/// The socket behind `fd`, if it is a TCP or UDP socket of the kernel's.
pub(crate) fn plain(fd: c_int) -> Option<Plain> {
    let six = match option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    let stream = match option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)? {
        // Without a second path MPTCP is TCP, as it is for every peer that does not know it.
        libc::IPPROTO_TCP | libc::IPPROTO_MPTCP => true,
        libc::IPPROTO_UDP => false,
        _ => return None,
    };
    let six_only = six && option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
    Some(Plain {
        six,
        stream,
        six_only,
    })
}

/// Where the kernel has a socket bound.
pub(crate) fn kernel_name(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: all zero is a value of it.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let place = (&raw mut storage).cast();
    // SAFETY: places of our own.
    if unsafe { real::getsockname(fd, place, &raw mut len) } != 0 {
        return None;
    }
    // SAFETY: written by the kernel, `len` bytes.
    unsafe { address::read(place, len) }.ok()?.map(meet::plain)
}

/// Flags of descriptor and socket, as `socket` takes them.
pub(crate) fn socket_flags(fd: c_int) -> SocketFlags {
    let mut all = SocketFlags::empty();
    // SAFETY: no pointers.
    unsafe {
        if real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0 {
            all |= SocketFlags::CLOEXEC;
        }
        if real::fcntl(fd, libc::F_GETFL, 0) & libc::O_NONBLOCK != 0 {
            all |= SocketFlags::NONBLOCK;
        }
    }
    all
}

/// Puts `new` in the place of descriptor `fd`, which stands for `object` from now on.
fn replace(fd: c_int, new: OwnedFd, object: &Found, flags: SocketFlags) -> Outcome<()> {
    let cloexec = match flags.contains(SocketFlags::CLOEXEC) {
        true => libc::O_CLOEXEC,
        false => 0,
    };
    // SAFETY: no pointers.
    errno::of(unsafe { real::dup3(new.as_raw_fd(), fd, cloexec) })?;
    drop(new);
    object::put(fd, object);
    Ok(())
}

/// Hidden descriptors are above this if there is room.
pub(crate) const HIGH: c_int = 800;

/// A new hidden descriptor, high up where programs do not look for theirs.
pub(crate) fn high_up(fd: OwnedFd) -> OwnedFd {
    for floor in [100_000, 10_000, HIGH as usize] {
        // SAFETY: no pointers.
        let high = unsafe { real::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, floor) };
        if high >= 0 {
            // SAFETY: just made, nobody else's.
            return unsafe { OwnedFd::from_raw_fd(high) };
        }
    }
    fd
}

/// The object has a further descriptor, which the program must not meet.
pub(crate) fn hide(object: &Found, fd: c_int) {
    let backed = matches!(
        object.kind(),
        Kind::Listener | Kind::Bound | Kind::Datagrams
    );
    if backed && let Some(state) = crate::state::get() {
        // SAFETY: open, and the caller's.
        let inode = meet::inode(unsafe { BorrowedFd::borrow_raw(fd) });
        let slot = state.arena().own(object.slot());
        slot.set_backing(inode.unwrap_or(0));
    }
    if object.hide(fd) {
        object::put(fd, &object::new(Kind::Hidden, u32::MAX));
    }
}

/// The program wants the number of a hidden descriptor for itself.
pub(crate) fn move_hidden(fd: c_int) {
    let owner = object::all().find(|(_, object)| object.hidden().any(|hidden| hidden == fd));
    // SAFETY: no pointers.
    let moved = unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, fd as usize + 1) };
    object::take(fd);
    if bell::current_ringer() == Some(fd) {
        bell::set_ringer(moved);
    }
    if let (Some((_, object)), true) = (owner, moved >= 0) {
        object.move_hidden(fd, moved);
    }
    if moved >= 0 {
        object::put(moved, &object::new(Kind::Hidden, u32::MAX));
    }
}

/// `connect`. `None` when it is the kernel's.
pub(crate) fn connect(state: &State, fd: c_int, to: SocketAddr) -> Option<Outcome<()>> {
    let mapped = to.is_ipv6() && meet::plain(to).is_ipv4();
    if mapped && plain(fd).is_some_and(|plain| plain.six_only) {
        return None;
    }
    let named = to;
    let to = meet::plain(to);
    let before = match object::find(fd) {
        Some(object) => match object.kind() {
            Kind::Stream => return Some(again(state, &object, fd)),
            Kind::Listener => return Some(Err(libc::EISCONN)),
            Kind::Bound => Some(object),
            _ => return None,
        },
        None => None,
    };
    let to = reachable(to);
    let whose = state.whose(to.ip());
    if whose == Whose::Kernel {
        return before.map(|_| Err(libc::ENETUNREACH));
    }
    let plain = plain(fd)?;
    if !object::fits(fd) {
        return (whose == Whose::Ours).then_some(Err(libc::EMFILE));
    }
    if plain.stream && named.is_ipv6() != plain.six {
        // The kernel says what is wrong.
        return None;
    }
    if plain.six_only && to.is_ipv4() {
        return Some(Err(libc::ENETUNREACH));
    }
    if !plain.stream {
        // Datagrams to loopback addresses stay with the kernel.
        return (whose == Whose::Ours).then(|| crate::datagrams::connect(state, fd, plain, to));
    }
    if option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1) || is_connected(fd) {
        return None;
    }
    if bound::has_failed(fd) {
        return Some(bound::connect_at_kernel(fd, to, plain.six));
    }
    let local = match local_for(state, fd, before.as_ref(), to.ip()) {
        Ok(local) => local,
        Err(error) => return Some(Err(error)),
    };
    let flags = socket_flags(fd);
    let opened_now = || open(state, local, to, whose, (fd, plain, flags));
    let outcome = match opened_now() {
        Err(libc::EMFILE) => with_room(opened_now).map_err(errno::raw).flatten(),
        other => other,
    };
    match outcome {
        Ok(Some((met, carried))) => Some(opened(state, fd, plain, met, carried, flags)),
        Ok(None) => before.map(|_| Err(libc::ECONNREFUSED)),
        // The kernel needs no further descriptor, and most listeners are its own too.
        Err(libc::EMFILE) if whose == Whose::Loopback && before.is_none() => None,
        Err(libc::ECONNREFUSED) if flags.contains(SocketFlags::NONBLOCK) => {
            Some(bound::refused_later(fd, plain))
        }
        Err(error) => Some(Err(error)),
    }
}

/// Where a connection to `to` goes: wildcards mean this machine.
pub(crate) fn reachable(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port())
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv6Addr::LOCALHOST.into(), to.port())
        }
        _ => to,
    }
}

/// Whether the kernel has the socket connected already.
pub(crate) fn is_connected(fd: c_int) -> bool {
    // SAFETY: all zero is a value of it.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: places of our own.
    unsafe { real::getpeername(fd, (&raw mut storage).cast(), &raw mut len) == 0 }
}

fn local_for(state: &State, fd: c_int, before: Option<&Found>, to: IpAddr) -> Outcome<SocketAddr> {
    if let Some(object) = before {
        let local = state.arena().own(object.slot()).local();
        return Ok(match local.port() {
            0 => state.fresh(local.ip()),
            _ => local,
        });
    }
    let source = state.source_for(to).ok_or(libc::ENETUNREACH)?;
    let name = kernel_name(fd);
    let ip = match name.map(|name| name.ip()) {
        Some(ip) if !ip.is_unspecified() => ip,
        _ => source,
    };
    match name.map_or(0, |name| name.port()) {
        0 => Ok(state.fresh(ip)),
        port => Ok(SocketAddr::new(ip, port)),
    }
}

/// Opens a stream to a program of the network, or by the carrier. `None`: nobody of the network
/// listens on this loopback address.
fn open(
    state: &State,
    local: SocketAddr,
    to: SocketAddr,
    whose: Whose,
    (fd, plain, socket): (c_int, Plain, SocketFlags),
) -> Outcome<Option<(meet::Met, bool)>> {
    let wish = Wish {
        local,
        remote: to,
        kind: slot::Kind::Stream,
        socket,
    };
    let target = listener_for(state, to);
    match meet::open(state.peers(), state.holder(), wish, false, target) {
        Ok(met) => return Ok(Some((met, false))),
        Err(Errno::CONNREFUSED) => {}
        // The listener's queue is full: as with TCP, it takes longer.
        Err(Errno::AGAIN) => return Err(libc::ETIMEDOUT),
        Err(error) => return Err(errno::raw(error)),
    }
    if whose == Whose::Loopback {
        return Ok(None);
    }
    if state.settings().addresses.contains(&to.ip()) {
        return Err(libc::ECONNREFUSED);
    }
    if state.arena().is_link_down() {
        return Err(libc::ENETUNREACH);
    }
    // The SYN leaves with what the program has set.
    let met = meet::prepare(state.peers(), state.holder(), wish, true).map_err(errno::raw)?;
    fresh::copy_options(fd, plain, &state.arena().own(met.slot));
    match meet::connect(
        state.peers(),
        state.holder(),
        met,
        Target::Gateway(state.host()),
    ) {
        Ok(met) => Ok(Some((met, true))),
        Err(Errno::CONNREFUSED) => Err(libc::ENETUNREACH),
        Err(error) => Err(errno::raw(error)),
    }
}

/// What a connection to `to` is to find. Wildcard listeners of this program are at its own
/// addresses too.
fn listener_for(state: &State, to: SocketAddr) -> Target {
    let host = match state.settings().addresses.contains(&to.ip()) {
        true => state.host(),
        false => 0,
    };
    let turn = u32::from(state.fresh(to.ip()).port());
    Target::Listener { to, host, turn }
}

fn opened(
    state: &State,
    fd: c_int,
    plain: Plain,
    met: meet::Met,
    carried: bool,
    socket: SocketFlags,
) -> Outcome<()> {
    let slot = state.arena().own(met.slot);
    slot.set_flags(listen::family_flags(plain));
    let may_have_set = carried || fresh::copy_options(fd, plain, &slot);
    if may_have_set {
        options::copy_times_to(fd, &met.fd);
    }
    let object = object::new(Kind::Stream, met.slot);
    object
        .connecting
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let before = object::take(fd);
    let sets = crate::epoll::withdraw(fd);
    replace(fd, met.fd, &object, socket)?;
    if let Some(before) = before {
        slot.set_flags(flags::PORT_GIVEN);
        crate::calls::fds::finish(state, &before, fd);
    }
    crate::epoll::restore(state, fd, &object, sets);
    if socket.contains(SocketFlags::NONBLOCK) {
        return Err(libc::EINPROGRESS);
    }
    if carried {
        let answered = wait_for_answer(state, &object, fd);
        if answered.is_err() {
            turned_away(state, &object, fd);
        }
        answered?;
    }
    object
        .connecting
        .store(false, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

/// The stream was turned away before it was open: its descriptors stand for a socket of the
/// kernel's again, which the program may connect once more.
fn turned_away(state: &State, object: &Found, fd: c_int) {
    let slot = state.arena().own(object.slot());
    if slot.flags() & (flags::BROKEN | flags::RESOLVED) != flags::BROKEN {
        return;
    }
    let bound = slot.flags() & flags::PORT_GIVEN != 0;
    let bound = bound.then(|| bound::Before::of(&slot));
    let apart = crate::disconnect::disconnect(state, object, fd);
    if let (Ok(()), Some(bound)) = (apart, bound) {
        bound.bind_again(state, &[fd]);
    }
}

fn wait_for_answer(state: &State, object: &Found, fd: c_int) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    loop {
        wait::look_for_answer(state, object, fd);
        if object.theirs().is_some() {
            return Ok(());
        }
        if slot.flags() & flags::BROKEN != 0 {
            return Err(match slot.take_error() {
                0 => libc::ECONNRESET,
                error => error,
            });
        }
        let answered = || {
            wait::look_for_answer(state, object, fd);
            object.theirs().is_some() || slot.flags() & flags::BROKEN != 0
        };
        match wait::for_room(state, object, fd, options::send_timeout(fd), answered) {
            // A time-out of sending ends the wait, not the opening.
            Err(libc::EAGAIN) => return Err(libc::EINPROGRESS),
            other => other?,
        }
    }
}

/// `connect` on a socket that is open, or being opened.
fn again(state: &State, object: &Found, fd: c_int) -> Outcome<()> {
    use std::sync::atomic::Ordering::{AcqRel, Relaxed};
    let slot = state.arena().own(object.slot());
    wait::look_for_answer(state, object, fd);
    if slot.flags() & flags::BROKEN != 0 {
        let error = slot.take_error();
        turned_away(state, object, fd);
        return Err(match error {
            0 => libc::ECONNABORTED,
            error => error,
        });
    }
    if slot.state() == Standing::SynSent {
        if slot.flags() & flags::NONBLOCKING != 0 {
            return Err(libc::EALREADY);
        }
        // A handler interrupted the call that began it.
        let answered = wait_for_answer(state, object, fd);
        if answered.is_err() {
            turned_away(state, object, fd);
        }
        answered?;
        object.connecting.store(false, Relaxed);
        return Ok(());
    }
    match object.connecting.swap(false, AcqRel) {
        true => Ok(()),
        false => Err(libc::EISCONN),
    }
}
