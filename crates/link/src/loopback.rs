//! The driver that leads back to ourselves: what is transmitted is received, in order.
//!
//! Nothing is copied. A transmitted range is the receiver's from the moment it takes the frame: the
//! transmission's reference to the block becomes the frame's, and the sender's own reference (it
//! may want to send the bytes again) is a second one, as on any link.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::driver::{Capabilities, Driver, LinkState, Received};
use crate::endpoint::Endpoint;
use crate::frame::{Bounds, Frame};
use crate::peer::CHANNEL_CAPABILITIES;
use crate::pool::Pool;
use crate::segment::{HeapMemory, Memory, OwnBlocks, Range, Space, View};
use crate::slot::Slot;
use crate::sync::{AtomicU64, Ordering};

/// Frames under way at once.
const SLOTS: usize = 512;

/// How many frames wait to be received, for somebody who must know without asking the driver.
#[derive(Clone, Debug)]
pub struct Waiting(Arc<AtomicU64>);

impl Waiting {
    /// Whether there are any.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// See the module.
pub struct LoopDriver {
    queue: VecDeque<Slot>,
    waiting: Waiting,
    capabilities: Capabilities,
    /// Ranges received since the last [`Driver::reclaim`].
    completed: usize,
}

impl LoopDriver {
    /// An endpoint with `blocks` blocks of `block_bytes` of heap memory. `None` when these are
    /// impossible: a power of two from 2 KiB on, below 2 GiB in all.
    pub fn endpoint(block_bytes: u32, blocks: u32) -> Option<Endpoint<LoopDriver>> {
        let bytes = u64::from(block_bytes) * u64::from(blocks);
        if !block_bytes.is_power_of_two() || block_bytes < 2048 || bytes == 0 || bytes >= 1 << 31 {
            return None;
        }
        let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(bytes as usize));
        let own = OwnBlocks::new(memory, 0, bytes as usize)?;
        let driver = LoopDriver {
            queue: VecDeque::with_capacity(SLOTS),
            waiting: Waiting(Arc::new(AtomicU64::new(0))),
            capabilities: CHANNEL_CAPABILITIES,
            completed: 0,
        };
        Some(Endpoint::new(Pool::new(own, block_bytes, 0), driver))
    }

    /// How many frames wait, from now on.
    pub fn waiting(&self) -> Waiting {
        self.waiting.clone()
    }

    fn tell(&self) {
        let count = self.queue.len() as u64;
        self.waiting.0.store(count, Ordering::Relaxed);
    }
}

impl Driver for LoopDriver {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, _pool: &mut Pool, slot: &Slot) -> bool {
        if self.queue.len() >= SLOTS {
            return false;
        }
        self.queue.push_back(slot.clone());
        self.tell();
        true
    }

    fn room(&mut self) -> usize {
        SLOTS - self.queue.len().min(SLOTS)
    }

    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        let bounds = Bounds {
            space: Space::Own,
            segment_bytes: pool.block_bytes() * pool.blocks() as u32,
            block_bytes: pool.block_bytes(),
        };
        let next = self.queue.pop_front();
        self.tell();
        let received = frame.load(&bounds, |slot| {
            let Some(next) = &next else { return false };
            slot.clone_from(next);
            true
        });
        let Some(sent) = next else {
            return received;
        };
        for index in 0..sent.range_count() {
            // A refused frame has no ranges: its references end here.
            if received == Received::Frame
                && let Some(&range) = frame.ranges().get(index)
            {
                pool.retain(range);
            }
            pool.completed(sent.raw_range(index).0);
            self.completed += 1;
        }
        received
    }

    fn reclaim(&mut self, _pool: &mut Pool) -> usize {
        core::mem::take(&mut self.completed)
    }

    fn flush(&mut self, _pool: &mut Pool) {}

    fn release(&mut self, _range: Range) {
        debug_assert!(false, "all ranges are in the own segment");
    }

    fn read(&self, _range: Range, _out: &mut [u8]) -> usize {
        0
    }

    fn view(&self, _range: Range) -> Option<View> {
        None
    }

    fn arm(&mut self) -> bool {
        self.queue.is_empty()
    }

    fn disarm(&mut self) {}

    fn state(&self) -> LinkState {
        LinkState::Up
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn received(endpoint: &mut Endpoint<LoopDriver>, frame: &mut Frame) -> bool {
        endpoint.receive(frame, &mut 1)
    }

    #[test]
    fn what_is_sent_is_received_without_a_copy() {
        let mut endpoint = LoopDriver::endpoint(2048, 4).unwrap();
        let waiting = endpoint.driver.waiting();
        let block = endpoint.pool.alloc().unwrap();
        let range = endpoint.pool.range(block, 100, 5);
        endpoint
            .pool
            .bytes_mut(range)
            .unwrap()
            .copy_from_slice(b"bytes");
        let mut slot = Slot::new();
        slot.inline_mut(4).unwrap().copy_from_slice(b"head");
        assert!(slot.push_range(range));
        endpoint.transmit(&slot).unwrap();
        assert!(waiting.any() && !endpoint.driver.arm());
        // The sender lets go; the bytes stay.
        endpoint.release(range);
        let mut frame = Frame::new();
        assert!(received(&mut endpoint, &mut frame));
        assert_eq!((frame.head(), frame.ranges()), (&b"head"[..], &[range][..]));
        assert_eq!(endpoint.pool.bytes(range), Some(&b"bytes"[..]));
        assert_eq!(endpoint.pool.references(block), 1);
        endpoint.release_frame(&frame);
        assert_eq!(endpoint.pool.free_blocks(), 4);
        endpoint.pool.invariants();
        assert!(!waiting.any() && endpoint.driver.arm());
        assert_eq!(endpoint.reclaim(), 1);
        assert!(!received(&mut endpoint, &mut frame));
    }

    #[test]
    fn bounded() {
        let mut endpoint = LoopDriver::endpoint(2048, 4).unwrap();
        let mut slot = Slot::new();
        slot.inline_mut(1).unwrap().fill(7);
        for left in (0..SLOTS).rev() {
            assert!(endpoint.transmit(&slot).is_ok());
            assert_eq!(endpoint.driver.room(), left);
        }
        assert!(endpoint.transmit(&slot).is_err());
        for (block, blocks) in [(1024, 4), (3000, 4), (2048, 0), (1 << 20, 1 << 12)] {
            assert!(LoopDriver::endpoint(block, blocks).is_none());
        }
    }
}
