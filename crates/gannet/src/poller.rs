//! Readiness of many sockets at once, level-triggered: an event comes back for as long as its cause
//! lasts.
//!
//! The stack says which sockets *may* have become ready; those are candidates, and only candidates
//! are looked at, so that a wait costs as much as there are active sockets, however many are idle.

use crate::deadline::deadline;
use crate::host::{Host, Inner};
use crate::shard::{Shard, Socket};
use crate::waiting::{Habit, Patience};
use crate::watch::Signal;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::io;
use std::ops::BitOr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What to be told about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Failures alone.
    pub const NONE: Interest = Interest(0);
    /// There is something to read or to accept, the end of the stream, or an error.
    pub const READABLE: Interest = Interest(1);
    /// There is room to write, a connection that was being opened is open, or an error.
    pub const WRITABLE: Interest = Interest(2);

    fn has(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// As given to [`Poller::add`].
    pub token: u64,
    /// Reading (or accepting) does not block; only set when asked for.
    pub readable: bool,
    /// Writing does not block; only set when asked for.
    pub writable: bool,
    /// The connection or the socket has failed: the next call says why. Set whether asked for or
    /// not.
    pub failed: bool,
}

/// A socket that a [`Poller`] can watch: [`crate::TcpStream`], [`crate::TcpListener`],
/// [`crate::UdpSocket`].
pub trait Source: sealed::Sealed {}

pub(crate) mod sealed {
    /// Keeps [`super::Source`] to this crate's sockets.
    pub trait Sealed {
        /// The socket's host and name in it.
        #[doc(hidden)]
        fn source(&self) -> Origin<'_>;
    }

    /// Where a socket lives.
    #[derive(Debug)]
    pub struct Origin<'a> {
        pub(crate) host: &'a std::sync::Arc<crate::host::Inner>,
        pub(crate) socket: crate::shard::Socket,
    }
}

/// Waits for many sockets of one host.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use gannet::{Host, Interest, Poller, TcpListener, TcpStream};
/// let network = format!("doc-poller-{}", std::process::id());
/// let a = Host::builder().channel(&network, "10.0.0.1/24").build()?;
/// let b = Host::builder().channel(&network, "10.0.0.2/24").build()?;
///
/// let listener = TcpListener::bind(&a, "10.0.0.1:80")?;
/// let poller = Poller::new(&a);
/// poller.add(&listener, 7, Interest::READABLE)?;
///
/// let _client = TcpStream::connect(&b, "10.0.0.1:80")?;
/// let mut events = Vec::new();
/// poller.wait(&mut events, None)?;
/// assert!(events[0].token == 7 && events[0].readable);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Poller {
    host: Arc<Inner>,
    number: usize,
    habit: Habit,
}

impl Poller {
    /// Watches nothing yet.
    pub fn new(host: &Host) -> Poller {
        let host = host.inner().clone();
        let number = host.shared.lock().pollers.open();
        let habit = Habit::default();
        Poller {
            host,
            number,
            habit,
        }
    }

    /// Watches `source`; its events carry `token`.
    ///
    /// # Errors
    /// `InvalidInput` for a socket of another host; `AlreadyExists` when it is watched already.
    pub fn add(&self, source: &impl Source, token: u64, interest: Interest) -> io::Result<()> {
        let socket = self.own(source)?;
        let watched = self.host.shared.call(|shard, _| {
            let new = shard.pollers.watch(self.number, socket, token, interest);
            shard
                .waiting
                .tell(Socket::Poller(self.number), &shard.watch);
            new
        });
        let twice = || crate::error::fail(libc::EEXIST, "watch a socket", "it is watched already");
        watched.then_some(()).ok_or_else(twice)
    }

    /// Changes what is asked of `source`.
    ///
    /// # Errors
    /// `InvalidInput` for a socket of another host; `NotFound` when it is not watched.
    pub fn modify(&self, source: &impl Source, token: u64, interest: Interest) -> io::Result<()> {
        let socket = self.own(source)?;
        self.host.shared.call(|shard, _| {
            let known = shard.pollers.unwatch(self.number, socket);
            if known {
                shard.pollers.watch(self.number, socket, token, interest);
                shard
                    .waiting
                    .tell(Socket::Poller(self.number), &shard.watch);
            }
            known.then_some(()).ok_or_else(unknown)
        })
    }

    /// No longer watches `source`. Closing a socket does that too.
    ///
    /// # Errors
    /// `InvalidInput` for a socket of another host; `NotFound` when it is not watched.
    pub fn delete(&self, source: &impl Source) -> io::Result<()> {
        let socket = self.own(source)?;
        let known = self
            .host
            .shared
            .call(|shard, _| shard.pollers.unwatch(self.number, socket));
        known.then_some(()).ok_or_else(unknown)
    }

    /// Waits until something is ready, a [`Waker`] wakes, or `timeout` has passed (`None`: for
    /// ever, zero: not at all). `events` is emptied first; how many came.
    ///
    /// # Errors
    /// None at present; a signal handler does not end the wait.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        self.wait_as(events, usize::MAX, timeout, &self.habit)
    }

    /// As [`Poller::wait`], for at most `most` events (1 at least). Sockets take turns: those that
    /// were left out come first the next time.
    ///
    /// # Errors
    /// As there.
    pub fn wait_for_some(
        &self,
        events: &mut Vec<Event>,
        most: usize,
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        self.wait_as(events, most, timeout, &self.habit)
    }

    fn wait_as(
        &self,
        events: &mut Vec<Event>,
        most: usize,
        timeout: Option<Duration>,
        habit: &Habit,
    ) -> io::Result<usize> {
        events.clear();
        let socket = Socket::Poller(self.number);
        let patience = match timeout {
            Some(Duration::ZERO) => Patience::None,
            timeout => Patience::Until(deadline(timeout)),
        };
        let how = (patience, habit);
        let found = self.host.shared.wait(socket, how, |shard, _| {
            let woken = shard.collect(self.number, events, most.max(1));
            if woken || !events.is_empty() {
                return Poll::Ready(Ok(()));
            }
            Poll::Pending
        });
        match found {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(events.len()),
        }
    }

    /// As [`Poller::wait`], but sleeps at once rather than looking for a while first: for those who
    /// look around themselves, because they wait for more than sockets.
    ///
    /// # Errors
    /// As there.
    pub fn sleep(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        self.wait_as(events, usize::MAX, timeout, &Habit::never_looks())
    }

    /// From now on [`Poller::wait`] ends, without an event, also when `descriptor` can be read:
    /// until it is closed, or the poller is dropped.
    ///
    /// # Errors
    /// What `epoll_ctl` says.
    pub fn add_descriptor(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        self.host
            .shared
            .watch
            .add(descriptor, Signal::Beside(number))
    }

    /// What ends a [`Poller::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        Waker {
            host: self.host.clone(),
            number: self.number,
        }
    }

    fn own(&self, source: &impl Source) -> io::Result<Socket> {
        let origin = source.source();
        if Arc::ptr_eq(origin.host, &self.host) {
            return Ok(origin.socket);
        }
        let why = "it belongs to another host; make a poller for each host";
        Err(crate::error::fail(libc::EINVAL, "watch a socket", why))
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.host.shared.lock().pollers.close(self.number);
    }
}

/// Ends a [`Poller::wait`], now or the next one, from any thread. Outliving its poller it does
/// nothing.
#[derive(Clone, Debug)]
pub struct Waker {
    host: Arc<Inner>,
    number: usize,
}

impl Waker {
    /// Wakes.
    pub fn wake(&self) {
        self.host
            .shared
            .call(|shard, _| shard.wake_poller(self.number));
    }
}

fn unknown() -> io::Error {
    crate::error::fail(
        libc::ENOENT,
        "find a socket",
        "it is not watched by this poller",
    )
}

/// All pollers of a host; a part of the shard, under its lock.
#[derive(Debug, Default)]
pub(crate) struct Pollers {
    /// By number. Numbers are not used again, so that a stale waker wakes nobody else.
    list: Vec<Option<State>>,
    watched: HashMap<Socket, Vec<usize>>,
}

#[derive(Debug, Default)]
struct State {
    sockets: HashMap<Socket, Watched>,
    /// Sockets that may be ready.
    candidates: VecDeque<Socket>,
    woken: bool,
}

#[derive(Debug)]
struct Watched {
    token: u64,
    interest: Interest,
    /// Is among the candidates.
    candidate: bool,
}

impl State {
    fn nominate(&mut self, socket: Socket) {
        let Some(watched) = self.sockets.get_mut(&socket) else {
            return;
        };
        if !std::mem::replace(&mut watched.candidate, true) {
            self.candidates.push_back(socket);
        }
    }
}

impl Pollers {
    fn open(&mut self) -> usize {
        self.list.push(Some(State::default()));
        self.list.len() - 1
    }

    fn close(&mut self, number: usize) {
        let state = self.list.get_mut(number).and_then(Option::take);
        for socket in state.iter().flat_map(|s| s.sockets.keys()) {
            self.forget_watcher(number, *socket);
        }
    }

    fn state(&mut self, number: usize) -> Option<&mut State> {
        self.list.get_mut(number).and_then(Option::as_mut)
    }

    /// `false` when it is watched already.
    fn watch(&mut self, number: usize, socket: Socket, token: u64, interest: Interest) -> bool {
        let Some(state) = self.state(number) else {
            return false;
        };
        if state.sockets.contains_key(&socket) {
            return false;
        }
        let watched = Watched {
            token,
            interest,
            candidate: false,
        };
        state.sockets.insert(socket, watched);
        state.nominate(socket);
        self.watched.entry(socket).or_default().push(number);
        true
    }

    /// `false` when it was not watched.
    fn unwatch(&mut self, number: usize, socket: Socket) -> bool {
        let Some(state) = self.state(number) else {
            return false;
        };
        let known = state.sockets.remove(&socket).is_some();
        state.candidates.retain(|&s| s != socket);
        self.forget_watcher(number, socket);
        known
    }

    fn forget_watcher(&mut self, number: usize, socket: Socket) {
        if let Some(list) = self.watched.get_mut(&socket) {
            list.retain(|&n| n != number);
            if list.is_empty() {
                self.watched.remove(&socket);
            }
        }
    }

    fn wake(&mut self, number: usize) {
        if let Some(state) = self.state(number) {
            state.woken = true;
        }
    }

    /// `socket` may be ready. Returns who watches it.
    #[inline]
    pub(crate) fn candidate(&mut self, socket: Socket) -> impl Iterator<Item = usize> {
        let Pollers { list, watched } = self;
        let numbers: &[usize] = match watched.is_empty() {
            true => &[],
            false => watched.get(&socket).map_or(&[], Vec::as_slice),
        };
        for &number in numbers {
            if let Some(Some(state)) = list.get_mut(number) {
                state.nominate(socket);
            }
        }
        numbers.iter().copied()
    }

    /// `socket` is closed: nobody watches it any more.
    pub(crate) fn forget(&mut self, socket: Socket) {
        for number in self.watched.get(&socket).cloned().unwrap_or_default() {
            self.unwatch(number, socket);
        }
    }
}

impl Shard {
    /// Ends the wait of a poller, now or the next one.
    pub(crate) fn wake_poller(&mut self, number: usize) {
        self.pollers.wake(number);
        self.waiting.tell(Socket::Poller(number), &self.watch);
    }

    /// Puts the events of a poller's ready sockets into `events`, at most so many. Says whether it
    /// was woken.
    fn collect(&mut self, number: usize, events: &mut Vec<Event>, most: usize) -> bool {
        let Some(mut state) = self.pollers.list.get_mut(number).and_then(Option::take) else {
            return true;
        };
        for _ in 0..state.candidates.len() {
            if events.len() >= most {
                break;
            }
            let Some(socket) = state.candidates.pop_front() else {
                break;
            };
            let Some(watched) = state.sockets.get_mut(&socket) else {
                continue;
            };
            let event = self.readiness(socket, watched);
            // Level-triggered: it stays a candidate while it is ready.
            watched.candidate = event.is_some();
            if let Some(event) = event {
                state.candidates.push_back(socket);
                events.push(event);
            }
        }
        let woken = std::mem::take(&mut state.woken);
        if let Some(place) = self.pollers.list.get_mut(number) {
            *place = Some(state);
        }
        woken
    }

    fn readiness(&self, socket: Socket, watched: &Watched) -> Option<Event> {
        let (readable, writable, failed) = match socket {
            Socket::Listener(id) => (self.stack.tcp_can_accept(id), false, false),
            Socket::Connection(id) => {
                let status = self.stack.tcp_status(id)?;
                (status.readable, status.writable, status.error.is_some())
            }
            Socket::Datagrams(id) => {
                let status = self.stack.udp_status(id)?;
                (status.readable, status.writable, status.error.is_some())
            }
            Socket::Poller(_) | Socket::Leases => return None,
        };
        let readable = (readable || failed) && watched.interest.has(Interest::READABLE);
        let writable = (writable || failed) && watched.interest.has(Interest::WRITABLE);
        (readable || writable || failed).then_some(Event {
            token: watched.token,
            readable,
            writable,
            failed,
        })
    }
}
