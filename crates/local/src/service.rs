//! What processes ask their carrier, and how it answers: one sequenced-packet connection a
//! question.

use crate::arena::HostId;
use crate::name::{self, Network};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sockopt::{self, Timeout},
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest question and answer, bytes.
pub const LONGEST: usize = 4096;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The own program's arena and settings. Comes with a descriptor.
    Attach,
    /// The arena of another program. Comes with a descriptor.
    Arena(HostId),
    /// The listener in this slot is open: take connections for it from the links.
    Listen(u32),
    /// Processes came or went, or listeners went: look at the tables.
    Look,
    /// Say anew in this slot of the carrier's, what is known of the connection behind it.
    Figures(u32),
    /// All sockets, for people. Comes with a descriptor of a file of text.
    List,
}

impl Question {
    fn pack(self) -> [u8; 12] {
        let (kind, argument) = match self {
            Question::Attach => (1u32, 0),
            Question::Arena(host) => (2, host),
            Question::Listen(slot) => (3, u64::from(slot)),
            Question::Look => (4, 0),
            Question::List => (5, 0),
            Question::Figures(slot) => (6, u64::from(slot)),
        };
        let mut bytes = [0; 12];
        let (head, tail) = bytes.split_at_mut(4);
        head.copy_from_slice(&kind.to_ne_bytes());
        tail.copy_from_slice(&argument.to_ne_bytes());
        bytes
    }

    /// Reads what [`ask`] sent.
    pub fn unpack(bytes: &[u8]) -> Option<Question> {
        let (head, tail) = bytes.split_at_checked(4)?;
        let argument = u64::from_ne_bytes(tail.try_into().ok()?);
        match u32::from_ne_bytes(head.try_into().ok()?) {
            1 => Some(Question::Attach),
            2 => Some(Question::Arena(argument)),
            3 => Some(Question::Listen(argument as u32)),
            4 => Some(Question::Look),
            5 => Some(Question::List),
            6 => Some(Question::Figures(argument as u32)),
            _ => None,
        }
    }
}

/// An answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// 0, or an errno.
    pub errno: i32,
    /// Settings as text; see `gannet-carrier`.
    pub text: String,
    /// A descriptor, if the question was for one.
    pub file: Option<OwnedFd>,
}

/// A listening socket for the carrier of `host`.
///
/// # Errors
/// `ADDRINUSE` when there is one already; what the kernel says.
pub fn listen(network: Network, host: HostId) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::bind(&fd, &name::carrier(network, host)?)?;
    rustix::net::listen(&fd, 1024)?;
    Ok(fd)
}

/// Asks the carrier of `host`, and waits for the answer: at most some seconds.
///
/// # Errors
/// `CONNREFUSED` when there is no carrier, `AGAIN` when it does not answer, what it answers.
pub fn ask(network: Network, host: HostId, question: Question) -> Result<Answer, Errno> {
    let kind = SocketType::SEQPACKET;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    // A carrier that was stopped has a full queue: that is waited for no longer than its answer.
    for direction in [Timeout::Recv, Timeout::Send] {
        sockopt::set_socket_timeout(&fd, direction, Some(PATIENCE))?;
    }
    rustix::net::connect(&fd, &name::carrier(network, host)?)?;
    rustix::net::send(&fd, &question.pack(), SendFlags::NOSIGNAL)?;
    let answer = receive(&fd)?;
    match answer.errno {
        0 => Ok(answer),
        errno @ 1..4096 => Err(Errno::from_raw_os_error(errno)),
        _ => Err(Errno::PROTO),
    }
}

/// Tells the carrier of `host` something, and does not wait for an answer.
///
/// # Errors
/// `CONNREFUSED` when there is no carrier.
pub fn tell(network: Network, host: HostId, question: Question) -> Result<(), Errno> {
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::connect(&fd, &name::carrier(network, host)?)?;
    rustix::net::send(&fd, &question.pack(), SendFlags::NOSIGNAL).map(|_| ())
}

/// The memory of program `host`, from the carrier of `own`.
///
/// # Errors
/// As [`ask`].
pub fn ask_for_arena(network: Network, own: HostId, host: HostId) -> Result<OwnedFd, Errno> {
    ask(network, own, Question::Arena(host))?
        .file
        .ok_or(Errno::PROTO)
}

fn receive(fd: &OwnedFd) -> Result<Answer, Errno> {
    let mut bytes = [0u8; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let start = Instant::now();
    let message = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(fd, into, &mut control, flags) {
            // Each time the clock of the time-out starts anew.
            Err(Errno::INTR) if start.elapsed() < PATIENCE => continue,
            other => break other?,
        }
    };
    let files = control.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().next();
    let bytes = bytes.get(..message.bytes).unwrap_or(&[]);
    let (errno, text) = bytes.split_at_checked(4).ok_or(Errno::CONNRESET)?;
    Ok(Answer {
        errno: errno.try_into().map_or(0, i32::from_ne_bytes),
        text: String::from_utf8_lossy(text).into_owned(),
        file,
    })
}

/// Sends an answer.
///
/// # Errors
/// What `sendmsg` says.
pub fn answer(fd: impl AsFd, answer: &Answer) -> Result<(), Errno> {
    let errno = answer.errno.to_ne_bytes();
    let parts = [IoSlice::new(&errno), IoSlice::new(answer.text.as_bytes())];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = answer.file.iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(fd, &parts, &mut control, flags).map(|_| ())
}

#[cfg(test)]
mod tests;
