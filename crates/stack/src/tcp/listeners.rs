//! Every listening socket of a host, and which of them a SYN is for.
//!
//! Found by a keyed hash of the very address and port they listen on, so that a host with thousands
//! of listeners looks at three places for a SYN at the most:
//!
//! ```text
//!   192.0.2.1:80   the very address
//!   0.0.0.0:80     every address of the family
//!   [::]:80        every address of both, for IPv4, unless it said IPv6 alone
//! ```

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::{Ipv6Addr, SocketAddr};

use gannet_base::Instant;
use hashbrown::HashTable;

use super::fast_open::Pending;
use super::settings::Settings;
use super::socket::{ListenerId, TcpId};
use crate::address::{takes, unspecified};
use crate::hash::{HashKey, KeyedState};

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) local: SocketAddr,
    /// On `::`: takes no connections of IPv4.
    pub(super) only_six: bool,
    pub(super) backlog: usize,
    /// Requests: connections being opened through it.
    pub(super) opening: usize,
    /// Until then an acknowledgement may bring back a cookie.
    pub(super) cookies_until: Instant,
    /// Open connections nobody has accepted.
    pub(super) waiting: VecDeque<TcpId>,
    pub(super) signalled: bool,
    /// Open connections whose peer has yet to acknowledge (RFC 7413).
    pub(super) fast: Arc<Pending>,
    /// Of the connections it makes.
    pub(super) settings: Settings,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    listener: Option<Listener>,
}

/// All of them.
pub(super) struct Listeners {
    places: Vec<Place>,
    free: Vec<u32>,
    /// By address and port, which stand in the listener.
    ends: HashTable<u32>,
    hasher: KeyedState,
}

impl Listeners {
    pub(super) fn new(key: HashKey) -> Self {
        Listeners {
            places: Vec::new(),
            free: Vec::new(),
            ends: HashTable::new(),
            hasher: KeyedState::new(key),
        }
    }

    /// Adds one that collides with no other.
    pub(super) fn add(
        &mut self,
        (local, only_six): (SocketAddr, bool),
        backlog: usize,
        settings: Settings,
    ) -> ListenerId {
        let listener = Listener {
            local,
            only_six,
            backlog,
            opening: 0,
            cookies_until: Instant::ZERO,
            waiting: VecDeque::new(),
            signalled: false,
            fast: Arc::default(),
            settings,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                listener: None,
            });
            (self.places.len() - 1) as u32
        });
        let mut generation = 0;
        if let Some(place) = self.places.get_mut(index as usize) {
            place.listener = Some(listener);
            generation = place.generation;
        }
        let Listeners {
            places,
            ends,
            hasher,
            ..
        } = self;
        let hash_of = |&i: &u32| local_at(places, i).map_or(0, |at| hash(hasher, at));
        ends.insert_unique(hash(hasher, local), index, hash_of);
        ListenerId { index, generation }
    }

    /// Takes one out; its id names nothing.
    pub(super) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let listener = place.listener.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        let hash = hash(&self.hasher, listener.local);
        if let Ok(found) = self.ends.find_entry(hash, |&i| i == id.index) {
            found.remove();
        }
        Some(listener)
    }

    /// The one that `id` names.
    pub(super) fn get(&self, id: ListenerId) -> Option<&Listener> {
        let place = self.places.get(id.index as usize)?;
        place
            .listener
            .as_ref()
            .filter(|_| place.generation == id.generation)
    }

    /// The one that `id` names.
    pub(super) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        let place = self.places.get_mut(id.index as usize)?;
        place
            .listener
            .as_mut()
            .filter(|_| place.generation == id.generation)
    }

    /// The listener for `local`: one on the very address before one on every address.
    pub(super) fn find(&self, local: SocketAddr) -> Option<ListenerId> {
        let any = SocketAddr::new(unspecified(local.ip()), local.port());
        let found = self.on(local).or_else(|| self.on(any));
        if found.is_some() || local.is_ipv6() {
            return found;
        }
        let six = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), local.port());
        let both = self.on(six);
        both.filter(|&id| self.get(id).is_some_and(|l| !l.only_six))
    }

    /// The listener on exactly this address and port.
    pub(super) fn on(&self, local: SocketAddr) -> Option<ListenerId> {
        let same = |&i: &u32| local_at(&self.places, i) == Some(local);
        let index = *self.ends.find(hash(&self.hasher, local), same)?;
        let generation = self.places.get(index as usize)?.generation;
        Some(ListenerId { index, generation })
    }

    /// Every one, with its id.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (ListenerId, &Listener)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(index, place)| {
            let id = ListenerId {
                index: index as u32,
                generation: place.generation,
            };
            Some((id, place.listener.as_ref()?))
        })
    }

    /// Whether a listener on `local`, for IPv6 alone or for both families, would collide with
    /// another. (Looks at all of them: only an application asks, once for each.)
    pub(super) fn collides(&self, local: SocketAddr, only_six: bool) -> bool {
        self.places
            .iter()
            .filter_map(|p| p.listener.as_ref())
            .any(|l| {
                l.local.port() == local.port()
                    && (takes(l.local.ip(), l.only_six, local.ip())
                        || takes(local.ip(), only_six, l.local.ip()))
            })
    }

    /// Asserts what must always hold; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn invariants(&self) {
        let used = self.iter().count();
        assert_eq!(used, self.places.len() - self.free.len());
        assert_eq!(used, self.ends.len(), "each is found by its address");
        for (id, listener) in self.iter() {
            assert_eq!(self.on(listener.local), Some(id));
            assert!(listener.waiting.len() <= listener.backlog);
        }
    }
}

/// What the one at `index` listens on.
fn local_at(places: &[Place], index: u32) -> Option<SocketAddr> {
    let listener = places.get(index as usize)?.listener.as_ref()?;
    Some(listener.local)
}

fn hash(hasher: &KeyedState, local: SocketAddr) -> u64 {
    hasher.hash_one((local.ip(), local.port()))
}

#[cfg(test)]
mod tests;
