//! A socket's blocks under way: copy in, count, take back.
//!
//! Every block belongs to one socket and one link, and the socket keeps one reference to it. When
//! that reference is the only one left, every transmission from the block has been completed (on a
//! channel: read by the peer's application) and the block's bytes stop counting. That is exact,
//! needs no list of datagrams, and costs a look at one counter per block.
//!
//! ```text
//!   blocks of one socket:  [ taken back ... | under way | under way | open: 5,120 used ]
//!                             references 1      3            12         2
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gannet_link::{BlockId, Driver, Pool, Range};
use gannet_wire::checksum::{self, Sum};

use crate::link::{Link, LinkId};

/// Datagrams begin at multiples of this: what a sender writes next never shares a cache line pair
/// with what a receiver reads now, and no block holds more than 128 to 8192 of them.
const STRIDE: u32 = 128;
/// Ranges one socket may have under way on one link: the completion rings of channels have 8,192
/// places, and TCP needs some.
const RANGES_MAX: u32 = 2048;
/// A rest of the open block below this is not worth a range of its own.
const REST_MIN: u32 = 2048;
/// Most ranges in one frame.
pub(super) const GATHER: usize = 8;

/// A socket's blocks on one link.
struct OnLink {
    link: LinkId,
    blocks: VecDeque<BlockId>,
    /// Bytes used of the last block; a block's length when none is open.
    used: u32,
    /// Ranges handed over since they were counted last: never too few.
    ranges: u32,
}

/// All blocks of a socket.
pub(super) struct SendBlocks {
    limit: u32,
    links: Vec<OnLink>,
}

/// Bytes copied into blocks, not yet handed over.
pub(super) struct Gathered {
    pub(super) ranges: [Range; GATHER],
    pub(super) count: usize,
    /// Of all bytes, if it was asked for.
    pub(super) sum: Sum,
    used_before: u32,
    blocks_before: usize,
}

/// Copies payload into blocks and sums it if the link wants a checksum from us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Summing {
    Yes,
    No,
}

impl SendBlocks {
    pub(super) const fn new(limit: u32) -> Self {
        SendBlocks {
            limit,
            links: Vec::new(),
        }
    }

    pub(super) fn set_limit(&mut self, bytes: u32) {
        self.limit = bytes;
    }

    /// Whether no block is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.links.iter().all(|l| l.blocks.is_empty())
    }

    /// Copies `data` into blocks of `link`; `None`, and nothing happened, when the send buffer or
    /// the link is full. The last piece may be odd, others are not (blocks have even sizes).
    #[inline]
    pub(super) fn gather<D: Driver>(
        &mut self,
        id: LinkId,
        link: &mut Link<D>,
        data: &[u8],
        summing: Summing,
    ) -> Option<Gathered> {
        let limit = self.limit;
        let here = self.on(id);
        if !here.make_room(link, data.len(), limit) {
            return None;
        }
        let pool = &mut link.endpoint.pool;
        let mut gathered = Gathered {
            ranges: [Range::EMPTY; GATHER],
            count: 0,
            sum: Sum::new(),
            used_before: here.used,
            blocks_before: here.blocks.len(),
        };
        let mut rest = data;
        while !rest.is_empty() {
            let place = here.take(pool, rest.len());
            let entry = gathered.ranges.get_mut(gathered.count);
            let (Some(range), Some(entry)) = (place, entry) else {
                self.undo(id, link, &gathered);
                return None;
            };
            *entry = range;
            gathered.count += 1;
            let (now, later) = rest.split_at_checked(range.len as usize)?;
            let to = pool.bytes_mut(range)?;
            match summing {
                Summing::Yes => {
                    let part = checksum::copy_and_sum(now, to);
                    gathered.sum = gathered.sum.combine(part, false);
                }
                Summing::No => to.copy_from_slice(now),
            }
            rest = later;
        }
        here.ranges += gathered.count as u32;
        Some(gathered)
    }

    /// The link did not take what was gathered last.
    pub(super) fn undo<D: Driver>(&mut self, id: LinkId, link: &mut Link<D>, what: &Gathered) {
        let here = self.on(id);
        while here.blocks.len() > what.blocks_before {
            if let Some(block) = here.blocks.pop_back() {
                release(&mut link.endpoint.pool, block);
            }
        }
        here.used = what.used_before;
    }

    /// What was gathered last was handed over in `ranges` pieces more.
    pub(super) fn count_more(&mut self, id: LinkId, ranges: u32) {
        let here = self.on(id);
        here.ranges = here.ranges.saturating_add(ranges);
    }

    /// Takes back blocks that have been completed, oldest first.
    pub(super) fn reclaim<D: Driver>(&mut self, id: LinkId, link: &mut Link<D>) {
        if let Some(here) = self.links.iter_mut().find(|l| l.link == id) {
            here.reclaim_front(&mut link.endpoint.pool);
        }
    }

    /// Links on which blocks are under way.
    pub(super) fn link_at(&self, index: usize) -> Option<LinkId> {
        self.links.get(index).map(|l| l.link)
    }

    /// Whether a datagram of `len` bytes could be sent on `link`.
    pub(super) fn has_room<D: Driver>(
        &mut self,
        id: LinkId,
        link: &mut Link<D>,
        len: usize,
    ) -> bool {
        let limit = self.limit;
        self.on(id).make_room(link, len, limit)
    }

    /// Lets go of every block on `link`: what is under way goes on without the socket.
    pub(super) fn abandon<D: Driver>(&mut self, id: LinkId, link: &mut Link<D>) {
        if let Some(at) = self.links.iter().position(|l| l.link == id) {
            let here = self.links.swap_remove(at);
            for block in here.blocks {
                release(&mut link.endpoint.pool, block);
            }
        }
    }

    /// The blocks on one link: few links, the one used last first.
    #[inline]
    fn on(&mut self, link: LinkId) -> &mut OnLink {
        let at = match self.links.iter().position(|l| l.link == link) {
            Some(at) => at,
            None => {
                self.links.push(OnLink {
                    link,
                    blocks: VecDeque::new(),
                    used: u32::MAX,
                    ranges: 0,
                });
                self.links.len() - 1
            }
        };
        self.links.swap(0, at);
        &mut self.links[0]
    }
}

impl OnLink {
    /// Whether `len` bytes may be copied in now, after taking back what can be.
    #[inline]
    fn make_room<D: Driver>(&mut self, link: &mut Link<D>, len: usize, limit: u32) -> bool {
        if self.fits(&link.endpoint.pool, len, limit) && roomy(link) {
            return true;
        }
        self.make_room_slowly(link, len, limit)
    }

    #[cold]
    fn make_room_slowly<D: Driver>(&mut self, link: &mut Link<D>, len: usize, limit: u32) -> bool {
        link.endpoint.reclaim();
        self.reclaim_all(&mut link.endpoint.pool);
        self.fits(&link.endpoint.pool, len, limit) && roomy(link)
    }

    /// Within the socket's limits, and a quarter of the pool stays for others.
    #[inline]
    fn fits(&self, pool: &Pool, len: usize, limit: u32) -> bool {
        let block = pool.block_bytes();
        let rest = block.saturating_sub(self.used) as usize;
        if len <= rest {
            return self.ranges < RANGES_MAX;
        }
        let fresh = len.div_ceil(block.max(1) as usize);
        let most = (limit / block.max(1)).max(2) as usize;
        let within = self.blocks.len() + fresh <= most || self.blocks.is_empty();
        let left = pool.free_blocks() >= fresh + pool.blocks() / 4;
        within && left && self.ranges < RANGES_MAX
    }

    /// The next range for some of `len` bytes: the rest of the open block if all fits or it is
    /// worth it, else a fresh block.
    #[inline]
    fn take(&mut self, pool: &mut Pool, len: usize) -> Option<Range> {
        let size = pool.block_bytes();
        let rest = size.saturating_sub(self.used);
        let len = len.min(size as usize) as u32;
        let fresh = rest < len && (rest < REST_MIN || len < size);
        if fresh || self.blocks.is_empty() {
            self.blocks.push_back(pool.alloc()?);
            self.used = 0;
        }
        let block = *self.blocks.back()?;
        let range = pool.range(block, self.used, len.min(size - self.used));
        self.used = (self.used + range.len).next_multiple_of(STRIDE).min(size);
        Some(range)
    }

    fn reclaim_front(&mut self, pool: &mut Pool) {
        while let Some(&block) = self.blocks.front() {
            if pool.references(block) > 1 {
                break;
            }
            release(pool, block);
            self.blocks.pop_front();
        }
        self.after_reclaim(pool);
    }

    fn reclaim_all(&mut self, pool: &mut Pool) {
        let open = self.blocks.back().copied();
        self.blocks.retain(|&block| {
            let busy = pool.references(block) > 1;
            if !busy {
                release(pool, block);
            }
            busy
        });
        if self.blocks.back().copied() != open {
            self.used = pool.block_bytes();
        }
        self.after_reclaim(pool);
        let references = self.blocks.iter().map(|&b| pool.references(b) - 1);
        self.ranges = references.sum();
    }

    fn after_reclaim(&mut self, pool: &Pool) {
        if self.blocks.is_empty() {
            self.used = pool.block_bytes();
            self.ranges = 0;
        }
    }
}

/// Whether the driver has room beyond an eighth of its capacity, which UDP leaves to others: a
/// receiver that does not read must not stop TCP on the same link.
#[inline]
fn roomy<D: Driver>(link: &mut Link<D>) -> bool {
    link.endpoint.driver.room() > link.capacity / 8
}

fn release(pool: &mut Pool, block: BlockId) {
    pool.release(pool.range(block, 0, 0));
}
