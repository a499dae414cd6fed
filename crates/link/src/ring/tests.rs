//! Rings against a queue, and against liars.

use super::*;
use crate::segment::HeapMemory;
use alloc::collections::VecDeque;
use gannet_base::Rng;

struct Shared {
    slots: Words,
    consumed: Control,
}

fn shared(entries: u32) -> Shared {
    let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(4096 + entries as usize * 128));
    Shared {
        slots: Words::new(&memory, 4096, entries as usize * SLOT_WORDS).unwrap(),
        consumed: Control::new(&memory, 0).unwrap(),
    }
}

fn numbered(n: u64) -> Slot {
    let mut slot = Slot::new();
    (0..SLOT_WORDS).for_each(|i| slot.set_word(i, n.wrapping_mul(i as u64 + 1)));
    slot
}

fn same(a: &Slot, b: &Slot) -> bool {
    let tail = |s: &Slot| s.word(SLOT_WORDS - 1) as u32;
    (0..SLOT_WORDS - 1).all(|i| a.word(i) == b.word(i)) && tail(a) == tail(b)
}

#[test]
fn random_pushes_and_pops_agree_with_a_queue() {
    let mut rng = Rng::new(11);
    for start in [0u32, u32::MAX - 5] {
        let s = shared(8);
        s.consumed.store(u64::from(start), Ordering::Release);
        // A ring that far along was written in its last lap; fresh zeros would pass for turn 0.
        for position in (0..8).map(|back| start.wrapping_sub(8).wrapping_add(back)) {
            let turn = if start == 0 {
                0
            } else {
                u64::from(position.wrapping_add(1)) << 32
            };
            let last = (position & 7) as usize * SLOT_WORDS + SLOT_WORDS - 1;
            s.slots.at(last).store(turn, Ordering::Release);
        }
        let mut producer = SlotProducer::new(s.slots.clone(), 8, s.consumed.clone()).unwrap();
        let mut consumer = SlotConsumer::new(s.slots, 8, s.consumed).unwrap();
        producer.room = Room {
            next: start,
            taken: start,
            ..producer.room
        };
        consumer.taken = Taken {
            next: start,
            published: start,
            ..consumer.taken
        };
        let (mut twin, mut slot, mut n, mut unpublished) = (VecDeque::new(), Slot::new(), 0, 0);
        for _ in 0..if cfg!(miri) { 300 } else { 5000 } {
            if rng.below(2) == 0 {
                let pushed = producer.push(&numbered(n));
                assert_eq!(pushed, twin.len() + unpublished < 8);
                pushed.then(|| twin.push_back(n));
                n += 1;
            } else if consumer.pop(&mut slot) {
                assert!(same(&slot, &numbered(twin.pop_front().unwrap())));
                unpublished += 1;
            } else {
                assert!(twin.is_empty() && !consumer.has_entry());
            }
            if rng.below(4) == 0 {
                consumer.publish();
                unpublished = 0;
            }
        }
    }
}

/// S1: claims about consumed entries that are ahead, behind or far away free nothing.
#[test]
fn s1_consumed_index_lies() {
    let s = shared(8);
    let mut producer = SlotProducer::new(s.slots, 8, s.consumed.clone()).unwrap();
    for n in 0..8 {
        assert!(producer.push(&numbered(n)));
    }
    for lie in [9u64, 1 << 31, u64::from(u32::MAX), 100, 0] {
        s.consumed.store(lie, Ordering::Release);
        assert!(!producer.push(&numbered(0)), "claimed {lie}");
    }
    s.consumed.store(3, Ordering::Release);
    assert_eq!(producer.room(), 3);
    s.consumed.store(2, Ordering::Release);
    (0..3).for_each(|_| assert!(producer.push(&numbered(0))));
    assert!(
        !producer.push(&numbered(0)),
        "going backwards takes nothing away and gives nothing"
    );
}

/// S1: an entry with another turn's number is no entry.
#[test]
fn s1_turn_number_lies() {
    let s = shared(4);
    let mut consumer = SlotConsumer::new(s.slots.clone(), 4, s.consumed).unwrap();
    let mut slot = Slot::new();
    for lie in [0u64, 2, 5, u64::from(u32::MAX)] {
        s.slots
            .at(SLOT_WORDS - 1)
            .store(lie << 32, Ordering::Release);
        assert!(!consumer.pop(&mut slot));
    }
    s.slots.at(SLOT_WORDS - 1).store(1 << 32, Ordering::Release);
    assert!(consumer.pop(&mut slot) && !consumer.pop(&mut slot));
}

#[test]
fn words_and_two_threads() {
    const N: u32 = if cfg!(miri) { 300 } else { 200_000 };
    let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(4096));
    let words = Words::new(&memory, 1024, 64).unwrap();
    let consumed = Control::new(&memory, 0).unwrap();
    let mut producer = WordProducer::new(words.clone(), 64, consumed.clone()).unwrap();
    let mut consumer = WordConsumer::new(words, 64, consumed).unwrap();
    let thread = std::thread::spawn(move || {
        let mut next = 0;
        while next < N {
            match consumer.pop() {
                Some(value) => {
                    assert_eq!(value, next);
                    next += 1;
                }
                None => {
                    consumer.publish();
                    std::thread::yield_now();
                }
            }
        }
    });
    for n in 0..N {
        while !producer.push(n) {
            std::thread::yield_now();
        }
    }
    thread.join().unwrap();
}
