//! A host: the real stack over a simulated interface, its clock, and its processes.

use core::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_link::Audit;
use gannet_stack::tcp::TcpReady;
use gannet_stack::{LinkAddress, LinkConfig, LinkId, Stack};

use super::wrap;
use crate::app::datagram::{Hearer, Speaker};
use crate::app::door::{Caller, Door};
use crate::app::talker::Talker;
use crate::app::{Cx, Ledger, Talk};
use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::driver::SimDriver;
use crate::scenario::{HostPlan, Scenario};

/// Rounds at one instant, after which a host runs in circles.
const ROUNDS_MAX: u32 = 20_000;
/// When a device gives transmitted blocks back.
const DEVICE_TIME: Duration = Duration::from_micros(30);

/// A host, running or not.
pub struct Host {
    /// Its number.
    pub number: usize,
    /// What is running; `None` while it is off.
    pub machine: Option<Machine>,
    /// Its clock.
    pub clock: Clock,
    /// It does nothing until then.
    pub paused_until: Instant,
    /// When it wants to be run.
    pub due: Instant,
    plan: HostPlan,
    lives: u64,
    seed: u64,
}

/// A running stack and the processes on it.
pub struct Machine {
    /// The stack.
    pub stack: Stack<SimDriver>,
    /// Its one link.
    pub link: LinkId,
    talkers: Vec<Talker>,
    doors: Vec<Door>,
    hearers: Vec<(usize, Hearer)>,
    /// Of the link's memory.
    audit: Audit,
}

/// What survives a crash: what the host is still to begin.
#[derive(Debug, Default)]
pub struct Errands {
    callers: Vec<Caller>,
    speakers: Vec<Speaker>,
}

impl Errands {
    /// What the host `number` is to begin.
    pub fn of(number: usize, scenario: &Scenario) -> Self {
        let talks = scenario.talks.iter().enumerate();
        let callers = talks.filter(|(_, talk)| talk.client == number);
        let callers = callers.map(|(index, talk)| Caller {
            talk: index,
            left: talk.times,
            at: talk.begins,
        });
        let exchanges = scenario.datagrams.iter().enumerate();
        let speakers = exchanges.filter(|(_, plan)| plan.from == number);
        let speakers = speakers.map(|(index, plan)| Speaker::new(index, plan.begins));
        Errands {
            callers: callers.collect(),
            speakers: speakers.collect(),
        }
    }

    /// Whether everything was begun.
    pub fn is_done(&self, scenario: &Scenario) -> bool {
        let spoken = self.speakers.iter().all(|speaker| {
            let plan = scenario.datagrams.get(speaker.exchange);
            plan.is_none_or(|plan| speaker.sent >= plan.count)
        });
        spoken && self.callers.iter().all(|caller| caller.left == 0)
    }

    /// When the next thing is to be begun.
    fn next_at(&self, now: Instant, scenario: &Scenario) -> Instant {
        let callers = self.callers.iter().filter(|caller| caller.left > 0);
        let callers = callers.map(|caller| caller.at).filter(|at| *at > now);
        let unfinished = |speaker: &&Speaker| {
            let plan = scenario.datagrams.get(speaker.exchange);
            plan.is_some_and(|plan| speaker.sent < plan.count)
        };
        let speakers = self.speakers.iter().filter(unfinished);
        let speakers = speakers.map(|speaker| speaker.at);
        callers.chain(speakers).min().unwrap_or(Instant::FAR_FUTURE)
    }
}

impl Host {
    /// A host that is switched on.
    pub fn new(number: usize, scenario: &Scenario, ledger: &mut Ledger) -> Option<Self> {
        let plan = scenario.hosts.get(number)?.clone();
        let mut host = Host {
            number,
            machine: None,
            clock: Clock::new(plan.clock),
            paused_until: Instant::ZERO,
            due: Instant::ZERO,
            plan,
            lives: 1,
            seed: scenario.seed,
        };
        let (secret, _) = host.secret();
        let near = host.plan.near_wrap;
        let clock = near.and_then(|near| wrap::clock(scenario, number, secret, near));
        host.clock = clock.map_or(host.clock, Clock::new);
        host.boot(Instant::ZERO, scenario, ledger);
        Some(host)
    }

    /// Switches it on, with a new secret.
    pub fn boot(&mut self, now: Instant, scenario: &Scenario, ledger: &mut Ledger) {
        let mut config = self.plan.config.clone();
        (config.secret, config.seed) = self.secret();
        let mut stack = Stack::new(config);
        let addresses = scenario.families.iter().map(|family| LinkAddress {
            address: scenario.address(self.number, *family),
            prefix_len: family.prefix_len(),
        });
        let link = stack.add_link(
            self.plan.interface.endpoint(),
            LinkConfig {
                addresses: addresses.collect(),
                peer: None,
                ..LinkConfig::default()
            },
        );
        for family in scenario.families.iter().filter(|_| scenario.is_routed()) {
            let gateway = Some(family.router_for(self.number));
            stack.add_route(family.unspecified(), 0, gateway, link);
        }
        let mut machine = Machine {
            stack,
            link,
            talkers: Vec::new(),
            doors: Vec::new(),
            hearers: Vec::new(),
            audit: Audit::new(),
        };
        machine.open(self.number, scenario, (now, self.clock.read(now)), ledger);
        self.machine = Some(machine);
        self.lives += 1;
        self.due = now;
    }

    /// The secret of this life, and its seed.
    fn secret(&self) -> ([u8; 16], u64) {
        let mut rng = Rng::new(self.seed ^ (self.number as u64) << 48 ^ self.lives << 56);
        let mut secret = [0; 16];
        rng.fill(&mut secret);
        (secret, rng.next_u64())
    }

    /// Switches it off: everything on it is gone, also what closed connections had still to send.
    pub fn crash(&mut self, scenario: &Scenario, ledger: &mut Ledger) {
        for conn in ledger
            .conns
            .iter_mut()
            .filter(|conn| conn.over.contains(&None))
        {
            let talk = scenario.talks.get(conn.talk);
            let ours = |talk: &Talk| [talk.client, talk.server].contains(&self.number);
            conn.disturbed |= talk.is_some_and(ours);
        }
        if let Some(machine) = &mut self.machine {
            for talker in &mut machine.talkers {
                talker.die(ledger);
            }
        }
        self.machine = None;
        self.due = Instant::FAR_FUTURE;
    }

    /// Lets it do everything that it can do now. What leaves is handed to `out`.
    pub fn run(
        &mut self,
        now: Instant,
        (scenario, errands): (&Scenario, &mut Errands),
        ledger: &mut Ledger,
        mut out: impl FnMut(Buffer),
    ) {
        let clock = self.clock;
        let coalesce = self.plan.coalesce;
        let Some(machine) = &mut self.machine else {
            self.due = Instant::FAR_FUTURE;
            return;
        };
        let time = (now, clock.read(now));
        let (mut rounds, mut polls) = (0, true);
        loop {
            if polls {
                machine.stack.poll(time.1);
            }
            machine.notice();
            let stepped = machine.step(time, (scenario, errands), ledger);
            machine.stack.flush();
            let driver = machine.stack.link_mut(machine.link).map(|e| &mut e.driver);
            // a full ring, or a budget, may have kept something back
            let mut more = false;
            if let Some(driver) = driver {
                let full = driver.is_full();
                while let Some(frame) = driver.leaves() {
                    more = full;
                    out(frame);
                }
                more |= driver.has_frames();
            }
            rounds += 1;
            if rounds > ROUNDS_MAX {
                let number = self.number;
                ledger.fail(format!("{now}: host {number} runs in circles"));
                break;
            }
            if !stepped && !more {
                break;
            }
            let due = machine.stack.next_timeout().is_some_and(|at| at <= time.1);
            polls = more || due;
        }
        let timer = machine.stack.next_timeout().map(|at| clock.when(at));
        let timer = timer.map_or(Instant::FAR_FUTURE, |at| later(at, coalesce));
        let begin = errands.next_at(now, scenario);
        self.due = timer.min(machine.next_at(now)).min(begin);
    }

    /// Oracle: nothing is left when nothing is used.
    pub fn judge_memory(&mut self, now: Instant, ledger: &mut Ledger) {
        let (number, clock) = (self.number, self.clock);
        let Some(mut machine) = self.machine.take() else {
            return;
        };
        let connections = machine.stack.tcp_connections();
        // (a number that was damaged unseen may leave one waiting for ever)
        if connections > 0 && !ledger.unseen {
            ledger.fail(format!("host {number}: {connections} connections are left"));
        }
        let Some(endpoint) = machine.stack.remove_link(clock.read(now), machine.link) else {
            return;
        };
        endpoint.pool.invariants();
        let (free, all) = (endpoint.pool.free_blocks(), endpoint.pool.blocks());
        if free != all {
            ledger.fail(format!("host {number}: {} blocks are lost", all - free));
        }
        let bad = endpoint.pool.bad_completions();
        if bad > 0 {
            ledger.fail(format!("host {number}: {bad} blocks completed twice"));
        }
    }
}

impl Machine {
    /// Opens listeners and receivers.
    fn open(
        &mut self,
        number: usize,
        scenario: &Scenario,
        time: (Instant, Instant),
        ledger: &mut Ledger,
    ) {
        let mut cx = Cx {
            stack: &mut self.stack,
            now: time.0,
            host_now: time.1,
            ledger,
        };
        for (index, talk) in scenario.talks.iter().enumerate() {
            if talk.server == number {
                self.doors.extend(Door::open(&mut cx, index, talk));
            }
        }
        for (index, plan) in scenario.datagrams.iter().enumerate() {
            if plan.to == number {
                let hearer = Hearer::open(&mut cx, index, plan);
                self.hearers.extend(hearer.map(|hearer| (index, hearer)));
            }
        }
    }

    /// Wakes those for whom the stack has news.
    fn notice(&mut self) {
        while let Some(ready) = self.stack.tcp_take_ready() {
            match ready {
                TcpReady::Connection(id) => {
                    let talker = self.talkers.iter_mut().find(|talker| talker.id == id);
                    if let Some(talker) = talker {
                        talker.awake = true;
                    }
                }
                TcpReady::Listener(id) => {
                    if let Some(door) = self.doors.iter_mut().find(|door| door.id == id) {
                        door.awake = true;
                    }
                }
            }
        }
        while self.stack.udp_take_ready().is_some() {}
    }

    /// Every process does what it can; whether any did.
    fn step(
        &mut self,
        time: (Instant, Instant),
        (scenario, errands): (&Scenario, &mut Errands),
        ledger: &mut Ledger,
    ) -> bool {
        let mut cx = Cx {
            stack: &mut self.stack,
            now: time.0,
            host_now: time.1,
            ledger,
        };
        let mut any = false;
        for caller in &mut errands.callers {
            if let Some(talk) = scenario.talks.get(caller.talk) {
                let server = scenario.address(talk.server, talk.family);
                any |= caller.step(&mut cx, (talk, server), &mut self.talkers);
            }
        }
        for door in &mut self.doors {
            if let Some(talk) = scenario.talks.get(door.talk) {
                any |= door.step(&mut cx, talk, &mut self.talkers);
            }
        }
        for talker in &mut self.talkers {
            any |= talker.step(&mut cx);
        }
        for speaker in &mut errands.speakers {
            if let Some(plan) = scenario.datagrams.get(speaker.exchange) {
                any |= speaker.step(&mut cx, plan, scenario.address(plan.to, plan.family));
            }
        }
        for (exchange, hearer) in &mut self.hearers {
            if let Some(plan) = scenario.datagrams.get(*exchange) {
                any |= hearer.step(&mut cx, plan);
            }
        }
        if any {
            self.talkers.retain(|talker| talker.over.is_none());
        }
        any
    }

    /// When a process goes on after a rest, or the device has something.
    fn next_at(&self, now: Instant) -> Instant {
        let rests = self.talkers.iter().filter(|t| t.over.is_none());
        let rests = rests.flat_map(|t| [t.rests_until, t.writes_at]);
        let rests = rests.filter(|at| *at > now);
        let driver = self.stack.link(self.link).map(|e| &e.driver);
        let device = driver.filter(|d| d.has_news()).map(|_| now + DEVICE_TIME);
        rests.chain(device).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Ends of connections that are still in use.
    pub fn talkers(&self) -> &[Talker] {
        &self.talkers
    }

    /// Oracle: the structures of the stack and of its memory are sound.
    ///
    /// # Panics
    /// When they are not.
    pub fn check(&mut self, ledger: &mut Ledger) {
        self.stack.check_tcp();
        for talker in &mut self.talkers {
            let info = self.stack.tcp_info(talker.id);
            if let Some(wrong) = info.and_then(|info| talker.window.look(&info)) {
                ledger.fail(format!("{}: {wrong}", talker.describe()));
            }
        }
        if let Some(endpoint) = self.stack.link(self.link) {
            self.audit.check(&endpoint.pool);
        }
    }

    /// Nobody is to come any more: closes listeners and receivers.
    pub fn close_doors(&mut self, time: (Instant, Instant), ledger: &mut Ledger) {
        for door in self.doors.drain(..) {
            self.stack.tcp_close_listener(time.1, door.id);
        }
        let mut cx = Cx {
            stack: &mut self.stack,
            now: time.0,
            host_now: time.1,
            ledger,
        };
        for (_, hearer) in self.hearers.drain(..) {
            hearer.close(&mut cx);
        }
    }

    /// The processes die and their sockets with them. With `only_disturbed` those only whose peer
    /// is gone, and would wait for it for ever.
    pub fn kill(&mut self, time: (Instant, Instant), ledger: &mut Ledger, only_disturbed: bool) {
        let mut cx = Cx {
            stack: &mut self.stack,
            now: time.0,
            host_now: time.1,
            ledger,
        };
        for talker in &mut self.talkers {
            let conn = cx.ledger.conns.get(talker.conn);
            if !only_disturbed || conn.is_some_and(|conn| conn.disturbed) {
                talker.give_up(&mut cx);
            }
        }
        self.talkers.retain(|talker| talker.over.is_none());
    }
}

/// The next multiple of `coalesce`.
fn later(at: Instant, coalesce: Duration) -> Instant {
    let grain = coalesce.as_nanos() as u64;
    if grain == 0 || at == Instant::FAR_FUTURE {
        return at;
    }
    Instant::from_nanos(at.as_nanos().div_ceil(grain).saturating_mul(grain))
}
