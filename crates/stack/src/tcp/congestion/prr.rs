//! Proportional rate reduction (RFC 6937, with the choice of its successor, RFC 9937): over a
//! recovery the window falls to ssthresh evenly, one segment out for so many delivered.

use super::AckSample;

/// The variables of RFC 6937 section 3, same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prr {
    recover_fs: u32,
    prr_delivered: u32,
    prr_out: u32,
}

impl Prr {
    /// A recovery begins while `flight` bytes are outstanding.
    pub(super) fn new(flight: u32) -> Self {
        Prr {
            recover_fs: flight.max(1),
            prr_delivered: 0,
            prr_out: 0,
        }
    }

    /// `bytes` were sent or retransmitted.
    pub(super) fn on_send(&mut self, bytes: u32) {
        self.prr_out = self.prr_out.saturating_add(bytes);
    }

    /// The congestion window after an acknowledgement: what is in flight and what may follow now.
    pub(super) fn on_ack(&mut self, sample: &AckSample, ssthresh: u32, smss: u32) -> u32 {
        let (delivered, pipe) = (sample.delivered, sample.flight);
        self.prr_delivered = self.prr_delivered.saturating_add(delivered);
        let mut sndcnt = if pipe > ssthresh {
            self.proportional(ssthresh)
        } else {
            // RFC 9937: the slow start bound (PRR-SSRB) only while the recovery makes progress and
            // finds nothing new lost; else what was delivered, no more (PRR-CRB)
            let bound = self
                .prr_delivered
                .saturating_sub(self.prr_out)
                .max(delivered);
            let safe = sample.acked > 0 && sample.lost == 0;
            let extra = if safe { smss } else { 0 };
            (ssthresh - pipe).min(bound.saturating_add(extra))
        };
        if self.prr_out == 0 {
            sndcnt = sndcnt.max(smss); // the fast retransmission itself is never held back
        }
        pipe.saturating_add(sndcnt)
    }

    //= https://www.rfc-editor.org/rfc/rfc5681#section-4.3
    //# Second, until all lost segments in the window of data in question are repaired, the number
    //# of segments transmitted in each RTT MUST be no more than half the number of outstanding
    //# segments when the loss was detected.
    fn proportional(&self, ssthresh: u32) -> u32 {
        let due = u64::from(self.prr_delivered) * u64::from(ssthresh);
        let due = due.div_ceil(u64::from(self.recover_fs));
        u32::try_from(due)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.prr_out)
    }
}
