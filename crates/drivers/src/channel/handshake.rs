//! How two processes come to a channel: each sends one [`Message`] with its memory file and its
//! doorbell attached, checks the other's, and maps it.
//!
//! ```text
//! connector                         listener
//!   makes its memory
//!   connect ------------------------> accept; other users are turned away
//!   hello, memory, doorbell -------> check everything; only now make own memory
//!      check everything <----------- hello, memory, doorbell
//!   channel                           channel
//! ```
//! Nothing here blocks. The listener spends one descriptor on a peer that has not said anything
//! yet, and makes memory only for one whose message was in order.

use super::config::{HugePages, Options};
use super::directory::Name;
use super::driver::{Channel, Parts, PipeDoorbell, Wake};
use super::message::{self, Hello, Message};
use super::sys::{HUGE_PAGE, SharedMemory, peer_credentials};
use gannet_base::{Reason, reasons};
use gannet_link::peer::own_pool;
use gannet_link::{Endpoint, Layout, Memory, PeerDriver};
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

reasons! {
    /// Why a handshake failed. Counted by the listener, told to the connector.
    pub enum Fault {
        /// The other process belongs to another user.
        User => "user",
        /// A message that is no message of ours.
        Magic => "magic",
        /// Another version of the handshake.
        Version => "version",
        /// A message too short or too long.
        Length => "length",
        /// Not exactly two descriptors.
        Descriptors => "descriptors",
        /// A layout out of bounds.
        Layout => "layout",
        /// A name that cannot be one, or this host's own.
        Name => "name",
        /// Memory without seals, of another size, or that cannot be mapped.
        Memory => "memory",
        /// A doorbell that is not a pipe.
        Doorbell => "doorbell",
        /// The other side went away in the middle.
        Closed => "closed",
        /// The other side did not finish in time.
        TimedOut => "timed_out",
        /// No memory or no descriptors left here.
        Resources => "resources",
    }
}

impl Fault {
    /// What went wrong, in words.
    pub fn explain(self) -> &'static str {
        match self {
            Fault::User => "the other process belongs to another user",
            Fault::Magic => "the other side does not speak this protocol",
            Fault::Version => "the other side speaks another version of the handshake",
            Fault::Length => "a handshake message of the wrong length",
            Fault::Descriptors => "not exactly two descriptors with the handshake message",
            Fault::Layout => "a memory layout out of bounds",
            Fault::Name => "a name that cannot be one, or the same name on both sides",
            Fault::Memory => "memory that is not sealed, not of the announced size or not mappable",
            Fault::Doorbell => "a doorbell that is not a pipe",
            Fault::Closed => "the other side went away during the handshake",
            Fault::TimedOut => "the other side did not finish the handshake in time",
            Fault::Resources => "no memory or no descriptors left for another channel",
        }
    }

    /// The kind that std would use.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Fault::User => io::ErrorKind::PermissionDenied,
            Fault::Version => io::ErrorKind::Unsupported,
            Fault::Closed => io::ErrorKind::ConnectionReset,
            Fault::TimedOut => io::ErrorKind::TimedOut,
            Fault::Resources => io::ErrorKind::OutOfMemory,
            _ => io::ErrorKind::InvalidData,
        }
    }

    /// The number it has in a refusal.
    fn code(self) -> u32 {
        self.index() as u32 + 1
    }

    /// The fault behind a refusal's number, if we know it.
    pub(crate) fn from_code(code: u32) -> Option<Fault> {
        Fault::ALL.get((code as usize).checked_sub(1)?).copied()
    }
}

/// What this side brings along.
#[derive(Debug)]
pub(crate) struct Offer {
    memory: Arc<SharedMemory>,
    file: OwnedFd,
    wake: Wake,
    layout: Layout,
}

impl Offer {
    /// Makes memory and a doorbell.
    pub(crate) fn new(options: &Options) -> io::Result<Offer> {
        if !options.layout.is_valid() {
            let why = "a channel layout out of bounds; see Layout::is_valid";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (memory, file, layout) = make_memory(options)?;
        let wake = Wake::new()?;
        Ok(Offer {
            memory: Arc::new(memory),
            file,
            wake,
            layout,
        })
    }

    /// Sends it all to the other side.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>, name: Name) -> Result<(), Errno> {
        let hello = Message::Hello(Hello {
            name,
            layout: self.layout,
            pid: rustix::process::getpid().as_raw_nonzero().get(),
        });
        let fds = [self.file.as_fd(), self.wake.write_end()];
        send_message(socket, &hello, &fds)
    }

    /// Both halves together: the channel.
    pub(crate) fn join(self, socket: OwnedFd, theirs: Verified, own: Party) -> Result<End, Fault> {
        let Verified {
            hello,
            memory,
            bell,
        } = theirs;
        let mine: Arc<dyn Memory> = self.memory;
        let driver = PeerDriver::new((&mine, &self.layout), (&memory, &hello.layout), bell)
            .ok_or(Fault::Layout)?;
        let pool = own_pool(&mine, &self.layout).ok_or(Fault::Memory)?;
        let channel = Channel::new(Parts {
            driver,
            wake: self.wake,
            control: socket,
            own_name: own.name,
            peer_name: hello.name,
            claimed_pid: hello.pid,
            initiator: own.initiator,
        });
        let channel = channel.map_err(|_| Fault::Resources)?;
        Ok(Endpoint::new(pool, channel))
    }
}

/// A finished channel with the pool of the own memory.
pub(crate) type End = Endpoint<Channel>;

/// This side's part in a handshake.
#[derive(Clone, Copy)]
pub(crate) struct Party {
    pub(crate) name: Name,
    pub(crate) initiator: bool,
    pub(crate) huge_pages: HugePages,
}

/// Own memory by the options: reserved huge pages only when they are asked for and there.
fn make_memory(options: &Options) -> io::Result<(SharedMemory, OwnedFd, Layout)> {
    if options.huge_pages == HugePages::Reserve {
        let layout = Layout {
            align: options.layout.align.max(HUGE_PAGE as u32),
            ..options.layout
        };
        if let Ok((memory, file)) = SharedMemory::create(layout.bytes(), true) {
            return Ok((memory, file, layout));
        }
    }
    let (memory, file) = SharedMemory::create(options.layout.bytes(), false)?;
    if options.huge_pages != HugePages::Never {
        memory.wish_for_huge_pages();
    }
    Ok((memory, file, options.layout))
}

/// What the other side sent.
pub(crate) struct Theirs {
    hello: Hello,
    file: OwnedFd,
    bell: OwnedFd,
}

impl Theirs {
    /// Looks at what came with the message, and maps the memory.
    pub(crate) fn verify(self, own: Party) -> Result<Verified, Fault> {
        let Theirs { hello, file, bell } = self;
        if hello.name == own.name {
            return Err(Fault::Name);
        }
        let bell = PipeDoorbell::new(bell).ok_or(Fault::Doorbell)?;
        let memory = SharedMemory::open(file.as_fd(), hello.layout.bytes());
        let memory = memory.map_err(|_| Fault::Memory)?;
        if own.huge_pages != HugePages::Never {
            memory.wish_for_huge_pages();
        }
        Ok(Verified {
            hello,
            memory: Arc::new(memory),
            bell,
        })
    }
}

/// The other side's half, checked and mapped.
pub(crate) struct Verified {
    hello: Hello,
    memory: Arc<dyn Memory>,
    bell: PipeDoorbell,
}

impl Verified {
    /// The name it gave.
    pub(crate) fn name(&self) -> Name {
        self.hello.name
    }
}

/// What [`receive`] found.
pub(crate) enum Arrived {
    /// Nothing yet.
    Nothing,
    /// A message in order.
    Hello(Theirs),
    /// There will be no channel.
    Refusal(u32),
}

/// Whether the process at the other end belongs to this user.
pub(crate) fn check_user(socket: BorrowedFd<'_>) -> Result<(), Fault> {
    let peer = peer_credentials(socket).map_err(|_| Fault::Closed)?;
    if peer.uid == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(Fault::User)
    }
}

/// Takes the other side's message from the socket, if it is there, and checks it. Descriptors that
/// are not wanted are closed.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Arrived, Fault> {
    // One byte and one descriptor more than wanted, to tell "more" from "enough".
    let mut bytes = [0; message::BYTES + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        flags,
    ) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Arrived::Nothing),
        Err(_) => return Err(Fault::Closed),
    };
    let mut fds = Vec::new();
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            fds.extend(rights);
        }
    }
    if got.bytes == 0 && fds.is_empty() {
        return Err(Fault::Closed);
    }
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Err(Fault::Length);
    }
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Fault::Descriptors);
    }
    let hello = match Message::parse(bytes.get(..got.bytes).unwrap_or(&[]))? {
        Message::Refusal(code) => return Ok(Arrived::Refusal(code)),
        Message::Hello(hello) => hello,
    };
    let [file, bell]: [OwnedFd; 2] = fds.try_into().map_err(|_| Fault::Descriptors)?;
    Ok(Arrived::Hello(Theirs { hello, file, bell }))
}

/// Tells the other side why there will be no channel. Best effort: it may be gone.
pub(crate) fn refuse(socket: BorrowedFd<'_>, fault: Fault) {
    let _ = send_message(socket, &Message::Refusal(fault.code()), &[]);
}

fn send_message(
    socket: BorrowedFd<'_>,
    message: &Message,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let bytes = message.to_bytes();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags).map(|_| ())
}

/// A socket of the channel's kind: whole messages, in order, and the end of one is an event.
pub(crate) fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}
