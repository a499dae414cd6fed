//! Every kind of driver behind one type, by enum rather than by `dyn`: the branch is predicted, and
//! what is behind it is inlined.

use crate::clock;
use crate::error::fail;
use gannet_drivers::capture::Capture;
use gannet_drivers::channel::Channel;
use gannet_drivers::packet::PacketDriver;
use gannet_drivers::tap::TapDriver;
use gannet_link::driver::Received;
use gannet_link::peer::CHANNEL_CAPABILITIES;
use gannet_link::{
    Capabilities, Driver, Endpoint, Frame, HeapMemory, LinkState, LoopDriver, Memory, OwnBlocks,
    Pool, Range, Slot, View,
};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// A driver of any kind.
pub(crate) enum AnyDriver {
    /// To one other process.
    Channel(Channel),
    /// A network of processes as a whole: it has our address, and packets to peers without a
    /// channel end here, as on any wire to whose end nobody is plugged.
    Network,
    /// Back to this host.
    Loop(LoopDriver),
    /// An interface of the kernel.
    Packet(PacketDriver),
    /// The kernel itself.
    Tap(TapDriver),
    /// Any of the others, with what passes it written down.
    Captured(Box<CapturedDriver>),
}

/// A driver whose frames go to a file, too.
pub(crate) type CapturedDriver = Capture<AnyDriver, BufWriter<File>, fn() -> u64>;

/// `endpoint`, with a pcapng file of what passes it in `directory`.
pub(crate) fn captured(
    endpoint: Endpoint<AnyDriver>,
    directory: &Path,
    name: &str,
) -> io::Result<Endpoint<AnyDriver>> {
    let path = directory.join(format!("{name}.pcapng"));
    let file = File::create(&path).map_err(|error| {
        let what = format!("write the capture {}", path.display());
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        fail(code, what, format!("{error}\ntry: a directory that exists"))
    })?;
    let clock: fn() -> u64 = clock::wall_nanos;
    let captured = Capture::start(endpoint, BufWriter::new(file), name, 0, clock);
    Ok(any(captured, |driver| {
        AnyDriver::Captured(Box::new(driver))
    }))
}

/// `endpoint` with its driver as one of many.
pub(crate) fn any<D>(endpoint: Endpoint<D>, wrap: fn(D) -> AnyDriver) -> Endpoint<AnyDriver>
where
    D: Driver,
{
    let Endpoint { pool, driver, .. } = endpoint;
    Endpoint::new(pool, wrap(driver))
}

/// The endpoint of a network as a whole. Has almost no memory: nothing is ever sent from it.
pub(crate) fn network_endpoint() -> io::Result<Endpoint<AnyDriver>> {
    const BLOCK: u32 = 2048;
    let bytes = 16 * BLOCK;
    let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(bytes as usize));
    let own = OwnBlocks::new(memory, 0, bytes as usize).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Endpoint::new(Pool::new(own, BLOCK, 0), AnyDriver::Network))
}

/// Bytes in a block and blocks of the loopback: 16 MiB that are touched only when used.
const LOOPBACK: (u32, u32) = (16 << 10, 1024);

/// The endpoint that leads back to this host.
pub(crate) fn loopback_endpoint() -> io::Result<Endpoint<LoopDriver>> {
    let (block_bytes, blocks) = LOOPBACK;
    let endpoint = LoopDriver::endpoint(block_bytes, blocks);
    endpoint.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl AnyDriver {
    /// The descriptor that is readable when there are frames.
    pub(crate) fn traffic_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            AnyDriver::Channel(channel) => Some(channel.wake_fd()),
            AnyDriver::Network | AnyDriver::Loop(_) => None,
            AnyDriver::Packet(packet) => Some(packet.wake_fd()),
            AnyDriver::Tap(tap) => Some(tap.wake_fd()),
            AnyDriver::Captured(captured) => captured.inner().traffic_fd(),
        }
    }

    /// Whether the traffic descriptor is the kernel's own queue, readable whenever a frame waits,
    /// rather than a bell that rings on demand. Such a one is watched only by who sleeps: the
    /// kernel would announce every single frame, both ways, to watchers who are awake and know.
    pub(crate) fn tells_all(&self) -> bool {
        match self {
            AnyDriver::Channel(_) | AnyDriver::Network | AnyDriver::Loop(_) => false,
            AnyDriver::Packet(_) | AnyDriver::Tap(_) => true,
            AnyDriver::Captured(captured) => captured.inner().tells_all(),
        }
    }

    /// The descriptor that is readable when the peer is gone.
    pub(crate) fn hang_up_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            AnyDriver::Channel(channel) => Some(channel.control_fd()),
            AnyDriver::Captured(captured) => captured.inner().hang_up_fd(),
            AnyDriver::Network | AnyDriver::Loop(_) | AnyDriver::Packet(_) | AnyDriver::Tap(_) => {
                None
            }
        }
    }

    /// The traffic descriptor was readable: forget the ring.
    pub(crate) fn rung(&self) {
        match self {
            AnyDriver::Channel(channel) => channel.drain_wake(),
            AnyDriver::Captured(captured) => captured.inner().rung(),
            AnyDriver::Network | AnyDriver::Loop(_) | AnyDriver::Packet(_) | AnyDriver::Tap(_) => {}
        }
    }

    /// The hang-up descriptor was readable: look whether it is true.
    pub(crate) fn hung_up(&mut self) {
        match self {
            AnyDriver::Channel(channel) => drop(channel.check_peer()),
            AnyDriver::Captured(captured) => captured.inner_mut().hung_up(),
            AnyDriver::Network | AnyDriver::Loop(_) | AnyDriver::Packet(_) | AnyDriver::Tap(_) => {}
        }
    }

    /// Whether a frame has come in for certain and was not looked at, as far as that can be told at
    /// no cost.
    pub(crate) fn has_frames(&self) -> bool {
        match self {
            AnyDriver::Channel(_) | AnyDriver::Network | AnyDriver::Loop(_) => false,
            AnyDriver::Packet(packet) => packet.has_frames(),
            AnyDriver::Tap(tap) => tap.has_frames(),
            AnyDriver::Captured(captured) => captured.inner().has_frames(),
        }
    }

    /// Frames wait for the kernel, which does not say through the traffic descriptor when it has
    /// room again.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            AnyDriver::Channel(_) | AnyDriver::Network | AnyDriver::Loop(_) => false,
            AnyDriver::Packet(packet) => packet.wants_write(),
            AnyDriver::Tap(tap) => tap.wants_write(),
            AnyDriver::Captured(captured) => captured.inner().is_blocked(),
        }
    }
}

impl Driver for AnyDriver {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        match self {
            AnyDriver::Channel(d) => d.capabilities(),
            AnyDriver::Network => &CHANNEL_CAPABILITIES,
            AnyDriver::Loop(d) => d.capabilities(),
            AnyDriver::Packet(d) => d.capabilities(),
            AnyDriver::Tap(d) => d.capabilities(),
            AnyDriver::Captured(d) => d.capabilities(),
        }
    }

    #[inline]
    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool {
        match self {
            AnyDriver::Channel(d) => d.transmit(pool, slot),
            AnyDriver::Network => {
                for index in 0..slot.range_count() {
                    pool.completed(slot.raw_range(index).0);
                }
                true
            }
            AnyDriver::Loop(d) => d.transmit(pool, slot),
            AnyDriver::Packet(d) => d.transmit(pool, slot),
            AnyDriver::Tap(d) => d.transmit(pool, slot),
            AnyDriver::Captured(d) => d.transmit(pool, slot),
        }
    }

    #[inline]
    fn room(&mut self) -> usize {
        match self {
            AnyDriver::Channel(d) => d.room(),
            AnyDriver::Network => 1,
            AnyDriver::Loop(d) => d.room(),
            AnyDriver::Packet(d) => d.room(),
            AnyDriver::Tap(d) => d.room(),
            AnyDriver::Captured(d) => d.room(),
        }
    }

    #[inline]
    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        match self {
            AnyDriver::Channel(d) => d.receive(pool, frame),
            AnyDriver::Network => Received::Empty,
            AnyDriver::Loop(d) => d.receive(pool, frame),
            AnyDriver::Packet(d) => d.receive(pool, frame),
            AnyDriver::Tap(d) => d.receive(pool, frame),
            AnyDriver::Captured(d) => d.receive(pool, frame),
        }
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut Pool) -> usize {
        match self {
            AnyDriver::Channel(d) => d.reclaim(pool),
            AnyDriver::Network => 0,
            AnyDriver::Loop(d) => d.reclaim(pool),
            AnyDriver::Packet(d) => d.reclaim(pool),
            AnyDriver::Tap(d) => d.reclaim(pool),
            AnyDriver::Captured(d) => d.reclaim(pool),
        }
    }

    #[inline]
    fn flush(&mut self, pool: &mut Pool) {
        match self {
            AnyDriver::Channel(d) => d.flush(pool),
            AnyDriver::Network => {}
            AnyDriver::Loop(d) => d.flush(pool),
            AnyDriver::Packet(d) => d.flush(pool),
            AnyDriver::Tap(d) => d.flush(pool),
            AnyDriver::Captured(d) => d.flush(pool),
        }
    }

    #[inline]
    fn release(&mut self, range: Range) {
        match self {
            AnyDriver::Channel(d) => d.release(range),
            AnyDriver::Network => {}
            AnyDriver::Loop(d) => d.release(range),
            AnyDriver::Packet(d) => d.release(range),
            AnyDriver::Tap(d) => d.release(range),
            AnyDriver::Captured(d) => d.release(range),
        }
    }

    #[inline]
    fn read(&self, range: Range, out: &mut [u8]) -> usize {
        match self {
            AnyDriver::Channel(d) => d.read(range, out),
            AnyDriver::Network => 0,
            AnyDriver::Loop(d) => d.read(range, out),
            AnyDriver::Packet(d) => d.read(range, out),
            AnyDriver::Tap(d) => d.read(range, out),
            AnyDriver::Captured(d) => d.read(range, out),
        }
    }

    fn view(&self, range: Range) -> Option<View> {
        match self {
            AnyDriver::Channel(d) => d.view(range),
            AnyDriver::Network => None,
            AnyDriver::Loop(d) => d.view(range),
            AnyDriver::Packet(d) => d.view(range),
            AnyDriver::Tap(d) => d.view(range),
            AnyDriver::Captured(d) => d.view(range),
        }
    }

    fn arm(&mut self) -> bool {
        match self {
            AnyDriver::Channel(d) => d.arm(),
            AnyDriver::Network => true,
            AnyDriver::Loop(d) => d.arm(),
            AnyDriver::Packet(d) => d.arm(),
            AnyDriver::Tap(d) => d.arm(),
            AnyDriver::Captured(d) => d.arm(),
        }
    }

    fn disarm(&mut self) {
        match self {
            AnyDriver::Channel(d) => d.disarm(),
            AnyDriver::Network => {}
            AnyDriver::Loop(d) => d.disarm(),
            AnyDriver::Packet(d) => d.disarm(),
            AnyDriver::Tap(d) => d.disarm(),
            AnyDriver::Captured(d) => d.disarm(),
        }
    }

    #[inline]
    fn state(&self) -> LinkState {
        match self {
            AnyDriver::Channel(d) => d.state(),
            AnyDriver::Network => LinkState::Up,
            AnyDriver::Loop(d) => d.state(),
            AnyDriver::Packet(d) => d.state(),
            AnyDriver::Tap(d) => d.state(),
            AnyDriver::Captured(d) => d.state(),
        }
    }
}
