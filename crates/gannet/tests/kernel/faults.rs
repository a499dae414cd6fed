//! The kernel's TCP as peer over a bad wire: two TAP devices, and between them a bridge of the
//! test's own that loses, repeats and delays frames. The seed is in every message.

use crate::lan::{GANNET, KERNEL, Lan, Namespace, Over, not_root};
use crate::stream::{drain, pour};
use gannet::{Host, HostBuilder};
use gannet_base::Rng;
use gannet_drivers::tap::{Kind, Options, TapDriver};
use gannet_drivers::virtio::SegmentSize;
use gannet_link::{Endpoint, Frame, Slot};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

pub(crate) type Tap = Endpoint<TapDriver>;

/// What the wire does to frames, in millionths.
#[derive(Clone, Copy, Debug)]
struct Faults {
    seed: u64,
    lose: u32,
    repeat: u32,
    delay: u32,
}

fn faults(seed: u64, lose: u32, repeat: u32, delay: u32) -> Faults {
    Faults {
        seed,
        lose,
        repeat,
        delay,
    }
}

/// The bridge's ends: Gannet's interface `near` and the kernel's `far` are TAP devices whose other
/// ends these are.
pub(crate) struct Wire {
    pub(crate) near: Tap,
    pub(crate) far: Tap,
}

/// A host with settings and the kernel on such a wire, which nobody serves yet.
pub(crate) fn lan(
    mtu: u32,
    settings: impl FnOnce(HostBuilder) -> HostBuilder + Send,
) -> (Lan, Wire) {
    let (near, kernel) = (Namespace::new(), Namespace::new());
    let open = |place: &Namespace, name: &str| {
        let options = Options {
            segment: SegmentSize {
                block_bytes: 64 << 10,
                blocks: 64,
            },
            mtu: Some(mtu),
        };
        let end = place.run(|| TapDriver::open(Some(name), Kind::Tap, options).unwrap());
        // Small frames with checksums: a super-segment would be lost as a whole.
        place.switch_offloads_off(name);
        place.ip(&format!("link set {name} up"));
        place.wait_for_carrier(name);
        end
    };
    let wire = Wire {
        near: open(&near, "near"),
        far: open(&kernel, "far"),
    };
    kernel.ip(&format!("addr add {KERNEL}/24 dev far"));
    let own = format!("{GANNET}/24");
    let builder = settings(Host::builder().packet("near", &own));
    let host = near.run(|| builder.build().unwrap());
    let lan = Lan {
        host,
        kernel,
        near: Some(near),
    };
    (lan, wire)
}

/// Takes the next frame out of `end`.
pub(crate) fn take(end: &mut Tap) -> Option<Vec<u8>> {
    let (mut frame, mut budget) = (Frame::new(), 1);
    if !end.receive(&mut frame, &mut budget) {
        return None;
    }
    let mut bytes = vec![0; frame.len()];
    assert_eq!(end.peek(&frame, &mut bytes), bytes.len());
    assert_eq!(frame.gso_size(), 0, "offloads are off");
    end.release_frame(&frame);
    Some(bytes)
}

/// Puts a frame into `end`; lost when there is no room, as on any wire.
pub(crate) fn put(end: &mut Tap, bytes: &[u8]) {
    let mut slot = Slot::new();
    let (head, rest) = bytes.split_at(bytes.len().min(64));
    slot.inline_mut(head.len()).unwrap().copy_from_slice(head);
    let mut arena = gannet_link::Arena::new();
    let mut ranges = Vec::new();
    let mut rest = rest;
    while !rest.is_empty() {
        let Some(range) = end.pool.append(&mut arena, rest) else {
            break;
        };
        rest = &rest[range.len as usize..];
        assert!(slot.push_range(range));
        ranges.push(range);
    }
    if rest.is_empty() {
        let _ = end.transmit(&slot);
    }
    for range in ranges {
        end.release(range);
    }
    end.pool.close(&mut arena);
    end.flush();
    end.reclaim();
}

/// Carries frames both ways until `over`.
fn bridge(wire: &mut Wire, faults: Faults, over: &AtomicBool) -> [u64; 3] {
    let mut rng = Rng::new(faults.seed);
    let mut counts = [0; 3];
    // Frames held back, with the time when they go on and whether to the far end.
    let mut held: Vec<(Instant, bool, Vec<u8>)> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let mut idle = true;
        for to_far in [true, false] {
            let (from, to) = match to_far {
                true => (&mut wire.near, &mut wire.far),
                false => (&mut wire.far, &mut wire.near),
            };
            let Some(frame) = take(from) else { continue };
            idle = false;
            if rng.chance(faults.lose) {
                counts[0] += 1;
                continue;
            }
            if rng.chance(faults.repeat) {
                counts[1] += 1;
                put(to, &frame);
            }
            if rng.chance(faults.delay) {
                counts[2] += 1;
                let until = Instant::now() + Duration::from_micros(50 + rng.below(1000));
                held.push((until, to_far, frame));
            } else {
                put(to, &frame);
            }
        }
        let now = Instant::now();
        while let Some(at) = held.iter().position(|(until, ..)| *until <= now) {
            let (_, to_far, frame) = held.swap_remove(at);
            let to = if to_far {
                &mut wire.far
            } else {
                &mut wire.near
            };
            put(to, &frame);
        }
        if idle {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    counts
}

/// 16 MiB each way over the wire.
fn survives(mtu: u32, faults: Faults) {
    if not_root() {
        return;
    }
    let (lan, mut wire) = lan(mtu, |builder| builder);
    let over = AtomicBool::new(false);
    let start = Instant::now();
    scope(|threads| {
        let carrier = threads.spawn(|| bridge(&mut wire, faults, &over));
        let end = Over(&over);
        let (mut ours, mut theirs) = lan.pair();
        let len = 16 << 20;
        scope(|threads| {
            let received = threads.spawn(|| drain(&mut theirs, faults.seed));
            let sent = pour(&mut ours, len, faults.seed);
            ours.shutdown(Shutdown::Write).unwrap();
            assert_eq!(received.join().unwrap(), sent, "{faults:?}");
        });
        let there = start.elapsed();
        let info = ours.info().unwrap();
        scope(|threads| {
            let received = threads.spawn(|| drain(&mut ours, !faults.seed));
            let sent = pour(&mut theirs, len, !faults.seed);
            theirs.shutdown(Shutdown::Write).unwrap();
            assert_eq!(received.join().unwrap(), sent, "{faults:?}");
        });
        drop(end);
        let counts = carrier.join().unwrap();
        let back = start.elapsed() - there;
        println!(
            "{faults:?}: lost, repeated, delayed {counts:?}; there {there:.2?}, back {back:.2?}"
        );
        println!(
            "ours: {} retransmissions, {} time-outs, {} fast recoveries",
            info.retransmissions, info.timeouts, info.fast_recoveries
        );
    });
}

#[test]
fn a_clean_wire() {
    survives(1500, faults(1, 0, 0, 0));
}

#[test]
fn a_wire_that_loses() {
    survives(1500, faults(2, 10_000, 0, 0));
}

#[test]
fn a_wire_that_repeats() {
    survives(1500, faults(3, 0, 50_000, 0));
}

#[test]
fn a_wire_that_reorders() {
    survives(1500, faults(4, 0, 0, 20_000));
}

#[test]
fn a_wire_that_does_everything() {
    for seed in 5..8 {
        survives(1500, faults(seed, 5000, 10_000, 10_000));
    }
}
