//! One end of a channel between two processes, as a driver.

use super::directory::Name;
use super::sys::peer_credentials;
use gannet_link::driver::Received;
use gannet_link::peer::PeerStats;
use gannet_link::{
    Capabilities, Doorbell, Driver, Frame, LinkState, PeerDriver, Pool, Range, Slot, View,
};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{OFlags, fcntl_setfl, readlinkat_raw};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Wakes the other process: its event descriptor.
#[derive(Debug)]
pub struct EventDoorbell(OwnedFd);

impl EventDoorbell {
    /// `None` when `fd`, which somebody sent, is not an event descriptor: a write to anything else
    /// could block or do harm.
    pub(crate) fn new(fd: OwnedFd) -> Option<Self> {
        let mut space = [MaybeUninit::uninit(); 32];
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let (kind, _) = readlinkat_raw(rustix::fs::CWD, link, &mut space).ok()?;
        fcntl_setfl(&fd, OFlags::NONBLOCK | OFlags::RDWR).ok()?;
        (*kind == *b"anon_inode:[eventfd]").then_some(EventDoorbell(fd))
    }
}

impl Doorbell for EventDoorbell {
    fn ring(&self) {
        // Fails only when the counter is at its end, and then the other side is awake for sure.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// What a finished handshake leaves.
pub(crate) struct Parts {
    pub(crate) driver: PeerDriver<EventDoorbell>,
    pub(crate) wake: OwnedFd,
    pub(crate) control: OwnedFd,
    pub(crate) own_name: Name,
    pub(crate) peer_name: Name,
    pub(crate) claimed_pid: i32,
    pub(crate) initiator: bool,
}

/// One end of a channel: a [`PeerDriver`] over memory shared with another process, with what wakes
/// this side and what tells that the other is dead.
///
/// When the peer is gone ([`LinkState::Gone`]), frames it sent before can still be received and
/// read; nothing can be sent, and blocks that were on their way to it stay in flight until the
/// caller says [`Pool::complete_all`].
pub struct Channel {
    driver: PeerDriver<EventDoorbell>,
    wake: OwnedFd,
    /// Readable when the other process has closed its end or died.
    death: OwnedFd,
    /// Kept open for as long as the channel lives: its end is the death notice.
    _control: OwnedFd,
    _process: Option<OwnedFd>,
    gone: bool,
    own_name: Name,
    peer_name: Name,
    peer_pid: Option<u32>,
    initiator: bool,
}

impl Channel {
    pub(crate) fn new(parts: Parts) -> io::Result<Channel> {
        let Parts {
            driver,
            wake,
            control,
            own_name,
            peer_name,
            claimed_pid,
            initiator,
        } = parts;
        let death = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        // Hang-up only: what a peer may still write into the socket wakes nobody.
        epoll::add(&death, &control, data, epoll::EventFlags::RDHUP)?;
        let peer_pid = verified_pid(control.as_fd(), claimed_pid);
        let process = peer_pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if let Some(process) = &process {
            epoll::add(&death, process, data, epoll::EventFlags::IN)?;
        }
        Ok(Channel {
            driver,
            wake,
            death,
            _control: control,
            _process: process,
            gone: false,
            own_name,
            peer_name,
            peer_pid: peer_pid.map(|pid| pid.as_raw_nonzero().get() as u32),
            initiator,
        })
    }

    /// The name under which the other process answers.
    pub fn peer_name(&self) -> &str {
        self.peer_name.as_str()
    }

    /// The name this end gave.
    pub fn own_name(&self) -> &str {
        self.own_name.as_str()
    }

    /// The other process's number, when it is visible from here and is the one that made the
    /// socket (not a child of it).
    pub fn peer_pid(&self) -> Option<u32> {
        self.peer_pid
    }

    /// Whether this side connected (rather than listened).
    pub fn is_initiator(&self) -> bool {
        self.initiator
    }

    /// Whether this channel, made later, takes the place of `older` to the same peer. Both sides
    /// come to the same answer, whatever order they saw the two in: of two that were made from
    /// opposite sides the one that the lower name made stays, else the later one (the peer has
    /// started anew).
    ///
    /// Dropping the other one loses at most what was on its way in it, as any IP link may.
    pub fn supersedes(&self, older: &Channel) -> bool {
        if self.initiator == older.initiator {
            return true;
        }
        let low_is_us = self.own_name < self.peer_name;
        low_is_us == self.initiator
    }

    /// Readable when the other side has rung: poll it after [`Driver::arm`] said `true`.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Forgets rings so far; after waking up, before looking at the rings.
    pub fn drain_wake(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
    }

    /// Readable when the other process has closed the channel or died, by SIGKILL too, even if a
    /// child of it lives on. Poll it beside [`Channel::wake_fd`].
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.death.as_fd()
    }

    /// Asks the kernel whether the other process lives (one system call, about 0.3 us): for loops
    /// that spin and never sleep, every few milliseconds; and after [`Channel::control_fd`] became
    /// readable. [`Driver::state`] remembers.
    pub fn check_peer(&mut self) -> LinkState {
        if !self.gone {
            let mut fds = [PollFd::new(&self.death, PollFlags::IN)];
            let now = Timespec::default();
            self.gone = poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0);
        }
        self.state()
    }

    /// Wake-ups sent and saved, completions lost.
    pub fn stats(&self) -> PeerStats {
        self.driver.stats()
    }

    /// Lowers the MTU in bytes: see [`PeerDriver::set_mtu`].
    pub fn set_mtu(&mut self, mtu: u32) {
        self.driver.set_mtu(mtu);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.driver.close();
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({:?} to {:?})", self.own_name, self.peer_name)
    }
}

/// The kernel names the process that made the socket; the peer names itself. If it is one and the
/// same its death ends the channel, also when a child of it holds the socket open.
fn verified_pid(control: BorrowedFd<'_>, claimed: i32) -> Option<Pid> {
    let seen = peer_credentials(control).ok()?.pid;
    Pid::from_raw(seen).filter(|_| seen == claimed && seen > 0)
}

impl Driver for Channel {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        self.driver.capabilities()
    }

    #[inline]
    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool {
        !self.gone && self.driver.transmit(pool, slot)
    }

    fn room(&mut self) -> usize {
        if self.gone { 0 } else { self.driver.room() }
    }

    #[inline]
    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        self.driver.receive(pool, frame)
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut Pool) -> usize {
        self.driver.reclaim(pool)
    }

    #[inline]
    fn flush(&mut self, pool: &mut Pool) {
        self.driver.flush(pool);
    }

    #[inline]
    fn release(&mut self, range: Range) {
        self.driver.release(range);
    }

    #[inline]
    fn read(&self, range: Range, out: &mut [u8]) -> usize {
        self.driver.read(range, out)
    }

    fn view(&self, range: Range) -> Option<View> {
        self.driver.view(range)
    }

    fn arm(&mut self) -> bool {
        !self.gone && self.driver.arm()
    }

    fn disarm(&mut self) {
        self.driver.disarm();
    }

    #[inline]
    fn state(&self) -> LinkState {
        if self.gone {
            LinkState::Gone
        } else {
            self.driver.state()
        }
    }
}
