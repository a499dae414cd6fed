//! Two ends that meet, or do not: refused, gone, lied to.

use super::*;
use crate::network::tests::Private;
use crate::pair::SMALL;
use rustix::net::listen;

mod strangers;

struct Program {
    peers: Peers,
    holder: usize,
    file: OwnedFd,
}

fn program(network: Network, host: u64) -> Program {
    let (file, arena) = Arena::create(host, SMALL).unwrap();
    let holder = arena.enter(std::process::id()).unwrap();
    Program {
        peers: Peers::new(Arc::new(arena), network),
        holder,
        file,
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
    private: Private,
    _claim: OwnedFd,
}

fn two() -> Two {
    let two = strangers();
    two.client.peers.insert(two.server.peers.own().clone());
    two.server.peers.insert(two.client.peers.own().clone());
    two
}

/// Two programs that have not met.
fn strangers() -> Two {
    let private = Private::new();
    let network = private.network;
    let (client, server) = (program(network, 1), program(network, 2));
    let place = Place::At(wish().remote.ip());
    let listener = bind((&network, 2), (Family::Four, place, 80), false, FLAGS).unwrap();
    listen(&listener, 128).unwrap();
    let claim = network.claim(wish().local.ip(), 1).unwrap();
    Two {
        client,
        server,
        listener,
        private,
        _claim: claim,
    }
}

impl Two {
    fn open(&self) -> Result<Met, Errno> {
        self.open_as(wish())
    }

    fn open_as(&self, wish: Wish) -> Result<Met, Errno> {
        let target = Target::Listener {
            to: wish.remote,
            host: 0,
            turn: 3,
        };
        let Program { peers, holder, .. } = &self.client;
        open(peers, *holder, wish, false, target)
    }

    fn name(&self) -> SocketAddrUnix {
        let place = Place::At(wish().remote.ip());
        name::listener(&self.private.network, Family::Four, place, 80, 0).unwrap()
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
        let nonce = self.client.peers.own().peer(slot.slot).nonce();
        let fd = stream_socket(FLAGS).unwrap();
        rustix::net::bind(&fd, &name::connector(slot, nonce).unwrap()).unwrap();
        rustix::net::connect(&fd, &self.name()).unwrap();
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

/// A forged welcome would otherwise join this end to a session of another one.
#[test]
fn s4_a_welcome_that_names_a_slot_of_another_connection_is_refused() {
    let two = two();
    let other = two.open().unwrap();
    let accepted = two.accept().unwrap();
    assert!(matches!(two.resolve(&other), Answer::Open(_)));
    let there = two.server.peers.own().own(accepted.slot).name();
    let nowhere = SlotName {
        slot: u32::MAX,
        generation: 77,
        ..there
    };
    let stale = SlotName {
        generation: there.generation + 1,
        ..there
    };
    let absent = SlotName { host: 99, ..there };
    for name in [there, nowhere, stale, absent] {
        let met = two.open().unwrap();
        let fd = rustix::net::accept(&two.listener).unwrap();
        say_yes(&fd, name).unwrap();
        let told = Errno::CONNRESET.raw_os_error();
        let answer = two.resolve(&met);
        assert!(
            matches!(answer, Answer::Refused(errno) if errno == told),
            "{name:?}: {answer:?}"
        );
    }
}

/// A process that is killed between two of its steps leaves the others that hold the stream one
/// that they can go on with.
#[test]
fn a_welcome_is_there_until_it_is_noted() {
    let two = two();
    let met = two.open().unwrap();
    let accepted = two.accept().unwrap();
    assert!(matches!(peek_welcome(met.fd.as_fd()), Ok(Some((0, _)))));
    // Killed here, or noted and killed before it was taken out.
    let there = two.server.peers.own().own(accepted.slot).name();
    assert!(matches!(peek_welcome(met.fd.as_fd()), Ok(Some((0, name))) if name == there));
    assert!(matches!(two.resolve(&met), Answer::Open(_)));
    assert!(
        matches!(peek_welcome(met.fd.as_fd()), Ok(None)),
        "taken out"
    );
    let slot = two.client.peers.own().own(met.slot);
    assert_eq!(slot.state(), State::Established);
}

#[test]
fn s4_a_source_address_that_the_program_does_not_have_is_refused() {
    let two = two();
    let from = |local: &str| {
        let met = two.open_as(Wish {
            local: local.parse().unwrap(),
            ..wish()
        });
        (met.unwrap(), two.accept().map(drop))
    };
    for local in ["10.0.0.9:4", "10.0.0.2:80", "0.0.0.0:5", "224.0.0.1:6"] {
        assert_eq!(from(local).1, Err(Errno::AGAIN), "{local}");
    }
    assert_eq!(from("10.0.0.1:40000").1, Ok(()));
    assert_eq!(from("127.0.0.5:40000").1, Ok(()), "all programs have it");
}

#[test]
fn s4_a_name_with_another_number_is_no_opening_end() {
    let two = two();
    let met = two.open().unwrap();
    two.accept().unwrap();
    let slot = two.client.peers.own().own(met.slot);
    slot.clear_flags(flags::RESOLVED);
    let fd = stream_socket(FLAGS).unwrap();
    let name = name::connector(slot.name(), slot.nonce() ^ 1).unwrap();
    rustix::net::bind(&fd, &name).unwrap();
    rustix::net::connect(&fd, &two.name()).unwrap();
    assert_eq!(two.accept().err(), Some(Errno::AGAIN));
}

#[test]
fn s4_who_opens_with_a_slot_that_is_not_his_is_turned_away() {
    let two = two();
    let arena = two.client.peers.own();
    let new = |kind, state| {
        let slot = arena.own(arena.allocate(two.client.holder, 0).unwrap());
        slot.set_kind(kind);
        slot.set_state(state);
        slot.set_local(wish().local);
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
        let fd = stream_socket(FLAGS).unwrap();
        rustix::net::connect(&fd, &two.name()).unwrap();
        crowd.push(fd);
    }
    let met = two.open().unwrap();
    assert_eq!(two.accept().err(), Some(Errno::AGAIN), "others have a turn");
    assert!(two.accept().is_ok());
    drop((met, crowd));
}
