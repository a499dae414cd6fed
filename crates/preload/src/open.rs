//! Opening streams: what `bind`, `listen`, `connect` and `accept` do for addresses of ours.

use crate::errno::{self, Outcome};
use crate::object::{self, Found, Kind};
use crate::real;
use crate::state::{State, Whose};
use crate::{address, options, wait};
use gannet_local::meet::{self, Wish};
use gannet_local::name::{self, Family, Place};
use gannet_local::service::{self, Question};
use gannet_local::slot::{self, State as Standing, flags};
use libc::c_int;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags};
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

fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
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
        libc::IPPROTO_TCP => true,
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

/// A new hidden descriptor, high up where programs do not look for theirs.
pub(crate) fn high_up(fd: OwnedFd) -> OwnedFd {
    for floor in [100_000, 10_000, 800] {
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
    if let (Some((_, object)), true) = (owner, moved >= 0) {
        object.move_hidden(fd, moved);
        object::put(moved, &object::new(Kind::Hidden, u32::MAX));
    }
}

/// `bind` to an address of ours: the kernel does not have it, so the name is taken here.
pub(crate) fn bind(state: &State, fd: c_int, to: SocketAddr) -> Outcome<()> {
    let Some(plain) = plain(fd) else {
        return Err(libc::EADDRNOTAVAIL);
    };
    if kernel_name(fd).is_some_and(|name| name.port() != 0) {
        return Err(libc::EINVAL);
    }
    if !state.settings().addresses.contains(&to.ip()) {
        return Err(libc::EADDRNOTAVAIL);
    }
    if !object::fits(fd) {
        return Err(libc::EMFILE);
    }
    if !plain.stream {
        return crate::datagrams::bind(state, fd, plain, to);
    }
    let family = match to {
        SocketAddr::V4(_) => Family::Four,
        SocketAddr::V6(_) => Family::Six,
    };
    let share = option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Some(1);
    let (hidden, local) = take_name(state, family, to, share)?;
    let n = new_slot(state, fd, plain, local, slot::Kind::Listener)?;
    let object = object::new(Kind::Bound, n);
    hide(&object, high_up(hidden).into_raw_fd());
    object::put(fd, &object);
    Ok(())
}

/// Takes the listener's name for `to`, or for a port nobody has.
fn take_name(
    state: &State,
    family: Family,
    to: SocketAddr,
    share: bool,
) -> Outcome<(OwnedFd, SocketAddr)> {
    let mut local = to;
    for _ in 0..1000 {
        if to.port() == 0 {
            local = state.fresh(to.ip());
        }
        match take(state, family, Place::At(local.ip()), local.port(), share) {
            Ok(fd) => return Ok((fd, local)),
            Err(libc::EADDRINUSE) if to.port() == 0 => continue,
            Err(error) => return Err(error),
        }
    }
    Err(libc::EADDRINUSE)
}

fn take(state: &State, family: Family, place: Place, port: u16, share: bool) -> Outcome<OwnedFd> {
    let network = state.peers().network();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let numbers = match share {
        true => 1..name::SHARERS + 1,
        false => 0..1,
    };
    let mut outcome = Err(libc::EADDRINUSE);
    for n in numbers {
        let name = name::listener(network, family, place, port, n).map_err(errno::raw)?;
        outcome = meet::bind(&name, flags).map_err(errno::raw);
        if !matches!(outcome, Err(libc::EADDRINUSE)) {
            break;
        }
    }
    outcome
}

/// A slot for a socket that listens or is bound.
fn new_slot(
    state: &State,
    fd: c_int,
    plain: Plain,
    local: SocketAddr,
    kind: slot::Kind,
) -> Outcome<u32> {
    let arena = state.arena();
    let n = arena
        .allocate(state.holder(), local.port().into())
        .ok_or(libc::ENOBUFS)?;
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
    if let Some(object) = object::find(fd) {
        return match object.kind() {
            Kind::Bound => listen_at_ours(state, &object, backlog).map(|()| true),
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
        Some(name) => Some(take_places(state, fd, plain, name, backlog)?),
        None => None,
    };
    // SAFETY: no pointers.
    errno::of(unsafe { real::listen(fd, backlog) })?;
    if let Some(name) = kernel_name(fd) {
        let hidden = match early {
            Some(hidden) => hidden,
            None => take_places(state, fd, plain, name, backlog)?,
        };
        listen_at_both(state, fd, plain, name, hidden)?;
    }
    Ok(true)
}

fn is_shared(state: &State, ip: IpAddr) -> bool {
    state.whose(ip) == Whose::Loopback
}

fn start(fd: &OwnedFd, backlog: c_int) -> Outcome<()> {
    // A queue that is too short would turn away what TCP would only delay.
    let backlog = backlog.clamp(1024, 65_535);
    rustix::net::listen(fd, backlog).map_err(errno::raw)
}

fn listen_at_ours(state: &State, object: &Found, backlog: c_int) -> Outcome<()> {
    for hidden in object.hidden() {
        // SAFETY: hidden descriptors are open while the object has them.
        let borrowed = unsafe { BorrowedFd::borrow_raw(hidden) };
        rustix::net::listen(borrowed, backlog.clamp(1024, 65_535)).map_err(errno::raw)?;
    }
    object.become_kind(Kind::Listener);
    announce(state, object.slot());
    Ok(())
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
    let mut places = vec![Place::Loopback];
    if everywhere {
        places.push(Place::All(state.host()));
        // By these other programs of the network find it without a carrier in between.
        let own = state.settings().addresses.iter();
        let own = own.filter(|ip| family == Family::Both || ip.is_ipv4() != plain.six);
        places.extend(own.map(|ip| Place::At(*ip)));
    }
    places.truncate(object::HIDDEN);
    let mut hidden = Vec::new();
    for place in places {
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

/// Tells the carrier, which listens at the links.
fn announce(state: &State, n: u32) {
    state.arena().own(n).set_state(Standing::Listen);
    let network = state.peers().network();
    let _ = service::ask(network, state.host(), Question::Listen(n));
}

/// `connect`. `None` when it is the kernel's.
pub(crate) fn connect(state: &State, fd: c_int, to: SocketAddr) -> Option<Outcome<()>> {
    let mapped = to.is_ipv6() && meet::plain(to).is_ipv4();
    if mapped && plain(fd).is_some_and(|plain| plain.six_only) {
        return None;
    }
    let to = meet::plain(to);
    let bound = match object::find(fd) {
        Some(object) => match object.kind() {
            Kind::Stream => return Some(again(state, &object, fd)),
            Kind::Listener => return Some(Err(libc::EISCONN)),
            Kind::Datagrams => return None,
            _ => Some(object),
        },
        None => None,
    };
    let to = reachable(to);
    let whose = state.whose(to.ip());
    if whose == Whose::Kernel {
        return bound.map(|_| Err(libc::ENETUNREACH));
    }
    if !object::fits(fd) {
        return (whose == Whose::Ours).then_some(Err(libc::EMFILE));
    }
    let plain = plain(fd)?;
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
    let local = match local_for(state, fd, bound.as_ref(), to.ip()) {
        Ok(local) => local,
        Err(error) => return Some(Err(error)),
    };
    let flags = socket_flags(fd);
    match open(state, local, to, whose, flags) {
        Ok(Some((met, carried))) => Some(opened(state, fd, plain, met, carried, flags)),
        Ok(None) => bound.map(|_| Err(libc::ECONNREFUSED)),
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

fn local_for(state: &State, fd: c_int, bound: Option<&Found>, to: IpAddr) -> Outcome<SocketAddr> {
    if let Some(object) = bound {
        return Ok(state.arena().own(object.slot()).local());
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
    socket: SocketFlags,
) -> Outcome<Option<(meet::Met, bool)>> {
    let wish = Wish {
        local,
        remote: to,
        kind: slot::Kind::Stream,
        socket,
    };
    let mut names = names_of(state, to).into_iter();
    match meet::open(state.peers(), state.holder(), wish, false, &mut names) {
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
    let gateway = name::gateway(state.peers().network(), state.host()).map_err(errno::raw)?;
    let mut names = std::iter::once(gateway);
    let met = meet::open(state.peers(), state.holder(), wish, true, &mut names);
    match met {
        Ok(met) => Ok(Some((met, true))),
        Err(Errno::CONNREFUSED) => Err(libc::ENETUNREACH),
        Err(error) => Err(errno::raw(error)),
    }
}

fn names_of(state: &State, to: SocketAddr) -> Vec<SocketAddrUnix> {
    let turn = u32::from(state.fresh(to.ip()).port());
    let mut all = meet::names_of(state.peers(), to, turn);
    if state.settings().addresses.contains(&to.ip()) {
        let network = state.peers().network();
        let own = match to {
            SocketAddr::V4(_) => Family::Four,
            SocketAddr::V6(_) => Family::Six,
        };
        let place = Place::All(state.host());
        let mine = [own, Family::Both];
        let mine = mine
            .into_iter()
            .filter_map(|family| name::listener(network, family, place, to.port(), 0).ok());
        all.splice(0..0, mine);
    }
    all
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
    slot.set_flags(family_flags(plain));
    options::copy_from_kernel(fd, &slot);
    options::copy_times_to(fd, &met.fd);
    let object = object::new(Kind::Stream, met.slot);
    object
        .connecting
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let before = object::take(fd);
    let sets = crate::epoll::withdraw(fd);
    replace(fd, met.fd, &object, socket)?;
    if let Some(before) = before {
        crate::calls::fds::finish(state, &before, fd);
    }
    crate::epoll::restore(state, fd, &object, sets);
    if socket.contains(SocketFlags::NONBLOCK) {
        return Err(libc::EINPROGRESS);
    }
    if carried {
        wait_for_answer(state, &object, fd)?;
    }
    object
        .connecting
        .store(false, std::sync::atomic::Ordering::Relaxed);
    Ok(())
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
        match wait::wait(state, object, fd, wait::For::Answer, answered) {
            // A time-out of sending ends the wait, not the opening.
            Err(libc::EAGAIN) => return Err(libc::EINPROGRESS),
            other => other?,
        }
    }
}

/// `connect` on a socket that is open, or being opened.
fn again(state: &State, object: &Found, fd: c_int) -> Outcome<()> {
    use std::sync::atomic::Ordering::AcqRel;
    let slot = state.arena().own(object.slot());
    wait::look_for_answer(state, object, fd);
    if slot.flags() & flags::BROKEN != 0 {
        return Err(match slot.take_error() {
            0 => libc::ECONNABORTED,
            error => error,
        });
    }
    if slot.state() == Standing::SynSent {
        return Err(libc::EALREADY);
    }
    match object.connecting.swap(false, AcqRel) {
        true => Ok(()),
        false => Err(libc::EISCONN),
    }
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
        if let Some(taken) = accept_once(state, object, fd, wanted)? {
            return Ok(taken);
        }
        if !blocks {
            return Err(libc::EAGAIN);
        }
        match crate::poll::wait_for_listener(object, fd, deadline) {
            Err(libc::EINTR) if wait::handlers_restart() => {}
            other => other?,
        }
    }
}

/// `shutdown` of a listener: it is the kernel's alone from now on, and listens no more. Whoever
/// waits in `accept` wakes, whoever was not accepted sees a reset.
pub(crate) fn end_listening(state: &State, object: &Found, fd: c_int, how: c_int) -> c_int {
    let blocks = state.arena().own(object.slot()).flags() & flags::NONBLOCKING == 0;
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
    unsafe {
        if blocks {
            let now = real::fcntl(fd, libc::F_GETFL, 0);
            real::fcntl(fd, libc::F_SETFL, (now & !libc::O_NONBLOCK) as usize);
        }
        real::shutdown(fd, how)
    }
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
            Ok(met) => return accepted(state, object, met).map(Some),
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
    options::inherit(&parent, &slot);
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
