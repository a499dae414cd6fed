//! Options and addresses of packet sockets.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// An option of level `SOL_PACKET` that is one integer.
#[derive(Clone, Copy)]
pub(super) enum IntegerOption {
    /// A virtio-net header in front of every frame.
    VnetHeader,
    /// Frames that this machine sends do not come in.
    IgnoreOutgoing,
    /// Frames go straight to the driver of the interface.
    QdiscBypass,
}

/// Sets `option` to 1.
pub(super) fn enable(fd: BorrowedFd<'_>, option: IntegerOption) -> io::Result<()> {
    let number = match option {
        IntegerOption::VnetHeader => libc::PACKET_VNET_HDR,
        IntegerOption::IgnoreOutgoing => PACKET_IGNORE_OUTGOING,
        IntegerOption::QdiscBypass => libc::PACKET_QDISC_BYPASS,
    };
    let one: libc::c_int = 1;
    set(fd, libc::SOL_PACKET, number, &one)
}

/// Sets the send buffer beyond `net.core.wmem_max`, which takes CAP_NET_ADMIN.
pub(super) fn force_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(i32::MAX as usize / 2) as libc::c_int;
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
}

/// `<linux/if_packet.h>`, since Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

fn set<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    number: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let from: *const T = value;
    // SAFETY: `fd` is open while borrowed; the kernel reads `len` bytes, which `value` has, and,
    // for the filter, the program it points to, which its caller holds.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, number, from.cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Binds to interface `index`, for frames of every protocol.
pub(super) fn bind(fd: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain data, for which all zeros is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let from: *const libc::sockaddr_ll = &address;
    // SAFETY: `fd` is open while borrowed; the kernel reads `len` bytes, which `address` has.
    match unsafe { libc::bind(fd.as_raw_fd(), from.cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets in only frames of VLAN `id`, or for 0 those without a tag, or with one that names no VLAN.
/// The kernel takes tags off before frames come here, so that they all look alike.
pub(super) fn accept_vlan(fd: BorrowedFd<'_>, id: u16) -> io::Result<()> {
    let filter = filter(id);
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        // The kernel only reads; the type has one form for both directions.
        filter: filter.as_ptr().cast_mut(),
    };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Accepts the whole frame or none of it: without a tag if `id` is 0, and with a tag of that `id`.
fn filter(id: u16) -> [libc::sock_filter; 7] {
    const PRESENT: u32 = 0xffff_f000 + 48; // SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT
    const TAG: u32 = 0xffff_f000 + 44; // SKF_AD_OFF + SKF_AD_VLAN_TAG
    let untagged = if id == 0 { 3 } else { 4 };
    [
        instruction(0x30, 0, 0, PRESENT),       // ldb: a tag was taken off
        instruction(0x15, untagged, 0, 0),      // jeq #0, accept or refuse, next
        instruction(0x28, 0, 0, TAG),           // ldh
        instruction(0x54, 0, 0, 0xfff),         // and #0xfff
        instruction(0x15, 0, 1, u32::from(id)), // jeq #id, accept, refuse
        instruction(0x06, 0, 0, u32::MAX),      // accept: ret #-1
        instruction(0x06, 0, 0, 0),             // refuse: ret #0
    ]
}

/// Frames dropped by the kernel since the last call because the receive buffer was full.
pub(super) fn take_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut stats = [0_u32; 2]; // tp_packets, tp_drops
    let mut len = size_of::<[u32; 2]>() as libc::socklen_t;
    // SAFETY: `fd` is open while borrowed; the kernel writes at most `len` bytes to `stats`, which
    // has as many, and the length to `len`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            stats.as_mut_ptr().cast(),
            &mut len,
        )
    };
    match result {
        0 => Ok(stats[1]),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The memory of a receive ring, which the kernel writes too. It says of each frame whose it is.
#[derive(Debug)]
pub(super) struct RingMemory {
    first: NonNull<u8>,
    frame_bytes: usize,
    frames: usize,
}

// SAFETY: an address range of the whole process, not tied to a thread.
unsafe impl Send for RingMemory {}
// SAFETY: as above; it is read through atomics, and bytes are read only while they are ours.
unsafe impl Sync for RingMemory {}

/// A frame of a receive ring that is ours: nobody else writes it until it is given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingFrame<'a> {
    /// Bits of `TP_STATUS_*`.
    pub(super) status: u32,
    /// Bytes of the frame on the wire, and stored here.
    pub(super) whole: u32,
    pub(super) stored: u32,
    /// Where the frame begins.
    pub(super) mac: u16,
    /// All that belongs to it, its description included.
    pub(super) bytes: &'a [u8],
}

impl RingMemory {
    fn header(&self, n: usize) -> *mut libc::tpacket2_hdr {
        let at = n % self.frames * self.frame_bytes;
        // SAFETY: inside the mapping.
        unsafe { self.first.as_ptr().add(at).cast() }
    }

    fn status(&self, n: usize) -> &AtomicU32 {
        let header = self.header(n);
        // SAFETY: inside the mapping, aligned to 16 bytes; the kernel stores whole words there.
        unsafe { AtomicU32::from_ptr(&raw mut (*header).tp_status) }
    }

    /// Frame `n`, if it is ours.
    #[inline]
    pub(super) fn frame(&self, n: usize) -> Option<RingFrame<'_>> {
        let status = self.status(n).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = self.header(n);
        // SAFETY: inside the mapping, and initialised by the kernel, which writes there no more
        // until `give_back`; that takes `self` exclusively, and nothing else here writes.
        unsafe {
            Some(RingFrame {
                status,
                whole: (*header).tp_len,
                stored: (*header).tp_snaplen,
                mac: (*header).tp_mac,
                bytes: std::slice::from_raw_parts(header.cast(), self.frame_bytes),
            })
        }
    }

    /// Frame `n` is the kernel's again.
    #[inline]
    pub(super) fn give_back(&mut self, n: usize) {
        self.status(n)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `receive_ring` with this length and unmapped only here; what `frame`
        // gave is borrowed from `self`.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.frames * self.frame_bytes) };
    }
}

/// Gives the socket a receive ring of `frames` frames of `frame_bytes` bytes (a multiple of 16 that
/// divides `block_bytes`), and maps it. Frames that are larger go to the socket's queue too.
pub(super) fn receive_ring(
    fd: BorrowedFd<'_>,
    frame_bytes: usize,
    frames: usize,
    block_bytes: usize,
) -> io::Result<RingMemory> {
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    let any: libc::c_int = 1;
    set(fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &any)?;
    let len = frames * frame_bytes;
    let request = libc::tpacket_req {
        tp_block_size: block_bytes as libc::c_uint,
        tp_block_nr: (len / block_bytes) as libc::c_uint,
        tp_frame_size: frame_bytes as libc::c_uint,
        tp_frame_nr: frames as libc::c_uint,
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a null hint lets the kernel choose fresh addresses: no existing mapping is touched.
    let first = unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, fd, 0) };
    match first.map(|first| NonNull::new(first.cast())) {
        Ok(Some(first)) => Ok(RingMemory {
            first,
            frame_bytes,
            frames,
        }),
        // Frames must not go where nobody looks.
        failed => {
            let none = libc::tpacket_req {
                tp_block_size: 0,
                tp_block_nr: 0,
                tp_frame_size: 0,
                tp_frame_nr: 0,
            };
            set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &none)?;
            Err(failed
                .err()
                .map_or(io::ErrorKind::OutOfMemory.into(), io::Error::from))
        }
    }
}
