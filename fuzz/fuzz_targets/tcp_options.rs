//! Any bytes as TCP options and as a TCP header. What was understood survives being written, and
//! the short
//! cut for time stamps agrees with the long way.
#![no_main]

use gannet_wire::tcp::{self, Header, MAX_OPTIONS_LEN, Options, SackBlocks};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    check(&data[..data.len().min(MAX_OPTIONS_LEN)]);
    if let Ok((header, len)) = Header::parse(data) {
        let option_bytes = tcp::options(data, len);
        assert_eq!(tcp::HEADER_LEN + option_bytes.len(), len);
        check(option_bytes);
        let mut fixed = [0; tcp::HEADER_LEN];
        header.emit_fixed(option_bytes.len(), &mut fixed);
        assert_eq!(fixed, data[..tcp::HEADER_LEN]);
    }
});

fn check(bytes: &[u8]) {
    let options = Options::parse(bytes);
    if let Some(pair) = tcp::parse_timestamps_only(bytes) {
        assert_eq!(options, Options::timestamps(pair.0, pair.1));
    }
    let mut out = [0; MAX_OPTIONS_LEN];
    let len = options
        .emit(&mut out)
        .expect("options always fit in 40 bytes");
    assert_eq!((len, len % 4), (options.encoded_len(), 0));
    let again = Options::parse(&out[..len]);
    // Only SACK blocks may have been left out, from the end.
    assert!(options.sack.as_slice().starts_with(again.sack.as_slice()));
    let without_sack = |o: Options| Options {
        sack: SackBlocks::NONE,
        malformed: false,
        ..o
    };
    assert_eq!(without_sack(again), without_sack(options));
    assert!(!again.malformed);
}
