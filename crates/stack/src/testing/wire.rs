//! An Ethernet or IP link with faults, in virtual time. What one end transmits is copied out at
//! once, goes through the faults, is cut as an interface would cut it, and arrives at the other
//! end.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_link::driver::Received;
use gannet_link::frame::Bounds;
use gannet_link::slot::flags;
use gannet_link::{
    BlockId, Capabilities, Checksum, Driver, Endpoint, Frame, HeapMemory, LinkState, Medium,
    OwnBlocks, Pool, Range, Slot, Space, View,
};

use super::Simulated;
use super::{packet, segment};

/// Bytes that travel inline when the rest lies in blocks.
const INLINE: usize = 64;
/// Slots under way in one direction before the driver is full.
const SLOTS: usize = 256;

/// What goes wrong, in chances per million and frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The frame vanishes.
    pub loss: u32,
    /// It arrives twice.
    pub duplication: u32,
    /// It is delayed by up to `reorder_by` more than others.
    pub reorder: u32,
    /// Most extra delay of a reordered frame.
    pub reorder_by: Duration,
    /// One bit is flipped.
    pub corruption: u32,
    /// Frames of more bytes than this vanish, all of them; 0: none do.
    pub longest: usize,
    /// Only what the first end sends is struck.
    pub one_way: bool,
}

/// A slow place on the wire, with a queue before it; the same both ways.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that wait at most; what comes then is lost.
    pub queue: u64,
    /// With more than this waiting, packets that may be marked are (RFC 3168).
    pub mark_above: u64,
}

/// A wire: what it carries and what goes wrong. The same both ways.
#[derive(Clone, Debug)]
pub struct WireConfig {
    /// Ethernet or bare IP.
    pub medium: Medium,
    /// Largest IP packet.
    pub mtu: u32,
    /// Who computes checksums. With `Partial` super-segments are taken too.
    pub checksum: Checksum,
    /// Whether super-segments arrive whole, as between the ends of a virtual Ethernet, instead of
    /// being cut.
    pub whole: bool,
    /// Time from one end to the other.
    pub delay: Duration,
    /// A slow place; none: as fast as it comes.
    pub bottleneck: Option<Bottleneck>,
    /// What goes wrong.
    pub faults: Faults,
    /// Bytes per block and blocks of each end.
    pub blocks: (u32, u32),
}

impl Default for WireConfig {
    fn default() -> Self {
        WireConfig {
            medium: Medium::Ethernet,
            mtu: 1500,
            checksum: Checksum::Partial,
            whole: false,
            delay: Duration::from_micros(50),
            bottleneck: None,
            faults: Faults::default(),
            blocks: (16 * 1024, 1024),
        }
    }
}

/// A frame on its way.
struct Flying {
    bytes: Vec<u8>,
    gso_size: u16,
    flags: u16,
}

/// One direction, and what is seen of it.
#[derive(Default)]
struct Direction {
    /// By arrival and then by order of sending.
    flying: BTreeMap<(Instant, u64), Flying>,
    sent: u64,
    /// Frames as they were put on the wire, when recording.
    record: Option<Vec<Vec<u8>>>,
    closed: bool,
    /// When the slow place is free again.
    free_at: Instant,
    /// Packets that it marked.
    marked: u64,
}

impl Direction {
    /// When a frame whose packet is `bytes` from `at` on is through the slow place; `None`: its
    /// queue was full.
    fn pass(
        &mut self,
        slow: &Bottleneck,
        at: usize,
        now: Instant,
        bytes: &mut [u8],
    ) -> Option<Instant> {
        let nanos = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / slow.rate);
        let wait = self.free_at.saturating_duration_since(now);
        if wait > nanos(slow.queue) {
            return None;
        }
        if wait > nanos(slow.mark_above) && packet::mark(bytes, at) {
            self.marked += 1;
        }
        self.free_at = self.free_at.max(now) + nanos(bytes.len() as u64);
        Some(self.free_at)
    }
}

/// The wire between two ends.
pub struct Wire {
    config: WireConfig,
    rng: Rng,
    now: Instant,
    ways: [Direction; 2],
}

/// One end of a wire.
pub struct WireDriver {
    wire: Rc<RefCell<Wire>>,
    /// Which of the two directions this end sends into.
    way: usize,
    capabilities: Capabilities,
    /// Offsets of transmitted ranges, to be completed at the next reclaim.
    done: VecDeque<u32>,
    slots: usize,
    blocked: bool,
}

impl Wire {
    /// Both ends of a new wire.
    ///
    /// # Panics
    /// When the figures in `config` are impossible.
    pub fn ends(seed: u64, config: &WireConfig) -> (Endpoint<WireDriver>, Endpoint<WireDriver>) {
        let wire = Rc::new(RefCell::new(Wire {
            config: config.clone(),
            rng: Rng::new(seed),
            now: Instant::ZERO,
            ways: Default::default(),
        }));
        let end = |way: usize| {
            let (block_bytes, blocks) = config.blocks;
            let len = block_bytes as usize * blocks as usize;
            let memory: Arc<dyn gannet_link::Memory> = Arc::new(HeapMemory::new(len));
            let bytes = OwnBlocks::new(memory, 0, len).expect("fresh memory");
            let driver = WireDriver {
                wire: wire.clone(),
                way,
                capabilities: capabilities(config, way),
                done: VecDeque::new(),
                slots: 0,
                blocked: false,
            };
            Endpoint::new(Pool::new(bytes, block_bytes, 16), driver)
        };
        (end(0), end(1))
    }

    /// Sends one frame through the faults.
    fn send(&mut self, way: usize, mut frame: Flying) {
        let Wire {
            config,
            rng,
            now,
            ways,
        } = self;
        let Some(direction) = ways.get_mut(way) else {
            return;
        };
        if let Some(record) = &mut direction.record {
            record.push(frame.bytes.clone());
        }
        let Faults {
            loss,
            duplication,
            reorder,
            reorder_by,
            corruption,
            longest,
            one_way: _,
        } = match config.faults.one_way && way == 1 {
            true => Faults::default(),
            false => config.faults,
        };
        if longest > 0 && frame.bytes.len() > longest {
            return;
        }
        if rng.chance(loss) {
            return;
        }
        let mut through = *now;
        if let Some(slow) = &config.bottleneck {
            let at = segment::link_header_len(config.medium, &frame.bytes);
            match direction.pass(slow, at, *now, &mut frame.bytes) {
                Some(at) => through = at,
                None => return,
            }
        }
        let copies = 1 + u32::from(rng.chance(duplication));
        for _ in 0..copies {
            let mut at = through + config.delay;
            if rng.chance(reorder) {
                let most = u64::try_from(reorder_by.as_nanos()).unwrap_or(u64::MAX);
                at += Duration::from_nanos(rng.below(most));
            }
            let mut bytes = frame.bytes.clone();
            let mut marks = frame.flags;
            if rng.chance(corruption) && !bytes.is_empty() {
                let bit = rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                marks = 0;
            }
            direction.sent += 1;
            let key = (at, direction.sent);
            let copy = Flying {
                bytes,
                gso_size: frame.gso_size,
                flags: marks,
            };
            direction.flying.insert(key, copy);
        }
    }
}

fn capabilities(config: &WireConfig, way: usize) -> Capabilities {
    let partial = config.checksum == Checksum::Partial;
    Capabilities {
        medium: config.medium,
        mtu: config.mtu,
        tcp_segmentation: if partial { 65_535 } else { 0 },
        udp_segmentation: partial,
        gather: 8,
        checksum: config.checksum,
        hardware_address: match config.medium {
            Medium::Ethernet => [2, 0, 0, 0, 0, way as u8 + 1],
            Medium::Ip => [0; 6],
        },
    }
}

impl WireDriver {
    /// Changes what goes wrong from now on, both ways.
    pub fn set_faults(&mut self, faults: Faults) {
        self.wire.borrow_mut().config.faults = faults;
    }

    /// Takes nothing more (`true`), as a full device; or takes again.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Packets of this end that the slow place marked.
    pub fn marked(&self) -> u64 {
        self.wire.borrow().ways[self.way].marked
    }

    /// Starts keeping a copy of every frame that this end sends, before faults.
    pub fn record(&mut self) {
        self.wire.borrow_mut().ways[self.way].record = Some(Vec::new());
    }

    /// The frames kept since the last call.
    pub fn recorded(&mut self) -> Vec<Vec<u8>> {
        let mut wire = self.wire.borrow_mut();
        let record = wire.ways[self.way].record.as_mut();
        record.map(core::mem::take).unwrap_or_default()
    }

    /// Puts a frame of any bytes on the wire towards this end, past the faults.
    pub fn inject(&mut self, bytes: &[u8]) {
        let mut wire = self.wire.borrow_mut();
        let now = wire.now;
        let other = &mut wire.ways[1 - self.way];
        other.sent += 1;
        let key = (now, other.sent);
        let frame = Flying {
            bytes: bytes.to_vec(),
            gso_size: 0,
            flags: 0,
        };
        other.flying.insert(key, frame);
    }

    /// Says goodbye: the other end sees that this one is gone.
    pub fn close(&mut self) {
        self.wire.borrow_mut().ways[self.way].closed = true;
    }

    fn due(&self) -> Option<Flying> {
        let mut wire = self.wire.borrow_mut();
        let now = wire.now;
        let flying = &mut wire.ways[1 - self.way].flying;
        let first = flying.first_entry().filter(|e| e.key().0 <= now)?;
        Some(first.remove())
    }
}

impl Simulated for WireDriver {
    fn advance(&mut self, now: Instant) {
        let mut wire = self.wire.borrow_mut();
        wire.now = wire.now.max(now);
        self.slots = 0;
    }

    fn next_arrival(&self) -> Option<Instant> {
        let wire = self.wire.borrow();
        let (at, _) = *wire.ways[1 - self.way].flying.keys().next()?;
        Some(at)
    }
}

impl Driver for WireDriver {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool {
        if self.room() == 0 {
            return false;
        }
        self.slots += 1;
        let mut bytes = slot.inline().to_vec();
        for index in 0..slot.range_count() {
            let (offset, len) = slot.raw_range(index);
            let range = Range {
                offset,
                len,
                space: Space::Own,
            };
            bytes.extend_from_slice(pool.bytes(range).expect("a pinned range"));
            self.done.push_back(offset);
        }
        let mut wire = self.wire.borrow_mut();
        let header = segment::link_header_len(self.capabilities.medium, &bytes);
        let most = header + self.capabilities.mtu as usize;
        if slot.gso_size() == 0 {
            assert!(bytes.len() <= most, "a frame of {} bytes", bytes.len());
        }
        if wire.config.whole {
            let flags = slot.flags() & flags::GSO_UDP | flags::CSUM_VALID;
            let gso_size = slot.gso_size();
            segment::complete(&mut bytes, slot);
            wire.send(
                self.way,
                Flying {
                    bytes,
                    gso_size,
                    flags,
                },
            );
            return true;
        }
        for bytes in segment::cut(bytes, slot, header) {
            assert!(bytes.len() <= most, "a piece of {} bytes", bytes.len());
            let frame = Flying {
                bytes,
                gso_size: 0,
                flags: 0,
            };
            wire.send(self.way, frame);
        }
        true
    }

    fn room(&mut self) -> usize {
        match self.blocked {
            true => 0,
            false => SLOTS - self.slots.min(SLOTS),
        }
    }

    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        let Some(flying) = self.due() else {
            return Received::Empty;
        };
        let bounds = Bounds {
            space: Space::Own,
            segment_bytes: pool.block_bytes() * pool.blocks() as u32,
            block_bytes: pool.block_bytes(),
        };
        let slot = place(pool, &flying);
        let Some(slot) = slot else {
            // As an interface without a free buffer: the frame is lost.
            return self.receive(pool, frame);
        };
        frame.load(&bounds, |to| {
            *to = slot;
            true
        })
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
        unreachable!("ranges of a wire are in the own segment");
    }

    fn read(&self, _range: Range, _out: &mut [u8]) -> usize {
        0
    }

    fn view(&self, _range: Range) -> Option<View> {
        None
    }

    fn arm(&mut self) -> bool {
        let now = self.wire.borrow().now;
        self.done.is_empty() && self.next_arrival().is_none_or(|at| at > now)
    }

    fn disarm(&mut self) {}

    fn state(&self) -> LinkState {
        match self.wire.borrow().ways[1 - self.way].closed {
            true => LinkState::Gone,
            false => LinkState::Up,
        }
    }
}

/// Puts an arriving frame into blocks: the first bytes inline, and in memory before the rest too.
fn place(pool: &mut Pool, flying: &Flying) -> Option<Slot> {
    let mut slot = Slot::new();
    slot.set_flags(flying.flags);
    slot.set_gso_size(flying.gso_size);
    let inline = flying.bytes.len().min(INLINE);
    let (head, mut rest) = flying.bytes.split_at(inline);
    slot.inline_mut(inline)?.copy_from_slice(head);
    let mut at = INLINE as u32;
    let mut taken: Vec<(BlockId, u32)> = Vec::new();
    while !rest.is_empty() {
        let len = rest.len().min((pool.block_bytes() - at) as usize);
        let block = pool.alloc_for_receive();
        let fits = block.is_some_and(|b| slot.push_range(pool.range(b, at, len as u32)));
        let (Some(block), true) = (block, fits) else {
            for (block, _) in taken {
                pool.release(pool.range(block, 0, 0));
            }
            return None;
        };
        let (now, later) = rest.split_at(len);
        pool.bytes_mut(pool.range(block, at, len as u32))?
            .copy_from_slice(now);
        if at > 0 {
            pool.bytes_mut(pool.range(block, 0, at))?
                .copy_from_slice(head);
            slot.set_flags(slot.flags() | flags::CONTIGUOUS);
        }
        taken.push((block, at));
        at = 0;
        rest = later;
    }
    Some(slot)
}
