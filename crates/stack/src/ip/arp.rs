//! Questions about neighbours sent and answered (RFC 826, RFC 5227).

use core::net::{IpAddr, Ipv4Addr};

use gannet_base::Instant;
use gannet_link::{Driver, Frame, Medium, Slot};
use gannet_wire::arp::{self, Operation};
use gannet_wire::{EtherType, MacAddr};

use super::layer::Ip;
use super::select::{header, is_broadcast_on};
use crate::counters::DropReason;
use crate::link::LinkId;
use crate::neighbour::{Ask, Claim};

impl<D: Driver> Ip<D> {
    /// An ARP packet: who sent it is learnt if that is safe, and a question about us is answered.
    pub(super) fn arp_arrives(
        &mut self,
        now: Instant,
        id: LinkId,
        frame: &Frame,
    ) -> Result<(), DropReason> {
        let link = self.links.get(id).ok_or(DropReason::ArpMalformed)?;
        let mut buffer = [0; arp::PACKET_LEN];
        let n = link.endpoint.peek(frame, &mut buffer);
        let parsed = arp::Packet::parse(buffer.get(..n).unwrap_or(&[]));
        let (packet, _) = parsed.map_err(|_| DropReason::ArpMalformed)?;
        let own_mac = MacAddr(link.endpoint.capabilities().hardware_address);
        let (sender, mac) = (packet.sender_ip, packet.sender_mac);
        if mac == own_mac || !mac.is_unicast() || is_broadcast_on(link, sender.into()) {
            return Err(DropReason::ArpBadSender);
        }
        self.probes.see(id, &packet);
        // Another station believes that it has our address (RFC 5227 section 2.4): counted, for
        // people to see; we keep it.
        if self.is_local(sender.into()) {
            return Err(DropReason::ArpConflict);
        }
        let to_us = self.is_local(packet.target_ip.into());
        //= https://www.rfc-editor.org/rfc/rfc5227#section-2.5
        //# From the time a host sends its first ARP Announcement, until the time it ceases using
        //# that IP address, the host MUST answer ARP Requests in the usual way required by the ARP
        //# specification [RFC826].
        //= https://www.rfc-editor.org/rfc/rfc5227#section-2.5
        //# Specifically, this means that whenever a host receives an ARP Request, that's not a
        //# conflicting ARP packet as described above in Section 2.4, where the 'target IP address'
        //# of the ARP Request is (one of) the host's own IP address(es) configured on that
        //# interface, the host MUST respond with an ARP Reply as described in RFC 826.
        if to_us && packet.operation == Operation::Request && !planted!(ArpSilent) {
            self.answer(id, &packet);
        }
        self.learn(now, id, &packet, to_us)
    }

    /// Believes the sender's claim, if somebody asked for it or will need it.
    fn learn(
        &mut self,
        now: Instant,
        link: LinkId,
        packet: &arp::Packet,
        to_us: bool,
    ) -> Result<(), DropReason> {
        let (sender, mac) = (packet.sender_ip, packet.sender_mac);
        let claim = match packet.operation {
            Operation::Reply => Claim::Reply,
            Operation::Request if to_us => Claim::RequestToUs,
            Operation::Request => Claim::Overheard,
        };
        // A sender of zeros only asks whether an address is free (RFC 5227 section 2.1.1).
        if sender.is_unspecified() {
            return Ok(());
        }
        if sender.is_multicast() || sender.is_loopback() {
            return Err(DropReason::ArpBadSender);
        }
        if !self.neighbours.claimed(now, link, (sender, mac), claim) {
            return match claim {
                Claim::Reply => Err(DropReason::ArpUnsolicited),
                Claim::RequestToUs | Claim::Overheard => Ok(()),
            };
        }
        if let Some(entry) = self.links.get(link) {
            let header = header(entry, mac, EtherType::IPV4);
            self.send_held(link, sender.into(), header);
        }
        Ok(())
    }

    fn answer(&mut self, link: LinkId, question: &arp::Packet) {
        self.send_arp(
            link,
            Operation::Reply,
            (question.sender_mac, question.sender_ip),
            question.target_ip,
        );
    }

    /// Sends a question. The sender is our address in the target's network.
    pub(super) fn ask(&mut self, ask: Ask) {
        let Ok(path) = self.path(None, ask.target.into()) else {
            return;
        };
        let IpAddr::V4(source) = path.source else {
            return;
        };
        let to = ask.to.unwrap_or(MacAddr::ZERO);
        self.send_arp(ask.link, Operation::Request, (to, ask.target), source);
    }

    /// Tells the network that we use `address` (an announcement, RFC 5227 section 2.3, once:
    /// whoever configured the address is taken to know that it is free).
    pub(super) fn announce(&mut self, link: LinkId, address: Ipv4Addr) {
        self.send_arp(link, Operation::Request, (MacAddr::ZERO, address), address);
    }

    /// Sends an ARP packet about `target`, to its station when that is known, else to all.
    pub(super) fn send_arp(
        &mut self,
        id: LinkId,
        operation: Operation,
        (target_mac, target_ip): (MacAddr, Ipv4Addr),
        sender_ip: Ipv4Addr,
    ) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let capabilities = link.endpoint.capabilities();
        if capabilities.medium != Medium::Ethernet {
            return;
        }
        let own = MacAddr(capabilities.hardware_address);
        let station = match target_mac {
            MacAddr::ZERO => MacAddr::BROADCAST,
            known => known,
        };
        let ethernet = header(link, station, EtherType::ARP);
        let ethernet = ethernet.as_slice();
        let packet = arp::Packet {
            operation,
            sender_mac: own,
            sender_ip,
            target_mac,
            target_ip,
        };
        let mut slot = Slot::new();
        let Some(bytes) = slot.inline_mut(ethernet.len() + arp::PACKET_LEN) else {
            return;
        };
        if let Some((first, rest)) = bytes.split_at_mut_checked(ethernet.len()) {
            first.copy_from_slice(ethernet);
            let _ = packet.emit(rest);
        }
        if link.endpoint.transmit(&slot).is_err() {
            self.count_drop(DropReason::LinkFull);
        }
    }
}
