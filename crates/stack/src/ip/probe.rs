//! Address conflict detection of IPv4 (RFC 5227 section 2.1): ARP probes for an address before it
//! is used, and which station answered.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::Driver;
use gannet_wire::MacAddr;
use gannet_wire::arp::{self, Operation};

use super::layer::Ip;
use crate::counters::DropReason;
use crate::link::{LinkAddress, LinkId};

/// Probes for one address (RFC 5227's PROBE_NUM).
const PROBES: u8 = 3;
/// Time from one probe to the next, and from the last to the use of the address. RFC 5227 section
/// 1.1 has one to two seconds, for networks whose switches begin to forward late; a station that
/// is there answers within a millisecond, and programs do not wait seven seconds to start.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// Conflicts that are remembered for the configuring agent.
const DUPLICATES_MAX: usize = 16;

/// A given address that another station of the link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The link.
    pub link: LinkId,
    /// The address, which is not used.
    pub address: IpAddr,
    /// The station that has it, where that is known.
    pub station: Option<MacAddr>,
}

/// Addresses that are probed.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Those of DHCP's clients, which keep the time themselves.
    list: Vec<Probe>,
    /// Those given, which are used once the probes stay unanswered.
    tentative: Vec<Tentative>,
    duplicates: Vec<Duplicate>,
}

#[derive(Clone, Copy, Debug)]
struct Tentative {
    link: LinkId,
    address: LinkAddress,
    sent: u8,
    next: Instant,
    conflict: Option<MacAddr>,
}

#[derive(Debug)]
struct Probe {
    link: LinkId,
    address: Ipv4Addr,
    conflict: bool,
}

impl Probes {
    pub(super) const fn new() -> Self {
        Probes {
            list: Vec::new(),
            tentative: Vec::new(),
            duplicates: Vec::new(),
        }
    }

    /// Whether no timer runs.
    pub(super) fn is_empty(&self) -> bool {
        self.tentative.is_empty()
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.tentative.iter().map(|own| own.next).min()
    }

    pub(super) fn note_duplicate(&mut self, duplicate: Duplicate) {
        if self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(duplicate);
        }
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
        let asks = packet.sender_ip.is_unspecified() && packet.operation == Operation::Request;
        let concerns =
            |address| (asks && packet.target_ip == address) || packet.sender_ip == address;
        for probe in self.list.iter_mut().filter(|p| p.link == link) {
            probe.conflict |= concerns(probe.address);
        }
        for own in self.tentative.iter_mut().filter(|own| own.link == link) {
            if matches!(own.address.address, IpAddr::V4(address) if concerns(address)) {
                own.conflict = Some(packet.sender_mac);
                own.next = Instant::ZERO;
            }
        }
    }
}

impl<D: Driver> Ip<D> {
    /// Gives a link an address once no other station of the link says that it has it; at once
    /// where there are no other stations. `false` without the link.
    pub(crate) fn try_address(&mut self, link: LinkId, address: LinkAddress) -> bool {
        // Of IPv6, every address is tried out (RFC 4862).
        if address.address.is_ipv6() || !self.is_ethernet(link) {
            return self.add_address(link, address);
        }
        self.probes.tentative.push(Tentative {
            link,
            address,
            sent: 0,
            next: Instant::ZERO,
            conflict: None,
        });
        true
    }

    /// Probes that are due, and addresses that were probed long enough.
    pub(super) fn poll_tentative(&mut self, now: Instant) {
        let mut tentative = core::mem::take(&mut self.probes.tentative);
        tentative.retain_mut(|own| now < own.next || self.goes_on(now, own));
        self.probes.tentative = tentative;
    }

    /// The next step of probing one address; `false` when that is over.
    fn goes_on(&mut self, now: Instant, own: &mut Tentative) -> bool {
        let IpAddr::V4(address) = own.address.address else {
            return false;
        };
        if let Some(station) = own.conflict {
            self.count_drop(DropReason::DuplicateAddress);
            self.probes.note_duplicate(Duplicate {
                link: own.link,
                address: address.into(),
                station: Some(station),
            });
            return false;
        }
        if own.sent >= PROBES {
            self.add_address(own.link, own.address);
            return false;
        }
        own.sent += 1;
        own.next = now + PROBE_INTERVAL;
        let target = (MacAddr::ZERO, address);
        self.send_arp(own.link, Operation::Request, target, Ipv4Addr::UNSPECIFIED);
        true
    }

    /// Whether an address of ours is probed on any link.
    pub(crate) fn is_probing(&self) -> bool {
        !self.probes.is_empty()
    }

    /// Given addresses that other stations have.
    pub(crate) fn duplicates(&self) -> &[Duplicate] {
        &self.probes.duplicates
    }

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

    /// The client of `link` has an address.
    pub(crate) fn forget_probes(&mut self, link: LinkId) {
        self.probes.list.retain(|p| p.link != link);
    }

    /// The link is gone.
    pub(super) fn forget_tentative(&mut self, link: LinkId) {
        self.forget_probes(link);
        self.probes.tentative.retain(|own| own.link != link);
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
