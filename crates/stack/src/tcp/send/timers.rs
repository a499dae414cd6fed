//! The one timer of the sending half: retransmission, window probes, the override of a silly
//! window.

use core::time::Duration;

use gannet_base::Instant;

use super::{Send, SendTimer};
use crate::tcp::window::probe_interval;

impl Send {
    /// Whether the window is closed with nothing in flight within it.
    pub(super) fn is_stuck(&self) -> bool {
        self.wnd == 0 && self.nxt == self.una && self.nxt.before(self.end())
    }

    /// Starts the timer if something must be waited for and it does not run.
    #[inline]
    pub(super) fn start_timer(&mut self, now: Instant) {
        if matches!(self.timer, SendTimer::Retransmit(_)) {
            return;
        }
        self.restart_timer(now);
    }

    //= https://www.rfc-editor.org/rfc/rfc6298#section-5
    //# (5.3) When an ACK is received that acknowledges new data, restart the
    //# retransmission timer so that it will expire after RTO seconds
    //# (for the current value of RTO).
    #[inline]
    pub(super) fn restart_timer(&mut self, now: Instant) {
        self.timer = if self.is_stuck() {
            SendTimer::Persist(now + probe_interval(self.rtt.rto(), self.probes))
        } else if self.outstanding() {
            SendTimer::Retransmit(now + self.rtt.rto())
        } else {
            //= https://www.rfc-editor.org/rfc/rfc6298#section-5
            //# (5.2) When all outstanding data has been acknowledged, turn off the
            //# retransmission timer.
            SendTimer::Off
        };
    }

    /// After an acknowledgement of nothing new, or a look at the queue that sent nothing: the right
    /// timer for the window as it is now.
    pub(in crate::tcp) fn adjust_timer(&mut self, now: Instant) {
        match (self.is_stuck(), self.timer) {
            (true, SendTimer::Persist(_)) => {}
            (true, _) | (false, SendTimer::Persist(_)) => self.restart_timer(now),
            (false, SendTimer::Off) if self.outstanding() => self.restart_timer(now),
            (false, SendTimer::Off) if self.waits_for_window() => {
                //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
                //# The override timeout should be in the range 0.1 - 1.0 seconds.
                const OVERRIDE: Duration = Duration::from_millis(200);
                self.timer = SendTimer::Override(now + OVERRIDE);
            }
            _ => {}
        }
    }

    fn waits_for_window(&self) -> bool {
        self.wnd > 0 && self.nxt.before(self.queue.end())
    }

    /// When the timer expires.
    #[inline]
    pub(in crate::tcp) fn deadline(&self) -> Instant {
        match self.timer {
            SendTimer::Off => Instant::FAR_FUTURE,
            SendTimer::Retransmit(at) | SendTimer::Persist(at) | SendTimer::Override(at) => at,
        }
    }

    /// The timer has expired; `false` when the peer did not answer `retries_max` times in a row.
    pub(in crate::tcp) fn on_timer(&mut self, now: Instant, retries_max: u32) -> bool {
        match self.timer {
            SendTimer::Off => {}
            SendTimer::Override(_) => {
                self.overridden = true;
                self.timer = SendTimer::Off;
            }
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
            //# Probing of zero (offered) windows MUST be supported (MUST-36).
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
            //# If the window shrinks to zero, the TCP implementation MUST probe it in the
            //# standard way (described below) (MUST-35).
            SendTimer::Persist(_) => {
                self.retries += 1;
                self.probes += 1;
                self.probe = true;
                self.timer = SendTimer::Persist(now + probe_interval(self.rtt.rto(), self.probes));
            }
            SendTimer::Retransmit(_) => self.on_timeout(now),
        }
        self.retries <= retries_max
    }

    //= https://www.rfc-editor.org/rfc/rfc6298#section-5
    //# (5.4) Retransmit the earliest segment that has not been acknowledged
    //# by the TCP receiver.
    //= https://www.rfc-editor.org/rfc/rfc6298#section-5
    //# (5.5) The host MUST set RTO <- RTO * 2 ("back off the timer").
    fn on_timeout(&mut self, now: Instant) {
        self.retries += 1;
        self.timeouts += 1;
        let flight = self.max - self.una;
        self.congestion.on_rto(flight);
        self.rtt.back_off();
        self.timed.on_retransmit();
        //= https://www.rfc-editor.org/rfc/rfc2018#section-5
        //# After a retransmit timeout the data sender SHOULD turn off all of the SACKed bits,
        //# since the timeout might indicate that the data receiver has reneged.
        self.scoreboard.clear();
        self.scoreboard.end_recovery();
        self.recovery = None;
        self.dup_acks = 0;
        self.after_timeout = Some(self.max);
        self.nxt = self.una;
        self.resend_head = true;
        self.timer = SendTimer::Retransmit(now + self.rtt.rto());
    }
}
