//! The way up again: which size is tried next, when, and what an answer means (RFC 4821 section 7,
//! RFC 8899 section 5.3). What carries a probe, and how its loss is told from congestion:
//! `send/size.rs`.
//!
//! ```text
//!   base --wait--> the largest size --passed--> as if nothing had been
//!                    | failed three times
//!                    v
//!                  the middle one of the common sizes in between --> ... none left: 10 minutes
//! ```
//! Sizes are those of common links and tunnels, as RFC 4821 section 7.3 allows: a path is used up
//! to the largest of them that passes, not to the last byte.

use core::time::Duration;

use gannet_base::Instant;

use super::{BlackHole, WAIT_FIRST, WAIT_MAX, base, largest, options};
use crate::config::MtuProbing;
use crate::ip::Path;
use crate::tcp::connection::Open;
use crate::tcp::handshake::headers;
use crate::tcp::send::SizeAnswer;

/// Sizes of packets that links and tunnels take, in bytes: IPv6's least; tunnels in tunnels;
/// WireGuard; VXLAN, GRE and others within Ethernet; PPPoE; Ethernet; its jumbo frames; rings.
const SIZES: [u32; 18] = [
    1280, 1340, 1380, 1400, 1420, 1440, 1450, 1462, 1472, 1480, 1492, 1500, 2002, 4352, 8192, 9000,
    17_914, 32_000,
];
/// Failures before a size is taken for too large.
//= https://www.rfc-editor.org/rfc/rfc8899#section-5.1.2
//# The default value of MAX_PROBES is 3.
const MAX_PROBES: u8 = 3;
/// PMTU_RAISE_TIMER.
//= https://www.rfc-editor.org/rfc/rfc4821#section-7.3
//# The value for this timer MUST NOT be less than 5 minutes and is recommended to be 10 minutes,
//# per RFC 1981.
const CONVERGED: Duration = WAIT_MAX;
/// A probe that had no fair chance is repeated so much later than one that failed.
//= https://www.rfc-editor.org/rfc/rfc4821#section-7.6.3
//# A time interval that is five times the non-timeout failure case (Section 7.6.2) is RECOMMENDED.
const UNCLEAR: u32 = 5;

/// What is known of sizes above the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Search {
    /// RFC 4821's search_high: this size, options included, and larger ones failed.
    high: u32,
    /// RFC 8899's PROBE_COUNT.
    count: u8,
}

impl Search {
    /// Nothing.
    pub(super) const NEW: Search = Search {
        high: u32::MAX,
        count: 0,
    };
}

impl BlackHole {
    /// A new connection where sizes are always searched for begins with one that passes everywhere.
    pub(in crate::tcp) fn begin(open: &mut Open, path: &Path, how: MtuProbing, now: Instant) {
        let low = base(path);
        if how != MtuProbing::Always || !open.send.can_probe_size() || largest(open, path) <= low {
            return;
        }
        open.black_hole.cap = low;
        open.black_hole.raise_at = now;
        let mss = Self::mss(open, path);
        open.send.set_mss(mss);
    }

    /// The time for a larger size has come: it is tried as soon as there is enough to send.
    pub(super) fn search(open: &mut Open, path: &Path, now: Instant) {
        let most = largest(open, path);
        let hole = &mut open.black_hole;
        hole.raise_at = Instant::FAR_FUTURE;
        if hole.cap >= most {
            hole.forget();
            let mss = Self::mss(open, path);
            return open.send.set_mss(mss);
        }
        match next_size(hole.cap, hole.search.high, most, headers(path)) {
            Some(size) => {
                let payload = size - options(open, path);
                open.send.probe_size(payload);
            }
            //= https://www.rfc-editor.org/rfc/rfc4821#section-7.3
            //# When probing has converged, a timer SHOULD be set.
            //= https://www.rfc-editor.org/rfc/rfc4821#section-7.3
            //# When the timer expires, search_high should be reset to its initial value
            //# (described above) so that probing can resume.
            None => {
                hole.search = Search::NEW;
                hole.raise_at = now + CONVERGED;
            }
        }
    }

    /// After an acknowledgement: what it says of a probe. Whether one failed.
    pub(in crate::tcp) fn on_answer(open: &mut Open, path: &Path, now: Instant) -> bool {
        let Some(answer) = open.send.take_size_answer() else {
            return false;
        };
        let options = options(open, path);
        let pause = pause(open);
        let hole = &mut open.black_hole;
        match answer {
            SizeAnswer::Passed(payload) => {
                let before = core::mem::replace(&mut hole.cap, payload + options);
                hole.search.count = 0;
                hole.wait = WAIT_FIRST;
                hole.raise_at = now;
                //= https://www.rfc-editor.org/rfc/rfc4821#section-7.8
                //# However, to increase robustness, an implementation SHOULD implement some form of
                //# MTU verification, such that if increasing eff_pmtu results in a sharp increase
                //# in loss rate, it will fall back to using a lower MTU.
                // (until this is acknowledged one time-out is enough)
                hole.trial = Some((open.send.max, before));
                open.send.set_mss(payload);
                // the largest of all needs no timer's turn
                if hole.cap >= largest(open, path) {
                    Self::search(open, path, now);
                }
            }
            SizeAnswer::Failed(payload) => {
                hole.search.count += 1;
                if hole.search.count >= MAX_PROBES {
                    hole.search = Search {
                        high: payload + options,
                        count: 0,
                    };
                }
                //= https://www.rfc-editor.org/rfc/rfc4821#section-7.6.2
                //# Specifically, after a probe failure event and suppressed congestion control,
                //# PLPMTUD MUST NOT probe again until an interval that is larger than the expected
                //# interval between congestion control events.
                hole.raise_at = now + pause;
            }
            SizeAnswer::Unclear => hole.raise_at = now + pause.saturating_mul(UNCLEAR),
        }
        matches!(answer, SizeAnswer::Failed(_))
    }
}

/// As many round trips as segments fit into the congestion window: RFC 4821 section 7.6.2's
/// "simplest estimate".
fn pause(open: &Open) -> Duration {
    let segments = open.send.congestion.cwnd() / open.send.mss.max(1) + 1;
    let round = open.send.rtt.srtt().unwrap_or(Duration::from_secs(1));
    round.saturating_mul(segments).min(CONVERGED)
}

/// The size to try between `low`, which passes, and `high`, which does not; none is larger than
/// `most`. All without IP and TCP headers of `headers` bytes.
//= https://www.rfc-editor.org/rfc/rfc4821#section-7.1
//# When transmitting probes, the Packetization Layer MUST select a probe
//# size that is larger than search_low and smaller than or equal to
//# search_high.
fn next_size(low: u32, high: u32, most: u32, headers: u32) -> Option<u32> {
    // what made the path narrow is often gone altogether
    if most < high {
        return (most > low).then_some(most);
    }
    let sizes = SIZES.map(|size| size - headers);
    let from = sizes.partition_point(|&size| size <= low);
    let to = sizes.partition_point(|&size| size < high);
    sizes
        .get(from..to)
        .and_then(|s| s.get(s.len() / 2))
        .copied()
}

#[cfg(test)]
mod tests;
