//! Windows that nobody uses (RFC 7661): a sender whose application gives it little keeps its
//! window, which neither grows nor shrinks meanwhile, and loses it by halves when that lasts.
//!
//! What of RFC 7661 is elsewhere: growth only while the window is what limits (`grow`), the window
//! after a loss from what was in flight and not from what was allowed (`after_loss`), bursts
//! (`pacing.rs`, where pacing is on). What is not here: pipeACK. The flight that an acknowledgement
//! finds is as good a measure of use, and is at hand; so nothing has to be counted while the window
//! is used, which is when it matters what an acknowledgement costs.

use gannet_base::Instant;

/// NVP, in units of 2^30 ns (1.07 s), which take one instruction to make of a time: 299.6 s.
//= https://www.rfc-editor.org/rfc/rfc7661#section-4.4
//# The NVP SHOULD NOT exceed five minutes.
const PERIOD: u32 = 279;

/// A window, and since when half of it was not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unused {
    cwnd: u32,
    /// In the same units; every connection at rest remembers it.
    since: u32,
}

impl Unused {
    /// An acknowledgement arrived at `now`, for which the window of `cwnd` was not what limited; it
    /// found `flight` bytes on their way. Whether the window has been too large for too long.
    #[inline]
    pub(super) fn lasts(&mut self, cwnd: u32, flight: u32, now: Instant) -> bool {
        let now = (now.as_nanos() >> 30) as u32;
        // (a window that has changed since was used, or is another)
        if flight >= cwnd / 2 || self.cwnd != cwnd {
            *self = Unused { cwnd, since: now };
            return false;
        }
        now.wrapping_sub(self.since) >= PERIOD
    }
}
