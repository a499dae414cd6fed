//! Windows: scaling (RFC 7323 section 2), silly-window avoidance on both sides (RFC 9293 section
//! 3.8.6.2), Nagle (3.7.4) and zero-window probes (3.8.6.1). Pure functions.

use core::time::Duration;

use super::seq::SeqNum;

/// A window in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowSize(pub u32);

/// A window as it stands in the header's 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnscaledWindow(pub u16);

/// A shift count, at most 14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowScale(u8);

impl WindowScale {
    /// No scaling.
    pub const ZERO: WindowScale = WindowScale(0);
    /// The largest shift.
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
    //# Thus, the shift count MUST be limited to 14 (which allows windows of 2^30 = 1 GiB).
    pub const MAX: WindowScale = WindowScale(14);

    /// A shift count from the wire. The caller counts values above 14.
    #[must_use]
    pub fn new(shift: u8) -> Self {
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
        //# If a Window Scale
        //# option is received with a shift.cnt value larger than 14, the TCP
        //# SHOULD log the error but MUST use 14 instead of the specified value.
        WindowScale(shift.min(Self::MAX.0))
    }

    /// The smallest shift that can express a window of `max_buffer` bytes: the largest size the
    /// receive buffer may ever grow to, since the shift is fixed for the connection.
    #[must_use]
    pub fn for_buffer(max_buffer: u32) -> Self {
        let bits = 32 - max_buffer.leading_zeros();
        WindowScale((bits.saturating_sub(16) as u8).min(Self::MAX.0))
    }

    /// The shift count for the option.
    #[must_use]
    pub fn shift(self) -> u8 {
        self.0
    }

    /// Smallest step the scaled field can express, bytes.
    #[must_use]
    pub fn unit(self) -> u32 {
        1 << self.0
    }
}

impl UnscaledWindow {
    /// The window meant by the peer.
    #[inline]
    #[must_use]
    pub fn scale(self, by: WindowScale) -> WindowSize {
        WindowSize(u32::from(self.0) << by.0)
    }
}

impl WindowSize {
    /// The header field, rounded down, saturated at 65,535.
    #[inline]
    #[must_use]
    pub fn unscale(self, by: WindowScale) -> UnscaledWindow {
        UnscaledWindow((self.0 >> by.0).min(u32::from(u16::MAX)) as u16)
    }
}

/// The receive window to advertise now.
///
/// * `offered`: what is left of the last advertisement, `rcv.nxt + rcv.wnd - rcv.nxt`
/// * `free`: free space of the receive buffer, `RCV.BUFF - RCV.USER`, bytes
/// * `buffer`: its size, `RCV.BUFF`
/// * `mss`: Eff.snd.MSS, the segment size we expect
///
/// The right edge moves right only by a worthwhile step, and left only by what the scale cannot
/// express: the result is a multiple of its unit, rounded down. (Rounding up, as Linux does, lets a
/// peer that sends less than a unit at a time move the edge for ever, and overrun a buffer that
/// nobody reads. The caller keeps the edge it once offered: RFC 7323 section 2.4.)
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.2
//# A TCP implementation MUST include a SWS avoidance algorithm in the receiver (MUST-39).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
//# A TCP receiver SHOULD NOT shrink the window, i.e., move the right window edge to the left
//# (SHLD-14).
#[must_use]
pub fn window_to_advertise(
    offered: WindowSize,
    free: u32,
    buffer: u32,
    mss: u32,
    scale: WindowScale,
) -> WindowSize {
    let unit = scale.unit();
    let keep = offered.0 / unit * unit;
    let limit = u32::from(u16::MAX) << scale.0;
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.2
    //# The suggested SWS avoidance algorithm for the receiver is to keep
    //# RCV.NXT+RCV.WND fixed until the reduction satisfies:
    // RCV.BUFF - RCV.USER - RCV.WND >= min( Fr * RCV.BUFF, Eff.snd.MSS ), Fr = 1/2
    let step = (buffer / 2).min(mss).max(1);
    let open = free / unit * unit;
    if open >= offered.0.saturating_add(step) || (keep == 0 && free >= buffer && open > 0) {
        WindowSize(open.min(limit))
    } else {
        WindowSize(keep.min(limit))
    }
}

/// Whether reading has opened the window so far that the peer should hear of it at once.
/// `offered`: what the peer still has; `would_offer`: from [`window_to_advertise`], which has
/// already refused small steps.
#[must_use]
pub fn window_update_due(offered: WindowSize, would_offer: WindowSize, mss: u32) -> bool {
    let gain = would_offer.0.saturating_sub(offered.0);
    let reopened = offered.0 == 0 && gain > 0;
    let segment_again = offered.0 < mss && gain >= mss;
    // doubled, by two segments or (a buffer of few segments) by half of the window: the
    // thresholds of 4.4BSD. Below them the sender's own silly-window rules lose nothing.
    let worthwhile = mss.saturating_mul(2).min(would_offer.0.div_ceil(2));
    reopened || segment_again || (gain > 0 && gain >= offered.0.max(worthwhile))
}

/// Which small segments wait for acknowledgements (RFC 9293 section 3.7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nagle {
    /// None (`TCP_NODELAY`).
    Off,
    /// A small one, while another small one is unacknowledged: the variation of appendix A.3
    /// (Minshall), Linux's default. RFC 896 itself holds a small segment while anything is
    /// unacknowledged; the tail of a large write then waits for a delayed acknowledgement.
    #[default]
    On,
}

impl Nagle {
    /// Whether a small segment must wait. `small_end`: end of the last segment sent that was
    /// smaller than the MSS.
    #[must_use]
    pub fn holds(self, snd_una: SeqNum, snd_nxt: SeqNum, small_end: Option<SeqNum>) -> bool {
        match self {
            _ if planted!(NagleForEver) => true,
            Nagle::Off => false,
            Nagle::On => small_end.is_some_and(|end| snd_una.before(end) && end.before_eq(snd_nxt)),
        }
    }
}

/// What a sender knows when it asks whether to send (RFC 9293 section 3.8.6.2.1).
#[derive(Clone, Copy, Debug)]
pub struct SendQuestion {
    /// D: bytes queued but not sent.
    pub queued: u32,
    /// U: usable window, the smaller of the peer's and the congestion window, less the flight.
    pub usable: u32,
    /// Eff.snd.MSS.
    pub mss: u32,
    /// Max(SND.WND): the largest window the peer ever offered.
    pub max_snd_wnd: u32,
    /// From [`Nagle::holds`].
    pub nagle_holds: bool,
    /// The queued data is pushed (the application wrote it, and does not cork).
    pub pushed: bool,
    /// The override timer (0.1 to 1 s) expired.
    pub override_timeout: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendAnswer {
    /// Send this many bytes, a multiple of the MSS or all there is.
    Send(u32),
    /// Nothing to send, or Nagle waits for an acknowledgement.
    Wait,
    /// The window is too small to be worth it: set the override timer (zero window: persist).
    WaitForWindow,
}

impl SendQuestion {
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
    //# A TCP implementation MUST include a SWS avoidance algorithm in the sender (MUST-38).
    /// How much to send now.
    #[must_use]
    pub fn answer(&self) -> SendAnswer {
        let Self {
            queued,
            usable,
            mss,
            max_snd_wnd,
            nagle_holds,
            pushed,
            override_timeout,
        } = *self;
        let mss = mss.max(1);
        let can = queued.min(usable);
        if queued == 0 {
            return SendAnswer::Wait;
        }
        // (1) full-sized segments
        if can >= mss {
            let whole = can - can % mss;
            // the tail leaves with them if it ends the queue and (2) lets it
            let tail_goes = can == queued && pushed && !nagle_holds;
            return SendAnswer::Send(if tail_goes { can } else { whole });
        }
        // (2) the whole queue
        if can == queued && pushed && !nagle_holds {
            return SendAnswer::Send(can);
        }
        // (3) Fs = 1/2 of the largest window seen
        if can > 0 && can >= max_snd_wnd.div_ceil(2) && !nagle_holds {
            return SendAnswer::Send(can);
        }
        // (4) the override timer; it breaks the silly window, and a hold by Nagle with it
        if can > 0 && override_timeout && pushed {
            return SendAnswer::Send(can);
        }
        if can < queued {
            SendAnswer::WaitForWindow
        } else {
            SendAnswer::Wait
        }
    }
}

/// Longest interval between zero-window probes.
pub const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(60);

/// Time from the closing of the window, or from probe number `probes_sent`, to the next probe.
#[must_use]
pub fn probe_interval(rto: Duration, probes_sent: u32) -> Duration {
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
    //# The transmitting host SHOULD send the first zero-window probe when a
    //# zero window has existed for the retransmission timeout period (SHLD-
    //# 29) (Section 3.8.1), and SHOULD increase exponentially the interval
    //# between successive probes (SHLD-30).
    rto.saturating_mul(1 << probes_sent.min(16))
        .min(MAX_PROBE_INTERVAL.max(rto))
}

#[cfg(test)]
mod tests;
