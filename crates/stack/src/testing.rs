//! Two hosts in virtual time, for unit tests: they share a clock that jumps from one event to the
//! next, so a second of waiting costs nothing and every run with one seed is the same.
//!
//! Only for tests (or with the feature `testing`): assertions fail loudly here. Topologies, rates
//! and checkers belong to the simulator.
//!
//! | file | job |
//! |---|---|
//! | `testing.rs` | [`Pair`] |
//! | `testing/wire.rs` | [`Wire`], [`WireDriver`]: an Ethernet or IP link with faults |
//! | `testing/packet.rs` | packets for tests to spoil |
//! | `testing/segment.rs` | what an interface does to a super-segment: cut and complete |

pub mod packet;
mod segment;
mod wire;

use alloc::vec::Vec;
use core::fmt::Debug;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Driver, Layout, NoDoorbell, PeerDriver};

use crate::config::Config;
use crate::link::{LinkAddress, LinkConfig, LinkId};
use crate::stack::Stack;

pub use wire::{Bottleneck, Faults, Wire, WireConfig, WireDriver};

/// Address of the first host of a pair.
pub const A: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));
/// IPv6 address of the first host of a pair, where it has one.
pub const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// IPv6 address of the second host of a pair, where it has one.
pub const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
/// Address of the second host of a pair.
pub const B: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 2));
/// Most virtual time that [`Pair::run_until`] waits.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Most steps at one instant: more means that somebody runs in circles.
const STEPS_MAX: u32 = 200_000;

/// A driver whose frames arrive at points of virtual time.
pub trait Simulated: Driver {
    /// Tells the driver what time it is.
    fn advance(&mut self, now: Instant);
    /// When the next frame arrives.
    fn next_arrival(&self) -> Option<Instant>;
}

/// A driver that takes frames of any bytes from a test.
pub trait Inject: Driver {
    /// Makes `bytes` arrive at this end now.
    fn put(&mut self, bytes: &[u8]);
}

impl Inject for WireDriver {
    fn put(&mut self, bytes: &[u8]) {
        self.inject(bytes);
    }
}

impl Simulated for PeerDriver<NoDoorbell> {
    fn advance(&mut self, _now: Instant) {}

    fn next_arrival(&self) -> Option<Instant> {
        None
    }
}

/// Two hosts joined by one link.
pub struct Pair<D> {
    /// The first host, [`A`].
    pub a: Stack<D>,
    /// The second host, [`B`].
    pub b: Stack<D>,
    /// The first host's end of the link.
    pub link_a: LinkId,
    /// The second host's end of the link.
    pub link_b: LinkId,
    /// The time of both.
    pub now: Instant,
    seed: u64,
}

impl Pair<PeerDriver<NoDoorbell>> {
    /// Hosts joined by a channel over heap memory: nothing is lost, nothing takes time.
    pub fn channel(seed: u64) -> Self {
        Self::channel_with(seed, Layout::CHANNEL, |_| {})
    }

    /// As [`Pair::channel`], with a layout and changed settings.
    pub fn channel_with(seed: u64, layout: Layout, change: impl Fn(&mut Config)) -> Self {
        let (left, right) = gannet_link::pair(layout, (NoDoorbell, NoDoorbell));
        let peers = (Some(B), Some(A));
        Self::join(seed, (left, right), peers, change)
    }
}

impl Pair<WireDriver> {
    /// Hosts joined by a simulated wire.
    pub fn wire(seed: u64, wire: &WireConfig) -> Self {
        Self::wire_with(seed, wire, |_| {})
    }

    /// As [`Pair::wire`], with changed settings.
    pub fn wire_with(seed: u64, wire: &WireConfig, change: impl Fn(&mut Config)) -> Self {
        Self::join(seed, Wire::ends(seed, wire), (None, None), change)
    }
}

impl Pair<WireDriver> {
    /// As [`Pair::wire`] with IPv6 beside IPv4: [`A6`] and [`B6`] on one network, usable at once.
    pub fn six(seed: u64, wire: &WireConfig) -> Self {
        Self::six_with(seed, wire, |_| {})
    }

    /// As [`Pair::six`], with changed settings.
    pub fn six_with(seed: u64, wire: &WireConfig, change: impl Fn(&mut Config)) -> Self {
        let mut pair = Self::wire_with(seed, wire, |config| {
            config.ipv6.dad_transmits = 0;
            change(config);
        });
        let own = |address: Ipv6Addr| LinkAddress {
            address: address.into(),
            prefix_len: 64,
        };
        pair.a.add_address(pair.link_a, own(A6));
        pair.b.add_address(pair.link_b, own(B6));
        pair
    }
}

impl<D: Simulated> Pair<D> {
    pub(crate) fn join(
        seed: u64,
        (left, right): (gannet_link::Endpoint<D>, gannet_link::Endpoint<D>),
        peers: (Option<IpAddr>, Option<IpAddr>),
        change: impl Fn(&mut Config),
    ) -> Self {
        let host = |number: u8| {
            let mut config = Config::new([number; 16], seed ^ u64::from(number));
            change(&mut config);
            Stack::new(config)
        };
        let link = |address, peer| LinkConfig {
            addresses: [LinkAddress {
                address,
                prefix_len: 24,
            }]
            .into(),
            peer,
            ..LinkConfig::default()
        };
        let (mut a, mut b) = (host(1), host(2));
        let link_a = a.add_link(left, link(A, peers.0));
        let link_b = b.add_link(right, link(B, peers.1));
        Pair {
            a,
            b,
            link_a,
            link_b,
            // Not zero: nobody may mistake the first instant for "never".
            now: Instant::from_millis(1000),
            seed,
        }
    }

    /// Polls both hosts once; whether anything happened.
    pub fn poll(&mut self) -> bool {
        for (host, link) in [(&mut self.a, self.link_a), (&mut self.b, self.link_b)] {
            if let Some(endpoint) = host.link_mut(link) {
                endpoint.driver.advance(self.now);
            }
        }
        self.a.flush();
        self.b.flush();
        let a = self.a.poll(self.now);
        let b = self.b.poll(self.now);
        a | b
    }

    /// Hands the second host the packets or frames in `frames` as if the first had sent them.
    pub fn inject_b(&mut self, frames: &[Vec<u8>])
    where
        D: Inject,
    {
        let link = self.link_b;
        for bytes in frames {
            if let Some(endpoint) = self.b.link_mut(link) {
                endpoint.driver.advance(self.now);
                endpoint.driver.put(bytes);
            }
        }
        self.settle();
    }

    /// Polls until nothing more happens at this instant.
    ///
    /// # Panics
    /// When that never is.
    pub fn settle(&mut self) {
        let mut steps = 0;
        while self.poll() || self.next_event().is_some_and(|at| at <= self.now) {
            steps += 1;
            assert!(steps < STEPS_MAX, "runs in circles; seed {}", self.seed);
        }
    }

    /// When the next frame arrives or the next timer expires.
    pub fn next_event(&self) -> Option<Instant> {
        let arrival = |host: &Stack<D>, link| {
            let endpoint = host.link(link)?;
            endpoint.driver.next_arrival()
        };
        let events = [
            self.a.next_timeout(),
            self.b.next_timeout(),
            arrival(&self.a, self.link_a),
            arrival(&self.b, self.link_b),
        ];
        events.into_iter().flatten().min()
    }

    /// Settles, then jumps to the next event and settles again; `false` when there is none.
    pub fn step(&mut self) -> bool {
        self.settle();
        let Some(next) = self.next_event() else {
            return false;
        };
        self.now = self.now.max(next);
        self.settle();
        true
    }

    /// Steps until `done` says so.
    ///
    /// # Panics
    /// When nothing is left to happen before that, or an hour has passed.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now + PATIENCE;
        self.settle();
        while !done(self) {
            let (seed, now) = (self.seed, self.now);
            assert!(now < end, "not done after an hour; seed {seed}");
            let before = self.now;
            let more = self.step();
            assert!(
                more || before != self.now || done(self),
                "stuck at {now}; seed {seed}"
            );
        }
    }

    /// Lets `duration` pass, with everything that happens in it.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.settle();
        while let Some(next) = self.next_event().filter(|&at| at <= end) {
            self.now = self.now.max(next);
            self.settle();
        }
        self.now = end;
        self.settle();
    }
}

impl<D> Debug for Pair<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Pair(seed {}, now {})", self.seed, self.now)
    }
}

#[cfg(test)]
mod tests;
