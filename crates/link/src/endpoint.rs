//! Pool and driver of one link together: what the stack sends through and receives from.

use crate::driver::{Capabilities, Driver, LinkState, Received};
use crate::frame::{Frame, SlotFault};
use crate::pool::Pool;
use crate::segment::{Range, Space, View};
use crate::slot::Slot;
use gannet_base::Counters;

/// The driver has no room for another frame now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// One link's segment with its four rings.
pub struct Endpoint<D> {
    /// The blocks of the own segment.
    pub pool: Pool,
    /// What moves slots.
    pub driver: D,
    faults: Counters<SlotFault, { SlotFault::COUNT }>,
}

impl<D: Driver> Endpoint<D> {
    /// An endpoint of `driver` with its pool.
    pub fn new(pool: Pool, driver: D) -> Self {
        Endpoint {
            pool,
            driver,
            faults: Counters::new(),
        }
    }

    /// What the link carries.
    #[inline]
    pub fn capabilities(&self) -> &Capabilities {
        self.driver.capabilities()
    }

    /// Whether the other side is there.
    pub fn state(&self) -> LinkState {
        self.driver.state()
    }

    /// Slots refused so far, by reason.
    pub fn faults(&self) -> &Counters<SlotFault, { SlotFault::COUNT }> {
        &self.faults
    }

    /// Sends `slot`. The blocks of its ranges, all in the own segment, stay alive until the driver
    /// is done with them, whatever happens to the caller's own references.
    ///
    /// # Errors
    /// [`Full`]: nothing was sent; try again after the next poll.
    #[inline]
    pub fn transmit(&mut self, slot: &Slot) -> Result<(), Full> {
        let count = slot.range_count();
        for index in 0..count {
            let (offset, len) = slot.raw_range(index);
            if !self.pool.pin(Range {
                offset,
                len,
                space: Space::Own,
            }) {
                self.unpin(slot, index);
                return Err(Full);
            }
        }
        if self.driver.transmit(&mut self.pool, slot) {
            return Ok(());
        }
        self.unpin(slot, count);
        Err(Full)
    }

    fn unpin(&mut self, slot: &Slot, count: usize) {
        for index in 0..count {
            self.pool.completed(slot.raw_range(index).0);
        }
    }

    /// Fetches the next frame; `false` when there is none. Bad slots on the way are counted.
    /// Looks at no more than `budget` slots, which it lowers.
    #[inline]
    pub fn receive(&mut self, frame: &mut Frame, budget: &mut usize) -> bool {
        while *budget > 0 {
            *budget -= 1;
            match self.driver.receive(&mut self.pool, frame) {
                Received::Frame => return true,
                Received::Empty => return false,
                Received::Refused(fault) => self.faults.add(fault),
            }
        }
        false
    }

    /// Gives a received range, or one of the own segment, back: one reference less.
    #[inline]
    pub fn release(&mut self, range: Range) {
        match range.space {
            Space::Own => self.pool.release(range),
            Space::Peer => self.driver.release(range),
        }
    }

    /// Gives every range of `frame` back.
    pub fn release_frame(&mut self, frame: &Frame) {
        for &range in frame.ranges() {
            self.release(range);
        }
    }

    /// Copies the first bytes of `range` into `out`; how many.
    #[inline]
    pub fn read(&self, range: Range, out: &mut [u8]) -> usize {
        match range.space {
            Space::Peer => self.driver.read(range, out),
            Space::Own => {
                let Some(bytes) = self.pool.bytes(range) else {
                    return 0;
                };
                let n = bytes.len().min(out.len());
                if let (Some(to), Some(from)) = (out.get_mut(..n), bytes.get(..n)) {
                    to.copy_from_slice(from);
                }
                n
            }
        }
    }

    /// Copies the bytes of `from` to `to`, a range of the own segment that nobody else refers to;
    /// as many as the shorter has.
    pub fn copy(&mut self, from: Range, to: Range) {
        if from.space == Space::Peer {
            if let Some(out) = self.pool.bytes_mut(to) {
                self.driver.read(from, out);
            }
            return;
        }
        // two ranges of one segment: through a buffer, so that no two references can overlap
        let mut buffer = [0; 2048];
        let (mut from, mut to) = (from, to.front(from.len));
        while to.len > 0 {
            let want = to.len.min(2048) as usize;
            let Some(part) = buffer.get_mut(..want) else {
                return;
            };
            let n = self.read(from, part) as u32;
            let (Some(out), Some(bytes)) =
                (self.pool.bytes_mut(to.front(n)), part.get(..n as usize))
            else {
                return;
            };
            out.copy_from_slice(bytes);
            if n == 0 {
                return;
            }
            (from, to) = (from.skip(n), to.skip(n));
        }
    }

    /// Copies the first bytes of what is left of `frame` into `out`, inline bytes first; how many.
    pub fn peek(&self, frame: &Frame, out: &mut [u8]) -> usize {
        let head = frame.head();
        let mut n = head.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..n), head.get(..n)) {
            to.copy_from_slice(from);
        }
        for &range in frame.ranges() {
            let Some(rest) = out.get_mut(n..).filter(|r| !r.is_empty()) else {
                break;
            };
            n += self.read(range, rest);
        }
        n
    }

    /// A reader of `range` that outlives the borrow. The reference stays with the caller.
    pub fn view(&self, range: Range) -> Option<View> {
        match range.space {
            Space::Own => self.pool.view(range),
            Space::Peer => self.driver.view(range),
        }
    }

    /// Takes back blocks whose transmission has ended; how many ranges.
    #[inline]
    pub fn reclaim(&mut self) -> usize {
        self.driver.reclaim(&mut self.pool)
    }

    /// Ends a batch: see [`Driver::flush`].
    #[inline]
    pub fn flush(&mut self) {
        self.driver.flush(&mut self.pool);
    }
}
