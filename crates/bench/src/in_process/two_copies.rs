//! The limit of a stack that copies in once and out once: the two copies and nothing else, in
//! memory that stays in the second-level cache.

use std::hint::black_box;

use crate::role::{Load, Report};
use crate::workload::{Clock, cpu_seconds};

/// Longer messages are copied in pieces, as through a stack's blocks.
const PIECE: usize = 64 * 1024;

const APART: usize = 1088;

/// Copies messages into a block and out of it.
pub fn run(load: &Load) -> Report {
    let message = vec![1u8; load.size.max(1)];
    let mut memory = vec![0u8; 2 * (PIECE + APART)];
    // Equal addresses within a page would make the two copies wait for one another.
    let (first, second) = memory.split_at_mut(PIECE + APART);
    let (block, buffer) = (first, second.get_mut(APART..).unwrap_or_default());
    let begin = cpu_seconds();
    let mut clock = Clock::start(load);
    loop {
        for piece in message.chunks(PIECE) {
            let (Some(place), Some(out)) =
                (block.get_mut(..piece.len()), buffer.get_mut(..piece.len()))
            else {
                continue;
            };
            place.copy_from_slice(black_box(piece));
            out.copy_from_slice(black_box(&*place));
            black_box(out);
        }
        if clock.count(message.len() as u64) {
            return clock.report(cpu_seconds() - begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_are_counted() {
        let load = Load {
            size: 100_000,
            seconds: 0.01,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        let report = run(&load);
        assert!(report.all_bytes > 0 && report.all_bytes.is_multiple_of(100_000));
    }
}
