//! How many ICMP errors leave: a flood must not be answered by a flood (robustness C7), nor by an
//! even rhythm from which others learn what we receive (CVE-2020-25705).

use core::net::IpAddr;
use core::time::Duration;

use gannet_base::{Instant, Rng};

use crate::address;
use crate::hash::{HashKey, Purpose};

/// Errors per second in all; Linux's `icmp_msgs_per_sec`.
const RATE: u64 = 1000;
/// Most at once; Linux's `icmp_msgs_burst`.
const BURST: u64 = 50;
/// Time between errors to one destination.
const PER_TARGET: Duration = Duration::from_secs(1);
/// Destinations told apart. Two that share a place share its rate: never more, sometimes less.
const PLACES: usize = 256;
const NANOS: u64 = 1_000_000_000;

/// Two limits: a bucket of tokens for all, and a time per destination.
pub(super) struct Limiter {
    key: HashKey,
    rng: Rng,
    /// Nanoseconds' worth of tokens: one error costs `NANOS / RATE`.
    credit: u64,
    filled: Instant,
    next: [Instant; PLACES],
}

impl Limiter {
    pub(super) fn new(key: HashKey, seed: u64) -> Self {
        Limiter {
            key,
            rng: Rng::new(seed),
            credit: BURST * (NANOS / RATE),
            filled: Instant::ZERO,
            next: [Instant::ZERO; PLACES],
        }
    }

    /// Whether an error may be sent to `target` now; if so, it is counted as sent.
    pub(super) fn allow(&mut self, now: Instant, target: IpAddr) -> bool {
        let elapsed = now.saturating_duration_since(self.filled).as_nanos();
        let gained = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.filled = self.filled.max(now);
        let cost = NANOS / RATE;
        self.credit = self.credit.saturating_add(gained).min(BURST * cost);
        let place = self.key.hash(Purpose::Flow, &address::bytes(target)) as usize % PLACES;
        let Some(next) = self.next.get_mut(place).filter(|next| now >= **next) else {
            return false;
        };
        // Up to three tokens more or less than due, so that counting our errors tells little.
        if self.credit < cost * (1 + self.rng.below(3)) {
            return false;
        }
        self.credit -= cost;
        let jitter = Duration::from_millis(self.rng.below(250));
        *next = now + PER_TARGET + jitter;
        true
    }
}
