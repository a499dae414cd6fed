//! Single-producer single-consumer rings over memory of two processes, and the sleep flag.
//!
//! The trick: each entry carries the number of its turn. The producer of entry `p` (counting from 0
//! without end) writes the entry's words and then, with release order, the last one, whose upper
//! half is `p + 1`. The consumer waits for exactly that number, so there is no producer index that
//! would cost a further cache line per message, and none to lie about. The consumer tells how far
//! it has come in a control word of its own memory; the producer keeps a private copy of it and
//! reads it again only when the copy says "full".
//!
//! ```text
//! producer:  slot[p % n].words = ...;  slot[p % n].last = (p + 1, ...)   [release]
//! consumer:  last = slot[c % n].last [acquire];  if upper half != c + 1 -> empty
//!            copy the words;  c += 1;  ... later: received = c            [release]
//! ```
//! A hostile other side can make an entry appear early, torn, or never, and can claim to have
//! consumed anything: the copy is checked afterwards, and a claim outside `c ..= p` counts as
//! "nothing consumed". Neither makes a loop unbounded.
//!
//! Sleeping (no wake-up is ever lost; loom checks it): the sleeper sets its flag, then a full
//! fence, then looks once more; the other side publishes, then a full fence, then looks at the
//! flag. One of the two must see the other.

#![allow(unsafe_code)]

use crate::segment::{Memory, expect_write};
use crate::slot::{SLOT_WORDS, Slot};
use crate::sync::{AtomicU64, Ordering, fence};
use alloc::sync::Arc;

/// A run of 64-bit words in shared memory.
#[derive(Clone)]
pub struct Words {
    #[cfg(not(loom))]
    _memory: Arc<dyn Memory>,
    #[cfg(not(loom))]
    first: core::ptr::NonNull<AtomicU64>,
    #[cfg(loom)]
    words: Arc<alloc::boxed::Box<[AtomicU64]>>,
    len: usize,
}

// SAFETY: only atomics are reached through the pointer, and the memory is kept alive.
#[cfg(not(loom))]
unsafe impl Send for Words {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Words {}

impl Words {
    /// The `len` words at byte `offset` of `memory`; `None` when not within it or not aligned.
    #[cfg(not(loom))]
    pub fn new(memory: &Arc<dyn Memory>, offset: usize, len: usize) -> Option<Self> {
        let end = len.checked_mul(8)?.checked_add(offset)?;
        if end > memory.len() || !offset.is_multiple_of(8) || len == 0 {
            return None;
        }
        // SAFETY: within the allocation, checked above.
        let first = unsafe { memory.base().add(offset) }.cast();
        Some(Words {
            _memory: memory.clone(),
            first,
            len,
        })
    }

    /// Fresh words of their own: loom's atomics cannot lie in raw memory.
    #[cfg(loom)]
    pub fn zeroed(len: usize) -> Self {
        let words = (0..len)
            .map(|_| AtomicU64::new(0))
            .collect::<alloc::vec::Vec<_>>();
        Words {
            words: Arc::new(words.into_boxed_slice()),
            len,
        }
    }

    /// See [`Words::zeroed`]; the bytes of `memory` are not used under loom.
    #[cfg(loom)]
    pub fn new(_memory: &Arc<dyn Memory>, _offset: usize, len: usize) -> Option<Self> {
        Some(Words::zeroed(len))
    }

    /// Word `index`, which the caller has masked to be in range.
    #[inline]
    fn at(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.len);
        #[cfg(not(loom))]
        // SAFETY: the index is masked to the ring's size by every caller in this file; the memory
        // is alive, aligned to 8 and initialised, and reached only as atomics.
        unsafe {
            self.first.add(index).as_ref()
        }
        #[cfg(loom)]
        &self.words[index]
    }
}

/// One control word.
#[derive(Clone)]
pub struct Control(Words);

impl Control {
    /// The word at byte `offset` of `memory`.
    pub fn new(memory: &Arc<dyn Memory>, offset: usize) -> Option<Self> {
        Words::new(memory, offset, 1).map(Control)
    }

    /// A control word over `words`, of which the first is used.
    pub fn over(words: Words) -> Self {
        Control(words)
    }

    /// Reads it.
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.at(0).load(order)
    }

    /// Writes it. Only for words in own memory.
    #[inline]
    pub fn store(&self, value: u64, order: Ordering) {
        self.0.at(0).store(value, order);
    }
}

/// The producer's view of how far the consumer is: positions count without end and wrap at 2^32.
struct Room {
    next: u32,
    taken: u32,
    /// What the shared word said last, believed or not.
    seen: u32,
    /// Somebody asked for more than there was.
    wanting: bool,
    entries: u32,
    consumed: Control,
}

impl Room {
    fn new(entries: u32, consumed: Control) -> Self {
        Room {
            next: 0,
            taken: 0,
            seen: 0,
            wanting: false,
            entries,
            consumed,
        }
    }

    /// Free entries; the shared word is read again only when the private copy says there are none.
    #[inline]
    fn left(&mut self, wanted: u32) -> u32 {
        let left = self.entries - self.next.wrapping_sub(self.taken);
        if left >= wanted {
            left
        } else {
            self.refresh(wanted)
        }
    }

    #[cold]
    fn refresh(&mut self, wanted: u32) -> u32 {
        let claimed = self.consumed.load(Ordering::Acquire) as u32;
        self.seen = claimed;
        // A claim behind what was claimed before, or ahead of what was produced, is a lie.
        let used = self.next.wrapping_sub(claimed);
        if used <= self.next.wrapping_sub(self.taken) {
            self.taken = claimed;
        }
        let left = self.entries - self.next.wrapping_sub(self.taken);
        self.wanting = left < wanted;
        left
    }

    /// Whether somebody wants room and the shared word has moved since it was read last. (Nobody
    /// stays awake for room that is not needed, and a lie is news only once.)
    fn has_news(&self) -> bool {
        self.wanting && self.consumed.load(Ordering::Acquire) as u32 != self.seen
    }
}

/// The consumer's position.
struct Taken {
    next: u32,
    published: u32,
    consumed: Control,
}

impl Taken {
    fn publish(&mut self) -> bool {
        let news = self.next != self.published;
        if news {
            self.consumed.store(u64::from(self.next), Ordering::Release);
            self.published = self.next;
        }
        news
    }
}

/// The producing end of a ring of slots. The slots are in own memory.
pub struct SlotProducer {
    slots: Words,
    room: Room,
}

impl SlotProducer {
    /// A ring of `entries` (a power of two) over `slots`; `consumed` is the peer's control word.
    pub fn new(slots: Words, entries: u32, consumed: Control) -> Option<Self> {
        fits(&slots, entries, SLOT_WORDS)?;
        Some(SlotProducer {
            slots,
            room: Room::new(entries, consumed),
        })
    }

    /// Free entries: a lower bound, and the exact number when less than a quarter is free.
    pub fn room(&mut self) -> u32 {
        self.room.left((self.room.entries / 4).max(1))
    }

    /// Puts `slot` into the ring, visible to the consumer at once; `false` when the ring is full.
    #[inline]
    pub fn push(&mut self, slot: &Slot) -> bool {
        if self.room.left(1) == 0 {
            return false;
        }
        let position = self.room.next;
        let at = (position & (self.room.entries - 1)) as usize * SLOT_WORDS;
        for i in 0..SLOT_WORDS - 1 {
            self.slots.at(at + i).store(slot.word(i), Ordering::Relaxed);
        }
        let turn = u64::from(position.wrapping_add(1)) << 32;
        let last = (slot.word(SLOT_WORDS - 1) & 0xffff_ffff) | turn;
        self.slots
            .at(at + SLOT_WORDS - 1)
            .store(last, Ordering::Release);
        self.room.next = position.wrapping_add(1);
        self.expect_next();
        true
    }

    /// The consumer has read the next entry when the ring came round last: asks for its lines.
    #[inline]
    fn expect_next(&self) {
        let at = (self.room.next & (self.room.entries - 1)) as usize * SLOT_WORDS;
        for line in [at, at + SLOT_WORDS / 2] {
            expect_write(core::ptr::from_ref(self.slots.at(line)).cast());
        }
    }

    /// Whether there was no room, and the consumer has moved since.
    pub fn has_news(&self) -> bool {
        self.room.has_news()
    }
}

/// The consuming end of a ring of slots. The slots are in the peer's memory.
pub struct SlotConsumer {
    slots: Words,
    entries: u32,
    taken: Taken,
}

impl SlotConsumer {
    /// A ring of `entries` (a power of two) over `slots`; `consumed` is the own control word.
    pub fn new(slots: Words, entries: u32, consumed: Control) -> Option<Self> {
        fits(&slots, entries, SLOT_WORDS)?;
        Some(SlotConsumer {
            slots,
            entries,
            taken: Taken {
                next: 0,
                published: 0,
                consumed,
            },
        })
    }

    /// Copies the next entry into `slot`, if there is one.
    #[inline]
    pub fn pop(&mut self, slot: &mut Slot) -> bool {
        let position = self.taken.next;
        let at = (position & (self.entries - 1)) as usize * SLOT_WORDS;
        let last = self.slots.at(at + SLOT_WORDS - 1).load(Ordering::Acquire);
        if (last >> 32) as u32 != position.wrapping_add(1) {
            return false;
        }
        for i in 0..SLOT_WORDS - 1 {
            slot.set_word(i, self.slots.at(at + i).load(Ordering::Relaxed));
        }
        slot.set_word(SLOT_WORDS - 1, last);
        self.taken.next = position.wrapping_add(1);
        true
    }

    /// Whether there is an entry.
    #[inline]
    pub fn has_entry(&self) -> bool {
        let position = self.taken.next;
        let at = (position & (self.entries - 1)) as usize * SLOT_WORDS;
        let last = self.slots.at(at + SLOT_WORDS - 1).load(Ordering::Acquire);
        (last >> 32) as u32 == position.wrapping_add(1)
    }

    /// Gives the consumed entries back to the producer; whether there were any.
    pub fn publish(&mut self) -> bool {
        self.taken.publish()
    }

    /// Claims to have consumed `position` entries, for tests of the other side.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn lie(&self, position: u64) {
        self.taken.consumed.store(position, Ordering::Release);
    }

    /// Consumed entries not yet given back.
    pub fn unpublished(&self) -> u32 {
        self.taken.next.wrapping_sub(self.taken.published)
    }
}

/// The producing end of a ring of 32-bit values. The ring is in own memory.
pub struct WordProducer {
    words: Words,
    room: Room,
}

impl WordProducer {
    /// As [`SlotProducer::new`].
    pub fn new(words: Words, entries: u32, consumed: Control) -> Option<Self> {
        fits(&words, entries, 1)?;
        Some(WordProducer {
            words,
            room: Room::new(entries, consumed),
        })
    }

    /// Puts `value` into the ring; `false` when it is full.
    #[inline]
    pub fn push(&mut self, value: u32) -> bool {
        if self.room.left(1) == 0 {
            return false;
        }
        let position = self.room.next;
        let word = u64::from(position.wrapping_add(1)) << 32 | u64::from(value);
        let at = (position & (self.room.entries - 1)) as usize;
        self.words.at(at).store(word, Ordering::Release);
        self.room.next = position.wrapping_add(1);
        true
    }
}

/// The consuming end of a ring of 32-bit values. The ring is in the peer's memory.
pub struct WordConsumer {
    words: Words,
    entries: u32,
    taken: Taken,
}

impl WordConsumer {
    /// As [`SlotConsumer::new`].
    pub fn new(words: Words, entries: u32, consumed: Control) -> Option<Self> {
        fits(&words, entries, 1)?;
        Some(WordConsumer {
            words,
            entries,
            taken: Taken {
                next: 0,
                published: 0,
                consumed,
            },
        })
    }

    /// The next value, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let position = self.taken.next;
        let word = self
            .words
            .at((position & (self.entries - 1)) as usize)
            .load(Ordering::Acquire);
        if (word >> 32) as u32 != position.wrapping_add(1) {
            return None;
        }
        self.taken.next = position.wrapping_add(1);
        Some(word as u32)
    }

    /// Whether there is a value.
    pub fn has_entry(&self) -> bool {
        let position = self.taken.next;
        let word = self
            .words
            .at((position & (self.entries - 1)) as usize)
            .load(Ordering::Acquire);
        (word >> 32) as u32 == position.wrapping_add(1)
    }

    /// Gives the consumed entries back; whether there were any.
    pub fn publish(&mut self) -> bool {
        self.taken.publish()
    }
}

fn fits(words: &Words, entries: u32, each: usize) -> Option<()> {
    let needed = (entries as usize).checked_mul(each)?;
    (entries.is_power_of_two() && needed <= words.len).then_some(())
}

/// Two flags, one in each memory: "I am asleep, wake me".
///
/// A flag holds the number of the sleep, so that one sleep is ended by one ring: a sleeper takes
/// its time to wake up, and the other side publishes many times meanwhile.
pub struct SleepFlags {
    own: Control,
    peer: Control,
    /// Sleeps announced so far.
    sleeps: u64,
    /// The peer's sleep that was ended last.
    ended: u64,
}

impl SleepFlags {
    /// `own` is written here, `peer` only read.
    pub fn new(own: Control, peer: Control) -> Self {
        SleepFlags {
            own,
            peer,
            sleeps: 0,
            ended: 0,
        }
    }

    /// Announces sleep. The caller looks at its rings once more afterwards, and sleeps only when
    /// there is still nothing. Each sleep is announced anew.
    pub fn announce(&mut self) {
        self.sleeps = self.sleeps.wrapping_add(1).max(1);
        self.own.store(self.sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Awake again: no wake-ups, please.
    pub fn withdraw(&self) {
        self.own.store(0, Ordering::Relaxed);
    }

    /// After publishing: whether the peer sleeps and must be woken; once per sleep.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let sleep = self.peer.load(Ordering::Relaxed);
        if sleep == 0 || sleep == self.ended {
            return false;
        }
        self.ended = sleep;
        true
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
