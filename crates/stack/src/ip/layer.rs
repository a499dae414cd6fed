//! The links and everything known about where packets go.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use gannet_base::Instant;
use gannet_link::{Driver, Endpoint};

use super::groups::Groups;
use super::ident::Idents;
use super::input::Flow;
use super::mtu::PathMtus;
use super::path::Path;
use super::probe::Probes;
use super::reassembly::{Expired, Reassembly};
use super::route::{Route, Routes, is_broadcast_of};
use super::v6::Six;
use super::v6::own::{Origin, Own};
use crate::address;
use crate::config::Config;
use crate::counters::{DropReason, Drops, Statistics};
use crate::hash::{FourTuple, HashKey};
use crate::link::{LinkAddress, LinkConfig, LinkId, Links};
use crate::neighbour::{Ask, Held, Neighbours};
use crate::timer::earliest;

/// What an ICMP error quotes: a header without options and 8 bytes.
pub(super) const QUOTE_LEN: usize = 28;

/// The links of a host and the way to every destination.
pub struct Ip<D> {
    /// The links.
    pub links: Links<D>,
    pub(super) routes: Routes,
    pub(super) mtus: PathMtus,
    pub(super) neighbours: Neighbours,
    pub(super) held: Held,
    pub(super) reassembly: Reassembly,
    pub(super) idents: Idents,
    pub(super) probes: Probes,
    pub(super) six: Six,
    pub(super) groups: Groups<Ipv4Addr>,
    pub(super) groups_six: Groups<Ipv6Addr>,
    /// Changes whenever a path chosen before may be wrong now.
    pub(super) epoch: u32,
    /// The ends of the last packet of IPv4 for us alone.
    pub(super) known: Option<Flow>,
    /// The first bytes of the packet that came in last, unless it was TCP: for ICMP errors.
    pub(crate) quote: [u8; QUOTE_LEN],
    pub(crate) drops: Drops,
    pub(crate) statistics: Statistics,
    /// Kept for their memory.
    asks: Vec<Ask>,
    failed: Vec<(LinkId, Ipv4Addr)>,
}

impl<D: Driver> Ip<D> {
    /// No links.
    pub fn new(config: &Config) -> Self {
        Ip {
            links: Links::new(),
            routes: Routes::new(),
            mtus: PathMtus::new(),
            neighbours: Neighbours::new(HashKey::new(config.secret)),
            held: Held::new(),
            reassembly: Reassembly::new(&config.ip, HashKey::new(config.secret)),
            idents: Idents::new(HashKey::new(config.secret)),
            probes: Probes::new(),
            six: Six::new(config),
            groups: Groups::new(config.seed),
            groups_six: Groups::new(!config.seed),
            epoch: 0,
            known: None,
            quote: [0; QUOTE_LEN],
            drops: Drops::new(),
            statistics: Statistics::new(),
            asks: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// The endpoint of a link.
    #[inline]
    pub fn endpoint(&mut self, link: LinkId) -> Option<&mut Endpoint<D>> {
        self.links.get_mut(link).map(|l| &mut l.endpoint)
    }

    /// Changes whenever a path or link header obtained before may be wrong now: a neighbour moved
    /// or fell silent, a link, address or route came or went, a path became narrower or wider.
    /// Whoever keeps a [`super::Path`] compares this and asks again when it differs.
    #[inline]
    pub fn neighbour_epoch(&self) -> u32 {
        let neighbours = self
            .neighbours
            .epoch()
            .wrapping_add(self.six.discovery.epoch());
        self.epoch.wrapping_add(neighbours)
    }

    /// Counts a packet thrown away.
    #[inline]
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.drops.add(reason);
    }

    /// The flow label of what one port sends along `path`.
    pub(crate) fn flow_label(&self, path: &Path, port: u16) -> u32 {
        let tuple = FourTuple {
            local: SocketAddr::new(path.source, port),
            remote: SocketAddr::new(path.destination, 0),
        };
        tuple.flow_label(self.six.key())
    }

    /// Whether `address` is one of ours, on any link; loopback addresses are, when there is a link
    /// for them.
    pub fn is_local(&self, address: IpAddr) -> bool {
        if address.is_loopback() {
            return self.loopback().is_some();
        }
        let mut links = self.links.iter();
        links.any(|(_, l)| l.config.addresses.iter().any(|a| a.address == address))
    }

    /// The link that leads back to this host.
    pub(super) fn loopback(&self) -> Option<LinkId> {
        let mut links = self.links.iter();
        let found = links.find(|(_, l)| l.config.loopback && !l.gone);
        found.map(|(id, _)| id)
    }

    /// Whether `address` means every host of a network: 255.255.255.255, or the last address of a
    /// network of ours.
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        let of = |l: &LinkConfig| {
            let mut own = l.addresses.iter();
            !l.loopback && own.any(|a| is_broadcast_of(a, address))
        };
        address::is_broadcast(address) || self.links.iter().any(|(_, l)| of(&l.config))
    }

    pub(crate) fn add_link(&mut self, endpoint: Endpoint<D>, config: LinkConfig) -> LinkId {
        let addresses = config.addresses.clone();
        let mut config = config;
        // those of IPv6 are tried out first
        config.addresses.retain(|own| own.address.is_ipv4());
        let id = self.links.add(endpoint, config);
        self.epoch = self.epoch.wrapping_add(1);
        for own in addresses {
            self.begin_address(id, own);
        }
        id
    }

    pub(crate) fn add_address(&mut self, id: LinkId, address: LinkAddress) -> bool {
        let Some(link) = self.links.get_mut(id) else {
            return false;
        };
        if address.address.is_ipv4() {
            link.config
                .addresses
                .retain(|a| a.address != address.address);
            link.config.addresses.push(address);
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.begin_address(id, address);
        true
    }

    fn begin_address(&mut self, id: LinkId, own: LinkAddress) {
        match own.address {
            IpAddr::V4(four) => self.announce(id, four),
            IpAddr::V6(six) => {
                let len = own.prefix_len.min(128);
                self.take_address(Own::new(id, six, len, Origin::Manual));
                self.take_link_local(id);
            }
        }
    }

    pub(crate) fn add_route(&mut self, route: Route) {
        self.routes.add(route);
        self.epoch = self.epoch.wrapping_add(1);
    }

    pub(crate) fn remove_route(&mut self, network: IpAddr, len: u8, link: LinkId) -> bool {
        self.epoch = self.epoch.wrapping_add(1);
        self.routes.remove(network, len, link)
    }

    /// Nothing goes to `link` or waits for it any more.
    pub(crate) fn forget_link(&mut self, link: LinkId) {
        self.routes.forget(link);
        self.neighbours.forget(link);
        self.forget_six(link);
        self.reassembly.forget(link, &mut self.links);
        self.forget_tentative(link);
        self.groups.forget(link);
        self.groups_six.forget(link);
        while let Some(frame) = self.held.pop(link, None) {
            self.throw_away(&frame, DropReason::NeighbourFailed);
        }
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// A router told that packets of `mtu` bytes fit on the way to `destination` (0: it did not
    /// tell). The caller has checked that the message is about a packet of its own. Returns what is
    /// used from now on: at least 552 bytes (1,280 for IPv6), never more than before, for ten
    /// minutes.
    pub fn reduce_mtu(&mut self, destination: IpAddr, mtu: u32, now: Instant) -> u32 {
        let current = self.path(None, destination).map_or(65_535, |p| p.mtu);
        if planted!(MtuIgnored) {
            return current;
        }
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# After receiving a Packet Too Big message, a node must attempt to avoid eliciting more
        //# such messages in the near future.
        //= https://www.rfc-editor.org/rfc/rfc1191#section-3
        //# When a host receives a Datagram Too Big message, it MUST reduce its estimate of the PMTU
        //# for the relevant path, based on the value of the Next-Hop MTU field in the message (see
        //# section 4).
        //= https://www.rfc-editor.org/rfc/rfc1191#section-3
        //# We do require that after receiving a Datagram Too Big message, a host MUST attempt to
        //# avoid eliciting more such messages in the near future.
        //= https://www.rfc-editor.org/rfc/rfc1191#section-3
        //# Clearly, the former strategy may continue to elicit Datagram Too Big messages for a
        //# while, but since each of these messages (and the dropped datagrams they respond to)
        //# consume Internet resources, the host MUST force the PMTU Discovery process to converge.
        let reduced = self.mtus.reduce(destination, mtu, current, now);
        //= https://www.rfc-editor.org/rfc/rfc8201#section-5.2
        //# The packetization layers must be notified about decreases in the PMTU.
        //= https://www.rfc-editor.org/rfc/rfc8201#section-5.2
        //# Any packetization layer instance (for example, a TCP connection) that is actively using
        //# the path must be notified if the PMTU estimate is decreased.
        if reduced != current {
            self.epoch = self.epoch.wrapping_add(1);
        }
        reduced
    }

    /// Nothing that was sent along `path` is acknowledged: its neighbour may have moved.
    pub fn suspect(&mut self, now: Instant, path: &Path) {
        match path.next_hop {
            IpAddr::V4(next_hop) => {
                if let Some(ask) = self.neighbours.suspect(now, path.link, next_hop) {
                    self.ask(ask);
                }
            }
            IpAddr::V6(next_hop) => {
                if let Some(ask) = self.six.discovery.suspect(now, path.link, next_hop) {
                    self.solicit(ask);
                }
            }
        }
    }

    /// Expired timers: neighbours asked again or given up, narrow paths forgotten.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) {
        self.six.tick(now);
        let unused = self.neighbours.is_empty()
            && self.six.is_unused()
            && self.groups.is_empty()
            && self.groups_six.is_empty()
            && self.probes.is_empty()
            && self.mtus.is_empty();
        if !unused {
            self.poll_timers(now);
        }
    }

    fn poll_timers(&mut self, now: Instant) {
        if self.mtus.poll(now) {
            self.epoch = self.epoch.wrapping_add(1);
        }
        // before neighbour discovery speaks: switches let through what was asked for
        self.poll_groups(now);
        self.poll_listeners(now);
        self.poll_six(now);
        self.poll_tentative(now);
        let mut asks = core::mem::take(&mut self.asks);
        let mut failed = core::mem::take(&mut self.failed);
        self.neighbours.poll(now, &mut asks, &mut failed);
        for ask in asks.drain(..) {
            self.ask(ask);
        }
        for (link, address) in failed.drain(..) {
            while let Some(frame) = self.held.pop(link, Some(address.into())) {
                self.throw_away(&frame, DropReason::NeighbourFailed);
            }
        }
        self.asks = asks;
        self.failed = failed;
    }

    /// A datagram whose fragments did not all come in time, and whose sender may be told;
    /// repeatedly, until there is none.
    pub(crate) fn expired_datagram(&mut self, now: Instant) -> Option<Expired> {
        let Ip {
            reassembly,
            links,
            drops,
            ..
        } = self;
        reassembly.expire(now, (links, drops))
    }

    /// Whether a neighbour answered or gave up since the last call.
    pub(crate) fn take_neighbours_changed(&mut self) -> bool {
        self.neighbours.take_changed() | self.six.discovery.take_changed()
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        earliest([
            self.neighbours.next_timeout(),
            self.mtus.next_timeout(),
            self.reassembly.next_timeout(),
            self.six.next_timeout(),
            self.groups.next_timeout(),
            self.groups_six.next_timeout(),
            self.probes.next_timeout(),
        ])
    }
}
