//! What a driver can do, and what is asked of it. No time, no protocol, no operating system.

use crate::frame::{Frame, SlotFault};
use crate::pool::Pool;
use crate::segment::{Range, View};
use crate::slot::Slot;

/// What the first inline byte of a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Ethernet frames, addresses resolved by ARP.
    Ethernet,
    /// Bare IP packets between two ends.
    Ip,
}

/// Who fills in transport checksums on the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The stack, in full.
    Software,
    /// The driver or the device: the stack leaves the pseudo-header's sum and says where.
    Partial,
    /// Nobody: the bytes never leave this machine's memory.
    None,
}

/// What a link carries in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Ethernet or bare IP.
    pub medium: Medium,
    /// Largest IP packet on the wire in bytes, link header not counted; 68 to 65,535.
    pub mtu: u32,
    /// Largest TCP super-segment's IP packet in bytes; 0 when the link cuts none.
    pub tcp_segmentation: u32,
    /// Whether UDP datagrams of one size travel as one super-datagram.
    pub udp_segmentation: bool,
    /// Most payload ranges the driver gathers into one frame, 1 to 8.
    pub gather: u8,
    /// Checksums on the way out.
    pub checksum: Checksum,
    /// The link-layer address; zeros on [`Medium::Ip`].
    pub hardware_address: [u8; 6],
}

/// Whether the other side is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Frames can flow.
    Up,
    /// No carrier, or the interface is down; may come back.
    Down,
    /// The other process said goodbye or died, or the interface went away: never comes back.
    Gone,
}

/// What [`Driver::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame; its ranges are owed a release.
    Frame,
    /// Nothing now.
    Empty,
    /// A slot that failed its check; nothing is owed. More may follow.
    Refused(SlotFault),
}

/// Moves slots between an endpoint and the world.
///
/// Work happens in batches inside the driver: `receive` and `transmit` are called once per frame
/// and are cheap, `flush` ends a batch (index updates, wake-ups, system calls).
pub trait Driver {
    /// What the link carries. Constant while the link is up.
    fn capabilities(&self) -> &Capabilities;

    /// Takes over `slot` for sending; `false`, and nothing happens, when there is no room.
    ///
    /// The blocks of its ranges were pinned by [`crate::Endpoint::transmit`]; the driver calls
    /// [`Pool::completed`] once per range when it no longer needs them.
    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool;

    /// How many slots [`Driver::transmit`] would take right now.
    fn room(&mut self) -> usize;

    /// Fetches the next frame into `frame`, checked (see [`Frame::load`]).
    ///
    /// Ranges in the own segment come with one reference each ([`Pool::alloc_for_receive`]).
    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received;

    /// Takes back transmitted blocks: calls [`Pool::completed`] for each; how many.
    fn reclaim(&mut self, pool: &mut Pool) -> usize;

    /// Ends a batch: hands over what was transmitted, gives back what was consumed, wakes the other
    /// side if it sleeps.
    fn flush(&mut self, pool: &mut Pool);

    /// Gives a received range in the peer's segment back to the peer.
    fn release(&mut self, range: Range);

    /// Copies the first bytes of a range in the peer's segment into `out`; how many.
    fn read(&self, range: Range, out: &mut [u8]) -> usize;

    /// A reader of a range in the peer's segment that outlives the borrow.
    fn view(&self, range: Range) -> Option<View>;

    /// Prepares to sleep: asks to be woken, then looks once more. `false` when there is work, and
    /// then no wake-up is asked for. To be called anew before every sleep.
    fn arm(&mut self) -> bool;

    /// Awake again: no wake-ups needed.
    fn disarm(&mut self);

    /// Whether the other side is there. Cheap.
    fn state(&self) -> LinkState;
}
