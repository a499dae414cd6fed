//! What lies between hosts: wires, and the switch or routers that join them.

use gannet_base::Instant;
use gannet_link::Medium;

use crate::buffer::Buffer;
use crate::node::switch::Out;
use crate::node::{Router, Switch};
use crate::path::{Event, Path};
use crate::scenario::{Scenario, Topology};

/// One end of a wire: at a host, or at a port of something between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The interface of a host.
    Host(usize),
    /// A port of the switch.
    Switch(usize),
    /// A port of a router.
    Router(usize, usize),
}

/// All wires and what joins them. A *way* is one direction of a wire: twice the wire's number, plus
/// one for the way back.
pub struct Network {
    ways: Vec<Path>,
    ends: Vec<[End; 2]>,
    switch: Switch,
    routers: Vec<Router>,
    /// The ways that leave the hosts.
    from_hosts: Vec<Option<usize>>,
}

impl Network {
    /// The network of a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let hosts = scenario.hosts.len();
        let (ends, routers) = joined(scenario.topology, hosts);
        let medium = scenario.medium();
        let mut ways = Vec::new();
        for (wire, plan) in scenario.wires.iter().enumerate() {
            for (way, model) in plan.stormy.iter().enumerate() {
                let seed = scenario.seed.rotate_left(17) ^ (wire * 2 + way) as u64;
                ways.push(Path::new(model.clone(), medium, seed));
            }
        }
        let from_hosts = (0..hosts).map(|host| leaving(&ends, End::Host(host)));
        Network {
            ways,
            from_hosts: from_hosts.collect(),
            ends,
            switch: Switch::new(hosts),
            routers,
        }
    }

    /// Number of ways.
    pub fn ways(&self) -> usize {
        self.ways.len()
    }

    /// When to look at a way again.
    pub fn next_at(&self, way: usize) -> Instant {
        let path = self.ways.get(way);
        path.and_then(Path::next_at).unwrap_or(Instant::FAR_FUTURE)
    }

    /// The next frame that has arrived at the end of a way.
    pub fn pop(&mut self, now: Instant, way: usize) -> Option<Buffer> {
        let way = self.ways.get_mut(way)?;
        // (most often it is asked in vain)
        way.next_at().filter(|at| *at <= now)?;
        way.pop(now)
    }

    /// Where a way ends.
    pub fn end(&self, way: usize) -> Option<End> {
        let ends = self.ends.get(way / 2)?;
        ends.get(1 - way % 2).copied()
    }

    /// The way that leaves an end.
    pub fn way_from(&self, end: End) -> Option<usize> {
        match end {
            End::Host(host) => *self.from_hosts.get(host)?,
            end => leaving(&self.ends, end),
        }
    }

    /// Puts a frame on a way.
    pub fn push(&mut self, now: Instant, way: usize, frame: Buffer) {
        if let Some(path) = self.ways.get_mut(way) {
            path.push(now, frame);
        }
    }

    /// A frame has come to the switch or a router: puts it on the ways that it takes from there,
    /// which `out` is told.
    pub fn forward(&mut self, now: Instant, at: End, frame: Buffer, mut out: impl FnMut(usize)) {
        match at {
            End::Host(_) => {}
            End::Switch(port) => {
                let ports = match self.switch.forward(port, &frame) {
                    Out::Nowhere => 0..0,
                    Out::Port(port) => port..port + 1,
                    Out::Others => 0..self.switch.ports(),
                };
                for to in ports.filter(|to| *to != port) {
                    if let Some(way) = self.way_from(End::Switch(to)) {
                        self.push(now, way, frame.clone());
                        out(way);
                    }
                }
            }
            End::Router(number, port) => {
                let (ways, ends) = (&self.ways, &self.ends);
                let mtu = |port: usize| {
                    let end = End::Router(number, port);
                    let wire = ends.iter().position(|ends| ends.contains(&end))?;
                    let at = ends.get(wire)?.iter().position(|e| *e == end)?;
                    ways.get(wire * 2 + at)?.model().mtu
                };
                let Some(router) = self.routers.get_mut(number) else {
                    return;
                };
                if let Some((to, frame)) = router.forward(port, frame, mtu)
                    && let Some(way) = self.way_from(End::Router(number, to))
                {
                    self.push(now, way, frame);
                    out(way);
                }
            }
        }
    }

    /// From now on nothing goes wrong.
    pub fn calm(&mut self, now: Instant, scenario: &Scenario) {
        let models = scenario.wires.iter().flat_map(|wire| &wire.calm);
        for (path, model) in self.ways.iter_mut().zip(models) {
            path.set_down(now, false);
            path.set_model(now, model.clone());
        }
    }

    /// What happened on all ways together.
    pub fn events(&self) -> Vec<(Event, u64)> {
        let mut total = crate::path::PathCounters::new();
        for path in &self.ways {
            for (event, count) in path.counters().iter() {
                total.add_many(event, count);
            }
        }
        total.iter().collect()
    }

    /// Bytes delivered on all ways together.
    pub fn bytes(&self) -> u64 {
        self.ways.iter().map(Path::delivered_bytes).sum()
    }
}

fn leaving(wires: &[[End; 2]], end: End) -> Option<usize> {
    let mut wires = wires.iter().enumerate();
    wires.find_map(|(wire, ends)| {
        let at = ends.iter().position(|e| *e == end)?;
        Some(wire * 2 + at)
    })
}

/// The ends of each wire, and the routers.
fn joined(topology: Topology, hosts: usize) -> (Vec<[End; 2]>, Vec<Router>) {
    let each = |far: &dyn Fn(usize) -> End| {
        let ends = (0..hosts).map(|host| [End::Host(host), far(host)]);
        ends.collect::<Vec<_>>()
    };
    match topology {
        Topology::Direct => (vec![[End::Host(0), End::Host(1)]], Vec::new()),
        Topology::Switch => (each(&End::Switch), Vec::new()),
        Topology::Router { silent } => {
            let near = (0..hosts).map(|host| (host, host)).collect();
            let router = Router::new(near, None, silent);
            (each(&|host| End::Router(0, host)), vec![router])
        }
        Topology::TwoRouters { silent } => {
            let near = |side: usize| {
                let near = (0..hosts).filter(|host| host % 2 == side);
                near.map(|host| (host, host)).collect::<Vec<_>>()
            };
            let router = |side| Router::new(near(side), Some(hosts), silent);
            let mut ends = each(&|host| End::Router(host % 2, host));
            ends.push([End::Router(0, hosts), End::Router(1, hosts)]);
            (ends, vec![router(0), router(1)])
        }
    }
}

impl Scenario {
    /// What runs over the wires.
    pub fn medium(&self) -> Medium {
        let first = self.hosts.first();
        first.map_or(Medium::Ethernet, |host| host.interface.medium)
    }
}
