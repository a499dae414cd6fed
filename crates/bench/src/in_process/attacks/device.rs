//! An interface that holds one packet, and throws away what is sent but for the last header.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_link::driver::Received;
use gannet_link::frame::Bounds;
use gannet_link::slot::{INLINE_MAX, flags};
use gannet_link::{
    Capabilities, Checksum, Driver, Endpoint, Frame, HeapMemory, LinkState, Medium, OwnBlocks,
    Pool, Range, Slot, Space, View,
};

/// Bytes that travel inline when the rest lies in a block.
const INLINE: usize = 64;
/// Bytes of a block, and how many.
const BLOCKS: (u32, u32) = (2048, 8192);

/// The interface.
pub(super) struct Device {
    capabilities: Capabilities,
    /// The packet that arrives next, if `waits`.
    pub(super) packet: Vec<u8>,
    pub(super) waits: bool,
    /// Packets sent, and payload bytes of them.
    pub(super) sent: u64,
    /// The first bytes of the last packet sent.
    pub(super) last: [u8; INLINE_MAX],
    done: VecDeque<u32>,
}

impl Device {
    /// An interface with memory.
    pub(super) fn endpoint(medium: Medium) -> Option<Endpoint<Self>> {
        let len = BLOCKS.0 as usize * BLOCKS.1 as usize;
        let memory: Arc<dyn gannet_link::Memory> = Arc::new(HeapMemory::new(len));
        let bytes = OwnBlocks::new(memory, 0, len)?;
        let device = Device {
            capabilities: Capabilities {
                medium,
                mtu: 1500,
                tcp_segmentation: 0,
                udp_segmentation: false,
                gather: 8,
                checksum: Checksum::None,
                hardware_address: [2, 0, 0, 0, 0, 1],
            },
            packet: Vec::new(),
            waits: false,
            sent: 0,
            last: [0; INLINE_MAX],
            done: VecDeque::new(),
        };
        Some(Endpoint::new(Pool::new(bytes, BLOCKS.0, 16), device))
    }

    /// The packet as an interface delivers it: its checksum verified, what does not fit inline in a
    /// block.
    fn place(&self, pool: &mut Pool) -> Option<Slot> {
        let mut slot = Slot::new();
        slot.set_flags(flags::CSUM_VALID);
        let (head, rest) = self.packet.split_at(self.packet.len().min(INLINE));
        slot.inline_mut(head.len())?.copy_from_slice(head);
        if !rest.is_empty() {
            let block = pool.alloc_for_receive()?;
            let range = pool.range(block, 0, rest.len() as u32);
            pool.bytes_mut(range)?.copy_from_slice(rest);
            slot.push_range(range);
        }
        Some(slot)
    }
}

impl Driver for Device {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, _pool: &mut Pool, slot: &Slot) -> bool {
        let inline = slot.inline();
        if let Some(last) = self.last.get_mut(..inline.len()) {
            last.copy_from_slice(inline);
        }
        self.sent += 1;
        self.done
            .extend((0..slot.range_count()).map(|i| slot.raw_range(i).0));
        true
    }

    fn room(&mut self) -> usize {
        256
    }

    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        if !std::mem::take(&mut self.waits) {
            return Received::Empty;
        }
        let bounds = Bounds {
            space: Space::Own,
            segment_bytes: BLOCKS.0 * BLOCKS.1,
            block_bytes: BLOCKS.0,
        };
        match self.place(pool) {
            Some(slot) => frame.load(&bounds, |to| {
                *to = slot;
                true
            }),
            None => Received::Empty,
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

    fn release(&mut self, _range: Range) {}

    fn read(&self, _range: Range, _out: &mut [u8]) -> usize {
        0
    }

    fn view(&self, _range: Range) -> Option<View> {
        None
    }

    fn arm(&mut self) -> bool {
        self.done.is_empty() && !self.waits
    }

    fn disarm(&mut self) {}

    fn state(&self) -> LinkState {
        LinkState::Up
    }
}
