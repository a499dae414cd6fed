//! The system calls and the memory that safe Rust cannot reach: shared memory for the limits,
//! `sendmmsg` and `recvmmsg`, and a network namespace of our own. All `unsafe` of this crate is in
//! this file.
#![allow(unsafe_code)]

use std::ffi::c_uint;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::UnshareFlags;

use crate::peer::Span;

/// Memory that another process maps too.
///
/// Two kinds of place in it, kept apart by the caller: words, only ever touched as atomics, and
/// bytes, copied in and out. A peer that breaks the order of the ring can make a copy see mixed
/// bytes; any bytes are valid `u8`s.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
}

impl SharedMemory {
    /// Maps the first `length` bytes of `file`, which must be sealed against shrinking or be our
    /// own.
    ///
    /// # Errors
    /// Those of `mmap`; `InvalidInput` when the file is shorter.
    pub fn map(file: &File, length: usize) -> io::Result<Self> {
        let on_file = file.metadata()?.len();
        if length == 0 || on_file < length as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: `mmap` with a null hint chooses free addresses, so no existing object is touched.
        // The mapping is shared and at least `length` bytes long on file (checked above), so that
        // accesses do not fault.
        let start = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// The word at byte `at`.
    ///
    /// # Errors
    /// `InvalidInput` when it is not aligned or not inside.
    pub fn word(&self, at: usize) -> io::Result<&AtomicU64> {
        let end = at.checked_add(size_of::<AtomicU64>());
        if !at.is_multiple_of(size_of::<AtomicU64>()) || end.is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY:
        // * inside the mapping: `at + 8 <= length`, checked above;
        // * aligned: the mapping starts at a page and `at` is a multiple of 8;
        // * valid: any bits are a `u64`;
        // * alive: the reference borrows `self`, which unmaps only when dropped;
        // * never aliased by non-atomic accesses of this process: the caller keeps words and bytes
        //   apart, and `copy_in` and `copy_out` make no references.
        Ok(unsafe { self.start.add(at).cast::<AtomicU64>().as_ref() })
    }

    /// Copies `bytes` to byte `at`. Nothing happens when they do not fit.
    #[inline]
    pub fn copy_in(&self, at: usize, bytes: &[u8]) {
        if at
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.length)
        {
            // SAFETY: source: a live slice of this process. Target: inside the mapping (checked),
            // writable, not overlapping a Rust object of this process. The ring's indices keep the
            // peer away until we publish.
            unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at).as_ptr(), bytes.len());
            }
        }
    }

    /// Copies from byte `at` into `bytes`. Nothing happens when there are not so many.
    #[inline]
    pub fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        if at
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.length)
        {
            // SAFETY: as for `copy_in`, with source and target exchanged; `bytes` is exclusively
            // ours.
            unsafe {
                ptr::copy_nonoverlapping(
                    self.start.add(at).as_ptr(),
                    bytes.as_mut_ptr(),
                    bytes.len(),
                );
            }
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and is unmapped once; references
        // into it borrow `self` and are gone. Failure is impossible for a valid range and could not
        // be helped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

const MANY: usize = crate::peer::BATCH;

/// Sends up to [`crate::peer::BATCH`] datagrams of `place` bytes in one system call, over a
/// connected socket.
///
/// # Errors
/// Those of `sendmmsg`, when not even one was sent.
pub fn send_many(socket: &impl AsRawFd, memory: &[u8], place: usize) -> io::Result<usize> {
    // The kernel only reads through these pointers; the type wants `*mut`.
    let places = memory
        .chunks_exact(place)
        .map(|place| (place.as_ptr().cast_mut(), place.len()));
    let mut vectors = Vectors::new(places);
    let (messages, count) = vectors.messages();
    // SAFETY: `messages` points to `count` initialised headers, each with one vector into `memory`,
    // which outlives the call and is only read by it. No name and no control memory is given.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives at least one and up to [`crate::peer::BATCH`] datagrams in one system call; where
/// they lie goes to `spans`.
///
/// # Errors
/// Those of `recvmmsg`, when not even one came.
pub fn receive_many(
    socket: &impl AsRawFd,
    memory: &mut [u8],
    place: usize,
    spans: &mut [Span],
) -> io::Result<usize> {
    let places = memory
        .chunks_exact_mut(place)
        .map(|place| (place.as_mut_ptr(), place.len()));
    let mut vectors = Vectors::new(places);
    let (messages, count) = vectors.messages();
    // SAFETY: as in `send_many`; the vectors point to disjoint parts of `memory`, which is
    // exclusively borrowed for the whole call, so that the kernel may write there. A null time-out
    // waits as long as the socket's own.
    let received = unsafe {
        let flags = libc::MSG_WAITFORONE;
        libc::recvmmsg(socket.as_raw_fd(), messages, count, flags, ptr::null_mut())
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for ((index, span), header) in spans
        .iter_mut()
        .enumerate()
        .zip(&vectors.headers)
        .take(received)
    {
        *span = Span {
            start: index * place,
            length: header.msg_len as usize,
        };
    }
    Ok(received)
}

/// Message headers with one vector each.
struct Vectors {
    vectors: [libc::iovec; MANY],
    headers: [libc::mmsghdr; MANY],
    count: usize,
}

impl Vectors {
    fn new(places: impl Iterator<Item = (*mut u8, usize)>) -> Self {
        // SAFETY: for both C structures (pointers, integers) all zeros is a valid value: null
        // pointers and lengths 0.
        let (vectors, headers) = unsafe {
            (
                MaybeUninit::zeroed().assume_init(),
                MaybeUninit::zeroed().assume_init(),
            )
        };
        let mut made = Self {
            vectors,
            headers,
            count: 0,
        };
        for (vector, (start, length)) in made.vectors.iter_mut().zip(places) {
            *vector = libc::iovec {
                iov_base: start.cast(),
                iov_len: length,
            };
            made.count += 1;
        }
        made
    }

    /// Points each header at its vector. Done here, when `self` stays where it is until the call
    /// returns.
    fn messages(&mut self) -> (*mut libc::mmsghdr, c_uint) {
        for (header, vector) in self
            .headers
            .iter_mut()
            .zip(&mut self.vectors)
            .take(self.count)
        {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        (self.headers.as_mut_ptr(), self.count as c_uint)
    }
}

/// Lets this thread, and those it starts, run before all ordinary programs (`SCHED_RR`, priority
/// 1). The kernel keeps a twentieth of the time for the others.
///
/// # Errors
/// `PermissionDenied` without the privilege.
pub fn run_first() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads one `sched_param`, which `parameters` is, and keeps nothing; 0 is the
    // calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this thread, and the processes it starts, into a new network namespace.
///
/// # Errors
/// Those of `unshare`; `PermissionDenied` without the privilege.
pub fn new_network_namespace() -> io::Result<()> {
    // SAFETY: only `CLONE_FILES` makes this call dangerous (a thread would lose sight of
    // descriptors); it is not given.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// What `ethtool -k` calls the offloads, and the commands that ask for each (linux/ethtool.h).
const OFFLOADS: [(&str, u32); 6] = [
    ("rx-checksumming", 0x14),
    ("tx-checksumming", 0x16),
    ("scatter-gather", 0x18),
    ("tcp-segmentation-offload", 0x1e),
    ("generic-segmentation-offload", 0x23),
    ("generic-receive-offload", 0x2b),
];

/// The offloads of an interface of this namespace, and whether each is on.
///
/// # Errors
/// `InvalidInput` for a name that no interface can have; those of the `SIOCETHTOOL` request.
pub fn offloads(interface: &str) -> io::Result<Vec<(&'static str, bool)>> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    OFFLOADS
        .iter()
        .map(|(name, command)| Ok((*name, ask(&socket, interface, *command)?)))
        .collect()
}

fn ask(socket: &impl AsRawFd, interface: &str, command: u32) -> io::Result<bool> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let mut value = Value { command, data: 0 };
    // SAFETY: all zeros is a valid `ifreq`: an empty name and a union of integers and pointers.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // A byte is left for the end of the name.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (target, source) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *target = source as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request reads an `ifreq` whose name ends within its array (checked) and whose
    // data points to a live `ethtool_value`; its commands above only write the second word of it.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value.data != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::peer::Batch;

    fn memory(length: usize) -> (File, SharedMemory) {
        let file = crate::limits::memory_file(length).unwrap();
        let memory = SharedMemory::map(&file, length).unwrap();
        (file, memory)
    }

    #[test]
    fn two_mappings_share() {
        let (file, first) = memory(8192);
        let second = SharedMemory::map(&file, 8192).unwrap();
        first.copy_in(4096, b"hello");
        let mut bytes = [0; 5];
        second.copy_out(4096, &mut bytes);
        assert_eq!(&bytes, b"hello");
        first.word(8).unwrap().store(7, Ordering::Release);
        assert_eq!(second.word(8).unwrap().load(Ordering::Acquire), 7);
    }

    #[test]
    fn the_loopback_has_offloads() {
        let states = offloads("lo").unwrap();
        assert_eq!(states.len(), OFFLOADS.len());
        // The loopback's checksums cannot be switched off.
        assert!(states.contains(&("tx-checksumming", true)), "{states:?}");
        assert!(offloads("sixteen-letters!").is_err());
        assert!(offloads("nobody").is_err());
    }

    #[test]
    fn nothing_outside() {
        let (file, memory) = memory(4096);
        assert!(memory.word(4096).is_err());
        assert!(memory.word(4).is_err());
        assert!(memory.word(usize::MAX - 7).is_err());
        memory.copy_in(4095, b"ab");
        let mut byte = [9; 2];
        memory.copy_out(4095, &mut byte);
        assert_eq!(byte, [9, 9]);
        assert!(SharedMemory::map(&file, 4097).is_err());
        assert!(SharedMemory::map(&file, 0).is_err());
    }

    #[test]
    fn batches_carry_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver
            .set_read_timeout(Some(std::time::Duration::from_secs(5)))
            .unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let mut out = Batch::new(100);
        for (index, place) in out.places(MANY).enumerate() {
            place.fill(index as u8);
        }
        assert_eq!(send_many(&sender, out.memory(), 100).unwrap(), MANY);
        let mut into = Batch::new(200);
        let mut seen = 0;
        while seen < MANY {
            let (memory, spans) = into.parts();
            let count = receive_many(&receiver, memory, 200, spans).unwrap();
            for datagram in into.datagrams(count) {
                assert_eq!(datagram, [seen as u8; 100]);
                seen += 1;
            }
        }
    }
}
