//! Any bytes as a UDP datagram; and the checksum: two ways of cutting and copying give the same
//! sum.
#![no_main]

use gannet_wire::{checksum, udp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((header, len)) = udp::Header::parse(data) {
        assert!(usize::from(header.length) >= len && usize::from(header.length) <= data.len());
        let mut out = [0; udp::HEADER_LEN];
        assert_eq!(header.emit(&mut out), Some(len));
        assert_eq!(out, data[..len]);
        assert_eq!(header.sum().fold(), checksum::sum(&data[..len]).fold());
    }
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let (left, right) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let odd = left.len() % 2 == 1;
    let mut copy = vec![0; right.len()];
    let parts = checksum::sum(left).combine(checksum::copy_and_sum(right, &mut copy), odd);
    assert_eq!(copy, right);
    assert_eq!(parts.fold(), checksum::sum(bytes).fold());
});
