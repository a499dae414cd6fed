//! Whose turn it is to accept, where several processes share a listener.
//!
//! The kernel wakes one of those who sleep on a listener for each connection that comes. But when
//! many come at once, a process that is awake is back for the next one before whoever was woken
//! runs: it takes nearly all of them, and serves them alone ever after. So who took the last one
//! leaves the next to the others for a while.

use crate::arena::Arena;
use crate::slot::OwnSlot;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// How long a connection waits for another process than the one that took the last: longer than a
/// sleeper needs to be there, too short for a client to notice where none comes.
const PATIENCE: Duration = Duration::from_micros(100);

/// Who takes turns at one listener of the own program.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a> {
    arena: &'a Arena,
    listener: OwnSlot<'a>,
}

/// The entry, plus one, of the process that took the last connection, and of the two that came for
/// one last: 0 where there is none.
#[derive(Clone, Copy)]
struct Known {
    last: u16,
    came: [u16; 2],
}

impl Known {
    fn of(word: u64) -> Known {
        Known {
            last: word as u16,
            came: [(word >> 16) as u16, (word >> 32) as u16],
        }
    }

    fn word(self) -> u64 {
        let [newer, older] = self.came;
        u64::from(self.last) | u64::from(newer) << 16 | u64::from(older) << 32
    }

    fn with(mut self, who: u16) -> Known {
        if self.came[0] != who {
            self.came = [who, self.came[0]];
        }
        self
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
        let who = number(holder);
        if Known::of(self.listener.turns().load(Relaxed)).came[0] != who {
            self.change(|known| known.with(who));
        }
    }

    /// Process `holder` took a connection, at the time `now` of the monotonic clock.
    pub fn taken(&self, holder: usize, now: Duration) {
        let who = number(holder);
        let nanoseconds = now.as_nanos() as u64;
        self.listener.turned().store(nanoseconds, Release);
        self.change(|known| Known {
            last: who,
            ..known.with(who)
        });
    }

    /// Whether process `holder` is to leave the connection that it has found at the time `now` to
    /// somebody else: it took the last one, a moment ago, and others come for them too.
    pub fn leaves(&self, holder: usize, now: Duration) -> bool {
        let known = Known::of(self.listener.turns().load(Acquire));
        if known.last != number(holder) {
            return false;
        }
        let since = (now.as_nanos() as u64).wrapping_sub(self.listener.turned().load(Acquire));
        u128::from(since) < PATIENCE.as_nanos() && self.has_others(holder)
    }

    /// Whether others than process `holder` come for connections.
    pub fn has_others(&self, holder: usize) -> bool {
        let who = number(holder);
        let known = Known::of(self.listener.turns().load(Acquire));
        let other = known
            .came
            .into_iter()
            .find(|other| *other != who && *other != 0);
        other.is_some_and(|other| {
            let entry = usize::from(other).wrapping_sub(1);
            self.arena.holds(entry, self.listener.number())
        })
    }

    /// Two at once: either may be forgotten, and will come again.
    fn change(&self, next: impl Fn(Known) -> Known) {
        let word = self.listener.turns();
        let seen = word.load(Relaxed);
        let next = next(Known::of(seen)).word();
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
    fn who_took_the_last_leaves_the_next_to_the_others() {
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
    fn a_third_is_known_when_one_goes() {
        let (arena, n, [one, two]) = shared();
        let three = arena.enter(103).expect("room");
        arena.hold(three, n);
        let turns = Turns::at(&arena, n);
        for holder in [two, three, one] {
            turns.come(holder);
        }
        turns.taken(one, at(0));
        assert!(turns.leaves(one, at(1)));
        arena.leave(three);
        turns.come(two);
        assert!(turns.leaves(one, at(1)));
    }

    #[test]
    fn nonsense_in_the_words_is_nobody() {
        let (arena, n, [one, _]) = shared();
        let turns = Turns::at(&arena, n);
        for word in [u64::MAX, 0xffff_0000 | u64::from(number(one)), 1 << 63] {
            arena.own(n).turns().store(word, Relaxed);
            assert!(!turns.leaves(one, at(0)));
            turns.come(one);
            turns.taken(one, at(0));
        }
    }
}
