//! What ICMP told of paths narrower than their first link (RFC 1191).

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::ipv6;

/// No message makes a path narrower than this; Linux's `min_pmtu`.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//# A host MUST never reduce its estimate of the Path MTU below 68 octets.
pub(super) const MTU_MIN: u32 = 552;
/// How long a message is believed; Linux's `mtu_expires`.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//# An attempt to detect an increase (by sending a packet larger than the current estimate) must not
//# be done less than 5 minutes after a Packet Too Big message has been received for the given path.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//# Nodes may detect increases in PMTU, but because doing so requires sending packets larger than
//# the current estimated PMTU, and because the likelihood is that the PMTU will not have increased,
//# this must be done at infrequent intervals.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//# Hosts MAY detect increases in Path MTU, but because doing so requires sending datagrams larger
//# than the current estimated PMTU, and because the likelihood is that the PMTU will not have
//# increased, this MUST be done at infrequent intervals.
//= https://www.rfc-editor.org/rfc/rfc1191#section-3
//# An attempt to detect an increase (by sending a datagram larger than the current estimate) MUST
//# NOT be done less than 5 minutes after a Datagram Too Big message has been received for the given
//# destination, or less than 1 minute after a previous, successful attempted increase.
const EXPIRY: Duration = Duration::from_secs(600);
/// Most destinations remembered.
const ENTRIES_MAX: usize = 256;
/// RFC 1191 section 7.1: likely sizes, for routers that do not tell theirs.
const PLATEAUS: [u32; 8] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, MTU_MIN];

#[derive(Clone, Copy, Debug)]
struct Narrow {
    destination: IpAddr,
    mtu: u32,
    expires: Instant,
}

/// The narrow paths.
#[derive(Debug, Default)]
pub(super) struct PathMtus {
    list: Vec<Narrow>,
}

impl PathMtus {
    pub(super) const fn new() -> Self {
        PathMtus { list: Vec::new() }
    }

    /// The MTU to use where the link has `link_mtu`.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc8201#section-5.2
    //# Rather, a node must associate a PMTU value with some local representation of a path.
    pub(super) fn effective(&self, destination: IpAddr, link_mtu: u32) -> u32 {
        let known = self.list.iter().find(|n| n.destination == destination);
        known.map_or(link_mtu, |n| n.mtu.min(link_mtu))
    }

    /// A router says that `mtu` fits (0: it does not tell); `current` is what is used now. Returns
    /// what is to be used from now on: never more than `current`, never raised into being less
    /// than 552 unless the link itself is narrower.
    pub(super) fn reduce(
        &mut self,
        destination: IpAddr,
        mtu: u32,
        current: u32,
        now: Instant,
    ) -> u32 {
        let least = match destination {
            IpAddr::V4(_) => MTU_MIN,
            IpAddr::V6(_) => u32::from(ipv6::MIN_MTU),
        };
        let told = match mtu {
            //= https://www.rfc-editor.org/rfc/rfc1191#section-3
            //# Hosts MUST be able to deal with Datagram Too Big messages that do not include the
            //# next-hop MTU, since it is not feasible to upgrade all the routers in the Internet in
            //# any finite time.
            0 => PLATEAUS
                .into_iter()
                .find(|&p| p < current)
                .unwrap_or(MTU_MIN),
            told => told,
        };
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# A node must not reduce its estimate of the Path MTU below the IPv6 minimum link MTU on
        //# receipt of a Packet Too Big message.
        if destination.is_ipv6() && mtu < least {
            return current;
        }
        let mtu = told.max(least);
        //= https://www.rfc-editor.org/rfc/rfc8201#section-6
        //# A node, however, must not raise its estimate of the PMTU based on a Packet Too Big
        //# message, so it should not be vulnerable to this attack.
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# When a node receives a Packet Too Big message, it must reduce its estimate of the PMTU
        //# for the relevant path, based on the value of the MTU field in the message.
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# The node must reduce the size of the packets it is sending along the path.
        //= https://www.rfc-editor.org/rfc/rfc8201#section-4
        //# A node must not increase its estimate of the Path MTU in response to the contents of a
        //# Packet Too Big message.
        //= https://www.rfc-editor.org/rfc/rfc1191#section-3
        //# A host MUST not increase its estimate of the Path MTU in response to the contents of a
        //# Datagram Too Big message.
        if mtu >= current {
            return current;
        }
        self.list.retain(|n| n.destination != destination);
        if self.list.len() >= ENTRIES_MAX {
            self.list.remove(0);
        }
        let expires = now + EXPIRY;
        self.list.push(Narrow {
            destination,
            mtu,
            expires,
        });
        mtu
    }

    /// The oldest entry's end. The list is in order of expiry.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.list.first().map(|n| n.expires)
    }

    /// Every path is as wide as its link.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets what is old; whether anything was.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let old = self.list.iter().take_while(|n| n.expires <= now).count();
        self.list.drain(..old);
        old > 0
    }
}
