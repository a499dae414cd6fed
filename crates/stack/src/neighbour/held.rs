//! Packets that wait for a neighbour's answer. Segments of connections do not: TCP sends them again
//! when told that the neighbour has answered. Its resets do, since nothing sends those again.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use gannet_link::Slot;

use crate::link::LinkId;

/// Most packets that wait for one neighbour: a batch of datagrams, so that the first is not lost
/// for want of an address. (Linux: 208 KiB of them.)
const PER_NEIGHBOUR: usize = 64;
/// Most packets that wait in all.
const IN_ALL: usize = 256;

/// A packet complete but for its link header, for which 14 bytes are left.
pub struct HeldFrame {
    /// Where it leaves.
    pub link: LinkId,
    /// Who it is waiting for.
    pub next_hop: IpAddr,
    /// The packet. Its ranges have a reference each.
    pub slot: Slot,
}

/// The packets that wait.
#[derive(Default)]
pub struct Held {
    frames: VecDeque<HeldFrame>,
}

impl Held {
    /// None.
    pub const fn new() -> Self {
        Held {
            frames: VecDeque::new(),
        }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    //= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.2
    //# The link layer SHOULD save (rather than discard) at least one (the latest) packet of each
    //# set of packets destined to the same unresolved IP address, and transmit the saved packet
    //# when the address has been resolved.
    /// Keeps `frame`; returns the one that had to make room, to be thrown away.
    #[must_use]
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
    //# While waiting for address resolution to complete, the sender MUST, for each neighbor, retain
    //# a small queue of packets waiting for address resolution to complete.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
    //# The queue MUST hold at least one packet, and MAY contain more.
    pub fn push(&mut self, frame: HeldFrame) -> Option<HeldFrame> {
        let same = |f: &HeldFrame| (f.link, f.next_hop) == (frame.link, frame.next_hop);
        let victim = if self.frames.iter().filter(|f| same(f)).count() >= PER_NEIGHBOUR {
            self.frames.iter().position(same)
        } else {
            (self.frames.len() >= IN_ALL).then_some(0)
        };
        let victim = victim.and_then(|at| self.frames.remove(at));
        self.frames.push_back(frame);
        victim
    }

    /// Whether an answer to what arrived may wait: such packets never push out those that programs
    /// sent, so that segments with forged sources cost no datagram.
    pub fn takes_answers(&self) -> bool {
        self.frames.len() < IN_ALL / 2
    }

    /// Takes out the oldest packet that waits for `next_hop` (`None`: for anybody) on `link`.
    pub fn pop(&mut self, link: LinkId, next_hop: Option<IpAddr>) -> Option<HeldFrame> {
        let fits = |f: &HeldFrame| f.link == link && next_hop.is_none_or(|n| n == f.next_hop);
        let at = self.frames.iter().position(fits)?;
        self.frames.remove(at)
    }
}
