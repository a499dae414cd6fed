//! Multicast groups of the links: who wants them, and the ways to them. What is told about them is
//! `igmp.rs`'s and `v6/mld.rs`'s.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use gannet_base::{Instant, Rng};
use gannet_link::Driver;
use gannet_wire::{EtherType, MacAddr};

use super::layer::Ip;
use super::path::{LinkHeader, Path};
use super::select::header;
use super::v6::solicit::group_station;
use crate::link::{Link, LinkId};
use crate::multicast::{Full, Membership};

/// Which link is meant for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// That which has the address; unspecified: the one that a default route or, without one, the
    /// first address of the group's family is on.
    Address(IpAddr),
    /// This one.
    Link(LinkId),
}

impl From<IpAddr> for Interface {
    fn from(address: IpAddr) -> Self {
        Interface::Address(address)
    }
}

impl From<LinkId> for Interface {
    fn from(link: LinkId) -> Self {
        Interface::Link(link)
    }
}

/// The groups of one family, of every link that has any.
#[derive(Debug)]
pub(super) struct Groups<A> {
    links: Vec<(LinkId, Membership<A>)>,
    rng: Rng,
}

impl<A: Copy + Eq> Groups<A> {
    /// No link has any.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(super) fn new(seed: u64) -> Self {
        Groups {
            links: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    /// Those of a link.
    pub(super) fn of(&mut self, link: LinkId) -> Option<&mut Membership<A>> {
        let mut links = self.links.iter_mut();
        links.find(|(id, _)| *id == link).map(|(_, m)| m)
    }

    /// Those at `index` of the list, and their link.
    pub(super) fn at(&mut self, index: usize) -> Option<(LinkId, &mut Membership<A>)> {
        self.links.get_mut(index).map(|(id, m)| (*id, m))
    }

    /// Whether what is sent to the group by a link is wanted; `None`: by any.
    fn is_member(&self, link: Option<LinkId>, group: A) -> bool {
        let meant = |id| link.is_none_or(|link| link == id);
        let mut links = self.links.iter().filter(|(id, _)| meant(*id));
        links.any(|(_, m)| m.is_member(group))
    }

    /// Those of a link, which may have had none.
    fn open(&mut self, link: LinkId) -> Option<&mut Membership<A>> {
        if self.of(link).is_none() {
            let membership = Membership::new(self.rng.next_u64());
            self.links.push((link, membership));
        }
        self.of(link)
    }

    fn join(&mut self, link: LinkId, group: A, source: Option<A>) -> Result<(), Full> {
        let membership = self.open(link).ok_or(Full)?;
        match source {
            None => membership.join(group),
            Some(source) => membership.join_source(group, source),
        }
    }

    fn leave(&mut self, link: LinkId, group: A, source: Option<A>) {
        match (self.of(link), source) {
            (None, _) => {}
            (Some(membership), None) => membership.leave(group),
            (Some(membership), Some(source)) => membership.leave_source(group, source),
        }
    }

    pub(super) fn forget(&mut self, link: LinkId) {
        self.links.retain(|(id, _)| *id != link);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.links.iter().filter_map(|(_, m)| m.due()).min()
    }
}

impl<D: Driver> Ip<D> {
    /// Whether what is sent to `group` by `link` is wanted. What we sent ourselves comes by the
    /// loopback, and may be wanted on any link.
    pub(crate) fn wants_group(&self, link: LinkId, group: IpAddr) -> bool {
        let link = Some(link).filter(|link| !self.is_loopback(*link));
        match group {
            IpAddr::V4(four) => self.groups.is_member(link, four),
            IpAddr::V6(six) => self.groups_six.is_member(link, six),
        }
    }

    /// Whether a link leads back to this host.
    pub(crate) fn is_loopback(&self, link: LinkId) -> bool {
        self.links.get(link).is_some_and(|l| l.config.loopback)
    }

    /// One socket more wants what is sent to `group` by `link`; told at the next poll.
    pub(crate) fn join_group(&mut self, link: LinkId, group: IpAddr) -> Result<(), Full> {
        match group {
            IpAddr::V4(four) => self.groups.join(link, four, None),
            IpAddr::V6(six) => self.groups_six.join(link, six, None),
        }
    }

    /// One socket less wants it.
    pub(crate) fn leave_group(&mut self, link: LinkId, group: IpAddr) {
        match group {
            IpAddr::V4(four) => self.groups.leave(link, four, None),
            IpAddr::V6(six) => self.groups_six.leave(link, six, None),
        }
    }

    /// One socket more wants what `source`, of the same family, sends to `group`.
    pub(crate) fn join_source(
        &mut self,
        link: LinkId,
        group: IpAddr,
        source: IpAddr,
    ) -> Result<(), Full> {
        match (group, source) {
            (IpAddr::V4(four), IpAddr::V4(source)) => self.groups.join(link, four, Some(source)),
            (IpAddr::V6(six), IpAddr::V6(source)) => self.groups_six.join(link, six, Some(source)),
            _ => Err(Full),
        }
    }

    /// One socket less wants it.
    pub(crate) fn leave_source(&mut self, link: LinkId, group: IpAddr, source: IpAddr) {
        match (group, source) {
            (IpAddr::V4(four), IpAddr::V4(source)) => self.groups.leave(link, four, Some(source)),
            (IpAddr::V6(six), IpAddr::V6(source)) => self.groups_six.leave(link, six, Some(source)),
            _ => {}
        }
    }

    /// The link that an application means for `group`.
    pub(crate) fn group_link(&self, group: IpAddr, interface: Interface) -> Option<LinkId> {
        let usable = |id: LinkId, l: &Link<D>| {
            let own = &l.config;
            let speaks = match group {
                IpAddr::V4(_) => own.addresses.iter().any(|a| a.address.is_ipv4()),
                IpAddr::V6(_) => self.speaks_six(id),
            };
            !l.gone && !own.loopback && own.peer.is_none() && speaks
        };
        let mut links = self.links.iter().filter(|(id, l)| usable(*id, l));
        match interface {
            Interface::Link(link) => links.find(|(id, _)| *id == link).map(|(id, _)| id),
            Interface::Address(address) if address.is_unspecified() => {
                let outside = match group {
                    IpAddr::V4(_) => address,
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let routed = self.routes.to(outside).map(|route| route.link);
                let routers = self.six.routers.routers().iter().map(|r| r.link);
                let mut routed = routed.chain(routers.filter(|_| group.is_ipv6()));
                let is_usable = |id: &LinkId| self.links.get(*id).is_some_and(|l| usable(*id, l));
                let routed = routed.find(is_usable);
                routed.or_else(|| links.next().map(|(id, _)| id))
            }
            Interface::Address(address) => {
                let has = |l: &Link<D>| l.config.addresses.iter().any(|a| a.address == address);
                links.find(|(_, l)| has(l)).map(|(id, _)| id)
            }
        }
    }

    /// The way to a group by `link`.
    pub(crate) fn group_path(&self, link: LinkId, group: IpAddr, ttl: u8) -> Option<Path> {
        let source = match group {
            IpAddr::V4(_) => self.group_source(link).into(),
            IpAddr::V6(six) => self.six_source(link, six)?.into(),
        };
        self.group_path_from((link, source), group, ttl)
    }

    /// As [`Ip::group_path`], from a source that may be nobody's.
    pub(super) fn group_path_from(
        &self,
        (link, source): (LinkId, IpAddr),
        group: IpAddr,
        ttl: u8,
    ) -> Option<Path> {
        let entry = self.links.get(link).filter(|l| !l.gone)?;
        let capabilities = entry.endpoint.capabilities();
        let mtu = capabilities.mtu.min(entry.mtu_limit);
        let (station, ethertype, mtu) = match group {
            IpAddr::V4(four) => (MacAddr::of_group_v4(four), EtherType::IPV4, mtu),
            IpAddr::V6(six) => (group_station(six), EtherType::IPV6, self.six_mtu(link, mtu)),
        };
        let header = header(entry, station, ethertype);
        Some(Path {
            link,
            source,
            destination: group,
            next_hop: group,
            mtu,
            header: Some(header),
            ttl,
            tos: 0,
            may_be_cut: true,
            flow_label: 0,
        })
    }

    /// The way by which what leaves along `path` to a group comes to our own sockets, too; `None`
    /// when none of them wants it.
    pub(crate) fn group_path_back(&self, path: &Path) -> Option<Path> {
        if !self.wants_group(path.link, path.destination) {
            return None;
        }
        let link = self.loopback()?;
        let mtu = self.links.get(link)?.endpoint.capabilities().mtu;
        Some(Path {
            link,
            mtu,
            header: Some(LinkHeader::NONE),
            ..*path
        })
    }
}
