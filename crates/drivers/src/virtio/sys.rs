//! Scatter and gather between the kernel and the segment.
#![allow(unsafe_code)]

use super::header::HEADER;
use gannet_link::slot::RANGES_MAX;
use gannet_link::{Memory, Pool, Range, Slot, Space};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// How frames pass through a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A socket: `recvmsg`, `sendmsg`, `sendmmsg`.
    Socket,
    /// A device: `readv`, `writev`.
    Device,
}

/// One frame that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Bytes stored, header included.
    pub(crate) len: usize,
    /// There were more, which are lost.
    pub(crate) truncated: bool,
}

/// One frame to go out: its header, and the slot it is described by.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) header: [u8; HEADER],
    pub(crate) slot: Slot,
}

/// Header, inline bytes and ranges of one frame.
const PIECES: usize = 2 + RANGES_MAX;
/// Frames per `sendmmsg`: enough to make the entry into the kernel negligible.
pub(crate) const BATCH: usize = 16;

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: null_mut(),
    iov_len: 0,
};

/// Receives one frame: its header into `header`, its bytes into `ranges` of `pool` one after the
/// other. Ranges outside the segment are left out. Does not block when the descriptor does not.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    call: Call,
    header: &mut [u8; HEADER],
    pool: &mut Pool,
    ranges: &[Range],
) -> Result<Arrival, Errno> {
    let mut pieces = [NO_PIECE; PIECES];
    pieces[0].iov_base = header.as_mut_ptr().cast();
    pieces[0].iov_len = HEADER;
    for (piece, &range) in pieces.iter_mut().skip(1).zip(ranges) {
        if let Some(bytes) = pool.bytes_mut(range) {
            piece.iov_base = bytes.as_mut_ptr().cast();
            piece.iov_len = bytes.len();
        }
    }
    let count = PIECES.min(1 + ranges.len());
    match call {
        Call::Socket => receive_message(fd, &mut pieces, count),
        Call::Device => {
            // SAFETY: `fd` is open while borrowed. Each of the `count <= PIECES` entries is empty,
            // or the header, or bytes of the segment: all writable, and exclusively borrowed
            // (`header`, `pool`) until this function returns, when the kernel is done with them.
            let n = unsafe { libc::readv(fd.as_raw_fd(), pieces.as_ptr(), count as libc::c_int) };
            Ok(Arrival {
                len: checked(n)?,
                truncated: false,
            })
        }
    }
}

fn receive_message(
    fd: BorrowedFd<'_>,
    pieces: &mut [libc::iovec; PIECES],
    count: usize,
) -> Result<Arrival, Errno> {
    // SAFETY: `msghdr` is plain data; null pointers with zero lengths are what absent parts look
    // like.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = count.min(PIECES) as _;
    // SAFETY: `fd` is open while borrowed; `message` names at most `PIECES` valid entries, whose
    // memory is writable and exclusively borrowed by the caller, `receive`, until the call is over.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    Ok(Arrival {
        len: checked(n)?,
        truncated: message.msg_flags & libc::MSG_TRUNC != 0,
    })
}

/// Sends the frames of `batch` in their order, at most [`BATCH`] of them: how many were sent, or
/// why the first was not. A range outside the segment is sent as no bytes.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    call: Call,
    pool: &Pool,
    batch: &[Outgoing],
) -> Result<usize, Errno> {
    match (call, batch) {
        (_, []) => Ok(0),
        (Call::Socket, [frame]) => send_message(fd, pool, frame),
        (Call::Socket, batch) => send_messages(fd, pool, batch),
        (Call::Device, [frame, ..]) => {
            let pieces = gather(pool, frame);
            let count = used(&pieces) as libc::c_int;
            // SAFETY: `fd` is open while borrowed. Every entry is empty or names bytes borrowed
            // from `frame` or `pool` (see `gather`), which outlive the call; the kernel only reads
            // them.
            let n = unsafe { libc::writev(fd.as_raw_fd(), pieces.as_ptr(), count) };
            checked(n).map(|_| 1)
        }
    }
}

fn send_message(fd: BorrowedFd<'_>, pool: &Pool, frame: &Outgoing) -> Result<usize, Errno> {
    let mut pieces = gather(pool, frame);
    let message = message_of(&mut pieces);
    // SAFETY: `fd` is open while borrowed; `message` names the entries of `pieces`, which are empty
    // or name bytes borrowed from `frame` or `pool` (see `gather`); all outlive the call, and the
    // kernel only reads the bytes.
    let n = unsafe { libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
    checked(n).map(|_| 1)
}

fn send_messages(fd: BorrowedFd<'_>, pool: &Pool, batch: &[Outgoing]) -> Result<usize, Errno> {
    let mut pieces = [[NO_PIECE; PIECES]; BATCH];
    // SAFETY: `mmsghdr` is plain data, for which all zeros is a valid value.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
    let mut count = 0;
    for ((frame, pieces), message) in batch.iter().zip(&mut pieces).zip(&mut messages) {
        *pieces = gather(pool, frame);
        message.msg_hdr = message_of(pieces);
        count += 1;
    }
    let first = messages.as_mut_ptr();
    // SAFETY: `fd` is open while borrowed; the first `count` entries of `messages` were filled
    // above, each naming the entries of one element of `pieces`, which are empty or name bytes
    // borrowed from `batch` or `pool` (see `gather`); all outlive the call, and the kernel only
    // reads the bytes.
    let n = unsafe { libc::sendmmsg(fd.as_raw_fd(), first, count, libc::MSG_DONTWAIT) };
    checked(n as isize)
}

/// A message of `pieces`, which the result points to.
fn message_of(pieces: &mut [libc::iovec; PIECES]) -> libc::msghdr {
    // SAFETY: `msghdr` is plain data; null pointers with zero lengths are what absent parts look
    // like.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = used(pieces) as _;
    message
}

/// How many entries are left without the empty ones at the end, each of which costs the kernel a
/// look.
fn used(pieces: &[libc::iovec; PIECES]) -> usize {
    let last = pieces.iter().rposition(|piece| piece.iov_len > 0);
    last.map_or(0, |last| last + 1)
}

/// Where the bytes of `frame` lie. Valid as long as the borrows of `pool` and `frame`: callers use
/// the result before they return.
fn gather(pool: &Pool, frame: &Outgoing) -> [libc::iovec; PIECES] {
    let mut pieces = [NO_PIECE; PIECES];
    let Outgoing { header, slot } = frame;
    let mut put = |index: usize, bytes: &[u8]| {
        if let Some(piece) = pieces.get_mut(index) {
            // The kernel only reads; `iovec` has one type for both directions.
            piece.iov_base = bytes.as_ptr().cast_mut().cast();
            piece.iov_len = bytes.len();
        }
    };
    put(0, header);
    put(1, slot.inline());
    for index in 0..slot.range_count().min(RANGES_MAX) {
        let (offset, len) = slot.raw_range(index);
        let space = Space::Own;
        let bytes = pool.bytes(Range { offset, len, space });
        put(2 + index, bytes.unwrap_or(&[]));
    }
    pieces
}

fn checked(n: isize) -> Result<usize, Errno> {
    usize::try_from(n).map_err(|_| {
        let error = io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

/// Memory of this process alone that costs nothing before it is touched, in huge pages where the
/// system has them: a super-segment then lies in one page instead of seventeen.
pub(crate) struct PrivateMemory {
    base: NonNull<u8>,
    len: usize,
    claimed: AtomicBool,
}

impl PrivateMemory {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// As `mmap`: no memory, or `len` of 0.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint lets the kernel choose fresh addresses, so no existing mapping is
        // touched.
        let raw = unsafe { mmap_anonymous(null_mut(), len, access, MapFlags::PRIVATE) }?;
        // SAFETY: the range was mapped just now; this advice changes no byte of it.
        let _ = unsafe { madvise(raw, len, Advice::LinuxHugepage) }; // a wish: refusal is no error
        Ok(PrivateMemory {
            base: NonNull::new(raw.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            len,
            claimed: AtomicBool::new(false),
        })
    }
}

impl Drop for PrivateMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length and unmapped only here, when nobody holds the
        // value, and with it the right to look at the bytes, any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: an address range of the whole process, not tied to a thread; access through it is
// governed by the types of `gannet_link`.
unsafe impl Send for PrivateMemory {}
// SAFETY: as above; `&PrivateMemory` gives only the address.
unsafe impl Sync for PrivateMemory {}

// SAFETY: page-aligned and mapped readable and writable by `mmap` in `new`, zeroed by the kernel,
// one allocation, private to this process, unmapped in `drop` only; `claim` is `true` once.
unsafe impl Memory for PrivateMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}
