//! Identifications of datagrams that are, or may be, sent in fragments.
//!
//! They must differ between datagrams under way to one destination, and say nothing to others: a
//! counter for all tells how much we send, and lets strangers count packets between two hosts
//! (robustness I10; RFC 7739 section 4.1). So every flow begins at a place of its own, known only
//! to who has the key, and counts from there with a counter that it shares with a few other flows
//! which nobody can choose (RFC 7739 section 5.3).

use core::net::IpAddr;

use gannet_wire::IpProtocol;

use crate::address;
use crate::hash::{HashKey, Purpose};

/// Counters; flows that share one skip numbers, and use no number sooner.
const COUNTERS: usize = 256;

/// The identifications given out.
pub(super) struct Idents {
    key: HashKey,
    counters: [u32; COUNTERS],
}

impl Idents {
    pub(super) const fn new(key: HashKey) -> Self {
        Idents {
            key,
            counters: [0; COUNTERS],
        }
    }

    /// The next identification; IPv4 uses its lower 16 bits.
    //= https://www.rfc-editor.org/rfc/rfc6864#section-4.3
    //# >> Sources emitting non-atomic datagrams MUST NOT repeat IPv4 ID values within one MDL for a
    //# given source address/destination address/protocol tuple.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
    //# The Identification must be different than that of any other fragmented packet sent recently*
    //# with the same Source Address and Destination Address.
    //= https://www.rfc-editor.org/rfc/rfc6864#section-4.1
    //# >> The IPv4 ID field MUST NOT be used for purposes other than fragmentation and reassembly.
    //= https://www.rfc-editor.org/rfc/rfc6864#section-4.1
    //# >> All devices that examine IPv4 headers MUST ignore the IPv4 ID field of atomic datagrams.
    //= https://www.rfc-editor.org/rfc/rfc791#section-2.3
    //# The originating protocol module of an internet datagram sets the identification field to a
    //# value that must be unique for that source-destination pair and protocol for the time the
    //# datagram will be active in the internet system.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
    //# Thus, the sender must choose the Identifier to be unique for this source, destination pair
    //# and protocol for the time the datagram (or any fragment of it) could be alive in the
    //# internet.
    pub(super) fn next(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        protocol: IpProtocol,
    ) -> u32 {
        let mut flow = [0; 33];
        let octets = [source, destination].map(address::bytes);
        for (to, from) in flow.iter_mut().zip(octets.iter().flatten()) {
            *to = *from;
        }
        // IPv6 has one space for all protocols.
        if source.is_ipv4()
            && let Some(last) = flow.last_mut()
        {
            *last = protocol.0;
        }
        let hash = self.key.hash(Purpose::FragmentIdent, &flow);
        let counter = (hash >> 32) as usize % COUNTERS;
        let Some(counter) = self.counters.get_mut(counter) else {
            return hash as u32;
        };
        *counter = counter.wrapping_add(1);
        (hash as u32).wrapping_add(*counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    //= https://www.rfc-editor.org/rfc/rfc791#section-2.3
    //= type=test
    //# The originating protocol module of an internet datagram sets the identification field to a
    //# value that must be unique for that source-destination pair and protocol for the time the
    //# datagram will be active in the internet system.
    #[test]
    fn i10_no_repeats_within_a_flow() {
        let mut idents = Idents::new(HashKey::new([1; 16]));
        let mut seen = HashSet::new();
        for _ in 0..65_536 {
            let ident = idents.next(host(1), host(2), IpProtocol::UDP);
            assert!(seen.insert(ident as u16), "repeated within 65,536");
        }
    }

    #[test]
    fn i10_flows_and_keys_say_nothing_of_each_other() {
        let mut all = HashSet::new();
        for key in 0..16 {
            let mut idents = Idents::new(HashKey::new([key; 16]));
            for last in 0..64 {
                for protocol in [IpProtocol::UDP, IpProtocol::ICMP] {
                    all.insert(idents.next(host(1), host(last), protocol) as u16);
                }
            }
        }
        // 2,048 random numbers of 16 bits: about 32 meet another.
        assert!(all.len() > 1950, "{} of 2048", all.len());
    }
}
