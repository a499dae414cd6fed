use super::*;
use crate::Geometry;

fn arena() -> Arena {
    let geometry = Geometry {
        slots: 64,
        ring: 4096,
    };
    Arena::create(7, geometry).unwrap().1
}

fn event(fate: Fate, address: Option<&str>) -> Event {
    Event {
        fate,
        role: Role::Connect,
        protocol: Protocol::Tcp,
        address: address.map(|text| text.parse().unwrap()),
    }
}

#[test]
fn nothing_is_written_that_nobody_wants() {
    let arena = arena();
    arena.note(event(Fate::Direct, Some("10.0.0.1:80")), 5);
    assert_eq!(arena.log(), Log::default());
    arena.want_log();
    arena.note(event(Fate::Direct, Some("10.0.0.1:80")), 5);
    assert_eq!(arena.log().events.len(), 1);
}

#[test]
fn the_same_is_counted_and_all_else_kept_apart() {
    let arena = arena();
    arena.want_log();
    let fates = Reason::ALL.map(|reason| [Fate::Left(reason), Fate::Failed(reason)]);
    let fates = fates.into_iter().flatten();
    let fates: Vec<Fate> = fates.chain([Fate::Direct, Fate::Carrier]).collect();
    let places = [Some("10.0.0.1:80"), Some("[fe80::1]:80"), None];
    for turn in 1..=3 {
        for fate in &fates {
            for place in places {
                arena.note(event(*fate, place), turn);
            }
        }
    }
    let log = arena.log();
    assert_eq!((log.events.len(), log.missed), (fates.len() * 3, 0));
    for fate in fates {
        for place in places {
            let logged = Logged {
                event: event(fate, place),
                count: 3,
                pid: 1,
            };
            assert!(log.events.contains(&logged), "{logged:?}");
        }
    }
}

#[test]
fn a_full_log_counts_what_it_has_no_room_for() {
    let arena = arena();
    arena.want_log();
    for port in 1..=LOG_ENTRIES + 10 {
        let place = format!("10.0.0.1:{port}");
        arena.note(event(Fate::Carrier, Some(&place)), 1);
    }
    arena.note(event(Fate::Carrier, Some("10.0.0.1:1")), 1);
    let log = arena.log();
    assert_eq!((log.events.len(), log.missed), (LOG_ENTRIES, 10));
    assert_eq!(log.events.first().map(|first| first.count), Some(2));
    assert!(arena.allocate(0, 0).is_some(), "slots lie behind it");
}

#[test]
fn nonsense_is_left_out_and_the_same_twice_is_one() {
    let arena = arena();
    arena.want_log();
    let own = event(Fate::Left(Reason::NoListener), Some("127.0.0.1:9"));
    for port in 1..4 {
        arena.note(event(Fate::Direct, Some(&format!("10.0.0.1:{port}"))), 1);
    }
    arena.note(own, 1);
    // An unknown reason, an entry that was never finished, and two that wrote at once.
    arena.entry_word(0, at::WHAT).store(63, Relaxed);
    arena.entry_word(1, at::READY).store(0, Relaxed);
    let (what, address) = own.pack();
    arena.entry_word(2, at::WHAT).store(what, Relaxed);
    for (offset, word) in (at::ADDRESS..).step_by(8).zip(address) {
        let place = arena.geometry().log_entry(2) + offset;
        arena.memory.long(place).store(word, Relaxed);
    }
    let expected = Logged {
        event: own,
        count: 2,
        pid: 1,
    };
    assert_eq!(arena.log().events, [expected]);
    // However many a hostile process says there are.
    arena
        .memory
        .word(header::LOG_TAKEN)
        .store(u32::MAX, Relaxed);
    assert_eq!(arena.log().events, [expected]);
    arena.note(event(Fate::Direct, None), 1);
    assert_eq!(arena.log().missed, 1);
}

#[test]
fn many_threads_lose_no_event() {
    let arena = arena();
    arena.want_log();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..400 {
                    let place = format!("10.0.0.1:{}", 1 + n % 40);
                    arena.note(event(Fate::Direct, Some(&place)), 1);
                }
            });
        }
    });
    let log = arena.log();
    assert_eq!((log.events.len(), log.missed), (40, 0));
    assert!(log.events.iter().all(|logged| logged.count == 40));
}
