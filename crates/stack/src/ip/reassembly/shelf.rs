//! The incomplete datagrams in memory, by number and by age, those of one source apart from those
//! of others.
//!
//! Sources share a drawer when a keyed hash of their addresses says so; nobody can choose whose
//! drawer is shared. When memory runs short the fullest drawer gives up its oldest datagram: who
//! floods us with fragments fills a drawer and loses what is in it (FragmentSmack,
//! CVE-2018-5391), others keep theirs.

use alloc::vec::Vec;

use gannet_base::Instant;

use super::datagram::Datagram;

/// Drawers of each family: datagrams of one family expire in the order in which they began.
const DRAWERS: usize = 32;
/// No datagram.
const NONE: u32 = u32::MAX;

/// Which drawer a datagram is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawerId(usize);

impl DrawerId {
    /// The drawer for a source whose address has this keyed hash.
    pub(super) fn new(hash: u64, is_ipv6: bool) -> Self {
        DrawerId(hash as usize % DRAWERS + if is_ipv6 { DRAWERS } else { 0 })
    }
}

/// A datagram in its drawer, or an empty place.
struct Place {
    datagram: Option<Datagram>,
    drawer: DrawerId,
    older: u32,
    newer: u32,
}

/// The datagrams of some sources, oldest first.
#[derive(Clone, Copy)]
struct Drawer {
    oldest: u32,
    newest: u32,
    bytes: usize,
}

/// All incomplete datagrams.
pub(super) struct Shelf {
    places: Vec<Place>,
    free: Vec<u32>,
    drawers: [Drawer; 2 * DRAWERS],
    bytes: usize,
}

impl Shelf {
    pub(super) const fn new() -> Self {
        let empty = Drawer {
            oldest: NONE,
            newest: NONE,
            bytes: 0,
        };
        Shelf {
            places: Vec::new(),
            free: Vec::new(),
            drawers: [empty; 2 * DRAWERS],
            bytes: 0,
        }
    }

    /// What all datagrams cost.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Datagram> {
        self.places.get_mut(number as usize)?.datagram.as_mut()
    }

    /// Adds a datagram, the newest of its drawer; its number.
    pub(super) fn insert(&mut self, drawer: DrawerId, datagram: Datagram) -> u32 {
        let bytes = datagram.cost();
        let place = Place {
            datagram: Some(datagram),
            drawer,
            older: self.drawers.get(drawer.0).map_or(NONE, |d| d.newest),
            newer: NONE,
        };
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.places.push(Place {
                    datagram: None,
                    ..place
                });
                self.places.len() as u32 - 1
            }
        };
        let older = place.older;
        if let Some(free) = self.places.get_mut(number as usize) {
            *free = place;
        }
        if let Some(older) = self.places.get_mut(older as usize) {
            older.newer = number;
        }
        if let Some(drawer) = self.drawers.get_mut(drawer.0) {
            drawer.newest = number;
            if drawer.oldest == NONE {
                drawer.oldest = number;
            }
        }
        self.charge(number, 0, bytes);
        number
    }

    /// A datagram cost `before` and costs `after` now.
    pub(super) fn charge(&mut self, number: u32, before: usize, after: usize) {
        let place = self.places.get(number as usize);
        let drawer = place.and_then(|p| self.drawers.get_mut(p.drawer.0));
        if let Some(drawer) = drawer {
            drawer.bytes = drawer.bytes + after - before;
            self.bytes = self.bytes + after - before;
        }
    }

    /// Takes a datagram out.
    pub(super) fn remove(&mut self, number: u32) -> Option<Datagram> {
        let place = self.places.get_mut(number as usize)?;
        let datagram = place.datagram.take()?;
        let (older, newer, drawer) = (place.older, place.newer, place.drawer);
        self.charge(number, datagram.cost(), 0);
        if let Some(place) = self.places.get_mut(older as usize) {
            place.newer = newer;
        }
        if let Some(place) = self.places.get_mut(newer as usize) {
            place.older = older;
        }
        if let Some(drawer) = self.drawers.get_mut(drawer.0) {
            if drawer.oldest == number {
                drawer.oldest = newer;
            }
            if drawer.newest == number {
                drawer.newest = older;
            }
        }
        self.free.push(number);
        Some(datagram)
    }

    /// The one to go when memory runs short: the oldest in the fullest drawer.
    pub(super) fn victim(&self) -> Option<u32> {
        let fullest = self.drawers.iter().max_by_key(|d| d.bytes)?;
        (fullest.oldest != NONE).then_some(fullest.oldest)
    }

    /// The next to expire, and when.
    pub(super) fn next_to_expire(&self) -> Option<(u32, Instant)> {
        let oldest = self.drawers.iter().filter_map(|d| {
            let place = self.places.get(d.oldest as usize)?;
            Some((d.oldest, place.datagram.as_ref()?.expires))
        });
        oldest.min_by_key(|(_, expires)| *expires)
    }

    /// A datagram for which `is_one` holds.
    pub(super) fn find(&self, is_one: impl Fn(&Datagram) -> bool) -> Option<u32> {
        let holds = |p: &Place| p.datagram.as_ref().is_some_and(&is_one);
        self.places.iter().position(holds).map(|at| at as u32)
    }

    /// Asserts what must always hold.
    #[cfg(test)]
    pub(super) fn invariants(&self) {
        let mut seen = 0;
        let mut total = 0;
        for drawer in &self.drawers {
            let (mut at, mut before, mut bytes) = (drawer.oldest, NONE, 0);
            while let Some(place) = self.places.get(at as usize) {
                let datagram = place.datagram.as_ref().expect("listed");
                assert_eq!(place.older, before);
                bytes += datagram.cost();
                seen += 1;
                (before, at) = (at, place.newer);
            }
            assert_eq!(drawer.newest, before);
            assert_eq!(drawer.bytes, bytes);
            total += bytes;
        }
        assert_eq!(seen, self.len());
        assert_eq!(total, self.bytes);
    }
}
