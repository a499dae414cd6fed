//! Carriers in threads, and what a program's library does of it, in a few lines.
#![allow(dead_code, reason = "each test file uses some of it")]

use gannet::Host;
use gannet::settings::{Assignment, Settings};
use gannet_carrier::{Config, serve};
use gannet_local::meet::{self, Answer, Met, Wish};
use gannet_local::name::{self, Family, Place, Target};
use gannet_local::service::{self, Question};
use gannet_local::slot::{Kind, OwnSlot, PeerSlot, State};
use gannet_local::{Arena, Drained, Hindrance, Opt, Peers, Stream, drain};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SOCKET: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Nothing here takes so long.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// The name of a network of this test's own.
pub(crate) fn network(test: &str) -> String {
    format!("carried-{test}-{}", std::process::id())
}

/// A configuration with a small arena.
pub(crate) fn config(network: &str, address: &str) -> Config {
    let mut settings = Settings::defaults();
    for (name, value) in [
        ("network", network),
        ("address", address),
        ("streams", "1024"),
        ("stream.buffer", "64K"),
    ] {
        let given = Assignment::option("--test", name, value);
        settings.set(&given).unwrap();
    }
    let mut config = Config::new(settings);
    config.guardian = Some(std::process::id());
    config
}

/// Starts a carrier in a thread.
pub(crate) fn carry(config: Config) -> std::thread::JoinHandle<()> {
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        serve(config, || ready.send(()).unwrap()).unwrap();
    });
    is_ready.recv().unwrap();
    thread
}

/// A host without a carrier.
pub(crate) fn native(network: &str, address: &str) -> Host {
    Host::builder().channel(network, address).build().unwrap()
}

/// Waits until `done`.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A process of a carried program.
pub(crate) struct Program {
    pub(crate) peers: Peers,
    pub(crate) holder: usize,
    pub(crate) settings: String,
}

impl Program {
    pub(crate) fn attach(config: &Config) -> Program {
        let network = config.network().unwrap();
        let answer = service::ask(&network, config.host, &Question::Attach).unwrap();
        let arena = Arena::open(answer.file.unwrap(), true).unwrap();
        let holder = arena.enter(std::process::id()).unwrap();
        let gateway = answer
            .text
            .lines()
            .find_map(|line| line.strip_prefix("gateway "));
        let gateway = u64::from_str_radix(gateway.unwrap(), 16).unwrap();
        service::ask(&network, config.host, &Question::Look).unwrap();
        Program {
            peers: Peers::new(Arc::new(arena), network).with_partner(gateway),
            holder,
            settings: answer.text,
        }
    }

    pub(crate) fn arena(&self) -> &Arena {
        self.peers.own()
    }

    pub(crate) fn ask(&self, question: Question) -> Result<service::Answer, Errno> {
        service::ask(self.peers.network(), self.arena().host(), &question)
    }

    pub(crate) fn listen(&self, at: SocketAddr) -> Listener<'_> {
        self.listen_as(at, false)
    }

    /// As one of those that share the port, or as the only one.
    pub(crate) fn listen_as(&self, at: SocketAddr, share: bool) -> Listener<'_> {
        let place = match at.ip().is_unspecified() {
            true => Place::All(self.arena().host()),
            false => Place::At(at.ip()),
        };
        let host = (self.peers.network(), self.arena().host());
        let at_place = (Family::Four, place, at.port());
        let fd = meet::bind(host, at_place, share, SOCKET).unwrap();
        rustix::net::listen(&fd, 16).unwrap();
        let slot = self.arena().allocate(self.holder, 0).unwrap();
        let own = self.arena().own(slot);
        own.set_kind(Kind::Listener);
        own.set_local(at);
        own.set_state(State::Listen);
        self.ask(Question::Listen(slot)).unwrap();
        Listener {
            program: self,
            fd,
            slot,
        }
    }

    /// Opens a stream to the carrier.
    pub(crate) fn open(
        &self,
        kind: Kind,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Socket<'_>, i32> {
        let gateway = Target::Gateway(self.arena().host());
        let met = self.meet(kind, (local, remote), true, gateway);
        let socket = Socket::of(self, met.unwrap());
        socket.wait_until_open()?;
        Ok(socket)
    }

    /// Opens a stream to another program.
    pub(crate) fn open_directly(&self, local: SocketAddr, to: SocketAddr) -> Socket<'_> {
        let target = Target::Listener {
            to,
            host: 0,
            turn: 0,
        };
        let met = self.meet(Kind::Stream, (local, to), false, target);
        Socket::of(self, met.unwrap())
    }

    fn meet(
        &self,
        kind: Kind,
        (local, remote): (SocketAddr, SocketAddr),
        carried: bool,
        target: Target,
    ) -> Result<Met, Errno> {
        let wish = Wish {
            local,
            remote,
            kind,
            socket: SOCKET,
        };
        meet::open(&self.peers, self.holder, wish, carried, target)
    }

    pub(crate) fn slots(&self) -> usize {
        self.arena().allocated().count()
    }
}

pub(crate) struct Listener<'a> {
    pub(crate) program: &'a Program,
    fd: OwnedFd,
    pub(crate) slot: u32,
}

impl Listener<'_> {
    pub(crate) fn accept(&self) -> Socket<'_> {
        let mut met = None;
        until("somebody comes", || {
            let Program { peers, holder, .. } = self.program;
            match meet::accept(peers, *holder, &self.fd, SOCKET) {
                Ok(new) => met = Some(new),
                Err(error) => assert_eq!(error, Errno::AGAIN),
            }
            met.is_some()
        });
        Socket::of(self.program, met.unwrap())
    }
}

impl<'a> Listener<'a> {
    /// Accepts, but keeps the answer back until `before` has seen the other end's slot and this
    /// one.
    pub(crate) fn accept_late(&self, before: impl FnOnce(PeerSlot<'_>, OwnSlot<'_>)) -> Socket<'a> {
        let program = self.program;
        let (mut fd, mut opener) = (None, None);
        until("somebody comes", || {
            if let Ok((new, name)) = rustix::net::acceptfrom_with(&self.fd, SOCKET) {
                let name = SocketAddrUnix::try_from(name.unwrap()).unwrap();
                opener = name::read_connector(&name).map(|(slot, _)| slot);
                fd = Some(new);
            }
            fd.is_some()
        });
        let (fd, opener) = (fd.unwrap(), opener.unwrap());
        let theirs = program.peers.get(opener.host).unwrap();
        let slot = program.arena().allocate(program.holder, 0).unwrap();
        let own = program.arena().own(slot);
        own.set_kind(Kind::Stream);
        own.set_inode(meet::inode(&fd).unwrap());
        own.set_peer(opener);
        own.set_state(State::Established);
        before(theirs.peer(opener.slot), own);
        meet::say_yes(&fd, own.name()).unwrap();
        Socket { program, fd, slot }
    }
}

pub(crate) struct Socket<'a> {
    program: &'a Program,
    pub(crate) fd: OwnedFd,
    pub(crate) slot: u32,
}

impl<'a> Socket<'a> {
    fn of(program: &'a Program, met: Met) -> Socket<'a> {
        Socket {
            program,
            fd: met.fd,
            slot: met.slot,
        }
    }

    pub(crate) fn wait_until_open(&self) -> Result<(), i32> {
        let begun = Instant::now();
        loop {
            match meet::resolve(&self.program.peers, self.slot, self.fd.as_fd()) {
                Answer::Open(_) => return Ok(()),
                Answer::Refused(errno) => return Err(errno),
                Answer::NotYet => assert!(begun.elapsed() < LONG, "an answer"),
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(Stream<'_>) -> T) -> T {
        let own = self.program.arena();
        let slot = own.own(self.slot);
        let resolved = slot.flags() & gannet_local::slot::flags::RESOLVED != 0;
        let theirs = match resolved {
            true => self.program.peers.get(slot.peer_name().host).ok(),
            false => None,
        };
        let stream = Stream::new(own, self.slot, theirs.as_deref(), self.fd.as_fd());
        if resolved && drain(self.fd.as_fd()) == Drained::HungUp {
            stream.hung_up();
        }
        work(stream)
    }

    pub(crate) fn set(&self, option: Opt, value: u32) {
        self.program.arena().own(self.slot).set(option, value);
        self.with(|stream| stream.wake());
    }

    /// Sends everything, waiting for room without sleeping for it.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Hindrance> {
        let mut rest = bytes;
        let mut failed = None;
        until("room", || {
            match self.with(|stream| stream.send_slice(rest)) {
                Ok(n) => rest = &rest[n..],
                Err(Hindrance::Wait) => {}
                Err(other) => failed = Some(other),
            }
            rest.is_empty() || failed.is_some()
        });
        failed.map_or(Ok(()), Err)
    }

    pub(crate) fn receive(&self, out: &mut [u8]) -> Result<usize, Hindrance> {
        let mut got = Err(Hindrance::Wait);
        until("bytes", || {
            got = self.with(|stream| stream.receive_slice(out, false));
            got != Err(Hindrance::Wait)
        });
        got
    }

    /// Everything up to the end.
    pub(crate) fn receive_all(&self) -> Result<Vec<u8>, Hindrance> {
        let (mut all, mut piece) = (Vec::new(), vec![0; 9000]);
        loop {
            match self.receive(&mut piece) {
                Ok(n) => all.extend_from_slice(&piece[..n]),
                Err(Hindrance::End) => return Ok(all),
                Err(other) => return Err(other),
            }
        }
    }

    /// As a library does it at the last `close`.
    pub(crate) fn close(self) {
        self.with(|stream| stream.close(false));
        let arena = self.program.arena();
        arena.let_go(self.program.holder, self.slot);
        // The carrier may have stopped looking for slots just before.
        if arena.must_ask_for_sweep() {
            let network = self.program.peers.network();
            service::tell(network, arena.host(), &Question::Look).unwrap();
        }
    }
}
