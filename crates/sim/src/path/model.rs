//! What a path is like.

use core::time::Duration;

/// One direction of a link. The default is a perfect one: no delay, no bound, no fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Bytes per second, link headers included; `None`: no limit.
    pub rate: Option<u64>,
    /// Time a frame travels after its last byte was sent.
    pub delay: Duration,
    /// Most additional time, evenly spread. Frames stay in order.
    pub jitter: Duration,
    /// Most bytes that wait for the line, the frame on it not counted; `None`: no bound.
    pub queue_bytes: Option<u64>,
    /// Most frames that wait for the line; `None`: no bound.
    pub queue_packets: Option<u64>,
    /// Waiting bytes from which on frames of ECN-capable senders are marked, as for DCTCP.
    pub mark_bytes: Option<u64>,
    /// Active queue management.
    pub codel: Option<Codel>,
    /// Largest IP packet in bytes; larger ones are dropped. `None`: all pass.
    pub mtu: Option<u32>,
    /// What goes wrong.
    pub faults: Faults,
    /// The link goes down now and then.
    pub flap: Option<Flap>,
    /// Changes under way, by time.
    pub schedule: Vec<Step>,
}

/// What strikes single frames, in chances per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The frame vanishes.
    pub loss: u32,
    /// Frames vanish in bursts.
    pub burst: Option<Burst>,
    /// A TCP segment vanishes that is nothing but an acknowledgement.
    pub ack_loss: u32,
    /// It arrives twice.
    pub duplicate: u32,
    /// It is held back by up to `reorder_by`, and later frames pass it.
    pub reorder: u32,
    /// Most extra delay of such a frame.
    pub reorder_by: Duration,
    /// One bit behind the link header is flipped.
    pub corrupt: u32,
    /// One bit of the transport header or payload is flipped and the checksum mended: no receiver
    /// can tell.
    pub corrupt_unseen: u32,
}

/// Loss in bursts (Gilbert 1960, Elliott 1963): a good and a bad state, changed frame by frame.
/// All chances per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Chance that a frame finds the state turned bad.
    pub enter: u32,
    /// Chance that a frame finds the state turned good again.
    pub leave: u32,
    /// Chance that a frame in the bad state is lost.
    pub loss: u32,
}

/// Controlled delay (RFC 8289). Frames of ECN-capable senders are marked, others dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// Waiting time that may stand.
    pub target: Duration,
    /// For how long it may be exceeded.
    pub interval: Duration,
}

impl Default for Codel {
    /// RFC 8289's: 5 ms, 100 ms.
    fn default() -> Self {
        Codel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }
}

/// A link that fails again and again: down for the last `down` of each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flap {
    /// From one failure to the next.
    pub period: Duration,
    /// How long a failure lasts.
    pub down: Duration,
}

/// A change while the path is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, counted from `Instant::ZERO`.
    pub at: Duration,
    /// What.
    pub change: Change,
}

/// What a [`Step`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another rate, bytes per second.
    Rate(Option<u64>),
    /// Another delay. Frames under way are not overtaken.
    Delay(Duration),
    /// Another MTU, bytes.
    Mtu(Option<u32>),
    /// Another chance of loss, per million.
    Loss(u32),
    /// The link goes down: what leaves the queue is lost.
    Down,
    /// The link comes up.
    Up,
}

impl Model {
    /// What is in flight on a full line: `rate` times twice the `delay`, at least sixteen full
    /// Ethernet frames. `None` without a rate.
    pub fn bandwidth_delay_product(&self) -> Option<u64> {
        const LEAST: u64 = 16 * 1514;
        let round_trip = self.delay.as_nanos().saturating_mul(2);
        let bytes = u128::from(self.rate?).saturating_mul(round_trip) / 1_000_000_000;
        Some(u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST))
    }
}
