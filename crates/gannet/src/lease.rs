//! Addresses granted by a DHCP server, as people see them.

use crate::clock;
use crate::deadline::deadline;
use crate::host::Host;
use crate::shard::{Shard, Socket};
use crate::waiting::{Habit, Patience};
use gannet_base::Instant;
use gannet_stack::LinkId;
use std::io;
use std::net::Ipv4Addr;
use std::task::Poll;
use std::time::Duration;

/// What a DHCP server granted a link, in use until it is replaced or expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The host's address.
    pub address: Ipv4Addr,
    /// Leading bits that are the network's.
    pub prefix_len: u8,
    /// Routers, the preferred first; that one is the gateway.
    pub routers: Vec<Ipv4Addr>,
    /// Name servers, the preferred first. Gannet asks none itself.
    pub dns_servers: Vec<Ipv4Addr>,
    /// The MTU that the server wants, in bytes.
    pub mtu: Option<u16>,
    /// The server.
    pub server: Ipv4Addr,
    /// How long it lasts if it is not renewed, which happens by itself; `None`: for ever.
    pub remaining: Option<Duration>,
}

impl Lease {
    fn new(lease: &gannet_stack::dhcp::Lease, now: Instant) -> Lease {
        let ends = lease.expires_at != Instant::FAR_FUTURE;
        Lease {
            address: lease.address,
            prefix_len: lease.prefix_len,
            routers: lease.routers.clone(),
            dns_servers: lease.dns_servers.clone(),
            mtu: lease.mtu,
            server: lease.server,
            remaining: ends.then(|| lease.expires_at - now),
        }
    }
}

impl Host {
    /// What DHCP servers have granted, in the order of the links whose address is `dhcp`.
    pub fn leases(&self) -> Vec<Lease> {
        leases(&self.inner().shared.lock(), clock::now())
    }

    /// The first lease, once there is one.
    ///
    /// # Errors
    /// `WouldBlock` when none has been granted within `at_most`.
    pub fn wait_for_lease(&self, at_most: Duration) -> io::Result<Lease> {
        let habit = Habit::default();
        let wait = (Patience::Until(deadline(Some(at_most))), &habit);
        let shared = &self.inner().shared;
        shared.wait(Socket::Leases, wait, |shard, now| {
            match leases(shard, now).into_iter().next() {
                Some(lease) => Poll::Ready(Ok(lease)),
                None => Poll::Pending,
            }
        })
    }

    /// Gives every lease back to its server and stops using it. Without this call a lease just runs
    /// out when the host is gone, and the same host is likely to get the same address again.
    pub fn release_leases(&self) {
        self.inner().shared.call(|shard, now| {
            let links: Vec<LinkId> = shard.stack.link_ids().collect();
            for link in links {
                shard.stack.dhcp_release(now, link);
            }
        });
    }
}

fn leases(shard: &Shard, now: Instant) -> Vec<Lease> {
    let links = shard.stack.link_ids();
    let granted = links.filter_map(|link| shard.stack.dhcp_lease(link));
    granted.map(|lease| Lease::new(lease, now)).collect()
}
