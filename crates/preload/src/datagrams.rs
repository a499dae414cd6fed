//! Datagrams of addresses of ours: a kernel socket that stands for them, and a hidden stream of
//! records to the carrier, which sends and receives them.

use crate::errno::Outcome;
use crate::object::Found;
use crate::open::Plain;
use crate::state::State;
use libc::c_int;
use std::net::SocketAddr;

/// `bind` to an address of ours.
pub(crate) fn bind(_: &State, _: c_int, _: Plain, _: SocketAddr) -> Outcome<()> {
    Err(libc::EADDRNOTAVAIL)
}

/// `connect` to an address of ours. `None`: the kernel's.
pub(crate) fn connect(_: &State, _: c_int, _: Plain, _: SocketAddr) -> Option<Outcome<()>> {
    None
}

/// What is ready, as epoll says it.
pub(crate) fn ready(_: &State, _: &Found) -> u32 {
    0
}

/// Whether its name is ours to tell.
pub(crate) fn has_name(_: &State, _: &Found) -> bool {
    false
}

/// The address it is connected to, if that is ours.
pub(crate) fn peer(_: &State, _: &Found) -> Option<SocketAddr> {
    None
}
