//! What only the kernel can tell: one epoll descriptor for everything the carrier waits for besides
//! the sockets of its own stack.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Most events taken at once.
const EVENTS_MAX: usize = 64;

/// Who has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Somebody opens a stream to the carrier.
    Gateway,
    /// A process connects to ask, at this one of two sockets.
    Service(u32),
    /// A question of this number arrives.
    Question(u32),
    /// The question of this number to another carrier is answered.
    Fetched(u32),
    /// The carrier of the other program with this number has ended.
    Stranger(u32),
    /// The connection of this number that was brought to a listener is taken, or is not.
    Introduced(u32),
    /// The process of this entry has ended.
    Process(u32),
    /// The process that the carrier was started by has ended.
    Guardian,
    /// Something became of an interface.
    Link,
    /// A stream: woken, or hung up.
    Flow(u32),
    /// Some streams have news.
    Bell,
}

impl Token {
    fn pack(self) -> u64 {
        let (kind, n) = match self {
            Token::Gateway => (0u64, 0),
            Token::Service(n) => (1, n),
            Token::Question(n) => (2, n),
            Token::Fetched(n) => (3, n),
            Token::Process(n) => (4, n),
            Token::Guardian => (5, 0),
            Token::Link => (6, 0),
            Token::Flow(n) => (7, n),
            Token::Bell => (8, 0),
            Token::Stranger(n) => (9, n),
            Token::Introduced(n) => (10, n),
        };
        kind << 32 | u64::from(n)
    }

    fn unpack(bits: u64) -> Token {
        let n = bits as u32;
        match bits >> 32 {
            0 => Token::Gateway,
            1 => Token::Service(n),
            2 => Token::Question(n),
            3 => Token::Fetched(n),
            4 => Token::Process(n),
            5 => Token::Guardian,
            6 => Token::Link,
            7 => Token::Flow(n),
            9 => Token::Stranger(n),
            10 => Token::Introduced(n),
            _ => Token::Bell,
        }
    }
}

/// Something the kernel told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) token: Token,
    /// The other end is gone.
    pub(crate) hung_up: bool,
}

/// The descriptors.
#[derive(Debug)]
pub(crate) struct Kernel {
    epoll: OwnedFd,
}

impl Kernel {
    pub(crate) fn new() -> Result<Kernel, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Kernel { epoll })
    }

    /// Watches `fd` for being readable or hung up, until it is closed.
    pub(crate) fn add(&self, fd: impl AsFd, token: Token) -> Result<(), Errno> {
        let data = EventData::new_u64(token.pack());
        let flags = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&self.epoll, fd, data, flags)
    }

    /// No longer watches `fd`.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // Fails only when it was not watched, and then it is as wanted.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Adds what there is now to `news`.
    pub(crate) fn look(&self, news: &mut Vec<News>) {
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let now = rustix::event::Timespec::try_from(Duration::ZERO).ok();
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut space, now.as_ref()) else {
            return;
        };
        let gone = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        news.extend(events.iter().map(|event| {
            let flags = event.flags;
            News {
                token: Token::unpack(event.data.u64()),
                hung_up: flags.intersects(gone),
            }
        }));
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for token in [
            Token::Gateway,
            Token::Service(1),
            Token::Question(3),
            Token::Fetched(4),
            Token::Stranger(5),
            Token::Introduced(6),
            Token::Process(511),
            Token::Guardian,
            Token::Link,
            Token::Flow(u32::MAX),
            Token::Bell,
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
