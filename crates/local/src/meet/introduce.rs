//! A connection of a program whose memory the acceptor does not know, and is not told at once:
//!
//! ```text
//! acceptor: sends the accepted socket to its own carrier, with the listener's name; goes on
//! carrier:  asks the other program's carrier, waits as long as it takes, blocks nowhere
//!           connects to the listener, without a name of its own; sends the memory and the socket
//! acceptor: accept: no name, and its carrier's credentials: takes both, answers with one byte
//! carrier:  no answer: comes again, a little later
//! ```
//! So an acceptor waits for no other program, and any process that shares the listener may take it.
//!
//! Why not a hello that the opener sends after `connect`, with its memory: it costs each connection
//! two calls, descriptors on their way are limited for each user (a full queue would have
//! thousands), and each process would need a descriptor of its memory, which the program may close.

use super::{Opener, opener_of};
use crate::arena::HostId;
use crate::name::{self, PATH_MAX};
use crate::peers::Peers;
use crate::room::with_room;
use crate::service;
use rustix::cmsg_space;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// What the carrier sends with the two descriptors.
const MARK: [u8; 8] = *b"gannet/i";
/// The answer.
const TAKEN: u8 = b'+';

/// Sends an accepted socket to the own carrier. When that takes nothing, the connection is turned
/// away: it is closed by the caller.
pub(super) fn leave_to_carrier(peers: &Peers, listener: impl AsFd, from: HostId, fd: &OwnedFd) {
    let bound = rustix::net::getsockname(&listener).ok();
    let bound = bound.and_then(|any| SocketAddrUnix::try_from(any).ok());
    let path = bound.as_ref().and_then(SocketAddrUnix::path_bytes);
    let name = path.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    let name = name.filter(|name| name.len() <= PATH_MAX);
    if let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) {
        let own = (peers.network(), peers.own().host());
        let leave = || service::introduce(own, from, name, fd);
        if let Err(Errno::MFILE | Errno::TOOMANYREFS) = leave() {
            let _ = with_room(leave);
        }
    }
}

/// The connection that the own carrier brings by `fd`, with its opening end. `None` when `fd` is
/// none of the carrier's.
///
/// # Errors
/// `MFILE` when this process has no descriptor left for it; what is wrong with what was brought.
pub(super) fn take(
    peers: &Peers,
    fd: OwnedFd,
    socket: SocketFlags,
) -> Result<Option<(OwnedFd, Opener)>, Errno> {
    if !peers.asks() || !peers.network().is_carrier(&fd) {
        return Ok(None);
    }
    // It was sent right after the connection was made. If it is not there yet the carrier comes
    // again: nothing is waited for here.
    let [stream, memory] = match with_room(|| receive(&fd)) {
        Ok(received) => received?,
        Err(_) => receive(&fd)?,
    };
    let peer = rustix::net::getpeername(&stream)?;
    let opener = opener_of(peer).ok_or(Errno::PROTO)?;
    let known = peers.take_in(opener.0.host, &memory);
    if known.as_ref().err() != Some(&Errno::NOBUFS) {
        rustix::net::send(&fd, &[TAKEN], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    }
    known?;
    drop((fd, memory));
    Ok(Some((as_accepted(stream, socket)?, opener)))
}

/// The socket as `accept4` would have given it: the lowest number, and its flags as they are asked
/// for now.
fn as_accepted(stream: OwnedFd, socket: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = rustix::fs::fcntl_getfl(&stream)? & !OFlags::NONBLOCK;
    let flags = match socket.contains(SocketFlags::NONBLOCK) {
        true => flags | OFlags::NONBLOCK,
        false => flags,
    };
    rustix::fs::fcntl_setfl(&stream, flags)?;
    let lowest = rustix::io::fcntl_dupfd_cloexec(&stream, 0);
    let stream = match lowest {
        Ok(lowest) if lowest.as_raw_fd() < stream.as_raw_fd() => lowest,
        _ => stream,
    };
    if !socket.contains(SocketFlags::CLOEXEC) {
        rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::empty())?;
    }
    Ok(stream)
}

fn receive(fd: &OwnedFd) -> Result<[OwnedFd; 2], Errno> {
    let mut bytes = [0; MARK.len()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let message = rustix::net::recvmsg(fd, into, &mut control, flags)?;
    let mut files = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            files.extend(some);
        }
    }
    if message.bytes != MARK.len() || bytes != MARK {
        return Err(Errno::PROTO);
    }
    // The kernel leaves out those for which there is no number.
    let is_cut = message.flags.contains(ReturnFlags::CTRUNC) && files.len() < 2;
    let missing = if is_cut { Errno::MFILE } else { Errno::PROTO };
    files.try_into().map_err(|_| missing)
}

/// The carrier's side: brings `stream` and the `memory` of the program that opened it to the
/// listener `name`. The result is readable once that was taken, see [`is_taken`].
///
/// # Errors
/// `CONNREFUSED` or `NOENT` when the listener is gone; `AGAIN` when its queue is full.
pub fn bring(
    name: &SocketAddrUnix,
    memory: impl AsFd,
    stream: impl AsFd,
) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = crate::network::stream_socket(flags)?;
    rustix::net::connect(&fd, name)?;
    let files = [stream.as_fd(), memory.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let parts = [IoSlice::new(&MARK)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(&fd, &parts, &mut control, flags)?;
    Ok(fd)
}

/// Whether what [`bring`] brought was taken.
///
/// # Errors
/// `AGAIN` when that is not said yet; another one when it was not.
pub fn is_taken(brought: &OwnedFd) -> Result<(), Errno> {
    let mut byte = [0];
    match rustix::net::recv(brought, &mut byte[..], RecvFlags::DONTWAIT)? {
        (_, 1) if byte == [TAKEN] => Ok(()),
        _ => Err(Errno::CONNRESET),
    }
}

/// The name of a listener in the directory of `network`, by what [`service::Question::Introduce`]
/// says.
///
/// # Errors
/// `INVAL` for another name.
pub fn listener(network: &crate::Network, text: &str) -> Result<SocketAddrUnix, Errno> {
    if !name::is_listener_name(text) {
        return Err(Errno::INVAL);
    }
    let path = [network.path(), b"/", text.as_bytes()].concat();
    SocketAddrUnix::new(path)
}
