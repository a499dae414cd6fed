//! Our addresses: tried out (RFC 4862 section 5.4), in use, deprecated, gone.
//!
//! An address in use also stands in its link's configuration, like every other address of ours; one
//! that is being tried out does not, so nothing is accepted for it and nothing is sent from it.

use core::net::{IpAddr, Ipv6Addr};

use gannet_base::Instant;
use gannet_link::{Driver, Medium};
use gannet_wire::nd::{self, Message};

use super::super::layer::Ip;
use super::super::probe::Duplicate;
use crate::counters::DropReason;
use crate::link::{LinkAddress, LinkId};

/// Most addresses of ours on one link that were made of advertised prefixes.
pub(super) const AUTOCONF_MAX: usize = 16;
/// Other interface identifiers tried for one prefix; RFC 7217's IDGEN_RETRIES.
const RETRIES: u8 = 3;

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ip) enum Origin {
    /// Given.
    Manual,
    /// Every link's own.
    LinkLocal,
    /// Of an advertised prefix, whose leading 64 bits it has.
    Autoconf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ip) enum State {
    /// Asked for so many times; the next question, or the end of the trial.
    Tentative {
        sent: u8,
        next: Instant,
    },
    InUse,
}

/// An address of ours.
#[derive(Clone, Copy, Debug)]
pub(in crate::ip) struct Own {
    pub(in crate::ip) link: LinkId,
    pub(in crate::ip) address: Ipv6Addr,
    pub(in crate::ip) prefix_len: u8,
    pub(in crate::ip) origin: Origin,
    pub(in crate::ip) state: State,
    /// From then on it is deprecated: used only where it was already.
    pub(in crate::ip) preferred_until: Instant,
    pub(in crate::ip) valid_until: Instant,
    /// Interface identifiers tried before this one (RFC 7217's DAD_Counter).
    pub(in crate::ip) attempts: u8,
}

impl Own {
    /// An address for ever.
    pub(in crate::ip) const fn new(
        link: LinkId,
        address: Ipv6Addr,
        prefix_len: u8,
        origin: Origin,
    ) -> Self {
        Own {
            link,
            address,
            prefix_len,
            origin,
            state: State::InUse,
            preferred_until: Instant::FAR_FUTURE,
            valid_until: Instant::FAR_FUTURE,
            attempts: 0,
        }
    }

    /// When something is to be done about it.
    pub(super) fn deadline(&self) -> Instant {
        match self.state {
            State::Tentative { next, .. } => next.min(self.valid_until),
            State::InUse => self.valid_until,
        }
    }

    pub(super) fn is_tentative(&self) -> bool {
        self.state != State::InUse
    }
}

impl<D: Driver> Ip<D> {
    /// Takes an address, on an Ethernet after nobody objected.
    pub(in crate::ip) fn take_address(&mut self, own: Own) {
        if let Some(same) = self.own_mut(own.link, own.address) {
            (same.prefix_len, same.origin) = (own.prefix_len, own.origin);
            return self.list_address(own.link, own.address, own.prefix_len);
        }
        let ethernet = self.is_ethernet(own.link);
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4
        //# Whereas this document does not invalidate such implementations, this kind of
        //# "optimization" is NOT RECOMMENDED, and new implementations MUST NOT do that
        //# optimization.
        let tried = ethernet && self.six.config.dad_transmits > 0;
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4
        //# Duplicate Address Detection MUST be performed on all unicast
        //# addresses prior to assigning them to an interface, regardless of
        //# whether they are obtained through stateless autoconfiguration,
        //# DHCPv6, or manual configuration
        let state = match tried {
            true => State::Tentative {
                sent: 0,
                next: Instant::ZERO,
            },
            false => State::InUse,
        };
        // A full list is no obstacle: what comes for our addresses is taken anyway.
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.2
        //# Before sending a Neighbor Solicitation, an interface MUST join the all-nodes multicast
        //# address and the solicited-node multicast address of the tentative address.
        let _ = self.join_group(own.link, nd::solicited_node(own.address).into());
        self.six.own.push(Own { state, ..own });
        if !tried {
            self.list_address(own.link, own.address, own.prefix_len);
        }
    }

    /// Whether an address is still being tried out on any link.
    pub(crate) fn has_tentative(&self) -> bool {
        self.six.own.iter().any(Own::is_tentative)
    }

    pub(in crate::ip) fn is_ethernet(&self, link: LinkId) -> bool {
        let link = self.links.get(link);
        link.is_some_and(|l| l.endpoint.capabilities().medium == Medium::Ethernet)
    }

    pub(super) fn own_mut(&mut self, link: LinkId, address: Ipv6Addr) -> Option<&mut Own> {
        let mut own = self.six.own.iter_mut();
        own.find(|own| own.link == link && own.address == address)
    }

    /// From now on the address is in use.
    fn list_address(&mut self, id: LinkId, address: Ipv6Addr, prefix_len: u8) {
        if let Some(link) = self.links.get_mut(id) {
            let address = IpAddr::V6(address);
            link.config.addresses.retain(|a| a.address != address);
            link.config.addresses.push(LinkAddress {
                address,
                prefix_len,
            });
        }
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn drop_address(&mut self, id: LinkId, address: Ipv6Addr) {
        let is = |own: &Own| own.link == id && own.address == address;
        self.six.own.retain(|own| !is(own));
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.1
        //# In such cases the node MUST join and leave the solicited-node multicast address
        //# corresponding to the new and old addresses, respectively.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.1
        //# Note that multiple unicast addresses may map into the same solicited-node multicast
        //# address; a node MUST NOT leave the solicited-node multicast group until all assigned
        //# addresses corresponding to that multicast address have been removed.
        self.leave_group(id, nd::solicited_node(address).into());
        if let Some(link) = self.links.get_mut(id) {
            link.config.addresses.retain(|a| a.address != address);
        }
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Trials that go on or end, lifetimes that are over.
    pub(super) fn poll_own(&mut self, now: Instant) {
        for index in 0..self.six.own.len() {
            let Some(own) = self.six.own.get(index).copied() else {
                return;
            };
            if now < own.deadline() {
                continue;
            }
            if now >= own.valid_until {
                // the list is shorter now; the rest has its turn at once
                //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.4
                //# An invalid address MUST NOT be used as a source address in outgoing
                //# communications and MUST NOT be recognized as a destination on a receiving
                //# interface.
                return self.drop_address(own.link, own.address);
            }
            let State::Tentative { sent, .. } = own.state else {
                continue;
            };
            let done = sent >= self.six.config.dad_transmits;
            let next = now + self.six.discovery.times.retrans;
            let state = match done {
                true => State::InUse,
                false => State::Tentative {
                    sent: sent + 1,
                    next,
                },
            };
            if let Some(own) = self.six.own.get_mut(index) {
                own.state = state;
            }
            match done {
                true => {
                    self.list_address(own.link, own.address, own.prefix_len);
                    self.retell_groups(&own);
                }
                false => self.try_out(&own),
            }
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.2
    //# The solicitation's Target Address is set to the address being
    //# checked, the IP source is set to the unspecified address, and the IP
    //# destination is set to the solicited-node multicast address of the
    //# target address.
    fn try_out(&mut self, own: &Own) {
        let target = own.address;
        let ends = (Ipv6Addr::UNSPECIFIED, nd::solicited_node(target));
        let message = Message::NeighbourSolicitation { target };
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
        //# MUST NOT be included when the source IP address is the unspecified address.
        self.send_discovery(own.link, ends, None, &message, None);
    }

    /// Somebody else has, or tries out, the address that we try out.
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.5
    //# A tentative address that is determined to be a duplicate as described
    //# above MUST NOT be assigned to an interface, and the node SHOULD log a
    //# system management error.
    pub(super) fn is_duplicate(&mut self, link: LinkId, address: Ipv6Addr) {
        let Some(own) = self.own_mut(link, address).copied() else {
            return;
        };
        self.count_drop(DropReason::DuplicateAddress);
        self.drop_address(link, address);
        if own.origin == Origin::Manual {
            self.probes.note_duplicate(Duplicate {
                link,
                address: address.into(),
                station: None,
            });
        }
        //= https://www.rfc-editor.org/rfc/rfc7217#section-6
        //# We also note that hosts MUST limit the number of tentative addresses that are tried
        //# (rather than indefinitely try a new tentative address until the conflict is resolved).
        //= https://www.rfc-editor.org/rfc/rfc7217#section-6
        //# In those scenarios, hosts MUST NOT automatically fall back to employing other algorithms
        //# for generating Interface Identifiers.
        if own.origin != Origin::Manual && own.attempts < RETRIES {
            //= https://www.rfc-editor.org/rfc/rfc7217#section-5
            //# It MUST be initialized to 0, and incremented by 1 for each new tentative address
            //# that is configured as a result of a DAD conflict.
            let attempts = own.attempts + 1;
            let address = self.six.opaque_address(link, address, attempts);
            self.take_address(Own {
                address,
                attempts,
                ..own
            });
        }
    }
}
