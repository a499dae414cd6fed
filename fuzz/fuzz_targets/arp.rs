//! Any bytes as an ARP packet; what is accepted is exactly what would be written.
#![no_main]

use gannet_wire::arp::{PACKET_LEN, Packet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((packet, len)) = Packet::parse(data) {
        let mut out = [0; PACKET_LEN];
        assert_eq!(packet.emit(&mut out), Some(len));
        assert_eq!(out, data[..len]);
    }
});
