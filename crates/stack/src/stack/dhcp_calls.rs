//! The calls on DHCP clients: see [`crate::dhcp`], which does the work.

use core::net::Ipv4Addr;

use gannet_base::Instant;
use gannet_link::Driver;

use super::Stack;
use crate::config::ClientIdentifier;
use crate::dhcp::{Lease, StateName};
use crate::link::LinkId;

impl<D: Driver> Stack<D> {
    /// From the next poll on, a DHCP client looks for an address for `link`, keeps it as long as it
    /// may, and gives the link its default route and MTU; `previous` is asked for first. Servers
    /// know it by `identifier`, without one by the link's hardware address. `false` without the
    /// link, or if it is no Ethernet.
    pub fn dhcp_start(
        &mut self,
        link: LinkId,
        previous: Option<Ipv4Addr>,
        identifier: Option<ClientIdentifier>,
    ) -> bool {
        self.dhcp.start(&self.ip, link, previous, identifier)
    }

    /// What a link's DHCP client was granted and uses.
    pub fn dhcp_lease(&self, link: LinkId) -> Option<&Lease> {
        self.dhcp.lease(link)
    }

    /// What a link's DHCP client does; `None` without one.
    pub fn dhcp_state(&self, link: LinkId) -> Option<StateName> {
        self.dhcp.state(link)
    }

    /// Whether a lease came or went since the last call.
    pub fn dhcp_take_changed(&mut self) -> bool {
        self.dhcp.take_changed()
    }

    /// Gives a link's address back to the server, and stops using it; `false` when the link has no
    /// DHCP client.
    pub fn dhcp_release(&mut self, now: Instant, link: LinkId) -> bool {
        let found = self.dhcp.release(link);
        self.dhcp.poll(&mut self.ip, now);
        self.flush();
        found
    }
}
