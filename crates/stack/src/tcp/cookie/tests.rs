use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use super::*;
use gannet_base::Rng;

fn ends(port: u16) -> FourTuple {
    let at = |last, port| SocketAddr::new(Ipv4Addr::new(192, 0, 2, last).into(), port);
    FourTuple {
        local: at(1, 80),
        remote: at(2, port),
    }
}

fn asked<'a>(key: &'a HashKey, ends: &'a FourTuple) -> Asked<'a> {
    Asked {
        key,
        ends,
        irs: SeqNum(77),
        timestamps: true,
    }
}

#[test]
fn what_was_made_is_taken_for_one_to_two_minutes() {
    let key = HashKey::new([7; 16]);
    let ends = ends(4000);
    let asked = asked(&key, &ends);
    for start in [0, 1, 59_999, 60_000, 100_000] {
        let made = Instant::from_millis(start);
        let iss = asked.cookie(1460, made);
        let taken = |after| asked.check(iss, made + Duration::from_secs(after));
        for after in [0, 1, 30, 60] {
            assert_eq!(taken(after), Some(1460), "made at {start} ms, {after} s");
        }
        for after in [121, 180, 240, 3600] {
            assert_eq!(taken(after), None, "made at {start} ms, {after} s");
        }
    }
}

#[test]
fn never_more_than_the_peer_said() {
    let key = HashKey::new([7; 16]);
    let ends = ends(4000);
    let now = Instant::from_millis(5000);
    for mss in (48..=10_000).chain([65_535]) {
        let asked = asked(&key, &ends);
        let told = asked.check(asked.cookie(mss, now), now);
        let told = told.expect("fresh");
        assert!(told <= mss && CLASSES.contains(&told), "{mss}: {told}");
    }
}

/// Another host, port, number, key or set of options: no cookie of ours. And a forger who tries at
/// random is not believed.
#[test]
fn any_difference_spoils_it() {
    let (key, other) = (HashKey::new([7; 16]), HashKey::new([8; 16]));
    let (right, wrong) = (ends(4000), ends(4001));
    let now = Instant::from_millis(5000);
    let good = asked(&key, &right);
    let iss = good.cookie(1460, now);
    let bad = [
        asked(&key, &wrong),
        asked(&other, &right),
        Asked {
            irs: SeqNum(78),
            ..good
        },
        Asked {
            timestamps: false,
            ..good
        },
    ];
    for asked in bad {
        assert_eq!(asked.check(iss, now), None, "{asked:?}");
    }
    let mut rng = Rng::new(1);
    let forged = (0..100_000).filter(|_| {
        let guess = SeqNum(rng.next_u64() as u32);
        guess != iss && good.check(guess, now).is_some()
    });
    assert!(forged.count() <= 1, "2^28 hashes");
}

#[test]
fn options_travel_in_the_time_stamp() {
    for clock in [0u32, 1, 63, 64, 1000, u32::MAX - 3, u32::MAX] {
        for scale in (0..=14).map(Some).chain([None]) {
            for (sack, ecn) in [(false, false), (true, false), (false, true), (true, true)] {
                let extras = Extras { scale, sack, ecn };
                let marked = mark_timestamp(clock, extras);
                assert_eq!(read_timestamp(marked), extras);
                let behind = clock.wrapping_sub(marked);
                assert!(behind < 128, "{clock} {marked}: not ahead, not far behind");
            }
        }
    }
    let silly = Extras {
        scale: Some(200),
        ..Extras::default()
    };
    assert_eq!(read_timestamp(mark_timestamp(0, silly)).scale, Some(14));
}
