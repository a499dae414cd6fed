//! Words of a slot: who sleeps.

use super::*;
use crate::pair::Pair;

#[test]
fn one_who_wakes_leaves_the_others_armed() {
    let pair = Pair::new();
    let slot = pair.a.arena.own(pair.a.slot);
    assert_eq!((slot.reader_armed(), slot.writer_armed()), (0, 0));
    slot.arm_reader();
    let one = slot.reader_armed();
    slot.arm_reader();
    let two = slot.reader_armed();
    slot.disarm_reader();
    let left = slot.reader_armed();
    assert!(one != 0 && two != one && left != 0 && left != two);
    slot.disarm_reader();
    assert_eq!((slot.reader_armed(), slot.writer_armed()), (0, 0));
    slot.arm_writer();
    assert!(slot.writer_armed() != 0 && slot.reader_armed() == 0);
    slot.disarm_writer();
    slot.disarm_writer();
    assert_eq!(slot.writer_armed(), 0);
    slot.arm_reader();
    assert!(slot.reader_armed() != one, "another sleep");
}

#[test]
fn more_sleepers_than_can_be_counted_are_still_woken() {
    let pair = Pair::new();
    let slot = pair.a.arena.own(pair.a.slot);
    for _ in 0..SLEEPERS + 5 {
        slot.arm_reader();
    }
    assert_eq!(slot.reader_armed() & SLEEPERS, SLEEPERS);
    let before = slot.reader_armed();
    slot.disarm_reader();
    assert!(slot.reader_armed() != 0 && slot.reader_armed() != before);
}

#[test]
fn addresses_there_and_back() {
    let pair = Pair::new();
    let slot = pair.a.arena.own(pair.a.slot);
    for text in ["10.1.2.3:80", "[fd00::1:2]:65535", "[::]:0", "0.0.0.0:1"] {
        let address: SocketAddr = text.parse().unwrap();
        slot.set_local(address);
        slot.set_remote(address);
        assert_eq!((slot.local(), slot.remote()), (address, address));
    }
}
