//! Options and addresses of packet sockets.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

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
