//! RFC 9293 section 3.1, RFC 7323 appendix A: the exact bytes of the option layouts that we send.

use gannet_wire::tcp::{self, Flags, Header, Options};

fn emitted(options: &Options) -> Vec<u8> {
    let mut out = [0xee; 40];
    let len = options.emit(&mut out).unwrap();
    assert_eq!(len, options.encoded_len());
    out[..len].to_vec()
}

#[test]
fn syn_as_linux_sends_it() {
    let options = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((0x0102_0304, 0)),
        ..Options::NONE
    };
    let expected = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    assert_eq!(emitted(&options), expected);
}

#[test]
fn syn_with_some_options_missing() {
    let sack_only = Options {
        mss: Some(536),
        sack_permitted: true,
        ..Options::NONE
    };
    assert_eq!(emitted(&sack_only), [2, 4, 2, 24, 1, 1, 4, 2]);
    let timestamps = Options {
        mss: Some(536),
        ..Options::timestamps(1, 2)
    };
    assert_eq!(
        emitted(&timestamps),
        [2, 4, 2, 24, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]
    );
    assert_eq!(emitted(&Options::NONE), []);
}

#[test]
fn rfc7323_appendix_a_data_layout_and_its_short_cut() {
    let bytes = emitted(&Options::timestamps(1, 0xffff_fffe));
    assert_eq!(bytes, [1, 1, 8, 10, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(tcp::parse_timestamps_only(&bytes), Some((1, 0xffff_fffe)));
    let mut out = [0; 12];
    tcp::emit_timestamps_only(1, 0xffff_fffe, &mut out);
    assert_eq!(out[..], bytes);
    // Any other layout takes the long way.
    for at in 0..4 {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_eq!(tcp::parse_timestamps_only(&other), None, "{at}");
    }
    assert_eq!(tcp::parse_timestamps_only(&bytes[..11]), None);
    assert_eq!(
        tcp::parse_timestamps_only(&[bytes.clone(), vec![0]].concat()),
        None
    );
}

#[test]
fn sack_blocks_beside_timestamps_are_at_most_three() {
    let blocks = [(1, 2), (3, 4), (5, 6), (7, 8)];
    let alone = Options {
        sack: blocks.into_iter().collect(),
        ..Options::NONE
    };
    let bytes = emitted(&alone);
    assert_eq!((bytes.len(), &bytes[..4]), (36, &[1, 1, 5, 34][..]));
    assert_eq!(Options::parse(&bytes), alone);

    let beside = Options {
        timestamps: Some((9, 9)),
        ..alone
    };
    let bytes = emitted(&beside);
    assert_eq!((bytes.len(), &bytes[12..16]), (40, &[1, 1, 5, 26][..]));
    assert_eq!(Options::parse(&bytes).sack.as_slice(), &blocks[..3]);
}

#[test]
fn rfc9293_section_3_1_header_bytes() {
    let header = Header {
        src_port: 0x1234,
        dst_port: 80,
        seq: 0x0102_0304,
        ack: 0x0506_0708,
        reserved: 0,
        flags: Flags::SYN | Flags::ACK,
        window: 0xfaf0,
        checksum: 0xbeef,
        urgent: 9,
    };
    let mut out = [0; 24];
    let options = Options {
        mss: Some(1460),
        ..Options::NONE
    };
    assert_eq!(header.emit(&options, &mut out), Some(24));
    let expected = [
        0x12, 0x34, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x60, 0x12, 0xfa, 0xf0, 0xbe, 0xef, 0, 9, 2, 4,
        5, 0xb4,
    ];
    assert_eq!(out, expected);
    tcp::set_checksum(&mut out, 0x0102).unwrap();
    assert_eq!(out[16..18], [1, 2]);
}
