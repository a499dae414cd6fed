//! RFC 1071 and RFC 1624 examples; the naive twin at random.
extern crate std;

use super::*;
use std::vec;
use std::vec::Vec;

/// The definition, word by word.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum as u16
}

/// xorshift64*: a fixed stream of numbers, the same on every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        // Often 0x00 and 0xff, where carries and the two zeros of one's complement live.
        (0..len)
            .map(|_| match self.next() >> 61 {
                0 => 0x00,
                1 | 2 => 0xff,
                _ => (self.next() >> 32) as u8,
            })
            .collect()
    }
}

const SEED: u64 = 0x6761_6e6e_6574;

#[test]
fn rfc1071_section_3_numerical_examples() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum(&bytes).fold(), 0xddf2);
    assert_eq!(sum(&bytes).finish(), !0xddf2);
    // "Breaking the sum into two groups": the second begins at an odd offset of the message.
    let first = sum(&bytes[..3]);
    let second = sum(&bytes[3..]);
    assert_eq!(first.combine(second, true).fold(), 0xddf2);
    assert_eq!(
        sum(&bytes[..4]).combine(sum(&bytes[4..]), false).fold(),
        0xddf2
    );
}

#[test]
fn rfc1071_section_1_message_with_its_checksum_sums_to_all_ones() {
    let mut message = vec![
        0x45, 0, 0, 0x1c, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let checksum = sum(&message).finish();
    message[10..12].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(sum(&message).fold(), 0xffff);
    assert_eq!(sum(&message).finish(), 0);
}

#[test]
fn rfc1624_section_4_example() {
    // 0xCD7A + ~0x5555 + 0x3285 with HC = 0xDD2F must give 0x0000, not 0xFFFF.
    assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn naive_twin_every_short_length_and_random_long_ones() {
    let mut numbers = Numbers(SEED);
    let lengths: Vec<usize> = (0..200)
        .chain((0..300).map(|_| numbers.below(10_000)))
        .collect();
    for len in lengths {
        let bytes = numbers.bytes(len);
        assert_eq!(
            sum(&bytes).fold(),
            naive(&bytes),
            "seed {SEED:#x} length {len}"
        );
        let mut copy = vec![0xaa; len + 3];
        assert_eq!(
            copy_and_sum(&bytes, &mut copy).fold(),
            naive(&bytes),
            "length {len}"
        );
        assert_eq!(
            (&copy[..len], &copy[len..]),
            (&bytes[..], &[0xaa; 3][..]),
            "length {len}"
        );
    }
}

#[test]
fn copy_and_sum_stops_at_the_shorter() {
    let mut short = [0; 3];
    assert_eq!(
        copy_and_sum(&[1, 2, 3, 4, 5], &mut short).fold(),
        naive(&[1, 2, 3])
    );
    assert_eq!(short, [1, 2, 3]);
}

#[test]
fn all_ones_and_all_zeros() {
    for len in [2, 4, 32, 64, 9000, 65_536] {
        assert_eq!(sum(&vec![0; len]).fold(), 0, "{len}");
        assert_eq!(sum(&vec![0xff; len]).fold(), 0xffff, "{len}");
    }
    assert_eq!(sum(&[]).fold(), 0);
}

#[test]
fn ranges_cut_anywhere_combine_to_the_whole() {
    let mut numbers = Numbers(SEED + 1);
    for round in 0..2_000 {
        let len = 1 + numbers.below(300);
        let bytes = numbers.bytes(len);
        let mut total = Sum::new();
        let mut at = 0;
        while at < len {
            let end = at + 1 + numbers.below(len - at);
            total = total.combine(sum(&bytes[at..end]), at % 2 == 1);
            at = end;
        }
        assert_eq!(
            total.fold(),
            naive(&bytes),
            "seed {:#x} round {round}",
            SEED + 1
        );
    }
}

#[test]
fn words_added_are_the_bytes_added() {
    let mut numbers = Numbers(SEED + 2);
    for _ in 0..1_000 {
        let (word, double) = (numbers.next() as u16, numbers.next() as u32);
        let mut bytes = word.to_be_bytes().to_vec();
        bytes.extend(double.to_be_bytes());
        let mut total = Sum::new();
        total.add_u16(word);
        total.add_u32(double);
        assert_eq!(total.fold(), naive(&bytes), "{word:#x} {double:#x}");
        let mut same = Sum::from_folded(naive(&bytes[..2]));
        same.add_bytes(&bytes[2..]);
        assert_eq!(same.fold(), naive(&bytes), "{word:#x} {double:#x}");
    }
}

#[test]
fn rfc1624_updates_equal_a_new_computation() {
    let mut numbers = Numbers(SEED + 3);
    for round in 0..10_000 {
        let mut bytes = numbers.bytes(20);
        // As in a real header, one word is never zero, so both zeros cannot be confused.
        bytes[0] = 0x45;
        let before = sum(&bytes).finish();
        let at = 2 * (1 + numbers.below(8));
        let new = numbers.bytes(4);
        let old = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let word = |b: &[u8]| u16::from_be_bytes([b[0], b[1]]);
        let double = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        bytes[at..at + 2].copy_from_slice(&new[..2]);
        assert_eq!(
            update_u16(before, word(&old), word(&new)),
            sum(&bytes).finish(),
            "{round}"
        );
        bytes[at + 2..at + 4].copy_from_slice(&new[2..]);
        assert_eq!(
            update_u32(before, double(&old), double(&new)),
            sum(&bytes).finish(),
            "{round}"
        );
    }
}

#[test]
fn pseudo_headers_are_their_bytes() {
    let (src, dst) = (
        Ipv4Addr::new(192, 0, 2, 1),
        Ipv4Addr::new(198, 51, 100, 254),
    );
    let bytes = [192, 0, 2, 1, 198, 51, 100, 254, 0, 6, 0xfe, 0xdc];
    assert_eq!(
        pseudo_v4(src, dst, IpProtocol::TCP, 0xfedc).fold(),
        naive(&bytes)
    );

    let src = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let dst = Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 0xffff);
    let mut bytes = src.octets().to_vec();
    bytes.extend(dst.octets());
    bytes.extend([0, 1, 0xfe, 0xdc, 0, 0, 0, 17]);
    assert_eq!(
        pseudo_v6(src, dst, IpProtocol::UDP, 0x1_fedc).fold(),
        naive(&bytes)
    );
}
