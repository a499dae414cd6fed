//! What a run is: a topology, hosts, links, conversations and mishaps. Data only.
//!
//! * [`generate`]: a scenario from a seed.
//! * [`dice`]: choices with names.
//! * [`describe`]: a scenario for people.
//! * [`speed`]: the run by which speed is measured.

pub mod describe;
pub mod dice;
pub mod generate;
pub mod speed;

#[cfg(test)]
mod tests;

use core::time::Duration;

use gannet_base::Instant;
use gannet_stack::Config;

use crate::address::Family;
use crate::app::{Datagrams, Talk};
use crate::driver::Interface;
use crate::path::Model;

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it came from, and the seed of whatever is random in it.
    pub seed: u64,
    /// Who is joined to whom.
    pub topology: Topology,
    /// The versions of IP that all hosts speak.
    pub families: Vec<Family>,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// The links, in the order of the topology.
    pub wires: Vec<WirePlan>,
    /// Conversations over TCP.
    pub talks: Vec<Talk>,
    /// Exchanges over UDP.
    pub datagrams: Vec<Datagrams>,
    /// What befalls hosts, by time.
    pub mishaps: Vec<Mishap>,
    /// From here on nothing goes wrong any more.
    pub calm_at: Instant,
    /// After it is calm everything must be over within this time.
    pub patience: Duration,
    /// How much is judged.
    pub judges: Judges,
}

/// Who is joined to whom. Wires are numbered in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Two hosts on one wire.
    Direct,
    /// Every host on its own wire to one switch.
    Switch,
    /// Every host on its own wire to one router.
    Router {
        /// Says nothing about packets that are too large.
        silent: bool,
    },
    /// Even hosts at one router, odd hosts at another; the last wire joins the routers.
    TwoRouters {
        /// They say nothing about packets that are too large.
        silent: bool,
    },
}

/// A host.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its interface.
    pub interface: Interface,
    /// Settings of its stack; the secret is drawn anew for every life.
    pub config: Config,
    /// What its clock shows when the world begins.
    pub clock: Instant,
    /// In the first conversation its numbers begin shortly before they wrap; then the clock shows
    /// what that takes.
    pub near_wrap: Option<NearWrap>,
    /// Its timers expire only at multiples of this; zero: at once.
    pub coalesce: Duration,
}

/// Numbers that begin shortly before 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearWrap {
    /// Sequence numbers, so many bytes before.
    Numbers(u32),
    /// Time stamps, so many milliseconds before.
    Stamps(u32),
}

/// A link: what each direction is like, and what it is like once it is calm.
#[derive(Clone, Debug)]
pub struct WirePlan {
    /// Away from the first end, and back.
    pub stormy: [Model; 2],
    /// The same, without faults.
    pub calm: [Model; 2],
}

/// What befalls a host.
#[derive(Clone, Copy, Debug)]
pub struct Mishap {
    /// When.
    pub at: Instant,
    /// Whom.
    pub host: usize,
    /// What.
    pub kind: MishapKind,
}

/// Kinds of mishap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MishapKind {
    /// It does nothing for this long: a stopped process.
    Pause(Duration),
    /// Its clock jumps forward.
    ClockForward(Duration),
    /// Its clock jumps back.
    ClockBack(Duration),
    /// Its interface takes nothing for this long.
    Block(Duration),
    /// It is gone, and starts anew, with a new secret, after this long.
    Crash(Duration),
    /// Its processes die: their sockets are dropped.
    Kill,
}

/// How much is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judges {
    /// Everything after every event.
    All,
    /// Contents and the end only.
    Contents,
}
