//! Any bytes as what another program writes into its arena, word by word, while this end sends,
//! receives, asks what is ready and follows the news. Nothing panics, nothing is without end, and a
//! stream with an honest program beside it loses nothing.
#![no_main]

use gannet_local::slot::{Kind, State};
use gannet_local::{Arena, Geometry, Network, Peers, Stream, Watcher, meet};
use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

const SMALL: Geometry = Geometry {
    slots: 64,
    ring: 4096,
};
/// What a slot's inode is while places are looked for, and how far it is from the slot's start.
const MARK: u64 = 0x1234_5678_9abc_def1;
const INODE: u64 = 216;

struct End {
    file: File,
    arena: Arc<Arena>,
    holder: usize,
    slot: u32,
    fd: OwnedFd,
}

fn pair(one: u64, two: u64) -> (End, End) {
    let (x, y) = UnixStream::pair().unwrap();
    x.set_nonblocking(true).unwrap();
    y.set_nonblocking(true).unwrap();
    let end = |host, fd: UnixStream| {
        let (file, arena) = Arena::create(host, SMALL).unwrap();
        let holder = arena.enter(std::process::id()).unwrap();
        let slot = arena.allocate(holder, 0).unwrap();
        arena.own(slot).set_kind(Kind::Stream);
        arena.own(slot).set_state(State::Established);
        let (file, arena, fd) = (file.into(), Arc::new(arena), fd.into());
        End {
            file,
            arena,
            holder,
            slot,
            fd,
        }
    };
    let (a, b) = (end(one, x), end(two, y));
    let (of_a, of_b) = (a.arena.own(a.slot), b.arena.own(b.slot));
    of_a.set_peer(of_b.name());
    of_b.set_peer(of_a.name());
    (a, b)
}

fn stream<'a>(own: &'a End, theirs: &'a End) -> Stream<'a> {
    Stream::new(&own.arena, own.slot, Some(&theirs.arena), own.fd.as_fd())
}

/// Where the slot of a new arena lies, and its first news ring.
fn places() -> (u64, u64) {
    static PLACES: OnceLock<(u64, u64)> = OnceLock::new();
    *PLACES.get_or_init(|| {
        let (a, b) = pair(1, 0x77_6655_4433_2211);
        a.arena.own(a.slot).set_inode(MARK);
        let mut watcher = Watcher::new(b.arena.clone(), b.holder);
        watcher.add(b.slot, &a.arena);
        stream(&a, &b).send_slice(b"x").unwrap();
        let mut bytes = vec![0; SMALL.len() as usize];
        a.file.read_exact_at(&mut bytes, 0).unwrap();
        let find = |word: u64| {
            let at = bytes
                .chunks(8)
                .position(|eight| eight == word.to_ne_bytes());
            at.unwrap() as u64 * 8
        };
        (find(MARK) - INODE, find(b.arena.host()))
    })
}

fuzz_target!(|data: &[u8]| {
    let (slot, news) = places();
    let (own, bad) = pair(1, 2);
    let (honest, good) = pair(3, 4);
    let nowhere = Network::at(b"/nowhere", 0, 0).expect("a path");
    let peers = Peers::new(own.arena.clone(), nowhere);
    peers.insert(bad.arena.clone());
    let mut watcher = Watcher::new(own.arena.clone(), own.holder);
    watcher.add(own.slot, &bad.arena);
    let mut out = [0; 5000];
    for (turn, step) in data.chunks(10).enumerate() {
        let &[what, place, ref value @ ..] = step else {
            return;
        };
        let mut word = [0; 8];
        word[..value.len()].copy_from_slice(value);
        // The first three words of the header say what kind of arena it is: they are read once.
        let at = match what & 3 {
            0 => 24 + u64::from(place % 8) * 8,
            1 => news + u64::from(place) * 8,
            _ => slot + u64::from(place % 64) * 8,
        };
        bad.file.write_all_at(&word, at).unwrap();
        let (a, len) = (stream(&own, &bad), usize::from(place) * 19);
        match (what >> 2) % 8 {
            0 => drop(a.send_slice(&out[..len])),
            1 => drop(a.receive_slice(&mut out[..len], place & 1 == 0)),
            2 => {
                a.readiness();
                assert!(a.waiting() <= 4096 && a.unread() <= 4096);
            }
            3 => {
                let mut found = Vec::new();
                watcher.collect(&mut found);
                assert!(found.len() <= 4096);
            }
            4 => {
                watcher.arm();
                watcher.disarm();
            }
            5 => drop(meet::resolve(&peers, own.slot, own.fd.as_fd())),
            6 => {
                let peer = bad.arena.peer(u32::from_ne_bytes([place, what, 0, place]));
                let seen = (peer.local(), peer.remote(), peer.state(), peer.figures());
                assert!(format!("{seen:?} {:?}", peer.peer_name()).len() > 10);
                drop(a.peek_record());
                drop(a.take_unless_data());
            }
            _ => a
                .slot()
                .clear_flags(u32::MAX & !gannet_local::slot::flags::RESOLVED),
        }
        let text = (turn as u64).to_ne_bytes();
        assert_eq!(stream(&honest, &good).send_slice(&text), Ok(8));
        let mut back = [0; 8];
        assert_eq!(
            stream(&good, &honest).receive_slice(&mut back, false),
            Ok(8)
        );
        assert_eq!(back, text);
    }
    stream(&own, &bad).close(false);
});
