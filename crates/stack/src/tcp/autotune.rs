//! Growth of the receive buffer (dynamic right-sizing, Fisk and Feng 2001; the rule is Linux's).
//!
//! The buffer must hold what arrives in a round trip, and twice that so that a sender in slow
//! start is never held back by the window. What arrives in a round trip is what the application
//! took out in one: an application that does not read earns no memory.

use core::time::Duration;

use gannet_base::Instant;

use super::seq::SeqNum;

/// Decides how large the receive buffer of one connection should be.
#[derive(Clone, Debug)]
pub struct AutoTune {
    buffer: u32,
    max: u32,
    /// Start of the current measurement, once anything was read.
    since: Option<Instant>,
    /// Bytes the application took since then.
    copied: u32,
    /// The most it took in one round trip so far.
    best: u32,
}

impl AutoTune {
    /// Default of the largest buffer: 16 MiB.
    pub const DEFAULT_MAX: u32 = 16 << 20;

    /// Starts with a buffer of `initial` bytes that may grow to `max` (at least `initial`).
    #[must_use]
    pub fn new(initial: u32, max: u32) -> Self {
        Self {
            buffer: initial,
            max: max.max(initial),
            since: None,
            copied: 0,
            best: 0,
        }
    }

    /// The buffer size now, bytes.
    #[must_use]
    pub fn buffer(&self) -> u32 {
        self.buffer
    }

    /// The application took `bytes` at `now`; `rtt` as far as known (see [`ReceiverRtt`]),
    /// `mss`: segment size we receive. Returns the new size when the buffer should grow.
    pub fn on_copied(
        &mut self,
        bytes: u32,
        now: Instant,
        rtt: Option<Duration>,
        mss: u32,
    ) -> Option<u32> {
        let since = *self.since.get_or_insert(now);
        self.copied = self.copied.saturating_add(bytes);
        let rtt = rtt?;
        if now.saturating_duration_since(since) < rtt {
            return None;
        }
        let copied = core::mem::take(&mut self.copied);
        self.since = Some(now);
        if copied <= self.best {
            return None;
        }
        // If the amount grew, expect it to grow as much again (slow start), plus some slack for
        // segments on their way while the window update travels.
        let grown = u64::from(copied - self.best);
        let growth = if self.best == 0 { 0 } else { grown };
        self.best = copied;
        let want = 2 * (u64::from(copied) + growth) + 16 * u64::from(mss);
        let want = want.min(u64::from(self.max)) as u32;
        (want > self.buffer).then(|| {
            self.buffer = want;
            want
        })
    }
}

/// The receiver's own estimate of the round-trip time: a host that only receives has no
/// acknowledgements to time. With time stamps: the age of the echoed time stamp. Without: the time
/// in which one window of data arrives, which is never less than a round trip.
#[derive(Clone, Debug, Default)]
pub struct ReceiverRtt {
    estimate: Option<u64>,
    /// Measurement running: ends when `rcv.nxt` reaches this.
    window: Option<(SeqNum, Instant)>,
}

impl ReceiverRtt {
    /// No estimate.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            estimate: None,
            window: None,
        }
    }

    /// The estimate, if any.
    #[must_use]
    pub fn get(&self) -> Option<Duration> {
        self.estimate.map(Duration::from_nanos)
    }

    /// A data segment echoed a time stamp that is `age` old.
    pub fn on_timestamp(&mut self, age: Duration) {
        let new = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        // 1/8 of the way up (queues, delayed sending), at once down
        self.estimate = Some(match self.estimate {
            Some(old) if new > old => old + (new - old) / 8,
            _ => new,
        });
    }

    /// Data arrived in order, without time stamps: `rcv_nxt` after it, `window` advertised.
    pub fn on_data(&mut self, rcv_nxt: SeqNum, window: u32, now: Instant) {
        if let Some((end, start)) = self.window {
            if rcv_nxt.before(end) {
                return;
            }
            let sample = now.saturating_duration_since(start);
            let new = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
            // an upper bound: only smaller ones teach anything
            self.estimate = Some(self.estimate.map_or(new, |old| old.min(new)));
        }
        self.window = Some((rcv_nxt + window, now));
    }
}

#[cfg(test)]
mod tests;
