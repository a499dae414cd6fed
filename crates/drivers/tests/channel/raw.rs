//! A side that speaks the handshake by hand, and so need not keep to its rules.

use gannet_drivers::Directory;
use gannet_drivers::channel::directory::Name;
use gannet_drivers::channel::message::{Hello, Message};
use gannet_link::Layout;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, connect, recvmsg, sendmsg, socket,
};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Small, so that making it costs little.
pub(crate) const LAYOUT: Layout = Layout {
    slots: 8,
    completions: 16,
    block_bytes: 2048,
    blocks: 8,
    align: 4096,
};

/// The seals of an honest side.
pub(crate) fn seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE
}

/// A socket connected to the listener `name`.
pub(crate) fn knock(directory: &Directory, name: &str) -> rustix::io::Result<OwnedFd> {
    knock_at(&directory.path().join(format!("{name}.sock")))
}

/// A socket connected to the one at `path`.
pub(crate) fn knock_at(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

pub(crate) fn hello(name: &str, layout: Layout) -> Vec<u8> {
    let hello = Hello {
        name: Name::new(name).unwrap(),
        layout,
        pid: std::process::id() as i32,
    };
    Message::Hello(hello).to_bytes().to_vec()
}

pub(crate) fn memory(bytes: usize, sealed: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(c"raw", flags).unwrap();
    ftruncate(&file, bytes as u64).unwrap();
    fcntl_add_seals(&file, sealed).unwrap();
    file
}

pub(crate) fn bell() -> OwnedFd {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        .unwrap()
        .1
}

/// Sends `bytes` with `fds` attached; at most 253, which is what the kernel takes.
pub(crate) fn say(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    // The other side may have closed already.
    let _ = sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    );
}

/// Takes the other side's answer: its memory and its doorbell.
pub(crate) fn answer(socket: impl AsFd) -> (OwnedFd, OwnedFd) {
    let mut bytes = [0; 200];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let bell = fds.pop().unwrap();
    (fds.pop().unwrap(), bell)
}
