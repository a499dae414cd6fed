//! One incomplete datagram: its bytes, each at its final place in blocks of the link it comes by.

use gannet_base::Instant;
use gannet_link::slot::RANGES_MAX;
use gannet_link::{BlockId, Driver, Endpoint, Frame, Pool, Range};

use super::coverage::{Coverage, Fit, UNIT};
use super::{HEAD_MAX, Head, Key, Piece};
use crate::counters::DropReason;

/// An incomplete datagram.
pub(super) struct Datagram {
    pub(super) key: Key,
    pub(super) expires: Instant,
    /// The header of the first fragment, and what is behind it in bytes, when that has come.
    pub(super) first: Option<(Head, u32)>,
    /// A fragment contradicted another one: nothing that belongs to it is taken any more.
    pub(super) spoilt: bool,
    blocks: [Option<BlockId>; RANGES_MAX],
    block_bytes: u32,
    coverage: Coverage,
    /// Bytes in all, once the last fragment has come.
    total: Option<u32>,
    /// The last byte that has come is before this one.
    reach: u32,
    /// Which of the four ECN codepoints were seen, one bit each.
    ecn_seen: u8,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Others are missing.
    Partial,
    /// It was the last one missing.
    Complete,
}

impl Datagram {
    pub(super) fn new(key: Key, expires: Instant, block_bytes: u32) -> Self {
        Datagram {
            key,
            expires,
            first: None,
            spoilt: false,
            blocks: [None; RANGES_MAX],
            block_bytes,
            coverage: Coverage::new(),
            total: None,
            reach: 0,
            ecn_seen: 0,
        }
    }

    /// What it costs: itself, and its blocks.
    pub(super) fn cost(&self) -> usize {
        let blocks = self.blocks.iter().flatten().count();
        size_of::<Datagram>() + blocks * self.block_bytes as usize
    }

    /// What it will cost at most with `piece` added.
    pub(super) fn cost_with(&self, piece: &Piece) -> usize {
        let block = self.block_bytes.max(1);
        let (first, last) = (piece.offset / block, (piece.end() - 1) / block);
        self.cost() + (last - first + 1) as usize * block as usize
    }

    /// Adds a fragment whose bytes are what is left of `frame`.
    ///
    /// # Errors
    /// `FragmentDuplicate`, harmless; `FragmentOverlap` and `FragmentConflict`, after which the
    /// datagram cannot be believed; `NoMemory`.
    pub(super) fn add<D: Driver>(
        &mut self,
        piece: &Piece,
        endpoint: &mut Endpoint<D>,
        frame: &Frame,
    ) -> Result<Outcome, DropReason> {
        let end = piece.end();
        let (from, to) = (piece.offset / UNIT, end.div_ceil(UNIT));
        match self.coverage.fit(from, to) {
            Fit::Overlap => return Err(DropReason::FragmentOverlap),
            Fit::Duplicate => return Err(self.duplicate(piece, endpoint, frame)),
            Fit::New => {}
        }
        self.end_agrees(piece)?;
        self.copy(piece.offset, endpoint, frame)?;
        self.coverage.add(from, to);
        self.reach = self.reach.max(end);
        if !piece.more {
            self.total = Some(end);
        }
        if piece.offset == 0 {
            self.first = Some((piece.head, piece.len));
        }
        self.ecn_seen |= 1 << (piece.head.tos & 3);
        let complete = self.total.map(|t| t.div_ceil(UNIT)) == Some(self.coverage.units());
        Ok(match complete {
            true => Outcome::Complete,
            false => Outcome::Partial,
        })
    }

    /// Every fragment must lie before the end that the last one tells.
    fn end_agrees(&self, piece: &Piece) -> Result<(), DropReason> {
        let end = piece.end();
        let agrees = match (self.total, piece.more) {
            (Some(total), true) => end <= total,
            (Some(total), false) => end == total,
            (None, true) => true,
            (None, false) => self.reach <= end,
        };
        match agrees {
            true => Ok(()),
            false => Err(DropReason::FragmentConflict),
        }
    }

    /// A fragment with the edges of an earlier one: harmless when its bytes are the same, too.
    fn duplicate<D: Driver>(
        &self,
        piece: &Piece,
        endpoint: &Endpoint<D>,
        frame: &Frame,
    ) -> DropReason {
        let end_differs = match piece.more {
            true => self.total.is_some_and(|t| piece.end() >= t),
            false => self.total != Some(piece.end()),
        };
        let same = |at: u32, bytes: &[u8]| self.holds(at, bytes, &endpoint.pool);
        match !end_differs && each_part(piece.offset, endpoint, frame, same) {
            true => DropReason::FragmentDuplicate,
            false => DropReason::FragmentConflict,
        }
    }

    /// Whether the bytes from `at` on are `bytes`.
    fn holds(&self, at: u32, bytes: &[u8], pool: &Pool) -> bool {
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let here = self.place(pool, at, rest.len() as u32);
            let Some((here, held)) = here.and_then(|r| Some((r, pool.bytes(r)?))) else {
                return false;
            };
            let Some((now, later)) = rest.split_at_checked(held.len()) else {
                return false;
            };
            if held != now || held.is_empty() {
                return false;
            }
            (at, rest) = (at + here.len, later);
        }
        true
    }

    /// Copies what is left of `frame` to its place.
    fn copy<D: Driver>(
        &mut self,
        offset: u32,
        endpoint: &mut Endpoint<D>,
        frame: &Frame,
    ) -> Result<(), DropReason> {
        self.provide(offset, frame.len() as u32, &mut endpoint.pool)?;
        let mut at = offset;
        let mut head = frame.head();
        while let Some(to) = self.place(&endpoint.pool, at, head.len() as u32) {
            let (Some(out), Some((now, later))) = (
                endpoint.pool.bytes_mut(to),
                head.split_at_checked(to.len as usize),
            ) else {
                break;
            };
            out.copy_from_slice(now);
            (at, head) = (at + to.len, later);
        }
        for &range in frame.ranges() {
            let mut from = range;
            while let Some(to) = self.place(&endpoint.pool, at, from.len) {
                endpoint.copy(from.front(to.len), to);
                at += to.len;
                from = from.skip(to.len);
            }
        }
        Ok(())
    }

    /// Blocks for `len` bytes from `offset` on. A quarter of the pool stays for others.
    fn provide(&mut self, offset: u32, len: u32, pool: &mut Pool) -> Result<(), DropReason> {
        let block = self.block_bytes.max(1);
        let (first, last) = (offset / block, (offset + len - 1) / block);
        for index in first..=last {
            let place = self.blocks.get_mut(index as usize);
            let place = place.ok_or(DropReason::FragmentTooLong)?;
            if place.is_none() {
                if pool.available() <= pool.blocks() / 4 {
                    return Err(DropReason::NoMemory);
                }
                *place = Some(pool.alloc().ok_or(DropReason::NoMemory)?);
            }
        }
        Ok(())
    }

    /// Where the bytes from `at` on are kept: as many of `len` as lie in one block; `None` for
    /// none.
    fn place(&self, pool: &Pool, at: u32, len: u32) -> Option<Range> {
        let index = at.checked_div(self.block_bytes)?;
        let block = (*self.blocks.get(index as usize)?)?;
        let within = at % self.block_bytes;
        let len = len.min(self.block_bytes - within);
        (len > 0).then(|| pool.range(block, within, len))
    }

    /// The ECN codepoint of the whole: a mark on any fragment is a mark on all (RFC 3168 section
    /// 5.3).
    ///
    /// # Errors
    /// `FragmentEcn` when one fragment bears a mark and another says that none may be marked.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
    //# Reassembly of a fragmented packet MUST NOT lose indications of congestion.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
    //# In other words, if any fragment of an IP packet to be reassembled has the CE codepoint set,
    //# then one of two actions MUST be taken:
    //= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
    //# However, this MUST NOT occur if any of the other fragments contributing to this reassembly
    //# carries the Not-ECT codepoint.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
    //# Reassembly of a fragmented packet MUST NOT change the ECN codepoint when all of the
    //# fragments carry the same codepoint.
    pub(super) fn ecn(&self) -> Result<u8, DropReason> {
        const NOT_ECT: u8 = 1 << 0;
        const CE: u8 = 1 << 3;
        if self.ecn_seen & CE == 0 {
            return Ok(self.first.map_or(0, |(head, _)| head.tos & 3));
        }
        match self.ecn_seen & NOT_ECT {
            0 => Ok(3),
            _ => Err(DropReason::FragmentEcn),
        }
    }

    /// The ranges of all bytes of a complete datagram, which are now the caller's to release; how
    /// many.
    pub(super) fn into_ranges(self, pool: &Pool) -> ([Range; RANGES_MAX], usize) {
        let mut ranges = [Range::EMPTY; RANGES_MAX];
        let mut count = 0;
        let mut left = self.total.unwrap_or(0);
        for (block, range) in self.blocks.iter().flatten().zip(&mut ranges) {
            *range = pool.range(*block, 0, left.min(self.block_bytes));
            left -= range.len;
            count += 1;
        }
        (ranges, count)
    }

    /// Copies the first bytes of the first fragment's payload into `out`; how many.
    pub(super) fn quote(&self, pool: &Pool, out: &mut [u8]) -> usize {
        let (_, len) = self.first.unwrap_or((Head::NONE, 0));
        let range = self.place(pool, 0, len.min(out.len() as u32));
        let bytes = range.and_then(|r| pool.bytes(r)).unwrap_or(&[]);
        if let Some(to) = out.get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        bytes.len()
    }

    /// Gives the blocks back.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        for block in self.blocks.iter_mut().filter_map(Option::take) {
            pool.release(pool.range(block, 0, 0));
        }
    }
}

impl Head {
    /// No header worth quoting.
    pub(super) const NONE: Head = Head {
        bytes: [0; HEAD_MAX],
        len: 0,
        tos: 0,
        protocol: 0,
    };
}

/// Calls `f` with every part of what is left of `frame`, and its place in the datagram, as long as
/// it says yes; whether it always did.
fn each_part<D: Driver>(
    offset: u32,
    endpoint: &Endpoint<D>,
    frame: &Frame,
    f: impl Fn(u32, &[u8]) -> bool,
) -> bool {
    let head = frame.head();
    let mut at = offset + head.len() as u32;
    let mut all = f(offset, head);
    let mut buffer = [0; 512];
    for &range in frame.ranges() {
        let mut rest = range;
        while rest.len > 0 && all {
            let n = endpoint.read(rest, &mut buffer);
            let Some(bytes) = buffer.get(..n).filter(|b| !b.is_empty()) else {
                return false;
            };
            all = f(at, bytes);
            at += n as u32;
            rest = rest.skip(n as u32);
        }
    }
    all
}
