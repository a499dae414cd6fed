//! Sending at a rate: what a pacer adds to [`Send::next`]. Without one, a test of one field.

use alloc::boxed::Box;

use gannet_base::Instant;

use super::{Plan, Send, Why};
use crate::config::{CongestionControl, Pacing};
use crate::tcp::congestion::{ABC_LIMIT_MERGED, AckSample};

impl Send {
    /// Another control takes over, paced if it or `pacing` wants that; whether it is another.
    pub(in crate::tcp) fn set_control(
        &mut self,
        control: CongestionControl,
        pacing: Pacing,
    ) -> bool {
        let other = self.congestion.set_control(control);
        self.sent.measure_rate(control.needs_pacing());
        let paced = pacing == Pacing::On || control.needs_pacing();
        match (&self.pacer, paced) {
            (None, true) => self.pacer = Some(Box::default()),
            (Some(_), false) => self.pacer = None,
            _ => {}
        }
        // RFC 9406 section 4.2: L is infinite for a sender that paces
        let limit = if paced { u32::MAX } else { ABC_LIMIT_MERGED };
        self.congestion.set_abc_limit(limit);
        if let Some(rtt) = self.rtt.srtt().filter(|_| paced) {
            self.congestion.seed_rtt(rtt);
        }
        self.set_pace();
        other
    }

    /// The rate as the congestion control has it now.
    #[inline]
    pub(super) fn set_pace(&mut self) {
        if let Some(pacer) = &mut self.pacer {
            pacer.set_rate(self.congestion.pacing_rate(), self.mss);
        }
    }

    /// An acknowledgement: of the window and the rate, what concerns congestion control.
    #[inline]
    pub(super) fn tell_control(&mut self, sample: &mut AckSample) {
        if self.pacer.is_none() {
            return self.congestion.on_ack(sample);
        }
        self.tell_control_paced(sample);
    }

    fn tell_control_paced(&mut self, sample: &mut AckSample) {
        if let Some(pacer) = &mut self.pacer {
            let slow = self.congestion.in_slow_start();
            let slow = slow.then_some(self.congestion.cwnd());
            let limited = pacer.was_limited(sample.total_delivered, sample.flight, slow);
            // what ended a recovery says nothing about growth
            sample.cwnd_limited = limited && !sample.ends_recovery;
        }
        self.congestion.on_ack(sample);
        if self.congestion.wants_low_flight() {
            self.sent.starve(sample.flight);
        }
        self.set_pace();
    }

    /// What to send next, if the rate allows it now.
    pub(super) fn next_paced(&mut self, limit: u32, now: Instant) -> Option<Plan> {
        let pacer = self.pacer.as_mut()?;
        pacer.look(now);
        let quantum = pacer.quantum();
        let plan = self.choose(limit.min(quantum));
        // what is sent again has found room in the window; a model asks whether it was full
        let hole = plan.as_ref().is_some_and(|p| p.why == Why::Hole);
        let roomy = hole && self.sent.rate().is_measured();
        let pacer = self.pacer.as_mut()?;
        pacer.note_window(self.cwnd_limited && !roomy);
        match plan {
            // what answers a timer does not wait for another
            Some(plan) if plan.len > 0 && matches!(plan.why, Why::Next | Why::Hole) => {
                pacer.admits(now).then_some(plan)
            }
            Some(plan) => Some(plan),
            None => {
                pacer.rest();
                None
            }
        }
    }

    /// `len` bytes have left.
    pub(super) fn note_paced(&mut self, len: u32, now: Instant) {
        let flight = self.flight();
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(len, flight, now);
        }
    }

    /// The application is about to write: was there nothing to send when the rate allowed some?
    pub(super) fn before_paced_write(&mut self, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            pacer.look(now);
        }
        if self.unsent() == 0 && self.sent.lost() == 0 {
            self.note_starvation();
        }
    }

    /// When the rate allows what it keeps back now.
    #[inline]
    pub(in crate::tcp) fn pace_at(&self) -> Instant {
        match &self.pacer {
            None => Instant::FAR_FUTURE,
            Some(pacer) => pacer.wait(),
        }
    }

    /// The rate allows more: with the next output it leaves.
    pub(in crate::tcp) fn on_pace_timer(&mut self, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            pacer.expired(now);
        }
    }

    /// Bytes per second, where they are limited.
    pub(in crate::tcp) fn pace(&self) -> Option<u64> {
        self.pacer.as_ref().and_then(|p| p.rate())
    }
}
