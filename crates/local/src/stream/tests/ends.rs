//! How a stream ends, and what the other end is told of it.

use crate::options::Opt;
use crate::pair::{End, Pair};
use crate::{Hindrance, Watcher, fault};
use rustix::io::Errno;
use rustix::net::RecvFlags;

#[test]
fn a_reset_has_the_reason_its_maker_gave_if_it_is_an_errno() {
    let reset = Errno::CONNRESET.raw_os_error();
    let late = Errno::TIMEDOUT.raw_os_error();
    for (said, heard) in [(late, late), (0, reset), (-1, reset), (4000, reset)] {
        let pair = Pair::new();
        pair.b().slot().set_reason(said);
        pair.b().close(true);
        assert_eq!(
            pair.a().receive_slice(&mut [0; 9], false),
            Err(Hindrance::Reset)
        );
        assert_eq!(pair.a().reset_errno(), heard, "{said}");
    }
}

#[test]
fn a_process_that_dies_ends_the_stream_as_its_linger_time_says() {
    for (seconds, end) in [
        (None, Hindrance::End),
        (Some(5), Hindrance::End),
        (Some(0), Hindrance::Reset),
    ] {
        let pair = Pair::new();
        if let Some(seconds) = seconds {
            pair.b().slot().set(Opt::LingerOn, 1);
            pair.b().slot().set(Opt::LingerSeconds, seconds);
        }
        pair.a().hung_up();
        assert_eq!(pair.a().receive_slice(&mut [0; 9], false), Err(end));
    }
}

#[test]
fn what_is_below_the_low_water_mark_is_not_readable_until_the_end() {
    let pair = Pair::new();
    let (a, b) = (pair.a(), pair.b());
    b.slot().set(Opt::LowWater, 5);
    a.send_slice(b"four").unwrap();
    assert!(!b.readiness().readable && b.waiting() == 4);
    a.send_slice(b"!").unwrap();
    assert!(b.readiness().readable);
    b.skip(1).unwrap();
    assert!(!b.readiness().readable);
    a.finish();
    assert!(b.readiness().readable);
    // A mark that the ring could never reach would be a wait for ever.
    b.slot().set(Opt::LowWater, u32::MAX - 1);
    assert_eq!(b.low_water(), 2048);
}

/// Wake-ups that came to an end since the last look.
fn wakes(end: &End) -> usize {
    let mut bytes = [0; 64];
    let got = rustix::net::recv(&end.fd, &mut bytes[..], RecvFlags::DONTWAIT);
    got.map_or(0, |(_, n)| n)
}

/// Of the processes that share an end, one is killed before it wakes the sleeper at the other.
#[test]
fn a_sleeper_whose_waker_is_killed_is_woken_by_the_next() {
    let pair = Pair::new();
    let (a, b) = (pair.a(), pair.b());
    for reads in [true, false] {
        match reads {
            true => b.slot().arm_reader(),
            false => {
                while b.send_slice(&[0; 1000]).is_ok() {}
                b.slot().arm_writer();
            }
        }
        let news = || match reads {
            true => assert_eq!(a.send_slice(b"x"), Ok(1)),
            false => assert_eq!(a.skip(1100), Ok(1100)),
        };
        fault::kill_at("wake", news);
        assert_eq!(wakes(&pair.b), 0);
        news();
        assert_eq!(wakes(&pair.b), 1, "reads: {reads}");
        news();
        assert_eq!(wakes(&pair.b), 0, "once a sleep");
        b.slot().disarm_reader();
        b.slot().disarm_writer();
    }
}

/// The same for what sleeps on many streams, without a bell.
#[test]
fn a_set_whose_waker_is_killed_is_woken_by_the_next() {
    let pair = Pair::new();
    let a = pair.a();
    let mut watcher = Watcher::new(pair.b.arena.clone(), pair.b.holder);
    watcher.add(pair.b.slot, &pair.a.arena);
    assert!(!watcher.arm());
    let news = || assert_eq!(a.send_slice(b"x"), Ok(1));
    fault::kill_at("wake", news);
    assert_eq!(wakes(&pair.b), 0);
    news();
    assert_eq!(wakes(&pair.b), 1);
    news();
    assert_eq!(wakes(&pair.b), 0, "once a sleep");
}
