//! Datagrams that wait to be read.
//!
//! A super-datagram is one entry, cut while it is read. Payload stays where it arrived. Bytes of
//! the peer's segment cost us nothing but the entry (the peer counts them against the sender's
//! buffer, and stops sending), so four times as many of them may wait as of bytes in our own
//! segment.

use alloc::collections::VecDeque;
use core::net::{IpAddr, SocketAddr};

use gannet_link::{Driver, Endpoint, Range, Space};

use crate::link::{LinkId, Links};

/// Bytes that an entry counts at least, for its bookkeeping.
const ENTRY_MIN: u32 = 128;
/// See the head of this file.
const PEER_FACTOR: u64 = 4;

/// Where one datagram of a batch was put, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// First byte in the caller's buffer.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
    /// The sender.
    pub from: SocketAddr,
}

impl Datagram {
    /// Filler for arrays.
    pub const EMPTY: Datagram = Datagram {
        offset: 0,
        len: 0,
        from: SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0),
    };
}

/// One or many datagrams of equal size (the last may be shorter) from one sender.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) from: SocketAddr,
    pub(super) link: LinkId,
    /// Bytes left.
    pub(super) left: u32,
    /// Bytes in each datagram but the last.
    pub(super) size: u32,
    /// Ranges left in the queue of ranges.
    pub(super) ranges: u32,
    /// What it counts against the limit.
    charge: u32,
    space: Space,
}

impl Entry {
    /// Bytes in the next datagram.
    #[inline]
    pub(super) fn next_len(&self) -> u32 {
        self.size.min(self.left)
    }
}

/// The datagrams of one socket, oldest first.
pub(super) struct ReceiveQueue {
    entries: VecDeque<Entry>,
    /// The ranges of all entries, in order.
    ranges: VecDeque<Range>,
    limit: u32,
    own: u64,
    peer: u64,
}

impl ReceiveQueue {
    pub(super) const fn new(limit: u32) -> Self {
        ReceiveQueue {
            entries: VecDeque::new(),
            ranges: VecDeque::new(),
            limit,
            own: 0,
            peer: 0,
        }
    }

    pub(super) fn set_limit(&mut self, bytes: u32) {
        self.limit = bytes;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether any of them came by `link`.
    pub(super) fn holds(&self, link: LinkId) -> bool {
        self.entries.iter().any(|e| e.link == link)
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.iter().map(|e| u64::from(e.left)).sum()
    }

    /// Whether another `len` bytes may wait here.
    #[inline]
    pub(super) fn has_room(&self, len: u32, space: Space) -> bool {
        let charge = u64::from(charge(len));
        let limit = u64::from(self.limit);
        match space {
            Space::Own => self.own + charge <= limit,
            Space::Peer => self.peer + charge <= limit * PEER_FACTOR,
        }
    }

    /// Adds an entry of `len` bytes in `ranges`, which are now the queue's to release.
    #[inline]
    pub(super) fn push(
        &mut self,
        (from, link): (SocketAddr, LinkId),
        (len, size): (u32, u32),
        space: Space,
        ranges: &[Range],
    ) {
        let charge = charge(len);
        match space {
            Space::Own => self.own += u64::from(charge),
            Space::Peer => self.peer += u64::from(charge),
        }
        self.ranges.extend(ranges);
        self.entries.push_back(Entry {
            from,
            link,
            left: len,
            size,
            ranges: ranges.len() as u32,
            charge,
            space,
        });
    }

    /// The oldest entry.
    #[inline]
    pub(super) fn front(&self) -> Option<Entry> {
        self.entries.front().copied()
    }

    /// Copies the first bytes of the oldest entry into `out`, and leaves them there.
    pub(super) fn peek<D: Driver>(&self, endpoint: &Endpoint<D>, out: &mut [u8]) -> usize {
        let Some(entry) = self.front() else {
            return 0;
        };
        let mut rest = out;
        let mut done = 0;
        for &range in self.ranges.iter().take(entry.ranges as usize) {
            let n = endpoint.read(range, rest);
            done += n;
            let Some(later) = rest.get_mut(n..).filter(|r| !r.is_empty()) else {
                break;
            };
            rest = later;
        }
        done
    }

    /// Copies the first bytes of the oldest entry into `out` and removes `len` bytes: those, and
    /// what did not fit. How many were copied.
    #[inline]
    pub(super) fn take<D: Driver>(
        &mut self,
        endpoint: &mut Endpoint<D>,
        out: &mut [u8],
        len: u32,
    ) -> usize {
        let Some(entry) = self.entries.front_mut() else {
            return 0;
        };
        let mut remove = len.min(entry.left);
        entry.left -= remove;
        let mut rest = out;
        let mut copied = 0;
        while remove > 0 && entry.ranges > 0 {
            let Some(range) = self.ranges.front_mut() else {
                break;
            };
            let here = range.front(remove);
            let n = endpoint.read(
                here,
                rest.get_mut(..rest.len().min(here.len as usize))
                    .unwrap_or(&mut []),
            );
            copied += n;
            rest = rest.get_mut(n..).unwrap_or(&mut []);
            remove -= here.len;
            if here.len == range.len {
                // Whole, so that it still names its block.
                if !planted!(DatagramLeaked) {
                    endpoint.release(*range);
                }
                self.ranges.pop_front();
                entry.ranges -= 1;
            } else {
                *range = range.skip(here.len);
            }
        }
        if entry.left == 0 {
            self.pop(endpoint);
        }
        copied
    }

    /// Removes the oldest entry with all that is left of it.
    fn pop<D: Driver>(&mut self, endpoint: &mut Endpoint<D>) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        for range in self
            .ranges
            .drain(..(entry.ranges as usize).min(self.ranges.len()))
        {
            endpoint.release(range);
        }
        self.uncharge(&entry);
    }

    fn uncharge(&mut self, entry: &Entry) {
        let charge = u64::from(entry.charge);
        match entry.space {
            Space::Own => self.own -= charge,
            Space::Peer => self.peer -= charge,
        }
    }

    /// Whether `len` bytes could wait here if nothing else did.
    pub(super) fn could_hold(&self, len: u32, space: Space) -> bool {
        let charge = u64::from(charge(len));
        let limit = u64::from(self.limit);
        match space {
            Space::Own => charge <= limit,
            Space::Peer => charge <= limit * PEER_FACTOR,
        }
    }

    /// Removes the oldest entry; how many datagrams it was, `None` when there was none.
    pub(super) fn drop_oldest<D: Driver>(&mut self, links: &mut Links<D>) -> Option<u64> {
        let entry = self.front()?;
        match links.get_mut(entry.link) {
            Some(link) => self.pop(&mut link.endpoint),
            None => {
                // the link is gone, and its memory with it
                self.entries.pop_front();
                let ranges = (entry.ranges as usize).min(self.ranges.len());
                self.ranges.drain(..ranges);
                self.uncharge(&entry);
            }
        }
        Some(datagrams(entry.left, entry.size))
    }

    /// Removes every entry that came by `link`; how many datagrams.
    pub(super) fn forget<D: Driver>(&mut self, link: LinkId, endpoint: &mut Endpoint<D>) -> u64 {
        let mut lost = 0;
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            let ours = entry.link == link;
            for _ in 0..entry.ranges {
                match self.ranges.pop_front() {
                    Some(range) if ours => endpoint.release(range),
                    Some(range) => self.ranges.push_back(range),
                    None => {}
                }
            }
            if ours {
                lost += datagrams(entry.left, entry.size);
                self.uncharge(&entry);
            } else {
                self.entries.push_back(entry);
            }
        }
        lost
    }
}

/// Datagrams in an entry of `len` bytes, `size` in each but the last.
pub(super) fn datagrams(len: u32, size: u32) -> u64 {
    u64::from(len.div_ceil(size.max(1)).max(1))
}

fn charge(len: u32) -> u32 {
    len.max(ENTRY_MIN)
}
