//! Whether an address is free (RFC 5227 section 2.1): questions about it, and who answered.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use gannet_link::Driver;
use gannet_wire::MacAddr;
use gannet_wire::arp::{self, Operation};

use super::layer::Ip;
use crate::link::{LinkAddress, LinkId};

/// Addresses that somebody wants to use.
#[derive(Debug, Default)]
pub(super) struct Probes {
    list: Vec<Probe>,
}

#[derive(Debug)]
struct Probe {
    link: LinkId,
    address: Ipv4Addr,
    conflict: bool,
}

impl Probes {
    pub(super) const fn new() -> Self {
        Probes { list: Vec::new() }
    }

    /// Another station has sent this packet. In conflict is who uses the address, and who asks for
    /// it with no address of its own: it is about to use it.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-2.1.1
    //# If during this period, from the beginning of the probing process until ANNOUNCE_WAIT seconds
    //# after the last probe packet is sent, the host receives any ARP packet (Request *or* Reply)
    //# on the interface where the probe is being performed, where the packet's 'sender IP address'
    //# is the address being probed for, then the host MUST treat this address as being in use by
    //# some other host, and should indicate to the configuring agent (human operator, DHCP server,
    //# etc.) that the proposed address is not acceptable.
    pub(super) fn see(&mut self, link: LinkId, packet: &arp::Packet) {
        for probe in self.list.iter_mut().filter(|p| p.link == link) {
            let asks = packet.sender_ip.is_unspecified()
                && packet.operation == Operation::Request
                && packet.target_ip == probe.address;
            probe.conflict |= asks || packet.sender_ip == probe.address;
        }
    }
}

impl<D: Driver> Ip<D> {
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.1
    //# When broadcasting an ARP request for the suggested address, the client must fill in its own
    //# hardware address as the sender's hardware address, and 0 as the sender's IP address, to
    //# avoid confusing ARP caches in other hosts on the same subnet.
    /// Asks who has `address`, and from now on notices who says so.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-1.1
    //# The 'sender hardware address' MUST contain the hardware address of the interface sending the
    //# packet.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-1.1
    //# The 'sender IP address' field MUST be set to all zeroes, to avoid polluting ARP caches in
    //# other hosts on the same link in the case where the address turns out to be already in use by
    //# another host.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-1.1
    //# The 'target IP address' field MUST be set to the address being probed.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-2.1.1
    //# The client MUST fill in the 'sender hardware address' field of the ARP Request with the
    //# hardware address of the interface through which it is sending the packet.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-2.1.1
    //# The 'sender IP address' field MUST be set to all zeroes; this is to avoid polluting ARP
    //# caches in other hosts on the same link in the case where the address turns out to be already
    //# in use by another host.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-2.1.1
    //# The 'target IP address' field MUST be set to the address being probed.
    pub(crate) fn probe(&mut self, link: LinkId, address: Ipv4Addr) {
        let list = &mut self.probes.list;
        if !list.iter().any(|p| (p.link, p.address) == (link, address)) {
            let conflict = false;
            list.push(Probe {
                link,
                address,
                conflict,
            });
        }
        let target = (MacAddr::ZERO, address);
        self.send_arp(link, Operation::Request, target, Ipv4Addr::UNSPECIFIED);
    }

    /// An address that was probed on `link` and that another station has; it is not watched any
    /// more.
    pub(crate) fn take_conflict(&mut self, link: LinkId) -> Option<Ipv4Addr> {
        let list = &mut self.probes.list;
        let at = list.iter().position(|p| p.link == link && p.conflict)?;
        Some(list.swap_remove(at).address)
    }

    /// Nobody wants to know about addresses on `link` any more.
    pub(crate) fn forget_probes(&mut self, link: LinkId) {
        self.probes.list.retain(|p| p.link != link);
    }

    /// Whether the link has exactly this address and prefix length.
    pub(crate) fn has_address(&self, link: LinkId, address: LinkAddress) -> bool {
        let link = self.links.get(link);
        link.is_some_and(|l| l.config.addresses.contains(&address))
    }

    /// Takes an address from a link; whether it had it.
    pub(crate) fn remove_address(&mut self, link: LinkId, address: IpAddr) -> bool {
        let Some(link) = self.links.get_mut(link) else {
            return false;
        };
        let before = link.config.addresses.len();
        link.config.addresses.retain(|a| a.address != address);
        let found = link.config.addresses.len() != before;
        self.epoch = self.epoch.wrapping_add(1);
        found
    }

    /// Somebody on the link wants packets of at most this many bytes; `None`: no longer.
    pub(crate) fn limit_mtu(&mut self, link: LinkId, mtu: Option<u32>) {
        let Some(link) = self.links.get_mut(link) else {
            return;
        };
        let chosen = link.config.mtu.unwrap_or(u32::MAX);
        let limit = mtu.unwrap_or(u32::MAX).min(chosen);
        if link.mtu_limit != limit {
            link.mtu_limit = limit;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }
}
