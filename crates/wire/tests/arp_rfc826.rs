//! RFC 826, "Packet Reception": what is and is not an ARP packet (robustness rows L3 and L5).

use gannet_wire::MacAddr;
use gannet_wire::arp::{Operation, Packet, ParseError};
use std::net::Ipv4Addr;

fn request() -> Packet {
    Packet {
        operation: Operation::Request,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(192, 0, 2, 1),
        target_mac: MacAddr::ZERO,
        target_ip: Ipv4Addr::new(192, 0, 2, 2),
    }
}

#[test]
fn rfc826_layout() {
    let mut bytes = [0xee; 30];
    assert_eq!(request().emit(&mut bytes), Some(28));
    let expected = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2,
    ];
    assert_eq!(
        (&bytes[..28], &bytes[28..]),
        (&expected[..], &[0xee, 0xee][..])
    );
}

#[test]
fn l3_wrong_types_and_lengths_l5_rarp() {
    let mut good = [0; 28];
    request().emit(&mut good).unwrap();
    let cases = [
        (1, 6, ParseError::BadHardwareType),
        (0, 1, ParseError::BadHardwareType),
        (2, 0x86, ParseError::BadProtocolType),
        (3, 6, ParseError::BadProtocolType),
        (4, 0, ParseError::BadAddressLength),
        (4, 255, ParseError::BadAddressLength),
        (5, 0, ParseError::BadAddressLength),
        (5, 1, ParseError::BadAddressLength),
        (5, 255, ParseError::BadAddressLength),
        (7, 0, ParseError::BadOperation),
        (7, 3, ParseError::BadOperation), // reverse request
        (7, 4, ParseError::BadOperation), // reverse reply
        (6, 1, ParseError::BadOperation),
    ];
    for (at, value, error) in cases {
        let mut bytes = good;
        bytes[at] = value;
        assert_eq!(Packet::parse(&bytes), Err(error), "byte {at} = {value}");
    }
    for len in 0..28 {
        assert_eq!(
            Packet::parse(&good[..len]),
            Err(ParseError::Truncated),
            "{len}"
        );
    }
}
