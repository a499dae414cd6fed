//! Any bytes as an IPv4 packet. What is accepted is consistent, and what it says survives being
//! written.
#![no_main]

use gannet_wire::ipv4::{HEADER_LEN, Header, OptionReport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let checked = Header::parse(data);
    let unchecked = Header::parse_unverified(data, data.len());
    if checked.is_ok() {
        assert_eq!(checked, unchecked);
    }
    let Ok((header, header_len)) = unchecked else {
        return;
    };
    assert!((20..=60).contains(&header_len) && header_len % 4 == 0);
    assert!(header_len + header.payload_len(header_len) <= data.len());

    let plain = Header {
        options: OptionReport::default(),
        ..header
    };
    let mut out = [0; 65_536];
    assert_eq!(plain.emit(&mut out), Some(HEADER_LEN));
    let room = usize::from(header.total_len);
    assert_eq!(Header::parse(&out[..room]), Ok((plain, HEADER_LEN)));
});
