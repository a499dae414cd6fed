//! One interface of the wire, whatever namespace it is in.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

use gannet_drivers::packet::{Options as PacketOptions, PacketDriver};
use gannet_drivers::tap::{Kind, Options as TapOptions, TapDriver};
use gannet_drivers::virtio::{Port, VirtioDriver};
use gannet_link::frame::RxChecksum;
use gannet_link::{Arena, Driver, Endpoint, Frame, Medium, Range, Slot, Space};
use gannet_sim::buffer::Buffer;
use gannet_sim::path::place::Place as Headers;
use gannet_sim::path::segment::{self, Uncuttable};
use gannet_wire::IpProtocol;
use gannet_wire::virtio_net::{Flags, Header, Segmentation};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Problem;

/// Frames taken from an interface before the others get their turn.
const BUDGET: usize = 64;
/// Bytes of a frame that travel in the slot itself.
const INLINE: usize = 64;

/// Which interface: `IF`, `tap:NAME`, `netns:SPACE/IF` or `netns:SPACE/tap:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The network namespace by its name in `/run/netns`; `None`: that of this process.
    pub namespace: Option<String>,
    /// The interface, or the TAP device to make or to attach to.
    pub interface: String,
    /// Whether it is a TAP device, whose other end is the kernel of its namespace.
    pub tap: bool,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, rest) = match text.strip_prefix("netns:") {
            Some(rest) => {
                let (namespace, rest) = rest
                    .split_once('/')
                    .ok_or("an interface in a namespace is netns:NAME/IF")?;
                (Some(namespace.to_owned()), rest)
            }
            None => (None, text),
        };
        let (tap, name) = match rest.strip_prefix("tap:") {
            Some(name) => (true, name),
            None => (false, rest),
        };
        let wrong = |name: &str| name.is_empty() || name.contains('/');
        if wrong(name) || namespace.as_deref().is_some_and(wrong) {
            return Err(
                "an interface is IF, tap:NAME, netns:SPACE/IF or netns:SPACE/tap:NAME".into(),
            );
        }
        Ok(Place {
            namespace,
            interface: name.to_owned(),
            tap,
        })
    }
}

/// An open interface.
pub enum End {
    /// Through a packet socket: an interface whose other end somebody else has.
    Packet(Endpoint<PacketDriver>),
    /// A TAP device: the kernel is the other end.
    Tap(Endpoint<TapDriver>),
}

/// What an end dropped that the model knows nothing of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EndDrops {
    /// Came in faster than it was fetched.
    pub missed: u64,
    /// Could not be cut into packets.
    pub uncuttable: u64,
    /// Left late or not at all because the interface took no more.
    pub refused: u64,
}

impl End {
    /// Opens the interface at `place`.
    ///
    /// # Errors
    /// What, why, try.
    pub fn open(place: &Place) -> Result<Self, Problem> {
        let Some(namespace) = &place.namespace else {
            return open_here(place);
        };
        // A thread of its own: it is in the namespace, this one stays where it is.
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| {
                enter(namespace)?;
                open_here(place)
            });
            opened.join().unwrap_or_else(|_| {
                Err(Problem::new(
                    "cannot open an interface",
                    "a thread failed",
                    "report it",
                ))
            })
        })
    }

    /// Takes what came in, cut into packets with complete checksums, at most a batch of frames;
    /// whether anything came.
    pub fn receive(&mut self, drops: &mut EndDrops, out: &mut Vec<Buffer>) -> bool {
        match self {
            End::Packet(endpoint) => receive(endpoint, drops, out),
            End::Tap(endpoint) => receive(endpoint, drops, out),
        }
    }

    /// Sends one packet with the next [`End::flush`].
    pub fn send(&mut self, packet: &[u8], drops: &mut EndDrops) {
        let sent = match self {
            End::Packet(endpoint) => send(endpoint, packet),
            End::Tap(endpoint) => send(endpoint, packet),
        };
        drops.refused += u64::from(!sent);
    }

    /// Hands the interface what was sent.
    pub fn flush(&mut self) {
        match self {
            End::Packet(endpoint) => {
                endpoint.flush();
                endpoint.reclaim();
            }
            End::Tap(endpoint) => {
                endpoint.flush();
                endpoint.reclaim();
            }
        }
    }

    /// Whether one may sleep on [`End::wake_fd`]: nothing is there yet.
    pub fn arm(&mut self) -> bool {
        match self {
            End::Packet(endpoint) => endpoint.driver.arm(),
            End::Tap(endpoint) => endpoint.driver.arm(),
        }
    }

    /// Readable when a frame came in.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        match self {
            End::Packet(endpoint) => endpoint.driver.wake_fd(),
            End::Tap(endpoint) => endpoint.driver.wake_fd(),
        }
    }

    /// Adds what the kernel and the driver dropped since the beginning.
    pub fn count_drops(&self, drops: &mut EndDrops) {
        match self {
            End::Packet(endpoint) => {
                let kernel = endpoint.driver.take_kernel_drops();
                drops.missed += u64::from(kernel);
                drops.refused += endpoint.driver.drops().total();
            }
            End::Tap(endpoint) => drops.refused += endpoint.driver.drops().total(),
        }
    }
}

fn open_here(place: &Place) -> Result<End, Problem> {
    let name = place.interface.as_str();
    let opened = match place.tap {
        false => PacketDriver::open(name, PacketOptions::default()).map(End::Packet),
        true => TapDriver::open(Some(name), Kind::Tap, TapOptions::default()).map(End::Tap),
    };
    opened.map_err(|error| {
        let hint = "make the interfaces first, with `ip link`, and run as root";
        Problem::new(format!("cannot put a wire on {name}"), error, hint)
    })
}

fn enter(namespace: &str) -> Result<(), Problem> {
    File::open(format!("/run/netns/{namespace}"))
        .and_then(|file| {
            let kind = Some(LinkNameSpaceType::Network);
            Ok(move_into_link_name_space(file.as_fd(), kind)?)
        })
        .map_err(|error: io::Error| {
            let what = format!("cannot enter the network namespace {namespace}");
            Problem::new(what, error, "list them with `ip netns`, and run as root")
        })
}

fn receive<P: Port>(
    endpoint: &mut Endpoint<VirtioDriver<P>>,
    drops: &mut EndDrops,
    out: &mut Vec<Buffer>,
) -> bool {
    let (mut frame, mut budget) = (Frame::new(), BUDGET);
    let mut any = false;
    while endpoint.receive(&mut frame, &mut budget) {
        any = true;
        let mut bytes = Buffer::new();
        bytes.resize(frame.len(), 0);
        endpoint.peek(&frame, &mut bytes);
        endpoint.release_frame(&frame);
        drops.uncuttable += u64::from(cut(&frame, bytes, out).is_err());
    }
    any
}

/// Cuts a frame as its sender asked. Where the checksum lies the driver no longer says; it is
/// found again, and computed anew where somebody vouched for it.
fn cut(frame: &Frame, mut bytes: Buffer, out: &mut Vec<Buffer>) -> Result<(), Uncuttable> {
    let headers = Headers::of(&bytes, Medium::Ethernet);
    if frame.gso_size() == 0 {
        if frame.checksum() == RxChecksum::Valid
            && let Some(headers) = headers
        {
            segment::renew_checksum(&mut bytes, headers);
        }
        out.push(bytes);
        return Ok(());
    }
    let headers = headers.ok_or(Uncuttable::BadHeaders)?;
    let header = Header {
        flags: Flags::NEEDS_CSUM,
        segmentation: match headers.protocol {
            IpProtocol::TCP => Segmentation::TcpV4,
            IpProtocol::UDP if frame.is_gso_udp() => Segmentation::UdpL4,
            _ => return Err(Uncuttable::Unsupported),
        },
        gso_size: frame.gso_size(),
        csum_start: headers.transport as u16,
        ..Header::default()
    };
    segment::cut(&header, Medium::Ethernet, &[&bytes], |packet| {
        out.push(packet);
    })
}

fn send<P: Port>(endpoint: &mut Endpoint<VirtioDriver<P>>, packet: &[u8]) -> bool {
    let (head, rest) = packet.split_at(packet.len().min(INLINE));
    let mut slot = Slot::new();
    match slot.inline_mut(head.len()) {
        Some(to) => to.copy_from_slice(head),
        None => return false,
    }
    let mut arena = Arena::new();
    let mut left = rest;
    let mut placed = true;
    while placed && !left.is_empty() {
        let range = endpoint.pool.reserve_in(&mut arena, left.len());
        placed = range.is_some_and(|range| {
            let (now, later) = left.split_at((range.len as usize).min(left.len()));
            left = later;
            let to = endpoint.pool.bytes_mut(range);
            to.is_some_and(|to| {
                to.copy_from_slice(now);
                slot.push_range(range)
            })
        });
    }
    let sent = placed && (endpoint.transmit(&slot).is_ok() || try_again(endpoint, &slot));
    for index in 0..slot.range_count() {
        let (offset, len) = slot.raw_range(index);
        let space = Space::Own;
        endpoint.pool.release(Range { offset, len, space });
    }
    endpoint.pool.close(&mut arena);
    sent
}

/// The queue to the kernel is full: it gets it now.
fn try_again<P: Port>(endpoint: &mut Endpoint<VirtioDriver<P>>, slot: &Slot) -> bool {
    endpoint.flush();
    endpoint.reclaim();
    endpoint.transmit(slot).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let place = |text: &str| text.parse::<Place>();
        let full = place("netns:a/tap:t0").unwrap();
        assert_eq!(full.namespace.as_deref(), Some("a"));
        assert_eq!((full.interface.as_str(), full.tap), ("t0", true));
        let short = place("eth0").unwrap();
        assert_eq!((short.namespace, short.tap), (None, false));
        for text in [
            "",
            "netns:a",
            "netns:/x",
            "netns:a/",
            "tap:",
            "a/b",
            "netns:../x/y",
        ] {
            assert!(place(text).is_err(), "{text}");
        }
    }
}
