//! News: which streams of another program's have changed since its process looked last.
//!
//! A process that watches ten thousand streams must not look at each of them whenever it asks what
//! is ready. So every program keeps, for each program it has streams with, a ring of the numbers of
//! *their* slots which its own processes have done something to. The watcher follows that ring with
//! a cursor of its own; several processes may follow the same ring.
//!
//! ```text
//! teller:   publish the bytes;  turn = tail++;  entry[turn % n] = (turn, slot)
//!           is the watcher asleep?  then wake it
//! watcher:  asleep = number of this sleep;  fence;  any news?  then do not sleep
//! ```
//! Bytes are published before the entry is taken, so a watcher that finds an entry missing (its
//! writer was stopped or killed in between) or overwritten (it was slow) only has to look at all
//! of its streams once. News is a hint; what is true stands in the slots.

use crate::arena::{Arena, HostId, UNKNOWN};
use crate::bell;
use crate::layout::{NEWS_ENTRIES, NEWS_RINGS, SLEEPERS, header, news, sleeper};
use crate::lock::{self, Lock};
use crate::slot::PeerSlot;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The value of [`crate::slot::PeerSlot::watch`] for "wake always": more than one set watches.
pub const ALWAYS: u32 = u32::MAX;
/// Sleepers woken for one stream that several watch: the other program says how many sleep.
const RUNG_AT_ONCE: usize = 512;
/// Entries after which a watcher gives up following and looks at everything.
const FAR_BEHIND: u64 = NEWS_ENTRIES as u64 / 2;

impl Arena {
    /// Tells the watcher of `peer`, a slot of `theirs`. Gives the number of the sleep that has to
    /// be ended by way of the stream, since the watcher has no bell, or this process cannot ring:
    /// it is to be noted in `woken` afterwards. 0: there is more than one watcher.
    pub(crate) fn news_for(
        &self,
        theirs: &Arena,
        peer: PeerSlot<'_>,
        woken: &AtomicU32,
    ) -> Option<u32> {
        let ring = self.news_ring(theirs.host());
        match ring {
            Some(ring) => {
                let tail = self.memory.long(self.geometry.news(ring) + news::TAIL);
                let turn = tail.fetch_add(1, SeqCst);
                let entry = self.geometry.news_entry(ring, turn);
                self.memory
                    .long(entry)
                    .store(pack(turn, peer.number()), Release);
            }
            None => {
                self.memory.word(header::UNSORTED).fetch_add(1, SeqCst);
            }
        }
        fence(SeqCst);
        match peer.watch() {
            0 => None,
            ALWAYS => {
                self.wake_all(theirs, ring);
                Some(0)
            }
            watch => {
                let armed = self.wake_sleeper(theirs, ring, watch)?;
                (woken.load(Relaxed) != armed).then_some(armed)
            }
        }
    }

    /// Rings for a sleeper of `theirs`. Gives the number of its sleep when it has no bell, or this
    /// process cannot ring.
    fn wake_sleeper(&self, theirs: &Arena, ring: Option<usize>, watch: u32) -> Option<u32> {
        let at = theirs.geometry.sleeper(watch as usize - 1);
        let armed = theirs.memory.word(at + sleeper::ARMED).load(Acquire);
        if armed == 0 {
            return None;
        }
        let belled = theirs.memory.word(at + sleeper::BELL).load(Relaxed) != 0;
        if let Some(ring) = ring.filter(|_| belled && bell::can_ring()) {
            let sleeper = bell::Sleeper {
                host: theirs.host(),
                watch,
                armed,
                note: self.geometry.rung(ring, watch),
            };
            if self.ring_for(sleeper) {
                return None;
            }
        }
        Some(armed)
    }

    /// Several watch a stream, of several processes perhaps. What comes through its socket one of
    /// them takes, and the others sleep on: their bells ring. Which sleepers of the program watch
    /// it, no word says.
    #[cold]
    fn wake_all(&self, theirs: &Arena, ring: Option<usize>) {
        let used = theirs.memory.word(header::SLEEPERS).load(Acquire);
        let is_armed = |watch: &u32| {
            let at = theirs.geometry.sleeper(*watch as usize - 1);
            theirs.memory.word(at + sleeper::ARMED).load(Acquire) != 0
        };
        let armed = (1..=used.min(SLEEPERS as u32)).filter(is_armed);
        for watch in armed.take(RUNG_AT_ONCE) {
            self.wake_sleeper(theirs, ring, watch);
        }
    }

    /// The ring for program `host`, opened when there is none yet.
    fn news_ring(&self, host: HostId) -> Option<usize> {
        self.find_news_ring(host)
            .or_else(|| self.open_news_ring(host))
    }

    pub(crate) fn find_news_ring(&self, host: HostId) -> Option<usize> {
        let owner = |n| self.memory.long(self.geometry.news(n) + news::FOR);
        (0..NEWS_RINGS).find(|&n| owner(n).load(Acquire) == host)
    }

    /// One process at a time: those that watch follow one ring, so there must be no second one,
    /// however many rings of programs that are gone become free meanwhile. No other lock is taken
    /// while this one is held.
    #[cold]
    fn open_news_ring(&self, host: HostId) -> Option<usize> {
        let opening = Lock {
            arena: self,
            word: self.memory.long(header::NEWS_LOCK),
            lower: self.memory.word(header::NEWS_LOCK),
        };
        // A handler that interrupts this very thread in here goes without.
        let held = lock::hold(opening).ok()?;
        let opened = self.find_news_ring(host).or_else(|| {
            let owner = |n| self.memory.long(self.geometry.news(n) + news::FOR);
            let taken = |n: &usize| {
                let owner: &AtomicU64 = owner(*n);
                owner.compare_exchange(0, host, AcqRel, Relaxed).is_ok()
            };
            let free = (0..NEWS_RINGS).find(taken)?;
            let opened = self.memory.word(header::NEWS_OPENED);
            opened.fetch_add(1, AcqRel);
            Some(free)
        });
        drop(held);
        opened
    }

    /// The news rings of programs that are gone, as `is_gone` says, can be used for others.
    pub fn forget_news(&self, is_gone: impl Fn(HostId) -> bool) {
        for n in 0..NEWS_RINGS {
            let owner = self.memory.long(self.geometry.news(n) + news::FOR);
            let host = owner.load(Acquire);
            if host != 0 && is_gone(host) {
                let tail = self.memory.long(self.geometry.news(n) + news::TAIL);
                tail.fetch_add(NEWS_ENTRIES as u64, SeqCst);
                // Another program numbers its sleeps anew.
                for watch in 0..news::RUNG_WORDS as u32 {
                    self.memory
                        .word(self.geometry.rung(n, watch))
                        .store(0, Relaxed);
                }
                let _ = owner.compare_exchange(host, 0, AcqRel, Acquire);
            }
        }
    }

    /// Takes a sleeper for process `holder`; gives the value for
    /// [`crate::slot::OwnSlot::set_watch`].
    pub(crate) fn take_sleeper(&self, holder: usize) -> Option<u32> {
        if holder == UNKNOWN {
            // It would not be given back when this process is killed.
            return None;
        }
        (0..SLEEPERS)
            .find(|&n| {
                let owner = self.memory.word(self.geometry.sleeper(n) + sleeper::OWNER);
                if owner.load(Relaxed) != 0 {
                    return false;
                }
                // Before it is taken: given back by the carrier should this process be killed.
                let used = self.memory.word(header::SLEEPERS);
                if used.load(Relaxed) <= n as u32 {
                    used.fetch_max(n as u32 + 1, SeqCst);
                }
                let taken = owner.compare_exchange(0, holder as u32 + 1, AcqRel, Relaxed);
                taken.is_ok()
            })
            .inspect(|&n| {
                let at = self.geometry.sleeper(n);
                self.memory.word(at + sleeper::BELL).store(0, Relaxed);
            })
            .map(|n| n as u32 + 1)
    }

    fn give_sleeper(&self, watch: u32) {
        if watch != 0 && watch != ALWAYS {
            let at = self.geometry.sleeper(watch as usize - 1);
            self.memory.word(at + sleeper::ARMED).store(0, Relaxed);
            self.memory.word(at + sleeper::OWNER).store(0, Release);
        }
    }
}

fn pack(turn: u64, slot: u32) -> u64 {
    (turn.wrapping_add(1)) << 32 | u64::from(slot)
}

/// Follows the news of one other program.
#[derive(Debug)]
struct Follower {
    theirs: Arc<Arena>,
    /// Streams watched.
    streams: usize,
    ring: Option<usize>,
    /// What `NEWS_OPENED` was when the ring was looked for last.
    looked: u32,
    /// How much news without a ring was there then.
    unsorted: u32,
    cursor: u64,
}

/// What a follower found.
enum Found {
    Some,
    /// It may have missed something.
    Doubt,
}

impl Follower {
    fn new(theirs: Arc<Arena>, own: HostId) -> Self {
        let mut follower = Follower {
            theirs,
            streams: 0,
            ring: None,
            looked: 0,
            unsorted: 0,
            cursor: 0,
        };
        follower.unsorted = follower.unsorted();
        follower.look_for_ring(own);
        if let Some(ring) = follower.ring {
            follower.cursor = follower.tail(ring);
        }
        follower
    }

    fn look_for_ring(&mut self, own: HostId) {
        let memory = &self.theirs.memory;
        self.looked = memory.word(header::NEWS_OPENED).load(Acquire);
        self.ring = self.theirs.find_news_ring(own);
    }

    fn tail(&self, ring: usize) -> u64 {
        let at = self.theirs.geometry.news(ring) + news::TAIL;
        self.theirs.memory.long(at).load(Acquire)
    }

    fn unsorted(&self) -> u32 {
        self.theirs.memory.word(header::UNSORTED).load(Acquire)
    }

    fn opened(&self) -> u32 {
        self.theirs.memory.word(header::NEWS_OPENED).load(Acquire)
    }

    /// Whether there is news, or might be.
    fn has_any(&self) -> bool {
        match self.ring {
            Some(ring) => self.tail(ring) != self.cursor,
            None => self.opened() != self.looked || self.unsorted() != self.unsorted,
        }
    }

    /// Before sleeping: whoever opened a ring may have died before it said so.
    fn look_again(&mut self, own: HostId) {
        if self.ring.is_none() {
            self.look_for_ring(own);
        }
    }

    fn collect(&mut self, own: HostId, found: &mut Vec<u32>) -> Found {
        // Before it had a ring, news was unsorted.
        let unsorted = self.unsorted();
        let mut doubt = self.ring.is_none() && unsorted != self.unsorted;
        self.unsorted = unsorted;
        if self.ring.is_none() && self.opened() != self.looked {
            self.look_for_ring(own);
        }
        let Some(ring) = self.ring else {
            return if doubt { Found::Doubt } else { Found::Some };
        };
        let tail = self.tail(ring);
        if tail.wrapping_sub(self.cursor) > FAR_BEHIND {
            self.cursor = tail;
            return Found::Doubt;
        }
        while self.cursor != tail {
            let at = self.theirs.geometry.news_entry(ring, self.cursor);
            let entry = self.theirs.memory.long(at).load(Acquire);
            if entry >> 32 == u64::from(self.cursor.wrapping_add(1) as u32) {
                found.push(entry as u32);
            } else {
                doubt = true;
            }
            self.cursor = self.cursor.wrapping_add(1);
        }
        if doubt { Found::Doubt } else { Found::Some }
    }
}

/// Watches many streams of this process, of any number of programs, for news.
///
/// Which of them *are* ready is the caller's to find out: it keeps the streams whose state it has
/// not seen yet or that were ready the last time, and asks here which others to look at again.
#[derive(Debug)]
pub struct Watcher {
    own: Arc<Arena>,
    watch: u32,
    followers: Vec<Follower>,
}

impl Watcher {
    /// Watches nothing yet. `holder` is this process's entry in the arena. When there are too many
    /// watchers, streams wake this one whenever they change.
    pub fn new(own: Arc<Arena>, holder: usize) -> Watcher {
        let watch = own.take_sleeper(holder).unwrap_or(ALWAYS);
        Watcher {
            own,
            watch,
            followers: Vec::new(),
        }
    }

    /// Watches slot `n`, whose other end lies in `theirs`. The caller looks at it once afterwards.
    /// A slot that another watcher has wakes both whenever it changes.
    pub fn add(&mut self, n: u32, theirs: &Arc<Arena>) {
        let slot = self.own.own(n);
        let mine = self.watch;
        slot.change_watch(|before| match before {
            0 => mine,
            other if other == mine => mine,
            _ => ALWAYS,
        });
        match self.follower(theirs.host()) {
            Some(follower) => follower.streams += 1,
            None => {
                let mut follower = Follower::new(theirs.clone(), self.own.host());
                follower.streams = 1;
                self.followers.push(follower);
            }
        }
        fence(SeqCst);
    }

    /// Watches slot `n` no longer, whose other end lies in `theirs`'s program.
    pub fn remove(&mut self, n: u32, theirs: HostId) {
        let slot = self.own.own(n);
        if self.watch != ALWAYS {
            let mine = self.watch;
            slot.change_watch(|now| if now == mine { 0 } else { now });
        }
        if let Some(follower) = self.follower(theirs) {
            follower.streams = follower.streams.saturating_sub(1);
        }
        self.followers.retain(|follower| follower.streams > 0);
    }

    fn follower(&mut self, host: HostId) -> Option<&mut Follower> {
        self.followers
            .iter_mut()
            .find(|follower| follower.theirs.host() == host)
    }

    /// Whether [`Watcher::collect`] would find something.
    pub fn has_news(&self) -> bool {
        self.followers.iter().any(Follower::has_any)
    }

    /// Adds the slots with news to `found`, some perhaps twice. False when something may have been
    /// missed: every watched stream is to be looked at.
    pub fn collect(&mut self, found: &mut Vec<u32>) -> bool {
        let own = self.own.host();
        let mut sure = true;
        for follower in &mut self.followers {
            sure &= matches!(follower.collect(own, found), Found::Some);
        }
        sure
    }

    /// About to sleep in the kernel: whoever has news sends a wake-up from now on. True when there
    /// is news already, and sleeping would be wrong.
    pub fn arm(&mut self) -> bool {
        self.sleep_anew();
        let own = self.own.host();
        for follower in &mut self.followers {
            follower.look_again(own);
        }
        self.has_news()
    }

    /// One of several who sleep is awake, the others are not: whoever has news from now on wakes
    /// another one. What was told before is for the one who is awake.
    pub fn sleep_anew(&self) {
        // Of all sleepers of the program: who woke one must not think he woke another.
        let sleeps = self.own.memory.word(header::SLEEPS);
        let sleep = sleeps.fetch_add(1, Relaxed).wrapping_add(1);
        self.set_armed(sleep.max(1));
        fence(SeqCst);
    }

    /// Awake again.
    pub fn disarm(&self) {
        self.set_armed(0);
    }

    /// Makes a bell for this watcher: a descriptor that can be read once somebody rang, and then
    /// has to be silenced. Nobody rings before [`Watcher::hang_bell`]. `None` when there is none
    /// to be had; then the streams themselves wake.
    pub fn make_bell(&self) -> Option<OwnedFd> {
        match self.watch {
            ALWAYS => None,
            watch => bell::make(self.own.host(), watch).ok(),
        }
    }

    /// Whoever waits for this watcher waits for its bell too from now on.
    pub fn hang_bell(&self) {
        if self.watch != ALWAYS {
            let at = self.own.geometry.sleeper(self.watch as usize - 1);
            self.own.memory.word(at + sleeper::BELL).store(1, Release);
        }
    }

    fn set_armed(&self, to: u32) {
        if self.watch != ALWAYS {
            let at = self.own.geometry.sleeper(self.watch as usize - 1);
            self.own.memory.word(at + sleeper::ARMED).store(to, Release);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.own.give_sleeper(self.watch);
    }
}

#[cfg(test)]
mod tests;
