//! HyStart++ (RFC 9406): slow start watches the round trips and, when they grow, goes on slowly for
//! a few rounds; if they stay long it ends, before a queue overflows.
//!
//! ```text
//!   slow start --round trips grew--> conservative --5 rounds--> congestion avoidance
//!        ^-------they shrank again-------|
//! ```

use super::AckSample;

/// RFC 9406 section 4.3, in microseconds where it is a time.
const MIN_RTT_THRESH: u32 = 4_000;
const MAX_RTT_THRESH: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;
/// No round trip was seen.
const NONE: u32 = u32::MAX;

/// The variables of RFC 9406 section 4.2, round trips in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HyStart {
    /// `windowEnd`, counted in bytes delivered rather than in sequence numbers.
    window_end: u64,
    last_round_min_rtt: u32,
    current_round_min_rtt: u32,
    /// `cssBaselineMinRtt`; none: not in conservative slow start.
    css_baseline_min_rtt: u32,
    rtt_sample_count: u8,
    css_rounds: u8,
}

impl Default for HyStart {
    fn default() -> Self {
        HyStart {
            window_end: 0,
            last_round_min_rtt: NONE,
            current_round_min_rtt: NONE,
            css_baseline_min_rtt: NONE,
            rtt_sample_count: 0,
            css_rounds: 0,
        }
    }
}

impl HyStart {
    /// What the growth of slow start is divided by.
    #[inline]
    pub(super) fn divisor(&self) -> u32 {
        match self.css_baseline_min_rtt {
            NONE => 1,
            _ => CSS_GROWTH_DIVISOR,
        }
    }

    /// An acknowledgement in slow start; whether slow start is over.
    pub(super) fn on_ack(&mut self, sample: &AckSample) -> bool {
        let round_ended = sample.total_delivered >= self.window_end;
        if round_ended && self.begin_round(sample) {
            return true;
        }
        let Some(rtt) = sample.rtt else {
            return false;
        };
        let rtt = u32::try_from(rtt.as_micros()).unwrap_or(NONE - 1);
        self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
        self.rtt_sample_count = self.rtt_sample_count.saturating_add(1);
        if self.rtt_sample_count >= N_RTT_SAMPLE {
            self.compare();
        }
        false
    }

    /// Section 4.2: the start of a round. Whether conservative slow start has lasted long enough.
    fn begin_round(&mut self, sample: &AckSample) -> bool {
        self.window_end = sample.total_delivered + u64::from(sample.flight);
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = NONE;
        self.rtt_sample_count = 0;
        if self.css_baseline_min_rtt == NONE {
            return false;
        }
        // (the round in which it began counts, though it was not whole)
        self.css_rounds += 1;
        self.css_rounds >= CSS_ROUNDS
    }

    fn compare(&mut self) {
        let (last, current) = (self.last_round_min_rtt, self.current_round_min_rtt);
        if self.css_baseline_min_rtt != NONE {
            // the round trips are short again: it was jitter
            if current < self.css_baseline_min_rtt {
                self.css_baseline_min_rtt = NONE;
                self.css_rounds = 0;
            }
        } else if last != NONE {
            let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            if current >= last.saturating_add(threshold) {
                self.css_baseline_min_rtt = current;
                self.css_rounds = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use gannet_base::Instant;

    struct Rounds {
        hystart: HyStart,
        delivered: u64,
    }

    impl Rounds {
        fn new() -> Self {
            let hystart = HyStart::default();
            Rounds {
                hystart,
                delivered: 0,
            }
        }

        /// One round of `samples` acknowledgements that each show `ms`; whether slow start ended.
        fn round(&mut self, samples: u64, ms: u64) -> bool {
            let mut over = false;
            for n in 0..samples {
                self.delivered += 1000;
                over |= self.hystart.on_ack(&AckSample {
                    acked: 1000,
                    rtt: Some(Duration::from_millis(ms)),
                    // what this round's acknowledgements leave for the next
                    flight: if n == 0 { samples as u32 * 1000 } else { 0 },
                    total_delivered: self.delivered,
                    ..AckSample::at(Instant::ZERO)
                });
            }
            over
        }
    }

    #[test]
    fn section_4_2_growing_round_trips_end_slow_start_after_five_rounds() {
        let mut r = Rounds::new();
        for _ in 0..3 {
            assert!(!r.round(10, 40));
            assert_eq!(r.hystart.divisor(), 1);
        }
        assert!(!r.round(10, 44), "within the threshold of 40 / 8 ms");
        assert_eq!(r.hystart.divisor(), 1);
        assert!(!r.round(10, 50));
        assert_eq!(r.hystart.divisor(), 4);
        for round in 2..=5 {
            assert!(!r.round(10, 50), "{round}");
        }
        assert!(r.round(10, 50));
    }

    #[test]
    fn section_4_2_jitter_is_forgiven() {
        let mut r = Rounds::new();
        r.round(10, 40);
        r.round(10, 60);
        assert_eq!(r.hystart.divisor(), 4);
        r.round(10, 41);
        assert_eq!(r.hystart.divisor(), 1, "the round trips are short again");
    }

    #[test]
    fn section_4_3_thresholds() {
        // round trip before, after, conservative
        for (before, after, slows) in [
            (1, 4, false), // at least 4 ms more
            (1, 5, true),
            (80, 89, false), // an eighth
            (80, 90, true),
            (400, 415, false), // at most 16 ms more
            (400, 416, true),
        ] {
            let mut r = Rounds::new();
            r.round(10, before);
            r.round(10, after);
            assert_eq!(r.hystart.divisor() == 4, slows, "{before} {after}");
        }
        let mut few = Rounds::new();
        few.round(10, 10);
        few.round(7, 100);
        assert_eq!(few.hystart.divisor(), 1, "too few samples");
    }
}
