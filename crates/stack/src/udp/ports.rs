//! Which socket a datagram is for: a table of two levels indexed by port, one list per port. No
//! hashing, so nothing to flood; a list is as long as we have addresses.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::socket::{Binding, Socket};
use crate::address::takes;

/// No socket.
pub(super) const NONE: u32 = u32::MAX;

/// First socket of every port.
pub(super) struct Ports {
    pages: Vec<Option<Box<[u32; 256]>>>,
}

impl Ports {
    pub(super) fn new() -> Self {
        let mut pages = Vec::new();
        pages.resize_with(256, || None);
        Ports { pages }
    }

    #[inline]
    pub(super) fn first(&self, port: u16) -> u32 {
        let [page, place] = port.to_be_bytes();
        let page = self.pages.get(usize::from(page)).and_then(Option::as_ref);
        page.and_then(|p| p.get(usize::from(place)))
            .copied()
            .unwrap_or(NONE)
    }

    pub(super) fn set_first(&mut self, port: u16, socket: u32) {
        let [page, place] = port.to_be_bytes();
        if let Some(page) = self.pages.get_mut(usize::from(page)) {
            let page = page.get_or_insert_with(|| Box::new([NONE; 256]));
            if let Some(first) = page.get_mut(usize::from(place)) {
                *first = socket;
            }
        }
    }

    /// The socket that follows in the list of a port.
    pub(super) fn behind(&self, sockets: &[Option<Socket>], index: u32) -> u32 {
        let socket = sockets.get(index as usize).and_then(Option::as_ref);
        socket.map_or(NONE, |s| s.next)
    }

    /// Whether a socket on `local` would collide with one on every address of the other family too.
    pub(super) fn shadowed(
        &self,
        sockets: &[Option<Socket>],
        local: SocketAddr,
        how: Binding,
    ) -> bool {
        let any = local.ip().is_unspecified() && !how.only_six;
        let both = |s: &Socket| {
            let other = s.local.is_ipv6() != local.is_ipv6();
            let shared = how.shared && s.shared;
            other && s.local.ip().is_unspecified() && !s.only_six && !shared
        };
        any && self.on_port(sockets, local.port()).any(|(_, s)| both(s))
    }

    /// Whether a socket that is bound to exactly `local` keeps another from it: unless both share.
    pub(super) fn taken(
        &self,
        sockets: &[Option<Socket>],
        local: SocketAddr,
        shared: bool,
    ) -> bool {
        let mut there = self
            .on_port(sockets, local.port())
            .filter(|(_, s)| s.local == local);
        there.any(|(_, s)| !shared || !s.shared)
    }

    /// The socket that a datagram is for: one bound to the address itself before one bound to every
    /// address. A connected one takes only what its peer sent, to the address it talks from.
    #[inline]
    pub(super) fn receiver(
        &self,
        sockets: &[Option<Socket>],
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<u32> {
        let rank = |s: &Socket| (!s.local.ip().is_unspecified(), s.remote.is_some());
        self.on_port(sockets, local.port())
            .filter(|(_, s)| wants(s, local, remote))
            .max_by_key(|(_, s)| rank(s))
            .map(|(index, _)| index)
    }

    /// The first socket from `from` on, in the list of a port, that takes what `remote` sends to
    /// `local` and is `eligible`.
    pub(super) fn next_receiver(
        &self,
        sockets: &[Option<Socket>],
        from: u32,
        (local, remote): (SocketAddr, SocketAddr),
        eligible: impl Fn(&Socket) -> bool,
    ) -> Option<u32> {
        list(sockets, from)
            .find(|(_, s)| wants(s, local, remote) && eligible(s))
            .map(|(index, _)| index)
    }

    fn on_port<'s>(
        &self,
        sockets: &'s [Option<Socket>],
        port: u16,
    ) -> impl Iterator<Item = (u32, &'s Socket)> + use<'s> {
        list(sockets, self.first(port))
    }
}

/// The sockets of a port's list from `first` on.
fn list(sockets: &[Option<Socket>], first: u32) -> impl Iterator<Item = (u32, &Socket)> {
    let get = |index: u32| {
        let socket = sockets.get(index as usize)?.as_ref()?;
        Some((index, socket))
    };
    core::iter::successors(get(first), move |(_, s)| get(s.next))
}

/// Whether a socket takes what `remote` sends to `local`.
#[inline]
fn wants(s: &Socket, local: SocketAddr, remote: SocketAddr) -> bool {
    let address = takes(s.local.ip(), s.only_six, local.ip());
    let source = s.source.is_none_or(|a| a == local.ip());
    address && source && s.remote.is_none_or(|r| r == remote)
}
