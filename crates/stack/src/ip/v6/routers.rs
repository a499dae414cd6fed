//! Default routers and networks on the link, as advertised (RFC 4861 sections 5.1 and 6.3).
//! Bounded: who advertises more is not believed.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use gannet_base::Instant;

use crate::address::contains;
use crate::link::LinkId;

/// Most default routers.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
//# However, a host MUST retain at least two router addresses and SHOULD retain more.
const ROUTERS_MAX: usize = 8;
/// Most networks on links.
const NETWORKS_MAX: usize = 32;
/// RFC 4861 section 10: MAX_RTR_SOLICITATIONS.
const SOLICITATIONS: u8 = 3;
/// RFC 4861 section 10: RTR_SOLICITATION_INTERVAL.
const INTERVAL: Duration = Duration::from_secs(4);

/// A default router.
#[derive(Clone, Copy, Debug)]
pub(in crate::ip) struct Router {
    pub(in crate::ip) link: LinkId,
    pub(in crate::ip) address: Ipv6Addr,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Network {
    link: LinkId,
    prefix: Ipv6Addr,
    len: u8,
    until: Instant,
}

/// The tables.
#[derive(Debug)]
pub(in crate::ip) struct Routers {
    routers: Vec<Router>,
    networks: Vec<Network>,
}

/// A link on which routers are asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::ip) struct Soliciting {
    pub(in crate::ip) link: LinkId,
    sent: u8,
    next: Instant,
    /// The MTU that a router told; at first the largest.
    pub(in crate::ip) mtu: u32,
}

impl Routers {
    /// Neither routers nor networks are known.
    #[inline]
    pub(in crate::ip) fn is_empty(&self) -> bool {
        self.routers.is_empty() && self.networks.is_empty()
    }

    pub(super) const fn new() -> Self {
        Routers {
            routers: Vec::new(),
            networks: Vec::new(),
        }
    }

    /// A router advertised itself until then; `now` or earlier: it is a router no more. Whether it
    /// was believed.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
    //# If the address is already present in the host's Default Router List as a result of a
    //# previously received advertisement, reset its invalidation timer to the Router Lifetime value
    //# in the newly received advertisement.
    pub(super) fn set_router(
        &mut self,
        now: Instant,
        (link, address): (LinkId, Ipv6Addr),
        until: Instant,
    ) -> bool {
        let same = |r: &Router| r.link == link && r.address == address;
        if until <= now {
            self.routers.retain(|r| !same(r));
            return true;
        }
        if let Some(router) = self.routers.iter_mut().find(|r| same(r)) {
            router.until = until;
            return true;
        }
        let room = self.routers.len() < ROUTERS_MAX;
        if room {
            self.routers.push(Router {
                link,
                address,
                until,
            });
        }
        room
    }

    /// A router says that it is none any more; whether it was one of ours.
    pub(super) fn remove_router(&mut self, link: LinkId, address: Ipv6Addr) -> bool {
        let before = self.routers.len();
        self.routers
            .retain(|r| r.link != link || r.address != address);
        self.routers.len() < before
    }

    /// A network is on the link until then. Whether that was believed.
    pub(super) fn set_network(
        &mut self,
        now: Instant,
        link: LinkId,
        (prefix, len): (Ipv6Addr, u8),
        until: Instant,
    ) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.2
        //# The bits in the prefix after the prefix length are reserved and MUST be initialized to
        //# zero by the sender and ignored by the receiver.
        let same = |n: &Network| {
            n.link == link && n.len == len && contains(n.prefix.into(), len, prefix.into())
        };
        if until <= now {
            self.networks.retain(|n| !same(n));
            return true;
        }
        if let Some(network) = self.networks.iter_mut().find(|n| same(n)) {
            network.until = until;
            return true;
        }
        let room = self.networks.len() < NETWORKS_MAX;
        if room {
            self.networks.push(Network {
                link,
                prefix,
                len,
                until,
            });
        }
        room
    }

    /// Links that `destination` is on, with the length of the prefix that says so.
    pub(in crate::ip) fn on_link(
        &self,
        destination: IpAddr,
    ) -> impl Iterator<Item = (LinkId, u8)> + '_ {
        let networks = self.networks.iter();
        networks
            .filter(move |n| contains(n.prefix.into(), n.len, destination))
            .map(|n| (n.link, n.len))
    }

    /// Every default router.
    pub(in crate::ip) fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// Number of networks.
    #[cfg(test)]
    pub(super) fn networks(&self) -> usize {
        self.networks.len()
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let routers = self.routers.iter().map(|r| r.until);
        routers.chain(self.networks.iter().map(|n| n.until)).min()
    }

    /// Forgets what is over; whether anything was.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let before = (self.routers.len(), self.networks.len());
        self.routers.retain(|r| now < r.until);
        self.networks.retain(|n| now < n.until);
        before != (self.routers.len(), self.networks.len())
    }

    pub(super) fn forget(&mut self, link: LinkId) {
        self.routers.retain(|r| r.link != link);
        self.networks.retain(|n| n.link != link);
    }
}

impl Soliciting {
    pub(super) const fn new(link: LinkId) -> Self {
        Soliciting {
            link,
            sent: 0,
            next: Instant::ZERO,
            mtu: u32::MAX,
        }
    }

    /// When to ask again.
    pub(super) fn deadline(&self) -> Instant {
        self.next
    }

    /// Whether to ask now.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.7
    //# To obtain Router Advertisements quickly, a host SHOULD transmit up to
    //# MAX_RTR_SOLICITATIONS Router Solicitation messages, each separated by at least
    //# RTR_SOLICITATION_INTERVAL seconds.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        let asks = self.sent < SOLICITATIONS;
        self.sent = self.sent.saturating_add(1);
        self.next = match asks {
            true => now + INTERVAL,
            false => Instant::FAR_FUTURE,
        };
        asks
    }

    /// A router answered.
    pub(super) fn answered(&mut self) {
        self.next = Instant::FAR_FUTURE;
    }
}
