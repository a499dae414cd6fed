//! Every connection of a host, and how a segment finds its own.

use core::net::SocketAddr;

use alloc::vec::Vec;
use core::hash::BuildHasher;
use hashbrown::HashTable;

use gannet_base::Instant;

use super::connection::Connection;
use super::ends::Ends;
use super::listeners::Listeners;
use super::orphans::Kept;
use super::socket::TcpId;
use crate::hash::{HashKey, KeyedState};

/// Both ends of a connection, as a key.
pub(super) type Pair = (SocketAddr, SocketAddr);

/// A place for a connection.
#[derive(Debug)]
pub(super) struct Place {
    generation: u32,
    entry: Option<Entry>,
}

#[cfg(test)]
impl Place {
    /// Bytes of one.
    pub(super) const SIZE: usize = size_of::<Place>();
}

/// A connection with what the table keeps about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) conn: Connection,
    /// When the wheel will call, `FAR_FUTURE` if it will not.
    pub(super) armed: Instant,
    /// It stands in the list of those that owe output.
    pub(super) owes: bool,
    /// It found its link full and is listed as such.
    pub(super) stuck: bool,
    /// It stands in the list of those whose readiness changed.
    pub(super) signalled: bool,
    /// Readiness when it was last told: readable, writable.
    pub(super) was: (bool, bool),
    /// It stands in the list of those that wait for a neighbour's answer.
    pub(super) unresolved: bool,
    /// Somebody waits for memory to write.
    pub(super) wants_memory: bool,
    /// As what it is counted once nobody holds it.
    pub(super) kept: Kept,
}

impl Entry {
    /// Whether its holder must be told that readiness has changed, and has not been told yet.
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        let is = (self.conn.is_readable(), self.conn.is_writable());
        let news = (is.0 && !self.was.0) || (is.1 && !self.was.1) || self.conn.error.is_some();
        self.was = is;
        if !(core::mem::take(&mut self.conn.news) || news) {
            return false;
        }
        self.conn.attached && !core::mem::replace(&mut self.signalled, true)
    }
}

/// Both ends of IPv4, as quick to compare as can be: addresses and ports.
type Four = (u64, u32);

/// No connection.
const NOBODY: (Four, u32) = ((0, 0), u32::MAX);

#[inline]
fn four(local: &SocketAddr, remote: &SocketAddr) -> Option<Four> {
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (local, remote) else {
        return None;
    };
    let addresses = u64::from(local.ip().to_bits()) << 32 | u64::from(remote.ip().to_bits());
    Some((
        addresses,
        u32::from(local.port()) << 16 | u32::from(remote.port()),
    ))
}

/// All of them.
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Those that can be found by their ends; the ends stand in the connection.
    pairs: HashTable<u32>,
    hasher: KeyedState,
    /// The connection of IPv4 that the last segment was for; address and port 0 are nobody's.
    last: (Four, u32),
    pub(super) listeners: Listeners,
}

impl Table {
    pub(super) fn new(key: HashKey) -> Self {
        Table {
            places: Vec::new(),
            free: Vec::new(),
            pairs: HashTable::new(),
            hasher: KeyedState::new(key),
            last: NOBODY,
            listeners: Listeners::new(key),
        }
    }

    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Adds a connection whose pair of ends is free.
    pub(super) fn add(&mut self, conn: Connection) -> TcpId {
        let pair = (conn.local, conn.remote);
        let entry = Entry {
            conn,
            armed: Instant::FAR_FUTURE,
            owes: false,
            stuck: false,
            signalled: false,
            was: (false, false),
            unresolved: false,
            wants_memory: false,
            kept: Kept::No,
        };
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.places.push(Place {
                    generation: 0,
                    entry: None,
                });
                (self.places.len() - 1) as u32
            }
        };
        let mut generation = 0;
        if let Some(place) = self.places.get_mut(index as usize) {
            place.entry = Some(entry);
            generation = place.generation;
        }
        let Table {
            places,
            pairs,
            hasher,
            ..
        } = self;
        let hash_of = |&i: &u32| {
            let pair = pair_at(places, i);
            pair.map_or(0, |pair| hasher.hash_one(Ends::from(pair)))
        };
        pairs.insert_unique(hasher.hash_one(Ends::from(pair)), index, hash_of);
        TcpId { index, generation }
    }

    /// Takes a connection out. Its pair of ends is free again, its id names nothing.
    pub(super) fn remove(&mut self, index: u32) -> Option<Entry> {
        let place = self.places.get_mut(index as usize)?;
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        self.forget_pair(index, (entry.conn.local, entry.conn.remote));
        Some(entry)
    }

    /// Frees the pair of ends of a connection that is over but still held.
    pub(super) fn forget_pair(&mut self, index: u32, pair: Pair) {
        let hash = self.hasher.hash_one(Ends::from(pair));
        if let Ok(found) = self.pairs.find_entry(hash, |&i| i == index) {
            found.remove();
        }
        if self.last.1 == index {
            self.last = NOBODY;
        }
    }

    /// The connection at `index`.
    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.places.get_mut(index as usize)?.entry.as_mut()
    }

    /// The id of the connection at `index`.
    #[inline]
    pub(super) fn id(&self, index: u32) -> Option<TcpId> {
        let place = self.places.get(index as usize)?;
        place.entry.as_ref()?;
        Some(TcpId {
            index,
            generation: place.generation,
        })
    }

    /// The connection that `id` names.
    #[inline]
    pub(super) fn get(&self, id: TcpId) -> Option<&Entry> {
        let place = self.places.get(id.index as usize)?;
        place
            .entry
            .as_ref()
            .filter(|_| place.generation == id.generation)
    }

    /// The connection that `id` names.
    #[inline]
    pub(super) fn get_mut(&mut self, id: TcpId) -> Option<&mut Entry> {
        let place = self.places.get_mut(id.index as usize)?;
        place
            .entry
            .as_mut()
            .filter(|_| place.generation == id.generation)
    }

    /// Index of the connection between these ends.
    #[inline]
    pub(super) fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let ends = four(&local, &remote);
        if ends == Some(self.last.0) {
            return Some(self.last.1);
        }
        let index = self.look_up((local, remote))?;
        if let Some(ends) = ends {
            self.last = (ends, index);
        }
        Some(index)
    }

    fn look_up(&self, pair: Pair) -> Option<u32> {
        let hash = self.hasher.hash_one(Ends::from(pair));
        let same = |&i: &u32| pair_at(&self.places, i) == Some(pair);
        self.pairs.find(hash, same).copied()
    }

    /// Whether a connection between these ends exists.
    pub(super) fn is_taken(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.look_up((local, remote)).is_some()
    }

    /// Every connection.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().filter_map(|p| p.entry.as_ref())
    }

    /// Every index in use.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + use<> {
        let used = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, p)| p.entry.is_some());
        used.map(|(i, _)| i as u32).collect::<Vec<_>>().into_iter()
    }

    /// Whether a listener for `local` takes one more connection.
    pub(super) fn has_room(&self, local: SocketAddr) -> bool {
        let listener = self.listeners.find(local);
        let listener = listener.and_then(|id| self.listeners.get(id));
        listener.is_some_and(|l| l.waiting.len() < l.backlog)
    }

    /// Asserts what must always hold; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn invariants(&self) {
        let used = self.places.iter().filter(|p| p.entry.is_some()).count();
        assert_eq!(used, self.len(), "every place is used or free");
        for &index in &self.pairs {
            let pair = pair_at(&self.places, index).expect("a pair names a connection");
            assert_eq!(self.look_up(pair), Some(index));
        }
        self.listeners.invariants();
    }
}

/// Both ends of the connection at `index`.
fn pair_at(places: &[Place], index: u32) -> Option<Pair> {
    let conn = &places.get(index as usize)?.entry.as_ref()?.conn;
    Some((conn.local, conn.remote))
}
