//! Connections at rest: nothing queued, nothing under way, nothing to wait for but the peer and the
//! application. Most connections of a busy server are that, most of the time, and what they need to
//! know fits into a third of what a lively one needs.
//!
//! ```text
//!                   nothing happened for a while (the wheel calls)
//!   State::Open  --------------------------------------------------->  State::Dormant
//!                <---------------------------------------------------
//!                   a segment, a write, a close, a keep-alive is due
//! ```
//! Nothing that a peer can see is lost: what is folded away is empty or has the value it begins
//! with, and whatever else differs from that keeps the connection awake or is kept. Reading and
//! asking wake nobody.

use alloc::boxed::Box;
use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::tcp::UserTimeout;

use super::black_hole::BlackHole;
use super::connection::{Connection, Open, State};
use super::ecn::EcnReceiver;
use super::recv::{AckOwed, Recv};
use super::sack_blocks::SackGenerator;
use super::send::RestingSend;
use super::seq::SeqNum;
use super::transitions::Phase;
use super::window::WindowScale;
use super::{autotune::AutoTune, autotune::ReceiverRtt};

/// An established connection at rest: see [`Open`] for what its fields mean.
#[derive(Debug)]
pub(super) struct Dormant {
    halves: Box<Halves>,
    black_hole: Option<Box<BlackHole>>,
    challenge_at: Instant,
    pub(super) heard_at: Instant,
    timestamp_offset: u32,
    peer_mss: u32,
    /// What memory allows it: see [`Recv::share`].
    pub(super) share: u32,
    pub(super) keep_alive_probes: u8,
    timestamps: bool,
    owed_timeout: Option<UserTimeout>,
}

/// Both halves of a connection at rest.
#[derive(Debug)]
pub(super) struct Halves {
    send: RestingSend,
    recv: RestingRecv,
}

/// The receiving half: see [`Recv`] for what its fields mean.
#[derive(Debug)]
struct RestingRecv {
    nxt: SeqNum,
    edge: SeqNum,
    urgent_end: u64,
    sack: Option<Box<SackGenerator>>,
    ts_recent_at: Instant,
    ts_recent: u32,
    last_ack_sent: SeqNum,
    mss: u32,
    buffer: u32,
    tune: AutoTune,
    rtt: ReceiverRtt,
    total: u64,
    last_data: Instant,
    ecn: EcnReceiver,
    scale: WindowScale,
    quick: u8,
    fixed: bool,
}

impl Recv {
    /// Whether nothing waits to be read and no acknowledgement is owed.
    fn rests(&self) -> bool {
        self.queue.len() == 0
            && self.assembler.is_empty()
            && self.up.is_none()
            && self.fin.is_none()
            && self.owed == AckOwed::No
            && self.unacked == 0
            && !self.shut
            && !self.deaf
    }

    fn fold(self) -> RestingRecv {
        // Every field is named: a new one must be thought of here.
        let Recv {
            nxt,
            edge,
            up: _,
            urgent_end,
            queue: _,
            assembler: _,
            sack,
            ecn,
            fin: _,
            finished: _,
            deaf: _,
            ts_recent,
            ts_recent_at,
            last_ack_sent,
            scale,
            mss,
            owed: _,
            unacked: _,
            quick,
            ack_at: _,
            tune,
            rtt,
            buffer,
            fixed,
            share: _,
            shut: _,
            total,
            last_data,
        } = self;
        RestingRecv {
            nxt,
            edge,
            urgent_end,
            sack: (!sack.is_new()).then(|| Box::new(sack)),
            ts_recent_at,
            ts_recent,
            last_ack_sent,
            mss,
            buffer,
            tune,
            rtt,
            total,
            last_data,
            ecn,
            scale,
            quick,
            fixed,
        }
    }
}

impl RestingRecv {
    fn unfold(&self, share: u32) -> Recv {
        let mut recv = Recv::new(self.nxt, 0, self.scale, self.tune.clone());
        recv.assembler.set_cost_limit(self.buffer);
        Recv {
            nxt: self.nxt,
            edge: self.edge,
            urgent_end: self.urgent_end,
            sack: self.sack.as_deref().copied().unwrap_or_default(),
            ecn: self.ecn,
            ts_recent: self.ts_recent,
            ts_recent_at: self.ts_recent_at,
            last_ack_sent: self.last_ack_sent,
            mss: self.mss,
            quick: self.quick,
            rtt: self.rtt.clone(),
            buffer: self.buffer,
            fixed: self.fixed,
            share,
            total: self.total,
            last_data: self.last_data,
            ..recv
        }
    }
}

impl Open {
    /// Whether there is nothing to do for it and nothing to wait for.
    fn rests(&self) -> bool {
        self.phase == Phase::Established
            && self.send.rests()
            && self.recv.rests()
            && self.fast.is_none()
            && !self.blocked
    }

    fn fold(self) -> Dormant {
        // Every field is named: a new one must be thought of here.
        let Open {
            phase: _,
            send,
            recv,
            template: _,
            straight: _,
            timestamps,
            timestamp_offset,
            challenge_at,
            heard_at,
            keep_alive_probes,
            linger_until: _,
            peer_mss,
            mut black_hole,
            fast: _,
            owed_timeout,
            blocked: _,
        } = self;
        if send.probes_size() {
            black_hole.raise_at = Instant::ZERO; // what was due is due as soon as it wakes
        }
        Dormant {
            share: recv.share,
            halves: Box::new(Halves {
                send: send.fold(),
                recv: recv.fold(),
            }),
            black_hole: (!black_hole.is_new()).then(|| Box::new(black_hole)),
            challenge_at,
            heard_at,
            timestamp_offset,
            peer_mss,
            keep_alive_probes,
            timestamps,
            owed_timeout,
        }
    }

    /// When it last had anything to do.
    fn active_at(&self) -> Instant {
        self.heard_at.max(self.send.last_sent)
    }
}

impl Dormant {
    /// The connection as it was; it is looked at again at `at`.
    pub(super) fn unfold(&self, at: Instant) -> Open {
        let Halves { send, recv } = &*self.halves;
        Open {
            phase: Phase::Established,
            send: send.unfold(),
            recv: recv.unfold(self.share),
            template: None,
            straight: false,
            timestamps: self.timestamps,
            timestamp_offset: self.timestamp_offset,
            challenge_at: self.challenge_at,
            heard_at: self.heard_at,
            keep_alive_probes: self.keep_alive_probes,
            linger_until: at,
            peer_mss: self.peer_mss,
            black_hole: self
                .black_hole
                .as_deref()
                .copied()
                .unwrap_or(BlackHole::NONE),
            fast: None,
            owed_timeout: self.owed_timeout,
            blocked: false,
        }
    }
}

impl Connection {
    /// The time may have come to fold it, after so long without anything to do; whether it was.
    /// `wanted`: somebody waits for something that is not its own to give.
    pub(super) fn look_at_rest(&mut self, now: Instant, after: Duration, wanted: bool) -> bool {
        let State::Open(open) = &mut self.state else {
            return false;
        };
        if open.phase != Phase::Established || open.linger_until > now {
            return false;
        }
        let idle = now.saturating_duration_since(open.active_at());
        let just_woken = open.linger_until == Instant::ZERO;
        if idle < after {
            open.linger_until = open.active_at() + after;
        } else if just_woken {
            open.linger_until = now + after;
        } else if wanted || !open.rests() {
            // whoever does not read is asked ever more rarely
            open.linger_until = now + idle.max(after);
        } else if let State::Open(open) = core::mem::replace(&mut self.state, State::Closed) {
            self.state = State::Dormant(open.fold());
            return true;
        }
        false
    }

    /// Unfolds it if it is folded; whether it was. It is looked at again at `at`; the time of a
    /// call, where nobody knows it, is zero.
    pub(super) fn wake(&mut self, at: Instant) -> bool {
        let State::Dormant(dormant) = &self.state else {
            return false;
        };
        self.state = State::Open(Box::new(dormant.unfold(at)));
        true
    }
}
