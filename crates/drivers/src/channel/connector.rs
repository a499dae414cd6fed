//! The side that knows a name and wants a channel to it.

use super::config::Options;
use super::directory::{Directory, Name};
use super::driver::Channel;
use super::handshake::{Arrived, Fault, Offer, Party, check_user, new_socket, receive};
use gannet_base::Instant;
use gannet_link::Endpoint;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long to wait before knocking again at a listener whose queue is full.
const KNOCK_AGAIN: Duration = Duration::from_millis(5);

/// A channel in the making: drive it with [`Connector::progress`].
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
    address: SocketAddrUnix,
    own: Name,
    peer: Name,
    options: Options,
    state: State,
    deadline: Instant,
}

#[derive(Debug)]
enum State {
    /// The listener's queue was full; the next try is due then.
    Knocking(Instant),
    /// Our half is sent.
    Waiting(Box<Offer>),
    /// The channel was returned, or an error.
    Over,
}

impl Connector {
    /// Starts connecting to `peer` in the network of `directory`, under the name `own`. Never
    /// waits.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be one, the same name twice, or a layout out of
    /// bounds; `ConnectionRefused` when nobody has the name `peer`; `PermissionDenied` when a
    /// process of another user has it; as `socket`, `memfd_create`, `mmap`.
    pub fn start(
        directory: &Directory,
        own: &str,
        peer: &str,
        options: &Options,
        now: Instant,
    ) -> io::Result<Connector> {
        let (own, peer) = (Name::new(own)?, Name::new(peer)?);
        if own == peer {
            let why = format!("{peer:?} is this side's own name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut connector = Connector {
            socket: new_socket()?,
            address: directory.address(&peer)?,
            own,
            peer,
            options: *options,
            state: State::Knocking(now),
            deadline: now + options.handshake_timeout,
        };
        connector.knock(now)?;
        Ok(connector)
    }

    /// The name that is being connected to.
    pub fn peer_name(&self) -> &str {
        self.peer.as_str()
    }

    /// When to call [`Connector::progress`] even if nothing became readable.
    pub fn next_deadline(&self) -> Instant {
        match self.state {
            State::Knocking(at) => at.min(self.deadline),
            State::Waiting(_) => self.deadline,
            State::Over => Instant::FAR_FUTURE,
        }
    }

    /// Goes on as far as it can without waiting: the channel when it is there, `None` while it is
    /// not.
    ///
    /// # Errors
    /// Ends the attempt. `ConnectionRefused`: nobody has the name, or the other side turned us
    /// away (the text says why); `TimedOut`; `PermissionDenied`: another user's process;
    /// `InvalidData`, `Unsupported`: what it sent is not in order; `ConnectionReset`: it went away.
    pub fn progress(&mut self, now: Instant) -> io::Result<Option<Endpoint<Channel>>> {
        if let State::Knocking(at) = self.state
            && now >= at
            && now < self.deadline
        {
            self.knock(now)?;
        }
        let arrived = match self.state {
            State::Over => return Err(self.error(Fault::Closed)),
            State::Knocking(_) => Ok(Arrived::Nothing),
            State::Waiting(_) => receive(self.socket.as_fd()),
        };
        match arrived {
            Ok(Arrived::Nothing) if now < self.deadline => Ok(None),
            Ok(Arrived::Nothing) => Err(self.fail(Fault::TimedOut)),
            Ok(Arrived::Refusal(code)) => Err(self.refused(code)),
            Err(fault) => Err(self.fail(fault)),
            Ok(Arrived::Hello(theirs)) => {
                let party = self.party();
                let verified = theirs.verify(party).and_then(|theirs| {
                    let right = theirs.name() == self.peer;
                    right.then_some(theirs).ok_or(Fault::Name)
                });
                let theirs = verified.map_err(|fault| self.fail(fault))?;
                let State::Waiting(offer) = std::mem::replace(&mut self.state, State::Over) else {
                    return Err(self.fail(Fault::Closed));
                };
                let socket = std::mem::replace(&mut self.socket, new_socket()?);
                let end = offer.join(socket, theirs, party);
                end.map(Some).map_err(|fault| self.fail(fault))
            }
        }
    }

    fn party(&self) -> Party {
        Party {
            name: self.own,
            initiator: true,
            huge_pages: self.options.huge_pages,
        }
    }

    /// Connects, if the listener's queue has room, and sends our half.
    fn knock(&mut self, now: Instant) -> io::Result<()> {
        match rustix::net::connect(&self.socket, &self.address) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::INTR) => {
                self.state = State::Knocking(now + KNOCK_AGAIN);
                return Ok(());
            }
            Err(error) => return Err(self.unreachable(error)),
        }
        check_user(self.socket.as_fd()).map_err(|fault| self.fail(fault))?;
        let offer = Offer::new(&self.options)?;
        // A listener that refused us before we said anything has closed its end, but its reason
        // lies in our queue: `progress` will read it.
        match offer.send(self.socket.as_fd(), self.own) {
            Ok(()) | Err(Errno::PIPE) => {}
            Err(error) => return Err(error.into()),
        }
        self.state = State::Waiting(Box::new(offer));
        Ok(())
    }

    fn unreachable(&mut self, error: Errno) -> io::Error {
        self.state = State::Over;
        match error {
            Errno::NOENT | Errno::CONNREFUSED => {
                let text = format!("no living process has the name {:?}", self.peer);
                io::Error::new(io::ErrorKind::ConnectionRefused, text)
            }
            other => other.into(),
        }
    }

    fn refused(&mut self, code: u32) -> io::Error {
        self.state = State::Over;
        let why = Fault::from_code(code).map_or("for a reason unknown here", Fault::explain);
        let text = format!("{:?} refused the channel: {why}", self.peer);
        io::Error::new(io::ErrorKind::ConnectionRefused, text)
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        self.state = State::Over;
        self.error(fault)
    }

    fn error(&self, fault: Fault) -> io::Error {
        let text = format!("channel to {:?}: {}", self.peer, fault.explain());
        io::Error::new(fault.kind(), text)
    }
}

impl AsFd for Connector {
    /// Readable when [`Connector::progress`] has something to do; stale once it returned a channel.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
