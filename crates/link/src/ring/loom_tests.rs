//! Every interleaving of producer and consumer, as far as two or three entries show it.

use super::*;

fn entries(n: u32) -> (SlotProducer, SlotConsumer) {
    let slots = Words::zeroed(n as usize * SLOT_WORDS);
    let consumed = Control::over(Words::zeroed(1));
    let producer = SlotProducer::new(slots.clone(), n, consumed.clone()).unwrap();
    (producer, SlotConsumer::new(slots, n, consumed).unwrap())
}

/// Entries arrive whole and in order though the ring is reused.
#[test]
fn loom_slots_arrive_whole() {
    loom::model(|| {
        let (mut producer, mut consumer) = entries(2);
        let thread = loom::thread::spawn(move || {
            for n in 1..=3u64 {
                let mut slot = Slot::new();
                slot.set_word(0, n);
                slot.set_word(14, n);
                while !producer.push(&slot) {
                    loom::thread::yield_now();
                }
            }
        });
        let mut slot = Slot::new();
        for n in 1..=3u64 {
            while !consumer.pop(&mut slot) {
                loom::thread::yield_now();
            }
            consumer.publish();
            assert_eq!((slot.word(0), slot.word(14)), (n, n));
        }
        thread.join().unwrap();
    });
}

/// No wake-up is lost: if the sleeper goes to sleep, the publisher saw its flag.
#[test]
fn loom_no_wakeup_is_lost() {
    loom::model(|| {
        let words = Words::zeroed(2);
        let consumed = Control::over(Words::zeroed(1));
        let (own, peer) = (
            Control::over(Words::zeroed(1)),
            Control::over(Words::zeroed(1)),
        );
        let mut producer = WordProducer::new(words.clone(), 2, consumed.clone()).unwrap();
        let consumer = WordConsumer::new(words, 2, consumed).unwrap();
        let sleeper = SleepFlags::new(own.clone(), peer.clone());
        let waker = SleepFlags::new(peer, own);
        let thread = loom::thread::spawn(move || {
            assert!(producer.push(7));
            waker.peer_sleeps()
        });
        sleeper.announce();
        let sleeps = !consumer.has_entry();
        let rung = thread.join().unwrap();
        assert!(!sleeps || rung, "asleep beside an entry, and nobody rang");
    });
}
