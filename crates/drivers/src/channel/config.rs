//! Every knob of a channel: default, unit, cost.

use gannet_link::Layout;
use std::time::Duration;

/// Whether a channel's memory should be in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Ordinary pages, always.
    Never,
    /// Transparent ones, if the system hands them out on request
    /// (`/sys/kernel/mm/transparent_hugepage/shmem_enabled` says `advise` or more). Costs up to
    /// 2 MiB of rounding per channel, and only as blocks are used: free blocks are handed out last
    /// in, first out, so a channel with little traffic touches little memory.
    #[default]
    Wish,
    /// Reserved ones when enough are free, else as `Wish`. They are taken in full when the channel
    /// is made (18 MiB for the default layout), used or not: for few, busy channels.
    Reserve,
}

/// How channels are made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rings and blocks of the own memory. Default [`Layout::CHANNEL`]: 16 MiB, touched only when
    /// used.
    pub layout: Layout,
    /// Default [`HugePages::Wish`].
    pub huge_pages: HugePages,
    /// A peer that has not finished its handshake by then is dropped. Default 1 s.
    pub handshake_timeout: Duration,
    /// Most handshakes a listener has under way; more wait in the kernel's queue. Each costs one
    /// descriptor until its first message has been checked. Default 16.
    pub handshakes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            layout: Layout::CHANNEL,
            huge_pages: HugePages::default(),
            handshake_timeout: Duration::from_secs(1),
            handshakes_max: 16,
        }
    }
}
