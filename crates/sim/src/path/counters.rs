//! What happened to frames, by reason.

use gannet_base::{Counters, reasons};

reasons! {
    /// What can happen to a frame on a path.
    pub enum Event {
        /// Handed in.
        Offered => "offered",
        /// Came out, copies included.
        Delivered => "delivered",
        /// Dropped: larger than the MTU.
        TooBig => "too_big",
        /// Dropped: the queue was full.
        QueueFull => "queue_full",
        /// Dropped by active queue management.
        QueueManaged => "queue_managed",
        /// Marked with congestion experienced (RFC 3168).
        Marked => "marked",
        /// Dropped: the link was down.
        LinkDown => "link_down",
        /// Lost at random.
        Lost => "lost",
        /// Lost in a burst.
        LostInBurst => "lost_in_burst",
        /// A bare acknowledgement was lost.
        AckLost => "ack_lost",
        /// Came out twice.
        Duplicated => "duplicated",
        /// Was held back while later frames passed.
        Reordered => "reordered",
        /// A bit was flipped.
        Corrupted => "corrupted",
        /// A bit was flipped and the transport checksum mended.
        CorruptedUnseen => "corrupted_unseen",
    }
}

/// The counts of one path.
pub type PathCounters = Counters<Event, { Event::COUNT }>;
