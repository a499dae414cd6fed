//! Neighbour and router discovery received (RFC 4861 sections 6.1, 7.1 and 8.1, RFC 4862).

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Driver, Frame, RxChecksum};
use gannet_wire::nd::{self, Message, NdOption, Options, Prefix};
use gannet_wire::{EtherType, IpProtocol, MacAddr, ipv6};

use super::super::layer::Ip;
use super::super::output::Packet;
use super::super::select;
use super::autoconf::until;
use crate::address;
use crate::counters::DropReason;
use crate::link::LinkId;
use crate::neighbour::Advertised;

/// Longest message that is read. What an Ethernet carries is shorter.
const MESSAGE_MAX: usize = 1500;
/// What a router may set, so that nobody makes us ask all the time, or never (RFC 4861 section
/// 6.2.1 has an upper end for the first).
const REACHABLE: core::ops::RangeInclusive<u32> = 1_000..=3_600_000;
const RETRANS: core::ops::RangeInclusive<u32> = 100..=60_000;

impl<D: Driver> Ip<D> {
    /// A message of neighbour discovery arrives; `frame` is what is behind the headers, and stays
    /// the caller's. `limits`: its hop limit, and whether it came in one piece.
    pub(super) fn discovery_arrives(
        &mut self,
        now: Instant,
        packet: &Packet,
        (hop_limit, whole): (u8, bool),
        frame: &Frame,
    ) -> Result<(), DropReason> {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination)
        else {
            return Err(DropReason::DiscoveryMalformed);
        };
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
        //# - The IP Hop Limit field has a value of 255, i.e., the packet
        //# could not possibly have been forwarded by a router.
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.1
        //# A node MUST silently discard any Neighbor Solicitation or Advertisement message that
        //# does not pass the validity checks specified in [RFC4861].
        if hop_limit != nd::HOP_LIMIT {
            return Err(DropReason::DiscoveryHopLimit);
        }
        //= https://www.rfc-editor.org/rfc/rfc6980#section-5
        //# Nodes MUST silently ignore the following Neighbor Discovery and
        //# SEcure Neighbor Discovery messages if the packets carrying them
        //# include an IPv6 Fragmentation Header:
        if !whole {
            return Err(DropReason::DiscoveryFragment);
        }
        if frame.checksum() == RxChecksum::Unknown {
            let len = frame.len() as u32;
            let (from, to) = (packet.source, packet.destination);
            let pseudo = address::pseudo(from, to, IpProtocol::ICMPV6, len);
            let sum = self.frame_sum(packet.link, frame).combine(pseudo, false);
            if sum.finish() != 0 {
                return Err(DropReason::IcmpMalformed);
            }
        }
        let mut buffer = [0; MESSAGE_MAX];
        let endpoint = self.endpoint(packet.link);
        let read = endpoint.map_or(0, |e| e.peek(frame, &mut buffer));
        if read < frame.len() {
            return Err(DropReason::DiscoveryMalformed);
        }
        let bytes = buffer.get(..read).unwrap_or(&[]);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
        //# - All included options have a length that is greater than zero.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
        //# A node MUST silently discard any received Neighbor Solicitation messages that do not
        //# satisfy all of the following validity checks:
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.2
        //# A node MUST silently discard any received Neighbor Advertisement messages that do not
        //# satisfy all of the following validity checks:
        let parsed = Message::parse(bytes).map_err(|_| DropReason::DiscoveryMalformed)?;
        let ends = (packet.link, source, destination);
        self.discovered(now, ends, parsed)
    }

    fn discovered(
        &mut self,
        now: Instant,
        ends: (LinkId, Ipv6Addr, Ipv6Addr),
        (message, options): (Message, Options<'_>),
    ) -> Result<(), DropReason> {
        match message {
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.2
            //# The Prefix Information option appears in Router Advertisement packets and MUST be
            //# silently ignored for other messages.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.3
            //# This option MUST be silently ignored for other Neighbor Discovery messages.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.4
            //# This option MUST be silently ignored for other Neighbor Discovery messages.
            Message::NeighbourSolicitation { target } => {
                //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.1
                //# These options MUST be silently ignored for other Neighbor Discovery messages.
                let mac = options.source_link_address();
                self.solicited(now, ends, target, mac)
            }
            Message::NeighbourAdvertisement {
                router,
                solicited,
                overriding,
                target,
            } => {
                let told = Advertised {
                    mac: options.target_link_address(),
                    router,
                    solicited,
                    overriding,
                };
                self.advertised(now, ends, target, &told)
            }
            Message::RouterAdvertisement { .. } => {
                self.router_advertised(now, ends, &message, options)
            }
            //= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.1
            //# Hosts MUST silently discard any received Router Solicitation Messages.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.6
            //# A host MUST silently discard any received Router Solicitation messages.
            Message::RouterSolicitation => Err(DropReason::DiscoveryIgnored),
            // (RFC 4861 section 8.3: a host SHOULD obey, but need not)
            Message::Redirect { .. } => Err(DropReason::Redirect),
        }
    }

    /// RFC 4861 section 7.2.3, RFC 4862 section 5.4.3.
    fn solicited(
        &mut self,
        now: Instant,
        (link, source, destination): (LinkId, Ipv6Addr, Ipv6Addr),
        target: Ipv6Addr,
        mac: Option<MacAddr>,
    ) -> Result<(), DropReason> {
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
        //# - If the IP source address is the unspecified address, the IP
        //# destination address is a solicited-node multicast address.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
        //# - If the IP source address is the unspecified address, there is no
        //# source link-layer address option in the message.
        let probe = source.is_unspecified();
        if probe && (mac.is_some() || destination != nd::solicited_node(target)) {
            return Err(DropReason::DiscoveryBadSender);
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.3
        //# A valid Neighbor Solicitation that does not meet any of the following requirements MUST
        //# be silently discarded:
        let Some(own) = self.own_mut(link, target).copied() else {
            return Err(DropReason::DiscoveryIgnored);
        };
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.3
        //# In all cases, a node MUST NOT respond to a Neighbor Solicitation for a tentative
        //# address.
        if own.is_tentative() {
            //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.3
            //# If the source address of the Neighbor Solicitation is the unspecified
            //# address, the solicitation is from a node performing Duplicate Address
            //# Detection.
            if probe {
                self.is_duplicate(link, target);
            }
            return Ok(());
        }
        let ours = self.hardware_address(link);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.3
        //# If the Source Address is the unspecified address, the node MUST NOT create or update the
        //# Neighbor Cache entry.
        let learnt = mac.filter(|mac| mac.is_unicast() && Some(*mac) != ours && !probe);
        if let Some(mac) = learnt
            && self
                .six
                .discovery
                .heard_from(now, link, (source, mac), false)
        {
            self.send_to_found(link, source, mac);
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.4
        //# If the source of the solicitation is the unspecified address, the
        //# node MUST set the Solicited flag to zero and multicast the
        //# advertisement to the all-nodes address.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.4
        //# Otherwise, the node MUST set the Solicited flag to one and unicast the advertisement to
        //# the Source Address of the solicitation.
        let (to, station) = match probe {
            true => (nd::ALL_NODES, None),
            false => (
                source,
                learnt.or_else(|| self.known_station(now, link, source)),
            ),
        };
        if !probe && station.is_none() {
            // whoever asked comes again, and is asked meanwhile
            return Ok(());
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
        //# It MUST NOT be set in multicast advertisements or in unsolicited unicast advertisements.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
        //# This option MUST be included on link layers that have addresses when responding to
        //# multicast solicitations.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
        //# The option MUST be included for multicast solicitations in order to avoid infinite
        //# Neighbor Solicitation "recursion" when the peer node does not have a cache entry to
        //# return a Neighbor Advertisements message.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.4
        //# If the solicitation's IP Destination Address is a multicast address, the Target
        //# Link-Layer option MUST be included in the advertisement.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.4
        //# Furthermore, if the node is a router, it MUST set the Router flag to one; otherwise, it
        //# MUST set the flag to zero.
        let message = Message::NeighbourAdvertisement {
            router: false,
            solicited: !probe,
            overriding: true,
            target,
        };
        let tell = NdOption::TargetLinkAddress as fn(MacAddr) -> NdOption<'static>;
        self.send_discovery(link, (target, to), station, &message, Some(tell));
        Ok(())
    }

    /// RFC 4861 section 7.2.5, RFC 4862 section 5.4.4.
    fn advertised(
        &mut self,
        now: Instant,
        (link, _, destination): (LinkId, Ipv6Addr, Ipv6Addr),
        target: Ipv6Addr,
        told: &Advertised,
    ) -> Result<(), DropReason> {
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.2
        //# - If the IP Destination Address is a multicast address the
        //# Solicited flag is zero.
        if destination.is_multicast() && told.solicited {
            return Err(DropReason::DiscoveryBadSender);
        }
        if told.mac.is_some_and(|mac| !mac.is_unicast()) {
            return Err(DropReason::DiscoveryBadSender);
        }
        match self.own_mut(link, target).map(|own| own.is_tentative()) {
            Some(true) => {
                self.is_duplicate(link, target);
                return Ok(());
            }
            // Another station believes that it has our address: counted; we keep it.
            Some(false) => return Err(DropReason::DuplicateAddress),
            None => {}
        }
        if self.six.discovery.advertised(now, link, target, told)
            && let Some(mac) = told.mac
        {
            self.send_to_found(link, target, mac);
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
        //# In those cases where the IsRouter flag changes from TRUE to FALSE as a result of this
        //# update, the node MUST remove that router from the Default Router List and update the
        //# Destination Cache entries for all destinations using that neighbor as a router as
        //# specified in Section 7.3.3.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
        //# To properly detect the case where a router switches from being a router to being a host
        //# (e.g., if its IP forwarding capability is turned off by system management), a node MUST
        //# compare the Router flag field in all received Neighbor Advertisement messages with the
        //# IsRouter flag recorded in the Neighbor Cache entry.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
        //# When a node detects that a neighbor has changed from being a router to being a host, the
        //# node MUST remove that router from the Default Router List and update the Destination
        //# Cache as described in Section 6.3.5.
        if self.six.discovery.is_no_router(link, target)
            && self.six.routers.remove_router(link, target)
        {
            self.epoch = self.epoch.wrapping_add(1);
        }
        Ok(())
    }

    /// RFC 4861 section 6.3.4.
    fn router_advertised(
        &mut self,
        now: Instant,
        (link, source, _): (LinkId, Ipv6Addr, Ipv6Addr),
        message: &Message,
        options: Options<'_>,
    ) -> Result<(), DropReason> {
        let Message::RouterAdvertisement {
            hop_limit,
            router_lifetime,
            reachable_time,
            retrans_timer,
            ..
        } = *message
        else {
            return Ok(());
        };
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.2
        //# - IP Source Address is a link-local address.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.2
        //# A node MUST silently discard any received Router Advertisement messages that do not
        //# satisfy all of the following validity checks:
        if !source.is_unicast_link_local() {
            return Err(DropReason::DiscoveryBadSender);
        }
        let Some(asking) = self.six.soliciting.iter_mut().find(|s| s.link == link) else {
            // nobody wanted autoconfiguration here
            return Err(DropReason::DiscoveryIgnored);
        };
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.7
        //# Once the host sends a Router Solicitation, and receives a valid Router Advertisement
        //# with a non-zero Router Lifetime, the host MUST desist from sending additional
        //# solicitations on that interface, until the next time one of the above events occurs.
        asking.answered();
        self.epoch = self.epoch.wrapping_add(1);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
        //# Hosts accept the union of all received information; the receipt of a Router
        //# Advertisement MUST NOT invalidate all information received in a previous advertisement
        //# or from another source.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
        //# In particular, a host MUST NOT interpret the unspecified value as meaning change back to
        //# the default value that was in use before the first Router Advertisement was received.
        if hop_limit != 0 {
            self.six.hop_limit = hop_limit;
        }
        let times = &mut self.six.discovery.times;
        if REACHABLE.contains(&reachable_time) {
            times.reachable = Duration::from_millis(u64::from(reachable_time));
        }
        if RETRANS.contains(&retrans_timer) {
            times.retrans = Duration::from_millis(u64::from(retrans_timer));
        }
        let lifetime = now + Duration::from_secs(u64::from(router_lifetime));
        let mut believed = self.six.routers.set_router(now, (link, source), lifetime);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-9
        //# Thus, a receiver MUST NOT associate any action with the absence of an option in a
        //# particular packet.
        if let Some(mac) = options.source_link_address().filter(|mac| mac.is_unicast())
            && self
                .six
                .discovery
                .heard_from(now, link, (source, mac), true)
        {
            self.send_to_found(link, source, mac);
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
        //# If the advertisement contains a Source Link-Layer Address option, the link-layer address
        //# SHOULD be recorded in the Neighbor Cache entry for the router (creating an entry if
        //# necessary) and the IsRouter flag in the Neighbor Cache entry MUST be set to TRUE.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
        //# If no Source Link-Layer Address is included, but a corresponding Neighbor Cache entry
        //# exists, its IsRouter flag MUST be set to TRUE.
        self.six.discovery.mark_router(link, source);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-9
        //# All options specified in this document MUST be recognized.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-9
        //# Options in Neighbor Discovery packets can appear in any order; receivers MUST be
        //# prepared to process them independently of their order.
        for option in options {
            match option {
                NdOption::Prefix(prefix) => believed &= self.prefix_advertised(now, link, &prefix),
                NdOption::Mtu(mtu) => self.mtu_advertised(link, mtu),
                //= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.2
                //# The contents of any defined options that are not specified to be used with
                //# Router Advertisement messages MUST be ignored and the packet processed as
                //# normal.
                //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
                //# The contents of any defined options that are not specified to be used with
                //# Neighbor Solicitation messages MUST be ignored and the packet processed as
                //# normal.
                //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.2
                //# The contents of any defined options that are not specified to be used with
                //# Neighbor Advertisement messages MUST be ignored and the packet processed as
                //# normal.
                _ => {}
            }
        }
        match believed {
            true => Ok(()),
            false => Err(DropReason::DiscoveryTableFull),
        }
    }

    /// Whether all that it says was believed.
    fn prefix_advertised(&mut self, now: Instant, link: LinkId, offer: &Prefix) -> bool {
        let mut believed = true;
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
        //# - If the prefix is the link-local prefix, silently ignore the
        //# Prefix Information option.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.2
        //# In other words, if the L flag is not set a host MUST NOT conclude that an address
        //# derived from the prefix is off-link.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.2
        //# That is, it MUST NOT update a previous indication that the address is on-link.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
        //# Note, however, that a Prefix Information option with the on-link flag set to zero
        //# conveys no information concerning on-link determination and MUST NOT be interpreted to
        //# mean that addresses covered by the prefix are off-link.
        if offer.on_link && !offer.prefix.is_unicast_link_local() && !offer.prefix.is_multicast() {
            let until = until(now, offer.valid_lifetime);
            let network = (offer.prefix, offer.len);
            believed = self.six.routers.set_network(now, link, network, until);
        }
        if offer.autonomous {
            let taken = self.prefix_offered(now, link, offer);
            believed &= taken != Err(DropReason::DiscoveryTableFull);
        }
        believed
    }

    /// The link's MTU for IPv6: never below 1,280, never above what the driver has.
    fn mtu_advertised(&mut self, link: LinkId, mtu: u32) {
        if mtu < u32::from(ipv6::MIN_MTU) {
            return;
        }
        if let Some(asking) = self.six.soliciting.iter_mut().find(|s| s.link == link) {
            asking.mtu = mtu;
        }
    }

    fn known_station(&mut self, now: Instant, link: LinkId, address: Ipv6Addr) -> Option<MacAddr> {
        let (answer, ask) = self.six.discovery.lookup(now, link, address);
        if let Some(ask) = ask {
            self.solicit(ask);
        }
        match answer {
            crate::neighbour::Answer::Ready(mac) => Some(mac),
            _ => None,
        }
    }

    fn hardware_address(&self, link: LinkId) -> Option<MacAddr> {
        let link = self.links.get(link)?;
        Some(MacAddr(link.endpoint.capabilities().hardware_address))
    }

    /// What waited for a neighbour leaves.
    fn send_to_found(&mut self, link: LinkId, address: Ipv6Addr, mac: MacAddr) {
        if let Some(entry) = self.links.get(link) {
            let header = select::header(entry, mac, EtherType::IPV6);
            self.send_held(link, address.into(), header);
        }
    }
}
