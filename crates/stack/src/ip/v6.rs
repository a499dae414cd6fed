//! IPv6 where it differs from IPv4 (RFC 8200, RFC 4861, RFC 4862).
//!
//! Not here: forwarding, redirects (counted and ignored: RFC 4861 section 8.3 lets hosts),
//! temporary addresses (RFC 8981), DHCPv6, jumbograms, zones in socket addresses.
//!
//! | file | job |
//! |---|---|
//! | `v6/input.rs` | what arrives: checks in order |
//! | `v6/chain.rs` | extension headers, and the complaints about them |
//! | `v6/fragments.rs` | fragments on their way to reassembly |
//! | `v6/own.rs` | our addresses: tentative, in use, deprecated |
//! | `v6/autoconf.rs` | link-local addresses and those made of advertised prefixes |
//! | `v6/source.rs` | the choice of a source address (RFC 6724) |
//! | `v6/routers.rs` | default routers and networks on the link, as advertised |
//! | `v6/discovery.rs` | neighbour and router discovery received |
//! | `v6/mld.rs` | multicast listener discovery |
//! | `v6/solicit.rs` | neighbour and router discovery sent, and its timers |

mod autoconf;
mod chain;
mod discovery;
mod fragments;
mod input;
mod mld;
pub(in crate::ip) mod own;
pub(in crate::ip) mod routers;
pub(in crate::ip) mod solicit;
mod source;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use gannet_base::Instant;

use crate::config::{Config, Ipv6Config};
use crate::hash::HashKey;
use crate::link::LinkId;
use crate::neighbour::{Discovery, Solicit};
use crate::timer::earliest;

pub(crate) use chain::{Complaint, QUOTE_MAX};
use own::Own;
use routers::{Routers, Soliciting};

/// Bytes of headers that are remembered for ICMP errors about what they announce. About packets
/// with more of them nothing is said.
pub(crate) const HEAD_MAX: usize = 128;

/// The headers of the packet that came in last, unless it was TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    pub(crate) bytes: [u8; HEAD_MAX],
    /// 0 when they were too long.
    pub(crate) len: usize,
    /// Where the field stands that names the payload's protocol.
    pub(crate) named_at: u32,
    /// Routers were to look at it: multicast listener discovery.
    pub(crate) router_alert: bool,
}

/// What a host knows of IPv6.
pub(super) struct Six {
    pub(super) discovery: Discovery,
    pub(super) own: Vec<Own>,
    pub(super) routers: Routers,
    /// Links on which routers are asked for, or were.
    pub(super) soliciting: Vec<Soliciting>,
    /// Hops of packets for which nobody set another number, as routers advise.
    pub(super) hop_limit: u8,
    pub(super) headers: Headers,
    pub(super) complaint: Option<Complaint>,
    /// When the timers were last looked at: lifetimes are no finer than that.
    clock: Instant,
    config: Ipv6Config,
    key: HashKey,
    /// Kept for their memory.
    asks: Vec<Solicit>,
    failed: Vec<(LinkId, Ipv6Addr)>,
}

impl Six {
    pub(super) fn new(config: &Config) -> Self {
        let key = HashKey::new(config.secret);
        Six {
            discovery: Discovery::new(key),
            own: Vec::new(),
            routers: Routers::new(),
            soliciting: Vec::new(),
            hop_limit: super::path::Path::TTL,
            headers: Headers {
                bytes: [0; HEAD_MAX],
                len: 0,
                named_at: 6,
                router_alert: false,
            },
            complaint: None,
            clock: Instant::ZERO,
            config: config.ipv6.clone(),
            key,
            asks: Vec::new(),
            failed: Vec::new(),
        }
    }

    pub(super) fn key(&self) -> &HashKey {
        &self.key
    }

    /// The time is `now`.
    #[inline]
    pub(super) fn tick(&mut self, now: Instant) {
        self.clock = now;
    }

    /// Whether there is nothing that a timer could be for.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.own.is_empty()
            && self.soliciting.is_empty()
            && self.discovery.is_empty()
            && self.routers.is_empty()
    }

    /// When the next of its timers expires.
    #[inline]
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let own = self.own.iter().map(Own::deadline).min();
        let asked = self.soliciting.iter().map(Soliciting::deadline).min();
        earliest([
            self.discovery.next_timeout(),
            own,
            asked,
            self.routers.next_timeout(),
        ])
    }
}
