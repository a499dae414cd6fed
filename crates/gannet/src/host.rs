//! A host: links, addresses and routes with one TCP/IP stack.

use crate::builder::HostBuilder;
use crate::waiting::Shared;
use crate::{clock, error::fail};
use gannet_stack::tcp::TcpInfo;
use gannet_stack::{Drops, LinkId, Statistics};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A host of its own inside this process: links with addresses, routes, and a TCP/IP stack that the
/// threads of the application run while they wait. Cheap to clone; it ends when the last handle and
/// the last socket are gone, after what was written has reached its peers (or
/// [`HostBuilder::linger`] has passed).
///
/// A process can have several. `fork` is not handled: a child must make a host of its own.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let network = format!("doc-host-{}", std::process::id());
/// let host = gannet::Host::builder()
///     .channel(&network, "10.0.0.1/24")
///     .build()?;
/// assert_eq!(host.addresses(), ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
}

/// What lives as long as any handle or socket.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    background: Option<JoinHandle<()>>,
    linger: Duration,
}

/// Counts of a host since it was made.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Packets and bytes by protocol.
    pub passed: Statistics,
    /// Packets thrown away, by reason.
    pub dropped: Drops,
}

impl Host {
    /// What a host is made of, to be named one by one.
    pub fn builder() -> HostBuilder {
        HostBuilder::new()
    }

    /// Starts the background thread.
    pub(crate) fn start(shared: Arc<Shared>, linger: Duration) -> io::Result<Host> {
        let attended = shared.clone();
        let background = std::thread::Builder::new()
            .name("gannet".to_owned())
            .spawn(move || attended.attend())
            .map_err(|error| {
                let code = error.raw_os_error().unwrap_or(libc::EAGAIN);
                fail(code, "start the background thread", error.to_string())
            })?;
        let background = Some(background);
        let inner = Inner {
            shared,
            background,
            linger,
        };
        Ok(Host {
            inner: Arc::new(inner),
        })
    }

    /// Waits while addresses are being probed: until then nothing can be bound to them.
    ///
    /// # Errors
    /// `AddrInUse` when another station has one of them.
    pub(crate) fn wait_for_addresses(&self) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let deadline = clock::now() + PATIENCE;
        let busy = || {
            let shard = self.inner.shared.lock();
            shard.stack.has_tentative_addresses()
        };
        while busy() && clock::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let shard = self.inner.shared.lock();
        let Some(duplicate) = shard.stack.duplicate_addresses().first() else {
            return Ok(());
        };
        let station = match duplicate.station {
            Some(station) => format!("the station {station}"),
            None => "another station".to_owned(),
        };
        let why = format!(
            "{station} on this link has the address\n\
             try: another address of that network that is free there, or dhcp"
        );
        Err(fail(
            libc::EADDRINUSE,
            format!("be {}", duplicate.address),
            why,
        ))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// The host's addresses, each once, in the order of its links; those of the loopback, which
    /// every host has, are left out.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let shard = self.inner.shared.lock();
        let mut all = Vec::new();
        let links: Vec<LinkId> = shard.stack.link_ids().collect();
        let configs = links.iter().filter_map(|&id| shard.stack.link_config(id));
        for config in configs.filter(|config| !config.loopback) {
            for own in &config.addresses {
                if !all.contains(&own.address) {
                    all.push(own.address);
                }
            }
        }
        all
    }

    /// Whether a link or a route leads to `to`.
    pub fn has_route(&self, to: IpAddr) -> bool {
        self.inner.shared.lock().stack.has_route(to)
    }

    /// Packets and bytes by protocol, and packets thrown away by reason.
    pub fn counts(&self) -> Counts {
        let shard = self.inner.shared.lock();
        Counts {
            passed: *shard.stack.statistics(),
            dropped: shard.stack.drops().clone(),
        }
    }

    /// Whether packets have come in that no call has taken up yet, as far as that can be told
    /// without a system call: for loops that would rather act on more of them together. `false`
    /// may be wrong.
    pub fn has_more(&self) -> bool {
        self.inner.shared.lock().has_frames()
    }

    /// Number of TCP connections that were closed here and whose peer has not acknowledged
    /// everything yet: what [`HostBuilder::linger`] waits for.
    pub fn undelivered(&self) -> usize {
        self.inner.shared.lock().stack.tcp_undelivered()
    }

    /// Number of TCP connections in any state, TIME-WAIT included.
    pub fn connections(&self) -> usize {
        self.inner.shared.lock().stack.tcp_connections()
    }

    /// What is known of every TCP connection, of those too that nobody holds any more: they wait
    /// for their end to be acknowledged (FIN-WAIT, LAST-ACK), or for what may still be under way
    /// (TIME-WAIT). In no order; takes time and memory for each.
    pub fn connection_infos(&self) -> Vec<TcpInfo> {
        self.inner.shared.lock().stack.tcp_infos().collect()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let deadline = clock::now() + self.linger;
        self.shared.finish(deadline);
        self.shared.close();
        if let Some(background) = self.background.take() {
            // It has no way to panic; if it did, there is nobody left to tell.
            let _ = background.join();
        }
    }
}
