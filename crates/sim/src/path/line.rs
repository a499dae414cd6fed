//! The queue and the line behind it.
//!
//! Events are worked off in the order of their own times, whenever somebody looks: a caller that
//! comes late gets the same frames as one who comes often, only later.

use core::time::Duration;
use std::collections::VecDeque;

use gannet_base::{Instant, Rng};
use gannet_link::Medium;

use super::codel::Control;
use super::counters::{Event, PathCounters};
use super::dice::{Dice, Fate};
use super::flying::Flying;
use super::model::{Change, Model};
use super::place::{Place, link_header_len};
use super::spoil;
use crate::buffer::Buffer;

/// One direction of a link, at work.
#[derive(Clone, Debug)]
pub struct Path {
    model: Model,
    medium: Medium,
    /// The fate of frames.
    dice: Dice,
    /// Jitter has its own, so that it changes nobody's fate.
    jitter: Dice,
    /// How many steps of the schedule are done.
    steps: usize,
    down: bool,
    now: Instant,
    queue: VecDeque<Waiting>,
    queued_bytes: u64,
    queued_most: u64,
    control: Control,
    /// When the line has sent the last byte of the frame before.
    free_at: Instant,
    flying: Flying,
    /// How long the line took for so many bytes at this rate.
    timed: ((usize, u64), Duration),
    /// See [`Path::next_at`]; kept, because it is asked for more often than it changes.
    next: Instant,
    /// Arrival of the latest frame in order.
    last_arrival: Instant,
    counters: PathCounters,
    delivered_bytes: u64,
}

#[derive(Clone, Debug)]
struct Waiting {
    since: Instant,
    frame: Buffer,
}

impl Path {
    /// A path like `model` for frames of `medium`; every random choice follows from `seed`. Its
    /// schedule counts from `Instant::ZERO`.
    pub fn new(model: Model, medium: Medium, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let mut model = model;
        model.schedule.sort_by_key(|step| step.at);
        Path {
            model,
            medium,
            dice: Dice::new(seeds.next_u64()),
            jitter: Dice::new(seeds.next_u64()),
            steps: 0,
            down: false,
            now: Instant::ZERO,
            queue: VecDeque::new(),
            queued_bytes: 0,
            queued_most: 0,
            control: Control::default(),
            free_at: Instant::ZERO,
            flying: Flying::default(),
            timed: ((0, 1), Duration::ZERO),
            next: Instant::FAR_FUTURE,
            last_arrival: Instant::ZERO,
            counters: PathCounters::new(),
            delivered_bytes: 0,
        }
    }

    /// What it is like now; steps of the schedule that were due are in it.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Changes what it is like from `now` on. The schedule and queue bounds are those of the new
    /// model, what waits or travels stays.
    pub fn set_model(&mut self, now: Instant, mut model: Model) {
        self.advance(now);
        model.schedule.sort_by_key(|step| step.at);
        let past = model.schedule.partition_point(|step| due(step.at) <= now);
        (self.model, self.steps) = (model, past);
        self.look_ahead();
    }

    /// Takes the link down (`true`) or up by hand, beside what the schedule says.
    pub fn set_down(&mut self, now: Instant, down: bool) {
        self.advance(now);
        self.down = down;
        self.look_ahead();
    }

    /// Hands in one frame, headers of the link included. A frame handed in at an earlier `now`
    /// than one before counts as handed in with that one.
    pub fn push(&mut self, now: Instant, frame: impl Into<Buffer>) {
        self.advance(now);
        self.enqueue(frame.into());
        self.look_ahead();
    }

    fn enqueue(&mut self, mut frame: Buffer) {
        let now = self.now;
        self.counters.add(Event::Offered);
        let packet = frame.len().saturating_sub(link_header_len(self.medium));
        if self.model.mtu.is_some_and(|mtu| packet > mtu as usize) {
            return self.counters.add(Event::TooBig);
        }
        let len = frame.len() as u64;
        let waits = self.free_at > now;
        let bytes = self.queued_bytes.saturating_add(len);
        let too_many = |most: u64| self.queue.len() as u64 >= most;
        let full = self.model.queue_bytes.is_some_and(|most| bytes > most)
            || self.model.queue_packets.is_some_and(too_many);
        if waits && full {
            return self.counters.add(Event::QueueFull);
        }
        let crowded = self.model.mark_bytes.is_some_and(|most| bytes > most);
        if waits && crowded && spoil::mark(&mut frame, self.medium) {
            self.counters.add(Event::Marked);
        }
        self.queued_bytes = bytes;
        if waits {
            self.queued_most = self.queued_most.max(bytes);
        }
        self.queue.push_back(Waiting { since: now, frame });
        self.advance(now);
    }

    /// The next frame that has arrived at `now`, in the order of arrival.
    pub fn pop(&mut self, now: Instant) -> Option<Buffer> {
        self.advance(now);
        let frame = self.flying.pop(self.now);
        self.look_ahead();
        let frame = frame?;
        self.counters.add(Event::Delivered);
        self.delivered_bytes = self.delivered_bytes.wrapping_add(frame.len() as u64);
        Some(frame)
    }

    /// When to look again: no frame arrives before; maybe none arrives then. `None` when the path
    /// is empty.
    pub fn next_at(&self) -> Option<Instant> {
        (self.next != Instant::FAR_FUTURE).then_some(self.next)
    }

    fn look_ahead(&mut self) {
        let mut next = self.flying.first_at().unwrap_or(Instant::FAR_FUTURE);
        if let Some(head) = self.queue.front() {
            let start = self.free_at.max(head.since);
            let len = head.frame.len();
            next = next.min(start + self.serialisation(len) + self.model.delay);
            if let Some(step) = self.model.schedule.get(self.steps) {
                next = next.min(due(step.at));
            }
        }
        self.next = next;
    }

    /// What happened so far.
    pub fn counters(&self) -> &PathCounters {
        &self.counters
    }

    /// Bytes that came out.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Bytes that wait for the line.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Most bytes that ever waited.
    pub fn queued_most(&self) -> u64 {
        self.queued_most
    }

    /// Whether no frame waits or travels.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.flying.is_empty()
    }

    /// Works off what happens up to `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while !self.queue.is_empty() || self.steps < self.model.schedule.len() {
            let step = self.model.schedule.get(self.steps).copied();
            let step = step.filter(|step| due(step.at) <= self.now);
            let start = self.queue.front().map(|head| self.free_at.max(head.since));
            let start = start.filter(|start| *start <= self.now);
            match (step, start) {
                (Some(step), start) if start.is_none_or(|start| due(step.at) <= start) => {
                    self.steps += 1;
                    self.change(step.change);
                }
                (_, Some(start)) => self.transmit(start),
                _ => return,
            }
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Rate(rate) => self.model.rate = rate,
            Change::Delay(delay) => self.model.delay = delay,
            Change::Mtu(mtu) => self.model.mtu = mtu,
            Change::Loss(loss) => self.model.faults.loss = loss,
            Change::Down => self.down = true,
            Change::Up => self.down = false,
        }
    }

    /// The first frame of the queue goes onto the line at `start`.
    fn transmit(&mut self, start: Instant) {
        let Some(Waiting { since, mut frame }) = self.queue.pop_front() else {
            return;
        };
        self.queued_bytes -= frame.len() as u64;
        if let Some(codel) = self.model.codel
            && self
                .control
                .strikes(codel, start, start - since, self.queued_bytes)
        {
            if !spoil::mark(&mut frame, self.medium) {
                return self.counters.add(Event::QueueManaged);
            }
            self.counters.add(Event::Marked);
        }
        self.free_at = start + self.serialisation(frame.len());
        if self.is_down(start) {
            return self.counters.add(Event::LinkDown);
        }
        let asked = self.model.faults.ack_loss > 0;
        let bare_ack =
            asked && Place::of(&frame, self.medium).is_some_and(|p| p.is_bare_ack(&frame));
        match self.dice.throw(&self.model.faults, bare_ack) {
            Fate::Vanishes(event) => self.counters.add(event),
            Fate::Arrives {
                twice,
                late,
                corrupt,
                unseen,
            } => {
                self.spoil(&mut frame, corrupt, unseen);
                if twice {
                    self.counters.add(Event::Duplicated);
                    self.fly(frame.clone(), None);
                }
                self.fly(frame, late);
            }
        }
    }

    fn spoil(&mut self, frame: &mut [u8], corrupt: bool, unseen: bool) {
        if corrupt && spoil::flip_bit(frame, self.medium, self.dice.rng()) {
            self.counters.add(Event::Corrupted);
        }
        if unseen && spoil::flip_unseen(frame, self.medium, self.dice.rng()) {
            self.counters.add(Event::CorruptedUnseen);
        }
    }

    /// Its last byte is sent at `free_at`.
    fn fly(&mut self, frame: Buffer, late: Option<Duration>) {
        let jitter = self.jitter.up_to(self.model.jitter);
        let travel = self.model.delay.saturating_add(jitter);
        let in_order = (self.free_at + travel).max(self.last_arrival);
        let arrival = match late {
            Some(late) => {
                self.counters.add(Event::Reordered);
                in_order + late
            }
            None => {
                self.last_arrival = in_order;
                in_order
            }
        };
        self.flying.insert(arrival, late.is_some(), frame);
    }

    fn is_down(&self, at: Instant) -> bool {
        let flap = self.model.flap.is_some_and(|flap| {
            let period = flap.period.as_nanos().max(1);
            let up = period.saturating_sub(flap.down.as_nanos());
            u128::from(at.as_nanos()) % period >= up
        });
        self.down || flap
    }

    /// How long the line takes for `len` bytes. Most frames are as long as the one before.
    fn serialisation(&mut self, len: usize) -> Duration {
        let Some(rate) = self.model.rate else {
            return Duration::ZERO;
        };
        if (len, rate) == self.timed.0 {
            return self.timed.1;
        }
        // (frames of more than 18 GB would take longer)
        let nanos = (len as u64).saturating_mul(1_000_000_000);
        let time = Duration::from_nanos(nanos.div_ceil(rate.max(1)));
        self.timed = ((len, rate), time);
        time
    }
}

/// A point of the schedule.
fn due(at: Duration) -> Instant {
    Instant::ZERO + at
}

#[cfg(test)]
mod tests;
