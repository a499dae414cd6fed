//! One end of a channel between two processes, as a driver.

use super::directory::Name;
use super::sys::peer_credentials;
use gannet_link::driver::Received;
use gannet_link::peer::PeerStats;
use gannet_link::{
    Capabilities, Doorbell, Driver, Frame, LinkState, PeerDriver, Pool, Range, Slot, View,
};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{CWD, Mode, OFlags, readlinkat_raw};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Wakes the other process: a pipe that it reads.
///
/// Flags of a descriptor belong to its file description, which both sides would share: a peer that
/// clears O_NONBLOCK and fills the pipe would stop this process in its next `write`. So the pipe is
/// opened anew, and the peer's description is closed.
#[derive(Debug)]
pub struct PipeDoorbell(OwnedFd);

impl PipeDoorbell {
    /// `None` when `fd`, which the peer sent, is not a pipe: a write to anything else could block
    /// or do harm.
    pub(crate) fn new(fd: OwnedFd) -> Option<Self> {
        let mut space = [MaybeUninit::uninit(); 64];
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let (kind, _) = readlinkat_raw(CWD, &*link, &mut space).ok()?;
        // No file has such a name: those of file systems begin with a slash.
        if !kind.starts_with(b"pipe:[") {
            return None;
        }
        // With a read end of its own a ring raises no SIGPIPE once the peer has closed its.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(&*link, flags, Mode::empty())
            .ok()
            .map(PipeDoorbell)
    }
}

impl Doorbell for PipeDoorbell {
    fn ring(&self) {
        // Fails when the pipe is full, and then the other side has been woken.
        let _ = rustix::io::write(&self.0, b"w");
    }
}

/// What wakes this side: the pipe's read end, whose description no other process has. The write end
/// stays open, so that a peer that closes its own does not make the read end readable for ever.
#[derive(Debug)]
pub(crate) struct Wake {
    read: OwnedFd,
    write: OwnedFd,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // One page has room for thousands of rings, and users have a limit of pages.
        let _ = fcntl_setpipe_size(&write, DRAINED);
        Ok(Wake { read, write })
    }

    /// What the peer is given to ring with.
    pub(crate) fn write_end(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }
}

/// Bytes in the smallest pipe.
const DRAINED: usize = 4096;

/// What a finished handshake leaves.
pub(crate) struct Parts {
    pub(crate) driver: PeerDriver<PipeDoorbell>,
    pub(crate) wake: Wake,
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
    driver: PeerDriver<PipeDoorbell>,
    wake: Wake,
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
        self.wake.read.as_fd()
    }

    /// Forgets rings so far; after waking up, before looking at the rings.
    pub fn drain_wake(&self) {
        let mut rings = [0; DRAINED];
        let _ = rustix::io::read(&self.wake.read, &mut rings);
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_setfl;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Long enough for anything but a hang.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_peer_that_makes_its_pipe_block_does_not_stop_the_ringer() {
        let wake = Wake::new().unwrap();
        let peers = wake.write_end().try_clone_to_owned().unwrap();
        let bell = PipeDoorbell::new(wake.write_end().try_clone_to_owned().unwrap()).unwrap();
        while rustix::io::write(&peers, &[0; 512]).is_ok() {}
        fcntl_setfl(&peers, OFlags::WRONLY).unwrap();
        let (done, waits) = mpsc::channel();
        std::thread::spawn(move || {
            bell.ring();
            done.send(()).unwrap();
        });
        waits.recv_timeout(LONG).expect("ringing does not block");
        // The sleeper reads a description of its own: what the peer does to its own is no matter.
        let mut bytes = [0; DRAINED];
        while rustix::io::read(&wake.read, &mut bytes).is_ok() {}
        assert_eq!(
            rustix::io::read(&wake.read, &mut bytes),
            Err(rustix::io::Errno::AGAIN)
        );
    }

    #[test]
    fn only_pipes_are_rung() {
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        assert!(PipeDoorbell::new(event).is_none());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(PipeDoorbell::new(file.into()).is_none());
    }

    #[test]
    fn a_peer_that_leaves_does_not_keep_the_sleeper_awake() {
        let wake = Wake::new().unwrap();
        let bell = PipeDoorbell::new(wake.write_end().try_clone_to_owned().unwrap()).unwrap();
        let is_readable = || {
            let mut fds = [PollFd::new(&wake.read, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
        };
        assert!(!is_readable());
        bell.ring();
        assert!(is_readable());
        drop(bell);
        let mut bytes = [0; DRAINED];
        assert_eq!(rustix::io::read(&wake.read, &mut bytes), Ok(1));
        assert!(!is_readable());
    }

    /// A pipe without readers would raise SIGPIPE.
    #[test]
    fn a_peer_without_a_read_end_can_be_rung() {
        let Wake { read, write } = Wake::new().unwrap();
        let bell = PipeDoorbell::new(write).unwrap();
        drop(read);
        assert_eq!(rustix::io::write(&bell.0, b"w"), Ok(1));
    }
}
