//! A socket that waits for connections.

use crate::address::first_that_works;
use crate::deadline::Manners;
use crate::error::{fail, listen_failed, time_to_live};
use crate::host::{Host, Inner};
use crate::poller::Source;
use crate::poller::sealed::{Origin, Sealed};
use crate::shard::Socket;
use crate::tcp_stream::TcpStream;
use gannet_stack::CongestionControl;
use gannet_stack::address::as_seen_from;
use gannet_stack::tcp::{ListenerId, TcpOption};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

/// Connections that wait to be accepted at most, as in `std::net` on Linux.
const BACKLOG: usize = 4096;

/// How [`TcpListener::bind_with`] listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Most connections that are open and wait to be accepted, 1 to 65,535 (what lies outside
    /// counts as the nearest); 4096 by default. Further ones are left unanswered until there is
    /// room. Those still being opened are counted apart: `TcpConfig::syn_backlog`.
    pub backlog: usize,
    /// On `::`: for IPv6 alone (IPV6_V6ONLY). Not so by default.
    pub only_v6: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            backlog: BACKLOG,
            only_v6: false,
        }
    }
}

/// Waits for TCP connections; the counterpart of [`std::net::TcpListener`].
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use gannet::{Host, TcpListener};
/// let network = format!("doc-listener-{}", std::process::id());
/// let host = Host::builder().channel(&network, "10.0.0.1/24").build()?;
/// let listener = TcpListener::bind(&host, "10.0.0.1:0")?;
/// assert_ne!(listener.local_addr()?.port(), 0);
/// listener.set_nonblocking(true)?;
/// let nobody = listener.accept().unwrap_err();
/// assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TcpListener {
    socket: Arc<Listening>,
}

#[derive(Debug)]
struct Listening {
    host: Arc<Inner>,
    id: ListenerId,
    local: SocketAddr,
    manners: Manners,
    ttl: AtomicU8,
}

impl TcpListener {
    /// Listens at the first address that works (0.0.0.0: all of the host's, `::`: those of both
    /// families; port 0: a free one).
    ///
    /// # Errors
    /// `AddrInUse`; `AddrNotAvailable` when the address is not the host's.
    pub fn bind(host: &Host, address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        Self::bind_with(host, address, ListenOptions::default())
    }

    /// As [`TcpListener::bind`]; on `::` for IPv6 alone (RFC 3493's IPV6_V6ONLY), so that another
    /// may listen on 0.0.0.0 at the same port.
    ///
    /// # Errors
    /// As [`TcpListener::bind`].
    pub fn bind_only_v6(host: &Host, address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        let only_six = ListenOptions {
            only_v6: true,
            ..ListenOptions::default()
        };
        Self::bind_with(host, address, only_six)
    }

    /// As [`TcpListener::bind`], with options. Connections of a former listener that linger in
    /// TIME-WAIT are no obstacle (SO_REUSEADDR is always on).
    ///
    /// # Errors
    /// As [`TcpListener::bind`].
    pub fn bind_with(
        host: &Host,
        address: impl ToSocketAddrs,
        options: ListenOptions,
    ) -> io::Result<TcpListener> {
        let ListenOptions { backlog, only_v6 } = options;
        first_that_works(address, |at| {
            let inner = host.inner();
            let listening = inner.shared.call(|shard, _| {
                let id = match only_v6 {
                    true => shard.stack.tcp_listen_only_six(at, backlog)?,
                    false => shard.stack.tcp_listen(at, backlog)?,
                };
                Ok((id, shard.stack.tcp_listener_address(id).unwrap_or(at)))
            });
            let (id, local) = listening.map_err(|error| listen_failed(at, error))?;
            Ok(TcpListener {
                socket: Arc::new(Listening {
                    host: inner.clone(),
                    id,
                    local,
                    manners: Manners::default(),
                    ttl: AtomicU8::new(64),
                }),
            })
        })
    }

    /// The next connection, and where it comes from. Waits for one.
    ///
    /// # Errors
    /// `WouldBlock` when non-blocking and nobody is there.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let Listening {
            host, id, manners, ..
        } = &*self.socket;
        let waiting_for = Socket::Listener(*id);
        let stream = host
            .shared
            .wait(waiting_for, manners.reading(), |shard, _| {
                let Some(connection) = shard.stack.tcp_accept(*id) else {
                    return Poll::Pending;
                };
                let addresses = shard.stack.tcp_addresses(connection);
                let gone = || fail(libc::ECONNABORTED, "accept a connection", "it ended");
                Poll::Ready(addresses.ok_or_else(gone).map(|(local, peer)| {
                    // a listener on `::` sees hosts of IPv4 mapped, as std's does
                    let own = self.socket.local.ip();
                    let (local, peer) = (as_seen_from(own, local), as_seen_from(own, peer));
                    TcpStream::new(host.clone(), connection, local, peer)
                }))
            })?;
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }

    /// Every connection to come, without its address; never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None; as in std.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.local)
    }

    /// Whether [`TcpListener::accept`] returns `WouldBlock` rather than waiting.
    ///
    /// # Errors
    /// None; as in std.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        let flag = &self.socket.manners.nonblocking;
        flag.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// How many routers a packet of the connections to come may pass, 1 to 255; 64 at first.
    ///
    /// # Errors
    /// `InvalidInput` when it is out of range.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hops = time_to_live(ttl)?;
        self.socket.ttl.store(hops, Ordering::Relaxed);
        self.set_option(TcpOption::TimeToLive(hops));
        Ok(())
    }

    /// See [`TcpListener::set_ttl`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.socket.ttl.load(Ordering::Relaxed).into())
    }

    /// Type of service of the connections to come, as [`TcpStream::set_tos`].
    ///
    /// # Errors
    /// None.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.set_option(TcpOption::TypeOfService(tos));
        Ok(())
    }

    /// Congestion control of the connections to come, as [`TcpStream::set_congestion_control`].
    ///
    /// # Errors
    /// None.
    pub fn set_congestion_control(&self, control: CongestionControl) -> io::Result<()> {
        self.set_option(TcpOption::CongestionControl(control));
        Ok(())
    }

    /// Takes data in the SYNs of peers that were here before (TCP Fast Open, RFC 7413), of at most
    /// `pending` at a time that have yet to acknowledge; 0, the default: of none. Such a connection
    /// is accepted, read and written before its handshake ends. The network may deliver a SYN
    /// again when its connection is long over: only for requests that may arrive twice.
    ///
    /// # Errors
    /// None.
    pub fn set_fast_open(&self, pending: u16) -> io::Result<()> {
        self.set_option(TcpOption::FastOpen(pending));
        Ok(())
    }

    /// No segment of the connections to come has more than `bytes`, options included (at least 48),
    /// in either direction; `None`, the default: `TcpConfig::max_segment`.
    ///
    /// # Errors
    /// None.
    pub fn set_max_segment(&self, bytes: Option<u16>) -> io::Result<()> {
        self.set_option(TcpOption::MaxSegment(bytes));
        Ok(())
    }

    /// How many bytes of the connections to come may wait to be read, as
    /// [`TcpStream::set_receive_buffer`], from their first segment on.
    ///
    /// # Errors
    /// None.
    pub fn set_receive_buffer(&self, bytes: u32) -> io::Result<()> {
        self.set_option(TcpOption::ReceiveBuffer(bytes));
        Ok(())
    }

    /// For every connection from now on: see [`TcpStream::advertise_user_timeout`].
    ///
    /// # Errors
    /// None.
    pub fn advertise_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_option(TcpOption::AdvertiseUserTimeout(timeout));
        Ok(())
    }

    fn set_option(&self, option: TcpOption) {
        let Listening { host, id, .. } = &*self.socket;
        host.shared
            .call(|shard, _| shard.stack.tcp_set_listener_option(*id, option));
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// None; as in std.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        Ok(TcpListener {
            socket: self.socket.clone(),
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let id = self.id;
        self.host.shared.call(|shard, now| {
            shard.pollers.forget(Socket::Listener(id));
            shard.stack.tcp_close_listener(now, id);
        });
    }
}

impl Sealed for TcpListener {
    fn source(&self) -> Origin<'_> {
        Origin {
            host: &self.socket.host,
            socket: Socket::Listener(self.socket.id),
        }
    }
}

impl Source for TcpListener {}

/// The connections of a [`TcpListener`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}
