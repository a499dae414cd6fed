//! What happened on a wire.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gannet_base::Reason;
use gannet_sim::path::Path;
use serde::{Deserialize, Serialize};

use super::end::EndDrops;

/// What happened on both ways of a wire, `gannet/wire/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireReport {
    /// The name of this format.
    pub schema: String,
    /// Decides every random choice.
    pub seed: u64,
    /// How long the wire was there.
    pub seconds: f64,
    /// CPU seconds it took.
    pub cpu_seconds: f64,
    /// How late frames left, in microseconds.
    pub late: Late,
    /// From the left interface to the right one.
    pub left_to_right: WayReport,
    /// From the right interface to the left one.
    pub right_to_left: WayReport,
}

/// How late frames left, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Half of the frames at most.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// All.
    pub max: u64,
}

/// What happened on one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WayReport {
    /// The model at the end, as text.
    pub model: String,
    /// Bytes that came out.
    pub delivered_bytes: u64,
    /// Most bytes that waited.
    pub queued_most: u64,
    /// What happened to packets, by reason.
    pub packets: BTreeMap<String, u64>,
    /// What the interface at the beginning of the way dropped on its own account, and that at the
    /// end.
    pub interface: EndDrops,
}

impl WayReport {
    /// Of a path and what its interfaces dropped.
    pub fn new(path: &Path, interface: EndDrops) -> Self {
        let events = path.counters().iter();
        WayReport {
            model: path.model().to_string(),
            delivered_bytes: path.delivered_bytes(),
            queued_most: path.queued_most(),
            packets: events.map(|(e, n)| (e.name().to_owned(), n)).collect(),
            interface,
        }
    }

    /// How often this happened, by its name.
    pub fn count(&self, event: &str) -> u64 {
        self.packets.get(event).copied().unwrap_or(0)
    }
}

/// Share of a core beyond which the wire itself is what is measured.
const SATURATED: f64 = 0.9;
/// The name of the format.
pub(super) const SCHEMA: &str = "gannet/wire/1";

impl WireReport {
    /// Cores in use.
    pub fn cores(&self) -> f64 {
        self.cpu_seconds / self.seconds
    }

    /// Whether the wire was the bottleneck, so that figures taken over it say nothing: a whole core
    /// in use, or frames that came faster than they were fetched.
    pub fn is_saturated(&self) -> bool {
        let missed = [&self.left_to_right, &self.right_to_left].map(|way| way.interface.missed);
        self.cores() > SATURATED || missed.iter().sum::<u64>() > 0
    }

    /// For people.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (name, way) in [
            ("left to right", &self.left_to_right),
            ("right to left", &self.right_to_left),
        ] {
            let _ = writeln!(out, "{name}: {}", way.model);
            for (event, count) in way.packets.iter().filter(|(_, count)| **count > 0) {
                let _ = writeln!(out, "  {event:18} {count:>12}");
            }
            let EndDrops {
                missed,
                uncuttable,
                refused,
            } = way.interface;
            for (event, count) in [
                ("bytes delivered", way.delivered_bytes),
                ("bytes waited", way.queued_most),
                ("missed", missed),
                ("uncuttable", uncuttable),
                ("refused", refused),
            ] {
                if count > 0 {
                    let _ = writeln!(out, "  {event:18} {count:>12}");
                }
            }
        }
        let Late { p50, p99, max } = self.late;
        let _ = writeln!(
            out,
            "{:.1} s, {:.0} % of a core, seed {}; late: half {p50} us, 99 % {p99} us, all {max} us",
            self.seconds,
            self.cores() * 100.0,
            self.seed
        );
        out
    }
}
