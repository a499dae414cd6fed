//! The choice of a path, and of its link header.

use core::net::{IpAddr, SocketAddr};

use gannet_base::Instant;
use gannet_link::{Driver, Medium};
use gannet_wire::{EtherType, MacAddr, ethernet};

use super::layer::Ip;
use super::path::{LinkHeader, NoRoute, Path};
use super::route::is_broadcast_of;
use super::v6::routers::Router;
use crate::address::{self, contains, same_family};
use crate::link::{Link, LinkId};
use crate::neighbour::Answer;

/// Whether a path's link header is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// `path.header` is set: send.
    Ready,
    /// The neighbour was asked; [`crate::Stack`] tells when it answers.
    Pending,
    /// The neighbour does not answer: host unreachable.
    Failed,
}

/// A link that leads to the destination.
#[derive(Clone, Copy)]
struct Candidate {
    has_source: bool,
    prefix_len: u8,
    next_hop: IpAddr,
    link: LinkId,
}

impl<D: Driver> Ip<D> {
    /// The way to `destination`, from `source` if that is given.
    ///
    /// The link is the one with the longest matching prefix, among those that have `source` as an
    /// address of their own if there are any (a channel's peer counts as a prefix of 32 bits).
    ///
    /// # Errors
    /// [`NoRoute`] when no link leads there (none ever leads to multicast groups or to 0.0.0.0, and
    /// to our own addresses only one for that), or `source` is not ours.
    pub fn path(&self, source: Option<IpAddr>, destination: IpAddr) -> Result<Path, NoRoute> {
        self.path_in(None, source, destination)
    }

    /// The link that the zone of an address means; `None`: it has none.
    ///
    /// # Errors
    /// [`NoRoute`] when there is no such link.
    #[inline]
    pub(crate) fn zone_of(&self, at: SocketAddr) -> Result<Option<LinkId>, NoRoute> {
        let Some(number) = address::zone(at) else {
            return Ok(None);
        };
        let mut links = self.links.iter().map(|(id, _)| id);
        let meant = links.find(|id| id.zone() == number.get());
        meant.map(Some).ok_or(NoRoute)
    }

    /// As [`Ip::path`], by this link if one is given.
    pub(crate) fn path_in(
        &self,
        zone: Option<LinkId>,
        source: Option<IpAddr>,
        destination: IpAddr,
    ) -> Result<Path, NoRoute> {
        let nowhere = destination.is_unspecified()
            || destination.is_multicast()
            || source.is_some_and(|s| !same_family(s, destination));
        //= https://www.rfc-editor.org/rfc/rfc6724#section-4
        //# Regardless, if the application or upper layer specifies a source address that is not in
        //# the candidate set for the destination, then the network layer MUST treat this as an
        //# error.
        //= https://www.rfc-editor.org/rfc/rfc6724#section-4
        //# If the application or upper layer specifies a source address that is in the candidate
        //# set for the destination, then the network layer MUST respect that choice.
        //= https://www.rfc-editor.org/rfc/rfc791#section-3.3
        //# The internet module must check to see that the source address is one of the legal
        //# address for this host.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
        //# It MUST NOT be used as a source address.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
        //# It MUST NOT be used as a source address.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
        //# It MUST NOT be used as a source address.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
        //# It MUST NOT be used as a source address.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
        //# When a host sends any datagram, the IP source address MUST be one of its own IP
        //# addresses (but not a broadcast or multicast address).
        if nowhere || source.is_some_and(|s| !self.is_local(s)) {
            return Err(NoRoute);
        }
        if destination.is_loopback() || self.is_local(destination) {
            return self.path_to_ourselves(source, destination);
        }
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
        //# Addresses of this form MUST NOT appear outside a host.
        if source.is_some_and(|s| s.is_loopback()) {
            return Err(NoRoute);
        }
        let best = self.best_link(zone, source, destination).ok_or(NoRoute)?;
        let link = self.links.get(best.link).ok_or(NoRoute)?;
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.4.2
        //# (2) An application MUST be able to explicitly specify the source address for initiating
        //# a connection or a request.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.4.2
        //# (3) In the absence of such a specification, the networking software MUST choose a source
        //# address.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.5
        //# An application program MUST be able to specify the IP source address to be used for
        //# sending a UDP datagram or to leave it unspecified (in which case the networking software
        //# will choose an appropriate source address).
        //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.6
        //# When a host sends a UDP datagram, the source address MUST be (one of) the IP address(es)
        //# of the host.
        let own = match source {
            Some(source) => source,
            None => match destination {
                IpAddr::V4(_) => own_address(link, best.next_hop),
                IpAddr::V6(six) => self.six_source(best.link, six).map(IpAddr::V6),
            }
            .ok_or(NoRoute)?,
        };
        let capabilities = link.endpoint.capabilities();
        let header = match capabilities.medium {
            Medium::Ip => Some(LinkHeader::NONE),
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.6
            //# When a host sends a datagram to a link-layer broadcast address, the IP destination
            //# address MUST be a legal IP broadcast or IP multicast address.
            Medium::Ethernet if is_broadcast_on(link, destination) => {
                Some(header(link, MacAddr::BROADCAST, EtherType::IPV4))
            }
            Medium::Ethernet => None,
        };
        let mtu = match destination {
            IpAddr::V4(_) => capabilities.mtu,
            IpAddr::V6(_) => self.six_mtu(best.link, capabilities.mtu),
        };
        Ok(Path {
            link: best.link,
            source: own,
            destination,
            next_hop: best.next_hop,
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.3
            //# A host MUST implement a mechanism to allow the transport layer to learn MMS_S, the
            //# maximum transport-layer message size that may be sent for a given {source,
            //# destination, TOS} triplet (see GET_MAXSIZES call in Section 3.4).
            //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.3
            //# A host that does not implement local fragmentation MUST ensure that the transport
            //# layer (for TCP) or the application layer (for UDP) obtains MMS_S from the IP layer
            //# and does not send a datagram exceeding MMS_S in size.
            mtu: self.mtus.effective(destination, mtu.min(link.mtu_limit)),
            header,
            ttl: match destination {
                IpAddr::V4(_) => Path::TTL,
                IpAddr::V6(_) => self.six.hop_limit,
            },
            flow_label: 0,
            tos: 0,
            may_be_cut: false,
        })
    }

    /// The way to one of our own addresses: never over a wire.
    fn path_to_ourselves(
        &self,
        source: Option<IpAddr>,
        destination: IpAddr,
    ) -> Result<Path, NoRoute> {
        let id = self.loopback().ok_or(NoRoute)?;
        let link = self.links.get(id).ok_or(NoRoute)?;
        let source = match source {
            Some(source) => source,
            None if destination.is_loopback() => own_address(link, destination).ok_or(NoRoute)?,
            None => destination,
        };
        if !address::same_family(source, destination) {
            return Err(NoRoute);
        }
        Ok(Path {
            link: id,
            source,
            destination,
            next_hop: destination,
            mtu: link.endpoint.capabilities().mtu,
            header: Some(LinkHeader::NONE),
            ttl: Path::TTL,
            flow_label: 0,
            tos: 0,
            may_be_cut: false,
        })
    }

    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.1
    //# To decide if the destination is on a connected network, the following algorithm MUST be used
    //# [see IP:3]:
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.1
    //# The host IP layer MUST operate correctly in a minimal network environment, and in
    //# particular, when there are no gateways.
    fn best_link(
        &self,
        zone: Option<LinkId>,
        source: Option<IpAddr>,
        destination: IpAddr,
    ) -> Option<Candidate> {
        let has = |link: &Link<D>| {
            let mut own = link.config.addresses.iter();
            source.is_none_or(|s| own.any(|a| a.address == s))
        };
        let usable = |l: &Link<D>| !l.gone && !l.config.loopback;
        let connected = self.links.iter().filter(|(_, l)| usable(l));
        let connected = connected.filter_map(|(id, link)| {
            Some(Candidate {
                has_source: has(link),
                prefix_len: connected_prefix(link, destination)?,
                next_hop: destination,
                link: id,
            })
        });
        let routed = self.routes.to(destination).filter_map(|route| {
            let link = self.links.get(route.link).filter(|l| !l.gone)?;
            Some(Candidate {
                has_source: has(link),
                prefix_len: route.prefix_len,
                next_hop: route.gateway.unwrap_or(destination),
                link: route.link,
            })
        });
        let advertised = self.advertised_ways(destination).map(|way| Candidate {
            has_source: self.links.get(way.link).is_some_and(has),
            ..way
        });
        // A link that has the wanted source, then the longer prefix, then the first of equals:
        // links in the order they were added, before routes.
        connected
            .chain(routed)
            .chain(advertised)
            .filter(|c| zone.is_none_or(|zone| zone == c.link))
            .reduce(|best, other| {
                let rank = |c: &Candidate| (c.has_source, c.prefix_len);
                if rank(&other) > rank(&best) {
                    other
                } else {
                    best
                }
            })
    }

    /// Finds the link header for `path`, asking the neighbour if need be.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-2.4
    //# The link layer MUST NOT report a Destination Unreachable error to IP solely because there is
    //# no ARP cache entry for a destination.
    pub fn resolve(&mut self, now: Instant, path: &mut Path) -> Resolution {
        if path.header.is_some() {
            return Resolution::Ready;
        }
        let Some(link) = self.links.get(path.link) else {
            return Resolution::Failed;
        };
        let capabilities = link.endpoint.capabilities();
        if capabilities.medium == Medium::Ip {
            path.header = Some(LinkHeader::NONE);
            return Resolution::Ready;
        }
        let (answer, ethertype) = match path.next_hop {
            IpAddr::V4(next_hop) => {
                let (answer, ask) = self.neighbours.lookup(now, path.link, next_hop);
                if let Some(ask) = ask {
                    self.ask(ask);
                }
                (answer, EtherType::IPV4)
            }
            IpAddr::V6(next_hop) => {
                let (answer, ask) = self.six.discovery.lookup(now, path.link, next_hop);
                if let Some(ask) = ask {
                    self.solicit(ask);
                }
                (answer, EtherType::IPV6)
            }
        };
        match answer {
            Answer::Ready(mac) => {
                let link = self.links.get(path.link);
                path.header = link.map(|link| header(link, mac, ethertype));
                Resolution::Ready
            }
            Answer::Pending => Resolution::Pending,
            Answer::Failed => Resolution::Failed,
        }
    }
}

impl<D: Driver> Ip<D> {
    /// Ways to `destination` that routers advertised: networks on a link, and the routers
    /// themselves, of which those that seem to answer come first.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.6
    //# 1) Routers that are reachable or probably reachable (i.e., in any
    //# state other than INCOMPLETE) SHOULD be preferred over routers
    //# whose reachability is unknown or suspect
    fn advertised_ways(&self, destination: IpAddr) -> impl Iterator<Item = Candidate> {
        let six = destination.is_ipv6();
        let networks = self.six.routers.on_link(destination);
        let networks = networks.map(move |(link, prefix_len)| Candidate {
            has_source: false,
            prefix_len,
            next_hop: destination,
            link,
        });
        let routers = self.six.routers.routers().iter().filter(move |_| six);
        let answers = |r: &&Router| self.six_reachable(r.link, r.address.into());
        let best = routers.clone().find(answers).or(routers.clone().next());
        let routers = best.map(|r| Candidate {
            has_source: false,
            prefix_len: 0,
            next_hop: r.address.into(),
            link: r.link,
        });
        networks.chain(routers)
    }

    /// The MTU of a link for IPv6, which routers may lower.
    pub(super) fn six_mtu(&self, link: LinkId, mtu: u32) -> u32 {
        let told = self.six.soliciting.iter().find(|s| s.link == link);
        told.map_or(mtu, |s| mtu.min(s.mtu))
    }
}

/// The link header for a station on `link`; none on links without.
//= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.3
//# MUST be able to send and receive packets using RFC-894 encapsulation;
//= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.3
//# Address translation from Internet addresses to link-layer addresses on Ethernet and IEEE 802
//# networks MUST be managed by the Address Resolution Protocol (ARP).
pub(crate) fn header<D: Driver>(link: &Link<D>, to: MacAddr, ethertype: EtherType) -> LinkHeader {
    let capabilities = link.endpoint.capabilities();
    if capabilities.medium == Medium::Ip {
        return LinkHeader::NONE;
    }
    let header = ethernet::Header {
        dst: to,
        src: MacAddr(capabilities.hardware_address),
        ethertype,
    };
    LinkHeader::ethernet(&header, link.config.vlan)
}

/// The prefix by which `destination` is at the other end of `link`, without any route.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//# A host MUST support the subnet extensions to IP [IP:3].
fn connected_prefix<D>(link: &Link<D>, destination: IpAddr) -> Option<u8> {
    if let Some(peer) = link.config.peer {
        return (peer == destination).then_some(address::bits(peer));
    }
    let own = link.config.addresses.iter();
    let within = own.filter(|a| {
        address::is_broadcast(destination) || contains(a.address, a.prefix_len, destination)
    });
    within.map(|a| a.prefix_len).max()
}

/// Whether `destination` means every host on `link`.
pub(super) fn is_broadcast_on<D>(link: &Link<D>, destination: IpAddr) -> bool {
    if link.config.loopback {
        return false;
    }
    let mut own = link.config.addresses.iter();
    address::is_broadcast(destination) || own.any(|a| is_broadcast_of(a, destination))
}

/// Our address on `link` that is in one network with `next_hop`, else the first.
fn own_address<D>(link: &Link<D>, next_hop: IpAddr) -> Option<IpAddr> {
    let own = &link.config.addresses;
    let mut own = own.iter().filter(|a| same_family(a.address, next_hop));
    let first = own.clone().next();
    let near = own.find(|a| contains(a.address, a.prefix_len, next_hop));
    near.or(first).map(|a| a.address)
}
