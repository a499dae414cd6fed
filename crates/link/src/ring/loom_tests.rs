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
        let mut sleeper = SleepFlags::new(own.clone(), peer.clone());
        let mut waker = SleepFlags::new(peer, own);
        let thread = loom::thread::spawn(move || {
            assert!(producer.push(7));
            waker.must_wake()
        });
        sleeper.announce();
        let sleeps = !consumer.has_entry();
        let rung = thread.join().unwrap();
        assert!(!sleeps || rung, "asleep beside an entry, and nobody rang");
    });
}

/// Two ends of one ring of slots with their sleep flags, as two processes have them.
fn sides(entries: u32) -> (Producing, Consuming) {
    let slots = Words::zeroed(entries as usize * SLOT_WORDS);
    let consumed = Control::over(Words::zeroed(1));
    let flags = (
        Control::over(Words::zeroed(1)),
        Control::over(Words::zeroed(1)),
    );
    let producing = Producing {
        ring: SlotProducer::new(slots.clone(), entries, consumed.clone()).unwrap(),
        sleep: SleepFlags::new(flags.0.clone(), flags.1.clone()),
    };
    let consuming = Consuming {
        ring: SlotConsumer::new(slots, entries, consumed).unwrap(),
        sleep: SleepFlags::new(flags.1, flags.0),
    };
    (producing, consuming)
}

struct Producing {
    ring: SlotProducer,
    sleep: SleepFlags,
}

struct Consuming {
    ring: SlotConsumer,
    sleep: SleepFlags,
}

/// A producer that sleeps because the ring is full is woken by the consumer's giving back.
#[test]
fn loom_a_full_ring_wakes_its_producer() {
    loom::model(|| {
        let (mut producing, mut consuming) = sides(2);
        let mut slot = Slot::new();
        slot.set_word(0, 1);
        assert!(producing.ring.push(&slot) && producing.ring.push(&slot));
        let thread = loom::thread::spawn(move || {
            let mut slot = Slot::new();
            assert!(consuming.ring.pop(&mut slot));
            assert!(consuming.ring.publish());
            consuming.sleep.must_wake()
        });
        if producing.ring.push(&slot) {
            thread.join().unwrap();
            return;
        }
        producing.sleep.announce();
        let sleeps = !producing.ring.has_news();
        let rung = thread.join().unwrap();
        assert!(!sleeps || rung, "asleep beside room, and nobody rang");
        assert_eq!(producing.ring.room(), 1);
    });
}

/// Both sides publish something and go to sleep at once: whoever sleeps beside work was rung.
#[test]
fn loom_both_asleep_is_never_both_waiting() {
    loom::model(|| {
        let (mut one, mut two) = sides(2);
        // The way back: one word, published by the consuming side.
        let back = Words::zeroed(2);
        let taken = Control::over(Words::zeroed(1));
        let mut back_in = WordProducer::new(back.clone(), 2, taken.clone()).unwrap();
        let back_out = WordConsumer::new(back, 2, taken).unwrap();
        let thread = loom::thread::spawn(move || {
            assert!(back_in.push(1));
            let rang = two.sleep.must_wake();
            two.sleep.announce();
            (rang, !two.ring.has_entry())
        });
        assert!(one.ring.push(&Slot::new()));
        let rang = one.sleep.must_wake();
        one.sleep.announce();
        let sleeps = !back_out.has_entry();
        let (other_rang, other_sleeps) = thread.join().unwrap();
        assert!(!sleeps || other_rang, "one sleeps beside work");
        assert!(!other_sleeps || rang, "two sleeps beside work");
    });
}

/// A second sleep is a new one: that the first was ended does not keep the second from ending.
#[test]
fn loom_each_sleep_is_ended_anew() {
    loom::model(|| {
        let (mut producing, mut consuming) = sides(2);
        let thread = loom::thread::spawn(move || {
            for _ in 0..2 {
                assert!(producing.ring.push(&Slot::new()));
                producing.sleep.must_wake();
            }
            producing.sleep.ended
        });
        // The first sleep ends early, as by a time-out.
        let mut slot = Slot::new();
        consuming.sleep.announce();
        while consuming.ring.pop(&mut slot) {}
        consuming.sleep.announce();
        let sleeps = !consuming.ring.has_entry();
        let ended = thread.join().unwrap();
        let missed = sleeps && consuming.ring.has_entry();
        assert!(
            !missed || ended == 2,
            "asleep beside an entry; sleep {ended} was ended"
        );
    });
}
