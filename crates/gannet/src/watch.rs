//! What only the kernel can tell: rung doorbells, dead peers, new channels, packets on an
//! interface. One epoll descriptor for all of it, and an event descriptor to wake whoever sleeps on
//! it.

use crate::clock::timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Most events taken at once.
const EVENTS_MAX: usize = 32;
/// Number of links and networks a token can name.
const INDEX_BITS: u32 = 32;

/// Who has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Somebody in this process wants the sleeper awake.
    Kick,
    /// The link with this number has frames.
    Traffic(u32),
    /// The peer of the link with this number hung up.
    HangUp(u32),
    /// Somebody knocks at the network with this number.
    Knock(u32),
    /// A channel that nobody waits for goes on.
    Dial,
    /// A descriptor that the poller with this number watches besides its sockets.
    Beside(u32),
}

impl Signal {
    fn token(self) -> u64 {
        let (kind, index) = match self {
            Signal::Kick => (0u64, 0),
            Signal::Traffic(link) => (1, link),
            Signal::HangUp(link) => (2, link),
            Signal::Knock(network) => (3, network),
            Signal::Dial => (4, 0),
            Signal::Beside(poller) => (5, poller),
        };
        kind << INDEX_BITS | u64::from(index)
    }

    fn from_token(token: u64) -> Signal {
        let index = token as u32;
        match token >> INDEX_BITS {
            1 => Signal::Traffic(index),
            2 => Signal::HangUp(index),
            3 => Signal::Knock(index),
            4 => Signal::Dial,
            5 => Signal::Beside(index),
            _ => Signal::Kick,
        }
    }
}

/// The descriptors to sleep on.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    kick: OwnedFd,
}

/// What [`Watch::wait`] found.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    list: Vec<Signal>,
}

impl Signals {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Signal> {
        self.list.iter().copied()
    }
}

impl Watch {
    pub(crate) fn new() -> io::Result<Watch> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let watch = Watch { epoll, kick };
        watch.add(watch.kick.as_fd(), Signal::Kick)?;
        Ok(watch)
    }

    /// Watches `fd` for being readable, until it is closed.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
        let data = EventData::new_u64(signal.token());
        Ok(epoll::add(&self.epoll, fd, data, EventFlags::IN)?)
    }

    /// No longer watches `fd`.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // Fails only when it was not watched, and then it is as wanted.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Sleeps until something happens or `timeout` has passed (`None`: for ever).
    pub(crate) fn wait(&self, signals: &mut Signals, timeout: Option<Duration>) {
        signals.list.clear();
        let timeout = timeout.map(timespec);
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut space, timeout.as_ref()) {
            Ok((events, _)) => {
                let told = events.iter().map(|e| Signal::from_token(e.data.u64()));
                signals.list.extend(told);
            }
            // A signal handler ran: the caller looks around and comes back.
            Err(Errno::INTR) => {}
            Err(error) => debug_assert!(false, "epoll: {error}"),
        }
    }

    /// Wakes whoever is in [`Watch::wait`].
    pub(crate) fn kick(&self) {
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }

    /// Takes the kick back.
    pub(crate) fn unkick(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.kick, &mut count);
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for signal in [
            Signal::Kick,
            Signal::Traffic(0),
            Signal::HangUp(7),
            Signal::Knock(u32::MAX),
            Signal::Dial,
            Signal::Beside(9),
        ] {
            assert_eq!(Signal::from_token(signal.token()), signal);
        }
    }

    #[test]
    fn a_kick_wakes_and_is_taken_back() {
        let watch = Watch::new().unwrap();
        let mut signals = Signals::default();
        watch.wait(&mut signals, Some(Duration::ZERO));
        assert_eq!(signals.iter().count(), 0);
        watch.kick();
        watch.wait(&mut signals, None);
        assert_eq!(signals.iter().collect::<Vec<_>>(), [Signal::Kick]);
        watch.unkick();
        watch.wait(&mut signals, Some(Duration::ZERO));
        assert_eq!(signals.iter().count(), 0);
    }
}
