//! Which SACK blocks the receiver reports (RFC 2018 section 4, RFC 2883).
//!
//! The reassembly queue knows the ranges; what it does not know is which changed last. This file
//! remembers an octet ("anchor") of each of the last few arrivals and looks up the range around
//! it when blocks are needed. Ranges that merged give the same answer twice and are listed once.

use super::assembler::{Assembler, Piece};
use super::sack::SeqRange;
use super::seq::SeqNum;

/// Most blocks in one option (40 bytes of options / 8 per block, less two for kind and length).
pub const MAX_BLOCKS: usize = 4;
/// Arrivals remembered: more than blocks, so that merged ranges leave enough distinct ones.
const ANCHORS: usize = 8;

/// How many blocks fit beside the other options: 3 with time stamps, else 4.
#[must_use]
pub const fn blocks_that_fit(timestamps: bool) -> usize {
    if timestamps { 3 } else { MAX_BLOCKS }
}

/// Blocks for one SACK option, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [SeqRange; MAX_BLOCKS],
    len: usize,
}

impl SackBlocks {
    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[SeqRange] {
        self.blocks.get(..self.len).unwrap_or(&[])
    }

    fn push(&mut self, block: SeqRange, limit: usize) {
        if self.len < limit
            && let Some(slot) = self.blocks.get_mut(self.len)
        {
            *slot = block;
            self.len += 1;
        }
    }
}

/// Remembers what to report first.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackGenerator {
    /// Most recent first.
    anchors: [SeqNum; ANCHORS],
    len: usize,
    /// A duplicate not yet reported.
    dsack: Option<SeqRange>,
}

impl SackGenerator {
    /// Nothing to report.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            anchors: [SeqNum(0); ANCHORS],
            len: 0,
            dsack: None,
        }
    }

    /// Whether there is nothing to report, as in the beginning.
    pub(super) fn is_new(&self) -> bool {
        self.len == 0 && self.dsack.is_none()
    }

    /// A segment starting at `seq` went into the reassembly queue.
    //= https://www.rfc-editor.org/rfc/rfc2018#section-8
    //# The first SACK block MUST reflect the newest segment.
    //= https://www.rfc-editor.org/rfc/rfc2018#section-8
    //# Except for the newest segment, all SACK blocks MUST NOT report any old data which is no
    //# longer actually held by the receiver.
    pub fn on_arrival(&mut self, seq: SeqNum) {
        let seen = self.anchors.iter().take(self.len).position(|&a| a == seq);
        let last = seen.unwrap_or_else(|| {
            self.len = (self.len + 1).min(ANCHORS);
            self.len - 1
        });
        if let Some(head) = self.anchors.get_mut(..=last) {
            head.rotate_right(1);
            head[0] = seq;
        }
    }

    /// Octets arrived that we had already (below `rcv.nxt` or in the queue).
    pub fn on_duplicate(&mut self, range: SeqRange) {
        self.dsack = Some((range.0, range.1 + u32::from(planted!(DsackWrong))));
        self.on_arrival(range.0);
    }

    /// Whether the next acknowledgement should carry an option although the queue is empty.
    #[must_use]
    pub fn has_dsack(&self) -> bool {
        self.dsack.is_some()
    }

    /// Blocks for the acknowledgement sent now, at most `limit` (see [`blocks_that_fit`]). A
    /// duplicate is reported once, first.
    //= https://www.rfc-editor.org/rfc/rfc2883#section-2
    //# MUST specify the contiguous block of data containing the segment which triggered this ACK,
    //# unless that segment advanced the Acknowledgment Number field in the header."
    pub fn blocks<T: Piece>(&mut self, queue: &Assembler<T>, limit: usize) -> SackBlocks {
        let mut out = SackBlocks::default();
        let limit = limit.min(MAX_BLOCKS);
        //= https://www.rfc-editor.org/rfc/rfc2883#section-4
        //# (1) A D-SACK block is only used to report a duplicate contiguous
        //# sequence of data received by the receiver in the most recent packet.
        if let Some(duplicate) = self.dsack.take() {
            out.push(duplicate, limit);
        }
        if queue.is_empty() {
            self.len = 0;
            return out;
        }
        //= https://www.rfc-editor.org/rfc/rfc2018#section-4
        //# The first SACK block (i.e., the one immediately following the
        //# kind and length fields in the option) MUST specify the contiguous
        //# block of data containing the segment which triggered this ACK,
        //# unless that segment advanced the Acknowledgment Number field in
        //# the header.
        let recent = out.len; // the D-SACK block does not count as already listed
        let mut kept = 0;
        for i in 0..self.len {
            let anchor = self.anchors.get(i).copied().unwrap_or_default();
            let Some(range) = queue.range_containing(anchor) else {
                continue; // delivered since
            };
            let listed = out.as_slice().get(recent..).unwrap_or(&[]);
            if listed.contains(&range) {
                continue;
            }
            out.push(range, limit);
            if let Some(slot) = self.anchors.get_mut(kept) {
                *slot = anchor;
                kept += 1;
            }
        }
        self.len = kept;
        //= https://www.rfc-editor.org/rfc/rfc2018#section-4
        //# The data receiver SHOULD include as many distinct SACK blocks as
        //# possible in the SACK option.
        for range in queue.ranges().take(ANCHORS) {
            let listed = out.as_slice().get(recent..).unwrap_or(&[]);
            if !listed.contains(&range) {
                out.push(range, limit);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
