//! A socket bound to one address of ours: its name is taken at our side, and the kernel's socket
//! behind the descriptor stays as it was made. Until the socket listens or connects, the kernel
//! answers everything but its name.

use crate::errno::{self, Outcome};
use crate::listen::{announce, give_back, new_slot, start, take};
use crate::object::{self, Found, Kind, Object};
use crate::open::{self, Plain, hide, high_up, kernel_name, option, plain};
use crate::state::State;
use crate::{address, real};
use gannet_local::name::{Family, Place};
use gannet_local::slot::{self, OwnSlot, flags};
use libc::c_int;
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
    let later = option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT) == Some(1);
    let object = match to.port() == 0 && later {
        true => object_at(state, fd, plain, to)?,
        false => object_with_name(state, fd, plain, to)?,
    };
    object::put(fd, &object);
    Ok(())
}

fn object_at(state: &State, fd: c_int, plain: Plain, local: SocketAddr) -> Outcome<Found> {
    let n = new_slot(state, fd, plain, local, slot::Kind::Listener)?;
    Ok(object::new(Kind::Bound, n))
}

fn object_with_name(state: &State, fd: c_int, plain: Plain, to: SocketAddr) -> Outcome<Found> {
    let (hidden, local) = take_name(state, fd, to)?;
    let object = object_at(state, fd, plain, local)?;
    if to.port() != 0 {
        state
            .arena()
            .own(object.slot())
            .set_flags(flags::PORT_GIVEN);
    }
    hide(&object, high_up(hidden).into_raw_fd());
    Ok(object)
}

/// Takes the listener's name for `to`, or for a port nobody has.
fn take_name(state: &State, fd: c_int, to: SocketAddr) -> Outcome<(OwnedFd, SocketAddr)> {
    let share = option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Some(1);
    let (family, place) = at(to.ip());
    let mut local = to;
    for _ in 0..1000 {
        if to.port() == 0 {
            local = state.fresh(to.ip());
        }
        match take(state, family, place, local.port(), share) {
            Ok(fd) => return Ok((fd, local)),
            Err(libc::EADDRINUSE) if to.port() == 0 => continue,
            Err(error) => return Err(error),
        }
    }
    Err(libc::EADDRINUSE)
}

/// One address has one family, whatever the socket was made as: so its names meet each other.
fn at(ip: IpAddr) -> (Family, Place) {
    let family = match ip {
        IpAddr::V4(_) => Family::Four,
        IpAddr::V6(_) => Family::Six,
    };
    (family, Place::At(ip))
}

/// Our addresses at which a socket is open that is bound to a wildcard.
pub(crate) fn own_places(state: &State, plain: Plain) -> impl Iterator<Item = (Family, Place)> {
    let own = state.settings().addresses.iter();
    let own = own.filter(move |ip| match ip {
        IpAddr::V4(_) => !plain.six_only,
        IpAddr::V6(_) => plain.six,
    });
    own.map(|ip| at(*ip))
}

/// Whether a TCP socket that is to be bound to a wildcard would take a port from somebody who is
/// bound to it at one of our addresses.
pub(crate) fn occupied(state: &State, fd: c_int, to: SocketAddr) -> bool {
    if !to.ip().is_unspecified() || to.port() == 0 || object::is_ours(fd) {
        return false;
    }
    let Some(plain) = plain(fd).filter(|plain| plain.stream) else {
        return false;
    };
    let share = option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Some(1);
    own_places(state, plain).any(|(family, place)| {
        match take(state, family, place, to.port(), share) {
            Ok(listener) => {
                give_back(state, listener);
                false
            }
            Err(error) => error == libc::EADDRINUSE,
        }
    })
}

/// Gives up what a socket that has an address of ours and no port stands for. False when it has a
/// port, which it keeps.
pub(crate) fn give_up(state: &State, object: &Found, fd: c_int) -> bool {
    if has_port(state, object) {
        return false;
    }
    if let Some(before) = object::take(fd) {
        crate::calls::fds::finish(state, &before, fd);
    }
    true
}

/// Whether a socket of ours has a port already.
pub(crate) fn has_port(state: &State, object: &Found) -> bool {
    state.arena().own(object.slot()).local().port() != 0
}

/// `listen` of a socket at one address of ours.
pub(crate) fn listen(state: &State, object: &Found, fd: c_int, backlog: c_int) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    if !has_port(state, object) {
        let (hidden, local) = take_name(state, fd, slot.local())?;
        slot.set_local(local);
        hide(object, high_up(hidden).into_raw_fd());
    }
    for hidden in object.hidden() {
        // SAFETY: hidden descriptors are open while the object has them.
        start(unsafe { BorrowedFd::borrow_raw(hidden) }, backlog)?;
    }
    let sets: Vec<_> = descriptors_of(object)
        .map(|fd| (fd, crate::epoll::withdraw(fd)))
        .collect();
    object.become_kind(Kind::Listener);
    for (fd, sets) in sets {
        crate::epoll::restore(state, fd, object, sets);
    }
    announce(state, object.slot());
    Ok(())
}

fn descriptors_of(object: &Found) -> impl Iterator<Item = c_int> {
    let is_it = |other: &Found| std::ptr::eq::<Object>(&**other, &**object);
    object::all().filter_map(move |(fd, other)| is_it(&other).then_some(fd))
}

/// Whether a listener of ours listens at our side alone: the kernel's socket behind it is unused.
pub(crate) fn is_alone(fd: c_int) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0)
}

/// What remains of a listener at one address of ours when it is shut down: its address, and its
/// port if the program had named it.
pub(crate) struct Before {
    local: SocketAddr,
    port_given: bool,
}

impl Before {
    /// Of the listener in a slot.
    pub(crate) fn of(slot: &OwnSlot<'_>) -> Before {
        Before {
            local: slot.local(),
            port_given: slot.flags() & flags::PORT_GIVEN != 0,
        }
    }

    /// Binds the descriptors anew. If somebody took the port meanwhile they are bound to nothing.
    pub(crate) fn bind_again(&self, state: &State, descriptors: &[c_int]) {
        let Some((&fd, plain)) = descriptors.first().and_then(|fd| Some((fd, plain(*fd)?))) else {
            return;
        };
        let object = match self.port_given {
            true => object_with_name(state, fd, plain, self.local),
            false => object_at(state, fd, plain, SocketAddr::new(self.local.ip(), 0)),
        };
        if let Ok(object) = object {
            for &fd in descriptors {
                object::put(fd, &object);
            }
        }
    }
}

/// Whether an earlier `connect` of the kernel's socket failed and has not said so: the next one
/// does, whatever its address.
pub(crate) fn has_failed(fd: c_int) -> bool {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    let both = libc::POLLRDHUP | libc::POLLHUP;
    // SAFETY: a place of our own.
    unsafe { real::poll(&raw mut entry, 1, 0) == 1 && entry.revents & both == both }
}

/// `connect` of the kernel's socket.
pub(crate) fn connect_at_kernel(fd: c_int, to: SocketAddr, six: bool) -> Outcome<()> {
    let (storage, len) = address::storage(to, six);
    // SAFETY: a place of our own.
    errno::of(unsafe { real::connect(fd, (&raw const storage).cast(), len) }).map(drop)
}

/// A socket that does not block hears only later that nobody listens at an address of ours. The
/// kernel's socket hears the same from an address of the kernel's at which nobody listens: what
/// `poll`, `SO_ERROR` and the next call say of it is the kernel's affair then.
pub(crate) fn refused_later(fd: c_int, plain: Plain) -> Outcome<()> {
    let dead = match plain.six_only {
        true => IpAddr::V6(Ipv6Addr::LOCALHOST),
        false => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let refused = |_| libc::ECONNREFUSED;
    let family = match dead.is_ipv4() {
        true => AddressFamily::INET,
        false => AddressFamily::INET6,
    };
    // Bound, and it does not listen: nobody else can.
    let holder = rustix::net::socket(family, SocketType::STREAM, None).map_err(refused)?;
    rustix::net::bind(&holder, &SocketAddr::new(dead, 0)).map_err(refused)?;
    let at = open::kernel_name(holder.as_raw_fd()).ok_or(libc::ECONNREFUSED)?;
    match connect_at_kernel(fd, at, plain.six) {
        Err(libc::EINPROGRESS) => Err(libc::EINPROGRESS),
        _ => Err(libc::ECONNREFUSED),
    }
}
