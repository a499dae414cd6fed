//! Who watches: one observer for all hosts, which hands every segment to the end of the connection
//! that it belongs to.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::Medium;
use gannet_stack::{CongestionControl, DropReason, Drops, Pacing};
use gannet_wire::tcp::Flags;

use super::naive::Naive;
use super::routers::TooBig;
use super::side::Side;
use crate::app::Ledger;
use crate::buffer::Buffer;
use crate::packet::{self, Packet, line};
use crate::scenario::{Judges, Scenario};

/// All observers of a world.
#[derive(Debug)]
pub struct Judge {
    medium: Medium,
    on: bool,
    /// For each host what is known of its connections, by our and their address.
    hosts: Vec<Watched>,
    counts: Counts,
}

/// What is known of one host.
#[derive(Debug)]
pub struct Watched {
    sides: Sides,
    /// No acknowledgement is overdue before; [`Instant::FAR_FUTURE`]: none is owed.
    ack_due: Instant,
    /// Its timers run as they should: no pauses, no jumps, no coalescing.
    pub punctual: bool,
    /// It has memory and room enough to take whatever comes.
    pub roomy: bool,
    /// An ICMP error has come: things may be sent again at once.
    pub icmp: bool,
    /// It sends at a rate.
    paced: bool,
    /// How long it stays in TIME-WAIT.
    time_wait: Duration,
    /// Its station on an Ethernet.
    station: [u8; 6],
    /// It crashed: what it counted is gone.
    crashed: bool,
    /// The plainest reading of what it was handed.
    naive: Naive,
}

/// The ends of connections of one host, by their addresses.
#[derive(Debug, Default)]
struct Sides {
    all: Vec<(Ends, Side)>,
    places: BTreeMap<Ends, usize>,
    /// The one that was looked for last: most often it is the next one, too.
    last: usize,
}

/// Our and their address.
type Ends = (SocketAddr, SocketAddr);

impl Sides {
    fn get(&mut self, ends: &Ends) -> Option<&mut Side> {
        if self
            .all
            .get(self.last)
            .is_none_or(|(other, _)| other != ends)
        {
            self.last = *self.places.get(ends)?;
        }
        self.all.get_mut(self.last).map(|(_, side)| side)
    }

    fn get_or_begin(&mut self, ends: Ends) -> Option<&mut Side> {
        if self.get(&ends).is_none() {
            self.last = self.all.len();
            self.places.insert(ends, self.last);
            self.all.push((ends, Side::default()));
        }
        self.all.get_mut(self.last).map(|(_, side)| side)
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Segments judged.
    pub segments: u64,
    /// Data sent again.
    pub again: u64,
    /// Segments with SACK blocks.
    pub sacks: u64,
    /// Blocks that report duplicates.
    pub dsacks: u64,
    /// Segments beyond the offered window: probes.
    pub probes: u64,
    /// Segments that closed the window.
    pub zero_windows: u64,
    /// Resets.
    pub resets: u64,
    /// Sequence numbers, and time stamps, that passed 2^32.
    pub wraps: u64,
    /// Packets that may be marked for congestion, and marked ones.
    pub ecn: u64,
}

/// What the rules are judged with.
pub struct Court<'a> {
    /// The world's time.
    pub now: Instant,
    /// The shortest time to the other end and back.
    pub round_trip: Duration,
    /// The host's timers run as they should, and no router has told it to send anything again.
    pub punctual: bool,
    /// The host's timers run as they should.
    pub punctual_but_for_icmp: bool,
    /// Nothing waits for a neighbour's address either.
    pub steady: bool,
    /// The host has memory and room enough to take whatever comes.
    pub roomy: bool,
    /// How long it stays in TIME-WAIT.
    pub time_wait: Duration,
    /// What was seen.
    pub counts: &'a mut Counts,
}

impl Judge {
    /// For a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let hosts = scenario
            .hosts
            .iter()
            .enumerate()
            .map(|(number, plan)| Watched {
                sides: Sides::default(),
                ack_due: Instant::FAR_FUTURE,
                punctual: plan.coalesce.is_zero()
                    && scenario.mishaps.iter().all(|mishap| mishap.host != number),
                roomy: plan.interface.ring >= 64
                    && plan.interface.blocks.0 * plan.interface.blocks.1 >= 1 << 20,
                icmp: false,
                paced: plan.config.tcp.pacing == Pacing::On
                    || plan.config.tcp.congestion == CongestionControl::Bbr,
                time_wait: plan.config.tcp.time_wait,
                station: plan.interface.station,
                crashed: false,
                naive: Naive::default(),
            });
        Judge {
            medium: scenario.medium(),
            on: scenario.judges == Judges::All && !scenario.corrupts_unseen(),
            hosts: hosts.collect(),
            counts: Counts::default(),
        }
    }

    /// A frame is handed to a host.
    pub fn delivered(&mut self, now: Instant, host: usize, frame: &Buffer, ledger: &mut Ledger) {
        let Some(watched) = self.hosts.get_mut(host).filter(|_| self.on) else {
            return;
        };
        watched.look_at(now, frame, self.medium);
        let at_once = watched.punctual && watched.roomy;
        match Packet::parse(frame, self.medium) {
            Packet::Tcp(segment) => {
                let key = (segment.to, segment.from);
                let side = match segment.has(Flags::SYN) {
                    true => watched.sides.get_or_begin(key),
                    false => watched.sides.get(&key),
                };
                if let Some(side) = side {
                    let paced = watched.paced;
                    let late = side.should_have_spoken(now, (ledger, paced), &segment);
                    if let Some(late) = late.filter(|_| at_once) {
                        let what = line(frame, self.medium);
                        ledger.fail(format!("{now}: host {host}: {late} [before {what}]"));
                    }
                    side.delivered(now, &segment);
                    let due = side.ack_due.unwrap_or(Instant::FAR_FUTURE);
                    watched.ack_due = watched.ack_due.min(due);
                }
            }
            Packet::Wrong(_) => {}
            Packet::Other => watched.icmp |= is_icmp_error(frame, self.medium),
        }
    }

    /// A host sends a frame.
    pub fn sent(&mut self, now: Instant, host: usize, frame: &mut Buffer, ledger: &mut Ledger) {
        let Some(watched) = self.hosts.get_mut(host).filter(|_| self.on) else {
            return;
        };
        let mut sound = false;
        let broken = match Packet::parse(frame, self.medium) {
            Packet::Tcp(segment) => {
                sound = true;
                self.counts.segments += 1;
                let mut court = Court {
                    now,
                    round_trip: ledger.round_trip,
                    punctual: watched.punctual && !watched.icmp,
                    punctual_but_for_icmp: watched.punctual,
                    steady: watched.punctual && !watched.icmp && self.medium == Medium::Ip,
                    roomy: watched.roomy,
                    time_wait: watched.time_wait,
                    counts: &mut self.counts,
                };
                let key = (segment.from, segment.to);
                let side = match segment.has(Flags::RST) {
                    // an answer to a stranger makes no connection
                    true => watched.sides.get(&key),
                    false => watched.sides.get_or_begin(key),
                };
                side.and_then(|side| side.sent(&mut court, &segment).err())
                    .map(|rule| format!("{rule} [{}]", line(frame, self.medium)))
            }
            Packet::Wrong(what) => Some(format!("a wrong {what}")),
            Packet::Other => None,
        };
        if let Some(broken) = broken {
            ledger.fail(format!("{now}: host {host} sends {broken}"));
        }
        if sound {
            frame.set_sound();
        }
    }

    /// A host has done all that it could at this instant.
    pub fn host_ran(&mut self, now: Instant, host: usize, ledger: &mut Ledger) {
        let waits = self.medium == Medium::Ethernet && ledger.outages;
        let Some(watched) = self
            .hosts
            .get_mut(host)
            .filter(|w| self.on && w.punctual && w.roomy && !waits)
        else {
            return;
        };
        if now <= watched.ack_due {
            return;
        }
        watched.ack_due = Instant::FAR_FUTURE;
        for ((ours, theirs), side) in &mut watched.sides.all {
            if side.owes_ack(now) {
                ledger.fail(format!(
                    "{now}: {ours} has not acknowledged {theirs} for too long"
                ));
            }
            if let Some(due) = side.ack_due.filter(|due| *due >= now) {
                watched.ack_due = watched.ack_due.min(due);
            }
        }
    }

    /// Something befell a host.
    pub fn befell(&mut self, host: usize, crashed: bool) {
        if let Some(watched) = self.hosts.get_mut(host) {
            watched.punctual = false;
            if crashed {
                watched.sides = Sides::default();
                watched.crashed = true;
            }
        }
    }

    /// Oracle: the stack of a host, which has lost no frame, made of packets what the plainest
    /// reading makes of them: it found as many wrong IPv4 headers, and put datagrams together.
    pub fn judge_the_end(&self, host: usize, drops: &Drops, ledger: &mut Ledger) {
        let sound = |w: &&Watched| self.on && w.roomy && !w.crashed;
        let Some(watched) = self.hosts.get(host).filter(sound) else {
            return;
        };
        let wrong_headers = drops.get(DropReason::IpChecksum);
        let expected = watched.naive.wrong_headers;
        if wrong_headers < expected {
            ledger.fail(format!(
                "host {host}: {wrong_headers} of {expected} wrong IPv4 headers found"
            ));
        }
        // (what needs too many pieces of memory is refused, and counted; so is what comes late)
        let reasons = [DropReason::FragmentTooLong, DropReason::UdpNoSocket];
        let refused = reasons.iter().any(|reason| drops.get(*reason) > 0);
        for port in watched.naive.whole.iter().filter(|_| !refused) {
            if !ledger.heard.contains(port) {
                ledger.fail(format!(
                    "host {host}: nothing was put together for port {port}"
                ));
            }
        }
    }

    /// What was seen, by name.
    pub fn counts(&self) -> [(&'static str, u64); 9] {
        let Counts {
            segments,
            again,
            sacks,
            dsacks,
            probes,
            zero_windows,
            resets,
            wraps,
            ecn,
        } = self.counts;
        [
            ("seen segments", segments),
            ("seen data sent again", again),
            ("seen SACK", sacks),
            ("seen D-SACK", dsacks),
            ("seen window probes", probes),
            ("seen zero windows", zero_windows),
            ("seen resets", resets),
            ("seen wraps at 2^32", wraps),
            ("seen ECN-capable packets", ecn),
        ]
    }
}

impl Watched {
    /// Reads what is no TCP segment, too.
    fn look_at(&mut self, now: Instant, frame: &Buffer, medium: Medium) {
        let ours = medium == Medium::Ip || frame.starts_with(&self.station);
        // (what was right when it was sent, and was not touched since, is no fragment)
        if frame.is_sound() || !ours {
            return;
        }
        let packet = packet::ip_of(frame, medium);
        self.naive.look_at(packet);
        if let Some(told) = TooBig::of(packet)
            && let Some(side) = self.sides.get(&told.ends)
        {
            side.is_told_mtu(now, told.seq, told.mtu);
        }
    }
}

fn is_icmp_error(frame: &[u8], medium: Medium) -> bool {
    let packet = packet::ip_of(frame, medium);
    match packet.first().map(|first| first >> 4) {
        Some(6) => packet.get(6) == Some(&58) && matches!(packet.get(40), Some(1..=4)),
        _ => packet.get(9) == Some(&1) && matches!(packet.get(20), Some(3 | 11 | 12)),
    }
}
