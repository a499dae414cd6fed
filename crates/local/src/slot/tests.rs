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

/// `MSG_MORE` once shared its bit with the error queue, and made a stream ready for errors.
#[test]
fn every_flag_has_a_bit_of_its_own() {
    let all = [
        flags::NONBLOCKING,
        flags::RESOLVED,
        flags::HUNG_UP,
        flags::CARRIED,
        flags::DUAL,
        flags::SIX,
        flags::BROKEN,
        flags::TOLD,
        flags::ELSEWHERE,
        flags::SENDS_NO_MORE,
        flags::CONNECTED,
        flags::LOW_WATER,
        flags::LOST,
        flags::DEAF,
        flags::PORT_GIVEN,
        flags::MORE,
        flags::KEPT,
        flags::ERROR_QUEUE,
        flags::UNSENT_MAX,
    ];
    let bits = all.iter().fold(0, |bits, flag| {
        assert_eq!((flag.count_ones(), bits & flag), (1, 0), "{flag:#x}");
        bits | flag
    });
    assert_eq!(bits.count_ones() as usize, all.len());
}
