//! A hierarchical timing wheel (Varghese and Lauck 1987): arming, re-arming and cancelling a timer
//! is O(1) whatever the number of timers, and a poll without expiry costs a few instructions.
//!
//! Time is cut into ticks of 1 ms; a tick number is read as digits of 6 bits. Level `l` has 64
//! slots, one for each value of digit `l`:
//!
//! ```text
//!   a timer goes to the level of the highest digit in which its tick differs from `elapsed`,
//!   into the slot named by its own digit there
//! ```
//!
//! So all timers of level 0 expire before those of level 1 and so on, within a level slots are in
//! order, and the next thing to do is "lowest level with a timer, lowest slot in it": two bit
//! scans. When that slot's time comes, level 0 expires; a higher level is dealt out again to the
//! levels below it (each timer at most 7 times, in practice once or twice). 8 levels reach beyond
//! the 584 years of the clock, so no time is too far.
//!
//! Timers are nodes of an array, named by small dense numbers that the caller encodes (connection
//! index times kinds, plus kind), and linked into circular lists by index: no allocation to arm,
//! 24 bytes per timer.

use alloc::vec::Vec;

use gannet_base::Instant;

/// Nanoseconds per tick.
const TICK: u64 = 1_000_000;
const LEVELS: usize = 8;
const SLOTS: usize = 64;
const DIGIT_BITS: u32 = 6;
/// No node, no slot.
const NIL: u32 = u32::MAX;
const IDLE: u16 = u16::MAX;
/// Keys must be below this: the node array has that many entries at most.
pub const MAX_KEYS: u32 = 1 << 26;

const _: () = assert!((u64::MAX / TICK) >> (DIGIT_BITS * LEVELS as u32) == 0);

/// The earliest of some times; `None` when there is none, or all are never.
#[inline]
pub(crate) fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    const NEVER: Instant = Instant::FAR_FUTURE;
    let first = times
        .into_iter()
        .fold(NEVER, |first, at| first.min(at.unwrap_or(NEVER)));
    (first != NEVER).then_some(first)
}

#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    prev: u32,
    /// `level * SLOTS + slot`, or `IDLE`.
    slot: u16,
    tick: u64,
}

const UNARMED: Node = Node {
    next: NIL,
    prev: NIL,
    slot: IDLE,
    tick: 0,
};

/// Timers of a host or shard.
///
/// A timer armed for `at` expires at the first poll whose `now` is at or after `at` rounded up to
/// the next millisecond: never early, late by less than 1 ms plus the caller's own delay.
#[derive(Debug)]
pub struct Wheel {
    nodes: Vec<Node>,
    /// First node of each slot's circular list.
    heads: [u32; LEVELS * SLOTS],
    /// Which slots of a level are in use.
    occupied: [u64; LEVELS],
    /// Which levels are in use.
    levels: u8,
    /// Every timer with a tick below this has expired.
    elapsed: u64,
    armed: usize,
    /// Nothing expires before this: most polls look no further.
    quiet_until: Instant,
}

impl Wheel {
    /// A wheel without timers, with room for keys below `capacity_hint`; it grows when a larger
    /// key is first armed.
    #[must_use]
    pub fn new(capacity_hint: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity_hint.min(MAX_KEYS as usize)),
            heads: [NIL; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            levels: 0,
            elapsed: 0,
            armed: 0,
            quiet_until: Instant::ZERO,
        }
    }

    /// Number of armed timers.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Bytes held for timers, armed or not.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// Whether timer `key` is armed.
    #[must_use]
    pub fn is_armed(&self, key: u32) -> bool {
        self.nodes.get(key as usize).is_some_and(|n| n.slot != IDLE)
    }

    /// When timer `key` will expire (rounded up to a tick), if armed.
    #[must_use]
    pub fn deadline(&self, key: u32) -> Option<Instant> {
        let node = self.nodes.get(key as usize).filter(|n| n.slot != IDLE)?;
        Some(instant(node.tick))
    }

    /// Arms timer `key` for `at`, or moves it there. A time in the past expires at the next poll.
    ///
    /// # Panics
    /// If `key` is not below [`MAX_KEYS`]: keys are made by the host, never by a packet.
    pub fn arm(&mut self, key: u32, at: Instant) {
        assert!(key < MAX_KEYS, "timer keys are small and dense");
        if key as usize >= self.nodes.len() {
            self.nodes.resize(key as usize + 1, UNARMED);
        }
        let tick = at.as_nanos().div_ceil(TICK).max(self.elapsed);
        let node = self.nodes[key as usize];
        if node.slot != IDLE {
            if node.tick == tick {
                return;
            }
            self.unlink(key);
        }
        self.link(key, tick);
        if let Some((_, first)) = self.next_slot() {
            self.quiet_until = self.quiet_until.min(instant(first));
        }
    }

    /// Disarms timer `key`; nothing happens if it is not armed.
    pub fn cancel(&mut self, key: u32) {
        if self.is_armed(key) {
            self.unlink(key);
        }
    }

    /// When to poll next. Never later than the first timer's (rounded) time; possibly earlier,
    /// when timers only have to be dealt out to lower levels. `None`: no timer is armed.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.next_slot().map(|(_, tick)| instant(tick))
    }

    /// Removes and returns one timer that has expired at `now`. Between calls timers may be armed
    /// and cancelled. (Arming one in the past from within such a loop makes the loop endless.)
    #[inline]
    pub fn pop_expired(&mut self, now: Instant) -> Option<u32> {
        if now < self.quiet_until {
            return None;
        }
        self.look_for_expired(now)
    }

    fn look_for_expired(&mut self, now: Instant) -> Option<u32> {
        let now = now.as_nanos() / TICK;
        while let Some((slot, tick)) = self.next_slot() {
            if tick > now {
                break;
            }
            self.elapsed = self.elapsed.max(tick);
            let head = self.heads[slot];
            if slot < SLOTS {
                self.unlink(head);
                return Some(head);
            }
            self.deal_out(slot);
        }
        self.elapsed = self.elapsed.max(now);
        self.quiet_until = self.next_expiry().unwrap_or(Instant::FAR_FUTURE);
        None
    }

    /// Calls `fire` with every timer that has expired at `now`, in order of time (to the tick).
    pub fn expired(&mut self, now: Instant, fire: &mut impl FnMut(u32)) {
        while let Some(key) = self.pop_expired(now) {
            fire(key);
        }
    }

    /// The first slot in use and the tick at which its time comes.
    #[inline]
    fn next_slot(&self) -> Option<(usize, u64)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let digit = u64::from(self.occupied[level as usize].trailing_zeros());
        let shift = level * DIGIT_BITS;
        let above = self.elapsed >> (shift + DIGIT_BITS) << DIGIT_BITS;
        Some((
            level as usize * SLOTS + digit as usize,
            (above | digit) << shift,
        ))
    }

    /// Moves the timers of a slot of a higher level to lower ones, now that its time has come.
    fn deal_out(&mut self, slot: usize) {
        loop {
            let head = self.heads[slot];
            if head == NIL {
                return;
            }
            let tick = self.nodes[head as usize].tick;
            self.unlink(head);
            self.link(head, tick);
        }
    }

    fn link(&mut self, key: u32, tick: u64) {
        // the highest digit that differs; none: digit 0
        let differs = (self.elapsed ^ tick) | 1;
        let level = ((63 - differs.leading_zeros()) / DIGIT_BITS) as usize;
        let digit = (tick >> (level as u32 * DIGIT_BITS)) as usize % SLOTS;
        let slot = level * SLOTS + digit;
        let head = self.heads[slot];
        let (next, prev) = if head == NIL {
            self.heads[slot] = key;
            (key, key)
        } else {
            let tail = self.nodes[head as usize].prev;
            self.nodes[tail as usize].next = key;
            self.nodes[head as usize].prev = key;
            (head, tail)
        };
        self.nodes[key as usize] = Node {
            next,
            prev,
            slot: slot as u16,
            tick,
        };
        self.occupied[level] |= 1 << digit;
        self.levels |= 1 << level;
        self.armed += 1;
    }

    fn unlink(&mut self, key: u32) {
        let Node {
            next,
            prev,
            slot,
            tick: _,
        } = self.nodes[key as usize];
        let slot = slot as usize;
        if next == key {
            self.heads[slot] = NIL;
            let level = slot / SLOTS;
            self.occupied[level] &= !(1 << (slot % SLOTS));
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        } else {
            self.nodes[prev as usize].next = next;
            self.nodes[next as usize].prev = prev;
            if self.heads[slot] == key {
                self.heads[slot] = next;
            }
        }
        self.nodes[key as usize] = UNARMED;
        self.armed -= 1;
    }

    /// Panics when the structure is inconsistent. For tests, after every change.
    pub fn invariants(&self) {
        let mut seen = 0;
        for (slot, &head) in self.heads.iter().enumerate() {
            let used = self.occupied[slot / SLOTS] >> (slot % SLOTS) & 1 == 1;
            assert_eq!(used, head != NIL);
            let mut key = head;
            while key != NIL {
                let node = self.nodes[key as usize];
                assert_eq!(node.slot as usize, slot);
                assert_eq!(self.nodes[node.next as usize].prev, key);
                assert!(node.tick >= self.elapsed);
                seen += 1;
                key = if node.next == head { NIL } else { node.next };
            }
        }
        assert_eq!(seen, self.armed);
        for (level, bits) in self.occupied.iter().enumerate() {
            assert_eq!(*bits != 0, self.levels >> level & 1 == 1);
        }
    }
}

fn instant(tick: u64) -> Instant {
    Instant::from_nanos(tick.saturating_mul(TICK))
}

#[cfg(test)]
mod tests;
