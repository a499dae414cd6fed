//! Two whole ends against queues: random calls, the same outcome, the same bytes.

use super::*;
use crate::endpoint::Full;
use gannet_base::Rng;
use std::collections::VecDeque;
use std::vec::Vec;

const LAYOUT: Layout = Layout {
    slots: 8,
    completions: 16,
    block_bytes: 2048,
    blocks: 24,
    align: 4096,
};

type End = Endpoint<PeerDriver<NoDoorbell>>;

/// What one direction should look like from outside.
#[derive(Default)]
struct Way {
    /// Frames on their way.
    queue: VecDeque<Vec<u8>>,
    /// Frames taken, but their slots not yet given back.
    taken: usize,
    /// Frames held by the receiver.
    held: Vec<(Frame, Vec<u8>)>,
    /// Ranges sent whose completion the sender has not taken.
    outstanding: usize,
    /// Of these, ranges the receiver has released.
    released: usize,
}

impl Way {
    fn is_full(&self, ranges: usize) -> bool {
        let slots = self.queue.len() + self.taken >= LAYOUT.slots as usize;
        slots || self.outstanding + ranges > LAYOUT.completions as usize
    }
}

/// Builds a random frame out of fresh blocks; `None` without blocks.
fn build(end: &mut End, rng: &mut Rng) -> Option<(Slot, Vec<u8>, Vec<Range>)> {
    let mut slot = Slot::new();
    let inline = 1 + rng.below(96) as usize;
    let mut bytes = std::vec![0; inline];
    rng.fill(&mut bytes);
    slot.inline_mut(inline)?.copy_from_slice(&bytes);
    let mut ranges = Vec::new();
    for _ in 0..rng.below(1 + slot.ranges_left() as u64) {
        let Some(block) = end.pool.alloc() else {
            ranges.into_iter().for_each(|r| end.pool.release(r));
            return None;
        };
        let at = rng.below(2047) as u32;
        let len = 1 + rng.below(u64::from(2047 - at)) as u32;
        let range = end.pool.range(block, at, len);
        rng.fill(end.pool.bytes_mut(range)?);
        bytes.extend_from_slice(end.pool.bytes(range)?);
        assert!(slot.push_range(range));
        ranges.push(range);
    }
    Some((slot, bytes, ranges))
}

fn send(end: &mut End, way: &mut Way, rng: &mut Rng) {
    let Some((slot, bytes, ranges)) = build(end, rng) else {
        return;
    };
    let full = way.is_full(ranges.len());
    assert_eq!(end.transmit(&slot), if full { Err(Full) } else { Ok(()) });
    if !full {
        way.queue.push_back(bytes);
        way.outstanding += ranges.len();
    }
    ranges.into_iter().for_each(|r| end.pool.release(r));
}

fn receive(end: &mut End, way: &mut Way) {
    let mut frame = Frame::new();
    let held: usize = way.held.iter().map(|(f, _)| f.ranges().len()).sum();
    let may = held <= LAYOUT.completions as usize - RANGES_MAX;
    let got = end.receive(&mut frame, &mut 1);
    assert_eq!(got, may && !way.queue.is_empty());
    if got {
        let bytes = way.queue.pop_front().unwrap();
        check(end, &frame, &bytes);
        way.taken += 1;
        way.held.push((frame, bytes));
    }
}

fn check(end: &End, frame: &Frame, bytes: &[u8]) {
    let mut out = std::vec![0; bytes.len() + 1];
    assert_eq!(end.peek(frame, &mut out), bytes.len());
    assert_eq!(&out[..bytes.len()], bytes);
}

fn release(end: &mut End, way: &mut Way, rng: &mut Rng) {
    if way.held.is_empty() {
        return;
    }
    let (frame, bytes) = way
        .held
        .swap_remove(rng.below(way.held.len() as u64) as usize);
    // However long it was held, nobody has overwritten it.
    check(end, &frame, &bytes);
    way.released += frame.ranges().len();
    end.release_frame(&frame);
}

/// One random call on `end`, whose way out is `out` and way in is `back`.
fn step(end: &mut End, out: &mut Way, back: &mut Way, rng: &mut Rng) {
    match rng.below(10) {
        0..3 => send(end, out, rng),
        3..6 => receive(end, back),
        6..8 => release(end, back, rng),
        8 => {
            assert_eq!(end.reclaim(), out.released);
            out.outstanding -= out.released;
            out.released = 0;
        }
        _ => {
            end.flush();
            back.taken = 0;
        }
    }
    end.pool.invariants();
    assert_eq!(end.driver.stats().completions_lost, 0);
    assert_eq!(end.pool.bad_completions(), 0);
    assert_eq!(end.faults().total(), 0);
}

#[test]
fn two_ends_behave_like_two_queues() {
    let (seeds, steps) = if cfg!(miri) { (1, 300) } else { (40, 4_000) };
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let (mut a, mut b) = pair(LAYOUT, (NoDoorbell, NoDoorbell));
        let (mut there, mut back) = (Way::default(), Way::default());
        let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            for _ in 0..steps {
                if rng.chance(500_000) {
                    step(&mut a, &mut there, &mut back, &mut rng);
                } else {
                    step(&mut b, &mut back, &mut there, &mut rng);
                }
            }
            drain(&mut a, &mut b, &mut there, &mut rng);
            drain(&mut b, &mut a, &mut back, &mut rng);
        }));
        assert!(result.is_ok(), "seed {seed}");
    }
}

/// Takes and gives back everything; then every block of the sender is free.
fn drain(from: &mut End, to: &mut End, way: &mut Way, rng: &mut Rng) {
    while !(way.queue.is_empty() && way.held.is_empty()) {
        receive(to, way);
        release(to, way, rng);
    }
    to.flush();
    from.reclaim();
    assert_eq!(from.pool.free_blocks(), LAYOUT.blocks as usize);
}
