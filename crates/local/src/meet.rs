//! How two ends of a stream meet.
//!
//! ```text
//! opener:   takes a slot, writes both addresses into it
//!           socket, bind to its connector name, connect to the listener's name
//! acceptor: accept: the name tells which slot; looks into it, takes a slot of its own
//!           sends the welcome: which slot that is, or why there is none
//! opener:   reads the welcome when it first needs to know (may send before)
//! ```
//! Between two programs the stream is open as soon as the listener has it in its queue, as in TCP;
//! a stream to the carrier is open when the carrier says so.

use crate::arena::Arena;
use crate::lock;
use crate::name::{self, Family, Place};
use crate::peers::Peers;
use crate::slot::{Kind, SlotName, State, flags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

const WELCOME: usize = 24;
const MAGIC: u32 = 0x6761_6e77;

/// A stream that was just opened or accepted.
#[derive(Debug)]
pub struct Met {
    /// The descriptor.
    pub fd: OwnedFd,
    /// The own slot, held for this process.
    pub slot: u32,
    /// The other end's arena; not known to the opener yet.
    pub theirs: Option<Arc<Arena>>,
}

/// What a stream is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The own address.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// A byte stream or datagrams.
    pub kind: Kind,
    /// `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
    pub socket: SocketFlags,
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The inode of a descriptor.
///
/// # Errors
/// What `fstat` says.
pub fn inode(fd: impl AsFd) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// Opens a stream to one of `names`, the first that takes it; `carried` when that is the carrier.
/// `holder` is this process's entry in the arena.
///
/// # Errors
/// `CONNREFUSED` when nobody listens at any; `NOBUFS` when the arena has no slot left; what the
/// kernel says.
pub fn open(
    peers: &Peers,
    holder: usize,
    wish: Wish,
    carried: bool,
    names: &mut dyn Iterator<Item = SocketAddrUnix>,
) -> Result<Met, Errno> {
    let met = prepare(peers, holder, wish, carried)?;
    connect(peers, holder, met, names)
}

/// The first half of [`open`]: a stream that nobody knows of yet. What is noted in its slot now is
/// there when the other end looks.
///
/// # Errors
/// As [`open`].
pub fn prepare(peers: &Peers, holder: usize, wish: Wish, carried: bool) -> Result<Met, Errno> {
    let arena = peers.own();
    let fd = socket(wish.socket)?;
    let slot = arena
        .allocate(holder, wish.local.port().into())
        .ok_or(Errno::NOBUFS)?;
    let prepared = set_up(peers, &fd, slot, wish, carried);
    if let Err(error) = prepared {
        give_up(peers, holder, slot);
        return Err(error);
    }
    Ok(Met {
        fd,
        slot,
        theirs: None,
    })
}

/// The second half of [`open`]. When it fails the slot is free again.
///
/// # Errors
/// As [`open`].
pub fn connect(
    peers: &Peers,
    holder: usize,
    met: Met,
    names: &mut dyn Iterator<Item = SocketAddrUnix>,
) -> Result<Met, Errno> {
    let mut outcome = Err(Errno::CONNREFUSED);
    for name in names {
        outcome = rustix::net::connect(&met.fd, &name);
        if outcome != Err(Errno::CONNREFUSED) {
            break;
        }
    }
    if let Err(error) = outcome {
        give_up(peers, holder, met.slot);
        return Err(error);
    }
    let slot = peers.own().own(met.slot);
    if slot.flags() & flags::CARRIED == 0 {
        slot.set_state(State::Established);
    }
    Ok(met)
}

fn give_up(peers: &Peers, holder: usize, slot: u32) {
    peers.own().let_go(holder, slot);
    peers.own().free(slot);
}

fn set_up(peers: &Peers, fd: &OwnedFd, n: u32, wish: Wish, carried: bool) -> Result<(), Errno> {
    let slot = peers.own().own(n);
    slot.set_kind(wish.kind);
    slot.set_local(wish.local);
    slot.set_remote(wish.remote);
    slot.set_inode(inode(fd)?);
    if carried {
        slot.set_flags(flags::CARRIED);
    }
    if wish.socket.contains(SocketFlags::NONBLOCK) {
        slot.set_flags(flags::NONBLOCKING);
    }
    slot.set_state(State::SynSent);
    let name = name::connector(peers.network(), slot.name())?;
    rustix::net::bind(fd, &name)
}

/// The names at which a program of the network may listen for `to`, in an order that `turn`
/// chooses: of several that share the port, others are the first each time.
pub fn names_of(
    peers: &Peers,
    to: SocketAddr,
    turn: u32,
) -> impl Iterator<Item = SocketAddrUnix> + use<> {
    let family = match to {
        SocketAddr::V4(_) => Family::Four,
        SocketAddr::V6(_) => Family::Six,
    };
    let place = match to.ip().is_loopback() {
        true => Place::Loopback,
        false => Place::At(to.ip()),
    };
    let network = peers.network();
    let numbers = std::iter::once(0).chain(name::sharers(turn));
    numbers
        .flat_map(move |n| [(family, n), (Family::Both, n)])
        .filter_map(move |(family, n)| name::listener(network, family, place, to.port(), n).ok())
}

/// Makes a listener under `name`. It does not listen yet.
///
/// # Errors
/// `ADDRINUSE` when somebody else does; what the kernel says.
pub fn bind(name: &SocketAddrUnix, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let fd = socket(flags)?;
    rustix::net::bind(&fd, name)?;
    Ok(fd)
}

/// Of those who knock, how many may be turned away before the caller hears that nobody is there:
/// there may be more, but others have a turn.
const TURNED_AWAY: usize = 64;

/// Takes a stream from a listener. Who knocks without being what it says is turned away and
/// counted as nobody.
///
/// # Errors
/// `AGAIN` when there is none (or `listener` blocks); `NOBUFS` when the arena has no slot left;
/// what `accept4` says.
pub fn accept(
    peers: &Peers,
    holder: usize,
    listener: impl AsFd,
    socket: SocketFlags,
) -> Result<Met, Errno> {
    for _ in 0..TURNED_AWAY {
        let (fd, name) = rustix::net::acceptfrom_with(&listener, socket)?;
        let name = name.and_then(|any| SocketAddrUnix::try_from(any).ok());
        let named = name.and_then(|name| name::read_connector(peers.network(), &name));
        let Some(opener) = named else { continue };
        match admit(peers, holder, &fd, opener, socket) {
            Ok((slot, theirs)) => {
                return Ok(Met {
                    fd,
                    slot,
                    theirs: Some(theirs),
                });
            }
            Err(Errno::NOBUFS) => {
                let _ = say_no(&fd, Errno::NOBUFS);
                return Err(Errno::NOBUFS);
            }
            Err(_) => continue,
        }
    }
    Err(Errno::AGAIN)
}

fn admit(
    peers: &Peers,
    holder: usize,
    fd: &OwnedFd,
    opener: SlotName,
    socket: SocketFlags,
) -> Result<(u32, Arc<Arena>), Errno> {
    let theirs = peers.get(opener.host)?;
    let peer = theirs.peer(opener.slot);
    let opens = matches!(peer.state(), State::SynSent | State::Established);
    // A stream that has its other end opens no other: somebody else uses its name.
    let is_met = peer.flags() & flags::RESOLVED != 0;
    if peer.generation() != opener.generation || !opens || is_met {
        return Err(Errno::CONNABORTED);
    }
    let kind = peer.kind().filter(|kind| *kind != Kind::Listener);
    let kind = kind.ok_or(Errno::PROTO)?;
    let arena = peers.own();
    let inode = inode(fd)?;
    let n = arena.allocate(holder, opener.slot).ok_or(Errno::NOBUFS)?;
    let slot = arena.own(n);
    slot.set_kind(kind);
    slot.set_local(peer.remote());
    slot.set_remote(peer.local());
    slot.set_inode(inode);
    if socket.contains(SocketFlags::NONBLOCK) {
        slot.set_flags(flags::NONBLOCKING);
    }
    slot.set_peer(opener);
    slot.set_state(State::Established);
    if kind == Kind::Stream && !peer_is_carried(&theirs, opener) {
        match say_yes(fd, slot.name()) {
            // Who has closed already hears nothing; what it sent is there to be read all the same.
            Err(Errno::PIPE | Errno::CONNRESET) => {
                slot.set_flags(flags::HUNG_UP);
            }
            Err(error) => {
                arena.free(n);
                return Err(error);
            }
            Ok(()) => {}
        }
    }
    Ok((n, theirs))
}

/// A stream that a program opened to its carrier is answered later, by [`say_yes`] or [`say_no`].
fn peer_is_carried(theirs: &Arena, opener: SlotName) -> bool {
    theirs.peer(opener.slot).flags() & flags::CARRIED != 0
}

/// Welcomes the opener of a stream.
///
/// # Errors
/// What `send` says.
pub fn say_yes(fd: impl AsFd, slot: SlotName) -> Result<(), Errno> {
    fence(Ordering::SeqCst);
    welcome(fd, 0, slot)
}

/// Turns the opener of a stream away.
///
/// # Errors
/// What `send` says.
pub fn say_no(fd: impl AsFd, why: Errno) -> Result<(), Errno> {
    let nobody = SlotName {
        host: 0,
        slot: 0,
        generation: 0,
    };
    welcome(fd, why.raw_os_error(), nobody)
}

fn welcome(fd: impl AsFd, errno: i32, slot: SlotName) -> Result<(), Errno> {
    let mut bytes = Vec::with_capacity(WELCOME);
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend(errno.to_ne_bytes());
    bytes.extend(slot.host.to_ne_bytes());
    bytes.extend(slot.slot.to_ne_bytes());
    bytes.extend(slot.generation.to_ne_bytes());
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(fd, &bytes, flags).map(|_| ())
}

/// What became of a stream this process (or its parent) opened.
#[derive(Debug)]
pub enum Answer {
    /// Nothing yet.
    NotYet,
    /// The other end's slot is known (now, or before): its arena.
    Open(Arc<Arena>),
    /// Turned away: errno.
    Refused(i32),
}

/// Looks for the welcome of the stream in slot `n`, once; and for the arena of its other end.
pub fn resolve(peers: &Peers, n: u32, fd: BorrowedFd<'_>) -> Answer {
    let slot = peers.own().own(n);
    let Ok(held) = lock::hold(slot.read_lock()) else {
        return Answer::NotYet;
    };
    if slot.flags() & flags::BROKEN != 0 && slot.flags() & flags::RESOLVED == 0 {
        // Said before: its reason is reported once.
        return Answer::Refused(slot.error());
    }
    if slot.flags() & flags::RESOLVED == 0 {
        match read_welcome(fd) {
            Ok(None) => return Answer::NotYet,
            Ok(Some((0, name))) => slot.set_peer(name),
            Ok(Some((errno, _))) => return refused(peers, n, errno),
            Err(error) => return refused(peers, n, error.raw_os_error()),
        }
        drop(held);
        return match peers.get(slot.peer_name().host) {
            Ok(theirs) => {
                opened(peers, n, &theirs);
                Answer::Open(theirs)
            }
            Err(_) => refused(peers, n, Errno::CONNRESET.raw_os_error()),
        };
    }
    drop(held);
    if slot.flags() & flags::BROKEN != 0 {
        return Answer::Refused(slot.error());
    }
    match peers.get(slot.peer_name().host) {
        Ok(theirs) => Answer::Open(theirs),
        // Not asked again and again: each question may have to wait for its answer.
        Err(_) => refused(peers, n, Errno::CONNRESET.raw_os_error()),
    }
}

fn refused(peers: &Peers, n: u32, errno: i32) -> Answer {
    let slot = peers.own().own(n);
    slot.set_error(errno);
    slot.set_flags(flags::BROKEN);
    slot.set_state(State::Closed);
    Answer::Refused(errno)
}

fn opened(peers: &Peers, n: u32, theirs: &Arena) {
    let slot = peers.own().own(n);
    if slot.flags() & flags::CARRIED != 0 {
        // The carrier knows from which address and port the connection really goes out.
        slot.set_local(theirs.peer(slot.peer_name().slot).remote());
    }
    slot.set_state(State::Established);
}

fn read_welcome(fd: BorrowedFd<'_>) -> Result<Option<(i32, SlotName)>, Errno> {
    let mut bytes = [0u8; WELCOME];
    let n = match rustix::net::recv(fd, &mut bytes[..], RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error),
        Ok((_, n)) => n,
    };
    let word = |at: usize| -> Option<u32> {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(four))
    };
    if n != WELCOME || word(0) != Some(MAGIC) {
        return Err(Errno::CONNRESET);
    }
    let host = bytes.get(8..16).and_then(|b| b.try_into().ok());
    let name = SlotName {
        host: host.map_or(0, u64::from_ne_bytes),
        slot: word(16).unwrap_or(0),
        generation: word(20).unwrap_or(0),
    };
    Ok(Some((word(4).unwrap_or(0) as i32, name)))
}

/// An address without the IPv4-mapped form.
pub fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), address.port()),
            None => address,
        },
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests;
