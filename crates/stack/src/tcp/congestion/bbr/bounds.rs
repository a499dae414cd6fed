//! What losses say about the path: draft-ietf-ccwg-bbr sections 5.5.10 and 5.5.11.
//!
//! * long term: `inflight_longterm`, the most that went well when more was tried;
//! * short term: `bw_shortterm` and `inflight_shortterm`, lowered by losses while nothing more is
//!   tried, forgotten before the next try.

use super::{Ack, MIN_PIPE_CWND, NONE, PACING_MARGIN_PERCENT};

/// `BBR.LossThresh`, percent: more is too much.
const LOSS_THRESH: u64 = 2;
/// Segments beyond that which may be chance: of 170 in flight with 1 % lost at random, every fifth
/// flight loses more than 2 %, one in five hundred three segments more than that.
const LOSS_CHANCE: u64 = 3;
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
    /// Acknowledgements of this round that found something lost.
    pub(super) loss_events: u8,
    /// A router has marked since the last acknowledgement.
    marked: bool,
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
            loss_events: 0,
            marked: false,
            bw_latest: 0,
            inflight_latest: 0,
        }
    }
}

impl Bounds {
    /// `BBRNoteLoss`.
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round_delivered = delivered;
        }
        self.loss_in_round = true;
        self.loss_events = self.loss_events.saturating_add(1);
    }

    pub(super) fn note_mark(&mut self) {
        self.loss_in_round = true;
        self.marked = true;
    }

    /// `BBRUpdateLatestDeliverySignals`.
    pub(super) fn update_latest(&mut self, ack: &Ack) {
        self.loss_round_start = ack.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = ack.total_delivered;
        }
        self.bw_latest = self.bw_latest.max(ack.bw);
        self.inflight_latest = self.inflight_latest.max(ack.delivered);
    }

    /// `BBRAdvanceLatestDeliverySignals`; the round's losses have been dealt with.
    pub(super) fn advance_latest(&mut self, ack: &Ack) {
        self.marked = false;
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (ack.bw, ack.delivered);
            self.loss_in_round = false;
            self.loss_events = 0;
        }
    }

    pub(super) fn is_loss_round_start(&self) -> bool {
        self.loss_round_start
    }

    /// `BBRIsInflightTooHigh`.
    pub(super) fn is_inflight_too_high(&self, ack: &Ack, smss: u32) -> bool {
        let tolerable = u64::from(ack.tx_in_flight) * LOSS_THRESH / 100;
        self.marked || ack.lost > tolerable + u64::from(smss) * LOSS_CHANCE
    }

    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// `BBRInitLowerBounds` and `BBRLossLowerBounds`, after a round trip with losses.
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
        // what our own margin and tolerable losses explain is no sign that there is less
        if self.bw_latest < *bw / 100 * EXPLAINED {
            *bw = self.bw_latest.max(*bw / 100 * BETA);
        }
        if u64::from(self.inflight_latest) < u64::from(*inflight) * EXPLAINED / 100 {
            *inflight = self.inflight_latest.max(beta(*inflight));
        }
    }

    /// `BBRResetShortTermModel`.
    pub(super) fn reset_short_term(&mut self) {
        self.limits.bw_shortterm = u64::MAX;
        self.limits.inflight_shortterm = NONE;
    }

    /// `BBRResetCongestionSignals`.
    pub(super) fn reset_signals(&mut self) {
        self.loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// `BBRInflightWithHeadroom`.
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
        self.loss_in_round = false;
        self.loss_events = 0;
    }
}

/// Beta times so much.
pub(super) fn beta(bytes: u32) -> u32 {
    (u64::from(bytes) * BETA / 100) as u32
}
