//! The handshake message.

use super::*;

fn hello() -> Message {
    Message::Hello(Hello {
        name: Name::new("10.0.0.1").unwrap(),
        layout: Layout::CHANNEL,
        pid: 4711,
    })
}

#[test]
fn what_is_written_is_read() {
    for message in [hello(), Message::Refusal(3)] {
        assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
    }
    let long = Hello {
        name: Name::new(&"x".repeat(NAME_MAX)).unwrap(),
        layout: Layout::CHANNEL,
        pid: -1,
    };
    let message = Message::Hello(long);
    assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
}

/// S6: one field wrong at a time.
#[test]
fn s6_each_field_is_checked() {
    let bad_layout = |at: usize, value: u32| {
        let mut bytes = hello().to_bytes().to_vec();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let with = |at: usize, value: u8| {
        let mut bytes = hello().to_bytes().to_vec();
        bytes[at] = value;
        bytes
    };
    let good = hello().to_bytes();
    let long = [&good[..], &[0]].concat();
    let cases = [
        (vec![], Fault::Magic),
        (good[..7].to_vec(), Fault::Magic),
        (good[..8].to_vec(), Fault::Length),
        (good[..BYTES - 1].to_vec(), Fault::Length),
        (long, Fault::Length),
        (with(0, b'G'), Fault::Magic),
        (with(8, 1), Fault::Version),
        (bad_layout(20, 0), Fault::Layout),
        (bad_layout(20, 3), Fault::Layout),
        (bad_layout(24, 1 << 21), Fault::Layout),
        (bad_layout(28, 1024), Fault::Layout),
        (bad_layout(32, u32::MAX), Fault::Layout),
        (bad_layout(36, 0), Fault::Layout),
        (bad_layout(36, 1 << 31), Fault::Layout),
        (with(44, 0), Fault::Name),
        (with(44, 65), Fault::Name),
        (with(44, 255), Fault::Name),
        (with(45, b'/'), Fault::Name),
        (with(45, b'.'), Fault::Name),
        (with(45, 0xff), Fault::Name),
        (with(46, 0), Fault::Name),
    ];
    for (bytes, fault) in cases {
        assert_eq!(Message::parse(&bytes), Err(fault), "{bytes:?}");
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = gannet_base::Rng::new(1);
    for _ in 0..20_000 {
        let mut bytes = hello().to_bytes();
        for _ in 0..1 + rng.below(4) {
            bytes[rng.below(BYTES as u64) as usize] = rng.next_u64() as u8;
        }
        if let Ok(Message::Hello(hello)) = Message::parse(&bytes) {
            assert!(hello.layout.is_valid() && hello.layout.bytes() > 0);
        }
    }
}
