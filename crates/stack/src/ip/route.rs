//! The routing table: what the links' own addresses do not say.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::address::{contains, mask};
use crate::link::{LinkAddress, LinkId};

/// A network that is reached through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network's address.
    pub network: IpAddr,
    /// Its leading bits, 0 (the default route) to 32 or 128.
    pub prefix_len: u8,
    /// Who takes the packets; `None`: the destination is a neighbour itself.
    pub gateway: Option<IpAddr>,
    /// Where they leave.
    pub link: LinkId,
}

/// All routes, longest prefix first.
#[derive(Debug, Default)]
pub(super) struct Routes {
    list: Vec<Route>,
}

impl Routes {
    pub(super) const fn new() -> Self {
        Routes { list: Vec::new() }
    }

    /// Adds a route, or replaces the one to the same network by the same link.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.6
    //# The following information MUST be configurable:
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.6
    //# A manual method of entering this configuration data MUST be provided.
    pub(super) fn add(&mut self, route: Route) {
        self.remove(route.network, route.prefix_len, route.link);
        let at = self
            .list
            .partition_point(|r| r.prefix_len >= route.prefix_len);
        self.list.insert(at, route);
    }

    pub(super) fn remove(&mut self, network: IpAddr, prefix_len: u8, link: LinkId) -> bool {
        let before = self.list.len();
        self.list
            .retain(|r| (r.network, r.prefix_len, r.link) != (network, prefix_len, link));
        self.list.len() != before
    }

    pub(super) fn forget(&mut self, link: LinkId) {
        self.list.retain(|r| r.link != link);
    }

    /// The routes that lead to `destination`, longest prefix first.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.2
    //# When there is no route cache entry for the destination host address (and the destination is
    //# not on the connected network), the IP layer MUST pick a gateway from its list of "default"
    //# gateways.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.2
    //# The IP layer MUST support multiple default gateways.
    pub(super) fn to(&self, destination: IpAddr) -> impl Iterator<Item = &Route> {
        self.list
            .iter()
            .filter(move |r| contains(r.network, r.prefix_len, destination))
    }
}

/// Whether `address` is the broadcast address of a network of ours. Networks of one or two
/// addresses have none (RFC 3021), and IPv6 has none at all.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.6
//# A host MUST recognize any of these forms in the destination address of an incoming datagram.
pub(super) const fn is_broadcast_of(own: &LinkAddress, address: IpAddr) -> bool {
    let host = !mask(own.prefix_len);
    match address {
        IpAddr::V4(four) => {
            own.prefix_len < 31
                && contains(own.address, own.prefix_len, address)
                && four.to_bits() & host == host
        }
        IpAddr::V6(_) => false,
    }
}
