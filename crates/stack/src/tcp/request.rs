//! Half-open connections: what a listener remembers of a SYN until the acknowledgement of its
//! answer arrives. A flood makes many of them, so they are small, have a table and a wheel of their
//! own and no memory beside it. For every step that they take they become a [`Connection`] in
//! SYN-RECEIVED for a moment, so the rules stand in `handshake.rs` alone.

use alloc::vec::Vec;

use hashbrown::HashTable;

use core::hash::BuildHasher;

use gannet_base::Instant;
use gannet_link::Driver;

use super::connection::{Connection, Cx, State};
use super::ends::Ends;
use super::handshake::Opening;
use super::offer::Offer;
use super::seq::SeqNum;
use super::settings::Settings;
use super::socket::ListenerId;
use super::table::Pair;
use crate::hash::FourTuple;
use crate::hash::{HashKey, KeyedState};
use crate::link::LinkId;
use crate::timer::Wheel;

const SACK: u8 = 1;
const TIMESTAMP: u8 = 2;
const SCALE: u8 = 4;
const MSS: u8 = 8;
const ECN: u8 = 16;
const FAST_OPEN: u8 = 32;

/// A SYN that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Our end and the peer's.
    pub(super) ends: Ends,
    pub(super) listener: ListenerId,
    /// Where the SYN came in.
    pub(super) link: LinkId,
    iss: SeqNum,
    irs: SeqNum,
    /// When the first SYN-ACK left.
    sent_at: Instant,
    challenge_at: Instant,
    timestamp: u32,
    mss: u16,
    scale: u8,
    /// SYN-ACKs sent.
    pub(super) sent: u8,
    /// Which of `timestamp`, `mss`, `scale` were there, and SACK and ECN.
    offered: u8,
}

// RFC 4987 section 3.4 (FreeBSD's syncache has 160): a place, its timer (24) and its share of the
// index (8 at the worst load) within 128 bytes, IPv6's addresses included
const _: () = assert!(size_of::<Option<Request>>() <= 104);

impl Request {
    /// What is worth keeping of `conn`, which is in SYN-RECEIVED. `link`: where its SYN came in.
    pub(super) fn of(conn: &Connection, link: LinkId) -> Option<Self> {
        let (State::SynReceived(opening), Some(listener)) = (&conn.state, conn.listener) else {
            return None;
        };
        let Offer {
            mss,
            scale,
            sack,
            timestamp,
            ecn,
            fast_open,
        } = opening.offer;
        let flag = |is: bool, flag| if is { flag } else { 0 };
        Some(Request {
            ends: Ends::from((conn.local, conn.remote)),
            listener,
            link,
            iss: opening.iss,
            irs: opening.irs,
            sent_at: opening.sent_at,
            challenge_at: opening.challenge_at,
            timestamp: timestamp.unwrap_or(0),
            mss: mss.unwrap_or(0),
            scale: scale.unwrap_or(0),
            sent: opening.sent,
            offered: flag(sack, SACK)
                | flag(timestamp.is_some(), TIMESTAMP)
                | flag(scale.is_some(), SCALE)
                | flag(mss.is_some(), MSS)
                | flag(ecn, ECN)
                | flag(fast_open, FAST_OPEN),
        })
    }

    fn offer(&self) -> Offer {
        let has = |flag| self.offered & flag != 0;
        Offer {
            mss: has(MSS).then_some(self.mss),
            scale: has(SCALE).then_some(self.scale),
            sack: has(SACK),
            timestamp: has(TIMESTAMP).then_some(self.timestamp),
            ecn: has(ECN),
            fast_open: has(FAST_OPEN),
        }
    }

    /// The connection in SYN-RECEIVED that it stands for; `None` when no link leads to the peer any
    /// more.
    pub(super) fn connection<D: Driver>(
        &self,
        cx: &mut Cx<'_, D>,
        settings: Settings,
    ) -> Option<Connection> {
        let mut conn = passive(cx, self.ends.pair(), self.link, (self.listener, settings))?;
        let mut opening = Opening::answer(cx, &conn, self.irs, self.offer());
        opening.iss = self.iss;
        opening.sent = self.sent;
        opening.sent_at = self.sent_at;
        opening.challenge_at = self.challenge_at;
        conn.state = State::SynReceived(opening);
        Some(conn)
    }
}

/// A connection that a listener makes for a peer whose SYN came by `link`.
pub(super) fn passive<D: Driver>(
    cx: &mut Cx<'_, D>,
    (local, remote): Pair,
    link: LinkId,
    (listener, settings): (ListenerId, Settings),
) -> Option<Connection> {
    let mut path = cx.ip.path(Some(local.ip()), remote.ip()).ok()?;
    // Two processes that meet at the same time have two channels: answer in the one it came by.
    let peer = cx.ip.links.get(link).and_then(|l| l.config.peer);
    if peer == Some(remote.ip()) {
        path.link = link;
    }
    settings.mark(&mut path);
    path.flow_label = FourTuple { local, remote }.flow_label(cx.key);
    Some(Connection {
        local,
        remote,
        path,
        state: State::Closed,
        settings,
        error: None,
        told: false,
        news: false,
        attached: false,
        listener: Some(listener),
        segments_sent: 0,
        segments_received: 1,
    })
}

/// All requests of a host.
pub(super) struct Requests {
    places: Vec<Option<Request>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: KeyedState,
    wheel: Wheel,
}

impl Requests {
    pub(super) fn new(key: HashKey) -> Self {
        Requests {
            places: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: KeyedState::new(key),
            wheel: Wheel::new(0),
        }
    }

    /// Number of requests.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Bytes held, used or not.
    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * size_of::<Option<Request>>()
            + self.free.capacity() * size_of::<u32>()
            + self.index.allocation_size()
            + self.wheel.memory()
    }

    /// Adds a request whose pair of ends is free; its timer runs out at `at`.
    pub(super) fn add(&mut self, request: Request, at: Instant) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        if let Some(to) = self.places.get_mut(place as usize) {
            *to = Some(request);
        }
        let Requests {
            places,
            index,
            hasher,
            ..
        } = self;
        let hash_of = |&i: &u32| {
            let request = places.get(i as usize).and_then(Option::as_ref);
            request.map_or(0, |r| hasher.hash_one(r.ends))
        };
        index.insert_unique(hasher.hash_one(request.ends), place, hash_of);
        self.wheel.arm(place, at);
    }

    /// Index of the request between these ends.
    pub(super) fn find(&self, ends: &Ends) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        let same = |&i: &u32| self.get(i).is_some_and(|r| r.ends == *ends);
        self.index.find(self.hasher.hash_one(ends), same).copied()
    }

    /// The request at `place`.
    pub(super) fn get(&self, place: u32) -> Option<&Request> {
        self.places.get(place as usize)?.as_ref()
    }

    /// Keeps what became of a request; its timer stays as it is when `at` is `FAR_FUTURE`.
    pub(super) fn update(&mut self, place: u32, request: Request, at: Instant) {
        if let Some(Some(old)) = self.places.get_mut(place as usize) {
            *old = request;
            if at < Instant::FAR_FUTURE {
                self.wheel.arm(place, at);
            }
        }
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, place: u32) -> Option<Request> {
        let request = self.places.get_mut(place as usize)?.take()?;
        let hash = self.hasher.hash_one(request.ends);
        if let Ok(found) = self.index.find_entry(hash, |&i| i == place) {
            found.remove();
        }
        self.free.push(place);
        self.wheel.cancel(place);
        Some(request)
    }

    /// A request whose timer has run out.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<u32> {
        self.wheel.pop_expired(now)
    }

    /// When the next timer runs out.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.wheel.next_expiry()
    }

    /// Those whose answer could not leave yet are due at once.
    pub(super) fn neighbours_changed(&mut self) {
        let places = self.places.iter().enumerate();
        for (place, _) in places.filter(|(_, r)| r.is_some_and(|r| r.sent == 0)) {
            self.wheel.arm(place as u32, Instant::ZERO);
        }
    }

    /// Those that `which` picks.
    pub(super) fn which(&self, which: impl Fn(&Request) -> bool) -> Vec<u32> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, r)| r.as_ref().is_some_and(&which))
            .map(|(i, _)| i as u32)
            .collect()
    }

    /// Those that came by `link`.
    pub(super) fn on_link(&self, link: LinkId) -> Vec<u32> {
        self.which(|r| r.link == link)
    }

    /// Asserts what must always hold; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn invariants(&self) {
        assert_eq!(self.index.len(), self.len());
        assert_eq!(self.wheel.armed(), self.len(), "each has a timer");
        let places = self.places.iter().enumerate();
        for (place, request) in places.filter_map(|(i, r)| Some((i, r.as_ref()?))) {
            assert_eq!(self.find(&request.ends), Some(place as u32));
        }
    }
}
