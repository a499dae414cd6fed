//! Keys and purposes.
use super::*;

fn tuple(remote_port: u16) -> FourTuple {
    FourTuple {
        local: "10.0.0.1:80".parse().unwrap(),
        remote: SocketAddr::new("10.0.0.2".parse().unwrap(), remote_port),
    }
}

/// Fed in parts or at once, the hash is that of the purpose followed by the bytes.
#[test]
fn the_purpose_is_the_first_byte_hashed() {
    let key: [u8; 16] = core::array::from_fn(|i| i as u8);
    let input: [u8; 16] = core::array::from_fn(|i| if i == 0 { 1 } else { i as u8 - 1 });
    let expected = SipHasher13::new_with_key(&key).hash(&input);
    assert_eq!(
        HashKey::new(key).hash(Purpose::InitialSequence, &input[1..]),
        expected
    );
}

#[test]
fn key_and_purpose_and_input_all_matter() {
    let (a, b) = (HashKey::new([1; 16]), HashKey::new([2; 16]));
    let bytes = tuple(5).bytes();
    let h = a.hash(Purpose::InitialSequence, &bytes);
    assert_ne!(h, b.hash(Purpose::InitialSequence, &bytes));
    assert_ne!(h, a.hash(Purpose::TimestampOffset, &bytes));
    assert_ne!(h, a.hash(Purpose::InitialSequence, &tuple(6).bytes()));
    assert_eq!(h, a.hash(Purpose::InitialSequence, &tuple(5).bytes()));
}

#[test]
fn the_tuple_has_a_direction() {
    let t = tuple(80);
    let back = FourTuple {
        local: t.remote,
        remote: t.local,
    };
    assert_ne!(t.bytes(), back.bytes());
}

#[test]
fn a_key_is_never_printed() {
    extern crate std;
    let text = std::format!("{:?}", KeyedState::new(HashKey::new([0xab; 16])));
    assert_eq!(text, "KeyedState(HashKey(..))");
}

#[test]
fn tables_with_different_keys_hash_differently() {
    let (a, b) = (
        KeyedState::new(HashKey::new([1; 16])),
        KeyedState::new(HashKey::new([2; 16])),
    );
    assert_eq!(a.hash_one(tuple(1)), a.hash_one(tuple(1)));
    assert_ne!(a.hash_one(tuple(1)), b.hash_one(tuple(1)));
}
