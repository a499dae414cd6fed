//! Dynamic right-sizing.
use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;
const AT: fn(u64) -> Instant = Instant::from_millis;

#[test]
fn grows_with_what_the_application_takes_up_to_the_limit() {
    let mut tune = AutoTune::new(64 << 10, AutoTune::DEFAULT_MAX);
    // a sender in slow start: every round trip twice as much is read
    let mut read = 32 << 10;
    let mut now = 0;
    for _ in 0..12 {
        for _ in 0..10 {
            now += 10;
            tune.on_copied(read / 10, AT(now), Some(MS(100)), 1460);
        }
        assert!(
            tune.buffer() >= read.min(8 << 20),
            "window never below what one RTT brings"
        );
        read *= 2;
    }
    assert_eq!(tune.buffer(), 16 << 20);
}

#[test]
fn who_reads_slowly_gets_no_memory() {
    let mut tune = AutoTune::new(64 << 10, AutoTune::DEFAULT_MAX);
    for i in 0..10_000 {
        let grown = tune.on_copied(100, AT(i * 100), Some(MS(100)), 1460);
        assert_eq!(grown, None);
    }
    assert_eq!(tune.buffer(), 64 << 10);
    // nor without an idea of the round trip
    let mut tune = AutoTune::new(1000, 1 << 20);
    assert_eq!(tune.on_copied(u32::MAX, AT(5), None, 1460), None);
    assert_eq!(
        tune.on_copied(u32::MAX, AT(9), Some(MS(1)), 1460),
        Some(1 << 20),
        "saturates"
    );
}

#[test]
fn a_steady_rate_settles() {
    let mut tune = AutoTune::new(4096, 1 << 24);
    let mut changes = 0;
    for i in 0..1000 {
        if tune
            .on_copied(100_000, AT(i * 10), Some(MS(10)), 1460)
            .is_some()
        {
            changes += 1;
        }
    }
    assert!(changes <= 3, "{changes}");
    assert!(
        (200_000..500_000).contains(&tune.buffer()),
        "{}",
        tune.buffer()
    );
}

#[test]
fn receiver_round_trip_without_timestamps_is_the_fastest_window() {
    let mut r = ReceiverRtt::new();
    r.on_data(SeqNum(0), 1000, AT(0));
    r.on_data(SeqNum(500), 1000, AT(5));
    assert_eq!(r.get(), None, "half a window");
    r.on_data(SeqNum(1000), 1000, AT(50));
    assert_eq!(r.get(), Some(MS(50)));
    r.on_data(SeqNum(2000), 1000, AT(90));
    assert_eq!(r.get(), Some(MS(40)));
    r.on_data(SeqNum(3000), 1000, AT(1000));
    assert_eq!(r.get(), Some(MS(40)), "an idle sender teaches nothing");
}

#[test]
fn receiver_round_trip_with_timestamps() {
    let mut r = ReceiverRtt::new();
    r.on_timestamp(MS(80));
    r.on_timestamp(MS(160));
    assert_eq!(r.get(), Some(MS(90)));
    r.on_timestamp(MS(10));
    assert_eq!(r.get(), Some(MS(10)));
    r.on_timestamp(Duration::MAX);
    assert!(r.get().is_some());
}
