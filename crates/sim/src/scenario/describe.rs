//! A scenario for people, and what follows from one.

use core::fmt::{self, Display, Formatter};
use core::time::Duration;

use super::{MishapKind, Scenario, Topology};
use crate::address::{self, Family};
use crate::app::Datagrams;
use crate::path::{Change, Model};

impl Scenario {
    /// The address of a host.
    pub fn address(&self, host: usize, family: Family) -> address::Host {
        match self.is_routed() {
            false => family.shared(host),
            true => family.routed(host),
        }
    }

    /// Whether routers are between the hosts.
    pub fn is_routed(&self) -> bool {
        !matches!(self.topology, Topology::Direct | Topology::Switch)
    }

    /// Whether a link or a host is out of reach for a while.
    pub fn has_outages(&self) -> bool {
        let long = |model: &Model| {
            let mut steps = model.schedule.iter();
            model.flap.is_some() || steps.any(|step| step.change == Change::Down)
        };
        let links = self.stormy().any(long);
        // a neighbour is asked three times only
        let lossy = |model: &Model| model.faults.loss > 5000 || model.faults.burst.is_some();
        let short = self.hosts.iter().any(|host| host.interface.ring < 32) || self.floods();
        links || short || !self.mishaps.is_empty() || self.stormy().any(lossy)
    }

    /// Whether datagrams alone keep a line busy for a second: so long no neighbour answers.
    fn floods(&self) -> bool {
        let slowest = self.stormy().filter_map(|model| model.rate).min();
        let bytes = |plan: &Datagrams| plan.count * plan.size as u64;
        let all: u64 = self.datagrams.iter().map(bytes).sum();
        slowest.is_some_and(|rate| all > rate)
    }

    /// Whether bits are flipped that no checksum shows.
    pub fn corrupts_unseen(&self) -> bool {
        self.stormy().any(|model| model.faults.corrupt_unseen > 0)
    }

    /// Whether bits are flipped at all.
    pub fn corrupts(&self) -> bool {
        self.stormy().any(|model| model.faults.corrupt > 0)
    }

    /// The shortest time from one host to another and back.
    pub fn round_trip(&self) -> Duration {
        let shortest = |model: &Model| {
            let delays = model.schedule.iter().filter_map(|step| match step.change {
                Change::Delay(delay) => Some(delay),
                _ => None,
            });
            delays.chain([model.delay]).min().unwrap_or_default()
        };
        let wires = self.wires.iter();
        let mut trips: Vec<Duration> = wires.map(|w| w.stormy.iter().map(shortest).sum()).collect();
        trips.sort_unstable();
        let wires = if self.topology == Topology::Direct {
            1
        } else {
            2
        };
        trips.iter().take(wires).sum()
    }

    fn stormy(&self) -> impl Iterator<Item = &Model> {
        self.wires.iter().flat_map(|wire| &wire.stormy)
    }
}

impl MishapKind {
    /// A name for counts.
    pub fn name(&self) -> &'static str {
        match self {
            MishapKind::Pause(_) => "host paused",
            MishapKind::ClockForward(_) => "clock jumped forward",
            MishapKind::ClockBack(_) => "clock jumped back",
            MishapKind::Block(_) => "interface blocked",
            MishapKind::Crash(_) => "host crashed",
            MishapKind::Kill => "processes killed",
        }
    }
}

/// All addresses of a host.
struct Addresses<'a>(&'a Scenario, usize);

impl Display for Addresses<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Addresses(scenario, host) = self;
        for (index, family) in scenario.families.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{}", scenario.address(*host, *family))?;
        }
        Ok(())
    }
}

impl Display for Scenario {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Scenario { seed, topology, .. } = self;
        writeln!(f, "seed {seed}: {topology:?}, calm at {}", self.calm_at)?;
        for (number, host) in self.hosts.iter().enumerate() {
            let tcp = &host.config.tcp;
            writeln!(
                f,
                "host {number} {}: {:?}, clock {}, coalesce {:?}, buffers {}/{}..{}, budget {}",
                Addresses(self, number),
                host.interface,
                host.clock,
                host.coalesce,
                tcp.send_buffer,
                tcp.receive_buffer,
                tcp.receive_buffer_max,
                host.config.receive_budget,
            )?;
        }
        for (number, wire) in self.wires.iter().enumerate() {
            let [there, back] = &wire.stormy;
            writeln!(f, "wire {number} there: {there}")?;
            writeln!(f, "wire {number} back:  {back}")?;
        }
        for talk in &self.talks {
            writeln!(f, "{talk:?}")?;
        }
        for datagrams in &self.datagrams {
            writeln!(f, "{datagrams:?}")?;
        }
        for mishap in &self.mishaps {
            writeln!(f, "{mishap:?}")?;
        }
        Ok(())
    }
}
