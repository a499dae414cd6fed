//! SACK blocks that arrive: which of them can be true, and which report a duplicate (RFC 2018,
//! 2883). What they say about what was sent is kept in `sent.rs`.

use gannet_wire::tcp::{MAX_SACK_BLOCKS, SackBlocks};

use super::seq::SeqNum;

pub use super::sent::SeqRange;

/// D-SACK blocks further below `snd.una` than any window reaches are nonsense.
const MAX_WINDOW: u32 = 65_535 << 14;

/// The blocks of one acknowledgement, sorted out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    held: [SeqRange; MAX_SACK_BLOCKS],
    count: usize,
    /// The peer reports having received this range twice (RFC 2883).
    pub dsack: Option<SeqRange>,
    /// Blocks ignored: reversed, empty, not above `snd.una`, beyond what was sent.
    pub invalid: u32,
}

impl Blocks {
    /// Sorts out what an acknowledgement reports that says `ack`. `una`, `max`: what is outstanding
    /// after the acknowledgement itself was applied; `una` is later than `ack` when a newer one has
    /// overtaken this.
    #[must_use]
    pub fn sort(given: &SackBlocks, ack: SeqNum, (una, max): SeqRange) -> Self {
        let mut out = Blocks::default();
        let given = given.as_slice();
        let seq = |&(left, right): &(u32, u32)| (SeqNum(left), SeqNum(right));
        for (i, block) in given.iter().map(seq).enumerate() {
            let second = if i == 0 { given.get(1).map(seq) } else { None };
            if i == 0 && is_dsack((block, second), ack, (una, max)) {
                out.dsack = Some(block);
                if block.0.before_eq(una) {
                    continue; // nothing in it that is not acknowledged already
                }
            }
            if in_window(block, una, max) {
                out.insert(block, una);
            } else {
                out.invalid += 1;
            }
        }
        out
    }

    /// The ranges that the peer holds, in ascending order.
    #[must_use]
    pub fn held(&self) -> &[SeqRange] {
        self.held.get(..self.count).unwrap_or(&[])
    }

    fn insert(&mut self, block: SeqRange, una: SeqNum) {
        let at = self.held().partition_point(|b| b.0 - una <= block.0 - una);
        self.count = (self.count + 1).min(MAX_SACK_BLOCKS);
        if let Some(tail) = self.held.get_mut(at..self.count) {
            tail.rotate_right(1);
            if let Some(slot) = tail.first_mut() {
                *slot = block;
            }
        }
    }
}

/// Whether a block is a non-empty part of `(una, max]`. Distances from `una`, not pairwise
/// comparisons: each of three numbers can be "before" the next all around the circle. A block
/// that starts at `una` would mean that the receiver holds the very octet it still asks for.
fn in_window((start, end): SeqRange, una: SeqNum, max: SeqNum) -> bool {
    start != una && start - una < end - una && end - una <= max - una
}

/// RFC 2883 section 4: the first block is a duplicate report if the cumulative acknowledgement
/// covers it, or if the second block contains it.
fn is_dsack(
    (first, second): (SeqRange, Option<SeqRange>),
    ack: SeqNum,
    (una, max): SeqRange,
) -> bool {
    let (start, end) = first;
    //= https://www.rfc-editor.org/rfc/rfc2883#section-5
    //# An implementation MUST NOT compare the sequence space in the SACK block to the TCP state
    //# variable snd.una (which carries the total cumulative ACK), as this may result in the wrong
    //# conclusion if ACK packets are reordered.
    let below = ack - start;
    let acknowledged = start != end && below <= MAX_WINDOW && end - start <= below;
    let contained = second.is_some_and(|outer| {
        in_window(outer, una, max)
            && in_window(first, una, max)
            && outer.0.before_eq(start)
            && end.before_eq(outer.1)
    });
    acknowledged || contained
}

#[cfg(test)]
mod tests;
