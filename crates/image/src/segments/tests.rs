use super::*;

/// Fields of the file header that are changed, and to what.
type Change = fn(&mut Vec<u8>);

const PHDR: usize = 64;
const SIZE: u64 = 0x3000;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn program_header(kind: u32, flags: u32, words: [u64; 6]) -> Vec<u8> {
    let mut bytes = [kind.to_le_bytes(), flags.to_le_bytes()].concat();
    words
        .iter()
        .for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// Headers of a program as linkers write them: code, data with zeros behind it, a stack.
fn usual() -> Vec<u8> {
    let mut head = vec![0; 64];
    put(&mut head, 0, b"\x7fELF\x02\x01\x01");
    put(&mut head, 16, &2u16.to_le_bytes());
    put(&mut head, 18, &62u16.to_le_bytes());
    put(&mut head, 20, &1u32.to_le_bytes());
    put(&mut head, 24, &0x40_1010u64.to_le_bytes());
    put(&mut head, 32, &64u64.to_le_bytes());
    put(&mut head, 52, &64u16.to_le_bytes());
    put(&mut head, 54, &56u16.to_le_bytes());
    put(&mut head, 56, &4u16.to_le_bytes());
    let (code, data) = (0x40_1000, 0x40_3f00);
    head.extend(program_header(
        1,
        4,
        [0, 0x40_0000, 0, 0x200, 0x200, 0x1000],
    ));
    head.extend(program_header(
        1,
        5,
        [0x1000, code, 0, 0x800, 0x800, 0x1000],
    ));
    head.extend(program_header(
        1,
        6,
        [0x1f00, data, 0, 0x180, 0x1400, 0x20_0000],
    ));
    head.extend(program_header(0x6474_e551, 6, [0; 6]));
    head
}

#[test]
fn a_usual_program() {
    let image = Image::parse(&usual(), SIZE).unwrap();
    assert!(image.is_fixed && !image.executable_stack);
    assert_eq!(
        (image.entry, image.headers, image.headers_len),
        (0x40_1010, 0x40_0040, 4)
    );
    assert_eq!(image.align, 0x20_0000);
    assert_eq!(image.span(), (0x40_0000, 0x40_6000));
    let [headers, code, data] = image.segments() else {
        panic!("three segments")
    };
    assert!(headers.read && !headers.write && !headers.execute);
    assert!(code.execute && !code.write);
    assert!(data.write && !data.execute);
    assert_eq!(data.pages(), (0x40_3000, 0x40_6000));
}

#[test]
fn this_test_itself_is_dynamic() {
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let outcome = Image::parse(&bytes, bytes.len() as u64);
    assert_eq!(outcome, Err(Refusal::Dynamic));
}

/// Where field `n` of 64 bits of program header `header` is.
const fn word(header: usize, n: usize) -> usize {
    PHDR + 56 * header + 8 + 8 * n
}

#[test]
fn s2_damaged_and_hostile_headers() {
    let refused: &[(&str, Change, &str)] = &[
        ("cut in the ELF header", |h| h.truncate(40), "cut short"),
        (
            "cut in the program headers",
            |h| h.truncate(100),
            "its beginning",
        ),
        (
            "headers elsewhere",
            |h| put(h, 32, &(1u64 << 40).to_le_bytes()),
            "its beginning",
        ),
        (
            "headers at the end of all",
            |h| put(h, 32, &u64::MAX.to_le_bytes()),
            "its beginning",
        ),
        (
            "headers of another size",
            |h| put(h, 54, &8u16.to_le_bytes()),
            "its beginning",
        ),
        (
            "no program headers",
            |h| put(h, 56, &[0, 0]),
            "no program headers",
        ),
        (
            "65,534 of them",
            |h| put(h, 56, &[0xfe, 0xff]),
            "its beginning",
        ),
        (
            "65,535: the number elsewhere",
            |h| put(h, 56, &[0xff, 0xff]),
            "its beginning",
        ),
        (
            "no segment",
            |h| (0..3).for_each(|n| h[PHDR + 56 * n] = 4),
            "no segment",
        ),
        (
            "more in the file",
            |h| put(h, word(1, 3), &0x900u64.to_le_bytes()),
            "longer in the file",
        ),
        (
            "a wrap in memory",
            |h| put(h, word(2, 4), &u64::MAX.to_le_bytes()),
            "address space",
        ),
        (
            "beyond user space",
            |h| put(h, word(2, 4), &(1u64 << 47).to_le_bytes()),
            "address space",
        ),
        (
            "kernel addresses",
            |h| put(h, word(2, 1), &0xffff_8000_0000_0f00u64.to_le_bytes()),
            "address space",
        ),
        (
            "a wrap in the file",
            |h| put(h, word(2, 0), &0xffff_ffff_ffff_ff00u64.to_le_bytes()),
            "end of the file",
        ),
        (
            "beyond the file",
            |h| put(h, word(2, 0), &0x2f00u64.to_le_bytes()),
            "end of the file",
        ),
        (
            "no fit of pages",
            |h| put(h, word(1, 0), &0x1001u64.to_le_bytes()),
            "does not fit",
        ),
        (
            "overlapping",
            |h| put(h, word(2, 1), &0x40_1f00u64.to_le_bytes()),
            "overlap",
        ),
        (
            "in disorder",
            |h| put(h, word(2, 1), &0x10_0f00u64.to_le_bytes()),
            "disorder",
        ),
        (
            "at address 0",
            |h| {
                (0..3).for_each(|n| {
                    let at = word(n, 1);
                    let low = u64::from_le_bytes(h[at..at + 8].try_into().unwrap()) - 0x40_0000;
                    put(h, at, &low.to_le_bytes());
                });
                put(h, 24, &0x1010u64.to_le_bytes());
            },
            "address 0",
        ),
        (
            "far apart",
            |h| put(h, word(2, 1), &0x7f00_0000_0f00u64.to_le_bytes()),
            "too far apart",
        ),
        (
            "begins in data",
            |h| put(h, 24, &0x40_3f10u64.to_le_bytes()),
            "outside of its code",
        ),
        (
            "begins behind its code",
            |h| put(h, 24, &0x40_1800u64.to_le_bytes()),
            "outside",
        ),
        (
            "begins nowhere",
            |h| put(h, 24, &u64::MAX.to_le_bytes()),
            "outside of its code",
        ),
    ];
    for (what, change, why) in refused {
        let mut head = usual();
        change(&mut head);
        match Image::parse(&head, SIZE) {
            Err(Refusal::Malformed(text)) => assert!(text.contains(why), "{what}: {text}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn what_is_another_kind_of_file() {
    let kinds: &[(&str, Change, Refusal)] = &[
        ("nothing", |h| h.clear(), Refusal::Other),
        ("a script", |h| put(h, 0, b"#!/b"), Refusal::Other),
        ("32 bits", |h| h[4] = 1, Refusal::Alien),
        ("big-endian", |h| h[5] = 2, Refusal::Alien),
        ("a core", |h| h[16] = 4, Refusal::Alien),
        ("an object", |h| h[16] = 1, Refusal::Alien),
        ("ARM", |h| h[18] = 183, Refusal::Alien),
        (
            "an interpreter",
            |h| h[PHDR + 3 * 56..][..4].copy_from_slice(&[3, 0, 0, 0]),
            Refusal::Dynamic,
        ),
    ];
    for (what, change, refusal) in kinds {
        let mut head = usual();
        change(&mut head);
        assert_eq!(Image::parse(&head, SIZE), Err(*refusal), "{what}");
    }
}

#[test]
fn seventeen_segments_are_too_many() {
    let mut head = usual();
    head.truncate(PHDR);
    for n in 0..17 {
        let address = 0x40_0000 + n * 0x1000;
        head.extend(program_header(
            1,
            5,
            [0, address, 0, 0x1000, 0x1000, 0x1000],
        ));
    }
    put(&mut head, 24, &0x40_0010u64.to_le_bytes());
    put(&mut head, 56, &16u16.to_le_bytes());
    assert!(Image::parse(&head, SIZE).is_ok());
    put(&mut head, 56, &17u16.to_le_bytes());
    let refusal = Refusal::Malformed("it has too many segments");
    assert_eq!(Image::parse(&head, SIZE), Err(refusal));
}

#[test]
fn every_changed_byte_and_every_length_gives_an_answer() {
    let whole = usual();
    for len in 0..whole.len() {
        assert!(Image::parse(&whole[..len], SIZE).is_err(), "{len} bytes");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut head = whole.clone();
            head[at] = value;
            let Ok(image) = Image::parse(&head, SIZE) else {
                continue;
            };
            let (first, end) = image.span();
            assert!(first < end && end <= 1 << 47, "byte {at} = {value}");
            for segment in image.segments() {
                let (from, to) = segment.pages();
                assert!(first <= from && from < to && to <= end);
                assert!(segment.offset + segment.in_file <= SIZE);
            }
        }
    }
}
