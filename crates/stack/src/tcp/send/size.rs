//! Probes of the path's MTU: new data in one segment larger than others (RFC 4821 section 7). This
//! file sends one and says what became of it; which size is next is `black_hole/search.rs`'s.
//!
//! ```text
//!   Due --sent--> Out --acknowledged------------------> passed
//!                  | only it is lost: sent again in
//!                  | small pieces, no congestion
//!                  +--> Excused --acknowledged--------> failed
//!                  | other losses, or a time-out
//!                  '--> Muddled --all is repaired-----> unclear
//! ```
//! Needs SACK: without it nobody knows that nothing else was lost.

use super::{DUP_THRESH, Plan, Send, SendTimer, Why};
use crate::tcp::sent::SeqRange;

/// What is to leave, or awaits its answer, beside what the queues say. In this order: the first two
/// disturb no straight line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ask {
    /// Nothing.
    Nothing,
    /// A probe of the path's MTU, as soon as there is enough to send.
    Size,
    /// It is under way, or what it lost is.
    Sized,
    /// A probe of a closed window, now.
    Window,
}

/// What [`Send::asked`] decided.
pub(super) enum Asked {
    /// Send this.
    Send(Plan),
    /// Nothing before the next acknowledgement.
    Wait,
    /// Whatever else there is.
    Go,
}

/// A probe of the path's MTU.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeProbe {
    /// Its payload.
    len: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Due,
    Out(SeqRange),
    Excused(SeqRange),
    Muddled,
}

/// What became of a probe with so much payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum SizeAnswer {
    /// It arrived.
    Passed(u32),
    /// It alone did not.
    Failed(u32),
    /// It had no fair chance.
    Unclear,
}

impl Send {
    /// Whether a probe may ever be sent: only then is it known what else was lost.
    pub(in crate::tcp) fn can_probe_size(&self) -> bool {
        self.sack && self.lossy
    }

    /// A segment with `len` bytes of payload is to be tried.
    pub(in crate::tcp) fn probe_size(&mut self, len: u32) {
        let stage = Stage::Due;
        self.size = Some(SizeProbe { len, stage });
        self.ask_on();
    }

    /// No more trials. Whether one was due or under way.
    pub(in crate::tcp) fn forget_size(&mut self) -> bool {
        let forgotten = self.size.take().is_some();
        self.ask_on();
        forgotten
    }

    /// A probe is due, or under way.
    pub(in crate::tcp) fn probes_size(&self) -> bool {
        self.size.is_some()
    }

    /// What is asked for now, unless it is a closed window that is probed.
    pub(super) fn ask_on(&mut self) {
        if self.ask != Ask::Window {
            self.ask = self.asks_size();
        }
    }

    /// The probe of the window has left.
    pub(super) fn window_probed(&mut self) {
        self.ask = self.asks_size();
    }

    fn asks_size(&self) -> Ask {
        match self.size.map(|p| p.stage) {
            None => Ask::Nothing,
            Some(Stage::Due) => Ask::Size,
            Some(_) => Ask::Sized,
        }
    }

    /// Something beside the queues may want to leave.
    #[cold]
    pub(super) fn asked(&mut self) -> Asked {
        match self.ask {
            Ask::Window => {
                let len = u32::from(self.nxt.before(self.queue.end()));
                Asked::Send(self.plan(self.nxt, len, Why::Probe))
            }
            Ask::Size => self.size_due(),
            Ask::Nothing | Ask::Sized => Asked::Go,
        }
    }

    /// Whether the probe can leave: RFC 4821 section 7.4.
    fn size_due(&mut self) -> Asked {
        let Some(SizeProbe { len, .. }) = self.size else {
            return Asked::Go;
        };
        //= https://www.rfc-editor.org/rfc/rfc4821#section-7.4
        //# It has no outstanding probes or losses.
        let quiet = self.is_untroubled()
            && self.nxt == self.max
            && !matches!(self.timer, SendTimer::Persist(_))
            && !self.ecn.owes_cwr();
        //= https://www.rfc-editor.org/rfc/rfc4821#section-7.4
        //# For example, TCP Fast Retransmit is not robust unless there are sufficient segments
        //# following a probe; that is, the sender SHOULD have enough data queued and sufficient
        //# receiver window to send the probe plus at least Tcprexmtthresh [RFC2760] additional
        //# segments.
        let needed = len.saturating_add(self.mss.saturating_mul(DUP_THRESH + 1));
        let cwnd = self.congestion.cwnd();
        let enough = self.unsent().min(self.window_room()).min(cwnd) >= needed;
        if !quiet || !enough {
            return Asked::Go;
        }
        //= https://www.rfc-editor.org/rfc/rfc4821#section-7.4
        //# The available window is greater than the probe size.
        if cwnd.saturating_sub(self.flight()) > len {
            return Asked::Send(self.plan(self.nxt, len, Why::Size));
        }
        //= https://www.rfc-editor.org/rfc/rfc4821#section-7.4
        //# Protocols MAY delay sending non-probes in order to accumulate enough
        //# data to meet the pre-conditions for probing.
        // (the window itself limits for how long: every acknowledgement makes room)
        self.cwnd_limited = true;
        Asked::Wait
    }

    /// The probe has left with `len` bytes of payload.
    pub(super) fn on_size_probe(&mut self, range: SeqRange, len: u32) {
        // something else took its place in the segment: then it is one like others
        let stage = match len > self.mss {
            true => Stage::Out(range),
            false => Stage::Muddled,
        };
        self.size = Some(SizeProbe { len, stage });
        self.ask_on();
    }

    /// Something is lost, `resent` bytes of it again; whether that is the probe alone.
    //= https://www.rfc-editor.org/rfc/rfc4821#section-4
    //# Normal congestion control algorithms MUST remain in effect under all conditions except when
    //# only an isolated probe packet is detected as lost.
    pub(super) fn only_probe_lost(&mut self, resent: u32) -> bool {
        let Some(probe) = &mut self.size else {
            return false;
        };
        let (range, again) = match probe.stage {
            Stage::Out(range) => (range, false),
            Stage::Excused(range) => (range, true),
            Stage::Due | Stage::Muddled => return false,
        };
        let inside = self.sent.lost_within(range);
        if inside == 0 && !again {
            return false; // others, before or behind it: it may still arrive
        }
        let alone = resent == 0 && inside == self.sent.lost();
        probe.stage = match alone {
            true => Stage::Excused(range),
            false => Stage::Muddled,
        };
        alone
    }

    /// The retransmission timer has expired: what was lost, and why, is not known.
    pub(super) fn muddle_size(&mut self) {
        if let Some(probe) = &mut self.size
            && !matches!(probe.stage, Stage::Due)
        {
            probe.stage = Stage::Muddled;
        }
    }

    /// What became of the probe, once that is known; then it is forgotten.
    pub(in crate::tcp) fn take_size_answer(&mut self) -> Option<SizeAnswer> {
        let SizeProbe { len, stage } = self.size?;
        let answer = match stage {
            Stage::Out((_, end)) if self.una.after_eq(end) => SizeAnswer::Passed(len),
            Stage::Excused((_, end)) if self.una.after_eq(end) => SizeAnswer::Failed(len),
            Stage::Muddled if self.recovery.is_none() && self.loss.is_none() => SizeAnswer::Unclear,
            _ => return None,
        };
        self.forget_size();
        Some(answer)
    }
}
