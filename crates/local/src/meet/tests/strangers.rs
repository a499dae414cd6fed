//! Programs that do not know each other's memory, carriers that do not answer, and what comes in
//! place of a carrier's introduction.

use super::*;
use crate::peers::MAPPED_MAX;
use crate::service::{self, Question};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SocketType};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Longer than a call that does not block takes, and shorter than a question may take.
const MOMENT: Duration = Duration::from_secs(2);

/// Where the carrier of `host` is asked, and does not answer.
fn mute(two: &Two, host: u64) -> OwnedFd {
    let (family, kind) = (rustix::net::AddressFamily::UNIX, SocketType::SEQPACKET);
    let fd = rustix::net::socket_with(family, kind, FLAGS, None).unwrap();
    let network = &two.private.network;
    let name = name::carrier(network, host).unwrap();
    network.bind(&fd, &name).unwrap();
    listen(&fd, 1024).unwrap();
    fd
}

/// What it has been asked.
fn asked(carrier: &OwnedFd) -> Vec<(Question, Option<OwnedFd>)> {
    let taken = std::iter::from_fn(|| rustix::net::accept_with(carrier, FLAGS).ok());
    taken
        .filter_map(|fd| service::take(&fd).ok().flatten())
        .collect()
}

fn at_once<T>(work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    assert!(begun.elapsed() < MOMENT, "{:?}", begun.elapsed());
    done
}

#[test]
fn s4_a_mute_carrier_holds_no_accept_up_and_the_connection_comes_later() {
    let two = strangers();
    let carrier = mute(&two, 2);
    let known = program(two.private.network, 3);
    two.server.peers.insert(known.peers.own().clone());
    let here = two.open().unwrap();
    let target = Target::Listener {
        to: wish().remote,
        host: 0,
        turn: 3,
    };
    let loopback = Wish {
        local: "127.0.0.3:7".parse().unwrap(),
        ..wish()
    };
    let other = open(&known.peers, known.holder, loopback, false, target).unwrap();
    let there = at_once(|| two.accept()).unwrap();
    let peer = two.server.peers.own().own(there.slot).peer_name();
    assert_eq!(peer.host, 3, "the next one has its turn");
    assert_eq!(at_once(|| two.accept()).err(), Some(Errno::AGAIN));
    drop(other);

    let questions = asked(&carrier);
    let introduce = questions.into_iter().find_map(|question| match question {
        (Question::Introduce(1, name), stream) => Some((name, stream?)),
        _ => None,
    });
    let (name, stream) = introduce.expect("the connection is left to the carrier");
    let name = introduce::listener(&two.private.network, &name).unwrap();
    let brought = introduce::bring(&name, &two.client.file, &stream).unwrap();
    assert_eq!(introduce::is_taken(&brought), Err(Errno::AGAIN));
    drop(stream);
    let there = two.accept().unwrap();
    assert_eq!(introduce::is_taken(&brought), Ok(()));
    let peer = two.server.peers.own().own(there.slot).peer_name();
    assert_eq!(peer, two.client.peers.own().own(here.slot).name());
    let flags = rustix::fs::fcntl_getfl(&there.fd).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    // From now on the program is known.
    two.open().unwrap();
    assert!(two.accept().is_ok());
}

/// Of a thousand connections of programs with mute carriers the first alone is waited for.
#[test]
fn s9_many_mute_carriers_cost_one_wait() {
    let two = strangers();
    let carrier = mute(&two, 2);
    let _crowd: Vec<_> = (100..200)
        .map(|host| {
            let name = SlotName {
                host,
                slot: 0,
                generation: 0,
            };
            two.pretend(name)
        })
        .collect();
    assert_eq!(at_once(|| two.accept()).err(), Some(Errno::AGAIN));
    assert_eq!(at_once(|| two.accept()).err(), Some(Errno::AGAIN));
    let questions = asked(&carrier).into_iter().map(|(question, _)| question);
    let (left, waited): (Vec<_>, Vec<_>) =
        questions.partition(|question| matches!(question, Question::Introduce(..)));
    assert_eq!((left.len(), waited.len()), (100, 1));
}

/// The opener's side: a welcome of a program that it does not know.
#[test]
fn s4_a_mute_carrier_holds_up_no_look_for_the_answer() {
    let two = strangers();
    two.server.peers.insert(two.client.peers.own().clone());
    let carrier = mute(&two, 1);
    let here = two.open().unwrap();
    let _there = two.accept().unwrap();
    let slot = two.client.peers.own().own(here.slot);
    let (peers, fd) = (&two.client.peers, here.fd.as_fd());
    assert!(matches!(at_once(|| two.resolve(&here)), Answer::NotYet));
    assert!(is_answered(peers, here.slot, fd));
    assert!(slot.hold_read().is_ok(), "not held meanwhile");
    // The carrier goes on.
    peers.insert(two.server.peers.own().clone());
    assert!(matches!(two.resolve(&here), Answer::Open(_)));
    assert!(!is_answered(peers, here.slot, fd));
    drop(carrier);
}

/// A carrier's own end: it knows its program, and waits for no other carrier.
#[test]
fn s4_a_carrier_asks_none() {
    let mut two = strangers();
    let carrier = mute(&two, 2);
    two.server.peers = two.server.peers.asking_none();
    let _here = two.open().unwrap();
    assert_eq!(two.accept().err(), Some(Errno::AGAIN));
    assert_eq!(asked(&carrier).len(), 0);
}

fn send(to: &OwnedFd, bytes: &[u8], files: &[&OwnedFd]) {
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let parts = [IoSlice::new(bytes)];
    rustix::net::sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
}

fn memory_file(seals: SealFlags, content: &OwnedFd) -> OwnedFd {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("forged", flags).unwrap();
    let len = rustix::fs::fstat(content).unwrap().st_size as u64;
    rustix::fs::ftruncate(&file, len).unwrap();
    let mut head = [0; 4096];
    rustix::io::pread(content, &mut head[..], 0).unwrap();
    rustix::io::pwrite(&file, &head, 0).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

#[test]
fn s6_an_introduction_that_is_none_is_turned_away() {
    let two = strangers();
    let here = two.open().unwrap();
    let stream = rustix::net::accept_with(&two.listener, FLAGS).unwrap();
    let other = program(two.private.network, 3);
    let (memory, good) = (&two.client.file, b"gannet/i");
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let unsealed = memory_file(SealFlags::empty(), memory);
    let longer = memory_file(SealFlags::empty(), memory);
    rustix::fs::ftruncate(&longer, 1 << 40).unwrap();
    rustix::fs::fcntl_add_seals(&longer, sealed).unwrap();
    let (plain, _other_end) = crate::pair::sockets();
    let cases: [(&[u8], &[&OwnedFd]); 12] = [
        (good, &[]),
        (good, &[&stream]),
        (good, &[memory]),
        (good, &[&stream, memory, memory]),
        (good, &[memory, &stream]),
        (good, &[&stream, &stream]),
        (good, &[&stream, &other.file]),
        (good, &[&stream, &unsealed]),
        (good, &[&stream, &longer]),
        (good, &[&plain, memory]),
        (b"gannet/x", &[&stream, memory]),
        (b"g", &[&stream, memory]),
    ];
    for (n, (bytes, files)) in cases.into_iter().enumerate() {
        let brought = stream_socket(FLAGS).unwrap();
        rustix::net::connect(&brought, &two.name()).unwrap();
        send(&brought, bytes, files);
        assert_eq!(two.accept().err(), Some(Errno::AGAIN), "case {n}");
        assert!(two.server.peers.get_at_once(1).is_err(), "case {n}");
        drop(brought);
    }
    let brought = stream_socket(FLAGS).unwrap();
    rustix::net::connect(&brought, &two.name()).unwrap();
    assert_eq!(two.accept().err(), Some(Errno::AGAIN), "nothing was sent");
    assert_eq!(two.slots().1, 0);
    // The same with what belongs there.
    let brought = introduce::bring(&two.name(), memory, &stream).unwrap();
    assert!(two.accept().is_ok());
    assert_eq!(introduce::is_taken(&brought), Ok(()));
    drop(here);
}

/// More programs than may be mapped: those without a stream go, and when all have one the next is
/// refused.
#[test]
fn s6_foreign_memory_is_bounded() {
    let two = strangers();
    let peers = &two.server.peers;
    let made = |host| {
        let (_file, arena) = Arena::create(host, SMALL).unwrap();
        Arc::new(arena)
    };
    for host in 1000..1000 + 2 * MAPPED_MAX as u64 {
        peers.add(made(host)).unwrap();
    }
    let held: Vec<_> = (0..MAPPED_MAX as u64)
        .map(|n| peers.add(made(10_000 + n)).unwrap())
        .collect();
    assert_eq!(peers.add(made(5)).err(), Some(Errno::NOBUFS));
    drop(held);
    assert!(peers.add(made(5)).is_ok());
}
