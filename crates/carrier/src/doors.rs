//! Doors: where the program listens at the carrier's links.
//!
//! A listener of the program's takes streams of this machine; a door takes TCP connections for it.
//! Several listeners may share one door (`SO_REUSEPORT`, or one that begins before another has
//! ended).

use crate::tcp_options;
use gannet::{Host, Interest, ListenOptions, Poller, TcpListener, TcpStream};
use gannet_local::name::{self, Family, Place};
use gannet_local::slot::{State, flags};
use gannet_local::{Arena, HostId, Network};
use rustix::net::SocketAddrUnix;
use std::net::SocketAddr;

/// Connections that are open and wait for the program's listener, besides those in its own queue.
const BACKLOG: usize = 4096;
/// Distinguishes doors from streams among the poller's tokens.
const DOOR: u64 = 1 << 32;

/// One place where the program listens.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    at: SocketAddr,
    family: Family,
    /// Slots of the program's listeners here, with their generations.
    slots: Vec<(u32, u32)>,
    /// A connection for which the program's listener has no room.
    pub(crate) waiting: Option<TcpStream>,
    /// Which of those that share the port is next.
    turn: u32,
    watched: bool,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    all: Vec<Option<Door>>,
}

/// The number of the door that an event of the poller is about.
pub(crate) fn number(token: u64) -> Option<usize> {
    (token & DOOR != 0).then_some((token & !DOOR) as usize)
}

impl Doors {
    /// The listener in slot `n` is open: connections are taken for it.
    ///
    /// # Errors
    /// An errno, as `listen` gives it.
    pub(crate) fn open(
        &mut self,
        (host, poller): (&Host, &Poller),
        program: &Arena,
        n: u32,
    ) -> Result<(), i32> {
        let slot = program.peer(n);
        if slot.state() != State::Listen {
            return Err(libc::EINVAL);
        }
        self.prune(program);
        let (at, known) = (slot.local(), slot.flags());
        if at.ip().is_loopback() {
            return Ok(());
        }
        // As the library names it: one address has one family, whatever the socket was made as.
        let family = match (at.ip().is_unspecified(), known & (flags::SIX | flags::DUAL)) {
            (false, _) if at.is_ipv4() => Family::Four,
            (false, _) | (true, flags::SIX) => Family::Six,
            (true, 0) => Family::Four,
            (true, _) => Family::Both,
        };
        let same = |door: &&mut Door| door.at == at && door.family == family;
        if let Some(door) = self.all.iter_mut().flatten().find(same) {
            let known = (slot.number(), slot.generation());
            if !door.slots.contains(&known) {
                door.slots.push(known);
            }
            // (its options may have changed since, which is why it is told again)
            let _ = tcp_options::listen(&door.listener, slot);
            return Ok(());
        }
        let options = ListenOptions {
            backlog: BACKLOG,
            only_v6: family == Family::Six && at.ip().is_unspecified(),
        };
        let failed = |error: std::io::Error| gannet::os_code(&error).unwrap_or(libc::EIO);
        let listener = TcpListener::bind_with(host, at, options).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        tcp_options::listen(&listener, slot).map_err(failed)?;
        let mut door = Door {
            listener,
            at,
            family,
            slots: vec![(slot.number(), slot.generation())],
            waiting: None,
            turn: 0,
            watched: false,
        };
        let place = self.free_place();
        door.watch(poller, place, true);
        if let Some(entry) = self.all.get_mut(place) {
            *entry = Some(door);
        }
        Ok(())
    }

    fn free_place(&mut self) -> usize {
        if let Some(free) = self.all.iter().position(Option::is_none) {
            return free;
        }
        self.all.push(None);
        self.all.len() - 1
    }

    /// Closes doors behind which nobody listens any more.
    pub(crate) fn prune(&mut self, program: &Arena) {
        for place in &mut self.all {
            let Some(door) = place else { continue };
            door.slots.retain(|&(n, generation)| {
                let slot = program.peer(n);
                slot.generation() == generation && slot.state() == State::Listen
            });
            if door.slots.is_empty() {
                *place = None;
            }
        }
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut Door> {
        self.all.get_mut(number)?.as_mut()
    }

    /// The doors where a connection waits for room.
    pub(crate) fn crowded(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.all.iter().enumerate();
        all.filter(|(_, door)| door.as_ref().is_some_and(|door| door.waiting.is_some()))
            .map(|(number, _)| number)
    }

    /// No connection waits for a program any more: none is left.
    pub(crate) fn close_all(&mut self) {
        self.all.clear();
    }
}

impl Door {
    /// The next connection, if there is one.
    pub(crate) fn next(&mut self) -> Option<TcpStream> {
        match self.waiting.take() {
            Some(waiting) => Some(waiting),
            None => self.listener.accept().ok().map(|(stream, _)| stream),
        }
    }

    /// From now on, or no longer, hears of new connections.
    pub(crate) fn watch(&mut self, poller: &Poller, number: usize, on: bool) {
        if on == self.watched {
            return;
        }
        self.watched = on;
        // These fail only for sockets of other hosts, and as `watched` rules out.
        let _ = match on {
            true => poller.add(&self.listener, DOOR | number as u64, Interest::READABLE),
            false => poller.delete(&self.listener),
        };
    }

    /// The names under which the program may listen for a connection to `local`.
    pub(crate) fn names(
        &mut self,
        network: &Network,
        host: HostId,
        local: SocketAddr,
    ) -> impl Iterator<Item = SocketAddrUnix> + use<> {
        self.turn = self.turn.wrapping_add(1);
        // Those who share a port have its first numbers, mostly.
        let first = self.turn % u32::try_from(self.slots.len()).unwrap_or(1).max(1);
        let sharers =
            move || (0..name::SHARERS).map(move |n| 1 + n.wrapping_add(first) % name::SHARERS);
        let (family, port) = (self.family, self.at.port());
        let everywhere = self.at.ip().is_unspecified().then_some(Place::All(host));
        let places = [everywhere, Some(Place::At(local.ip()))];
        let places = places
            .into_iter()
            .flatten()
            .map(move |place| (family, place));
        name::names_at(*network, places, port, sharers)
    }
}
