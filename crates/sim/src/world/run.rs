//! The loop over events. An event is: frames arrive at the end of a way, a host wants to be run, or
//! a mishap.

use core::time::Duration;

use gannet_base::{Instant, Reason};

use super::network::{End, Network};
use super::outcome::Outcome;
use super::witness::{Way, Witness};
use crate::app::Ledger;
use crate::buffer::Buffer;
use crate::digest::Digest;
use crate::judge::Judge;
use crate::node::Host;
use crate::node::host::Errands;
use crate::scenario::{Judges, MishapKind, Scenario};
use crate::schedule::Schedule;

/// Events at one instant, after which the world runs in circles.
const EVENTS_MAX: u32 = 200_000;
/// Failures after which a run ends early.
const ENOUGH: usize = 4;
/// After everything was said: TIME-WAIT, FIN-WAIT-2, orphans.
const LAST_THINGS: Duration = Duration::from_secs(400);

/// Plays a scenario to its end.
pub fn run(scenario: &Scenario, witness: &mut impl Witness) -> Outcome {
    let mut world = World::new(scenario, witness);
    world.play();
    world.outcome()
}

struct World<'a, W> {
    scenario: &'a Scenario,
    witness: &'a mut W,
    now: Instant,
    schedule: Schedule,
    network: Network,
    hosts: Vec<(Host, Errands)>,
    ledger: Ledger,
    judge: Judge,
    digest: Digest,
    /// Mishaps by time, and how many have happened.
    mishaps: Vec<(Instant, usize, Turn)>,
    happened: usize,
    calm: bool,
    /// Frames that left a host in the event at hand.
    leaving: Vec<Buffer>,
    frames: u64,
    counts: Outcome,
}

/// A mishap begins or is over.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Begins(MishapKind),
    Unblock,
    Boot,
    Calm,
}

/// Bytes of a frame that are in the digest: with the headers the checksums of what is behind them.
const HEADERS: usize = 96;

impl<'a, W: Witness> World<'a, W> {
    fn new(scenario: &'a Scenario, witness: &'a mut W) -> Self {
        let mut ledger = Ledger {
            outages: scenario.has_outages(),
            unseen: scenario.corrupts_unseen(),
            corrupts: scenario.corrupts(),
            round_trip: scenario.round_trip(),
            ..Ledger::default()
        };
        let network = Network::new(scenario);
        let numbers = 0..scenario.hosts.len();
        let hosts: Vec<(Host, Errands)> = numbers
            .filter_map(|number| {
                let host = Host::new(number, scenario, &mut ledger)?;
                Some((host, Errands::of(number, scenario)))
            })
            .collect();
        let mut schedule = Schedule::new(network.ways() + hosts.len() + 1);
        for host in 0..hosts.len() {
            schedule.wake(network.ways() + host, Instant::ZERO);
        }
        let mishaps = turns(scenario);
        if let Some((at, ..)) = mishaps.first() {
            schedule.wake(network.ways() + hosts.len(), *at);
        }
        World {
            judge: Judge::new(scenario),
            scenario,
            witness,
            now: Instant::ZERO,
            schedule,
            network,
            hosts,
            ledger,
            digest: Digest::new(),
            mishaps,
            happened: 0,
            calm: false,
            leaving: Vec::new(),
            frames: 0,
            counts: Outcome::default(),
        }
    }

    fn play(&mut self) {
        let end = self.scenario.calm_at + self.scenario.patience;
        if !self.play_until(end, Self::all_said) {
            self.report_unfinished();
        }
        let time = |world: &Self, host: usize| {
            let clock = world.hosts.get(host).map(|(h, _)| h.clock.read(world.now));
            (world.now, clock.unwrap_or(world.now))
        };
        for host in 0..self.hosts.len() {
            let time = time(self, host);
            if let Some((
                Host {
                    machine: Some(machine),
                    ..
                },
                _,
            )) = self.hosts.get_mut(host)
            {
                machine.close_doors(time, &mut self.ledger);
            }
            self.run_host(host);
        }
        let end = self.now.max(self.scenario.calm_at) + LAST_THINGS;
        self.play_until(end, Self::all_forgotten);
        self.finish();
    }

    /// Plays until `done`; `false` when that does not come to pass before `end`.
    fn play_until(&mut self, end: Instant, done: impl Fn(&Self) -> bool) -> bool {
        let (mut at, mut events) = (self.now, 0);
        while !done(self) {
            let Some((when, entity)) = self.schedule.take().filter(|(when, _)| *when <= end) else {
                return false;
            };
            self.now = self.now.max(when);
            self.event(entity);
            events = if self.now == at { events + 1 } else { 0 };
            at = self.now;
            if events > EVENTS_MAX {
                self.ledger.fail(format!("{at}: the world runs in circles"));
            }
            if self.ledger.failures.len() >= ENOUGH || events > EVENTS_MAX {
                return true;
            }
        }
        true
    }

    fn event(&mut self, entity: usize) {
        let ways = self.network.ways();
        if entity < ways {
            self.arrivals(entity);
        } else if entity < ways + self.hosts.len() {
            self.run_host(entity - ways);
        } else {
            self.mishap();
        }
    }

    /// Frames at the end of a way.
    fn arrivals(&mut self, way: usize) {
        let now = self.now;
        let Some(end) = self.network.end(way) else {
            return;
        };
        let mut any = false;
        while let Some(frame) = self.network.pop(now, way) {
            any = true;
            match end {
                End::Host(host) => self.arrives(host, frame),
                between => {
                    let mut woken = [usize::MAX; 8];
                    let mut count = 0;
                    self.network.forward(now, between, frame, |way| {
                        if let Some(place) = woken.get_mut(count) {
                            (*place, count) = (way, count + 1);
                        }
                    });
                    for way in woken.into_iter().take(count) {
                        self.schedule.wake(way, self.network.next_at(way));
                    }
                }
            }
        }
        self.schedule.wake(way, self.network.next_at(way));
        if let (End::Host(host), true) = (end, any) {
            if let Some((host, _)) = self.hosts.get_mut(host) {
                host.due = now;
            }
            self.run_host(host);
        }
    }

    fn arrives(&mut self, number: usize, frame: Buffer) {
        let medium = self.scenario.medium();
        self.digest.number(self.now.as_nanos());
        self.digest.number(number as u64 * 2 + 1);
        self.digest.number(frame.len() as u64);
        self.digest.bytes(frame.get(..HEADERS).unwrap_or(&frame));
        let machine = self
            .hosts
            .get_mut(number)
            .and_then(|(h, _)| h.machine.as_mut());
        let driver = machine
            .and_then(|m| m.stack.link_mut(m.link))
            .map(|e| &mut e.driver);
        let room = driver.as_ref().is_some_and(|driver| driver.has_room());
        let way = if room { Way::In } else { Way::Missed };
        self.witness.frame(self.now, number, way, medium, &frame);
        if room {
            self.judge
                .delivered(self.now, number, &frame, &mut self.ledger);
        }
        if let Some(driver) = driver {
            driver.arrives(frame);
        }
    }

    fn run_host(&mut self, number: usize) {
        let now = self.now;
        let entity = self.network.ways() + number;
        let Some((host, errands)) = self.hosts.get_mut(number) else {
            return;
        };
        if host.machine.is_none() {
            return;
        }
        let due = host.due.max(host.paused_until);
        if due > now {
            self.schedule.wake(entity, due);
            return;
        }
        let leaving = &mut self.leaving;
        host.run(now, (self.scenario, errands), &mut self.ledger, |frame| {
            leaving.push(frame)
        });
        self.schedule.wake(entity, host.due.max(now));
        self.send(number);
        if self.scenario.judges == Judges::All {
            self.judge_host(number);
        }
    }

    /// Puts what left a host on its way.
    fn send(&mut self, number: usize) {
        let Some(way) = self.network.way_from(End::Host(number)) else {
            return;
        };
        let medium = self.scenario.medium();
        let mut leaving = core::mem::take(&mut self.leaving);
        let any = !leaving.is_empty();
        for mut frame in leaving.drain(..) {
            self.frames += 1;
            self.digest.number(self.now.as_nanos());
            self.digest.number(number as u64 * 2);
            self.digest.number(frame.len() as u64);
            self.digest.bytes(frame.get(..HEADERS).unwrap_or(&frame));
            self.witness
                .frame(self.now, number, Way::Out, medium, &frame);
            self.judge
                .sent(self.now, number, &mut frame, &mut self.ledger);
            self.network.push(self.now, way, frame);
        }
        self.leaving = leaving;
        if any {
            self.schedule.wake(way, self.network.next_at(way));
        }
    }

    /// Oracle: the structures of the stack and of its memory are sound.
    fn judge_host(&mut self, number: usize) {
        let machine = self
            .hosts
            .get_mut(number)
            .and_then(|(h, _)| h.machine.as_mut());
        if let Some(machine) = machine {
            machine.check(&mut self.ledger);
        }
        self.judge.host_ran(self.now, number, &mut self.ledger);
    }

    fn mishap(&mut self) {
        while let Some((at, number, turn)) = self.mishaps.get(self.happened).copied() {
            let entity = self.network.ways() + self.hosts.len();
            if at > self.now {
                self.schedule.wake(entity, at);
                return;
            }
            self.happened += 1;
            self.witness
                .note(self.now, &format!("host {number}: {turn:?}"));
            self.digest.number(at.as_nanos());
            self.befall(number, turn);
        }
    }

    fn befall(&mut self, number: usize, turn: Turn) {
        let now = self.now;
        if let Turn::Calm = turn {
            self.calm = true;
            self.network.calm(now, self.scenario);
            for way in 0..self.network.ways() {
                self.schedule.wake(way, self.network.next_at(way));
            }
            return;
        }
        let Some((host, _)) = self.hosts.get_mut(number) else {
            return;
        };
        self.judge
            .befell(number, matches!(turn, Turn::Begins(MishapKind::Crash(_))));
        let driver = |host: &mut Host, blocked: bool| {
            if let Some(machine) = &mut host.machine
                && let Some(endpoint) = machine.stack.link_mut(machine.link)
            {
                endpoint.driver.set_blocked(blocked);
            }
        };
        match turn {
            Turn::Begins(kind) => self.counts.count(kind.name(), 1),
            Turn::Unblock | Turn::Boot | Turn::Calm => {}
        }
        match turn {
            Turn::Begins(MishapKind::Pause(time)) => host.paused_until = now + time,
            Turn::Begins(MishapKind::ClockForward(by)) => host.clock.forward(by),
            Turn::Begins(MishapKind::ClockBack(by)) => host.clock.back(by),
            Turn::Begins(MishapKind::Block(_)) => driver(host, true),
            Turn::Begins(MishapKind::Crash(_)) => host.crash(self.scenario, &mut self.ledger),
            Turn::Begins(MishapKind::Kill) => {
                let time = (now, host.clock.read(now));
                if let Some(machine) = &mut host.machine {
                    machine.kill(time, &mut self.ledger, false);
                }
            }
            Turn::Unblock => driver(host, false),
            // (of two crashes at a time the first to be over ends both)
            Turn::Boot if host.machine.is_none() => {
                host.boot(now, self.scenario, &mut self.ledger);
            }
            Turn::Boot => {}
            Turn::Calm => {}
        }
        host.due = host.due.min(now);
        let due = host.due.max(host.paused_until);
        self.schedule.wake(self.network.ways() + number, due);
    }

    /// Everything was said, and it is calm. Who waits for a peer that is gone is told to give up.
    fn all_said(&self) -> bool {
        self.calm
            && self.hosts.iter().all(|(host, errands)| {
                let machine = host.machine.as_ref();
                let talking = machine.is_some_and(|m| !m.talkers().is_empty());
                !talking && errands.is_done(self.scenario)
            })
    }

    fn all_forgotten(&self) -> bool {
        self.hosts.iter().all(|(host, _)| {
            let machine = host.machine.as_ref();
            machine.is_none_or(|m| m.stack.tcp_connections() == 0)
        })
    }

    /// Oracle: liveness. Only those may wait for ever whose peer is gone.
    fn report_unfinished(&mut self) {
        for index in 0..self.hosts.len() {
            let Some((host, errands)) = self.hosts.get_mut(index) else {
                continue;
            };
            let Some(machine) = &mut host.machine else {
                continue;
            };
            let conns = &self.ledger.conns;
            let waits = machine.talkers().iter().filter(|talker| {
                let conn = conns.get(talker.conn);
                conn.is_some_and(|conn| !conn.disturbed && !self.ledger.unseen)
            });
            let mut stuck: Vec<String> = waits.map(|t| t.describe()).collect();
            if stuck.is_empty() && machine.talkers().is_empty() && !errands.is_done(self.scenario) {
                stuck.push("something was never begun".to_owned());
            }
            for text in stuck {
                let now = self.now;
                self.ledger
                    .fail(format!("{now}: host {index} is stuck: {text}"));
            }
            let time = (self.now, host.clock.read(self.now));
            machine.kill(time, &mut self.ledger, true);
        }
    }

    fn finish(&mut self) {
        self.ledger.judge_the_end();
        for (host, _) in &mut self.hosts {
            if let Some(machine) = &host.machine {
                let stack = &machine.stack;
                for (event, count) in stack.tcp_counters().iter() {
                    self.counts.count(&format!("tcp {}", event.name()), count);
                }
                for (reason, count) in stack.drops().iter() {
                    self.counts.count(&format!("drop {}", reason.name()), count);
                }
                if let Some(endpoint) = stack.link(machine.link) {
                    if endpoint.driver.lost.1 == 0 {
                        self.judge
                            .judge_the_end(host.number, stack.drops(), &mut self.ledger);
                    }
                    self.counts.count("ring full", endpoint.driver.lost.0);
                    self.counts
                        .count("no block to receive into", endpoint.driver.lost.1);
                }
            }
            if self.ledger.failures.is_empty() {
                host.judge_memory(self.now, &mut self.ledger);
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        for (event, count) in self.network.events() {
            self.counts.count(&format!("path {}", event.name()), count);
        }
        for (name, count) in self.judge.counts() {
            self.counts.count(name, count);
        }
        self.digest.number(self.now.as_nanos());
        Outcome {
            seed: self.scenario.seed,
            digest: self.digest.value(),
            ended_at: self.now,
            frames: self.frames,
            wire_bytes: self.network.bytes(),
            bytes: self.ledger.bytes(),
            connections: self.ledger.conns.len() as u64,
            datagrams: self.ledger.datagrams.0,
            failures: self.ledger.failures,
            counts: self.counts.counts,
        }
    }
}

/// The mishaps' beginnings and ends, by time.
fn turns(scenario: &Scenario) -> Vec<(Instant, usize, Turn)> {
    let mut turns = vec![(scenario.calm_at, 0, Turn::Calm)];
    for mishap in &scenario.mishaps {
        turns.push((mishap.at, mishap.host, Turn::Begins(mishap.kind)));
        match mishap.kind {
            MishapKind::Block(time) => turns.push((mishap.at + time, mishap.host, Turn::Unblock)),
            MishapKind::Crash(time) => turns.push((mishap.at + time, mishap.host, Turn::Boot)),
            _ => {}
        }
    }
    turns.sort_by_key(|(at, ..)| *at);
    turns
}
