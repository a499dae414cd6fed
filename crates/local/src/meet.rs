//! How two ends of a stream meet.
//!
//! ```text
//! opener:   takes a slot, writes both addresses and a random number into it
//!           socket, bind to its connector name, connect to the listener's name
//! acceptor: accept: the name tells which slot; looks into it, takes a slot of its own
//!           sends the welcome: which slot that is, or why there is none
//! opener:   reads the welcome when it first needs to know (may send before)
//! ```
//! Between two programs the stream is open as soon as the listener has it in its queue, as in TCP;
//! a stream to the carrier is open when the carrier says so.
//!
//! Neither end believes the other. The acceptor looks at the credentials of the opening process;
//! the connector's name, which no other process can have, ends with the number in the slot; the
//! address it comes from is one that its program has. The opener looks whether the slot that the
//! welcome names has the opener's own as its other end.

use crate::arena::{Arena, HostId};
use crate::name::{self, Family, Place, Target};
use crate::network::{Network, stream_socket};
use crate::peers::Peers;
use crate::service;
use crate::slot::{Kind, OwnSlot, SlotName, State, flags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags};
use rustix::rand::GetRandomFlags;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub mod introduce;

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

/// The inode of a descriptor.
///
/// # Errors
/// What `fstat` says.
pub fn inode(fd: impl AsFd) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// Opens a stream to `target`; `carried` when that is the carrier. `holder` is this process's entry
/// in the arena.
///
/// # Errors
/// `CONNREFUSED` when no process listens there; `NOBUFS` when the arena has no slot left; what the
/// kernel says.
pub fn open(
    peers: &Peers,
    holder: usize,
    wish: Wish,
    carried: bool,
    target: Target,
) -> Result<Met, Errno> {
    let met = prepare(peers, holder, wish, carried)?;
    connect(peers, holder, met, target)
}

/// The first half of [`open`]: a stream that nobody knows of yet. What is noted in its slot now is
/// there when the other end looks.
///
/// # Errors
/// As [`open`].
pub fn prepare(peers: &Peers, holder: usize, wish: Wish, carried: bool) -> Result<Met, Errno> {
    let arena = peers.own();
    let fd = stream_socket(wish.socket)?;
    let slot = arena.allocate(holder, 0).ok_or(Errno::NOBUFS)?;
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
pub fn connect(peers: &Peers, holder: usize, met: Met, target: Target) -> Result<Met, Errno> {
    let network = peers.network();
    let reached = match reach(&met.fd, target.names(*network)) {
        // Nothing is there, or this process sees nothing of it.
        Err(Errno::CONNREFUSED | Errno::ACCESS) if !network.is_visible() => {
            service::connect(network, peers.own().host(), &met.fd, target)
        }
        other => other,
    };
    opened_if(peers, holder, met, reached)
}

/// As [`connect`], to the first of `names` that takes it.
///
/// # Errors
/// As [`open`].
pub fn connect_by(
    peers: &Peers,
    holder: usize,
    met: Met,
    names: impl Iterator<Item = SocketAddrUnix>,
) -> Result<Met, Errno> {
    let reached = reach(&met.fd, names);
    opened_if(peers, holder, met, reached)
}

/// Connects `fd` to the first of `names` that takes it.
///
/// # Errors
/// `CONNREFUSED` when none does; what the kernel says.
pub fn reach(fd: impl AsFd, names: impl Iterator<Item = SocketAddrUnix>) -> Result<(), Errno> {
    for name in names {
        match rustix::net::connect(&fd, &name) {
            Err(Errno::CONNREFUSED | Errno::NOENT) => {}
            other => return other,
        }
    }
    Err(Errno::CONNREFUSED)
}

fn opened_if(
    peers: &Peers,
    holder: usize,
    met: Met,
    reached: Result<(), Errno>,
) -> Result<Met, Errno> {
    if let Err(error) = reached {
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
    peers.own().free(holder, slot);
}

fn set_up(peers: &Peers, fd: &OwnedFd, n: u32, wish: Wish, carried: bool) -> Result<(), Errno> {
    peers.own().map_ring(n).map_err(|_| Errno::NOBUFS)?;
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
    name_connector(fd, &slot)
}

/// Gives `fd` the name of an opening end. One that another process had already, however it came to
/// know the number, is not used.
fn name_connector(fd: &OwnedFd, slot: &OwnSlot<'_>) -> Result<(), Errno> {
    for _ in 0..4 {
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce[..], GetRandomFlags::empty())?;
        let nonce = u64::from_ne_bytes(nonce);
        match rustix::net::bind(fd, &name::connector(slot.name(), nonce)?) {
            Err(Errno::ADDRINUSE) => {}
            Ok(()) => {
                slot.set_nonce(nonce);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ADDRINUSE)
}

/// Makes a listener at one place of the network's, alone or as one of those that share it. It does
/// not listen yet.
///
/// # Errors
/// `ADDRINUSE` when another process has it; what the kernel says.
pub fn bind(
    (network, own): (&Network, HostId),
    (family, place, port): (Family, Place, u16),
    share: bool,
    flags: SocketFlags,
) -> Result<OwnedFd, Errno> {
    let fd = stream_socket(flags)?;
    let stem = name::stem(family, place, port);
    match network.take(&fd, &stem, share) {
        Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::PERM | Errno::ROFS) => {
            service::bind(network, own, &fd, stem.as_str(), share)?;
        }
        other => other?,
    }
    Ok(fd)
}

/// Makes a listener under `name`, for a carrier. It does not listen yet.
///
/// # Errors
/// As [`bind`].
pub fn bind_as(network: &Network, name: &SocketAddrUnix) -> Result<OwnedFd, Errno> {
    let fd = stream_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    network.bind(&fd, name)?;
    Ok(fd)
}

/// Of those who knock, how many may be turned away before the caller hears that nobody is there:
/// there may be more, but others have a turn.
const TURNED_AWAY: usize = 64;

/// Takes a stream from a listener. A connection that is not what it says is turned away and is not
/// counted. One of a program whose memory is not known, and does not become known at once, is left
/// to the own carrier, which brings it again: see [`introduce`].
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
        let (fd, opener) = match opener_of(name) {
            Some(opener) => (fd, opener),
            None => match introduce::take(peers, fd, socket) {
                Ok(Some(introduced)) => introduced,
                // The carrier keeps it, and comes again.
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS)) => return Err(error),
                Ok(None) | Err(_) => continue,
            },
        };
        let admitted = match admit(peers, holder, &fd, opener, socket) {
            // Where the program's memory is the carrier will know later: others have their turn.
            Err(Errno::AGAIN) => {
                introduce::leave_to_carrier(peers, &listener, opener.0.host, &fd);
                continue;
            }
            other => other,
        };
        match admitted {
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

/// An opening end: its slot, and the random number there.
type Opener = (SlotName, u64);

/// The opening end that has this name.
fn opener_of(name: Option<SocketAddrAny>) -> Option<Opener> {
    let name = name.and_then(|any| SocketAddrUnix::try_from(any).ok());
    name.and_then(|name| name::read_connector(&name))
}

fn admit(
    peers: &Peers,
    holder: usize,
    fd: &OwnedFd,
    (opener, nonce): Opener,
    socket: SocketFlags,
) -> Result<(u32, Arc<Arena>), Errno> {
    if !peers.network().admits(fd) {
        return Err(Errno::PERM);
    }
    let theirs = peers.get_at_once(opener.host)?;
    let peer = theirs.peer(opener.slot);
    let opens = matches!(peer.state(), State::SynSent | State::Established);
    // A stream that has its other end opens no other: somebody else uses its name.
    let is_met = peer.flags() & flags::RESOLVED != 0;
    let is_it = peer.generation() == opener.generation && peer.nonce() == nonce;
    if !is_it || !opens || is_met {
        return Err(Errno::CONNABORTED);
    }
    let from = peer.local();
    if !peers.may_come_from(plain(from).ip(), opener.host) {
        return Err(Errno::ADDRNOTAVAIL);
    }
    let kind = peer.kind().filter(|kind| *kind != Kind::Listener);
    let kind = kind.ok_or(Errno::PROTO)?;
    let arena = peers.own();
    let inode = inode(fd)?;
    let n = arena.allocate(holder, 0).ok_or(Errno::NOBUFS)?;
    let mapped = arena
        .map_ring(n)
        .and_then(|()| theirs.map_ring(opener.slot));
    if mapped.is_err() {
        give_up(peers, holder, n);
        return Err(Errno::NOBUFS);
    }
    let slot = arena.own(n);
    slot.set_kind(kind);
    slot.set_local(peer.remote());
    slot.set_remote(from);
    slot.set_inode(inode);
    if socket.contains(SocketFlags::NONBLOCK) {
        slot.set_flags(flags::NONBLOCKING);
    }
    slot.set_peer(opener);
    slot.set_peer_inode(peer.inode());
    slot.set_state(State::Established);
    if kind == Kind::Stream && !peer_is_carried(&theirs, opener) {
        match say_yes(fd, slot.name()) {
            // Who has closed already hears nothing; what it sent is there to be read all the same.
            Err(Errno::PIPE | Errno::CONNRESET) => {
                slot.set_flags(flags::HUNG_UP);
            }
            Err(error) => {
                arena.free(holder, n);
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

/// Looks for the welcome of the stream in slot `n`, once; and for the arena of its other end. That
/// may not be known yet: then the welcome stays where it is, see [`is_answered`].
pub fn resolve(peers: &Peers, n: u32, fd: BorrowedFd<'_>) -> Answer {
    let slot = peers.own().own(n);
    if let Some(answer) = settled(peers, n) {
        return answer;
    }
    let name = match peek_welcome(fd) {
        Ok(None) => return Answer::NotYet,
        // Nothing comes through a socket that this end has shut down; nor is that a refusal.
        Err(Errno::CONNRESET) if slot.flags() & flags::DEAF != 0 => return Answer::NotYet,
        Ok(Some((0, name))) => Ok(name),
        Ok(Some((errno, _))) => Err(errno),
        Err(error) => Err(error.raw_os_error()),
    };
    // Without the lock: other threads and processes have the stream too.
    let theirs = name.and_then(|name| match peers.get_soon(name.host) {
        Ok(theirs) => Ok((name, Some(theirs))),
        Err(Errno::AGAIN) => Ok((name, None)),
        Err(_) => Err(Errno::CONNRESET.raw_os_error()),
    });
    let Ok(held) = slot.hold_read() else {
        return Answer::NotYet;
    };
    if slot.flags() & (flags::RESOLVED | flags::BROKEN) != 0 {
        // By another one that has the stream, meanwhile.
        drop(held);
        return settled(peers, n).unwrap_or(Answer::NotYet);
    }
    let (name, theirs) = match theirs {
        Ok((_, None)) => return Answer::NotYet,
        Ok((name, Some(theirs))) => (name, theirs),
        Err(errno) => return refused(peers, n, errno),
    };
    if !points_back(&theirs, name, slot.name()) {
        return refused(peers, n, Errno::CONNRESET.raw_os_error());
    }
    if theirs.map_ring(name.slot).is_err() {
        return refused(peers, n, Errno::NOBUFS.raw_os_error());
    }
    opened(peers, n, &theirs, name.slot);
    slot.set_peer(name);
    // Taken out once it is noted: a process that is killed in between leaves the others that
    // hold the stream a welcome, and no more than a wake-up if it was noted already.
    take_welcome(fd);
    Answer::Open(theirs)
}

/// What is known of the stream in slot `n` without a look at its socket.
fn settled(peers: &Peers, n: u32) -> Option<Answer> {
    let slot = peers.own().own(n);
    let known = slot.flags();
    if known & flags::BROKEN != 0 {
        // Its reason is reported once.
        return Some(Answer::Refused(slot.error()));
    }
    if known & flags::RESOLVED == 0 {
        return None;
    }
    // A process that was given the stream by another one: the own carrier knows the memory.
    Some(match peers.get(slot.peer_name().host) {
        Ok(theirs) => Answer::Open(theirs),
        // Not asked again and again: each question may have to wait for its answer.
        Err(_) => refused(peers, n, Errno::CONNRESET.raw_os_error()),
    })
}

/// Whether the stream in slot `n` has a welcome that [`resolve`] could not follow yet. Nothing
/// wakes a sleeper when it can: it is to look again, and each look waits a little.
pub fn is_answered(peers: &Peers, n: u32, fd: BorrowedFd<'_>) -> bool {
    let known = peers.own().own(n).flags();
    known & (flags::RESOLVED | flags::BROKEN) == 0 && matches!(peek_welcome(fd), Ok(Some((0, _))))
}

/// Whether the slot that a welcome names has this end as its other end, and no other process's.
fn points_back(theirs: &Arena, name: SlotName, own: SlotName) -> bool {
    let peer = theirs.peer(name.slot);
    let is_met = peer.flags() & flags::RESOLVED != 0;
    is_met && peer.generation() == name.generation && peer.peer_name() == own
}

fn refused(peers: &Peers, n: u32, errno: i32) -> Answer {
    let slot = peers.own().own(n);
    slot.set_error(errno);
    slot.set_flags(flags::BROKEN);
    slot.set_state(State::Closed);
    Answer::Refused(errno)
}

fn opened(peers: &Peers, n: u32, theirs: &Arena, peer: u32) {
    let slot = peers.own().own(n);
    slot.set_peer_inode(theirs.peer(peer).inode());
    if slot.flags() & flags::CARRIED != 0 {
        // The carrier knows from which address and port the connection really goes out.
        slot.set_local(theirs.peer(peer).remote());
    }
    slot.set_state(State::Established);
}

fn take_welcome(fd: BorrowedFd<'_>) {
    // Another process that sees it noted may have thrown it away as a wake-up.
    if matches!(peek_welcome(fd), Ok(Some(_))) {
        let mut bytes = [0u8; WELCOME];
        let _ = rustix::net::recv(fd, &mut bytes[..], RecvFlags::DONTWAIT);
    }
}

fn peek_welcome(fd: BorrowedFd<'_>) -> Result<Option<(i32, SlotName)>, Errno> {
    let mut bytes = [0u8; WELCOME];
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let n = match rustix::net::recv(fd, &mut bytes[..], flags) {
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
