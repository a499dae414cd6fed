//! A stream between a program and the carrier, and what the carrier joins it to.

#[cfg(doc)]
use crate::tcp::CORKED_MAX;
use crate::tcp::Tcp;
use crate::udp::Udp;
use gannet::Poller;
use gannet_local::slot::{PeerSlot, flags, receiver};
use gannet_local::{Arena, Stream};
use rustix::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The carrier's end of a stream.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) fd: OwnedFd,
    /// Its slot in the gateway's arena.
    pub(crate) slot: u32,
}

/// What a stream is joined to.
#[derive(Debug)]
pub(crate) enum Joined {
    Tcp(Box<Tcp>),
    Udp(Box<Udp>),
    /// Nothing any more: the slot stays until the program needs it no more.
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) end: End,
    pub(crate) joined: Joined,
    /// Is among those to be looked at in this turn.
    pub(crate) listed: bool,
    /// Is among those to be looked at when corked bytes have waited long enough.
    pub(crate) corked: bool,
}

/// What a flow needs of the carrier while it is looked at.
pub(crate) struct Around<'a> {
    /// The gateway's memory, with the carrier's ends.
    pub(crate) own: &'a Arena,
    /// The program's, with the other ends.
    pub(crate) program: &'a Arena,
    pub(crate) poller: &'a Poller,
    /// For bytes on their way, as large as a datagram.
    pub(crate) scratch: &'a mut [u8],
    pub(crate) now: Instant,
    /// Bytes given to the program whose reader may not know yet.
    pub(crate) given: &'a mut usize,
    /// Datagrams for programs that did not read theirs.
    pub(crate) dropped: &'a mut u64,
}

/// What comes after a look at a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until there is news.
    Wait,
    /// There is more to do, but others have their turn first.
    Again,
    /// Nothing, until there is news, or corked bytes have waited for [`CORKED_MAX`].
    Uncork,
    /// It is over, and the stream was closed.
    Over,
    /// It never began: the program was told why, or is gone. Nobody knows of this end.
    Refused,
}

impl End {
    pub(crate) fn stream<'a>(&'a self, around: &Around<'a>) -> Stream<'a> {
        let program = Some(around.program);
        Stream::new(around.own, self.slot, program, self.fd.as_fd())
    }

    /// The other end, if it is known and still what it was.
    pub(crate) fn peer<'a>(&self, around: &Around<'a>) -> Option<PeerSlot<'a>> {
        let own = around.own.own(self.slot);
        if own.flags() & flags::RESOLVED == 0 {
            return None;
        }
        let name = own.peer_name();
        let peer = around.program.peer(name.slot);
        (peer.generation() == name.generation).then_some(peer)
    }

    /// Whether the program has closed its end, or died.
    pub(crate) fn is_left(&self, around: &Around<'_>) -> bool {
        let known = around.own.own(self.slot).flags();
        if known & flags::HUNG_UP != 0 {
            return true;
        }
        let resolved = known & flags::RESOLVED != 0;
        match self.peer(around) {
            Some(peer) => peer.receiver() & receiver::CLOSED != 0,
            None => resolved,
        }
    }
}
