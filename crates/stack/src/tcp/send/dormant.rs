//! What stays of a sending half while nothing is queued and nothing awaits an answer.

use alloc::boxed::Box;

use gannet_base::Instant;

use super::busy::Busy;
use super::{Ask, Fin, Forward, Send, SendTimer, Tail, Undo};
use crate::tcp::congestion::{Congestion, Pacer};
use crate::tcp::ecn::EcnSender;
use crate::tcp::error::TcpError;
use crate::tcp::rack::Rack;
use crate::tcp::rtt::RestingRtt;
use crate::tcp::send_queue::SendQueue;
use crate::tcp::sent::{Rate, Sent};
use crate::tcp::seq::SeqNum;
use crate::tcp::window::{Nagle, WindowScale};

/// A half at rest: see [`Send`] for what its fields mean.
#[derive(Debug)]
pub(in crate::tcp) struct RestingSend {
    /// SND.UNA and SND.NXT.
    una: SeqNum,
    wnd: u32,
    wl1: SeqNum,
    wl2: SeqNum,
    max_wnd: u32,
    mss: u32,
    congestion: Congestion,
    rtt: RestingRtt,
    rate: Rate,
    rack: Rack,
    last_sent: Instant,
    last_progress: Instant,
    ecn: EcnSender,
    buffer: u32,
    buffer_max: u32,
    acknowledged: u64,
    /// Of [`Busy`], see [`Busy::resting`]; the parts of it are [`Trouble`]'s.
    busy: u32,
    tail: Tail,
    nagle: Nagle,
    scale: WindowScale,
    /// `sack`, `timestamps`, `lossy`, whether the queue sums, `cwnd_limited`: a bit each.
    whether: u8,
    pacer: Option<Box<Pacer>>,
    trouble: Option<Box<Trouble>>,
}

fn bits(all: [bool; 5]) -> u8 {
    all.iter()
        .rev()
        .fold(0, |bits, &on| bits << 1 | u8::from(on))
}

fn of_bits(bits: u8) -> [bool; 5] {
    core::array::from_fn(|n| bits >> n & 1 == 1)
}

/// What only a connection remembers that has seen trouble.
#[derive(Debug)]
struct Trouble {
    dup_acks: u32,
    ignored: u32,
    loss: Option<SeqNum>,
    undo: Option<Undo>,
    forward: Forward,
    probes: u32,
    soft_error: Option<TcpError>,
    retransmissions: u64,
    timeouts: u64,
    recoveries: u64,
    undone: u64,
    tail_probes: u64,
    reneged: u64,
    held_back: [u64; 2],
}

impl Send {
    /// Whether nothing is queued, nothing under way and no timer runs.
    pub(in crate::tcp) fn rests(&self) -> bool {
        let pressed = self.resend_head || self.ask > Ask::Size || self.overridden || self.tail.due;
        self.una == self.queue.end()
            && self.una == self.max
            && self.una == self.nxt
            && self.queue.len() == 0
            && self.fin == Fin::Open
            && self.up.is_none()
            && self.recovery.is_none()
            && self.doubt.is_none()
            && self.retries == 0
            && self.timer == SendTimer::Off
            && self.pace_at() == Instant::FAR_FUTURE
            && !pressed
    }

    /// What stays; the half must rest. (Unfolding names every field of a half: a new one must be
    /// thought of.)
    pub(in crate::tcp) fn fold(self) -> RestingSend {
        let trouble = self.trouble();
        RestingSend {
            una: self.una,
            wnd: self.wnd,
            wl1: self.wl1,
            wl2: self.wl2,
            max_wnd: self.max_wnd,
            mss: self.mss,
            congestion: self.congestion,
            rtt: self.rtt.fold(),
            rate: *self.sent.rate(),
            rack: self.rack,
            last_sent: self.last_sent,
            last_progress: self.last_progress,
            ecn: self.ecn,
            buffer: self.buffer,
            buffer_max: self.buffer_max,
            acknowledged: self.acknowledged,
            busy: self.busy.at_rest(),
            tail: self.tail,
            nagle: self.nagle,
            scale: self.scale,
            whether: bits([
                self.sack,
                self.timestamps,
                self.lossy,
                self.queue.sums(),
                self.cwnd_limited,
            ]),
            pacer: self.pacer,
            trouble,
        }
    }

    fn trouble(&self) -> Option<Box<Trouble>> {
        let counts = self.retransmissions
            | self.timeouts
            | self.recoveries
            | self.undone
            | self.tail_probes
            | self.reneged
            | self.busy.held_back().iter().fold(0, |all, part| all | part)
            | u64::from(self.dup_acks | self.sent.ignored() | self.probes);
        let none = counts == 0
            && self.loss.is_none()
            && self.undo.is_none()
            && self.forward == Forward::Off
            && self.soft_error.is_none();
        (!none).then(|| {
            Box::new(Trouble {
                dup_acks: self.dup_acks,
                ignored: self.sent.ignored(),
                loss: self.loss,
                undo: self.undo,
                forward: self.forward,
                probes: self.probes,
                soft_error: self.soft_error,
                retransmissions: self.retransmissions,
                timeouts: self.timeouts,
                recoveries: self.recoveries,
                undone: self.undone,
                tail_probes: self.tail_probes,
                reneged: self.reneged,
                held_back: self.busy.held_back(),
            })
        })
    }

    fn trouble_back(&mut self, trouble: &Trouble) {
        self.dup_acks = trouble.dup_acks;
        self.loss = trouble.loss;
        self.undo = trouble.undo;
        self.forward = trouble.forward;
        self.probes = trouble.probes;
        self.soft_error = trouble.soft_error;
        self.retransmissions = trouble.retransmissions;
        self.timeouts = trouble.timeouts;
        self.recoveries = trouble.recoveries;
        self.undone = trouble.undone;
        self.tail_probes = trouble.tail_probes;
        self.reneged = trouble.reneged;
        self.busy.set_held_back(trouble.held_back);
    }
}

impl RestingSend {
    /// The half as it was.
    pub(in crate::tcp) fn unfold(&self) -> Send {
        let una = self.una;
        let [sack, timestamps, lossy, sums, cwnd_limited] = of_bits(self.whether);
        let ignored = self.trouble.as_ref().map_or(0, |t| t.ignored);
        let mut send = Send {
            una,
            nxt: una,
            max: una,
            wnd: self.wnd,
            wl1: self.wl1,
            wl2: self.wl2,
            max_wnd: self.max_wnd,
            up: None,
            queue: SendQueue::new(una, sums),
            fin: Fin::Open,
            scale: self.scale,
            mss: self.mss,
            nagle: self.nagle,
            congestion: self.congestion.clone(),
            rtt: self.rtt.unfold(),
            timed: self.una,
            sack,
            timestamps,
            lossy,
            sent: Sent::resumed(una, self.rate, ignored),
            rack: self.rack.clone(),
            dup_acks: 0,
            recovery: None,
            loss: None,
            undo: None,
            forward: Forward::Off,
            tail: self.tail,
            doubt: None,
            resend_head: false,
            ask: Ask::Nothing,
            size: None,
            overridden: false,
            small_end: None,
            cwnd_limited,
            retries: 0,
            probes: 0,
            timer: SendTimer::Off,
            rto_at: Instant::FAR_FUTURE,
            last_sent: self.last_sent,
            ecn: self.ecn,
            last_progress: self.last_progress,
            soft_error: None,
            buffer: self.buffer,
            buffer_max: self.buffer_max,
            retransmissions: 0,
            timeouts: 0,
            recoveries: 0,
            acknowledged: self.acknowledged,
            undone: 0,
            tail_probes: 0,
            reneged: 0,
            busy: Busy::resting(self.busy),
            window_limited: false,
            pacer: self.pacer.clone(),
            fitted: 0,
        };
        send.fit_buffer();
        if let Some(trouble) = &self.trouble {
            send.trouble_back(trouble);
        }
        send
    }
}
