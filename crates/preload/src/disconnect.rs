//! `connect` to nothing (`AF_UNSPEC`): a stream is broken off, and its descriptors stand for a
//! fresh socket of the kernel's with the same options.

use crate::calls::fds;
use crate::errno::{self, Outcome};
use crate::object::{self, Found, Object};
use crate::state::State;
use crate::{epoll, open, options, real};
use gannet_local::Opt;
use gannet_local::slot::{State as Standing, flags};
use libc::c_int;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::net::SocketFlags;

/// Takes the stream behind `fd` apart.
///
/// # Errors
/// What `socket` and `dup3` say.
pub(crate) fn disconnect(state: &State, object: &Found, fd: c_int) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    let fresh = fresh(state, object, fd)?;
    options::copy_to_kernel(*slot, fresh.as_raw_fd());
    // The other end sees a reset, as it does of TCP.
    if slot.state() == Standing::Established {
        slot.set(Opt::LingerOn, 1);
        slot.set(Opt::LingerSeconds, 0);
    }
    let is_it = |other: &Found| std::ptr::eq::<Object>(&**other, &**object);
    let descriptors: Vec<c_int> = object::all()
        .filter_map(|(fd, other)| is_it(&other).then_some(fd))
        .collect();
    let sets = epoll::registrations(object);
    for &descriptor in &descriptors {
        object::take(descriptor);
    }
    fds::finish(state, object, fd);
    for descriptor in descriptors {
        let flags = open::socket_flags(descriptor);
        let cloexec = match flags.contains(SocketFlags::CLOEXEC) {
            true => libc::O_CLOEXEC,
            false => 0,
        };
        // SAFETY: no pointers.
        errno::of(unsafe { real::dup3(fresh.as_raw_fd(), descriptor, cloexec) })?;
    }
    epoll::register_at_kernel(sets);
    Ok(())
}

fn fresh(state: &State, object: &Found, fd: c_int) -> Outcome<OwnedFd> {
    let slot = state.arena().own(object.slot());
    let family = match slot.flags() & flags::SIX {
        0 => libc::AF_INET,
        _ => libc::AF_INET6,
    };
    let nonblocking = match open::socket_flags(fd).contains(SocketFlags::NONBLOCK) {
        true => libc::SOCK_NONBLOCK,
        false => 0,
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | nonblocking;
    // SAFETY: no pointers.
    let fresh = errno::of(unsafe { real::socket(family, kind, 0) })?;
    // SAFETY: just made, nobody else's.
    let fresh = unsafe { OwnedFd::from_raw_fd(fresh) };
    options::copy_times_to(fd, &fresh);
    Ok(fresh)
}
