//! A network interface of a simulated host: a ring each way, between the stack and the world.
//!
//! What the stack transmits is copied out at once and cut as an interface would cut it; the blocks
//! come back at once or, as from a real device, a poll later. What arrives waits in the ring until
//! the host looks; when the ring is full it is lost.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_link::driver::Received;
use gannet_link::frame::Bounds;
use gannet_link::slot::flags;
use gannet_link::{
    BlockId, Capabilities, Checksum, Driver, Endpoint, Frame, HeapMemory, LinkState, Medium,
    OwnBlocks, Pool, Range, Slot, Space, View,
};
use gannet_wire::virtio_net::{Flags, Header, Segmentation};

use crate::buffer::Buffer;
use crate::path::place::link_header_len;
use crate::path::segment;

/// Most ranges of a frame that is sent.
const GATHER: usize = 8;

/// Bytes that travel inline when the rest lies in blocks.
const INLINE: usize = 64;

/// Shorter Ethernet frames are padded on the wire, with whatever the sender had there.
const ETHERNET_LEAST: usize = 60;
const PADDING: u8 = 0xa5;

/// What an interface is like.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Ethernet or bare IP.
    pub medium: Medium,
    /// Its station address.
    pub station: [u8; 6],
    /// Largest IP packet.
    pub mtu: u32,
    /// Who computes checksums; with `Partial` super-segments are taken too.
    pub checksum: Checksum,
    /// Most frames that wait in each ring.
    pub ring: usize,
    /// Transmitted blocks come back only at the next poll.
    pub holds: bool,
    /// Headers also lie in memory before the payload.
    pub contiguous: bool,
    /// Bytes per block, and blocks.
    pub blocks: (u32, u32),
}

/// An interface at work.
#[derive(Debug)]
pub struct SimDriver {
    capabilities: Capabilities,
    interface: Interface,
    inbox: VecDeque<Buffer>,
    outbox: VecDeque<Buffer>,
    /// Offsets of transmitted ranges, to be completed at the next reclaim.
    done: VecDeque<u32>,
    blocked: bool,
    /// Frames lost because the ring was full, or no block was free.
    pub lost: (u64, u64),
}

impl Interface {
    /// The interface, its memory and its rings.
    ///
    /// # Panics
    /// When the figures are impossible.
    pub fn endpoint(self) -> Endpoint<SimDriver> {
        let (block_bytes, blocks) = self.blocks;
        let len = block_bytes as usize * blocks as usize;
        let memory: Arc<dyn gannet_link::Memory> = Arc::new(HeapMemory::new(len));
        let bytes = OwnBlocks::new(memory, 0, len).expect("fresh memory");
        let driver = SimDriver {
            capabilities: self.capabilities(),
            interface: self,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            done: VecDeque::new(),
            blocked: false,
            lost: (0, 0),
        };
        Endpoint::new(Pool::new(bytes, block_bytes, (blocks / 8).min(16)), driver)
    }

    fn capabilities(&self) -> Capabilities {
        let partial = self.checksum == Checksum::Partial;
        Capabilities {
            medium: self.medium,
            mtu: self.mtu,
            tcp_segmentation: if partial { 65_535 } else { 0 },
            udp_segmentation: partial,
            gather: GATHER as u8,
            checksum: self.checksum,
            hardware_address: self.station,
        }
    }
}

impl SimDriver {
    /// Whether an arriving frame would find room.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < self.interface.ring
    }

    /// A frame arrives; whether there was room for it.
    pub fn arrives(&mut self, mut frame: Buffer) -> bool {
        if !self.has_room() {
            self.lost.0 += 1;
            return false;
        }
        if self.interface.medium == Medium::Ethernet && frame.len() < ETHERNET_LEAST {
            frame.resize(ETHERNET_LEAST, PADDING);
        }
        self.inbox.push_back(frame);
        true
    }

    /// Whether the host has something to look at.
    pub fn has_news(&self) -> bool {
        !self.inbox.is_empty() || !self.done.is_empty()
    }

    /// Whether a frame has arrived that the host has not looked at.
    pub fn has_frames(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether no more frames can leave before some have.
    pub fn is_full(&self) -> bool {
        self.outbox.len() >= self.interface.ring
    }

    /// The next frame that leaves.
    pub fn leaves(&mut self) -> Option<Buffer> {
        self.outbox.pop_front()
    }

    /// Takes nothing more (`true`), as a full device; or takes again.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Whether the device takes nothing.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }
}

impl Driver for SimDriver {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool {
        if self.room() == 0 {
            return false;
        }
        let mut parts: [&[u8]; GATHER + 1] = [&[]; GATHER + 1];
        let ranges = (0..slot.range_count()).map(|index| {
            let (offset, len) = slot.raw_range(index);
            let space = Space::Own;
            let range = Range { offset, len, space };
            pool.bytes(range).expect("a pinned range")
        });
        for (part, bytes) in parts
            .iter_mut()
            .zip([slot.inline()].into_iter().chain(ranges))
        {
            *part = bytes;
        }
        let header = offload(slot, self.interface.medium);
        let outbox = &mut self.outbox;
        let most = link_header_len(self.interface.medium) + self.interface.mtu as usize;
        let out = |packet: Buffer| {
            assert!(packet.len() <= most, "a packet of {} bytes", packet.len());
            outbox.push_back(packet);
        };
        let cut = segment::cut(&header, self.interface.medium, &parts, out);
        cut.expect("a frame of our own");
        for index in 0..slot.range_count() {
            let (offset, _) = slot.raw_range(index);
            match self.interface.holds {
                true => self.done.push_back(offset),
                false => pool.completed(offset),
            }
        }
        true
    }

    fn room(&mut self) -> usize {
        match self.blocked {
            true => 0,
            false => self.interface.ring.saturating_sub(self.outbox.len()),
        }
    }

    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        let bounds = Bounds {
            space: Space::Own,
            segment_bytes: pool.block_bytes() * pool.blocks() as u32,
            block_bytes: pool.block_bytes(),
        };
        loop {
            let Some(bytes) = self.inbox.pop_front() else {
                return Received::Empty;
            };
            let mut placed = false;
            let received = frame.load(&bounds, |slot| {
                placed = place(pool, &bytes, self.interface.contiguous, slot).is_some();
                placed
            });
            if placed {
                return received;
            }
            // As an interface without a free buffer: the frame is lost.
            self.lost.1 += 1;
        }
    }

    fn reclaim(&mut self, pool: &mut Pool) -> usize {
        let count = self.done.len();
        for offset in self.done.drain(..) {
            pool.completed(offset);
        }
        count
    }

    fn flush(&mut self, _pool: &mut Pool) {}

    fn release(&mut self, _range: Range) {
        unreachable!("ranges of an interface are in the own segment");
    }

    fn read(&self, _range: Range, _out: &mut [u8]) -> usize {
        0
    }

    fn view(&self, _range: Range) -> Option<View> {
        None
    }

    fn arm(&mut self) -> bool {
        !self.has_news()
    }

    fn disarm(&mut self) {}

    fn state(&self) -> LinkState {
        LinkState::Up
    }
}

/// What the slot asks the interface to do, in virtio's words.
fn offload(slot: &Slot, medium: Medium) -> Header {
    let mut header = Header::default();
    let (start, offset) = slot.checksum_place();
    (header.csum_start, header.csum_offset) = (start, offset);
    if slot.flags() & flags::CSUM_PARTIAL != 0 {
        header.flags = Flags::NEEDS_CSUM;
    }
    if slot.gso_size() == 0 {
        return header;
    }
    header.gso_size = slot.gso_size();
    let first = slot.inline().get(link_header_len(medium));
    header.segmentation = match first.map(|first| first >> 4) {
        _ if slot.flags() & flags::GSO_UDP != 0 => Segmentation::UdpL4,
        Some(6) => Segmentation::TcpV6,
        _ => Segmentation::TcpV4,
    };
    header
}

/// Puts an arriving frame into blocks: the first bytes inline, and in memory before the rest too
/// when `contiguous`. `None` when there are not enough.
fn place(pool: &mut Pool, bytes: &[u8], contiguous: bool, slot: &mut Slot) -> Option<()> {
    slot.clear();
    let inline = bytes.len().min(INLINE);
    let (head, mut rest) = bytes.split_at_checked(inline)?;
    slot.inline_mut(inline)?.copy_from_slice(head);
    let mut at = if contiguous { INLINE as u32 } else { 0 };
    while !rest.is_empty() {
        let len = rest.len().min((pool.block_bytes() - at) as usize);
        let block = pool.alloc_for_receive();
        let fits = block.is_some_and(|b| slot.push_range(pool.range(b, at, len as u32)));
        let (Some(block), true) = (block, fits) else {
            give_back(pool, slot, block);
            return None;
        };
        let (now, later) = rest.split_at_checked(len)?;
        pool.bytes_mut(pool.range(block, at, len as u32))?
            .copy_from_slice(now);
        if at > 0 {
            pool.bytes_mut(pool.range(block, 0, at))?
                .copy_from_slice(head);
            slot.set_flags(slot.flags() | flags::CONTIGUOUS);
        }
        at = 0;
        rest = later;
    }
    Some(())
}

/// There was no room for the whole frame: the blocks of `slot`, and one more, are free again.
fn give_back(pool: &mut Pool, slot: &Slot, block: Option<BlockId>) {
    for index in 0..slot.range_count() {
        let (offset, len) = slot.raw_range(index);
        let space = Space::Own;
        pool.release(Range { offset, len, space });
    }
    if let Some(block) = block {
        pool.release(pool.range(block, 0, 0));
    }
}
