//! Two ends that meet, or do not: refused, gone, lied to.

use super::*;
use crate::name::Network;
use crate::pair::SMALL;
use rustix::net::{connect, listen};
use std::sync::atomic::AtomicU64;

struct Program {
    peers: Peers,
    holder: usize,
}

fn network() -> Network {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    Network::new(&format!("{} {turn}", std::process::id()), 0)
}

fn program(network: Network, host: u64) -> Program {
    let (_file, arena) = Arena::create(host, SMALL).unwrap();
    let holder = arena.enter(std::process::id()).unwrap();
    Program {
        peers: Peers::new(Arc::new(arena), network),
        holder,
    }
}

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

fn wish() -> Wish {
    Wish {
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
        kind: Kind::Stream,
        socket: FLAGS,
    }
}

struct Two {
    client: Program,
    server: Program,
    listener: OwnedFd,
    name: SocketAddrUnix,
}

fn two() -> Two {
    let network = network();
    let (client, server) = (program(network, 1), program(network, 2));
    client.peers.insert(server.peers.own().clone());
    server.peers.insert(client.peers.own().clone());
    let place = Place::At("10.0.0.2".parse().unwrap());
    let name = name::listener(network, Family::Four, place, 80, 0).unwrap();
    let listener = bind(&name, FLAGS).unwrap();
    listen(&listener, 128).unwrap();
    Two {
        client,
        server,
        listener,
        name,
    }
}

impl Two {
    fn open(&self) -> Result<Met, Errno> {
        let mut names = names_of(&self.client.peers, wish().remote, 3);
        open(
            &self.client.peers,
            self.client.holder,
            wish(),
            false,
            &mut names,
        )
    }

    fn accept(&self) -> Result<Met, Errno> {
        accept(
            &self.server.peers,
            self.server.holder,
            &self.listener,
            FLAGS,
        )
    }

    fn resolve(&self, met: &Met) -> Answer {
        resolve(&self.client.peers, met.slot, met.fd.as_fd())
    }

    fn slots(&self) -> (usize, usize) {
        let count = |program: &Program| program.peers.own().allocated().count();
        (count(&self.client), count(&self.server))
    }

    /// A socket with the name of a stream of the client's.
    fn pretend(&self, slot: SlotName) -> OwnedFd {
        let fd = socket(FLAGS).unwrap();
        let name = name::connector(self.client.peers.network(), slot).unwrap();
        rustix::net::bind(&fd, &name).unwrap();
        connect(&fd, &self.name).unwrap();
        fd
    }
}

#[test]
fn two_ends_meet() {
    let two = two();
    let here = two.open().unwrap();
    assert!(matches!(two.resolve(&here), Answer::NotYet));
    let there = two.accept().unwrap();
    assert!(matches!(two.resolve(&here), Answer::Open(theirs) if theirs.host() == 2));
    let (client, server) = (two.client.peers.own(), two.server.peers.own());
    let (a, b) = (client.own(here.slot), server.own(there.slot));
    assert_eq!((a.peer_name(), b.peer_name()), (b.name(), a.name()));
    assert_eq!((b.local(), b.remote()), (wish().remote, wish().local));
    assert_eq!(
        (a.state(), b.state()),
        (State::Established, State::Established)
    );
    assert_eq!(two.accept().err(), Some(Errno::AGAIN));
    assert!(
        matches!(two.resolve(&here), Answer::Open(_)),
        "as often as asked"
    );
}

#[test]
fn nobody_listens() {
    let mut two = two();
    (two.listener, _) = crate::pair::sockets();
    assert_eq!(two.open().err(), Some(Errno::CONNREFUSED));
    assert_eq!(two.slots(), (0, 0));
}

#[test]
fn no_slot_is_left() {
    let two = two();
    let (client, server) = (two.client.peers.own(), two.server.peers.own());
    while server.allocate(two.server.holder, 0).is_some() {}
    let met = two.open().unwrap();
    assert_eq!(two.accept().err(), Some(Errno::NOBUFS));
    let told = Errno::NOBUFS.raw_os_error();
    assert!(matches!(two.resolve(&met), Answer::Refused(errno) if errno == told));
    while client.allocate(two.client.holder, 0).is_some() {}
    assert_eq!(two.open().err(), Some(Errno::NOBUFS));
}

#[test]
fn an_error_is_said_once_however_often_it_is_asked_for() {
    let two = two();
    let met = two.open().unwrap();
    let fd = rustix::net::accept(&two.listener).unwrap();
    say_no(&fd, Errno::HOSTUNREACH).unwrap();
    drop(fd);
    let slot = two.client.peers.own().own(met.slot);
    let told = Errno::HOSTUNREACH.raw_os_error();
    assert!(matches!(two.resolve(&met), Answer::Refused(errno) if errno == told));
    assert!(matches!(two.resolve(&met), Answer::Refused(errno) if errno == told));
    assert_eq!((slot.take_error(), slot.state()), (told, State::Closed));
    assert!(matches!(two.resolve(&met), Answer::Refused(0)));
    assert_eq!(slot.take_error(), 0);
}

#[test]
fn the_listener_goes_with_streams_in_its_queue() {
    let mut two = two();
    let met = two.open().unwrap();
    (two.listener, _) = crate::pair::sockets();
    let told = Errno::CONNRESET.raw_os_error();
    assert!(matches!(two.resolve(&met), Answer::Refused(errno) if errno == told));
}

#[test]
fn s6_a_welcome_that_is_none() {
    let good = [MAGIC.to_ne_bytes(); 6].concat();
    let cases: [&[u8]; 5] = [b"", b"w", &good[..23], &[0; 24], &[0xff; 100]];
    for bytes in cases {
        let two = two();
        let met = two.open().unwrap();
        let fd = rustix::net::accept(&two.listener).unwrap();
        rustix::net::send(&fd, bytes, SendFlags::empty()).unwrap();
        drop(fd);
        let told = Errno::CONNRESET.raw_os_error();
        let answer = two.resolve(&met);
        assert!(
            matches!(answer, Answer::Refused(errno) if errno == told),
            "{bytes:?}"
        );
    }
}

#[test]
fn s4_a_welcome_from_nobody_and_to_anywhere() {
    let two = two();
    for (host, ok) in [(99, false), (1, true), (2, true)] {
        let met = two.open().unwrap();
        let fd = rustix::net::accept(&two.listener).unwrap();
        let slot = SlotName {
            host,
            slot: u32::MAX,
            generation: 77,
        };
        say_yes(&fd, slot).unwrap();
        let answer = two.resolve(&met);
        assert_eq!(matches!(answer, Answer::Open(_)), ok, "{host}");
        if let Answer::Open(theirs) = answer {
            let own = two.client.peers.own();
            let stream = crate::Stream::new(own, met.slot, Some(&theirs), met.fd.as_fd());
            let got = stream.receive_slice(&mut [0; 8], false);
            assert_eq!(got, Err(crate::Hindrance::End));
        }
    }
}

#[test]
fn s4_who_opens_with_a_slot_that_is_not_his_is_turned_away() {
    let two = two();
    let arena = two.client.peers.own();
    let new = |kind, state| {
        let slot = arena.own(arena.allocate(two.client.holder, 0).unwrap());
        slot.set_kind(kind);
        slot.set_state(state);
        slot
    };
    let met = new(Kind::Stream, State::Established);
    met.set_peer(new(Kind::Stream, State::Established).name());
    let cases = [
        met.name(),
        new(Kind::Listener, State::Listen).name(),
        new(Kind::Listener, State::SynSent).name(),
        new(Kind::Stream, State::Closed).name(),
        SlotName {
            generation: 9,
            ..new(Kind::Stream, State::SynSent).name()
        },
        SlotName {
            slot: u32::MAX,
            ..met.name()
        },
        SlotName {
            host: 99,
            ..met.name()
        },
    ];
    for name in cases {
        let _fd = two.pretend(name);
        assert_eq!(two.accept().err(), Some(Errno::AGAIN), "{name:?}");
    }
    assert_eq!(two.slots().1, 0);
    let good = two.pretend(new(Kind::Stream, State::SynSent).name());
    assert!(two.accept().is_ok());
    drop(good);
}

#[test]
fn s6_a_crowd_of_strangers_does_not_hold_the_caller() {
    let two = two();
    let mut crowd = Vec::new();
    for _ in 0..TURNED_AWAY + 1 {
        let fd = socket(FLAGS).unwrap();
        connect(&fd, &two.name).unwrap();
        crowd.push(fd);
    }
    let met = two.open().unwrap();
    assert_eq!(two.accept().err(), Some(Errno::AGAIN), "others have a turn");
    assert!(two.accept().is_ok());
    drop((met, crowd));
}
