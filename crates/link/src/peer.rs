//! The driver between two memories: each side writes its own and reads the other's.
//!
//! In one process ([`pair`]) it is a link for tests and benchmarks; between two processes it is the
//! heart of the channel driver, which adds discovery, mapping, wake-ups and the death notice.

use crate::driver::{Capabilities, Checksum, Driver, LinkState, Medium, Received};
use crate::endpoint::Endpoint;
use crate::frame::{Bounds, Frame};
use crate::layout::{ASLEEP, CLOSED, COMPLETED, Layout, RECEIVED, SLOTS};
use crate::pool::Pool;
use crate::ring::{
    Control, SleepFlags, SlotConsumer, SlotProducer, WordConsumer, WordProducer, Words,
};
use crate::segment::{HeapMemory, Memory, OwnBlocks, PeerBlocks, Range, Space, View};
use crate::slot::{RANGES_MAX, SLOT_WORDS, Slot};
use crate::sync::Ordering;
use alloc::sync::Arc;

/// Wakes the process at the other end.
pub trait Doorbell {
    /// Rings. Failure cannot be helped: the other side's death is noticed elsewhere.
    fn ring(&self);
}

/// Nobody sleeps: both ends are polled by one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDoorbell;

impl Doorbell for NoDoorbell {
    fn ring(&self) {}
}

/// What a channel carries: everything, since memory neither cuts nor damages.
pub const CHANNEL_CAPABILITIES: Capabilities = Capabilities {
    medium: Medium::Ip,
    mtu: 65_535,
    tcp_segmentation: 0,
    udp_segmentation: true,
    gather: RANGES_MAX as u8,
    checksum: Checksum::None,
    hardware_address: [0; 6],
};

/// One end of a channel: the four rings over two memories.
pub struct PeerDriver<B> {
    send: SlotProducer,
    receive: SlotConsumer,
    /// "I am done with these bytes of yours."
    give_back: WordProducer,
    /// "I am done with these bytes of yours", said by the peer.
    come_back: WordConsumer,
    sleep: SleepFlags,
    own_closed: Control,
    peer_closed: Control,
    peer_blocks: PeerBlocks,
    bounds: Bounds,
    capabilities: Capabilities,
    doorbell: B,
    /// Own ranges at the peer, and how many its completion ring can return at a time.
    outstanding: u32,
    outstanding_max: u32,
    /// The peer's ranges here, and how many our completion ring can return at a time.
    held: u32,
    held_max: u32,
    /// Something was published since the last flush.
    dirty: bool,
    /// Wake-ups sent, and completions that did not fit.
    stats: PeerStats,
}

/// What a channel end counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerStats {
    /// Doorbells rung.
    pub wakeups: u64,
    /// Flushes that needed no doorbell because the peer was awake.
    pub wakeups_suppressed: u64,
    /// Completions dropped because the peer never takes its completions: hostile.
    pub completions_lost: u64,
}

impl<B: Doorbell> PeerDriver<B> {
    /// The end that writes `own` and reads `peer`. `None` when a layout is invalid or does not fit
    /// its memory.
    pub fn new(
        own: (&Arc<dyn Memory>, &Layout),
        peer: (&Arc<dyn Memory>, &Layout),
        doorbell: B,
    ) -> Option<Self> {
        let ((own, ours), (peer, theirs)) = (own, peer);
        for (memory, layout) in [(own, ours), (peer, theirs)] {
            if !layout.is_valid() || layout.bytes() > memory.len() {
                return None;
            }
        }
        let slots = |m, l: &Layout| Words::new(m, SLOTS, l.slots as usize * SLOT_WORDS);
        let words = |m, l: &Layout| Words::new(m, l.completions_at(), l.completions as usize);
        let control = Control::new;
        Some(PeerDriver {
            send: SlotProducer::new(slots(own, ours)?, ours.slots, control(peer, RECEIVED)?)?,
            receive: SlotConsumer::new(
                slots(peer, theirs)?,
                theirs.slots,
                control(own, RECEIVED)?,
            )?,
            give_back: WordProducer::new(
                words(own, ours)?,
                ours.completions,
                control(peer, COMPLETED)?,
            )?,
            come_back: WordConsumer::new(
                words(peer, theirs)?,
                theirs.completions,
                control(own, COMPLETED)?,
            )?,
            sleep: SleepFlags::new(control(own, ASLEEP)?, control(peer, ASLEEP)?),
            own_closed: control(own, CLOSED)?,
            peer_closed: control(peer, CLOSED)?,
            peer_blocks: PeerBlocks::new(peer.clone(), theirs.blocks_at(), theirs.segment_bytes())?,
            bounds: Bounds {
                space: Space::Peer,
                segment_bytes: theirs.segment_bytes() as u32,
                block_bytes: theirs.block_bytes,
            },
            capabilities: CHANNEL_CAPABILITIES,
            doorbell,
            outstanding: 0,
            outstanding_max: theirs.completions,
            held: 0,
            held_max: ours.completions - ours.completions.min(RANGES_MAX as u32),
            dirty: false,
            stats: PeerStats::default(),
        })
    }

    /// What was counted so far.
    pub fn stats(&self) -> PeerStats {
        self.stats
    }

    /// What wakes the other side.
    pub fn doorbell(&self) -> &B {
        &self.doorbell
    }

    /// Lowers the MTU (bytes of one IP packet) from 65,535, for links that should behave like
    /// narrower ones.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.capabilities.mtu = mtu.clamp(68, 65_535);
    }

    /// Whether [`Driver::receive`] would return something.
    fn may_receive(&self) -> bool {
        self.held <= self.held_max && self.receive.has_entry()
    }

    /// Says goodbye: the peer sees [`LinkState::Gone`]. Also done on drop.
    pub fn close(&mut self) {
        self.own_closed.store(1, Ordering::Release);
        if self.sleep.must_wake() {
            self.doorbell.ring();
        }
    }
}

impl<B: Doorbell> Driver for PeerDriver<B> {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    #[inline]
    fn transmit(&mut self, _pool: &mut Pool, slot: &Slot) -> bool {
        let ranges = slot.range_count() as u32;
        if self.outstanding + ranges > self.outstanding_max || !self.send.push(slot) {
            return false;
        }
        self.outstanding += ranges;
        self.dirty = true;
        true
    }

    fn room(&mut self) -> usize {
        let by_completions = (self.outstanding_max - self.outstanding) / RANGES_MAX as u32;
        self.send.room().min(by_completions) as usize
    }

    #[inline]
    fn receive(&mut self, _pool: &mut Pool, frame: &mut Frame) -> Received {
        if self.held > self.held_max {
            return Received::Empty;
        }
        let PeerDriver {
            receive, bounds, ..
        } = self;
        match frame.load(bounds, |slot| receive.pop(slot)) {
            Received::Frame => {
                self.held += frame.ranges().len() as u32;
                Received::Frame
            }
            other => other,
        }
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut Pool) -> usize {
        let mut count = 0;
        while count < self.outstanding_max as usize {
            let Some(offset) = self.come_back.pop() else {
                break;
            };
            pool.completed(offset);
            self.outstanding = self.outstanding.saturating_sub(1);
            count += 1;
        }
        // At once, not with the batch: what is sent next may use the room that this has made at the
        // peer, and the peer must know of that room by then.
        self.come_back.publish();
        count
    }

    fn flush(&mut self, _pool: &mut Pool) {
        self.dirty |= self.receive.publish();
        if core::mem::take(&mut self.dirty) {
            if self.sleep.must_wake() {
                self.stats.wakeups += 1;
                self.doorbell.ring();
            } else {
                self.stats.wakeups_suppressed += 1;
            }
        }
    }

    #[inline]
    fn release(&mut self, range: Range) {
        self.held = self.held.saturating_sub(1);
        if !self.give_back.push(range.offset) {
            self.stats.completions_lost += 1;
        }
        self.dirty = true;
    }

    #[inline]
    fn read(&self, range: Range, out: &mut [u8]) -> usize {
        self.peer_blocks.read(range, out)
    }

    fn view(&self, range: Range) -> Option<View> {
        self.peer_blocks.view(range)
    }

    fn arm(&mut self) -> bool {
        self.sleep.announce();
        let idle = !self.may_receive()
            && !self.come_back.has_entry()
            && !self.send.has_news()
            && self.peer_closed.load(Ordering::Acquire) == 0;
        if !idle {
            self.sleep.withdraw();
        }
        idle
    }

    fn disarm(&mut self) {
        self.sleep.withdraw();
    }

    fn state(&self) -> LinkState {
        if self.peer_closed.load(Ordering::Acquire) == 0 {
            LinkState::Up
        } else {
            LinkState::Gone
        }
    }
}

impl<B> Drop for PeerDriver<B> {
    fn drop(&mut self) {
        self.own_closed.store(1, Ordering::Release);
    }
}

/// Own memory made ready: the pool over its blocks. `None` when the layout is invalid or does not
/// fit, or the memory has been claimed before.
pub fn own_pool(memory: &Arc<dyn Memory>, layout: &Layout) -> Option<Pool> {
    if !layout.is_valid() || layout.bytes() > memory.len() {
        return None;
    }
    let bytes = OwnBlocks::new(memory.clone(), layout.blocks_at(), layout.segment_bytes())?;
    Some(Pool::new(bytes, layout.block_bytes, 0))
}

/// Two connected ends over heap memory, for one process.
///
/// # Panics
/// When the layout is invalid.
pub fn pair<B: Doorbell>(
    layout: Layout,
    bells: (B, B),
) -> (Endpoint<PeerDriver<B>>, Endpoint<PeerDriver<B>>) {
    assert!(layout.is_valid(), "an invalid layout");
    let a: Arc<dyn Memory> = Arc::new(HeapMemory::new(layout.bytes()));
    let b: Arc<dyn Memory> = Arc::new(HeapMemory::new(layout.bytes()));
    let end = |own, peer, bell| {
        let driver = PeerDriver::new((own, &layout), (peer, &layout), bell)?;
        Some(Endpoint::new(own_pool(own, &layout)?, driver))
    };
    match (end(&a, &b, bells.0), end(&b, &a, bells.1)) {
        (Some(left), Some(right)) => (left, right),
        _ => unreachable!("fresh memory of the layout's own size"),
    }
}

#[cfg(all(test, not(loom)))]
mod hostile_tests;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, not(loom)))]
mod twin_tests;
