//! What processes ask their carrier, and how it answers: one sequenced-packet connection a
//! question.
//!
//! A process that reaches the network's directory asks there. Others ask at an abstract name, at
//! which any process may knock: both ends look at the credentials of the other. For them the
//! carrier does what they cannot do themselves, with sockets of theirs: it gives them the names of
//! listeners, and connects them.

#![allow(unsafe_code)]

use crate::arena::HostId;
use crate::credentials;
use crate::name::{self, Stem, Target};
use crate::network::Network;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sockopt::{self, Timeout},
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// How long an answer is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer, bytes.
pub const LONGEST: usize = 4096;
/// Longest question, bytes.
pub const QUESTION_MAX: usize = 128;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The process that asks has this entry: [`crate::Made::pack`]. Which one it is the kernel
    /// says, also of one in another PID namespace.
    Enter(u64),
    /// All sockets, for people. Comes with a descriptor of a file of text.
    List,
    /// Connect the socket that comes with the question.
    Connect(Target),
    /// Give the socket that comes with the question the place of a listener, alone or as one of
    /// those that share it.
    Bind(String, bool),
    /// Keep the hidden descriptor that comes with the question, one of the socket in this slot,
    /// for processes that are given the socket in a message.
    Keep(u32),
    /// The hidden descriptor with this place, the first is 0, of those kept of a slot. Comes with
    /// it, or `NOENT`.
    Kept(u32, u32),
    /// The socket that comes with the question was accepted at the listener of this name, from the
    /// program of this number, whose memory is not known: bring both to the listener. Is not
    /// answered.
    Introduce(HostId, String),
}

impl Question {
    fn pack(&self) -> Vec<u8> {
        let (kind, argument, text) = match self {
            Question::Attach => (1u32, 0, String::new()),
            Question::Arena(host) => (2, *host, String::new()),
            Question::Listen(slot) => (3, u64::from(*slot), String::new()),
            Question::Look => (4, 0, String::new()),
            Question::List => (5, 0, String::new()),
            Question::Figures(slot) => (6, u64::from(*slot), String::new()),
            Question::Enter(made) => (7, *made, String::new()),
            Question::Keep(slot) => (20, u64::from(*slot), String::new()),
            Question::Kept(slot, place) => (
                21,
                u64::from(*place) << 32 | u64::from(*slot),
                String::new(),
            ),
            Question::Connect(Target::Gateway(host)) => (10, *host, String::new()),
            Question::Connect(Target::Listener { to, host, turn }) => {
                (8, *host, format!("{turn} {to}"))
            }
            Question::Bind(stem, share) => (9, u64::from(*share), stem.clone()),
            Question::Introduce(host, name) => (22, *host, name.clone()),
        };
        let head = [&kind.to_ne_bytes()[..], &argument.to_ne_bytes()].concat();
        [head, text.into_bytes()].concat()
    }

    /// Reads what [`ask`] sent.
    pub fn unpack(bytes: &[u8]) -> Option<Question> {
        let (kind, rest) = bytes.split_at_checked(4)?;
        let (argument, text) = rest.split_at_checked(8)?;
        let argument = u64::from_ne_bytes(argument.try_into().ok()?);
        let text = std::str::from_utf8(text).ok()?;
        let kind = u32::from_ne_bytes(kind.try_into().ok()?);
        let question = match kind {
            1 => Question::Attach,
            2 => Question::Arena(argument),
            3 => Question::Listen(argument as u32),
            4 => Question::Look,
            5 => Question::List,
            6 => Question::Figures(argument as u32),
            7 => Question::Enter(argument),
            10 => Question::Connect(Target::Gateway(argument)),
            8 => Question::Connect(listener(text, argument)?),
            9 => Question::Bind(text.to_owned(), argument != 0),
            20 => Question::Keep(argument as u32),
            21 => Question::Kept(argument as u32, (argument >> 32) as u32),
            22 if name::is_listener_name(text) => Question::Introduce(argument, text.to_owned()),
            _ => return None,
        };
        (text.is_empty() || matches!(kind, 8 | 9 | 22)).then_some(question)
    }
}

fn listener(text: &str, host: HostId) -> Option<Target> {
    let (turn, to) = text.split_once(' ')?;
    let (turn, to) = (turn.parse().ok()?, to.parse().ok()?);
    Some(Target::Listener { to, host, turn })
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

/// Listening sockets for the carrier of `host`: for processes that reach the network's directory,
/// and for all others.
///
/// # Errors
/// `ADDRINUSE` when there is one already; what the kernel says.
pub fn listen(network: &Network, host: HostId) -> Result<[OwnedFd; 2], Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = || rustix::net::socket_with(AddressFamily::UNIX, SEQPACKET, flags, None);
    let (near, far) = (socket()?, socket()?);
    network.bind(&near, &name::carrier(network, host)?)?;
    rustix::net::bind(&far, &name::carrier_for_all(host)?)?;
    for fd in [&near, &far] {
        rustix::net::listen(fd, 1024)?;
    }
    Ok([near, far])
}

const SEQPACKET: SocketType = SocketType::SEQPACKET;

/// Asks the carrier of `host`, and waits for the answer: at most some seconds.
///
/// # Errors
/// `CONNREFUSED` when there is no carrier, `AGAIN` when it does not answer, what it answers.
pub fn ask(network: &Network, host: HostId, question: &Question) -> Result<Answer, Errno> {
    ask_with(network, host, question, None)
}

/// The carrier of `host` keeps `hidden`, a descriptor of the socket in `slot`.
///
/// # Errors
/// As [`ask`].
pub fn keep(network: &Network, host: HostId, slot: u32, hidden: impl AsFd) -> Result<(), Errno> {
    ask_with(network, host, &Question::Keep(slot), Some(hidden.as_fd())).map(drop)
}

fn ask_with(
    network: &Network,
    host: HostId,
    question: &Question,
    file: Option<BorrowedFd<'_>>,
) -> Result<Answer, Errno> {
    let fd = reach(network, host, Some(PATIENCE))?;
    send(&fd, question, file)?;
    checked(receive(&fd)?)
}

fn checked(answer: Answer) -> Result<Answer, Errno> {
    match answer.errno {
        0 => Ok(answer),
        errno @ 1..4096 => Err(Errno::from_raw_os_error(errno)),
        _ => Err(Errno::PROTO),
    }
}

/// Asks the carrier of `host`, and does not wait: the answer can be read from the result when that
/// is readable, by [`answer_from`].
///
/// # Errors
/// `CONNREFUSED` when there is no carrier; `AGAIN` when it has more questions than it takes.
pub fn begin(network: &Network, host: HostId, question: &Question) -> Result<OwnedFd, Errno> {
    let fd = reach(network, host, None)?;
    send(&fd, question, None)?;
    Ok(fd)
}

/// The answer to a question that [`begin`] asked.
///
/// # Errors
/// `AGAIN` when it has not come yet; what the carrier answers.
pub fn answer_from(question: &OwnedFd) -> Result<Answer, Errno> {
    checked(receive(question)?)
}

/// The own carrier brings `stream`, accepted at the listener `name`, to that listener once more,
/// with the memory of the program `from`. A carrier that has more questions than it takes is waited
/// for a little: a crowd that connects at once is accepted faster than it is handed over.
///
/// # Errors
/// As [`begin`].
pub fn introduce(
    (network, own): (&Network, HostId),
    from: HostId,
    name: &str,
    stream: impl AsFd,
) -> Result<(), Errno> {
    let question = Question::Introduce(from, name.to_owned());
    let fd = reach(network, own, Some(PATIENCE))?;
    send(&fd, &question, Some(stream.as_fd()))
}

/// A connection to the carrier of `host`: one that waits for so long at each step, or not at all.
fn reach(network: &Network, host: HostId, patience: Option<Duration>) -> Result<OwnedFd, Errno> {
    let flags = match patience {
        Some(_) => SocketFlags::CLOEXEC,
        None => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    };
    let connect = |name: &SocketAddrUnix| {
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SEQPACKET, flags, None)?;
        // A carrier that was stopped has a full queue: that is waited for no longer than its
        // answer.
        for direction in [Timeout::Recv, Timeout::Send] {
            sockopt::set_socket_timeout(&fd, direction, patience)?;
        }
        rustix::net::connect(&fd, name)?;
        Ok::<_, Errno>(fd)
    };
    let fd = match connect(&name::carrier(network, host)?) {
        Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED) => {
            connect(&name::carrier_for_all(host)?)?
        }
        other => other?,
    };
    match network.is_carrier(&fd) {
        true => Ok(fd),
        // Another process has its name.
        false => Err(Errno::CONNREFUSED),
    }
}

fn send(fd: &OwnedFd, question: &Question, file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let bytes = question.pack();
    let files: Vec<_> = file.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let parts = [IoSlice::new(&bytes)];
    rustix::net::sendmsg(fd, &parts, &mut control, SendFlags::NOSIGNAL).map(|_| ())
}

/// Tells the carrier of `host` something, and does not wait for an answer.
///
/// # Errors
/// `CONNREFUSED` when there is no carrier.
pub fn tell(network: &Network, host: HostId, question: &Question) -> Result<(), Errno> {
    begin(network, host, question).map(drop)
}

/// The memory of program `host`, from the carrier of `own`, if that answers in time.
///
/// # Errors
/// `AGAIN` when it does not; else as [`ask`].
pub fn ask_for_arena(
    network: &Network,
    own: HostId,
    host: HostId,
    patience: Duration,
) -> Result<OwnedFd, Errno> {
    let begun = Instant::now();
    let question = begin(network, own, &Question::Arena(host));
    let answer = match &question {
        Ok(fd) => wait_until_readable(Some(fd), begun, patience).and_then(|()| answer_from(fd)),
        // A full queue empties, or does not: the caller tries again no sooner than otherwise.
        Err(Errno::AGAIN) => wait_until_readable(None, begun, patience).map(|()| Answer::default()),
        Err(error) => Err(*error),
    };
    answer?.file.ok_or(Errno::PROTO)
}

/// Waits until `fd` can be read.
///
/// # Errors
/// `AGAIN` when that is not so in time.
fn wait_until_readable(
    fd: Option<&OwnedFd>,
    begun: Instant,
    patience: Duration,
) -> Result<(), Errno> {
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        let watched = fd.map(|fd| PollFd::new(fd, PollFlags::IN));
        match rustix::event::poll(&mut watched.into_iter().collect::<Vec<_>>(), Some(&left)) {
            Ok(0) => return Err(Errno::AGAIN),
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}

/// The process at the other end of a connection, as it was when it connected: a descriptor that can
/// be read once it has ended, whatever PID namespace it is in.
///
/// # Errors
/// `SRCH` when it has ended; what the kernel says.
pub fn peer_process(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    /// Linux 6.5.
    const SO_PEERPIDFD: i32 = 77;
    let (mut pidfd, mut len) = (-1i32, size_of::<i32>() as libc::socklen_t);
    let place = (&raw mut pidfd).cast();
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: a place of this function, as long as said.
    let got = unsafe { libc::getsockopt(raw, libc::SOL_SOCKET, SO_PEERPIDFD, place, &raw mut len) };
    if got == 0 && pidfd >= 0 {
        // SAFETY: just made by the kernel, and no other has it.
        return Ok(unsafe { OwnedFd::from_raw_fd(pidfd) });
    }
    // Before, only the number tells, which the kernel translates to this namespace.
    let pid = credentials::of_peer(fd)?.pid;
    let pid = rustix::process::Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
}

/// The carrier of `own` connects `fd` for this process, which cannot.
///
/// # Errors
/// As [`ask`]; what `connect` says.
pub fn connect(network: &Network, own: HostId, fd: impl AsFd, target: Target) -> Result<(), Errno> {
    ask_with(network, own, &Question::Connect(target), Some(fd.as_fd())).map(drop)
}

/// The carrier of `own` gives listener `fd` its place for this process, which cannot.
///
/// # Errors
/// As [`ask`]; what `bind` says.
pub(crate) fn bind(
    network: &Network,
    own: HostId,
    fd: impl AsFd,
    stem: &str,
    share: bool,
) -> Result<(), Errno> {
    let question = Question::Bind(stem.to_owned(), share);
    ask_with(network, own, &question, Some(fd.as_fd())).map(drop)
}

/// What the carrier does for a process that cannot: [`Question::Connect`], [`Question::Bind`].
///
/// # Errors
/// An errno of `connect` or `bind`; `INVAL` for nonsense.
pub fn act_for(network: &Network, question: &Question, fd: impl AsFd) -> Result<(), Errno> {
    let is_stream = sockopt::socket_domain(&fd) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&fd) == Ok(SocketType::STREAM);
    // A socket that blocks could keep the carrier waiting for a listener's full queue.
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    if !is_stream {
        return Err(Errno::INVAL);
    }
    match question {
        Question::Connect(target) => {
            rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
            let reached = crate::meet::reach(&fd, target.names(*network));
            rustix::fs::fcntl_setfl(&fd, flags)?;
            reached
        }
        Question::Bind(stem, share) => {
            let stem = Stem::of(&format!("{stem}-0")).ok_or(Errno::INVAL)?;
            network.take(&fd, &stem, *share)
        }
        _ => Err(Errno::INVAL),
    }
}

/// Takes a question off a connection, with the descriptor that came with it. `None` when it is
/// none.
///
/// # Errors
/// `AGAIN` when nothing has come yet; what `recvmsg` says.
pub fn take(fd: impl AsFd) -> Result<Option<(Question, Option<OwnedFd>)>, Errno> {
    let mut bytes = [0u8; QUESTION_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let message = rustix::net::recvmsg(fd, into, &mut control, flags)?;
    let file = file_of(&mut control);
    let question = bytes.get(..message.bytes).and_then(Question::unpack);
    Ok(question.map(|question| (question, file)))
}

/// The first descriptor that came with a message; others are closed.
pub(crate) fn file_of(control: &mut RecvAncillaryBuffer<'_>) -> Option<OwnedFd> {
    let files = control.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let mut files = files.flatten();
    let first = files.next();
    files.for_each(drop);
    first
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
    let file = file_of(&mut control);
    if file.is_none() && message.flags.contains(ReturnFlags::CTRUNC) {
        // There was no number for it: the caller may make room.
        return Err(Errno::MFILE);
    }
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
