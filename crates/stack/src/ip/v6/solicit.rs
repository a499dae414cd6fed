//! Neighbour and router discovery sent, and its timers.

use core::net::{IpAddr, Ipv6Addr};

use gannet_base::Instant;
use gannet_link::{Driver, Medium, Slot};
use gannet_wire::nd::{self, Message, NdOption};
use gannet_wire::{EtherType, IpProtocol, MacAddr, ipv6};

use super::super::layer::Ip;
use super::super::select;
use super::source;
use crate::counters::DropReason;
use crate::link::LinkId;
use crate::neighbour::Solicit;

/// Longest message that we send: a fixed part of 24 bytes, one option.
//= https://www.rfc-editor.org/rfc/rfc4861#section-9
//# When adding options to an ND packet, a node MUST NOT exceed the link MTU.
const MESSAGE_MAX: usize = 32;

/// The station, or stations, that a group of IPv6 is sent to.
//= https://www.rfc-editor.org/rfc/rfc2464#section-7
//# An IPv6 packet with a multicast destination address DST, consisting
//# of the sixteen octets DST[1] through DST[16], is transmitted to the
//# Ethernet multicast address whose first two octets are the value 3333
//# hexadecimal and whose last four octets are the last four octets of
//# DST.
pub(in crate::ip) fn group_station(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

impl<D: Driver> Ip<D> {
    /// Expired timers of IPv6.
    pub(in crate::ip) fn poll_six(&mut self, now: Instant) {
        self.poll_own(now);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.5
        //# When removing a router from the Default Router list, the node MUST update the
        //# Destination Cache in such a way that all entries using the router perform next-hop
        //# determination again rather than continue sending traffic to the (deleted) router.
        if self.six.routers.poll(now) {
            self.epoch = self.epoch.wrapping_add(1);
        }
        for index in 0..self.six.soliciting.len() {
            let Some(asking) = self.six.soliciting.get_mut(index) else {
                break;
            };
            if asking.is_due(now) {
                let link = asking.link;
                self.ask_for_routers(link);
            }
        }
        let mut asks = core::mem::take(&mut self.six.asks);
        let mut failed = core::mem::take(&mut self.six.failed);
        self.six.discovery.poll(now, &mut asks, &mut failed);
        for ask in asks.drain(..) {
            self.solicit(ask);
        }
        for (link, address) in failed.drain(..) {
            while let Some(frame) = self.held.pop(link, Some(address.into())) {
                self.throw_away(&frame, DropReason::NeighbourFailed);
            }
        }
        self.six.asks = asks;
        self.six.failed = failed;
    }

    /// The best source for `destination` among our addresses on `link`.
    //= https://www.rfc-editor.org/rfc/rfc6724#section-4
    //# In any case, multicast addresses and the unspecified address MUST NOT be included in a
    //# candidate set.
    //= https://www.rfc-editor.org/rfc/rfc4443#section-2.2
    //# If the node has more than one unicast address, it MUST choose the Source Address of the
    //# message as follows:
    //= https://www.rfc-editor.org/rfc/rfc4443#section-2.2
    //# the Source Address of the ICMPv6 packet MUST be a unicast address belonging to the node.
    pub(in crate::ip) fn six_source(
        &self,
        link: LinkId,
        destination: Ipv6Addr,
    ) -> Option<Ipv6Addr> {
        let own = self.six.own.iter();
        //= https://www.rfc-editor.org/rfc/rfc6724#section-4
        //# For all multicast and link-local destination addresses, the set of candidate source
        //# addresses MUST only include addresses assigned to interfaces belonging to the same link
        //# as the outgoing interface.
        //= https://www.rfc-editor.org/rfc/rfc6724#section-4
        //# For site-local unicast destination addresses, the set of candidate source addresses MUST
        //# only include addresses assigned to interfaces belonging to the same site as the outgoing
        //# interface.
        let in_use = own.filter(|own| own.link == link && !own.is_tentative());
        let candidates = in_use.map(|own| source::Candidate {
            address: own.address,
            //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.4
            //# IP and higher layers (e.g., TCP, UDP) MUST continue to accept and process datagrams
            //# destined to a deprecated address as normal since a deprecated address is still a
            //# valid address for the interface.
            deprecated: self.six.clock >= own.preferred_until,
        });
        source::choose(candidates, destination)
    }

    /// Asks who has an address.
    pub(in crate::ip) fn solicit(&mut self, ask: Solicit) {
        let Some(source) = self.six_source(ask.link, ask.target) else {
            return;
        };
        let target = ask.target;
        let destination = match ask.to {
            Some(_) => target,
            None => nd::solicited_node(target),
        };
        let message = Message::NeighbourSolicitation { target };
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.2
        //# If the solicitation is being sent to a solicited-node multicast
        //# address, the sender MUST include its link-layer address (if it has
        //# one) as a Source Link-Layer Address option.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
        //# Otherwise, on link layers that have addresses this option MUST be included in multicast
        //# solicitations and SHOULD be included in unicast solicitations.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
        //# A node MUST NOT send Neighbor Solicitations to the same neighbor more frequently than
        //# once every RetransTimer milliseconds.
        let tell = NdOption::SourceLinkAddress as fn(MacAddr) -> NdOption<'static>;
        self.send_discovery(
            ask.link,
            (source, destination),
            ask.to,
            &message,
            Some(tell),
        );
    }

    fn ask_for_routers(&mut self, link: LinkId) {
        let source = self.six_source(link, nd::ALL_ROUTERS);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.1
        //# MUST NOT be included if the Source Address is the unspecified address.
        let tell = NdOption::SourceLinkAddress as fn(MacAddr) -> NdOption<'static>;
        let tell = source.map(|_| tell);
        let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let ends = (source, nd::ALL_ROUTERS);
        self.send_discovery(link, ends, None, &Message::RouterSolicitation, tell);
    }

    /// Sends a message, to a station when that is known, else to the group. `tell`: the option in
    /// which our station is told.
    //= https://www.rfc-editor.org/rfc/rfc6980#section-5
    //# Nodes MUST NOT employ IPv6 fragmentation for sending any of the following Neighbor Discovery
    //# and SEcure Neighbor Discovery messages:
    pub(super) fn send_discovery(
        &mut self,
        id: LinkId,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        to: Option<MacAddr>,
        message: &Message,
        tell: Option<fn(MacAddr) -> NdOption<'static>>,
    ) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let capabilities = link.endpoint.capabilities();
        if capabilities.medium != Medium::Ethernet {
            return;
        }
        let own = MacAddr(capabilities.hardware_address);
        let mut bytes = [0; MESSAGE_MAX];
        let option = tell.map(|tell| tell(own));
        let options = option.as_slice();
        let Some(len) = message.emit(source, destination, options, &mut bytes) else {
            return;
        };
        let station = to.unwrap_or(group_station(destination));
        let ethernet = select::header(link, station, EtherType::IPV6);
        let ethernet = ethernet.as_slice();
        let header = ipv6::Header {
            traffic_class: 0,
            //= https://www.rfc-editor.org/rfc/rfc6437#section-3
            //# A source node that does not otherwise set the flow label MUST set its value to zero.
            flow_label: 0,
            payload_len: len as u16,
            next_header: IpProtocol::ICMPV6,
            hop_limit: nd::HOP_LIMIT,
            src: source,
            dst: destination,
        };
        let mut slot = Slot::new();
        let headers = ethernet.len() + ipv6::HEADER_LEN;
        let out = slot.inline_mut(headers + len);
        let Some((first, rest)) = out.and_then(|b| b.split_at_mut_checked(ethernet.len())) else {
            return;
        };
        first.copy_from_slice(ethernet);
        let _ = header.emit(rest);
        if let (Some(to), Some(message)) = (rest.get_mut(ipv6::HEADER_LEN..), bytes.get(..len)) {
            to.copy_from_slice(message);
        }
        if link.endpoint.transmit(&slot).is_err() {
            self.count_drop(DropReason::LinkFull);
        }
    }

    /// Nothing of IPv6 goes to `link` any more.
    pub(in crate::ip) fn forget_six(&mut self, link: LinkId) {
        self.six.discovery.forget(link);
        self.six.routers.forget(link);
        self.six.own.retain(|own| own.link != link);
        self.six.soliciting.retain(|s| s.link != link);
    }

    /// Whether a neighbour's entry says that it answers, for the choice between routers.
    pub(in crate::ip) fn six_reachable(&self, link: LinkId, address: IpAddr) -> bool {
        match address {
            IpAddr::V6(six) => self.six.discovery.seems_reachable(link, six),
            IpAddr::V4(_) => true,
        }
    }
}
