//! A scenario from a seed.

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};
use gannet_stack::{Config, CongestionControl, EcnMode};

use super::dice::Choice;
use super::{HostPlan, Judges, Mishap, MishapKind, NearWrap, Scenario, Topology, WirePlan};
use crate::address::{self, Family};
use crate::app::{Datagrams, Ending, Side, Talk, Turn};
use crate::driver::Interface;
use crate::path::{Burst, Change, Codel, Faults, Flap, Model, Step};

/// First port that servers listen on.
const FIRST_PORT: u16 = 4000;

/// What all parts of a scenario share.
struct Frame {
    topology: Topology,
    hosts: usize,
    medium: Medium,
    families: Vec<Family>,
    mtu: u32,
    /// The least MTU of any link: what IP itself asks for.
    mtu_least: u64,
    rate: Option<u64>,
    stormy: bool,
    calm_at: Duration,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn generate(seed: u64) -> Scenario {
        let mut choice = Choice::new(seed);
        // (what came later chooses by itself, so that the rest of a seed stays as it was)
        let mut later = Choice::new(seed ^ 0x6c61_7465_7200_0000);
        let mut frame = frame(&mut choice);
        frame.speaks(&mut later);
        let mut hosts: Vec<HostPlan> = (0..frame.hosts)
            .map(|number| host(&mut choice, &frame, number))
            .collect();
        let wires = match frame.topology {
            Topology::Direct => 1,
            Topology::Switch | Topology::Router { .. } => frame.hosts,
            Topology::TwoRouters { .. } => frame.hosts + 1,
        };
        let base = base_model(&mut choice, &frame);
        let wires = (0..wires)
            .map(|number| wire(&mut choice, &frame, &base, number))
            .collect();
        let talks = (0..choice.between(1, 3)).map(|index| talk(&mut choice, &frame, index as u16));
        let mut talks: Vec<Talk> = talks.collect();
        numbers(&mut later, &mut hosts, &mut talks);
        let datagrams = (0..choice.of(&[0, 0, 0, 1, 2])).map(|n| datagrams(&mut choice, &frame, n));
        let datagrams = datagrams.collect();
        let mishaps = mishaps(&mut choice, &frame);
        Scenario {
            seed,
            topology: frame.topology,
            families: frame.families,
            hosts,
            wires,
            talks,
            datagrams,
            mishaps,
            calm_at: Instant::ZERO + frame.calm_at,
            patience: Duration::from_secs(900),
            judges: Judges::All,
        }
    }
}

fn frame(choice: &mut Choice) -> Frame {
    let topology = match choice.between(0, 9) {
        0..=3 => Topology::Direct,
        4..=5 => Topology::Switch,
        6..=7 => Topology::Router {
            silent: choice.percent(30),
        },
        _ => Topology::TwoRouters {
            silent: choice.percent(30),
        },
    };
    let hosts = match topology {
        Topology::Direct => 2,
        _ => choice.between(2, 4) as usize,
    };
    let medium = match topology {
        Topology::Direct if choice.percent(50) => Medium::Ip,
        Topology::Direct | Topology::Switch => Medium::Ethernet,
        Topology::Router { .. } | Topology::TwoRouters { .. } => Medium::Ip,
    };
    let stormy = choice.percent(75);
    Frame {
        topology,
        hosts,
        medium,
        families: Vec::new(),
        mtu: choice.of(&[1500, 1500, 1500, 9000, 576, 1280]),
        mtu_least: 576,
        rate: choice
            .of(&[0_u64, 1, 5, 10, 10, 50, 100, 1000])
            .checked_mul(125_000)
            .filter(|rate| *rate > 0),
        stormy,
        calm_at: match stormy {
            true => choice.millis(500, 20_000),
            false => Duration::ZERO,
        },
    }
}

impl Frame {
    /// Chooses the versions of IP. Links of IPv6 carry packets of 1280 bytes (RFC 8200 section 5).
    fn speaks(&mut self, choice: &mut Choice) {
        self.families = match choice.between(0, 9) {
            0..=3 => vec![Family::V4],
            4..=6 => vec![Family::V6],
            _ => vec![Family::V4, Family::V6],
        };
        if self.families.contains(&Family::V6) {
            self.mtu = self.mtu.max(1280);
            self.mtu_least = 1280;
        }
    }

    /// The version that conversation `index` is held in.
    fn family(&self, index: u16) -> Family {
        let count = self.families.len().max(1);
        let family = self.families.get(usize::from(index) % count);
        family.copied().unwrap_or_default()
    }
}

fn host(choice: &mut Choice, frame: &Frame, number: usize) -> HostPlan {
    let small = choice.percent(25);
    let interface = Interface {
        medium: frame.medium,
        station: match frame.medium {
            Medium::Ethernet => address::station(number),
            Medium::Ip => [0; 6],
        },
        mtu: frame.mtu,
        checksum: match choice.percent(60) {
            true => Checksum::Partial,
            false => Checksum::Software,
        },
        ring: match small {
            true => choice.of(&[4, 8, 16]),
            false => choice.of(&[64, 256, 1024]),
        },
        holds: choice.percent(40),
        contiguous: choice.percent(50),
        blocks: match choice.percent(25) {
            true => choice.of(&[(2048, 128), (4096, 64), (16_384, 32)]),
            false => choice.of(&[(2048, 1024), (16_384, 256), (4096, 512)]),
        },
    };
    let near_wrap = (1 << 32) - choice.between(0, 20_000);
    let anywhere = choice.between(1000, 1 << 33);
    HostPlan {
        interface,
        config: config(choice),
        clock: Instant::from_millis(choice.of(&[1000, anywhere, near_wrap])),
        near_wrap: None,
        coalesce: Duration::from_millis(choice.of(&[0, 0, 0, 0, 1, 10, 50])),
    }
}

fn config(choice: &mut Choice) -> Config {
    let mut config = Config::new([0; 16], 0);
    config.receive_budget = choice.of(&[64, 64, 64, 1, 5]);
    let tcp = &mut config.tcp;
    tcp.time_wait = choice.millis(1000, 5000);
    tcp.fin_wait_2 = choice.millis(2000, 10_000);
    tcp.delayed_ack = Duration::from_millis(choice.of(&[40, 40, 40, 10, 200]));
    tcp.straight_line = choice.percent(80);
    tcp.send_buffer = choice.of(&[4 << 20, 4 << 20, 256 << 10, 32 << 10, 5000]);
    tcp.receive_buffer = choice.of(&[256 << 10, 256 << 10, 64 << 10, 16 << 10, 4000]);
    let most = choice.of(&[16 << 20, 1 << 20, 0]);
    tcp.receive_buffer_max = tcp.receive_buffer.max(most);
    tcp.congestion = choice.of(&[
        CongestionControl::Cubic,
        CongestionControl::Cubic,
        CongestionControl::NewReno,
        CongestionControl::Dctcp,
        CongestionControl::Bbr,
    ]);
    tcp.ecn = choice.of(&[
        EcnMode::Active,
        EcnMode::Active,
        EcnMode::Passive,
        EcnMode::Off,
    ]);
    config
}

/// What all links of a scenario have in common.
fn base_model(choice: &mut Choice, frame: &Frame) -> Model {
    let mut model = Model {
        rate: frame.rate,
        delay: Duration::from_micros(choice.of(&[0, 50, 1000, 5000, 20_000, 75_000])),
        mtu: Some(frame.mtu),
        ..Model::default()
    };
    if choice.percent(25) {
        model.jitter = model.delay.mul_f64(0.2);
    }
    match choice.between(0, 5) {
        0 => {}
        1 => model.queue_packets = Some(choice.between(5, 100)),
        2 => model.codel = Some(Codel::default()),
        3 => model.mark_bytes = Some(choice.between(5000, 50_000)),
        _ => model.queue_bytes = model.bandwidth_delay_product(),
    }
    model
}

fn wire(choice: &mut Choice, frame: &Frame, base: &Model, number: usize) -> WirePlan {
    let mut calm = [base.clone(), base.clone()];
    if choice.percent(15) {
        // slow one way
        calm[1].rate = calm[1].rate.map(|rate| rate / 4);
    }
    let routed = matches!(
        frame.topology,
        Topology::Router { .. } | Topology::TwoRouters { .. }
    );
    if routed && choice.percent(30) {
        // only a router can say that a packet is too large: what leaves a host always fits
        let mtu = choice.between(frame.mtu_least, u64::from(frame.mtu)) as u32;
        let from_host = usize::from(number < frame.hosts);
        for model in calm.iter_mut().skip(from_host) {
            model.mtu = Some(mtu);
        }
    }
    let mut stormy = calm.clone();
    if frame.stormy {
        let both = faults(choice);
        for model in &mut stormy {
            model.faults = match choice.percent(70) {
                true => both,
                false => faults(choice),
            };
        }
        weather(choice, frame, &mut stormy, number);
    }
    // what the weather changes stays changed only while it lasts; a smaller MTU stays
    for (calm, stormy) in calm.iter_mut().zip(&stormy) {
        let smallest = stormy.schedule.iter().filter_map(|step| match step.change {
            Change::Mtu(mtu) => mtu,
            _ => None,
        });
        calm.mtu = smallest.chain(calm.mtu).min();
    }
    WirePlan { stormy, calm }
}

/// What strikes single frames: few kinds at a time, so that each can be told from the others.
fn faults(choice: &mut Choice) -> Faults {
    let mut faults = Faults::default();
    for _ in 0..choice.between(0, 3) {
        match choice.between(0, 8) {
            0 | 1 => faults.loss = choice.magnitude(1000, 300_000) as u32,
            2 => {
                faults.burst = Some(Burst {
                    enter: choice.magnitude(1000, 30_000) as u32,
                    leave: choice.magnitude(50_000, 500_000) as u32,
                    loss: choice.of(&[500_000, 1_000_000]),
                });
            }
            3 => faults.ack_loss = choice.magnitude(10_000, 900_000) as u32,
            4 => faults.duplicate = choice.magnitude(1000, 500_000) as u32,
            5 | 6 => {
                faults.reorder = choice.magnitude(1000, 500_000) as u32;
                faults.reorder_by = Duration::from_micros(choice.magnitude(100, 500_000));
            }
            7 => faults.corrupt = choice.magnitude(1000, 10_000) as u32,
            _ if choice.percent(10) => faults.corrupt_unseen = 1000,
            _ => {}
        }
    }
    faults
}

/// What strikes whole links.
fn weather(choice: &mut Choice, frame: &Frame, ways: &mut [Model; 2], number: usize) {
    let calm = frame.calm_at.as_millis() as u64;
    let whole = choice.percent(70);
    let routed = matches!(
        frame.topology,
        Topology::Router { .. } | Topology::TwoRouters { .. }
    );
    let at = choice.millis(0, calm);
    let until = at + choice.millis(10, 8000);
    let kind = choice.between(0, 11);
    let period = choice.millis(500, 5000);
    let down = choice.millis(10, 400);
    let slow = choice.between(2, 10);
    let mtu = choice.between(frame.mtu_least, u64::from(frame.mtu)) as u32;
    let affected = if whole { 2 } else { 1 };
    for (way, model) in ways.iter_mut().enumerate().take(affected) {
        let from_router = way == 1 || number >= frame.hosts;
        match kind {
            0 | 1 => {
                let steps = [(at, Change::Down), (until, Change::Up)];
                model
                    .schedule
                    .extend(steps.map(|(at, change)| Step { at, change }));
            }
            2 => model.flap = Some(Flap { period, down }),
            3 => {
                let change = Change::Rate(model.rate.map(|rate| rate / slow));
                model.schedule.push(Step { at, change });
            }
            4 => {
                let change = Change::Delay(model.delay.saturating_mul(slow as u32));
                model.schedule.push(Step { at, change });
            }
            5 | 6 if routed && from_router => {
                let mtu = Some(model.mtu.map_or(mtu, |had| had.min(mtu)));
                let change = Change::Mtu(mtu);
                model.schedule.push(Step { at, change });
            }
            _ => {}
        }
    }
}

fn talk(choice: &mut Choice, frame: &Frame, index: u16) -> Talk {
    let (client, server) = two_hosts(choice, frame);
    // as much as the line carries in about three seconds, and a few hundred packets at most
    let carries = frame.rate.unwrap_or(1 << 20).saturating_mul(3).min(400_000);
    let (mut up, mut down) = (side(choice), side(choice));
    match choice.between(0, 5) {
        0 | 1 => up.total = choice.magnitude(1, carries),
        2 => down.total = choice.magnitude(1, carries),
        3 => (up.total, down.total) = (choice.magnitude(1, carries), choice.magnitude(1, carries)),
        4 => {
            let (ask, answer) = (choice.magnitude(1, 3000), choice.magnitude(1, 20_000));
            let most = (carries / (ask + answer)).clamp(1, 100);
            let rounds = choice.between(1, most);
            (up.total, down.total) = (ask * rounds, answer * rounds);
            let turn = |mine, theirs, first| {
                Some(Turn {
                    mine,
                    theirs,
                    first,
                })
            };
            (up.turn, down.turn) = (turn(ask, answer, true), turn(answer, ask, false));
        }
        _ => (up.total, down.total) = (choice.between(0, 3), choice.between(0, 3)),
    }
    for side in [&mut up, &mut down] {
        side.total = side.total.min(side.chunk as u64 * 1000);
    }
    if let (Some(a), Some(b)) = (up.turn, down.turn) {
        let rounds = (up.total / a.mine).min(down.total / b.mine);
        (up.total, down.total) = (rounds * a.mine, rounds * b.mine);
    }
    if choice.percent(25) {
        let after = choice.between(0, down.total);
        up.ending = ending(choice, after);
    } else if choice.percent(20) {
        let after = choice.between(0, up.total);
        down.ending = ending(choice, after);
    }
    Talk {
        client,
        server,
        family: frame.family(index),
        port: FIRST_PORT + index,
        client_port: None,
        begins: Instant::ZERO + choice.millis(0, 2000),
        times: choice.of(&[1, 1, 1, 2, 4]),
        up,
        down,
    }
}

/// Conversations that use one port again and again, and numbers near their wrap.
fn numbers(choice: &mut Choice, hosts: &mut [HostPlan], talks: &mut [Talk]) {
    for (index, talk) in talks.iter_mut().enumerate() {
        // (who breaks off calls again before the other end has seen the first connection, and
        // nobody but the stack could tell one from the other)
        let ends = [talk.up.ending, talk.down.ending];
        let told_apart = talk.times == 1 || ends == [Ending::Graceful; 2];
        let one = choice.percent(30) && told_apart;
        talk.client_port = one.then_some(50_000 + index as u16);
        for side in [&mut talk.up, &mut talk.down] {
            strolls(choice, side);
        }
        dawdles(choice, talk);
    }
    for host in hosts {
        let numbers = NearWrap::Numbers(choice.magnitude(1, 50_000) as u32);
        let stamps = NearWrap::Stamps(choice.magnitude(1, 4000) as u32);
        if choice.percent(15) {
            let tcp = &mut host.config.tcp;
            tcp.receive_buffer = choice.of(&[4000, 8000, 16_000]);
            tcp.receive_buffer_max = tcp.receive_buffer;
        }
        host.near_wrap = choice.of(&[None, Some(numbers), Some(stamps)]);
    }
}

/// Somebody who is sent more than he takes, and does not read for a while: windows close.
fn dawdles(choice: &mut Choice, talk: &mut Talk) {
    let rest = choice.millis(300, 4000);
    let (sender, reader) = match choice.percent(50) {
        true => (&talk.up, &mut talk.down),
        false => (&talk.down, &mut talk.up),
    };
    if choice.percent(15) && sender.turn.is_none() && sender.total > 20_000 {
        reader.stall = Some((choice.between(0, sender.total / 4), rest));
    }
}

/// Somebody who types: little at a time, with rests.
fn strolls(choice: &mut Choice, side: &mut Side) {
    let beat = choice.millis(5, 120);
    if choice.percent(20) && side.turn.is_none() && side.chunk <= 400 {
        (side.beat, side.total) = (beat, side.total.min(side.chunk as u64 * 100));
    }
}

fn ending(choice: &mut Choice, after: u64) -> Ending {
    match choice.percent(50) {
        true => Ending::CloseAfter(after),
        false => Ending::AbortAfter(after),
    }
}

fn side(choice: &mut Choice) -> Side {
    let mut side = Side::sends(0);
    side.chunk = choice.magnitude(50, 100_000) as usize;
    side.read = choice.of(&[256 << 10, 256 << 10, 16 << 10, 1000, 100]);
    if choice.percent(20) {
        side.pause = choice.millis(0, 20);
        side.read = side.read.max(4000);
    }
    if choice.percent(20) {
        side.stall = Some((choice.between(0, 100_000), choice.millis(10, 15_000)));
    }
    side.in_place = choice.percent(30);
    side.no_delay = choice.percent(40);
    side.waits_for_news = choice.percent(80);
    side
}

fn datagrams(choice: &mut Choice, frame: &Frame, index: u16) -> Datagrams {
    let (from, to) = two_hosts(choice, frame);
    // links may be smaller than the interface: most stay below what every path carries
    let size = match choice.percent(30) {
        true => choice.between(500, u64::from(frame.mtu) * 4),
        false => choice.between(8, 500),
    };
    Datagrams {
        from,
        to,
        family: frame.family(index),
        port: FIRST_PORT + index,
        begins: Instant::ZERO + choice.millis(0, 1000),
        count: choice.between(1, 100),
        size: size as usize,
        gap: choice.millis(0, 30),
    }
}

fn two_hosts(choice: &mut Choice, frame: &Frame) -> (usize, usize) {
    let hosts = frame.hosts as u64;
    let one = choice.between(0, hosts - 1);
    let other = (one + choice.between(1, hosts - 1)) % hosts;
    (one as usize, other as usize)
}

fn mishaps(choice: &mut Choice, frame: &Frame) -> Vec<Mishap> {
    if !frame.stormy || choice.percent(60) {
        return Vec::new();
    }
    let calm = frame.calm_at.as_millis() as u64;
    let count = choice.between(1, 3);
    let one = |choice: &mut Choice| {
        let kind = match choice.between(0, 6) {
            0 | 1 => MishapKind::Pause(choice.millis(1, 5000)),
            2 => MishapKind::ClockForward(choice.millis(1, 100_000)),
            3 => MishapKind::ClockBack(choice.millis(1, 3000)),
            4 => MishapKind::Block(choice.millis(1, 500)),
            5 => MishapKind::Crash(choice.millis(1, 5000)),
            _ => MishapKind::Kill,
        };
        Mishap {
            at: Instant::ZERO + choice.millis(0, calm),
            host: choice.between(0, frame.hosts as u64 - 1) as usize,
            kind,
        }
    };
    (0..count).map(|_| one(choice)).collect()
}
