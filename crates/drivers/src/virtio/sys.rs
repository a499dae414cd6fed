//! Scatter and gather between the kernel and the segment.
#![allow(unsafe_code)]

use super::header::HEADER;
use super::stock::ARMED_MAX;
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
pub(crate) struct Inbound {
    /// Its offload header.
    pub(crate) header: [u8; HEADER],
    /// Bytes stored, header included.
    pub(crate) len: usize,
    /// There were more, which are lost.
    pub(crate) truncated: bool,
}

impl Inbound {
    pub(crate) const NONE: Inbound = Inbound {
        header: [0; HEADER],
        len: 0,
        truncated: false,
    };
}

/// Where one frame goes: ranges of the segment, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) ranges: [Range; ARMED_MAX],
    pub(crate) count: usize,
}

impl Target {
    /// A single range.
    pub(crate) const fn of(range: Range) -> Self {
        let mut ranges = [Range::EMPTY; ARMED_MAX];
        ranges[0] = range;
        Target { ranges, count: 1 }
    }

    /// Bytes in all ranges.
    pub(crate) fn bytes(&self) -> usize {
        let ranges = self.ranges.iter().take(self.count);
        ranges.map(|range| range.len as usize).sum()
    }
}

/// One frame to go out: its header, and the slot it is described by.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) header: [u8; HEADER],
    pub(crate) slot: Slot,
}

/// Header, inline bytes and ranges of one frame.
const PIECES: usize = 2 + RANGES_MAX;
/// Frames per `sendmmsg` and `recvmmsg`: enough to make the entry into the kernel negligible.
pub(crate) const BATCH: usize = 16;

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: null_mut(),
    iov_len: 0,
};

/// Header and ranges of a frame that comes in.
const IN_PIECES: usize = 1 + ARMED_MAX;

/// Receives frames, the first into the ranges of the first of `targets` and so on: how many. A
/// device gives one at most. Does not block when the descriptor does not.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    call: Call,
    pool: &mut Pool,
    targets: &[Target],
    inbound: &mut [Inbound; BATCH],
) -> Result<usize, Errno> {
    match (call, targets) {
        (_, []) => Ok(0),
        (Call::Device, [target, ..]) => read_one(fd, pool, target, inbound),
        // Two sizes, since filling sixteen entries costs as much as a small frame.
        (Call::Socket, [_] | [_, _]) => receive_many::<2>(fd, pool, targets, inbound),
        (Call::Socket, _) => receive_many::<BATCH>(fd, pool, targets, inbound),
    }
}

fn read_one(
    fd: BorrowedFd<'_>,
    pool: &mut Pool,
    target: &Target,
    inbound: &mut [Inbound; BATCH],
) -> Result<usize, Errno> {
    let first = &mut inbound[0];
    let mut pieces = [NO_PIECE; IN_PIECES];
    let count = scatter(pool, target, first, &mut pieces);
    // SAFETY: `fd` is open while borrowed. Each of the `count` entries is empty, or the header, or
    // bytes of the segment: all writable, and exclusively borrowed (`inbound`, `pool`) until this
    // function returns, when the kernel is done with them.
    let n = unsafe { libc::readv(fd.as_raw_fd(), pieces.as_ptr(), count as libc::c_int) };
    first.len = checked(n)?;
    first.truncated = false;
    Ok(1)
}

fn receive_many<const N: usize>(
    fd: BorrowedFd<'_>,
    pool: &mut Pool,
    targets: &[Target],
    inbound: &mut [Inbound; BATCH],
) -> Result<usize, Errno> {
    let mut pieces = [[NO_PIECE; IN_PIECES]; N];
    // SAFETY: `mmsghdr` is plain data, for which all zeros is a valid value: null pointers with
    // zero lengths are what absent parts look like.
    let mut messages: [libc::mmsghdr; N] = unsafe { zeroed() };
    let mut count = 0;
    let lanes = targets.iter().zip(inbound.iter_mut());
    for ((target, inbound), (pieces, message)) in lanes.zip(pieces.iter_mut().zip(&mut messages)) {
        message.msg_hdr.msg_iovlen = scatter(pool, target, inbound, pieces) as _;
        message.msg_hdr.msg_iov = pieces.as_mut_ptr();
        count += 1;
    }
    let (first, wait) = (messages.as_mut_ptr(), libc::MSG_DONTWAIT);
    // SAFETY: `fd` is open while borrowed. The first `count <= N` entries of `messages` were filled
    // above; each names entries of one element of `pieces`, which are empty, or the header, or
    // bytes of the segment: all writable, and exclusively borrowed (`inbound`, `pool`) until this
    // function returns, when the kernel is done with them. No time-out is passed.
    let n = unsafe { libc::recvmmsg(fd.as_raw_fd(), first, count, wait as _, null_mut()) };
    let n = checked(n as isize)?;
    for (inbound, message) in inbound.iter_mut().zip(messages.iter().take(n)) {
        inbound.len = message.msg_len as usize;
        inbound.truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
    }
    Ok(n)
}

/// Names header and ranges of a frame to come; how many entries. A range outside the segment leaves
/// an empty entry. Valid as long as the caller's exclusive borrows of `pool` and `inbound`.
fn scatter(
    pool: &mut Pool,
    target: &Target,
    inbound: &mut Inbound,
    pieces: &mut [libc::iovec; IN_PIECES],
) -> usize {
    pieces[0].iov_base = inbound.header.as_mut_ptr().cast();
    pieces[0].iov_len = HEADER;
    let count = target.count.min(ARMED_MAX);
    for (piece, &range) in pieces
        .iter_mut()
        .skip(1)
        .zip(target.ranges.iter().take(count))
    {
        if let Some(bytes) = pool.bytes_mut(range) {
            piece.iov_base = bytes.as_mut_ptr().cast();
            piece.iov_len = bytes.len();
        }
    }
    1 + count
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
