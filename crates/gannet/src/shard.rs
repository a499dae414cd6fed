//! What a host owns, under one lock: the stack, its links, and who waits for what.

use crate::dialling::Dialling;
use crate::driver::{AnyDriver, captured};
use crate::error::fail;
use crate::network::Network;
use crate::poller::Pollers;
use crate::waiting::Waiting;
use crate::watch::{Signal, Signals, Watch};
use gannet_base::Instant;
use gannet_drivers::packet::Claim;
use gannet_link::{Endpoint, LinkState};
use gannet_stack::tcp::{ListenerId, TcpId};
use gannet_stack::udp::UdpId;
use gannet_stack::{LinkAddress, LinkConfig, LinkId, Stack};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a call can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Socket {
    Connection(TcpId),
    Listener(ListenerId),
    Datagrams(UdpId),
    /// What a DHCP server grants any of the links.
    Leases,
    /// Any of the sockets of the poller with this number.
    Poller(usize),
}

/// A link and how the kernel's signals name it.
#[derive(Clone, Copy, Debug)]
struct Attached {
    number: u32,
    id: LinkId,
    /// The one host at its other end, if it is a channel.
    peer: Option<IpAddr>,
    /// Its other end is gone; only what arrived before is left.
    gone: bool,
}

/// Rounds in which a dead peer's last packets are taken in.
const LAST_WORDS: usize = 64;
/// How soon to look again whether a dead link was read to its end, at first and at last.
const BURIAL_FIRST: Duration = Duration::from_millis(100);
const BURIAL_LAST: Duration = Duration::from_secs(10);

/// The stack with everything around it.
pub(crate) struct Shard {
    pub(crate) stack: Stack<AnyDriver>,
    pub(crate) networks: Vec<Network>,
    /// Channels in the making that connections wait for, and no call.
    pub(crate) dialling: Vec<Dialling>,
    /// Where to write down what passes the links, if anywhere.
    pub(crate) captures: Option<PathBuf>,
    /// No link sends longer packets, nor asks for any.
    pub(crate) mtu: Option<u32>,
    /// Addresses that no other program at the same interfaces may have meanwhile.
    pub(crate) claims: Vec<Claim>,
    pub(crate) waiting: Waiting,
    pub(crate) pollers: Pollers,
    pub(crate) watch: Arc<Watch>,
    /// Kept for its memory.
    pub(crate) signals: Signals,
    /// Whether frames to ourselves wait.
    to_ourselves: Option<gannet_link::loopback::Waiting>,
    links: Vec<Attached>,
    next_link: u32,
    links_generation: u32,
    /// When to look at dead links again, and how long to wait then.
    burial_due: Instant,
    burial_wait: Duration,
    /// Turns of the event loop so far, and the time of the last.
    pub(crate) turns: u64,
    pub(crate) turned: Instant,
    /// When to ask the kernel again even if nobody sleeps.
    pub(crate) look_due: Instant,
    /// Those who want what is sent to wait for more: see `gather.rs`.
    pub(crate) gathering: u32,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("networks", &self.networks)
            .field("links", &self.links)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Shard {
    pub(crate) fn new(stack: Stack<AnyDriver>, watch: Arc<Watch>) -> Shard {
        Shard {
            stack,
            networks: Vec::new(),
            dialling: Vec::new(),
            captures: None,
            mtu: None,
            claims: Vec::new(),
            waiting: Waiting::default(),
            pollers: Pollers::default(),
            watch,
            signals: Signals::default(),
            to_ourselves: None,
            links: Vec::new(),
            next_link: 0,
            links_generation: 1,
            burial_due: Instant::FAR_FUTURE,
            burial_wait: BURIAL_FIRST,
            turns: 0,
            turned: Instant::ZERO,
            look_due: Instant::ZERO,
            gathering: 0,
        }
    }

    /// Attaches a link; `name` is for people, and for the file of what passes it.
    pub(crate) fn add_link(
        &mut self,
        name: &str,
        mut endpoint: Endpoint<AnyDriver>,
        config: LinkConfig,
    ) -> io::Result<LinkId> {
        if let Some(directory) = &self.captures {
            endpoint = captured(endpoint, directory, name)?;
        }
        let number = self.next_link;
        self.next_link = self.next_link.wrapping_add(1);
        let driver = &endpoint.driver;
        if let Some(fd) = driver.traffic_fd().filter(|_| !driver.tells_all()) {
            self.watch.add(fd, Signal::Traffic(number))?;
        }
        if let Some(fd) = driver.hang_up_fd() {
            self.watch.add(fd, Signal::HangUp(number))?;
        }
        let peer = config.peer;
        let id = self.stack.add_link(endpoint, config);
        self.links.push(Attached {
            number,
            id,
            peer,
            gone: false,
        });
        self.links_generation = self.links_generation.wrapping_add(1);
        // Whoever sleeps armed the other links only.
        self.waiting.kick_leader(&self.watch);
        Ok(id)
    }

    /// Attaches the link that leads back to this host.
    pub(crate) fn add_loopback(&mut self) -> io::Result<LinkId> {
        let endpoint = crate::driver::loopback_endpoint()?;
        self.to_ourselves = Some(endpoint.driver.waiting());
        let own = [
            (IpAddr::V4(Ipv4Addr::LOCALHOST), 8),
            (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
        ];
        let own = own.map(|(address, prefix_len)| LinkAddress {
            address,
            prefix_len,
        });
        let config = LinkConfig {
            addresses: own.into(),
            loopback: true,
            ..LinkConfig::default()
        };
        let endpoint = crate::driver::any(endpoint, AnyDriver::Loop);
        self.add_link("loopback", endpoint, config)
    }

    /// Whether something that this host sent to itself waits to be taken in.
    #[inline]
    pub(crate) fn talks_to_itself(&self) -> bool {
        self.to_ourselves.as_ref().is_some_and(|w| w.any())
    }

    /// Joins a network of processes: our address on it, and others can knock.
    pub(crate) fn add_network(&mut self, network: Network) -> io::Result<LinkId> {
        let index = self.networks.len() as u32;
        let fd = std::os::fd::AsFd::as_fd(network.listener());
        self.watch.add(fd, Signal::Knock(index))?;
        let config = LinkConfig {
            addresses: vec![LinkAddress {
                address: network.own.address,
                prefix_len: network.own.len,
            }],
            peer: None,
            mtu: self.mtu,
            ..LinkConfig::default()
        };
        let name = format!("network-{}", network.name());
        let id = self.add_link(&name, crate::driver::network_endpoint()?, config)?;
        self.networks.push(network);
        Ok(id)
    }

    /// Attaches a finished channel to `peer`.
    pub(crate) fn add_channel(
        &mut self,
        network: usize,
        endpoint: Endpoint<AnyDriver>,
        peer: IpAddr,
    ) -> io::Result<()> {
        let Some(network) = self.networks.get(network) else {
            return Err(fail(
                libc::ENETDOWN,
                format!("reach {peer}"),
                "no such network",
            ));
        };
        let config = LinkConfig {
            addresses: vec![LinkAddress {
                address: network.own.address,
                prefix_len: network.own.len,
            }],
            peer: Some(peer),
            mtu: self.mtu,
            ..LinkConfig::default()
        };
        // A peer that has started anew: the channel to its former life is not worth keeping.
        let name = format!("channel-{}-{}", network.name(), peer);
        self.bury_the_dead();
        self.add_link(&name, endpoint, config).map(drop)
    }

    /// The network of processes that `to` is in, if there is no channel to it yet.
    pub(crate) fn unlinked_network(&self, to: IpAddr) -> Option<usize> {
        let index = self.networks.iter().position(|n| n.own.contains(to))?;
        let own = self
            .networks
            .get(index)
            .is_some_and(|n| n.own.address == to);
        let linked = self.links.iter().any(|l| l.peer == Some(to));
        (!own && !linked).then_some(index)
    }

    /// Acts on what the kernel told.
    pub(crate) fn heed(&mut self, signals: &Signals, now: Instant) {
        for signal in signals.iter() {
            match signal {
                // The leader's, and only the leader takes it back: see `waiting.rs`.
                Signal::Kick => {}
                // So is its doorbell: a bell that has rung once rings no more until the links are
                // armed anew, and the leader, whose eyes are still shut, would never know.
                Signal::Traffic(_) if self.waiting.has_leader() => {}
                Signal::Traffic(number) => self.with_driver(number, |d| d.rung()),
                Signal::HangUp(number) => self.with_driver(number, AnyDriver::hung_up),
                Signal::Knock(network) => self.open_doors(network as usize, now),
                // Looked at below.
                Signal::Dial => {}
                Signal::Beside(poller) => self.wake_poller(poller as usize),
            }
        }
        self.go_on_dialling(now);
        for network in 0..self.networks.len() {
            let due = self
                .networks
                .get(network)
                .and_then(|n| n.listener().next_deadline());
            if due.is_some_and(|due| due <= now) {
                self.open_doors(network, now);
            }
        }
        self.bury_the_dead();
    }

    fn with_driver(&mut self, number: u32, act: impl FnOnce(&mut AnyDriver)) {
        let Some(attached) = self.links.iter().find(|l| l.number == number) else {
            return;
        };
        if let Some(endpoint) = self.stack.link_mut(attached.id) {
            act(&mut endpoint.driver);
        }
    }

    /// From now on, or no longer, watches the descriptors that tell of every frame: see
    /// [`AnyDriver::tells_all`]. A link that is gone has nothing more to tell, and would tell it
    /// for ever. `false`: one of them cannot be watched.
    pub(crate) fn watch_interfaces(&self, on: bool) -> bool {
        let mut all = true;
        for link in self.links.iter().filter(|link| !link.gone) {
            let driver = self.stack.link(link.id).map(|endpoint| &endpoint.driver);
            let driver = driver.filter(|driver| driver.tells_all());
            let Some(fd) = driver.and_then(AnyDriver::traffic_fd) else {
                continue;
            };
            match on {
                true => all &= self.watch.add(fd, Signal::Traffic(link.number)).is_ok(),
                false => self.watch.remove(fd),
            }
        }
        all
    }

    /// Takes in everybody who knocks.
    pub(crate) fn open_doors(&mut self, index: usize, now: Instant) {
        while let Some((end, peer)) = self.networks.get_mut(index).and_then(|n| n.accept(now)) {
            let end = crate::driver::any(end, AnyDriver::Channel);
            // Fails when descriptors run out: the channel closes and the peer tries again.
            let _ = self.add_channel(index, end, peer);
        }
    }

    /// Lets go of links whose other end is gone: at once of their descriptors, and of their memory
    /// when everything that had arrived was read.
    fn bury_the_dead(&mut self) {
        for at in 0..self.links.len() {
            let Some(&Attached { id, gone, .. }) = self.links.get(at) else {
                break;
            };
            let state = self.stack.link(id).map(Endpoint::state);
            if gone || state != Some(LinkState::Gone) {
                continue;
            }
            self.unwatch(id);
            self.links_generation = self.links_generation.wrapping_add(1);
            self.burial_due = Instant::ZERO;
            if let Some(link) = self.links.get_mut(at) {
                (link.gone, link.peer) = (true, None);
            }
            // What it had sent comes first, then the stack sees for itself.
            for _ in 0..LAST_WORDS {
                if !self.stack.poll(self.turned) {
                    break;
                }
            }
            self.tell_ready();
        }
        if self.turned >= self.burial_due {
            self.bury();
        }
    }

    /// Removes dead links that hold nothing any more; looks again later, and ever less often, if
    /// some do.
    fn bury(&mut self) {
        let Shard {
            stack,
            links,
            turned,
            ..
        } = self;
        links.retain(|link| {
            let keep = !link.gone || stack.has_unread(link.id);
            if !keep {
                drop(stack.remove_link(*turned, link.id));
            }
            keep
        });
        if !links.iter().any(|l| l.gone) {
            self.burial_wait = BURIAL_FIRST;
            self.burial_due = Instant::FAR_FUTURE;
            return;
        }
        self.burial_due = *turned + self.burial_wait;
        self.burial_wait = (self.burial_wait * 2).min(BURIAL_LAST);
    }

    /// The stack may keep a dead link for the bytes that wait to be read; the kernel has nothing
    /// more to tell about it.
    fn unwatch(&mut self, id: LinkId) {
        let watch = self.watch.clone();
        if let Some(endpoint) = self.stack.link_mut(id) {
            let fds = [endpoint.driver.traffic_fd(), endpoint.driver.hang_up_fd()];
            for fd in fds.into_iter().flatten() {
                watch.remove(fd);
            }
        }
    }

    /// Whether frames have come in that the next turn will find, as far as that can be told at no
    /// cost.
    pub(crate) fn has_frames(&self) -> bool {
        let mut links = self.links.iter().filter_map(|l| self.stack.link(l.id));
        links.any(|endpoint| endpoint.driver.has_frames())
    }

    /// Whether a link waits for the kernel in a way that no signal will end.
    pub(crate) fn is_blocked(&self) -> bool {
        let mut links = self.links.iter().filter_map(|l| self.stack.link(l.id));
        links.any(|endpoint| endpoint.driver.is_blocked())
    }

    /// When the event loop must turn again at the latest.
    pub(crate) fn next_timeout(&self) -> Instant {
        if self.talks_to_itself() {
            return self.turned;
        }
        let knocking = self
            .networks
            .iter()
            .filter_map(|n| n.listener().next_deadline());
        let dialling = self.dialling.iter().filter_map(Dialling::next_deadline);
        let all = knocking.chain(dialling).chain(self.stack.next_timeout());
        all.chain([self.burial_due])
            .min()
            .unwrap_or(Instant::FAR_FUTURE)
    }

    /// Turns of the event loop so far.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// Changes whenever a link comes or goes.
    pub(crate) fn links_generation(&self) -> u32 {
        self.links_generation
    }

    /// What a call takes for the present. Of calls whose packets leave together it is the time of
    /// the turn that led to them: reading the clock costs as much as all else in a short one.
    #[inline]
    pub(crate) fn time_of_call(&self) -> Instant {
        match self.gathering {
            0 => crate::clock::now(),
            _ => self.turned,
        }
    }

    /// Time of the last turn.
    pub(crate) fn turned(&self) -> Instant {
        self.turned
    }
}
