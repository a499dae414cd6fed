//! What losses say about the path: draft-ietf-ccwg-bbr-06 sections 5.5.10 and 5.5.11.
//!
//! * long term: `inflight_longterm`, the most that went well when more was tried;
//! * short term: `bw_shortterm` and `inflight_shortterm`, lowered by losses while nothing more is
//!   tried, forgotten before the next try.

use super::{Ack, Lost, MIN_PIPE_CWND, NONE, PACING_MARGIN_PERCENT};

/// `BBR.LossThresh`, percent: more is too much.
const LOSS_THRESH: u64 = 2;
/// Segments beyond that which may be chance: of 170 in flight with 1 % lost at random, every fifth
/// flight loses more than 2 %, one in five hundred three segments more than that. (The draft, which
/// wants to bear 1 % on average, has nothing of the kind.)
const LOSS_CHANCE: u64 = 3;
/// But no more than this part of the flight: of ten segments, one lost is too much.
const CHANCE_SHARE: u64 = 20;
/// `BBR.Beta`, percent: what a round trip with losses leaves.
const BETA: u64 = 70;
/// Percent: a round trip that delivered so much of a bound does not lower it. The sender keeps 1 %
/// below the bandwidth (`PacingMarginPercent`), and `LossThresh` may be lost. Without this, losses
/// at random, however few, take a few percent off in each round trip until the next probe.
const EXPLAINED: u64 = 100 - LOSS_THRESH - PACING_MARGIN_PERCENT;
/// `BBR.Headroom`, percent: what is left to other flows.
const HEADROOM: u32 = 15;

/// The bounds themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u32,
    pub(super) inflight_longterm: u32,
}

impl Limits {
    /// None.
    pub(super) const NONE: Limits = Limits {
        bw_shortterm: u64::MAX,
        inflight_shortterm: NONE,
        inflight_longterm: NONE,
    };
}

/// The bounds, and the signals of the round trip that lower them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) limits: Limits,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    /// Ranges of sequence numbers lost in this round.
    pub(super) lost_ranges: u32,
    /// A router has marked since the last acknowledgement, or something is lost and, without SACK,
    /// nobody knows how much.
    marked: bool,
    marked_in_round: bool,
    bw_latest: u64,
    pub(super) inflight_latest: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            limits: Limits::NONE,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            lost_ranges: 0,
            marked: false,
            marked_in_round: false,
            bw_latest: 0,
            inflight_latest: 0,
        }
    }
}

impl Bounds {
    /// `NoteLoss`.
    pub(super) fn note_loss(&mut self, delivered: u64, ranges: u32) {
        if !self.loss_in_round {
            self.loss_round_delivered = delivered;
        }
        self.loss_in_round = true;
        self.lost_ranges = self.lost_ranges.saturating_add(ranges);
    }

    pub(super) fn note_mark(&mut self, delivered: u64) {
        self.note_loss(delivered, 0);
        self.marked = true;
        self.marked_in_round = true;
    }

    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest(&mut self, ack: &Ack) {
        self.loss_round_start = ack.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = ack.total_delivered;
        }
        self.bw_latest = self.bw_latest.max(ack.bw);
        self.inflight_latest = self.inflight_latest.max(ack.delivered);
    }

    /// `AdvanceLatestDeliverySignals`; the round's losses have been dealt with.
    pub(super) fn advance_latest(&mut self, ack: &Ack) {
        self.marked = false;
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (ack.bw, ack.delivered);
            self.forget_round();
        }
    }

    fn forget_round(&mut self) {
        self.loss_in_round = false;
        self.lost_ranges = 0;
        self.marked_in_round = false;
    }

    pub(super) fn is_loss_round_start(&self) -> bool {
        self.loss_round_start
    }

    /// `IsInflightTooHigh`.
    pub(super) fn is_inflight_too_high(&self, ack: &Ack, smss: u32) -> bool {
        let lost = u32::try_from(ack.lost).unwrap_or(u32::MAX);
        let judged = judged(ack.tx_in_flight, ack.delivered, lost);
        self.marked || ack.lost > tolerable(judged, smss)
    }

    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// `InitLowerBounds` and `LossLowerBounds`, after a round trip with losses.
    pub(super) fn adapt_short_term(&mut self, max_bw: u64, cwnd: u32) {
        if !self.loss_in_round {
            return;
        }
        let Limits {
            bw_shortterm: bw,
            inflight_shortterm: inflight,
            ..
        } = &mut self.limits;
        if *bw == u64::MAX {
            *bw = max_bw;
        }
        if *inflight == NONE {
            *inflight = cwnd;
        }
        // what our own margin and tolerable losses explain is no sign that there is less; a mark,
        // which takes nothing from what is delivered, is
        let enough = if self.marked_in_round { 100 } else { EXPLAINED };
        if self.bw_latest < *bw / 100 * enough {
            *bw = self.bw_latest.max(*bw / 100 * BETA);
        }
        if u64::from(self.inflight_latest) < u64::from(*inflight) * enough / 100 {
            *inflight = self.inflight_latest.max(beta(*inflight));
        }
    }

    /// `ResetShortTermModel`.
    pub(super) fn reset_short_term(&mut self) {
        self.limits.bw_shortterm = u64::MAX;
        self.limits.inflight_shortterm = NONE;
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_signals(&mut self) {
        self.forget_round();
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// `InflightWithHeadroom`.
    pub(super) fn with_headroom(&self, smss: u32) -> u32 {
        let most = self.limits.inflight_longterm;
        if most == NONE {
            return NONE;
        }
        let headroom = (most / 100 * HEADROOM).max(smss);
        let least = smss.saturating_mul(MIN_PIPE_CWND);
        most.saturating_sub(headroom).max(least)
    }

    /// The losses were none: no bound stays lower than before them.
    pub(super) fn forgive(&mut self, before: Limits) {
        let now = self.limits;
        self.limits = Limits {
            bw_shortterm: now.bw_shortterm.max(before.bw_shortterm),
            inflight_shortterm: now.inflight_shortterm.max(before.inflight_shortterm),
            inflight_longterm: now.inflight_longterm.max(before.inflight_longterm),
        };
        self.forget_round();
    }
}

/// What losses are a part of: what was in flight when a segment left. When a window had closed and
/// little was, losses of all that had left before it are found in its round trip, too; then what
/// became of that says more. (The draft looks at the flight alone.)
fn judged(tx_in_flight: u32, delivered: u32, lost: u32) -> u32 {
    tx_in_flight.max(delivered.saturating_add(lost))
}

/// Bytes that may be lost of so many in flight: `LossThresh`, and chance.
fn tolerable(in_flight: u32, smss: u32) -> u64 {
    let in_flight = u64::from(in_flight);
    let chance = (u64::from(smss) * LOSS_CHANCE).min(in_flight / CHANCE_SHARE);
    in_flight * LOSS_THRESH / 100 + chance
}

/// `InflightAtLoss`, if it is too much that was lost: how much of the flight went well. The segment
/// may be of many packets; then a part of it did.
pub(super) fn inflight_at_loss(lost: &Lost, smss: u32) -> Option<u32> {
    let since = u64::from(lost.since);
    let judged = judged(lost.tx_in_flight, lost.delivered, lost.since);
    if lost.tx_in_flight == 0 || since <= tolerable(judged, smss) {
        return None;
    }
    let before = lost.tx_in_flight.saturating_sub(lost.len);
    let lost_before = since.saturating_sub(u64::from(lost.len));
    let budget = tolerable(before, smss).saturating_sub(lost_before);
    // each octet more in flight makes the budget greater, too
    let prefix = budget * 100 / (100 - LOSS_THRESH);
    Some(before.saturating_add(prefix.min(u64::from(lost.len)) as u32))
}

/// Beta times so much.
pub(super) fn beta(bytes: u32) -> u32 {
    (u64::from(bytes) * BETA / 100) as u32
}
