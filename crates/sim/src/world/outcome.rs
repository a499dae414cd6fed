//! What is known after a run.

use std::collections::BTreeMap;

use gannet_base::Instant;

/// A run that came to its end.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The scenario's seed.
    pub seed: u64,
    /// The hash of every event.
    pub digest: u64,
    /// What should not have happened; empty when all is well.
    pub failures: Vec<String>,
    /// The world's time at the end.
    pub ended_at: Instant,
    /// Frames that hosts sent.
    pub frames: u64,
    /// Bytes of frames that were delivered over wires.
    pub wire_bytes: u64,
    /// Bytes that applications received.
    pub bytes: u64,
    /// TCP connections begun.
    pub connections: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Faults injected, and what was exercised: names with counts.
    pub counts: BTreeMap<String, u64>,
}

impl Outcome {
    /// Counts one more thing.
    pub fn count(&mut self, name: &str, n: u64) {
        if n > 0 {
            *self.counts.entry(name.to_owned()).or_default() += n;
        }
    }
}
