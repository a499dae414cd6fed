//! S1, S2, S3: a peer that writes whatever it likes into its own memory, at full speed, while this
//! side works. No panic, no access outside the segment, bounded work, and no block is lost for
//! good.

use super::*;
use crate::driver::Received;
use gannet_base::Rng;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::vec::Vec;

const LAYOUT: Layout = Layout {
    slots: 8,
    completions: 16,
    block_bytes: 2048,
    blocks: 16,
    align: 4096,
};

type End = Endpoint<PeerDriver<NoDoorbell>>;

/// Own memory, the peer's memory, and the end that works between them.
fn victim() -> (End, Arc<dyn Memory>, Arc<dyn Memory>) {
    let own: Arc<dyn Memory> = Arc::new(HeapMemory::new(LAYOUT.bytes()));
    let peer: Arc<dyn Memory> = Arc::new(HeapMemory::new(LAYOUT.bytes()));
    let driver = PeerDriver::new((&own, &LAYOUT), (&peer, &LAYOUT), NoDoorbell).unwrap();
    let pool = own_pool(&own, &LAYOUT).unwrap();
    (Endpoint::new(pool, driver), own, peer)
}

/// The attacker's view of its own memory: every word of it, and how far the victim is.
struct Attacker {
    words: Vec<Control>,
    /// Where the victim says how many slots and completions it has taken.
    victim: [Control; 2],
    rng: Rng,
}

impl Attacker {
    fn new(own: &Arc<dyn Memory>, peer: &Arc<dyn Memory>, seed: u64) -> Self {
        // Under Miri no blocks: the copy out of them is then an ordinary one, and a race on it is
        // an error to Miri, as it would be to the language.
        let end = if cfg!(miri) {
            LAYOUT.blocks_at()
        } else {
            LAYOUT.bytes()
        };
        let words = (0..end)
            .step_by(8)
            .map(|at| Control::new(peer, at).unwrap());
        Attacker {
            words: words.collect(),
            victim: [RECEIVED, COMPLETED].map(|at| Control::new(own, at).unwrap()),
            rng: Rng::new(seed),
        }
    }

    fn put(&self, byte: usize, value: u64) {
        self.words[byte / 8].store(value, Ordering::Release);
    }

    fn random_word(&mut self) -> u64 {
        let word = self.rng.next_u64();
        let small = self.rng.below(70_000);
        let edges = [0, 1, u64::MAX, 1 << 31, 1 << 32, 0xffff_ffff, 2047, 2048];
        match self.rng.below(4) {
            0 => word,
            1 => small,
            2 => edges[self.rng.below(8) as usize],
            // A range: an offset and a length that are nearly right.
            _ => self.rng.below(40_000) | self.rng.below(3_000) << 32,
        }
    }

    fn mostly_below(&mut self, bound: u64) -> u64 {
        let wild = self.rng.chance(200_000);
        self.rng.below(if wild { 256 } else { bound })
    }

    /// Fills the slot that the victim will look at next, so that it is taken, and keeps changing
    /// it.
    fn slot(&mut self) {
        let next = self.victim[0].load(Ordering::Acquire) as u32;
        let next = next.wrapping_add(self.rng.below(3) as u32);
        let at = SLOTS + (next % LAYOUT.slots) as usize * (SLOT_WORDS * 8);
        for word in 0..SLOT_WORDS - 2 {
            if self.rng.chance(300_000) {
                let value = self.random_word();
                self.put(at + word * 8, value);
            }
        }
        let inline = self.mostly_below(97);
        let ranges = self.mostly_below(4);
        let flags = if self.rng.chance(300_000) {
            self.rng.next_u64() << 16
        } else {
            0
        };
        self.put(at + 112, inline | ranges << 8 | (flags & !0xffff));
        let turn = u64::from(next.wrapping_add(1)) << 32;
        let low = self.random_word() & 0xffff_ffff;
        let low = if self.rng.chance(800_000) { 0 } else { low };
        self.put(at + 120, turn | low);
    }

    /// "I am done with this block of yours", for blocks and times of the attacker's choice.
    fn completion(&mut self) {
        let next = self.victim[1].load(Ordering::Acquire) as u32;
        let next = next.wrapping_add(self.rng.below(3) as u32);
        let at = LAYOUT.completions_at() + (next % LAYOUT.completions) as usize * 8;
        let value = self.random_word() & 0xffff_ffff;
        self.put(at, u64::from(next.wrapping_add(1)) << 32 | value);
    }

    fn act(&mut self) {
        match self.rng.below(16) {
            0..9 => self.slot(),
            9..12 => self.completion(),
            12..14 => {
                // How much it says to have taken; that it sleeps; rarely, that it is gone.
                let at = [RECEIVED, COMPLETED, ASLEEP][self.rng.below(3) as usize];
                let value = self.random_word();
                self.put(at, value);
            }
            _ => {
                let at = self.rng.below(self.words.len() as u64) as usize;
                if at * 8 != CLOSED {
                    let bit = 1 << self.rng.below(64);
                    let word = self.words[at].load(Ordering::Relaxed);
                    self.words[at].store(word ^ bit, Ordering::Relaxed);
                }
            }
        }
    }
}

/// What the victim does between two moves of the attacker.
struct Work {
    rng: Rng,
    held: Vec<Frame>,
    views: Vec<View>,
    frames: u64,
}

impl Work {
    fn new(seed: u64) -> Self {
        Work {
            rng: Rng::new(seed),
            held: Vec::new(),
            views: Vec::new(),
            frames: 0,
        }
    }

    fn step(&mut self, end: &mut End) {
        self.send(end);
        let mut frame = Frame::new();
        let mut budget = 16;
        while end.receive(&mut frame, &mut budget) {
            self.look_at(end, &frame);
            self.held.push(frame.clone());
            self.frames += 1;
        }
        while self.held.len() > self.rng.below(4) as usize {
            let at = self.rng.below(self.held.len() as u64) as usize;
            end.release_frame(&self.held.swap_remove(at));
        }
        self.views.truncate(4);
        assert!(end.reclaim() <= LAYOUT.completions as usize);
        end.flush();
        if end.driver.arm() {
            end.driver.disarm();
        }
        assert!(end.driver.room() <= LAYOUT.slots as usize);
        assert_eq!(end.state(), LinkState::Up);
    }

    fn send(&mut self, end: &mut End) {
        let Some(block) = end.pool.alloc() else {
            return;
        };
        let range = end.pool.range(block, 0, 1 + self.rng.below(2048) as u32);
        let mut slot = Slot::new();
        slot.inline_mut(4).unwrap().fill(1);
        assert!(slot.push_range(range));
        let _ = end.transmit(&slot);
        end.pool.release(range);
    }

    fn look_at(&mut self, end: &End, frame: &Frame) {
        let total: usize = frame.ranges().iter().map(|r| r.len as usize).sum();
        assert!(
            frame.head().len() <= crate::slot::INLINE_MAX
                && total <= 65_553
                && frame.ranges().len() <= 8
        );
        let mut out = [0; 4096];
        end.peek(frame, &mut out);
        for &range in frame.ranges() {
            assert!(u64::from(range.offset) + u64::from(range.len) <= 16 * 2048);
            let view = end.view(range).unwrap();
            view.read_at(self.rng.below(2048) as usize, &mut out);
            self.views.push(view);
        }
    }

    /// The link is over: whatever the peer did, every block comes back.
    fn end(self, mut end: End) {
        for frame in &self.held {
            end.release_frame(frame);
        }
        end.pool.complete_all();
        end.pool.invariants();
        assert_eq!(end.pool.free_blocks(), LAYOUT.blocks as usize);
        assert!(
            self.frames > 0,
            "the attacker never got through: nothing was tested"
        );
        assert!(end.faults().total() > 0, "no bad slot was seen");
    }
}

/// One thread: every move of the attacker at a known place, so a failure repeats.
#[test]
fn s1_s2_a_peer_that_writes_anything_between_two_calls() {
    let (seeds, steps) = if cfg!(miri) { (1, 60) } else { (20, 3_000) };
    for seed in 0..seeds {
        let (mut end, own, peer) = victim();
        let mut attacker = Attacker::new(&own, &peer, seed);
        let mut work = Work::new(seed);
        let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            for _ in 0..steps {
                for _ in 0..1 + attacker.rng.below(8) {
                    attacker.act();
                }
                work.step(&mut end);
            }
        }));
        assert!(result.is_ok(), "seed {seed}");
        work.end(end);
    }
}

/// Two threads: fields change between any two instructions of this side.
#[test]
fn s3_a_peer_that_flips_fields_at_full_speed() {
    let (mut end, own, peer) = victim();
    let mut attacker = Attacker::new(&own, &peer, 99);
    let stop = AtomicBool::new(false);
    let mut work = Work::new(3);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(StdOrdering::Relaxed) {
                attacker.act();
            }
        });
        // Enough work for the attacker to get through many times, however the threads are run.
        let (steps, frames) = if cfg!(miri) { (20, 1) } else { (20_000, 5_000) };
        let mut step = 0;
        while step < steps || work.frames < frames || end.faults().total() == 0 {
            work.step(&mut end);
            step += 1;
        }
        stop.store(true, StdOrdering::Relaxed);
    });
    work.end(end);
}

/// Bytes as they come: whatever they are, a slot is refused or within bounds.
#[test]
fn random_slots() {
    let (mut end, own, peer) = victim();
    let attacker = Attacker::new(&own, &peer, 5);
    let mut rng = Rng::new(5);
    let mut frame = Frame::new();
    for position in 0..if cfg!(miri) { 50 } else { 50_000u32 } {
        let at = SLOTS + (position % LAYOUT.slots) as usize * (SLOT_WORDS * 8);
        for word in 0..SLOT_WORDS - 1 {
            attacker.put(at + word * 8, rng.next_u64());
        }
        let turn = u64::from(position.wrapping_add(1)) << 32;
        attacker.put(at + 120, turn | u64::from(rng.next_u32()));
        match end.driver.receive(&mut end.pool, &mut frame) {
            Received::Frame => end.release_frame(&frame),
            Received::Refused(_) => {}
            Received::Empty => panic!("the slot at {position} is there"),
        }
        end.flush();
    }
}
