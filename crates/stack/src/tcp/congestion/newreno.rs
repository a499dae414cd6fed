//! RFC 5681: one segment more per round trip, half on loss.

use super::MAX_CWND;

/// What NewReno remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewReno {
    /// Bytes acknowledged since the window last grew (RFC 3465 section 2.1).
    bytes_acked: u32,
}

impl NewReno {
    /// Congestion avoidance with appropriate byte counting (RFC 3465 section 2.1).
    pub(super) fn avoid(&mut self, cwnd: u32, smss: u32, newly_acked: u32) -> u32 {
        self.bytes_acked = self.bytes_acked.saturating_add(newly_acked);
        if self.bytes_acked < cwnd {
            return cwnd;
        }
        // at most one segment per window acknowledged, even if an ACK covers several windows
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# Note that during congestion avoidance, cwnd MUST NOT be increased by more than SMSS
        //# bytes per RTT.
        self.bytes_acked = (self.bytes_acked - cwnd).min(cwnd);
        cwnd.saturating_add(smss).min(MAX_CWND)
    }

    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
    //# When a TCP sender detects segment loss using the retransmission timer
    //# and the given segment has not yet been resent by way of the
    //# retransmission timer, the value of ssthresh MUST be set to no more
    //# than the value given in equation (4):
    // ssthresh = max (FlightSize / 2, 2*SMSS)   (4)
    pub(super) fn after_loss(&mut self, flight: u32, smss: u32) -> u32 {
        self.bytes_acked = 0;
        (flight / 2).max(smss.saturating_mul(2)).min(MAX_CWND)
    }
}
