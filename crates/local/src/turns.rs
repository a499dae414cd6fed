//! Whose turn it is to accept, where several processes share a listener.
//!
//! The kernel wakes one of those who sleep on a listener for each connection that comes. But when
//! many come at once, a process that is awake is back for the next one before whoever was woken
//! runs: it takes nearly all of them, and serves them alone ever after. So who took one leaves the
//! next to the others, for a while.

use crate::arena::Arena;
use crate::slot::OwnSlot;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// How long a connection waits for another process than the one that took the last: longer than a
/// sleeper needs to be there, too short for a client to notice where none comes.
const HELD_BACK: Duration = Duration::from_micros(100);

/// Who takes turns at one listener of the own program.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a> {
    arena: &'a Arena,
    listener: OwnSlot<'a>,
}

/// Processes, the latest first, each once: an entry, plus one, for each; 0 where there is none.
#[derive(Clone, Copy)]
struct Latest([u16; 4]);

impl Latest {
    fn of(word: &AtomicU64) -> Latest {
        let word = word.load(Acquire);
        Latest([0, 16, 32, 48].map(|shift| (word >> shift) as u16))
    }

    fn word(self) -> u64 {
        self.0
            .iter()
            .rev()
            .fold(0, |word, &who| word << 16 | u64::from(who))
    }

    /// With `who` at the front.
    fn with(self, who: u16) -> Latest {
        let mut all = self.0;
        let at = all.iter().position(|other| *other == who);
        let last = at.unwrap_or(all.len() - 1);
        all.copy_within(..last, 1);
        all[0] = who;
        Latest(all)
    }

    /// Those before `who`, if it is there.
    fn before(&self, who: u16) -> Option<&[u16]> {
        let at = self.0.iter().position(|other| *other == who)?;
        self.0.get(..at)
    }
}

/// Entries are few: [`crate::PROCESSES`].
fn number(holder: usize) -> u16 {
    (holder as u16).wrapping_add(1)
}

impl<'a> Turns<'a> {
    /// Those at listener `n`.
    pub fn at(arena: &'a Arena, n: u32) -> Turns<'a> {
        let listener = arena.own(n);
        Turns { arena, listener }
    }

    /// Process `holder` has come for connections: it waits for them, or has found one.
    pub fn come(&self, holder: usize) {
        note(self.listener.comers(), number(holder));
    }

    /// Process `holder` took a connection, at the time `now` of the monotonic clock.
    pub fn taken(&self, holder: usize, now: Duration) {
        self.come(holder);
        note(self.listener.takers(), number(holder));
        self.listener
            .taken_at()
            .store(now.as_nanos() as u64, Release);
    }

    /// Whether process `holder` is to leave the connection that it has found at the time `now` to
    /// somebody else: another that comes for them has had none since it took one itself, and the
    /// last was taken a moment ago.
    pub fn leaves(&self, holder: usize, now: Duration) -> bool {
        let takers = Latest::of(self.listener.takers());
        let Some(since) = takers.before(number(holder)) else {
            return false;
        };
        let last = self.listener.taken_at().load(Acquire);
        let waited = (now.as_nanos() as u64).wrapping_sub(last);
        u128::from(waited) < HELD_BACK.as_nanos()
            && self.others(holder).any(|other| !since.contains(&other))
    }

    /// Whether others than process `holder` come for connections.
    pub fn has_others(&self, holder: usize) -> bool {
        self.others(holder).next().is_some()
    }

    fn others(&self, holder: usize) -> impl Iterator<Item = u16> {
        let who = number(holder);
        let Latest(comers) = Latest::of(self.listener.comers());
        let (arena, n) = (self.arena, self.listener.number());
        comers.into_iter().filter(move |&other| {
            let entry = usize::from(other).checked_sub(1);
            other != who && entry.is_some_and(|entry| arena.holds(entry, n))
        })
    }
}

/// What is left of the time that one may wait for other processes: enough for the connections of
/// many clients that begin at once, and little where connections come and go all the time.
#[derive(Debug, Default)]
pub struct Patience {
    since: Duration,
    spent: Duration,
    last: Duration,
}

/// In each `WINDOW`, so much.
const BUDGET: Duration = Duration::from_millis(2);
const WINDOW: Duration = Duration::from_millis(100);
/// What is longer was spent on something else.
const PAUSE: Duration = Duration::from_micros(100);

impl Patience {
    /// A connection is about to be left to others, at the time `now`: whether there is time for it.
    pub fn lasts(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) > WINDOW {
            (self.since, self.spent) = (now, Duration::ZERO);
        }
        let pause = now.saturating_sub(self.last);
        self.last = now;
        if pause < PAUSE {
            self.spent += pause;
        }
        self.spent < BUDGET
    }
}

/// Makes `who` the latest. Of two at once either may be forgotten, and will come again.
fn note(word: &AtomicU64, who: u16) {
    let seen = Latest::of(word);
    if seen.0[0] != who {
        let (seen, next) = (seen.word(), seen.with(who).word());
        let _ = word.compare_exchange(seen, next, AcqRel, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Geometry;

    fn at(microseconds: u64) -> Duration {
        Duration::from_secs(1000) + Duration::from_micros(microseconds)
    }

    /// An arena with a listener that two processes hold.
    fn shared() -> (Arena, u32, [usize; 2]) {
        let geometry = Geometry {
            slots: 64,
            ring: 4096,
        };
        let (_, arena) = Arena::create(7, geometry).expect("an arena");
        let holders = [101, 102].map(|pid| arena.enter(pid).expect("room"));
        let n = arena.allocate(holders[0], 0).expect("a slot");
        arena.hold(holders[1], n);
        (arena, n, holders)
    }

    #[test]
    fn who_took_one_leaves_the_next_to_the_others() {
        let (arena, n, [one, two]) = shared();
        let turns = Turns::at(&arena, n);
        for holder in [one, two] {
            turns.come(holder);
            assert!(!turns.leaves(holder, at(0)), "the first is anybody's");
        }
        turns.taken(one, at(0));
        assert!(turns.leaves(one, at(50)) && !turns.leaves(two, at(50)));
        turns.taken(two, at(60));
        assert!(turns.leaves(two, at(70)) && !turns.leaves(one, at(70)));
    }

    #[test]
    fn nobody_waits_for_long() {
        let (arena, n, [one, two]) = shared();
        let turns = Turns::at(&arena, n);
        turns.come(two);
        turns.taken(one, at(0));
        assert!(turns.leaves(one, at(99)));
        assert!(!turns.leaves(one, at(100)));
        // Of a clock that goes back nothing is expected either.
        assert!(!turns.leaves(one, Duration::ZERO));
    }

    #[test]
    fn nobody_waits_for_who_is_not_there() {
        let (arena, n, [one, two]) = shared();
        let turns = Turns::at(&arena, n);
        turns.come(one);
        turns.taken(one, at(0));
        assert!(!turns.leaves(one, at(1)), "alone");
        turns.come(two);
        assert!(turns.leaves(one, at(1)));
        arena.let_go(two, n);
        assert!(!turns.leaves(one, at(1)), "closed");
        arena.hold(two, n);
        assert!(turns.leaves(one, at(1)));
        arena.leave(two);
        assert!(!turns.leaves(one, at(1)), "ended");
    }

    #[test]
    fn all_have_had_one_before_the_next() {
        let (arena, n, [one, two]) = shared();
        let three = arena.enter(103).expect("room");
        arena.hold(three, n);
        let turns = Turns::at(&arena, n);
        for holder in [two, three, one] {
            turns.come(holder);
        }
        turns.taken(one, at(0));
        assert!(turns.leaves(one, at(1)));
        turns.taken(two, at(2));
        assert!(turns.leaves(one, at(3)), "the third is behind");
        turns.taken(three, at(4));
        assert!(!turns.leaves(one, at(5)) && turns.leaves(two, at(5)));
        arena.leave(three);
        turns.taken(one, at(6));
        assert!(turns.leaves(one, at(7)) && !turns.leaves(two, at(7)));
    }

    #[test]
    fn nonsense_in_the_words_is_nobody() {
        let (arena, n, [one, _]) = shared();
        let turns = Turns::at(&arena, n);
        for word in [u64::MAX, 0xffff_0000 | u64::from(number(one)), 1 << 63] {
            arena.own(n).comers().store(word, Relaxed);
            arena.own(n).takers().store(word, Relaxed);
            assert!(!turns.leaves(one, at(0)));
            turns.come(one);
            turns.taken(one, at(0));
            assert!(!turns.leaves(one, at(0)));
        }
    }

    #[test]
    fn patience_ends_and_comes_back() {
        let mut patience = Patience::default();
        let lasted = (0..4000).take_while(|n| patience.lasts(at(n * 2))).count();
        assert_eq!(lasted, 1000, "2 ms in steps of 2 us");
        assert!(!patience.lasts(at(50_000)) && patience.lasts(at(100_001)));
    }

    #[test]
    fn what_was_spent_otherwise_is_not_counted() {
        let mut patience = Patience::default();
        assert!((0..500).all(|n| patience.lasts(at(n * 150))));
    }
}
