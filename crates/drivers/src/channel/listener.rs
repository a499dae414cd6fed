//! The side that has a name and waits for others.

use super::config::Options;
use super::directory::{Claim, Directory, Name};
use super::driver::Channel;
use super::handshake::{
    Arrived, Fault, Offer, Party, Theirs, Verified, check_user, new_socket, receive, refuse,
};
use gannet_base::{Counters, Instant};
use gannet_link::Endpoint;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Connections the kernel queues before [`Listener::accept_ready`] gets to them.
const BACKLOG: i32 = 128;
/// Most connections looked at in one call: a flood must not keep the caller from its other work.
const ACCEPTS_MAX: usize = 16;

/// How long to leave connections in the queue when descriptors have run out.
const STARVED: Duration = Duration::from_millis(10);

/// A name in a network, and whoever wants a channel to it.
#[derive(Debug)]
pub struct Listener {
    _claim: Claim,
    name: Name,
    socket: OwnedFd,
    options: Options,
    pending: Vec<Pending>,
    /// Watches the socket and everything pending; itself watchable.
    watch: OwnedFd,
    /// Whether `watch` watches the socket: not while no more handshakes are wanted.
    accepting: bool,
    /// No descriptors left: try again then.
    starved: Option<Instant>,
    faults: Counters<Fault, { Fault::COUNT }>,
}

/// A connection that has not said anything yet.
#[derive(Debug)]
struct Pending {
    socket: OwnedFd,
    deadline: Instant,
}

impl Listener {
    /// Takes `name` in the network of `directory` and listens.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be one or a layout out of bounds; `AddrInUse` when a
    /// living process has the name; as `socket`, `bind`, `listen`, `epoll_create`.
    pub fn bind(directory: &Directory, name: &str, options: &Options) -> io::Result<Listener> {
        let name = Name::new(name)?;
        if !options.layout.is_valid() || options.handshakes_max == 0 {
            let why = "a layout out of bounds, or no handshakes at all";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let claim = directory.claim(&name)?;
        let socket = new_socket()?;
        rustix::net::bind(&socket, &directory.address(&name)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch_readable(&watch, socket.as_fd())?;
        Ok(Listener {
            _claim: claim,
            name,
            socket,
            options: *options,
            pending: Vec::new(),
            watch,
            accepting: true,
            starved: None,
            faults: Counters::new(),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Handshakes that failed, by reason.
    pub fn faults(&self) -> &Counters<Fault, { Fault::COUNT }> {
        &self.faults
    }

    /// Handshakes under way.
    pub fn handshakes(&self) -> usize {
        self.pending.len()
    }

    /// When to call [`Listener::accept_ready`] even if nothing became readable.
    pub fn next_deadline(&self) -> Option<Instant> {
        let pending = self.pending.iter().map(|p| p.deadline);
        pending.chain(self.starved).min()
    }

    /// Goes on with whatever can go on, never waits, and returns a finished channel if there is
    /// one. Call again until it returns `None`.
    ///
    /// # Errors
    /// Only what ends listening altogether; a peer's misbehaviour is counted in
    /// [`Listener::faults`]. Without free descriptors connections wait.
    pub fn accept_ready(&mut self, now: Instant) -> io::Result<Option<Endpoint<Channel>>> {
        self.accept_new(now)?;
        let done = self.progress(now);
        self.watch_socket()?;
        Ok(done)
    }

    fn accept_new(&mut self, now: Instant) -> io::Result<()> {
        if self.starved.is_some_and(|until| now < until) {
            return Ok(());
        }
        self.starved = None;
        for _ in 0..ACCEPTS_MAX {
            if self.pending.len() >= self.options.handshakes_max {
                break;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.starved = Some(now + STARVED);
                    break;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Err(fault) = check_user(socket.as_fd()) {
                refuse(socket.as_fd(), fault);
                self.faults.add(fault);
                continue;
            }
            watch_readable(&self.watch, socket.as_fd())?;
            self.pending.push(Pending {
                socket,
                deadline: now + self.options.handshake_timeout,
            });
        }
        Ok(())
    }

    /// The first pending connection that becomes a channel. Those that fail are dropped.
    fn progress(&mut self, now: Instant) -> Option<Endpoint<Channel>> {
        let mut at = 0;
        while let Some(pending) = self.pending.get(at) {
            let step = match receive(pending.socket.as_fd()) {
                Ok(Arrived::Nothing) if now < pending.deadline => {
                    at += 1;
                    continue;
                }
                Ok(Arrived::Nothing) => Err(Fault::TimedOut),
                Ok(Arrived::Refusal(_)) => Err(Fault::Closed),
                Ok(Arrived::Hello(theirs)) => Ok(theirs),
                Err(fault) => Err(fault),
            };
            let socket = self.pending.swap_remove(at).socket;
            let _ = epoll::delete(&self.watch, &socket);
            match step.and_then(|theirs| self.answer(socket.as_fd(), theirs)) {
                Ok((offer, theirs)) => match offer.join(socket, theirs, self.party()) {
                    Ok(end) => return Some(end),
                    Err(fault) => self.faults.add(fault),
                },
                Err(fault) => {
                    refuse(socket.as_fd(), fault);
                    self.faults.add(fault);
                }
            }
        }
        None
    }

    /// Checks the other side's half, makes ours and sends it.
    fn answer(&self, socket: BorrowedFd<'_>, theirs: Theirs) -> Result<(Offer, Verified), Fault> {
        let theirs = theirs.verify(self.party())?;
        let offer = Offer::new(&self.options).map_err(|_| Fault::Resources)?;
        offer.send(socket, self.name).map_err(|_| Fault::Closed)?;
        Ok((offer, theirs))
    }

    fn party(&self) -> Party {
        Party {
            name: self.name,
            initiator: false,
            huge_pages: self.options.huge_pages,
        }
    }

    /// Watches the socket only while more handshakes are wanted: it would stay readable otherwise.
    fn watch_socket(&mut self) -> io::Result<()> {
        let wanted = self.starved.is_none() && self.pending.len() < self.options.handshakes_max;
        if wanted != self.accepting {
            if wanted {
                watch_readable(&self.watch, self.socket.as_fd())?;
            } else {
                epoll::delete(&self.watch, &self.socket)?;
            }
            self.accepting = wanted;
        }
        Ok(())
    }
}

impl AsFd for Listener {
    /// Readable when [`Listener::accept_ready`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

fn watch_readable(watch: &OwnedFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    let data = epoll::EventData::new_u64(0);
    Ok(epoll::add(watch, fd, data, epoll::EventFlags::IN)?)
}
