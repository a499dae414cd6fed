//! The one timer of the sending half: retransmission, window probes, the override of a silly
//! window.

use core::time::Duration;

use gannet_base::Instant;

use super::ack::News;
use super::{Ask, Send, SendTimer};
use crate::tcp::window::probe_interval;

impl Send {
    /// Whether the window is closed with nothing in flight within it.
    pub(super) fn is_stuck(&self) -> bool {
        self.wnd == 0 && self.nxt == self.una && self.nxt.before(self.end())
    }

    /// One of the timers runs that expire when no answer comes.
    #[inline]
    pub(super) fn waits_for_answer(&self) -> bool {
        matches!(
            self.timer,
            SendTimer::Retransmit(_) | SendTimer::Tail(_) | SendTimer::Reorder(_)
        )
    }

    /// Something has left: starts the timer if it does not run.
    #[inline]
    pub(super) fn start_timer(&mut self, now: Instant) {
        match self.timer {
            SendTimer::Retransmit(_) | SendTimer::Reorder(_) => {}
            SendTimer::Tail(_) => self.timer = SendTimer::Tail(self.probe_at(now, self.rto_at)),
            _ => self.restart_timer(now),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc6298#section-5
    //# (5.3) When an ACK is received that acknowledges new data, restart the
    //# retransmission timer so that it will expire after RTO seconds
    //# (for the current value of RTO).
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc6928#section-9
    //# To minimize spurious retransmissions, implementations MUST follow RFC 6298 [RFC6298] to
    //# restart the retransmission timer with the current value of RTO for each ACK received that
    //# acknowledges new data.
    pub(super) fn restart_timer(&mut self, now: Instant) {
        if self.is_stuck() {
            self.timer = SendTimer::Persist(now + probe_interval(self.rtt.rto(), self.probes));
        } else if self.outstanding() {
            self.rto_at = now + self.rtt.rto();
            self.rearm(now);
        } else {
            //= https://www.rfc-editor.org/rfc/rfc6298#section-5
            //# (5.2) When all outstanding data has been acknowledged, turn off the
            //# retransmission timer.
            self.timer = SendTimer::Off;
        }
    }

    /// The retransmission timer, from now.
    //= https://www.rfc-editor.org/rfc/rfc6298#section-5
    //# An implementation MUST manage the retransmission timer(s) in such a way that a segment is
    //# never retransmitted too early, i.e., less than one RTO after the previous transmission of
    //# that segment.
    pub(super) fn arm_retransmission(&mut self, now: Instant) {
        self.rto_at = now + self.rtt.rto();
        self.rearm(now);
    }

    /// The timer that is due next of the three that wait for an answer.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-8
    //# When arming a RACK reordering timer or TLP
    //# PTO timer, the sender SHOULD cancel any other pending timers.
    #[inline]
    pub(super) fn rearm(&mut self, now: Instant) {
        self.timer = match self.doubt {
            Some(at) => SendTimer::Reorder(at),
            None if self.may_probe_tail() => SendTimer::Tail(self.probe_at(now, self.rto_at)),
            None => SendTimer::Retransmit(self.rto_at),
        };
    }

    /// After an acknowledgement.
    #[inline]
    pub(super) fn time(&mut self, news: &News) {
        if news.advanced {
            return self.restart_timer(news.now);
        }
        self.adjust_timer(news.now);
        let other = match self.timer {
            SendTimer::Tail(_) => self.doubt.is_some() || !self.may_probe_tail(),
            SendTimer::Retransmit(_) => self.doubt.is_some(),
            SendTimer::Reorder(_) => true,
            _ => false,
        };
        if other {
            self.rearm(news.now);
        }
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
        let kept_back = self.pace_at() != Instant::FAR_FUTURE;
        self.wnd > 0 && self.nxt.before(self.queue.end()) && !kept_back
    }

    /// When the timer expires.
    #[inline]
    pub(in crate::tcp) fn deadline(&self) -> Instant {
        match self.timer {
            SendTimer::Off => Instant::FAR_FUTURE,
            SendTimer::Retransmit(_) if planted!(NoRetransmissionTimer) => Instant::FAR_FUTURE,
            SendTimer::Retransmit(at)
            | SendTimer::Persist(at)
            | SendTimer::Override(at)
            | SendTimer::Tail(at)
            | SendTimer::Reorder(at) => at,
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
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
            //# The sender MAY also retransmit old data beyond SND.UNA+SND.WND (MAY-7), but SHOULD
            //# NOT time out the connection if data beyond the right window edge is not
            //# acknowledged (SHLD-17).
            SendTimer::Persist(_) => {
                self.retries += 1;
                self.probes += 1;
                if !planted!(NoWindowProbe) {
                    self.ask = Ask::Window;
                }
                self.timer = SendTimer::Persist(now + probe_interval(self.rtt.rto(), self.probes));
            }
            SendTimer::Retransmit(_) => self.on_timeout(now),
            //= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
            //# After attempting to send a loss probe, regardless of whether a loss
            //# probe was sent, the sender MUST re-arm the RTO timer, not the PTO
            //# timer, if the FlightSize is not zero.
            SendTimer::Tail(_) => {
                //= https://www.rfc-editor.org/rfc/rfc8985#section-7.3
                //# If either one of these two conditions is not met, then the sender
                //# MUST skip sending a loss probe and MUST proceed to re-arm the RTO
                //# timer, as specified at the end of this section.
                self.tail.due = self.may_probe_tail();
                self.rto_at = now + self.rtt.rto();
                self.timer = SendTimer::Retransmit(self.rto_at);
            }
            SendTimer::Reorder(_) => self.on_doubt(now),
        }
        self.retries <= retries_max
    }
}
