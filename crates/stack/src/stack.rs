//! A host's stack: links, ICMP, UDP and TCP put together. The order of a poll is the map of this
//! crate.
//!
//! Not here: forwarding.

mod dhcp_calls;
mod tcp_calls;
mod udp_calls;

use core::net::IpAddr;

use gannet_base::Instant;
use gannet_link::{Driver, Endpoint, Frame, LinkState};
use gannet_wire::IpProtocol;
use gannet_wire::icmpv4::Unreachable;

use crate::address::bits;
use crate::config::Config;
use crate::counters::{DropReason, Drops, Statistics};
use crate::dhcp::Dhcp;
use crate::icmp::{Icmp, Report, ReportKind};
use crate::ip::{Duplicate, Ip, Packet, Route};
use crate::link::{LinkAddress, LinkConfig, LinkId, Pressure};
use crate::tcp::{IcmpError, IcmpErrorKind, Tcp};
use crate::timer::earliest;
use crate::udp::{Delivery, Udp};

/// TCP/IP and UDP/IP over any number of links of one kind of driver.
///
/// Nothing happens by itself: the owner calls [`Stack::poll`] when a link has news and when
/// [`Stack::next_timeout`] has come, and [`Stack::flush`] after calls on sockets.
pub struct Stack<D> {
    config: Config,
    ip: Ip<D>,
    icmp: Icmp,
    udp: Udp,
    tcp: Tcp,
    dhcp: Dhcp,
    /// The link that is looked at first in the next poll.
    first: usize,
}

impl<D: Driver> Stack<D> {
    /// A stack without links.
    pub fn new(config: Config) -> Self {
        Stack {
            ip: Ip::new(&config),
            icmp: Icmp::new(&config),
            udp: Udp::new(&config),
            tcp: Tcp::new(&config),
            dhcp: Dhcp::new(&config),
            config,
            first: 0,
        }
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// One round: takes back what was sent, takes in what arrived, runs what is due, hands over
    /// what is to be sent. `now` is the one reading of the clock for all of it. Whether anything
    /// arrived or came back.
    pub fn poll(&mut self, now: Instant) -> bool {
        let completed = self.reclaim();
        let received = self.receive(now);
        self.ip.poll(now);
        while let Some(expired) = self.ip.expired_datagram(now) {
            self.icmp.fragments_missing(&mut self.ip, now, &expired);
        }
        self.dhcp.poll(&mut self.ip, now);
        if self.ip.take_neighbours_changed() {
            self.tcp.neighbours_changed();
        }
        self.udp.poll(&mut self.ip);
        self.tcp.poll(&mut self.ip, now);
        let lost = self.notice_gone_links();
        self.flush();
        completed | received | lost
    }

    /// Blocks that the links are done with.
    fn reclaim(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.ip.links.len() {
            if let Some((_, link)) = self.ip.links.at_mut(index).filter(|(_, l)| !l.gone) {
                any |= link.endpoint.reclaim() > 0;
            }
        }
        any
    }

    /// Frames from every link, at most the budget from each, another link first each time.
    fn receive(&mut self, now: Instant) -> bool {
        let count = self.ip.links.len();
        self.first = (self.first + 1).checked_rem(count).unwrap_or(0);
        let mut any = false;
        let mut frame = Frame::new();
        for step in 0..count {
            let index = (self.first + step) % count;
            let mut budget = self.budget(index);
            let mut heard = false;
            while let Some((id, link)) = self.ip.links.at_mut(index)
                && link.endpoint.receive(&mut frame, &mut budget)
            {
                heard = true;
                self.input(now, id, &mut frame);
            }
            if let Some((_, link)) = self.ip.links.at_mut(index) {
                link.heard = heard;
                if heard || link.pressure != Pressure::None {
                    self.tcp.look_at_memory(&mut self.ip, index);
                }
            }
            any |= heard;
        }
        any
    }

    /// Frames to take from a link now: no more than its memory has room for before somebody looks
    /// again whether that runs short, once in a poll.
    fn budget(&mut self, index: usize) -> usize {
        let most = self.config.receive_budget;
        let Some((_, link)) = self.ip.links.at_mut(index) else {
            return most;
        };
        let (blocks, free) = (link.endpoint.pool.blocks(), link.endpoint.pool.available());
        let room = free.saturating_sub(blocks / 8).max(blocks / 16);
        most.min(room.max(16)).max(1)
    }

    /// One frame: IP first, then whom it is for.
    #[inline]
    fn input(&mut self, now: Instant, link: LinkId, frame: &mut Frame) {
        let Some((packet, protocol)) = self.ip.arrives(now, link, frame) else {
            return self.answer_for(now);
        };
        let ip = &mut self.ip;
        match protocol {
            IpProtocol::TCP => self.tcp.segment_arrives(ip, now, &packet, frame),
            IpProtocol::UDP => {
                if self.dhcp.arrives(ip, now, &packet, frame) {
                    return;
                }
                if self.udp.arrives(ip, &packet, frame) == Delivery::NoSocket {
                    self.nobody_takes(now, &packet, Unreachable::PORT, frame);
                }
            }
            IpProtocol::IGMP if packet.source.is_ipv4() => ip.igmp_arrives(now, &packet, frame),
            IpProtocol::ICMPV6 if packet.source.is_ipv6() => {
                if let Some(report) = self.icmp.six_arrives(ip, now, &packet, frame) {
                    self.icmp_error(now, &report);
                }
            }
            IpProtocol::ICMP if packet.source.is_ipv4() => {
                if let Some(report) = self.icmp.arrives(ip, now, &packet, frame) {
                    self.icmp_error(now, &report);
                }
            }
            _ => {
                ip.count_drop(DropReason::IpProtocol);
                self.nobody_takes(now, &packet, Unreachable::PROTOCOL, frame);
            }
        }
    }

    /// The packet is gone; its sender may have to be told why.
    fn answer_for(&mut self, now: Instant) {
        if let Some(complaint) = self.ip.take_complaint() {
            self.icmp.complain(&mut self.ip, now, &complaint);
        }
    }

    /// A packet for nobody: its sender is told.
    #[cold]
    fn nobody_takes(&mut self, now: Instant, packet: &Packet, code: Unreachable, frame: &Frame) {
        let ip = &mut self.ip;
        self.icmp.unreachable(ip, now, packet, code, frame);
        if let Some(endpoint) = ip.endpoint(packet.link) {
            endpoint.release_frame(frame);
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.1
    //# A Destination Unreachable message that is received MUST be reported to the transport layer.
    fn icmp_error(&mut self, now: Instant, report: &Report) {
        if report.protocol == IpProtocol::UDP {
            self.udp.icmp_error(&mut self.ip, now, report);
            return;
        }
        let error = IcmpError {
            kind: match report.kind {
                ReportKind::FragmentationNeeded(mtu) => IcmpErrorKind::FragmentationNeeded(mtu),
                ReportKind::Unreachable(code) => IcmpErrorKind::Unreachable(code),
                ReportKind::Soft => IcmpErrorKind::Soft,
            },
            local: report.local,
            remote: report.remote,
            seq: report.seq,
        };
        self.tcp.icmp_error(&mut self.ip, now, &error);
    }

    /// Links whose other side is gone, once nothing more comes out of them: whoever used them is
    /// told. They stay, so that what arrived can be read, until [`Stack::remove_link`].
    fn notice_gone_links(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.ip.links.len() {
            let Some((id, link)) = self.ip.links.at_mut(index) else {
                break;
            };
            if link.gone || link.heard || link.endpoint.state() != LinkState::Gone {
                continue;
            }
            link.gone = true;
            any = true;
            self.tcp.link_gone(&mut self.ip, id);
            self.udp.link_lost(&mut self.ip, id);
            self.ip.forget_link(id);
            if let Some(endpoint) = self.ip.endpoint(id) {
                endpoint.pool.complete_all();
            }
        }
        any
    }

    /// Hands over everything that was sent.
    pub fn flush(&mut self) {
        for index in 0..self.ip.links.len() {
            if let Some((_, link)) = self.ip.links.at_mut(index) {
                link.endpoint.flush();
            }
        }
        self.tcp.flushed(&mut self.ip);
    }

    /// When [`Stack::poll`] must be called at the latest, whatever the links say; `None`: nothing
    /// is waited for.
    pub fn next_timeout(&self) -> Option<Instant> {
        earliest([
            self.ip.next_timeout(),
            self.tcp.next_timeout(),
            self.dhcp.next_timeout(),
        ])
    }

    /// Asks every link to wake its owner. `false`: one of them has work, none will wake; poll
    /// again. After `true`, and sleeping, call [`Stack::disarm`].
    pub fn arm(&mut self) -> bool {
        for index in 0..self.ip.links.len() {
            let Some((_, link)) = self.ip.links.at_mut(index) else {
                break;
            };
            // A link known to be gone would forever say that it has something to tell.
            if !link.gone && !link.endpoint.driver.arm() {
                for earlier in 0..index {
                    if let Some((_, link)) = self.ip.links.at_mut(earlier) {
                        link.endpoint.driver.disarm();
                    }
                }
                return false;
            }
        }
        true
    }

    /// Awake again.
    pub fn disarm(&mut self) {
        for index in 0..self.ip.links.len() {
            if let Some((_, link)) = self.ip.links.at_mut(index) {
                link.endpoint.driver.disarm();
            }
        }
    }

    /// Adds a link; on an Ethernet its addresses are announced.
    pub fn add_link(&mut self, endpoint: Endpoint<D>, config: LinkConfig) -> LinkId {
        self.ip.add_link(endpoint, config)
    }

    /// Removes a link and gives its endpoint back, with nothing under way. Connections that used it
    /// fail; datagrams that came by it and were not read are lost.
    pub fn remove_link(&mut self, _now: Instant, id: LinkId) -> Option<Endpoint<D>> {
        self.ip.links.get(id)?;
        self.tcp.link_removed(&mut self.ip, id);
        self.udp.link_lost(&mut self.ip, id);
        self.udp.link_removed(&mut self.ip, id);
        self.ip.forget_link(id);
        self.dhcp.forget(id);
        let mut link = self.ip.links.remove(id)?;
        link.endpoint.pool.close(&mut link.small);
        let mut endpoint = link.endpoint;
        endpoint.pool.complete_all();
        Some(endpoint)
    }

    /// Whether anything that came by a link waits to be read: a link that is gone is worth keeping
    /// until it was.
    pub fn has_unread(&mut self, id: LinkId) -> bool {
        self.tcp.has_unread(id) || self.udp.has_unread(id)
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> Option<&Endpoint<D>> {
        self.ip.links.get(id).map(|l| &l.endpoint)
    }

    /// A link.
    pub fn link_mut(&mut self, id: LinkId) -> Option<&mut Endpoint<D>> {
        self.ip.endpoint(id)
    }

    /// What a link was given: addresses and peer.
    pub fn link_config(&self, id: LinkId) -> Option<&LinkConfig> {
        self.ip.links.get(id).map(|l| &l.config)
    }

    /// Every link, in the order they were added.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> {
        self.ip.links.iter().map(|(id, _)| id)
    }

    /// The link that is `number`th among all that this host ever had, the first being 1.
    pub fn link_numbered(&self, number: u32) -> Option<LinkId> {
        self.link_ids().find(|id| id.zone() == number)
    }

    /// Gives a link one more address, or an address another prefix length; `false` without the
    /// link.
    pub fn add_address(&mut self, link: LinkId, address: LinkAddress) -> bool {
        self.ip.add_address(link, address)
    }

    /// As [`Stack::add_address`], on an Ethernet after no other station of the link said that it
    /// has the address (RFC 5227, RFC 4862); see [`Stack::duplicate_addresses`].
    pub fn try_address(&mut self, link: LinkId, address: LinkAddress) -> bool {
        self.ip.try_address(link, address)
    }

    /// Addresses given to links that other stations have, and that are not used therefore.
    pub fn duplicate_addresses(&self) -> &[Duplicate] {
        self.ip.duplicates()
    }

    /// Whether a link, a route or a default router leads to `to`.
    pub fn has_route(&self, to: IpAddr) -> bool {
        self.ip.path(None, to).is_ok()
    }

    /// Lets routers of a link say which addresses of IPv6 we have on it, which networks are on it
    /// and who leads elsewhere (RFC 4861, RFC 4862). On an Ethernet; other links have no routers.
    pub fn autoconfigure(&mut self, link: LinkId) {
        self.ip.autoconfigure(link);
    }

    /// Whether an address of ours is still being tried out: whether others have it is being asked.
    pub fn has_tentative_addresses(&self) -> bool {
        self.ip.has_tentative() || self.ip.is_probing()
    }

    /// Leads packets to a network through `link`, to `gateway` or, if that is `None`, directly. The
    /// longest prefix decides; networks of the links' own addresses need no route.
    pub fn add_route(
        &mut self,
        network: IpAddr,
        prefix_len: u8,
        gateway: Option<IpAddr>,
        link: LinkId,
    ) {
        self.ip.add_route(Route {
            network,
            prefix_len: prefix_len.min(bits(network)),
            gateway,
            link,
        });
    }

    /// Takes a route back; whether there was one.
    pub fn remove_route(&mut self, network: IpAddr, prefix_len: u8, link: LinkId) -> bool {
        let prefix_len = prefix_len.min(bits(network));
        self.ip.remove_route(network, prefix_len, link)
    }

    /// Whether `address` is one of ours.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.ip.is_local(address)
    }

    /// Everything below the transports.
    #[cfg(test)]
    pub(crate) fn ip(&self) -> &Ip<D> {
        &self.ip
    }

    /// Packets thrown away, by reason.
    pub fn drops(&self) -> &Drops {
        &self.ip.drops
    }

    /// Packets and bytes by protocol.
    pub fn statistics(&self) -> &Statistics {
        &self.ip.statistics
    }
}
