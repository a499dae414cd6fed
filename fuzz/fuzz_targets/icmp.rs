//! Any bytes as an ICMP message and as the packet quoted in one.
#![no_main]

use gannet_wire::checksum;
use gannet_wire::icmpv4::{HEADER_LEN, Message, Quoted};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((message, len)) = Message::parse_unverified(data) {
        let payload = &data[len..];
        let mut out = data.to_vec();
        assert_eq!(
            message.emit(checksum::sum(payload), &mut out),
            Some(HEADER_LEN)
        );
        assert_eq!(Message::parse(&out), Ok((message, HEADER_LEN)));
        if let Ok(quoted) = Quoted::parse(payload) {
            assert_eq!(quoted.tcp_seq().is_some(), quoted.ip.protocol.0 == 6);
            let _ = quoted.ports();
        }
    }
    let _ = Message::parse(data);
    let _ = Quoted::parse(data);
});
