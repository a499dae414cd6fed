//! What is mapped, and when.

use super::*;
use rustix::fd::AsRawFd;

const GEOMETRIES: [Geometry; 5] = [
    Geometry {
        slots: 64,
        ring: 4096,
    },
    Geometry {
        slots: 64,
        ring: 16 << 20,
    },
    Geometry {
        slots: 16_384,
        ring: 512 << 10,
    },
    Geometry {
        slots: 1 << 18,
        ring: 4096,
    },
    Geometry {
        slots: 1 << 18,
        ring: 512 << 10,
    },
];

/// Bytes of address space that the mappings of file `name` take in this process, and how many
/// there are.
fn mapped(name: &str) -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lengths = maps.lines().filter(|line| line.contains(name)).map(|line| {
        let (first, last) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        number(last) - number(first)
    });
    lengths.fold((0, 0), |(sum, n), len| (sum + len, n + 1))
}

fn byte(ring: Ring<'_>, at: usize) -> u8 {
    let mut byte = 0;
    // SAFETY: a place of one byte.
    unsafe { ring.read(at, &raw mut byte, 1) }.unwrap();
    byte
}

#[test]
fn every_ring_is_where_the_other_process_has_it() {
    for (number, geometry) in GEOMETRIES.into_iter().enumerate() {
        let alone = number == 0;
        let (file, own) = create("test-rings", geometry, alone).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let others = [
            file.try_clone().unwrap(),
            OwnedFd::from(std::fs::File::open(path).unwrap()),
        ];
        let others = others.map(|file| Mapping::new(file, geometry, false).unwrap());
        let slots = [
            0,
            3,
            4,
            63,
            255,
            256,
            271,
            272,
            geometry.slots / 2,
            geometry.slots - 1,
        ];
        let slots = slots.map(|n| n & (geometry.slots - 1));
        let last = geometry.ring_len() - 1;
        for n in slots {
            let bytes = [n as u8, number as u8 + 1];
            let ring = own.ring(n).unwrap();
            // SAFETY: bytes of an array.
            unsafe {
                ring.write(0, bytes.as_ptr(), 1).unwrap();
                ring.write(last, bytes.as_ptr().add(1), 1).unwrap();
            }
        }
        for n in slots {
            for other in &others {
                let ring = other.ring(n).unwrap();
                let both = (byte(ring, 0), byte(ring, last));
                assert_eq!(both, (n as u8, number as u8 + 1), "{n}");
            }
            let mut there = [0u8; 1];
            rustix::io::pread(&file, &mut there[..], geometry.bytes_of(n) as u64).unwrap();
            assert_eq!(there[0], n as u8);
        }
    }
}

#[test]
fn ten_sockets_take_little_address_space() {
    let name = "test-little";
    let (file, own) = create(name, Geometry::default(), false).unwrap();
    let other = Mapping::new(&file, Geometry::default(), false).unwrap();
    for n in 0..10 {
        own.ring(n).unwrap();
        other.ring(n).unwrap();
    }
    let (bytes, mappings) = mapped(name);
    assert!(bytes < 48 << 20, "{bytes}");
    drop((own, other));
    assert!(mappings > 2);
    assert_eq!(mapped(name), (0, 0), "everything is given back");
}

#[test]
fn a_hundred_thousand_streams_are_some_thousand_mappings() {
    let geometry = GEOMETRIES[4];
    let chunks = Chunks::new(geometry).unwrap();
    let mut firsts: Vec<u32> = (0..100_000).map(|n| chunks.around(n).0).collect();
    firsts.dedup();
    assert!(firsts.len() < 10_000, "{}", firsts.len());
    let mut n = 0;
    while n < geometry.slots {
        let (first, len) = chunks.around(n);
        assert_eq!(first, n, "they follow each other");
        n += (len / geometry.ring_len()) as u32;
    }
    assert_eq!(n, geometry.slots);
}

const NO_ROOM: &str = "GANNET_TEST_NO_ROOM";

#[test]
fn without_room_there_is_an_error() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    if std::env::var(NO_ROOM).is_err() {
        // In a process of its own: the limit is the process's.
        let name = "memory::tests::without_room_there_is_an_error";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(NO_ROOM, "1")
            .status();
        assert!(child.unwrap().success());
        return;
    }
    let (_file, own) = create("test-no-room", Geometry::default(), false).unwrap();
    own.ring(0).unwrap();
    let none = Some(1 << 20);
    let limit = Rlimit {
        current: none,
        maximum: none,
    };
    setrlimit(Resource::As, limit).unwrap();
    assert_eq!(own.ring(100).err(), Some(Errno::NOMEM));
    assert!(own.ring(1).is_ok(), "what is there stays");
}

#[test]
fn what_is_mapped_under_a_lock_is_not_filled() {
    // Not `mlockall` itself, which would lock the whole test; what its caller says of it.
    lock_future(true);
    let geometry = Geometry {
        slots: 64,
        ring: 4096,
    };
    let (file, own) = create("test-locked", geometry, false).unwrap();
    let ring = own.ring(7).unwrap();
    // SAFETY: one byte.
    unsafe { ring.write(5, [9].as_ptr(), 1) }.unwrap();
    lock_future(false);
    let mut there = [0u8; 1];
    rustix::io::pread(&file, &mut there[..], geometry.bytes_of(7) as u64 + 5).unwrap();
    assert_eq!(there, [9]);
}
