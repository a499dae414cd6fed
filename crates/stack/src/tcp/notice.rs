//! What the receiving half tells the sending half about a segment that arrived: the only way from
//! one to the other (the parallel protocol engine's split). In one thread it is a function
//! argument; on two cores it would travel through a ring.

use core::time::Duration;

use gannet_wire::tcp::SackBlocks;

use super::seq::SeqNum;
use super::window::WindowSize;

/// One acceptable segment, as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    /// SEG.ACK, already found to be within what was sent.
    pub(super) ack: SeqNum,
    /// SEG.SEQ, for the order of window updates.
    pub(super) seq: SeqNum,
    /// SEG.WND, scaled.
    pub(super) window: WindowSize,
    /// The segment carried text or a FIN: it is not a duplicate acknowledgement.
    pub(super) has_text: bool,
    /// SACK blocks.
    pub(super) sack: SackBlocks,
    /// The peer saw a router's mark (RFC 3168's ECE).
    pub(super) ece: bool,
    /// Age of the time stamp that it echoes.
    pub(super) echo_age: Option<Duration>,
}

/// What an acknowledgement changed at the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acked {
    /// Payload bytes newly acknowledged.
    pub(super) bytes: u32,
    /// Our FIN is acknowledged.
    pub(super) fin: bool,
}
