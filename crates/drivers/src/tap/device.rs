//! The device.

use super::sys;
use crate::interface::{Interface, explain};
use crate::virtio::{Call, HEADER, Port, SegmentSize, VirtioDriver};
use gannet_link::slot::RANGES_MAX;
use gannet_link::{Capabilities, Checksum, Endpoint, LinkState, Medium};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What frames begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet frames: a TAP device.
    Tap,
    /// Bare IP packets: a TUN device.
    Tun,
}

/// How a device is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory of the endpoint.
    pub segment: SegmentSize,
    /// Largest IP packet in bytes, 68 to 65,535 (65,521 for TAP, where the kernel counts the
    /// Ethernet header in); `None` leaves the interface's as it is.
    pub mtu: Option<u32>,
}

impl Default for Options {
    /// The memory of [`SegmentSize::default`]; the kernel's MTU, 1,500 for a new device.
    fn default() -> Self {
        Options {
            segment: SegmentSize::default(),
            mtu: None,
        }
    }
}

/// A descriptor of `/dev/net/tun`, attached to a device.
#[derive(Debug)]
pub struct TapDevice {
    device: OwnedFd,
    /// Only for a device of our own namespace.
    interface: Option<Interface>,
}

/// The driver of a TUN or TAP device.
pub type TapDriver = VirtioDriver<TapDevice>;

impl TapDriver {
    /// Makes the device `name` (`None`: the kernel chooses one) in the calling thread's network
    /// namespace, or attaches to a persistent one. It goes away with the endpoint. The kernel's
    /// side is down and without address at first: see [`Interface`].
    ///
    /// # Errors
    /// In three lines (what, why, `try:`): `PermissionDenied` without CAP_NET_ADMIN, `NotFound`
    /// without `/dev/net/tun`, `ResourceBusy` when another program is attached, `InvalidInput` for
    /// a name or MTU the kernel refuses or a device of the other kind.
    pub fn open(name: Option<&str>, kind: Kind, options: Options) -> io::Result<Endpoint<Self>> {
        let shown = name.unwrap_or("a new TUN/TAP device");
        let failed = |error| explain("open", shown, error);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device =
            rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let layer = match kind {
            Kind::Tap => libc::IFF_TAP,
            Kind::Tun => libc::IFF_TUN,
        };
        let wanted = layer | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let name = sys::attach(device.as_fd(), name.unwrap_or(""), wanted).map_err(failed)?;
        let interface = Interface::open(&name)?;
        if let Some(mtu) = options.mtu {
            interface.set_mtu(mtu)?;
        }
        let address = match kind {
            Kind::Tap => neighbour_of(interface.hardware_address()?),
            Kind::Tun => [0; 6],
        };
        let mtu = interface.mtu()?;
        let port = TapDevice {
            device,
            interface: Some(interface),
        };
        port.endpoint(kind, mtu, address, options.segment)
    }

    /// Takes over a descriptor that is attached to a device already, perhaps one of another
    /// namespace, made with `IFF_NO_PI | IFF_VNET_HDR`. Nobody else may read from it. `mtu` is that
    /// of the device; `address` is ours, not the kernel's (zeros for TUN).
    ///
    /// # Errors
    /// `InvalidInput` when it is no such descriptor, or `segment` is out of bounds.
    pub fn from_fd(
        device: OwnedFd,
        mtu: u32,
        address: [u8; 6],
        segment: SegmentSize,
    ) -> io::Result<Endpoint<Self>> {
        let failed = |error| explain("take over", "a TUN/TAP descriptor", error);
        let (_, flags) = sys::attached(device.as_fd()).map_err(failed)?;
        let wanted = libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        if flags & wanted != wanted {
            return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let kind = if flags & libc::IFF_TAP != 0 {
            Kind::Tap
        } else {
            Kind::Tun
        };
        rustix::io::ioctl_fionbio(&device, true).map_err(|e| failed(e.into()))?;
        let port = TapDevice {
            device,
            interface: None,
        };
        port.endpoint(kind, mtu, address, segment)
    }

    /// The kernel's side of the device, to be given an address and brought up; `None` after
    /// [`TapDriver::from_fd`].
    pub fn interface(&self) -> Option<&Interface> {
        self.port().interface.as_ref()
    }
}

impl TapDevice {
    fn endpoint(
        self,
        kind: Kind,
        mtu: u32,
        hardware_address: [u8; 6],
        segment: SegmentSize,
    ) -> io::Result<Endpoint<TapDriver>> {
        let failed = |error| explain("set offloads of", "a TUN/TAP device", error);
        sys::set_header(self.device.as_fd(), HEADER).map_err(failed)?;
        let udp_segmentation = ask_for_offload(self.device.as_fd()).map_err(failed)?;
        let (medium, link_header) = match kind {
            Kind::Tap => (Medium::Ethernet, 14),
            Kind::Tun => (Medium::Ip, 0),
        };
        let capabilities = Capabilities {
            medium,
            mtu: mtu.clamp(68, 65_535),
            // With its link header below the usual limit, 65,536: see the packet driver.
            tcp_segmentation: 65_535 - link_header,
            udp_segmentation,
            gather: RANGES_MAX as u8,
            checksum: Checksum::Partial,
            hardware_address,
        };
        VirtioDriver::endpoint(self, capabilities, segment)
    }
}

/// Lets the kernel send us partial checksums and super-segments; whether super-datagrams too (since
/// Linux 6.2).
fn ask_for_offload(device: BorrowedFd<'_>) -> io::Result<bool> {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    if sys::set_offload(device, tcp | udp).is_ok() {
        return Ok(true);
    }
    sys::set_offload(device, tcp).map(|()| false)
}

/// Our end needs an Ethernet address of its own: the kernel's with another last bit, and marked as
/// locally administered.
fn neighbour_of(kernel: [u8; 6]) -> [u8; 6] {
    let [first, b, c, d, e, last] = kernel;
    [first & !1 | 2, b, c, d, e, last ^ 1]
}

impl AsFd for TapDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Port for TapDevice {
    const CALL: Call = Call::Device;
    /// A device puts one page in one piece at most, whatever is asked for.
    const PIECE: usize = 0;

    fn look(&self) -> LinkState {
        if sys::attached(self.device.as_fd()).is_err() {
            return LinkState::Gone;
        }
        match &self.interface {
            Some(interface) if !interface.is_running().unwrap_or(false) => LinkState::Down,
            Some(_) | None => LinkState::Up,
        }
    }
}
