//! What the path can: the network path model of draft-ietf-ccwg-bbr-06 section 5.5.

use core::time::Duration;

use gannet_base::Instant;

use super::Ack;

/// `BBR.MinRTTFilterLen`.
pub(super) const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
/// Half of `BBR.ExtraAckedFilterLen`, in round trips: the filter is kept in halves.
const EXTRA_ACKED_HALF: u8 = 5;

/// Round trips counted in packets, and the filters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Model {
    /// `BBR.max_bw` of the last ProbeBW cycle and of this one (`MaxBwFilterLen` is 2), bytes per
    /// second.
    max_bw: [u64; 2],
    min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    /// `C.delivered` as far as known.
    delivered: u64,
    next_round_delivered: u64,
    round_start: bool,
    round_count: u64,
    extra: Aggregation,
}

/// How many more bytes are acknowledged at once than the rate explains.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    interval_start: Instant,
    delivered: u64,
    /// The most of the half before, and of this one.
    most: [u32; 2],
    rounds: u8,
}

impl Model {
    pub(super) fn max_bw(&self) -> u64 {
        let [before, now] = self.max_bw;
        before.max(now)
    }

    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    pub(super) fn round_start(&self) -> bool {
        self.round_start
    }

    pub(super) fn round_count(&self) -> u64 {
        self.round_count
    }

    pub(super) fn extra_acked(&self) -> u32 {
        let [before, now] = self.extra.most;
        before.max(now)
    }

    /// `UpdateRound`: whether this acknowledges something sent after the last round began.
    pub(super) fn update_round(&mut self, ack: &Ack) -> bool {
        self.delivered = ack.total_delivered;
        self.round_start = ack.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
        }
        self.round_start
    }

    /// `StartRound`.
    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn set_delivered(&mut self, delivered: u64) {
        self.delivered = delivered;
    }

    /// `UpdateMaxBw`.
    pub(super) fn update_max_bw(&mut self, ack: &Ack) {
        if ack.bw >= self.max_bw() || !ack.app_limited {
            let [_, now] = &mut self.max_bw;
            *now = ack.bw.max(*now);
        }
    }

    /// `AdvanceMaxBwFilter`: a cycle is over. (One without a sample forgets nothing.)
    pub(super) fn advance_max_bw_filter(&mut self) {
        let [_, now] = self.max_bw;
        if now > 0 {
            self.max_bw = [now, 0];
        }
    }

    /// The second half of `UpdateMinRTT`; `stamp`: when `rtt` was seen.
    pub(super) fn update_min_rtt(&mut self, rtt: Duration, stamp: Instant, now: Instant) {
        let expired = now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if expired || self.min_rtt.is_none_or(|least| rtt < least) {
            self.min_rtt = Some(rtt);
            self.min_rtt_stamp = stamp;
        }
    }

    /// `UpdateACKAggregation`.
    pub(super) fn update_aggregation(&mut self, ack: &Ack, bw: u64, cwnd: u32, full: bool) {
        let half = if full { EXTRA_ACKED_HALF } else { 1 };
        if self.round_start {
            self.extra.rounds += 1;
            if self.extra.rounds >= half {
                let [_, now] = self.extra.most;
                self.extra.most = [if full { now } else { 0 }, 0];
                self.extra.rounds = 0;
            }
        }
        let interval = ack
            .now
            .saturating_duration_since(self.extra.interval_start)
            .as_nanos();
        let expected = u128::from(bw) * interval / 1_000_000_000;
        let mut expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.extra.delivered <= expected {
            self.restart_aggregation(ack.now);
            expected = 0;
        }
        self.extra.delivered += u64::from(ack.newly_acked);
        let extra = self.extra.delivered.saturating_sub(expected);
        let extra = u32::try_from(extra).unwrap_or(cwnd).min(cwnd);
        let [_, now] = &mut self.extra.most;
        *now = extra.max(*now);
    }

    /// What was delivered before counts no more.
    pub(super) fn restart_aggregation(&mut self, now: Instant) {
        self.extra.interval_start = now;
        self.extra.delivered = 0;
    }
}
