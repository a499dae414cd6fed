//! What arrived in order and the application has not read: references into segments, ours or the
//! peer's.

use alloc::collections::VecDeque;

use gannet_link::{Driver, Endpoint, Range, Space};

use crate::link::Link;

/// Received payload of at most this many bytes is moved into a shared block when it lies in the
/// peer's segment, where a block is a large thing to hold on to.
const SMALL_IN_PEER: u32 = 512;

/// The same for payload in our own segment: a quarter of a block, so that frames of an ordinary
/// Ethernet do not pin ten times their size.
fn small_in_own<D: Driver>(endpoint: &Endpoint<D>) -> u32 {
    endpoint.pool.block_bytes() / 4
}

/// Unread bytes in sequence order.
#[derive(Debug, Default)]
pub(super) struct RecvQueue {
    ranges: VecDeque<Range>,
    bytes: u32,
}

impl RecvQueue {
    /// Nothing to read.
    pub(super) const fn new() -> Self {
        RecvQueue {
            ranges: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Unread bytes.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.bytes
    }

    /// Appends a range and its reference. Of an empty one nothing is kept: whoever takes blocks
    /// would take it for the end.
    #[inline]
    pub(super) fn push<D: Driver>(&mut self, endpoint: &mut Endpoint<D>, range: Range) {
        if range.len == 0 {
            endpoint.release(range);
            return;
        }
        self.bytes += range.len;
        if let Some(last) = self.ranges.back_mut()
            && range.space == Space::Own
            && last.space == Space::Own
            && last.end() == range.offset
            && endpoint.pool.block_of(*last) == endpoint.pool.block_of(range)
        {
            last.len += range.len;
            endpoint.release(range);
            return;
        }
        self.ranges.push_back(range);
    }

    /// Copies bytes into `out` and removes them; how many.
    #[inline]
    pub(super) fn read<D: Driver>(&mut self, endpoint: &mut Endpoint<D>, out: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|r| !r.is_empty()) {
            let Some(first) = self.ranges.front_mut() else {
                break;
            };
            let n = endpoint.read(*first, rest).min(first.len as usize);
            done += n;
            self.bytes -= n as u32;
            *first = first.skip(n as u32);
            if first.len == 0 || n == 0 {
                self.bytes -= first.len;
                if !planted!(ReadLeaked) {
                    endpoint.release(*first);
                }
                self.ranges.pop_front();
            }
        }
        done
    }

    /// Copies bytes into `out` from position `skip` on and leaves them; how many.
    pub(super) fn peek<D: Driver>(
        &self,
        endpoint: &Endpoint<D>,
        skip: usize,
        out: &mut [u8],
    ) -> usize {
        let (mut skip, mut done) = (skip, 0);
        for &range in &self.ranges {
            let Some(rest) = out.get_mut(done..).filter(|r| !r.is_empty()) else {
                break;
            };
            let over = skip.min(range.len as usize);
            skip -= over;
            if (over as u32) < range.len {
                done += endpoint.read(range.skip(over as u32), rest);
            }
        }
        done
    }

    /// Removes up to `most` bytes; how many.
    pub(super) fn discard<D: Driver>(&mut self, endpoint: &mut Endpoint<D>, most: usize) -> usize {
        let mut left = most;
        while left > 0
            && let Some(first) = self.ranges.front_mut()
        {
            let n = left.min(first.len as usize);
            left -= n;
            self.bytes -= n as u32;
            if n < first.len as usize {
                *first = first.skip(n as u32);
            } else {
                // whole, so that it still names its block
                endpoint.release(*first);
                self.ranges.pop_front();
            }
        }
        most - left
    }

    /// Takes the first range with its reference.
    pub(super) fn pop(&mut self) -> Option<Range> {
        let range = self.ranges.pop_front()?;
        self.bytes -= range.len;
        Some(range)
    }

    /// Lets go of everything.
    pub(super) fn clear<D: Driver>(&mut self, endpoint: &mut Endpoint<D>) {
        for range in self.ranges.drain(..) {
            endpoint.release(range);
        }
        self.ranges.shrink_to_fit();
        self.bytes = 0;
    }
}

/// Turns what is left of `frame` into ranges worth keeping: inline bytes and small ranges are moved
/// into the link's shared block, large ones are kept where they are. Every range handed to `keep`
/// is owed a release; what is not kept is released here. `false` when memory ran out on the way:
/// the rest of the payload was then dropped, as if it had been lost.
pub(super) fn keep_payload<D: Driver>(
    link: &mut Link<D>,
    frame: &gannet_link::Frame,
    mut keep: impl FnMut(&mut Endpoint<D>, Range),
) -> bool {
    let Link {
        endpoint, small, ..
    } = link;
    let mut whole = true;
    let mut head = frame.head();
    while whole && !head.is_empty() {
        match endpoint.pool.append(small, head) {
            Some(range) => {
                head = head.get(range.len as usize..).unwrap_or(&[]);
                keep(endpoint, range);
            }
            None => whole = false,
        }
    }
    for &range in frame.ranges() {
        let limit = match range.space {
            Space::Peer => SMALL_IN_PEER,
            Space::Own => small_in_own(endpoint),
        };
        if !whole || range.len == 0 {
            endpoint.release(range);
        } else if range.len > limit {
            keep(endpoint, range);
        } else {
            whole = move_small(endpoint, small, range, &mut keep);
        }
    }
    whole
}

/// Copies `range` into the shared block, in two pieces where it ends in between.
fn move_small<D: Driver>(
    endpoint: &mut Endpoint<D>,
    small: &mut gannet_link::Arena,
    range: Range,
    keep: &mut impl FnMut(&mut Endpoint<D>, Range),
) -> bool {
    let mut rest = range;
    while rest.len > 0 {
        let Some(to) = endpoint.pool.reserve_in(small, rest.len as usize) else {
            endpoint.release(range);
            return false;
        };
        let wrong = planted!(SmallPieceWrong) && rest.len > to.len;
        endpoint.copy(rest.skip(u32::from(wrong)), to);
        rest = rest.skip(to.len);
        keep(endpoint, to);
    }
    endpoint.release(range);
    true
}
