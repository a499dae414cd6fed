//! RFC 6528, RFC 6056; robustness T9 (NUMBER:JACK).
extern crate std;
use super::*;
use std::collections::HashSet;
use std::vec::Vec;

const KEY: HashKey = HashKey::new([7; 16]);

fn remote(n: u16) -> SocketAddr {
    SocketAddr::new("192.0.2.9".parse().unwrap(), n)
}

fn local() -> SocketAddr {
    "192.0.2.1:0".parse().unwrap()
}

fn tuple(n: u16) -> FourTuple {
    FourTuple {
        local: local(),
        remote: remote(n),
    }
}

#[test]
fn the_clock_ticks_every_four_microseconds() {
    let t = tuple(80);
    let at = |us| initial_sequence(&KEY, &t, Instant::from_micros(us));
    assert_eq!(at(4) - at(0), 1);
    assert_eq!(at(3), at(0));
    assert_eq!(at(4_000_000) - at(0), 1_000_000);
    assert!(at(u64::MAX / 1000) != at(0), "a clock far from its start");
}

#[test]
fn robustness_t9_ten_thousand_connections_share_no_pattern() {
    let mut seen = HashSet::new();
    let mut steps = HashSet::new();
    let mut last = SeqNum(0);
    let mut high_bits = 0_u32;
    for n in 0..10_000 {
        let isn = initial_sequence(&KEY, &tuple(n), Instant::from_nanos(0));
        seen.insert(isn);
        steps.insert(isn - last);
        high_bits += isn.0 >> 31;
        last = isn;
    }
    // 10,000 of 2^32: on average 0.01 collisions
    assert!(seen.len() >= 9_999, "{}", seen.len());
    assert!(steps.len() >= 9_999, "no constant or global counter");
    assert!((4_700..=5_300).contains(&high_bits), "{high_bits}");
}

//= https://www.rfc-editor.org/rfc/rfc6528#section-3
//= type=test
//# F() MUST NOT be computable from the outside, or an attacker could still guess at sequence
//# numbers from the ISN used for some other connection.
#[test]
fn robustness_t9_a_restart_changes_everything() {
    let other = HashKey::new([8; 16]);
    let now = Instant::from_nanos(0);
    assert_ne!(
        initial_sequence(&KEY, &tuple(1), now),
        initial_sequence(&other, &tuple(1), now)
    );
    assert_ne!(
        timestamp_offset(&KEY, &tuple(1)),
        timestamp_offset(&other, &tuple(1))
    );
    assert_eq!(
        timestamp_offset(&KEY, &tuple(1)),
        timestamp_offset(&KEY, &tuple(1))
    );
    assert_ne!(
        timestamp_offset(&KEY, &tuple(1)),
        timestamp_offset(&KEY, &tuple(2))
    );
}

#[test]
fn rfc_6056_ports_stay_in_range_and_every_one_is_found() {
    let mut ports = EphemeralPorts::with_range(KEY, 40_000, 40_099);
    let mut used = HashSet::new();
    for _ in 0..100 {
        let port = ports
            .choose(local(), remote(80), &mut |p| !used.contains(&p))
            .unwrap();
        assert!((40_000..=40_099).contains(&port));
        assert!(used.insert(port));
    }
    assert_eq!(
        ports.choose(local(), remote(80), &mut |p| !used.contains(&p)),
        None
    );
    used.remove(&40_042);
    assert_eq!(
        ports.choose(local(), remote(80), &mut |p| !used.contains(&p)),
        Some(40_042)
    );
}

#[test]
fn rfc_6056_section_3_3_4_one_destination_does_not_reveal_another() {
    let mut ports = EphemeralPorts::new(KEY);
    let mut choose = |n| ports.choose(local(), remote(n), &mut |_| true).unwrap();
    let first = choose(80);
    // to the same destination: the next one (reuse of a four-tuple is put off longest)
    assert_eq!(choose(80), first + 1);
    // to others: unrelated starting points
    let starts: HashSet<u16> = (1000..2000).map(&mut choose).collect();
    assert!(starts.len() > 900, "{}", starts.len());
    let third = choose(80);
    assert!(
        third - first <= 4,
        "counters are hardly shared: {first} {third}"
    );
}

#[test]
fn odd_ranges() {
    let all: Vec<u16> = {
        let mut ports = EphemeralPorts::with_range(KEY, u16::MAX, 0);
        (0..1000)
            .filter_map(|n| ports.choose(local(), remote(n), &mut |_| true))
            .collect()
    };
    assert_eq!(all.len(), 1000);
    assert!(!all.contains(&0), "port 0 is no port");
    let mut none = EphemeralPorts::with_range(KEY, 0, 0);
    assert_eq!(none.choose(local(), remote(1), &mut |_| true), None);
    let mut one = EphemeralPorts::with_range(KEY, 5, 5);
    assert_eq!(one.choose(local(), remote(1), &mut |_| true), Some(5));
}
