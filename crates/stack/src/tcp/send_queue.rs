//! What the application wrote and the peer has not acknowledged: references into the segment.
//!
//! ```text
//!     snd.una        snd.nxt                    end
//!        |  in flight   |        unsent          |
//!   [ entry ][ entry ][ entry ][ entry (open) ...]
//! ```
//! Bytes are copied once, into blocks; a transmission gathers ranges of them, a retransmission
//! gathers the same ranges again. Where checksums are made in software each entry carries the sum
//! of its bytes, made while copying, so that sending adds a few numbers instead of reading data.

use alloc::collections::VecDeque;

use gannet_link::{Arena, OwnedBlock, Pool, Range};
use gannet_wire::checksum::{self, Sum};

use super::seq::SeqNum;

/// Contiguous bytes in one block.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: SeqNum,
    range: Range,
    /// Sum of the bytes as if they started at an even offset, when sums are kept.
    sum: Option<u16>,
}

/// Queued bytes in sequence order.
#[derive(Debug)]
pub(super) struct SendQueue {
    entries: VecDeque<Entry>,
    /// Sequence number of the first byte queued: `snd.una`, as far as data goes.
    start: SeqNum,
    end: SeqNum,
    /// The block that small writes are gathered in.
    arena: Arena,
    /// Whether sums are kept: only on links where the stack makes checksums.
    sums: bool,
    /// Index of the entry gathered from last: where the next gathering most likely starts.
    hint: usize,
}

impl SendQueue {
    /// Nothing queued; the first byte will be `start`.
    pub(super) fn new(start: SeqNum, sums: bool) -> Self {
        SendQueue {
            entries: VecDeque::new(),
            start,
            end: start,
            arena: Arena::new(),
            sums,
            hint: 0,
        }
    }

    /// Whether sums are kept.
    pub(super) fn sums(&self) -> bool {
        self.sums
    }

    /// Sequence number behind the last byte.
    #[inline]
    pub(super) fn end(&self) -> SeqNum {
        self.end
    }

    /// Number of bytes.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Copies the first bytes of `data` (at most `limit`, at most one block's rest) to the end; how
    /// many. 0 when no block is free.
    #[inline]
    pub(super) fn append(&mut self, pool: &mut Pool, data: &[u8], limit: u32) -> u32 {
        let wanted = data.len().min(limit as usize);
        let Some(range) = pool.reserve_in(&mut self.arena, wanted) else {
            return 0;
        };
        pool.expect_more(range);
        let n = range.len as usize;
        let (Some(from), Some(to)) = (data.get(..n), pool.bytes_mut(range)) else {
            return 0;
        };
        let sum = if self.sums {
            Some(checksum::copy_and_sum(from, to).fold())
        } else {
            to.copy_from_slice(from);
            None
        };
        self.push(pool, range, sum);
        range.len
    }

    /// Queues a block that the application filled in place.
    pub(super) fn append_block(&mut self, pool: &mut Pool, block: OwnedBlock, len: usize) -> bool {
        let Some(range) = pool.attach(block, len) else {
            return false;
        };
        let bytes = pool.bytes(range).filter(|_| self.sums);
        let sum = bytes.map(|b| checksum::sum(b).fold());
        self.push(pool, range, sum);
        true
    }

    fn push(&mut self, pool: &mut Pool, range: Range, sum: Option<u16>) {
        let start = self.end;
        self.end = start + range.len;
        if let Some(last) = self.entries.back_mut() {
            let adjacent = last.range.end() == range.offset;
            // sums of odd-length pieces would have to be shifted: such pieces stay apart
            let summable = last.sum.is_none() || last.range.len % 2 == 0;
            if adjacent && summable && pool.block_of(last.range) == pool.block_of(range) {
                last.range.len += range.len;
                last.sum = last.sum.zip(sum).map(|(a, b)| {
                    Sum::from_folded(a)
                        .combine(Sum::from_folded(b), false)
                        .fold()
                });
                pool.release(range);
                return;
            }
        }
        self.entries.push_back(Entry { start, range, sum });
    }

    /// The peer has everything before `una`: lets go of it.
    #[inline]
    pub(super) fn acknowledge(&mut self, pool: &mut Pool, una: SeqNum) {
        let una = una.min(self.end);
        if una.before_eq(self.start) {
            return;
        }
        self.start = una;
        while let Some(first) = self.entries.front_mut() {
            let covered = una - first.start;
            if covered >= first.range.len {
                let range = first.range;
                self.entries.pop_front();
                self.hint = self.hint.saturating_sub(1);
                if !planted!(SentLeaked) {
                    pool.release(range);
                }
                if planted!(SentReleasedTwice) {
                    pool.release(range);
                }
                continue;
            }
            if covered > 0 {
                first.range = first.range.skip(covered);
                first.start = una;
                first.sum = None;
            }
            break;
        }
        if self.entries.is_empty() {
            pool.close(&mut self.arena);
        }
    }

    /// Lets go of everything.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        for entry in self.entries.drain(..) {
            pool.release(entry.range);
        }
        pool.close(&mut self.arena);
        self.start = self.end;
        self.entries.shrink_to_fit();
    }

    /// Hands up to `len` bytes from `seq` on to `take`, range by range, with the sum of each where
    /// sums are kept; `take` says whether it wants the next one. How many bytes were handed over.
    #[inline]
    pub(super) fn gather(
        &mut self,
        seq: SeqNum,
        len: u32,
        mut take: impl FnMut(Range, Option<u16>) -> bool,
    ) -> u32 {
        let mut at = seq;
        let mut left = len.min(self.end - seq);
        if seq.before(self.start) || seq.after_eq(self.end) {
            return 0;
        }
        let mut index = self.find(seq);
        while left > 0 {
            let Some(entry) = self.entries.get(index) else {
                break;
            };
            let part = entry.range.skip(at - entry.start).front(left);
            let whole = part.len == entry.range.len;
            if !take(part, entry.sum.filter(|_| whole || planted!(SumOfWhole))) {
                break;
            }
            self.hint = index;
            at += part.len;
            left -= part.len;
            index += 1;
        }
        at - seq
    }

    /// Index of the entry that holds `seq`.
    fn find(&self, seq: SeqNum) -> usize {
        for index in [self.hint, self.hint + 1] {
            if let Some(entry) = self.entries.get(index)
                && seq.in_range(entry.start, entry.range.len)
            {
                return index;
            }
        }
        let origin = self.start;
        let after = self
            .entries
            .partition_point(|e| e.start.before_eq(origin) || e.start - origin <= seq - origin);
        after.saturating_sub(1)
    }

    /// Asserts what must always hold; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn invariants(&self) {
        let mut at = self.start;
        // (judged together: there are many, and this is asked after every event of a simulation)
        let (mut contiguous, mut empty) = (true, false);
        let (first, second) = self.entries.as_slices();
        for entries in [first, second] {
            for entry in entries {
                contiguous &= entry.start == at;
                empty |= entry.range.len == 0;
                at += entry.range.len;
            }
        }
        assert!(contiguous, "entries are contiguous");
        assert!(!empty, "no empty entry");
        assert_eq!(at, self.end);
    }
}
