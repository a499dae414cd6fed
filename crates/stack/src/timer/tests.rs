//! The wheel against a sorted map.
extern crate std;
use super::*;
use core::time::Duration;
use gannet_base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

const MS: fn(u64) -> Instant = Instant::from_millis;

fn drain(wheel: &mut Wheel, now: Instant) -> Vec<u32> {
    let mut out = Vec::new();
    wheel.expired(now, &mut |key| out.push(key));
    wheel.invariants();
    out
}

#[test]
fn expires_neither_early_nor_a_tick_late() {
    // armed for (ns), first instant at which it must be gone (ms)
    let rows = [
        (0, 0),
        (1, 1),
        (1_000_000, 1),
        (1_000_001, 2),
        (63_000_000, 63),
        (64_000_000, 64),
        (4_096_000_000, 4096),
        (3_600_000_000_000, 3_600_000),             // an hour
        (24 * 3_600_000_000_000, 24 * 3_600_000),   // a day
        (365 * 86_400_000_000_000, 31_536_000_000), // a year
    ];
    for (ns, ms) in rows {
        let mut w = Wheel::new(0);
        w.arm(0, Instant::from_nanos(ns));
        assert_eq!(w.deadline(0), Some(MS(ms)));
        if ms > 0 {
            assert_eq!(drain(&mut w, MS(ms - 1)), vec![], "{ns}");
        }
        assert!(w.next_expiry().unwrap() <= MS(ms));
        assert_eq!(drain(&mut w, MS(ms)), vec![0], "{ns}");
        assert_eq!(w.next_expiry(), None);
        assert_eq!(w.armed(), 0);
    }
}

#[test]
fn re_arming_moves_and_cancelling_forgets() {
    let mut w = Wheel::new(4);
    w.arm(3, MS(10));
    w.arm(3, MS(5000));
    w.arm(1, MS(20));
    w.arm(1, MS(20));
    assert_eq!(w.armed(), 2);
    w.cancel(1);
    w.cancel(1);
    w.cancel(77); // never armed
    w.invariants();
    assert!(!w.is_armed(1) && w.is_armed(3));
    assert_eq!(drain(&mut w, MS(4999)), vec![]);
    assert_eq!(drain(&mut w, MS(5000)), vec![3]);
}

#[test]
fn the_past_expires_at_the_next_poll() {
    let mut w = Wheel::new(4);
    assert_eq!(drain(&mut w, MS(1000)), vec![]);
    w.arm(0, MS(1));
    assert!(w.next_expiry().unwrap() <= MS(1000));
    assert_eq!(drain(&mut w, MS(1000)), vec![0]);
    // a clock that goes back neither fires nor breaks anything
    w.arm(1, MS(1002));
    assert_eq!(drain(&mut w, MS(3)), vec![]);
    assert_eq!(drain(&mut w, MS(1002)), vec![1]);
}

/// The wheel follows the clock also while nothing expires, so that a near timer is named exactly
/// and wakes its host once.
#[test]
fn a_near_timer_after_a_long_silence_wakes_once() {
    let mut w = Wheel::new(4);
    w.arm(1, MS(500_000_000));
    assert_eq!(drain(&mut w, MS(1_000_000)), vec![]);
    w.arm(0, MS(1_000_010));
    assert_eq!(w.next_expiry(), Some(MS(1_000_010)));
    assert_eq!(drain(&mut w, MS(1_000_010)), vec![0]);
}

#[test]
fn the_end_of_time() {
    let mut w = Wheel::new(1);
    w.arm(0, Instant::from_nanos(u64::MAX));
    w.arm(1, MS(5));
    w.invariants();
    assert_eq!(drain(&mut w, MS(1 << 40)), vec![1]);
    assert!(w.next_expiry().is_some());
}

#[test]
fn timers_of_one_tick_come_in_the_order_of_arming() {
    let mut w = Wheel::new(8);
    for key in [5, 2, 7, 0] {
        w.arm(key, MS(50));
    }
    assert_eq!(drain(&mut w, MS(50)), vec![5, 2, 7, 0]);
}

#[test]
fn timers_can_be_armed_between_expiries() {
    let mut w = Wheel::new(2);
    w.arm(0, MS(10));
    let mut fired = Vec::new();
    while let Some(key) = w.pop_expired(MS(100)) {
        fired.push(key);
        if fired.len() < 5 {
            w.arm(key + 1, MS(10 + 10 * u64::from(key)));
        }
    }
    assert_eq!(fired, vec![0, 1, 2, 3, 4]);
}

/// 10,000 timers that do not expire must not be looked at: between two polls a millisecond apart
/// at most the timers of one slot are dealt out, and each at most once per level in its life.
#[test]
fn a_poll_costs_nothing_however_many_timers_are_armed() {
    let mut w = Wheel::new(10_000);
    for key in 0..10_000 {
        w.arm(key, MS(3_600_000 + u64::from(key)));
    }
    let heads = w.heads;
    // up to the hour's slot nothing moves
    let quiet = w.next_expiry().unwrap().as_millis();
    assert!(quiet > 1_000_000, "{quiet}");
    for now in [1, 2, 64, 4096, quiet - 1] {
        assert_eq!(drain(&mut w, MS(now)), vec![]);
        assert_eq!(w.heads, heads);
    }
    let mut polls = 0;
    let mut fired = 0;
    while let Some(at) = w.next_expiry() {
        polls += 1;
        fired += drain(&mut w, at).len();
    }
    assert_eq!(fired, 10_000);
    assert!(polls < 10_000 + 10_000 / 64 + 100, "{polls}");
}

/// The naive twin: a map from tick to keys.
#[derive(Default)]
struct Twin {
    by_tick: BTreeMap<u64, BTreeSet<u32>>,
    tick_of: BTreeMap<u32, u64>,
}

impl Twin {
    fn cancel(&mut self, key: u32) {
        if let Some(tick) = self.tick_of.remove(&key) {
            self.by_tick.get_mut(&tick).unwrap().remove(&key);
        }
    }

    fn arm(&mut self, key: u32, at: Instant) {
        self.cancel(key);
        let tick = at.as_nanos().div_ceil(1_000_000);
        self.by_tick.entry(tick).or_default().insert(key);
        self.tick_of.insert(key, tick);
    }

    fn expired(&mut self, now: Instant) -> BTreeSet<u32> {
        let later = self.by_tick.split_off(&(now.as_millis() + 1));
        let due = core::mem::replace(&mut self.by_tick, later);
        let due: BTreeSet<u32> = due.into_values().flatten().collect();
        for key in &due {
            self.tick_of.remove(key);
        }
        due
    }
}

#[test]
fn random_comparison_with_a_sorted_map() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut wheel = Wheel::new(16);
        let mut twin = Twin::default();
        let mut now = Instant::from_nanos(rng.next_u64() >> rng.below(60).max(8));
        drain(&mut wheel, now);
        for step in 0..3000 {
            let key = rng.below(200) as u32;
            let ahead = Duration::from_nanos(rng.next_u64() >> (20 + rng.below(40)));
            match rng.below(10) {
                0..=5 => {
                    wheel.arm(key, now + ahead);
                    twin.arm(key, now + ahead);
                }
                6 => {
                    wheel.cancel(key);
                    twin.cancel(key);
                }
                7 => now += ahead,
                // as an event loop does: sleep until the wheel wants to be polled
                _ => now = wheel.next_expiry().map_or(now, |at| at.max(now)),
            }
            if let (Some(next), Some(&first)) = (wheel.next_expiry(), twin.tick_of.values().min()) {
                assert!(next <= MS(first), "late: seed {seed} step {step}");
            }
            let mut fired = Vec::new();
            wheel.expired(now, &mut |key| fired.push(key));
            wheel.invariants();
            let set: BTreeSet<u32> = fired.iter().copied().collect();
            assert_eq!(set.len(), fired.len(), "twice: seed {seed} step {step}");
            assert_eq!(set, twin.expired(now), "seed {seed} step {step}");
            assert_eq!(wheel.armed(), twin.tick_of.len(), "seed {seed} step {step}");
        }
    }
}
