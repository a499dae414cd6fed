//! The packet socket.

use super::ring::ReceiveRing;
use super::sys::{self, IntegerOption};
use crate::interface::{Interface, explain, sys as requests};
use crate::virtio::{Call, Front, Port, SegmentSize, VirtioDriver};
use gannet_link::{Capabilities, Checksum, Endpoint, LinkState, Medium, slot::RANGES_MAX};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Largest IP packet of a super-segment: with its Ethernet header it stays below an interface's
/// usual `gso_max_size`, 65,536. The kernel itself would cut a larger one into segments.
const SUPER_SEGMENT: u32 = 65_535 - 14;

/// How a packet driver is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory of the endpoint.
    pub segment: SegmentSize,
    /// Bytes of frames that the kernel keeps for us while we do not look. 32 MiB: two full windows
    /// of 16 MiB. Without CAP_NET_ADMIN no more than `net.core.rmem_max`.
    pub receive_buffer: usize,
    /// Bytes of frames of ours in the interface's queue. 4 MiB: more would only wait longer.
    /// Without CAP_NET_ADMIN no more than `net.core.wmem_max`.
    pub send_buffer: usize,
    /// Goes around the interface's queueing discipline. Off: the kernel then drops every
    /// super-segment that the device cannot cut itself, and a virtual Ethernet gains nothing.
    pub bypass_queue: bool,
    /// The VLAN (IEEE 802.1Q) whose frames come in, without their tags, which the kernel takes off;
    /// what leaves is to have the tag already. `None`: frames without a tag, and those whose tag is
    /// only a priority.
    pub vlan: Option<u16>,
    /// Small frames come in through memory that the kernel shares, without a system call: 4 MiB.
    /// Where the kernel has no such memory it does without.
    pub ring: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment: SegmentSize::default(),
            receive_buffer: 32 << 20,
            send_buffer: 4 << 20,
            bypass_queue: false,
            vlan: None,
            ring: true,
        }
    }
}

/// An AF_PACKET socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    /// The interface's number: its name may change.
    index: i32,
    /// Where small frames come in; without it the kernel is asked for them too.
    ring: Option<ReceiveRing>,
}

/// The driver of a network interface.
pub type PacketDriver = VirtioDriver<PacketSocket>;

impl PacketDriver {
    /// Attaches to the Ethernet interface `interface` of the calling thread's network namespace.
    ///
    /// # Errors
    /// In three lines (what, why, `try:`): `PermissionDenied` without CAP_NET_RAW, `NotFound` when
    /// there is no such interface, `InvalidInput` when it is not Ethernet or `options` are out of
    /// bounds.
    pub fn open(interface: &str, options: Options) -> io::Result<Endpoint<Self>> {
        let failed = |error| explain("open a packet socket on", interface, error);
        let settings = Interface::open(interface)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: nothing comes in before it is bound to the interface.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|e| failed(e.into()))?;
        let (kind, hardware_address) =
            requests::hardware(socket.as_fd(), interface).map_err(failed)?;
        if !matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
            return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        set_up(&socket, &options).map_err(failed)?;
        let ring = match options.ring {
            true => ReceiveRing::new(socket.as_fd()).ok(),
            false => None,
        };
        let index = settings.index()?;
        sys::bind(socket.as_fd(), index).map_err(failed)?;
        let capabilities = Capabilities {
            medium: Medium::Ethernet,
            mtu: settings.mtu()?.clamp(68, 65_535),
            tcp_segmentation: match options.vlan {
                None => SUPER_SEGMENT,
                Some(_) => SUPER_SEGMENT - 4, // a tag
            },
            udp_segmentation: cuts_datagrams(),
            gather: RANGES_MAX as u8,
            checksum: Checksum::Partial,
            hardware_address,
        };
        let port = PacketSocket {
            socket,
            index,
            ring,
        };
        VirtioDriver::endpoint(port, capabilities, options.segment)
    }

    /// Frames that the kernel dropped since the last call because nobody fetched them in time.
    pub fn take_kernel_drops(&self) -> u32 {
        sys::take_drops(self.wake_fd()).unwrap_or(0)
    }
}

fn set_up(socket: &OwnedFd, options: &Options) -> io::Result<()> {
    let fd = socket.as_fd();
    sys::enable(fd, IntegerOption::VnetHeader)?;
    sys::enable(fd, IntegerOption::IgnoreOutgoing)?;
    if options.bypass_queue {
        sys::enable(fd, IntegerOption::QdiscBypass)?;
    }
    sys::accept_vlan(fd, options.vlan.unwrap_or(0))?;
    let (receive, send) = (options.receive_buffer, options.send_buffer);
    if sockopt::set_socket_recv_buffer_size_force(fd, receive).is_err() {
        sockopt::set_socket_recv_buffer_size(fd, receive)?;
    }
    if sys::force_send_buffer(fd, send).is_err() {
        sockopt::set_socket_send_buffer_size(fd, send)?;
    }
    Ok(())
}

/// Whether the kernel takes super-datagrams from a packet socket: since Linux 6.2. There is no way
/// to ask but to send one.
fn cuts_datagrams() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 2)
}

/// Up, and with a carrier.
const RUNNING: requests::Flags = libc::IFF_UP | libc::IFF_RUNNING;

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Port for PacketSocket {
    const CALL: Call = Call::Socket;
    /// What fits into 64 KiB with everything the kernel puts before and behind it, and thus the
    /// whole of a super-segment but a few hundred bytes.
    const PIECE: usize = 63 << 10;

    #[inline]
    fn front(&self) -> Front<'_> {
        self.ring
            .as_ref()
            .map_or(Front::Unknown, ReceiveRing::front)
    }

    #[inline]
    fn pop(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.pop();
        }
    }

    fn look(&self) -> LinkState {
        let fd = self.socket.as_fd();
        let flags = requests::name(fd, self.index).and_then(|name| requests::flags(fd, &name));
        match flags {
            Ok(flags) if flags & RUNNING == RUNNING => LinkState::Up,
            Ok(_) => LinkState::Down,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENODEV | libc::ENXIO) => LinkState::Gone,
                _ => LinkState::Down,
            },
        }
    }
}
